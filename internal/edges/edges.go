// Package edges is the format of the link graph beside a tree: one append-only file that has, for
// each stored page, the references of the page in page order.
//
// The file, all numbers of fixed size little-endian:
//
//	16  magic "urltree edges 1\n"
//	then frames:
//	  4  n, bytes of the payload
//	  4  number of pages
//	  n  payload: one Zstandard frame, content size included
//	  4  CRC-32C of all of the frame that stands before
//
// The content of a payload is so many pages, one behind the other. A text is its length in bytes as
// an unsigned LEB128 number (the varint of package encoding/binary), then its bytes:
//
//	text    URL of the page, canonical
//	number  of its edges, unsigned LEB128
//	for each edge the texts: URL it leads to, canonical; element; rel; link text
//
// How much of the file counts is not in it: the index says so, in the transaction that makes the
// pages stored, see storage.Edges. What stands behind was written by a process that did not get
// to its commit, and is cut off before the next frame is written. So each page has one entry.
package edges

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/klauspost/compress/zstd"
)

const (
	magic      = "urltree edges 1\n"
	headBytes  = 8 // of a frame, before its payload
	sumBytes   = 4 // behind it
	frameBytes = 1 << 20
	// maxFrame is the most that a frame's content may have. The largest page has 8 MiB of texts, and
	// for each of its 210,000 links the lengths and one edge that went over.
	maxFrame = 64 << 20
)

// ErrDamaged is returned if the file is not what was written, from some frame on.
var ErrDamaged = errors.New("edges: damaged file")

// ErrCut is the ErrDamaged of a file that ends too early: all but its last frame is whole.
var ErrCut = fmt.Errorf("%w: it is cut off", ErrDamaged)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A Page is a stored page with its edges.
type Page struct {
	URL   string
	Edges []Edge // in page order, repeats included
}

// An Edge is one reference of a page.
type Edge struct {
	To      string // canonical
	Element string // a, area, link, iframe, ...; "header", "feed"; "redirect" for one that no page has
	Rel     string // in lower case; "nofollow" is in it, too, where the page says so of all its links
	Text    string // one line, at most 100 bytes
}

