package fetch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

const (
	acceptEncoding = "gzip, br, zstd, deflate"
	maxCodings     = 3       // one over the other
	maxWindow      = 8 << 20 // bytes of a zstd window, as its standard advises; brotli has at most 16 MiB by itself
)

// parseCodings reads Content-Encoding; the last coding is the outermost one. A word that names no
// coding, such as none, utf-8 or a media type, cannot have been applied: it is passed over.
func parseCodings(headers []string) ([]string, error) {
	var codings []string
	for _, h := range headers {
		for name := range strings.SplitSeq(h, ",") {
			name, _, _ = strings.Cut(name, ";") // codings have no parameters
			switch name = strings.ToLower(strings.Trim(name, " \t\"")); name {
			case "gzip", "x-gzip":
				codings = append(codings, "gzip")
			case "br", "zstd", "deflate":
				codings = append(codings, name)
			case "compress", "x-compress", "pack200-gzip", "exi", "aes128gcm", "dcb", "dcz", // in the registry of RFC 9110, 8.4.1
				"sdch", "bzip2", "x-bzip2", "lzma", "xz", "lz4":
				return nil, &Error{Coding, false, fmt.Errorf("%q is not supported", name)}
			}
		}
	}
	if len(codings) > maxCodings {
		return nil, &Error{Coding, false, fmt.Errorf("%d codings, limit %d", len(codings), maxCodings)}
	}
	return codings, nil
}

// A coder holds the decoders of one goroutine at a time, for use by the next one. Their memory is
// in no budget, so there are few coders, and none is held while a host is waited for.
type coder struct {
	scratch []byte
	zip     *gzip.Reader
	flate   io.ReadCloser
	brotli  *brotli.Reader
	zstd    *zstd.Decoder
}

func (d *coder) close() {
	if d.zstd != nil {
		d.zstd.Close()
	}
	*d = coder{}
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
	reuse := false
	defer func() {
		if !reuse { // large windows, or a decoder that failed
			d.close()
		}
		c.coders <- d
	}()
	if d.scratch == nil {
		d.scratch = make([]byte, firstBuffer)
	}
	o.size, o.coded, o.wait, o.scratch = -1, false, nil, d.scratch // holding the encoded body, it must not wait for the budget
	var src io.Reader = bytes.NewReader(encoded.Bytes())
	for i := len(codings) - 1; i >= 0; i-- {
		layer := d
		if i > 0 { // only the innermost of several layers is used again
			layer = new(coder)
			defer layer.close()
		}
		if src, err = layer.reader(codings[i], src); err != nil {
			src = failed{err} // at the first read, as if it had begun well: KeepBroken may keep nothing of it
			break
		}
	}
	body, cut, err = c.fill(&decoding{src, codings}, o)
	reuse = err == nil && body.Len() <= maxBuffer
	return body, cut, err
}

// reader returns the decoded form of src.
func (d *coder) reader(coding string, src io.Reader) (io.Reader, error) {
	switch coding {
	case "gzip":
		if d.zip == nil {
			d.zip = new(gzip.Reader)
		}
		m := &members{src: bufio.NewReader(src), zip: d.zip}
		return m, m.next()
	case "deflate":
		return d.deflate(bufio.NewReader(src))
	case "br":
		if d.brotli == nil {
			d.brotli = brotli.NewReader(src)
			return d.brotli, nil
		}
		return d.brotli, d.brotli.Reset(src)
	default:
		if d.zstd == nil {
			var err error
			d.zstd, err = zstd.NewReader(src,
				zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
			return d.zstd, err
		}
		return d.zstd, d.zstd.Reset(src)
	}
}

// deflate reads the zlib format, which the name stands for, or raw deflate, which some servers
// send.
func (d *coder) deflate(src *bufio.Reader) (io.Reader, error) {
	head, err := src.Peek(2)
	if err == nil && head[0]&15 == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(src)
	}
	if d.flate == nil {
		d.flate = flate.NewReader(src)
		return d.flate, nil
	}
	return d.flate, d.flate.(flate.Resetter).Reset(src, nil)
}

// members reads gzip members one after the other. Bytes behind the last one that begin no member
// are passed over, as browsers do.
type members struct {
	src *bufio.Reader
	zip *gzip.Reader
}

func (m *members) next() error {
	if err := m.zip.Reset(m.src); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	m.zip.Multistream(false)
	return nil
}

func (m *members) Read(p []byte) (int, error) {
	for {
		n, err := m.zip.Read(p)
		if err != io.EOF {
			return n, err
		}
		if n > 0 {
			return n, nil // the end comes again
		}
		if magic, _ := m.src.Peek(2); string(magic) != "\x1f\x8b" {
			return 0, io.EOF
		}
		if err := m.next(); err != nil {
			return 0, err
		}
	}
}

// failed is a decoder that could not begin.
type failed struct{ err error }

func (f failed) Read([]byte) (int, error) { return 0, f.err }

// decoding replaces the errors of a chain of decoders by those of this package.
type decoding struct {
	src     io.Reader
	codings []string
}

func (d *decoding) Read(p []byte) (int, error) {
	n, err := d.src.Read(p)
	if err != nil && err != io.EOF {
		err = codingError(strings.Join(d.codings, ", "), err)
	}
	return n, err
}

// codingError distinguishes a coded body that ends early, which is a broken answer, from a wrong
// one.
func codingError(coding string, err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s: %w", coding, io.ErrUnexpectedEOF)
	}
	return &Error{Coding, false, fmt.Errorf("%s: %w", coding, err)}
}
