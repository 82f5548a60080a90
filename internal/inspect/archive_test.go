package inspect

import (
	"errors"
	"io/fs"
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
	var text pageText
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
		got, err := text.of(i.Tree, &record.Record{Row: record.Row{URL: facts.URL}, Page: facts.Page})
		if err != nil || len(got) != tt.want || !strings.HasPrefix(tt.text, got) {
			t.Errorf("%s: %d bytes, %v, want %d", tt.name, len(got), err, tt.want)
		}
	}
	got, err := text.of(i.Tree, &record.Record{Row: record.Row{URL: "https://example.org/gone"}})
	if got != "" || err != nil {
		t.Errorf("gone: %q, %v", got, err)
	}
}
