package inspect

import (
	"bytes"
	"errors"
	"io"
	"io/fs"

	"urltree/internal/article"
	"urltree/internal/extract"
	"urltree/iut"
	"urltree/storage/record"
)

// A pageReader reads stored pages, one after the other, in the same memory.
type pageReader struct {
	main bool // texts are those of the article
	body bytes.Buffer
	out  []byte
}

// What a text is, as -text says it: all that a page shows, or that of its article.
const (
	plainText = "plain"
	mainText  = "main"
)

// Bounds of the text of a page, in bytes.
const (
	mostRead = 8 << 20 // of the page, the first ones
	mostText = 1 << 20
)

// read reads a stored page, or so many bytes of it. One that is gone is as if it were empty.
func (p *pageReader) read(tree *iut.Tree, at iut.Facts, most int64) error {
	if p.body.Cap() > mostRead {
		p.body = bytes.Buffer{} // most pages need less
	}
	p.body.Reset()
	in, err := tree.Content(at)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, iut.ErrTorn) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = p.body.ReadFrom(io.LimitReader(in, most))
	return errors.Join(err, in.Close())
}

// text returns the text of the page that was read; "": it has none.
func (p *pageReader) text(r *record.Record) string {
	body := p.body.Bytes()
	fn := extract.AppendText
	if p.main {
		fn = article.AppendText
	}
	p.out = fn(p.out[:0], factsOf(r), body[:min(len(body), mostRead)], mostText)
	return string(p.out)
}

// html returns the page that was read in UTF-8, if it is HTML or XHTML, else "".
func (p *pageReader) html(r *record.Record) string {
	return string(extract.InUTF8(factsOf(r), p.body.Bytes()))
}

func factsOf(r *record.Record) extract.Facts {
	return extract.Facts{Media: r.Media, Charset: r.Charset}
}
