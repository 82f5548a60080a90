package warc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
)

var (
	// ErrFormat says that what is read is no WARC record, or what is to be written would be none.
	ErrFormat = errors.New("warc: not a record")
	// ErrTorn says that the file ends, or its compression breaks, inside a record.
	ErrTorn = errors.New("warc: torn record")
)

// most is the length of a record's header that is read, in bytes.
const most = 1 << 20

// A Record is a record that a Reader has come to. Its block is read by Read, until the next one.
type Record struct {
	Header
	// Offset is where the record can be read from alone; Alone is false for one that shares its
	// member of gzip with the record before, from whose Offset both are read.
	Offset int64
	Alone  bool
	Length int64 // of the block

	r    *Reader
	left int64 // of the block
}

// Read reads the block. The error is [ErrTorn] where the file ends before the block does.
func (r *Record) Read(b []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err := r.r.plain.Read(b[:min(int64(len(b)), r.left)])
	r.left -= int64(n)
	if err != nil && r.left > 0 {
		return n, r.r.torn(err)
	}
	return n, nil
}

// A Reader reads the records of a file in turn. It takes WARC 1.0 and 1.1, compressed record by
// record, as a whole, or not at all, and lines that end in LF alone.
type Reader struct {
	in     *bufio.Reader // the file
	read   *tally        // below in
	member *gzip.Reader  // nil: not compressed
	start  int64         // of the member
	plain  *bufio.Reader // what records are read from: in, or the members one behind the other
	rec    *Record       // the latest; nil: none yet
	ends   int           // bytes of line ends behind the one before it
	err    error         // the first one, which all later calls return
}

// NewReader returns a Reader of a file from its offset on, at which a record begins.
func NewReader(r io.Reader, offset int64) *Reader {
	t := &tally{r: r, n: offset}
	return &Reader{in: bufio.NewReaderSize(t, 64<<10), read: t}
}

// End returns where the record ends that Next was last called behind: before the next one, or at
// the end of the file. Where Next failed, all before End is whole.
func (r *Reader) End() int64 { return r.start }

// Closed reports whether the two line ends that close a record stand, each as CR LF, behind the one
// that Next went behind last: at the end of a file that was cut they may be missing.
func (r *Reader) Closed() bool { return r.ends >= len("\r\n\r\n") }

// Next goes behind the latest record to the next one, and returns io.EOF where there is none.
// Errors are [ErrTorn] and [ErrFormat], with the offset, and those of the file.
func (r *Reader) Next() (*Record, error) {
	if r.err == nil {
		r.rec, r.err = r.next()
	}
	return r.rec, r.err
}

func (r *Reader) next() (*Record, error) {
	if r.plain == nil {
		if err := r.open(); err != nil {
			return nil, err
		}
	} else if _, err := io.Copy(io.Discard, r.rec); err != nil { // what is left of the latest record's block
		return nil, err
	}
	alone, err := r.toNext()
	if err != nil {
		return nil, err
	}
	rec := &Record{Offset: r.start, Alone: alone, r: r}
	if rec.Header, err = r.header(); err != nil {
		return nil, err
	}
	rec.Length, err = strconv.ParseInt(rec.Get(FieldLength), 10, 64)
	if err != nil || rec.Length < 0 {
		return nil, r.bad("Content-Length is %.40q", rec.Get(FieldLength))
	}
	rec.left = rec.Length
	return rec, nil
}

// open finds out how the file is compressed.
func (r *Reader) open() error {
	r.start = r.read.n - int64(r.in.Buffered())
	head, err := r.in.Peek(2)
	switch {
	case len(head) == 0:
		return err // io.EOF for an empty file
	case !bytes.Equal(head, []byte{0x1f, 0x8b}):
		r.plain = r.in
		return nil
	}
	r.member = new(gzip.Reader)
	r.plain = bufio.NewReaderSize(nil, 16<<10)
	return nil
}

// toNext goes behind the line ends that follow a record and, where its member ends with them, to
// the next member. It reports whether a record begins here that can be read alone.
func (r *Reader) toNext() (alone bool, err error) {
	if r.member != nil && r.rec == nil {
		return true, r.nextMember()
	}
	for r.ends = 0; ; r.ends++ {
		c, err := r.plain.ReadByte()
		switch {
		case err == io.EOF && r.member != nil:
			return true, r.nextMember()
		case err == io.EOF:
			r.start = r.read.n
			return false, io.EOF
		case err != nil:
			return false, r.torn(err)
		case c == '\r' || c == '\n':
			continue
		}
		_ = r.plain.UnreadByte() // of the byte that was just read
		if r.member == nil {
			r.start = r.read.n - int64(r.in.Buffered())
			return true, nil
		}
		return false, nil
	}
}

// nextMember begins the next member, or returns io.EOF behind the last one.
func (r *Reader) nextMember() error {
	r.start = r.read.n - int64(r.in.Buffered())
	if _, err := r.in.Peek(1); err != nil {
		return err
	}
	if err := r.member.Reset(r.in); err != nil {
		return r.torn(err)
	}
	r.member.Multistream(false)
	r.plain.Reset(r.member)
	return nil
}

// header reads the version and the named fields up to the empty line.
func (r *Reader) header() (h Header, err error) {
	size := 0
	line := func() (string, error) {
		b, err := r.line(most - size)
		size += len(b)
		return strings.TrimRight(string(b), "\r\n"), err
	}
	version, err := line()
	switch {
	case err != nil:
		return nil, err
	case version != "WARC/1.0" && version != "WARC/1.1":
		return nil, r.bad("the first line is %.40q", version)
	}
	for {
		s, err := line()
		switch {
		case err != nil:
			return nil, err
		case s == "":
			return h, nil
		case (s[0] == ' ' || s[0] == '\t') && len(h) > 0: // goes on, as WARC 1.0 allows
			h[len(h)-1].Value += " " + strings.TrimSpace(s)
			continue
		}
		name, value, ok := strings.Cut(s, ":")
		if !ok {
			return nil, r.bad("%.40q is no field", s)
		}
		h = append(h, Field{strings.TrimSpace(name), strings.TrimSpace(value)})
	}
}

// line reads a line of at most n bytes with its end.
func (r *Reader) line(n int) (line []byte, err error) {
	for {
		part, err := r.plain.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > n:
			return line, r.bad("the header has over %d bytes", most)
		case err == nil:
			return line, nil
		case err != bufio.ErrBufferFull:
			return line, r.torn(err)
		}
	}
}

func (r *Reader) bad(format string, args ...any) error {
	return fmt.Errorf("%w: at %d: %s", ErrFormat, r.start, fmt.Sprintf(format, args...))
}

// torn is the error of a file that does not go on. One of the file itself stays what it is.
func (r *Reader) torn(err error) error {
	if r.read.err != nil {
		return r.read.err
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w: at %d: %w", ErrTorn, r.start, err)
}

// A tally counts what is read, and keeps the error of the file.
type tally struct {
	r   io.Reader
	n   int64
	err error // nil or io.EOF: none
}

func (t *tally) Read(b []byte) (int, error) {
	n, err := t.r.Read(b)
	t.n += int64(n)
	if err != nil && err != io.EOF {
		t.err = err
	}
	return n, err
}
