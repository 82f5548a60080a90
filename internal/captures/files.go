package captures

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"

	"urltree/internal/warc"
)

// Files are WARC files that are read in their order.
type Files struct {
	names []string
	size  int64        // of all, in bytes
	read  atomic.Int64 // bytes, in the present pass
}

// ErrNotWARC says that a file is no WARC file.
var ErrNotWARC = errors.New("not a WARC file")

// Open looks at files. Each must begin as a WARC file does, else the error is ErrNotWARC; it may be
// damaged further on. Other errors are those of the file.
func Open(names []string) (*Files, error) {
	f := &Files{names: names}
	for _, name := range names {
		size, err := look(name)
		if err != nil {
			return nil, err
		}
		f.size += size
	}
	return f, nil
}

// look returns the size of a file that begins as a WARC file does.
func look(name string) (size int64, err error) {
	file, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	switch info, err := file.Stat(); {
	case err != nil:
		return 0, err
	case !info.Mode().IsRegular():
		return 0, fmt.Errorf("%s: %w but a folder or a pipe", name, ErrNotWARC)
	default:
		size = info.Size()
	}
	in := bufio.NewReader(file)
	magic, _ := in.Peek(2)
	if bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unzip, err := gzip.NewReader(in)
		if err != nil {
			return 0, fmt.Errorf("%s: %w: %w", name, ErrNotWARC, err)
		}
		in = bufio.NewReader(unzip)
	}
	begin, err := in.Peek(len("WARC/1.0\r\n"))
	switch version := string(bytes.TrimRight(begin, "\r\n")); {
	case len(begin) == 0 && err != io.EOF, errors.Is(err, os.ErrInvalid):
		return 0, fmt.Errorf("%s: %w: %w", name, ErrNotWARC, err)
	case !bytes.HasPrefix(begin, []byte("WARC/1.0")) && !bytes.HasPrefix(begin, []byte("WARC/1.1")):
		return 0, fmt.Errorf("%s: %w: it begins with %.20q, and WARC/1.0 or WARC/1.1 is read", name, ErrNotWARC, version)
	}
	return size, nil
}

// Progress returns how many bytes of the files are read in the present pass, and how many there
// are.
func (f *Files) Progress() (read, size int64) { return f.read.Load(), f.size }

// A Damage says that a file is damaged: what stands behind the place that Err names was not read.
type Damage struct {
	File string
	Err  error
}

func (d Damage) String() string { return fmt.Sprintf("%s: %v", d.File, d.Err) }

// Each calls fn with each capture of all files, and with the Reader that is at it. Where a file is
// damaged, damaged is called, and the next file goes on. It returns the number of records that were
// passed over, and the first error: of fn, of ctx, or of a file that cannot be read.
func (f *Files) Each(ctx context.Context, fn func(*Reader, *Capture) error, damaged func(Damage)) (others int64, err error) {
	f.read.Store(0)
	for i, name := range f.names {
		passed, err := f.eachOf(ctx, i, fn)
		others += passed
		switch {
		case err == nil:
		case IsDamage(err) && ctx.Err() == nil:
			damaged(Damage{name, err})
		default:
			return others, err
		}
	}
	return others, nil
}

func (f *Files) eachOf(ctx context.Context, i int, fn func(*Reader, *Capture) error) (others int64, err error) {
	file, r, err := f.from(Place{File: i}, &f.read)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	for {
		if err := context.Cause(ctx); err != nil {
			return r.Others, err
		}
		c, err := r.Next()
		if err == nil {
			err = fn(r, c)
		}
		switch {
		case err == io.EOF:
			return r.Others, nil
		case err != nil:
			return r.Others, err
		}
	}
}

// IsDamage reports whether an error is about what a file holds.
func IsDamage(err error) bool { return errors.Is(err, warc.ErrTorn) || errors.Is(err, warc.ErrFormat) }

// At opens the capture at a place. Rest is not to be called for it.
func (f *Files) At(at Place) (*Capture, io.Closer, error) {
	var none atomic.Int64
	file, r, err := f.from(at, &none)
	if err != nil {
		return nil, nil, err
	}
	for {
		c, err := r.Next()
		switch {
		case err != nil:
			return nil, nil, errors.Join(err, file.Close())
		case c.Place == at:
			return c, file, nil
		}
	}
}

// from opens a file and reads from a place on, counting the bytes.
func (f *Files) from(at Place, count *atomic.Int64) (*os.File, *Reader, error) {
	file, err := os.Open(f.names[at.File])
	if err != nil {
		return nil, nil, err
	}
	made := time.Unix(0, 0)
	if info, err := file.Stat(); err == nil {
		made = info.ModTime()
	}
	if _, err := file.Seek(at.Offset, io.SeekStart); err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, newReader(&counting{file, count}, at, made), nil
}

// A counting reader counts what is read.
type counting struct {
	r io.Reader
	n *atomic.Int64
}

func (c *counting) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n.Add(int64(n))
	return n, err
}
