package iut

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

const (
	seenName    = "seen"
	seenNewName = tempFolder + "/seen"
)

// SaveSeen keeps what save writes in the file seen, until TakeSeen takes it. A kill leaves all of
// it or nothing. The error is [ErrDisk].
func (t *Tree) SaveSeen(save func(io.Writer) error) error {
	f, err := t.fs.Open(seenNewName, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return DiskError("make "+seenNewName, err)
	}
	if err = save(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = t.fs.Rename(seenNewName, seenName)
	}
	if err == nil {
		err = t.fs.SyncDir(".")
	}
	return DiskError("save seen", err)
}

// TakeSeen calls load with the file seen, if it is there, and removes it: it belongs to one state
// of the index alone. A file that cannot be read is as good as none, and stays if it is no file of
// SaveSeen. The error is [ErrDisk].
func (t *Tree) TakeSeen(load func(io.Reader)) error {
	switch e, err := t.fs.Stat(seenName); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return DiskError("look at seen", err)
	case !e.Type.IsRegular():
		return nil
	}
	f, err := t.fs.Open(seenName, os.O_RDONLY)
	if err != nil {
		return nil
	}
	load(f)
	if err := f.Close(); err != nil {
		return DiskError("close seen", err)
	}
	if err := t.fs.Remove(seenName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return DiskError("remove seen", err)
	}
	return nil
}
