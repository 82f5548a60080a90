package iut

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
)

// A TempFile takes a body too large for memory. It is used by one goroutine at a time, and ends by
// Discard, whether a page has taken it by its name or not.
type TempFile struct {
	tree  *Tree
	name  string
	file  File // nil once closed
	may   func() error
	size  int
	unmap func() error // nil: it is not mapped
}

// Temp makes a file in tmp/. The error is [ErrDisk]. Each Write calls may, if it is not nil, and
// fails with its error.
func (t *Tree) Temp(may func() error) (*TempFile, error) {
	if err := t.writable(); err != nil {
		return nil, err
	}
	name := tempFolder + "/" + strconv.FormatUint(t.temps.Add(1), 10)
	f, err := t.fs.Open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return nil, DiskError("make "+name, err)
	}
	return &TempFile{tree: t, name: name, file: f, may: may}, nil
}

// Write appends to the file. An error is [ErrDisk], or that of may, see Temp.
func (f *TempFile) Write(b []byte) (int, error) {
	if f.may != nil {
		if err := f.may(); err != nil {
			return 0, err
		}
	}
	n, err := f.file.Write(b)
	f.size += n
	return n, DiskError("write "+f.name, err)
}

// Name is what [Page].Temp takes.
func (f *TempFile) Name() string { return f.name }

// Bytes maps what was written and closes the file: many large bodies need no descriptors. It must
// not be written to, and stays valid until Discard, wherever the file goes. The error is [ErrDisk].
func (f *TempFile) Bytes() (b []byte, err error) {
	if b, f.unmap, err = f.file.Map(f.size); err != nil {
		return nil, DiskError("map "+f.name, err)
	}
	return b, f.Close()
}

// Close ends writing and keeps the file. Once closed it does nothing.
func (f *TempFile) Close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return DiskError("close "+f.name, err)
}

// Discard unmaps and closes the file, and removes it if no page has taken it. The error is
// [ErrDisk].
func (f *TempFile) Discard() error {
	err := f.Close()
	if f.unmap != nil {
		err, f.unmap = errors.Join(err, DiskError("unmap "+f.name, f.unmap())), nil
	}
	if rerr := f.tree.fs.Remove(f.name); !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, DiskError("remove "+f.name, rerr))
	}
	return err
}
