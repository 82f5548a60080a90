package inspect

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"time"

	"urltree/internal/archive"
	"urltree/internal/warc"
	"urltree/iut"
	"urltree/storage/record"
)

// exportWARC writes the stored pages below a folder as records of a WARC file, in the order of the
// tree. A page whose folder is not whole any more is left out: crawler check names it.
func (i *Inspector) exportWARC(ctx context.Context, format string, in below, w *bufio.Writer) error {
	c := warc.Fast
	if format == "plain" {
		c = warc.None
	}
	out, err := archive.NewWriter(w, c, time.Now(), warc.Header{
		{Name: "software", Value: i.Software},
		{Name: "format", Value: "WARC file version 1.1"},
		{Name: "conformsTo", Value: "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"},
		{Name: "robots", Value: i.Tree.Format().Links.Robots},
	})
	if err != nil {
		return err
	}
	return i.Index.Records(ctx, in.key, func(r record.Record, damage error) error {
		if damage != nil || r.State != record.Stored || in.origin != "" && record.Origin(r.URL) != in.origin {
			return nil
		}
		err := out.Page(&archive.Page{Record: &r, Open: func() (io.ReadCloser, error) {
			body, _, err := i.Tree.Content(r.URL)
			return body, err
		}})
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, iut.ErrTorn) {
			return nil
		}
		return err
	})
}
