package warc

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
)

// A Compression says how the member of a record is made.
type Compression int

const (
	None   Compression = iota // no gzip: a .warc
	Stored                    // gzip without compression, for what arrived compressed
	Fast                      // gzip, level 1
)

// A Writer appends records. It does not buffer across records: what Write has returned for is in
// the writer below.
type Writer struct {
	out    counter
	stored *gzip.Writer // nil: not used yet
	fast   *gzip.Writer // nil: not used yet
	head   []byte
}

// NewWriter returns a Writer that appends to w, which holds offset bytes already.
func NewWriter(w io.Writer, offset int64) *Writer { return &Writer{out: counter{w, offset}} }

// Offset returns where the next record begins.
func (w *Writer) Offset() int64 { return w.out.n }

// Write appends a record whose block is start and n bytes of rest, which may be nil for none. The
// header gets Content-Length; all else that ISO 28500 asks for is the caller's: type, ID, date. It
// is not kept. An error is ErrFormat for a field that no line can hold, what rest or the writer
// below return, or io.ErrUnexpectedEOF if rest has less or more than n bytes. After an error a part
// of the record may be in the writer below, behind Offset.
func (w *Writer) Write(h Header, start []byte, rest io.Reader, n int64, c Compression) (err error) {
	if w.head, err = appendHeader(w.head[:0], h, int64(len(start))+n); err != nil {
		return err
	}
	w.head = append(w.head, start...)
	at := w.out.n
	defer func() {
		if err != nil {
			w.out.n = at
		}
	}()
	var to io.Writer = &w.out
	var member *gzip.Writer
	switch c {
	case Stored:
		member = reset(&w.stored, gzip.NoCompression, &w.out)
	case Fast:
		member = reset(&w.fast, gzip.BestSpeed, &w.out)
	}
	if member != nil {
		to = member
	}
	if _, err := to.Write(w.head); err != nil {
		return err
	}
	if rest != nil {
		// Without a limit in between, so that what is in memory is written by one call.
		got, err := io.Copy(to, rest)
		if err == nil && got != n {
			err = fmt.Errorf("warc: %d bytes of %d: %w", got, n, io.ErrUnexpectedEOF)
		}
		if err != nil {
			return err
		}
	}
	if _, err := to.Write(recordEnd); err != nil || member == nil {
		return err
	}
	return member.Close()
}

// recordEnd stands behind each record.
var recordEnd = []byte("\r\n\r\n")

// Copy appends n bytes that it reads: whole records, as they stand in another file. Errors are
// those of Write.
func (w *Writer) Copy(records io.Reader, n int64) error {
	at := w.out.n
	got, err := io.Copy(&w.out, io.LimitReader(records, n))
	if err == nil && got < n {
		err = fmt.Errorf("warc: %d bytes of %d: %w", got, n, io.ErrUnexpectedEOF)
	}
	if err != nil {
		w.out.n = at
	}
	return err
}

func reset(z **gzip.Writer, level int, to io.Writer) *gzip.Writer {
	if *z == nil {
		*z, _ = gzip.NewWriterLevel(to, level) // the levels here exist
	} else {
		(*z).Reset(to)
	}
	return *z
}

func appendHeader(b []byte, h Header, n int64) ([]byte, error) {
	b = append(b, "WARC/1.1\r\n"...)
	for _, f := range h {
		if f.Name == "" || strings.ContainsAny(f.Name, ":\r\n \t") || strings.IndexByte(f.Value, '\r') >= 0 || strings.IndexByte(f.Value, '\n') >= 0 {
			return b, fmt.Errorf("%w: field %.40q: %.40q", ErrFormat, f.Name, f.Value)
		}
		b = append(append(append(b, f.Name...), ": "...), f.Value...)
		b = append(b, "\r\n"...)
	}
	b = append(b, FieldLength+": "...)
	b = strconv.AppendInt(b, n, 10)
	return append(b, "\r\n\r\n"...), nil
}

// A counter counts what it passes on.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}
