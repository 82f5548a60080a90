package storage

import (
	bolt "go.etcd.io/bbolt"

	"urltree/storage/record"
)

// Meta returns the metadata of a stored page, nil if there is none. ErrCorrupt says that it is
// damaged.
func (x *Index) Meta(url string) (meta *record.Meta, err error) {
	key, err := record.Key(url)
	if err != nil {
		return nil, err
	}
	err = x.file.View(func(tx *bolt.Tx) error {
		if v := tx.Bucket(record.BucketMeta).Get(key); v != nil {
			m, err := record.DecodeMeta(key, v)
			if err != nil {
				return err
			}
			meta = &m
		}
		return nil
	})
	return meta, err
}
