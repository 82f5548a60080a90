// Package replace writes files that take the place of older ones: readers see the older file or the
// new one, both whole, also after a crash.
//
// A new file has no name until it is complete where the operating system can do so (O_TMPFILE of
// Linux), so that a crash leaves nothing. Elsewhere it has a fresh one, beside its own:
// NAME.DIGITS.new. No file of such a name is ever opened or removed, unless this process has made
// it.
package replace

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	"urltree/storage/boltfile"
)

// A File is a new file that does not have its name yet. Commit or Discard ends it.
type File struct {
	*os.File
	name string
	tmp  string // its present name; "": it has none
}

// Create opens a new empty file for writing, in the folder of name.
func Create(name string) (*File, error) { return create(name, true) }

func create(name string, unnamed bool) (*File, error) {
	if unnamed {
		if f := createUnnamed(filepath.Dir(name)); f != nil {
			return &File{File: f, name: name}, nil
		}
	}
	r := &File{name: name}
	err := r.fresh(func(tmp string) (err error) {
		r.File, err = os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
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

// Commit syncs and closes the file, gives it its name in place of the file that has it, and syncs
// the folder. If it fails before the last step, the older file stays and the new one is gone.
func (f *File) Commit() error {
	err := f.Sync()
	if err == nil && f.tmp == "" {
		err = f.fresh(func(tmp string) error { return link(f.File, tmp) })
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.tmp, f.name)
	}
	if err != nil {
		return errors.Join(err, f.remove())
	}
	return boltfile.SyncFolder(filepath.Dir(f.name))
}

// Discard closes and removes the file. The older one stays.
func (f *File) Discard() error { return errors.Join(f.Close(), f.remove()) }

func (f *File) remove() error {
	if f.tmp == "" {
		return nil
	}
	return os.Remove(f.tmp)
}
