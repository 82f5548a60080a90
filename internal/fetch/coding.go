package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"

	"urltree/internal/coding"
)

const (
	acceptEncoding = "gzip, br, zstd, deflate"
	acceptWire     = "gzip, br" // with Options.Wire
)

// A coder is what one goroutine at a time decodes by, for use by the next one. Its memory is in no
// budget, so there are few coders, and none is held while a host is waited for.
type coder struct {
	scratch []byte
	coding.Decoder
}

func (d *coder) close() {
	d.Close()
	d.scratch = nil
}

// decode undoes the codings of a body that has arrived.
func (c *Client) decode(w *watch, codings []string, encoded *Body, o filling) (body *Body, cut bool, err error) {
	if encoded.Len() == 0 {
		return new(Body), false, nil
	}
	var d *coder
	err = w.pause(func(ctx context.Context) error {
		select {
		case d = <-c.coders:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if err != nil {
		return nil, false, err
	}
	if body = c.whole(d, codings, encoded, o.limit); body != nil {
		c.coders <- d
		return body, false, nil
	}
	reuse := false
	defer func() {
		if !reuse { // large windows, several layers, or a decoder that failed
			d.close()
		}
		c.coders <- d
	}()
	if d.scratch == nil {
		d.scratch = make([]byte, firstBuffer)
	}
	o.size, o.coded, o.wait, o.scratch = -1, false, nil, d.scratch // holding the encoded body, it must not wait for the budget
	body, cut, err = c.fill(decoding{d.Reader(codings, bytes.NewReader(encoded.Bytes()))}, o)
	reuse = err == nil && body.Len() <= maxBuffer && len(codings) == 1
	return body, cut, err
}

// whole decodes a body that is one member of gzip, which is most that are coded, at once into a
// buffer of its size. It returns nil if it is not, or if there is no such buffer.
func (c *Client) whole(d *coder, codings []string, encoded *Body, limit int64) *Body {
	src := encoded.Bytes()
	size, ok := coding.GzipSize(src)
	if !ok || len(codings) != 1 || codings[0] != "gzip" || size == 0 || size > min(limit, maxBuffer) {
		return nil
	}
	budget, n := c.opts.Bodies, bufferSize(size)
	take := budget.takeMore
	if n <= firstBuffer {
		take = budget.take
	}
	p := take(n)
	if p == nil {
		return nil
	}
	body := &Body{budget: budget, mem: p, size: size}
	body.held.Store(n)
	if !d.Gzip((*p)[:size], src) {
		body.Release()
		return nil
	}
	body.digest = sha256.Sum256((*p)[:size])
	return body
}

// decoding replaces the errors of a decoder by those of this package: a coded body that ends early
// is a broken answer, from which KeepBroken keeps what it can, and any other error is a wrong one.
type decoding struct{ src io.Reader }

func (d decoding) Read(p []byte) (int, error) {
	n, err := d.src.Read(p)
	if err != nil && err != io.EOF && !errors.Is(err, io.ErrUnexpectedEOF) {
		err = &Error{Coding, false, err}
	}
	return n, err
}
