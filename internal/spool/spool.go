// Package spool keeps what memory has no room for in temporary files. All errors but [io.EOF] are
// storage.ErrDisk.
package spool

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"urltree/storage"
)

// A File is a temporary file that has no name, so that no kill leaves one: it is written to its
// end, then read, as often as need be. It is for one goroutine at a time.
type File struct {
	file *os.File
	w    *bufio.Writer // nil: all is written
}

// ErrShort is the error for a file that ends before what was written into it.
var ErrShort = failed(io.ErrUnexpectedEOF)

// Create opens a new file in the system's folder for temporary ones.
func Create() (*File, error) {
	file, err := os.CreateTemp("", "urltree")
	if err != nil {
		return nil, failed(err)
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, failed(errors.Join(err, file.Close()))
	}
	return &File{file: file, w: bufio.NewWriterSize(file, 256<<10)}, nil
}

// Write appends b. After the first Rewind it must not be called.
func (f *File) Write(b []byte) (int, error) {
	n, err := f.w.Write(b)
	return n, failed(err)
}

// Rewind ends the writing, and begins to read. An error of any Write comes again.
func (f *File) Rewind() error {
	if f.w != nil {
		if err := f.w.Flush(); err != nil {
			return failed(err)
		}
		f.w = nil
	}
	_, err := f.file.Seek(0, io.SeekStart)
	return failed(err)
}

// Read reads on.
func (f *File) Read(b []byte) (int, error) {
	n, err := f.file.Read(b)
	if err == io.EOF {
		return n, err
	}
	return n, failed(err)
}

// ReadAt fills b with what stands from offset on. A file that ends before is an error.
func (f *File) ReadAt(b []byte, offset int64) (int, error) {
	n, err := f.file.ReadAt(b, offset)
	return n, failed(err)
}

// Close removes the file.
func (f *File) Close() error { return f.file.Close() }

// failed returns an error of a file as one of its folder: the file has no name.
func failed(err error) error {
	if err == nil {
		return nil
	}
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		err = of.Err
	}
	return fmt.Errorf("%w: temporary files in %s (TMPDIR): %w", storage.ErrDisk, os.TempDir(), err)
}
