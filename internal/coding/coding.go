// Package coding decodes the content codings of HTTP: gzip, deflate, br and zstd (RFC 9110, 8.4).
package coding

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

const (
	maxCodings = 3       // one over the other
	maxWindow  = 8 << 20 // bytes of a zstd window, as its standard advises; brotli has at most 16 MiB by itself
)

// Parse returns the codings that the values of Content-Encoding name, at most 3, in the order in
// which they were applied: the last one is the outermost. A word that names no coding, such as
// identity, none, utf-8 or a media type, is passed over, since it cannot have been applied. Parse
// fails if there are more codings, or one that is registered or common but not decoded here.
func Parse(headers []string) ([]string, error) {
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
				return nil, fmt.Errorf("%q is not supported", name)
			}
		}
	}
	if len(codings) > maxCodings {
		return nil, fmt.Errorf("%d codings, limit %d", len(codings), maxCodings)
	}
	return codings, nil
}

// A Decoder decodes one body after the other. It keeps the memory of its decoders from one to the
// next: some 100 KiB for each coding that it has met, and up to 16 MiB after a body with a large
// window. It is not safe for concurrent use. The zero value is ready.
type Decoder struct {
	layers [maxCodings]layer

	member  bytes.Reader // of Gzip
	inflate io.ReadCloser
}

// Reader returns a reader of the decoded form of src, given the codings that Parse returned. It is
// valid until the next call of Reader or Close. It may read src further than it has to. If src is
// empty, so is the decoded form, whatever the codings.
//
// An error of the returned reader names the coding that failed. As [errors.Is] reports, it is
// [io.ErrUnexpectedEOF] if src ends before a coding does, and that of src if src fails. Any other
// error means that src does not have these codings.
func (d *Decoder) Reader(codings []string, src io.Reader) io.Reader {
	if len(codings) == 0 {
		return src
	}
	in := bufio.NewReader(src)
	if _, err := in.Peek(1); err == io.EOF {
		return in
	}
	src = in
	for i, coding := range slices.Backward(codings) {
		decoded, err := d.layers[i].reader(coding, src)
		if err != nil {
			decoded = failed{err} // at the first read, as if it had begun well
		}
		src = &named{decoded, coding}
	}
	return src
}

// Close frees the memory of the decoders. The Decoder is as new then.
func (d *Decoder) Close() {
	for i := range d.layers {
		d.layers[i].close()
	}
	d.member.Reset(nil)
	d.inflate = nil
}

// A layer has the decoders for the coding at one place of a list, each nil until it is needed.
type layer struct {
	zip    *gzip.Reader
	flate  io.ReadCloser
	brotli *brotli.Reader
	zstd   *zstd.Decoder
}

func (l *layer) close() {
	if l.zstd != nil {
		l.zstd.Close()
	}
	*l = layer{}
}

// reader returns the decoded form of src.
func (l *layer) reader(coding string, src io.Reader) (io.Reader, error) {
	switch coding {
	case "gzip":
		if l.zip == nil {
			l.zip = new(gzip.Reader)
		}
		m := &members{src: bufio.NewReader(src), zip: l.zip}
		return m, m.next()
	case "deflate":
		return l.deflate(bufio.NewReader(src))
	case "br":
		if l.brotli == nil {
			l.brotli = brotli.NewReader(src)
			return l.brotli, nil
		}
		return l.brotli, l.brotli.Reset(src)
	default:
		if l.zstd == nil {
			var err error
			l.zstd, err = zstd.NewReader(src,
				zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
			return l.zstd, err
		}
		return l.zstd, l.zstd.Reset(src)
	}
}

// deflate reads the zlib format, which the name stands for, or raw deflate, which some servers
// send.
func (l *layer) deflate(src *bufio.Reader) (io.Reader, error) {
	head, err := src.Peek(2)
	if err == nil && head[0]&15 == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(src)
	}
	if l.flate == nil {
		l.flate = flate.NewReader(src)
		return l.flate, nil
	}
	return l.flate, l.flate.(flate.Resetter).Reset(src, nil)
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

// named puts the name of a coding before an error. It also keeps the early end of one coding from
// being taken for the end of the next one: the decoder of zstd looks for a bare error.
type named struct {
	src    io.Reader
	coding string
}

func (n *named) Read(p []byte) (int, error) {
	read, err := n.src.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%s: %w", n.coding, err)
	}
	return read, err
}
