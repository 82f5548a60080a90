package boltfile

import (
	"bytes"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// Read returns the value of a key, in a transaction of its own, and whether there is one. A bucket
// that is not there has none.
func Read[T any](f *File, bucket, key []byte, decode func(key, value []byte) (T, error)) (value T, ok bool, err error) {
	err = f.View(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucket)
		if b == nil {
			return nil
		}
		v := b.Get(key)
		if ok = v != nil; ok {
			value, err = decode(key, v)
		}
		return err
	})
	return value, ok, err
}

// Has reports whether there is a value under a key.
func (f *File) Has(bucket, key []byte) (bool, error) {
	_, ok, err := Read(f, bucket, key, func(_, _ []byte) (none struct{}, err error) { return none, nil })
	return ok, err
}

// Empty removes all keys of a bucket.
func Empty(tx *bolt.Tx, bucket []byte) error {
	if err := tx.DeleteBucket(bucket); err != nil {
		return err
	}
	_, err := tx.CreateBucket(bucket)
	return err
}

// A Values reads and writes the values of many keys in one transaction. It has one cursor for each
// bucket, where each Get of a bucket would make one. It may be used between writes, since each key
// is looked up from the root, but not once a bucket that it has read has been deleted.
//
// Names of buckets must be the same slices in all calls.
type Values struct {
	Tx      *bolt.Tx
	cursors []bucketCursor // few
}

type bucketCursor struct {
	name *byte // of the bucket, which has its name in one place
	at   *bolt.Cursor
}

// Get returns the value of a key, nil if there is none. It is valid until the next write.
func (v *Values) Get(bucket, key []byte) []byte {
	k, value := v.Cursor(bucket).Seek(key)
	if !bytes.Equal(k, key) {
		return nil
	}
	return value
}

// Delete deletes a key if it is there.
func (v *Values) Delete(bucket, key []byte) error {
	if v.Get(bucket, key) == nil {
		return nil
	}
	return v.Cursor(bucket).Delete()
}

// Cursor returns the cursor of a bucket, which other calls move.
func (v *Values) Cursor(bucket []byte) *bolt.Cursor {
	for i := range v.cursors {
		if v.cursors[i].name == &bucket[0] {
			return v.cursors[i].at
		}
	}
	at := v.Tx.Bucket(bucket).Cursor()
	v.cursors = append(v.cursors, bucketCursor{&bucket[0], at})
	return at
}

// Puts are keys of a bucket to be written or deleted, no two of them the same.
type Puts []put

type put struct{ key, value []byte } // no value: to be deleted

// Put adds a key to be written.
func (p *Puts) Put(key, value []byte) { *p = append(*p, put{key, value}) }

// Delete adds a key to be deleted, if it is there.
func (p *Puts) Delete(key []byte) { *p = append(*p, put{key, nil}) }

// Write applies puts in the order of their keys, so that neighbours share the pages they touch.
func (v *Values) Write(bucket []byte, puts Puts) error {
	slices.SortFunc(puts, func(a, b put) int { return bytes.Compare(a.key, b.key) })
	b := v.Tx.Bucket(bucket)
	for _, p := range puts {
		var err error
		if p.value == nil {
			err = v.Delete(bucket, p.key)
		} else {
			err = b.Put(p.key, p.value)
		}
		if err != nil {
			return fmt.Errorf("bucket %s: %w", bucket, err)
		}
	}
	return nil
}

// An Arena holds keys and values that live as long as a transaction.
type Arena struct {
	free   []byte
	blocks [][]byte // those that free was cut from, and behind them those of an earlier transaction
	used   int      // blocks of this transaction
}

const (
	arenaBlock  = 64 << 10 // bytes
	arenaBlocks = 32       // that one transaction leaves to the next
)

// Keep returns what write appends to its argument.
func (a *Arena) Keep(write func([]byte) []byte) []byte {
	if cap(a.free) < 1<<10 {
		if a.used == len(a.blocks) {
			a.blocks = append(a.blocks, make([]byte, 0, arenaBlock))
		}
		a.free = a.blocks[a.used]
		a.used++
	}
	b := write(a.free)
	if len(b) <= cap(a.free) {
		a.free = a.free[len(b):len(b):cap(a.free)]
	}
	return b[:len(b):len(b)]
}

// Spare returns an arena for the next transaction. What Keep returned is not valid any more.
func (a *Arena) Spare() Arena { return Arena{blocks: a.blocks[:min(len(a.blocks), arenaBlocks)]} }
