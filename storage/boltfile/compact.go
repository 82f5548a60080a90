package boltfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"urltree/internal/disk"

	bolt "go.etcd.io/bbolt"
)

// Create makes a new file at path with what fill writes: under a temporary name first, so that a
// file of that name is always whole. Watch may be nil.
func Create(path string, watch *disk.Watch, fill func(*bolt.Tx) error) error {
	return (&File{path: path, watch: watch}).call("make", func() error {
		return replace(path, "create", false, func(db *bolt.DB) error { return db.Update(fill) })
	})
}

// Compact rewrites the file at path, which no process may have open, without the room that older
// versions of its pages take. The numbers of transactions start anew. With noSync it is not synced.
func Compact(path string, noSync bool) (err error) {
	src, err := bolt.Open(path, 0o644, &bolt.Options{ReadOnly: true, Timeout: 2 * time.Second})
	if err != nil {
		return fmt.Errorf("compact %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	return replace(path, "compact to", noSync, func(db *bolt.DB) error {
		db.NoSync = true // one sync at the end is enough: until the rename the file is nobody's
		err := bolt.Compact(db, src, 16<<20)
		if err == nil && !noSync {
			err = db.Sync()
		}
		return err
	})
}

// replace makes a file under a temporary name and renames it to path.
func replace(path, what string, noSync bool, fill func(*bolt.DB) error) error {
	tmp := path + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db, err := bolt.Open(tmp, 0o644, &bolt.Options{Timeout: time.Second})
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, tmp, err)
	}
	if err = errors.Join(fill(db), db.Close()); err != nil {
		return errors.Join(fmt.Errorf("%s %s: %w", what, tmp, err), os.Remove(tmp))
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	if noSync {
		return nil
	}
	return disk.SyncFolder(filepath.Dir(path))
}
