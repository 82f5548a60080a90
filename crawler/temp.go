package crawler

import (
	"errors"
	"io/fs"

	"urltree/internal/disk"
	"urltree/internal/fetch"
	"urltree/iut"
)

// A tempBody is a file of the tree's tmp/ as fetch wants it: a large body that is mapped once it
// is whole. The builder lets the tree take the file by its name; then only the map is left.
//
// Such bodies may be large and many, so none is written while the disk has little room.
type tempBody struct {
	*iut.TempFile
	unmap func() error
	room  *disk.Room
}

func newTemp(tree *iut.Tree, room *disk.Room) (fetch.Temp, error) {
	f, err := tree.Temp()
	if err != nil {
		return nil, err
	}
	return &tempBody{TempFile: f, room: room}, nil
}

// Write fails with errNoRoom while the disk has little room.
func (t *tempBody) Write(b []byte) (int, error) {
	if t.room.Look() {
		return 0, errNoRoom
	}
	return t.TempFile.Write(b)
}

// Bytes maps the file and closes it: a buffer full of large bodies needs no descriptors.
func (t *tempBody) Bytes() ([]byte, error) {
	b, unmap, err := t.TempFile.Bytes()
	if err != nil {
		return nil, err
	}
	t.unmap = unmap
	return b, t.Close()
}

// Discard unmaps, and removes the file if the tree has not taken it.
func (t *tempBody) Discard() error {
	var err error
	if t.unmap != nil {
		err, t.unmap = t.unmap(), nil
	}
	if derr := t.TempFile.Discard(); !errors.Is(derr, fs.ErrNotExist) {
		err = errors.Join(err, derr)
	}
	return err
}
