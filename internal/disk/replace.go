package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// A File is a new file that takes the place of an older one: readers see the older file or the new
// one, both whole, also after a crash. Commit or Discard ends it.
//
// It has no name until it is complete where the operating system can do so (O_TMPFILE of Linux), so
// that a crash leaves nothing. Elsewhere it has a fresh one, beside its own: NAME.DIGITS.new. No
// file of such a name is ever opened or removed, unless this process has made it.
type File struct {
	file  *os.File
	watch *Watch
	name  string
	tmp   string // its present name; "": it has none
}

// Create opens a new empty file for writing, in the folder of name.
func Create(name string) (*File, error) { return (*Watch)(nil).Create(name) }

// Create is the function Create for a file of which calls that hang are reported.
func (w *Watch) Create(name string) (*File, error) {
	f, err := step(w, "create", name, func() (*File, error) { return create(name, true) })
	if err != nil {
		return nil, err
	}
	f.watch = w
	return f, nil
}

func create(name string, unnamed bool) (*File, error) {
	if unnamed {
		if f := createUnnamed(filepath.Dir(name)); f != nil {
			return &File{file: f, name: name}, nil
		}
	}
	r := &File{name: name}
	err := r.fresh(func(tmp string) (err error) {
		r.file, err = os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		return err
	})
	return r, err
}

// fresh calls make with names until one is not taken.
func (f *File) fresh(make func(tmp string) error) error {
	dir, base := filepath.Split(f.name)
	base = base[:min(len(base), 200)] // a name of a file has at most 255 bytes
	for {
		tmp := fmt.Sprintf("%s%s.%08d.new", dir, base, rand.IntN(1e8))
		err := make(tmp)
		if err == nil {
			f.tmp = tmp
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
}

// Write implements [io.Writer].
func (f *File) Write(b []byte) (int, error) {
	return step(f.watch, "write", f.name, func() (int, error) {
		n, err := f.file.Write(b)
		return n, f.named(err)
	})
}

// named returns an error of the file under the name that it is to have.
func (f *File) named(err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		of.Path = f.name
	}
	return err
}

// Sync makes the bytes of the file durable.
func (f *File) Sync() error { return f.watch.Disk("sync", f.name, f.sync) }

func (f *File) sync() error { return f.named(f.file.Sync()) }

// Commit syncs and closes the file, gives it its name in place of the file that has it, and syncs
// the folder. If it fails before the last step, the older file stays and the new one is gone.
func (f *File) Commit() error { return f.watch.Disk("replace", f.name, f.commit) }

func (f *File) commit() error {
	err := f.sync()
	if err == nil && f.tmp == "" {
		err = f.fresh(func(tmp string) error { return link(f.file, tmp) })
	}
	if err = errors.Join(err, f.file.Close()); err == nil {
		err = os.Rename(f.tmp, f.name)
	}
	if err != nil {
		return errors.Join(err, f.remove())
	}
	return SyncFolder(filepath.Dir(f.name))
}

// Discard closes and removes the file. The older one stays.
func (f *File) Discard() error { return errors.Join(f.file.Close(), f.remove()) }

func (f *File) remove() error {
	if f.tmp == "" {
		return nil
	}
	return os.Remove(f.tmp)
}

// Open opens what has the name of the file, for reading, of which calls that hang are reported.
func (f *File) Open() (io.ReadCloser, error) {
	r, err := step(f.watch, "open", f.name, func() (*os.File, error) { return os.Open(f.name) })
	return &reader{r, f.watch}, err
}

type reader struct {
	*os.File
	watch *Watch
}

func (r *reader) Read(b []byte) (int, error) {
	return step(r.watch, "read", r.Name(), func() (int, error) { return r.File.Read(b) })
}

// SyncFolder makes the names in a folder durable.
func SyncFolder(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
