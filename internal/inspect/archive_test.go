package inspect

import (
	"errors"
	"io/fs"
	"testing"

	"urltree/internal/archive"
)

// TestArchiveFileFails: a file of the archive that is not there is an error, unlike a page that is
// not there, which is left out.
func TestArchiveFileFails(t *testing.T) {
	i := sample(t)
	for _, opens := range []bool{false, true} {
		err := i.archivePages(t.Context(), below{}, func(p *archive.Page) error {
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
