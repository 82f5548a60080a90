package inspect

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"urltree/internal/archive"
	"urltree/iut"
	"urltree/storage/record"
)

// TestArchiveFileFails: a file of the archive that is not there is an error, unlike a page that is
// not there, which is left out.
func TestArchiveFileFails(t *testing.T) {
	i := sample(t)
	for _, opens := range []bool{false, true} {
		err := i.archivePages(t.Context(), &part{}, func(p *archive.Page) error {
			if opens {
				body, _, err := p.Open()
				if err != nil {
					return err
				}
				if err := body.Close(); err != nil {
					return err
				}
			}
			return fs.ErrNotExist
		})
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("opens %v: %v, want ErrNotExist", opens, err)
		}
	}
}

// TestTextBounds: of a large page the first part is read, and of a long text the first part kept; a
// page that is gone has none.
func TestTextBounds(t *testing.T) {
	i := sample(t)
	var pages pageReader
	for _, tt := range []struct {
		name, before, text string
		want               int
	}{
		{"small", "", "x", 1},
		{"much text", "", strings.Repeat("x", mostText+1), mostText},
		{"text at the bound", strings.Repeat(" ", mostRead-1), "xy", 1},
		{"text behind it", strings.Repeat(" ", mostRead), "x", 0},
	} {
		facts := iut.Facts{URL: "https://example.org/" + strings.ReplaceAll(tt.name, " ", "-")}
		facts.Page = record.Page{Bytes: int64(len(tt.before) + len(tt.text)), Media: "text/html", Charset: "utf-8", Flags: "-"}
		if _, err := i.Tree.Store(&iut.Page{Facts: facts, Body: []byte(tt.before + tt.text)}); err != nil {
			t.Fatal(err)
		}
		r := &record.Record{Row: record.Row{URL: facts.URL}, Page: facts.Page}
		err := pages.read(i.Tree, r, mostRead)
		got := pages.text(r)
		if err != nil || len(got) != tt.want || !strings.HasPrefix(tt.text, got) {
			t.Errorf("%s: %d bytes, %v, want %d", tt.name, len(got), err, tt.want)
		}
	}
	gone := &record.Record{Row: record.Row{URL: "https://example.org/gone"}, Page: record.Page{Media: "text/html"}}
	err := pages.read(i.Tree, gone, mostRead)
	if got := pages.text(gone); got != "" || err != nil {
		t.Errorf("gone: %q, %v", got, err)
	}
}

// TestPagesUnread: an export of pages without their text or HTML does not look at the pages, and of
// those that are gone it has the rest.
func TestPagesUnread(t *testing.T) {
	i := sample(t)
	before, err := answer(i, "export", "-what", "pages")
	if err != nil || strings.Count(before, "\n") != 3 {
		t.Fatalf("%q, %v", before, err)
	}
	if err := os.RemoveAll(filepath.Join(i.Tree.Root(), "pr-https")); err != nil {
		t.Fatal(err)
	}
	if after, err := answer(i, "export", "-what", "pages"); after != before || err != nil {
		t.Errorf("without the folders: %q, %v, want %q", after, err, before)
	}
	const gone = `{"url":"https://example.org/docs/","text":null,"html":null}` + "\n"
	if got, err := answer(i, "export", "-what", "pages", "-columns", "url,text,html", "https://example.org/docs/"); !strings.HasPrefix(got, gone) || err != nil {
		t.Errorf("texts without the folders: %q, %v, want %q", got, err, gone)
	}
}
