package inspect

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"urltree/internal/archive"
	"urltree/internal/faultfs"
	"urltree/iut"
	"urltree/storage/record"
)

// TestArchiveFileFails: a file of the archive that is not there is an error, unlike a page that is
// not there, which is left out.
func TestArchiveFileFails(t *testing.T) {
	i := sample(t)
	for _, opens := range []bool{false, true} {
		err := i.archivePages(t.Context(), &part{}, func(_ *Inspector, _ *Version, p *archive.Page) error {
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
		for _, most := range []int64{mostRead, math.MaxInt64} { // as for the text alone, and with the HTML
			err := pages.read(i.Tree, iut.FactsOf(r), most)
			got := pages.text(r)
			if err != nil || len(got) != tt.want || !strings.HasPrefix(tt.text, got) {
				t.Errorf("%s: %d bytes, %v, want %d", tt.name, len(got), err, tt.want)
			}
		}
	}
	gone := &record.Record{Row: record.Row{URL: "https://example.org/gone"}, Page: record.Page{Media: "text/html"}}
	err := pages.read(i.Tree, iut.FactsOf(gone), mostRead)
	if got := pages.text(gone); got != "" || err != nil {
		t.Errorf("gone: %q, %v", got, err)
	}
}

// TestPagesUnread: an export of pages without their text or HTML does not look at the pages. With
// them it opens each once, and one that is gone has neither.
func TestPagesUnread(t *testing.T) {
	i := sample(t)
	root := i.Tree.Root()
	if err := i.Tree.Close(); err != nil {
		t.Fatal(err)
	}
	disk, err := iut.OpenDisk(root, iut.SyncNone)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	files := faultfs.Count(disk)
	if i.Tree, err = iut.Open(root, iut.Options{FS: files}); err != nil {
		t.Fatal(err)
	}
	defer i.Tree.Close()
	lines := func(columns, prefix string) (string, int) {
		t.Helper()
		before := len(files.Calls())
		text, err := answer(i, "export", "-what", "pages", "-columns", columns, prefix)
		if err != nil {
			t.Error(err)
		}
		opened := 0
		for _, call := range files.Calls()[before:] {
			if strings.HasPrefix(call, "open") && strings.HasSuffix(call, "content.html") {
				opened++
			}
		}
		return text, opened
	}
	before, opened := lines("", "")
	if strings.Count(before, "\n") != 3 || opened != 0 {
		t.Errorf("%q, of %d pages", before, opened)
	}
	if text, opened := lines("text,html", ""); strings.Count(text, "null") != 0 || opened != 3 {
		t.Errorf("%q, of %d pages", text, opened)
	}
	if err := os.RemoveAll(filepath.Join(root, "pr-https")); err != nil {
		t.Fatal(err)
	}
	if after, _ := lines("", ""); after != before {
		t.Errorf("without the folders: %q, want %q", after, before)
	}
	const gone = `{"url":"https://example.org/docs/","text":null,"html":null}` + "\n"
	if got, _ := lines("url,text,html", "https://example.org/docs/"); !strings.HasPrefix(got, gone) {
		t.Errorf("texts without the folders: %q, want %q", got, gone)
	}
}