// AppendPage appends a page as it stands in a frame.
func AppendPage(b []byte, p Page) []byte {
	b = binary.AppendUvarint(appendText(b, p.URL), uint64(len(p.Edges)))
	for _, e := range p.Edges {
		b = appendText(appendText(appendText(appendText(b, e.To), e.Element), e.Rel), e.Text)
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// A File is what a Writer needs of the file, which is open for appending.
type File interface {
	io.WriteCloser
	Truncate(size int64) error
}

// A Writer appends frames. It is used by one goroutine at a time. What it has written counts once
// the index says so; until then it may be torn.
type Writer struct {
	file File
	enc  *zstd.Encoder
	end  int64

	pages []byte // as AppendPage has made them, not yet in a frame
	n     int    // how many
	frame []byte
}

// NewWriter cuts file off behind the first end bytes, which are those that count, and appends from
// there. With end 0 the file begins anew.
func NewWriter(file File, end int64) (*Writer, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, err
	}
	w := &Writer{file: file, enc: enc, end: end}
	if err := file.Truncate(end); err != nil {
		return nil, err
	}
	if end == 0 {
		if err := w.write([]byte(magic)); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// Append adds a page that AppendPage has made, and writes a frame when that has become large.
func (w *Writer) Append(page []byte) error {
	w.pages, w.n = append(w.pages, page...), w.n+1
	if len(w.pages) < frameBytes {
		return nil
	}
	return w.flush()
}

// Flush writes what is left, and gives the length that the file has then.
func (w *Writer) Flush() (end int64, err error) {
	if w.n > 0 {
		err = w.flush()
	}
	return w.end, err
}

func (w *Writer) flush() error {
	b := append(w.frame[:0], make([]byte, headBytes)...)
	b = w.enc.EncodeAll(w.pages, b)
	binary.LittleEndian.PutUint32(b, uint32(len(b)-headBytes))
	binary.LittleEndian.PutUint32(b[4:], uint32(w.n))
	w.frame = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	err := w.write(w.frame)
	w.pages, w.n = w.pages[:0], 0
	if cap(w.pages) > 4*frameBytes { // after a page that is very large
		w.pages, w.frame = nil, nil
	}
	return err
}

func (w *Writer) write(b []byte) error {
	n, err := w.file.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	w.end += int64(n)
	return err
}

// Close closes the file. What was not flushed is dropped.
func (w *Writer) Close() error { return errors.Join(w.enc.Close(), w.file.Close()) }

// Read calls fn for each page in the first end bytes of a file, in the order of the file. The
// texts that fn is given stay valid, the slice of edges does not. It gives how many bytes and pages
// were read of whole frames. ErrDamaged says that the frame behind these is not whole, ErrCut that
// the file ends there; other errors are those of r and fn. It holds one frame in memory, as a rule
// a MiB.
func Read(r io.Reader, end int64, fn func(Page) error) (whole, pages int64, err error) {
	if end == 0 {
		return 0, 0, nil
	}
	damaged := func(format string, args ...any) (int64, int64, error) {
		return whole, pages, fmt.Errorf("%w: frame at byte %d: %s", ErrDamaged, whole, fmt.Sprintf(format, args...))
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxFrame))
	if err != nil {
		return 0, 0, err
	}
	defer dec.Close()
	head := make([]byte, len(magic))
	if err := fill(r, head); err != nil {
		return whole, pages, err
	}
	if string(head) != magic {
		return whole, pages, fmt.Errorf("%w: the file does not begin as one of edges", ErrDamaged)
	}
	var (
		list             []Edge
		payload, content []byte
	)
	for whole = int64(len(magic)); whole < end; {
		head = head[:headBytes]
		if err := fill(r, head); err != nil {
			return whole, pages, err
		}
		size, n := int64(binary.LittleEndian.Uint32(head)), binary.LittleEndian.Uint32(head[4:])
		length := headBytes + size + sumBytes
		if size > maxFrame || whole+length > end {
			return damaged("%d bytes, %d are left", length, end-whole)
		}
		if int64(cap(payload)) < size+sumBytes {
			payload = make([]byte, size+sumBytes)
		}
		payload = payload[:size+sumBytes]
		if err := fill(r, payload); err != nil {
			return whole, pages, err
		}
		sum := crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, payload[:size])
		if sum != binary.LittleEndian.Uint32(payload[size:]) {
			return damaged("checksum")
		}
		if content, err = dec.DecodeAll(payload[:size], content[:0]); err != nil {
			return damaged("%v", err)
		}
		text := string(content) // of each frame its own: what fn is given are parts of it
		d := decoder{rest: text}
		// All of a frame is looked at before fn sees any: it is whole or it is not.
		for range n {
			_, list = d.page(list[:0])
		}
		if d.bad || d.rest != "" {
			return damaged("content")
		}
		d.rest = text
		for range n {
			var url string
			url, list = d.page(list[:0])
			if err := fn(Page{URL: url, Edges: list}); err != nil {
				return whole, pages, err
			}
		}
		whole, pages = whole+length, pages+int64(n)
	}
	return whole, pages, nil
}

// fill reads until b is full. If r ends first, the error is ErrCut.
func fill(r io.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = ErrCut
	}
	return err
}

// A decoder takes values off the front of rest; after a short read bad is set.
type decoder struct {
	rest string
	bad  bool
}

func (d *decoder) page(list []Edge) (url string, edges []Edge) {
	url = d.text()
	for n := d.number(); n > 0 && !d.bad; n-- {
		list = append(list, Edge{To: d.text(), Element: d.text(), Rel: d.text(), Text: d.text()})
	}
	return url, list
}

func (d *decoder) number() uint64 {
	v, n := binary.Uvarint([]byte(d.rest[:min(len(d.rest), binary.MaxVarintLen64)]))
	if n <= 0 {
		d.bad, d.rest = true, ""
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) text() string {
	n := d.number()
	if n > uint64(len(d.rest)) || n > math.MaxInt32 {
		d.bad, d.rest = true, ""
		return ""
	}
	s := d.rest[:n]
	d.rest = d.rest[n:]
	return s
}
