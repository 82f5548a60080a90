package storage

import (
	"bytes"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// OpenChildren returns entries directly below a folder key in which something waits that is not
// held: in the record itself or below it. They come in the order of keys, those after the key
// `after` (nil: from the first), at most n. A Record that does not wait so is left out, as is what
// is damaged.
//
// It does not know of what an inbox holds: the index must have been opened for writing, without
// one.
//
// It looks at a bounded number of keys. next is where to go on, as `after`; nil: there are no
// others.
func (g Queues) OpenChildren(folder, after []byte, n int) (list []record.Child, next []byte, err error) {
	err = g.x.file.View(func(tx *bolt.Tx) error {
		turn := g.x.file.Turn()
		from := folder
		if after != nil {
			from = record.AfterFolder(after)
		}
		c := tx.Bucket(record.BucketURL).Cursor()
		k, v, err := boltfile.Seek(c, from)
		if after == nil && bytes.Equal(k, folder) {
			k, v = c.Next()
		}
		for err == nil && k != nil && bytes.HasPrefix(k, folder) {
			key, corrupt := record.ChildKey(folder, k)
			if corrupt != nil {
				return corrupt
			}
			value, deep := v, true
			if len(key) < len(k) {
				value = nil // the folder has no page of its own
				k, v, err = boltfile.Seek(c, record.AfterFolder(key))
			} else if k, v = c.Next(); bytes.HasPrefix(k, key) {
				k, v, err = boltfile.Seek(c, record.AfterFolder(key))
			} else {
				deep = false
			}
			if child, ok := openChild(tx, key, value, deep); ok {
				list = append(list, child)
			}
			if turn.Over() || len(list) >= n {
				next = bytes.Clone(key)
				return nil
			}
		}
		return err
	})
	return list, next, err
}

// OpenOf returns of some entries, by their keys, those that OpenChildren would give.
func (g Queues) OpenOf(keys [][]byte) (list []record.Child, err error) {
	err = g.x.file.View(func(tx *bolt.Tx) error {
		urls := tx.Bucket(record.BucketURL)
		for _, key := range keys {
			if child, ok := openChild(tx, key, urls.Get(key), true); ok {
				list = append(list, child)
			}
		}
		return nil
	})
	return list, err
}

// openChild returns the entry of a key with its record's value, and whether something waits there.
func openChild(tx *bolt.Tx, key, value []byte, deep bool) (c record.Child, open bool) {
	// The first two bytes say whether the record is worth decoding.
	if len(value) > 2 && record.State(value[0]) == record.Pending && record.Range(value[1]) != record.Held {
		if rec, err := record.Decode(key, value); err == nil {
			c.Record = &rec
		}
	}
	if deep {
		if below, _, err := folderCounts.of(&boltfile.Values{Tx: tx}, key); err == nil {
			c.Below = below
		}
	}
	c.Key = bytes.Clone(key)
	return c, c.Record != nil || c.Below.Open() > 0
}
