package storage

import (
	"bytes"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/record"
)

// LinkOptions returns what SetLinkOptions was told last, nil: nothing.
func (g Marks) LinkOptions() (options []byte, err error) {
	err = g.x.file.View(func(tx *bolt.Tx) error {
		v := tx.Bucket(record.BucketSys).Get(record.KeyOptions)
		if v == nil {
			return nil
		}
		body, err := record.Unseal(v, record.KeyOptions)
		if err != nil {
			return fmt.Errorf("link options: %w", err)
		}
		options = bytes.Clone(body)
		return nil
	})
	return options, err
}

// SetLinkOptions keeps the options by which links are judged from now on, in whatever form: an
// index that comes back from a copy of earlier days says by what it was made, while FORMAT says
// what came later.
func (g Marks) SetLinkOptions(options []byte) error {
	g.x.mu.Lock()
	defer g.x.mu.Unlock()
	return g.x.file.Update(func(tx *bolt.Tx) error {
		return tx.Bucket(record.BucketSys).Put(record.KeyOptions, record.Seal(bytes.Clone(options), record.KeyOptions))
	})
}
