package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Compact rewrites the index at path, which nobody may have open, without the room that older
// versions of its pages take: under a temporary name first, then renamed and synced. It starts
// the transaction numbers anew, so a saved seen filter must not outlive it.
func Compact(path string, noSync bool) (err error) {
	tmp := path + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	src, err := bolt.Open(path, 0o644, &bolt.Options{ReadOnly: true, Timeout: 2 * time.Second})
	if err != nil {
		return fmt.Errorf("compact %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	// One sync at the end is enough: until the rename the file is nobody's.
	dst, err := bolt.Open(tmp, 0o644, &bolt.Options{Timeout: time.Second, NoSync: true})
	if err != nil {
		return fmt.Errorf("compact to %s: %w", tmp, err)
	}
	err = bolt.Compact(dst, src, 16<<20)
	if err == nil && !noSync {
		err = dst.Sync()
	}
	if err = errors.Join(err, dst.Close()); err != nil {
		return errors.Join(fmt.Errorf("compact to %s: %w", tmp, err), os.Remove(tmp))
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	if noSync {
		return nil
	}
	return SyncFolder(filepath.Dir(path))
}

// SyncFolder makes the names in a folder durable.
func SyncFolder(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
