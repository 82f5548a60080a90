package boltfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/record"
)

// Limits of one read transaction.
const (
	scanKeys  = 10_000
	scanBytes = 1 << 20
	scanTime  = 100 * time.Millisecond
)

// Seek is Cursor.Seek for a file whose keys may be out of order: a scan that continues from where
// it was goes forward, and comes to an end.
func Seek(c *bolt.Cursor, at []byte) (k, v []byte, err error) {
	if k, v = c.Seek(at); k != nil && bytes.Compare(k, at) < 0 {
		return nil, nil, fmt.Errorf("%w: the key %q is out of place", record.ErrCorrupt, k)
	}
	return k, v, nil
}

// A Turn says how long a read transaction may still last.
type Turn struct {
	file  *File
	begin time.Time
	keys  int
}

// Turn begins a turn, with a transaction.
func (f *File) Turn() *Turn { return &Turn{file: f, begin: time.Now()} }

// Over counts a key that the transaction looks at, and reports whether it has lasted long enough.
func (t *Turn) Over() bool {
	t.keys++
	t.file.looked.Add(1)
	return t.keys > scanKeys || t.keys%100 == 0 && time.Since(t.begin) > scanTime
}

// ErrStop is what the function of a walk returns to end it.
var ErrStop = errors.New("stop")

// A WalkFunc is called with a key and its value, in the transaction of in. It returns the key to
// continue from, nil for the one that follows, or an error, which ends the walk.
type WalkFunc func(in *Values, k, v []byte) (next []byte, err error)

// Walk calls fn with keys of a bucket and their values, in order, from the key `from` on, in short
// transactions. It returns the error of fn, but for ErrStop. A bucket that is not there has no
// keys.
func (f *File) Walk(ctx context.Context, bucket, from []byte, fn WalkFunc) error {
	next := append([]byte{}, from...)
	for next != nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := f.View(func(tx *bolt.Tx) error {
			b := tx.Bucket(bucket)
			if b == nil {
				next = nil
				return nil
			}
			turn := f.Turn()
			in := &Values{Tx: tx}
			c := b.Cursor()
			k, v, err := Seek(c, next)
			for next = nil; err == nil && k != nil; {
				if turn.Over() {
					next = bytes.Clone(k)
					return nil
				}
				var to []byte
				if to, err = fn(in, k, v); err == nil && to == nil {
					k, v = c.Next()
				} else if err == nil {
					k, v, err = Seek(c, to)
				}
			}
			return err
		})
		if err == ErrStop {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Scan calls fn with each key of a bucket that begins with prefix, and its value, in order. It
// copies runs of keys out of short transactions and calls fn outside them.
func (f *File) Scan(ctx context.Context, bucket, prefix []byte, fn func(k, v []byte) error) error {
	return Scan(prefix, nil, fn, func(from []byte, fn WalkFunc) error { return f.Walk(ctx, bucket, from, fn) })
}

// Scan is [File.Scan] over what walk visits, which is called for each run of keys, of those behind
// the key after; nil: of all.
func Scan(prefix, after []byte, fn func(k, v []byte) error, walk func(from []byte, fn WalkFunc) error) error {
	type pair struct{ k, v []byte }
	var (
		pairs []pair
		arena []byte
	)
	next := append([]byte{}, prefix...)
	if bytes.Compare(after, prefix) >= 0 && after != nil {
		next = append(append(next[:0], after...), 0) // no key comes between
	}
	for next != nil {
		pairs, arena = pairs[:0], arena[:0]
		from := next
		next = nil
		err := walk(from, func(_ *Values, k, v []byte) ([]byte, error) {
			if !bytes.HasPrefix(k, prefix) {
				return nil, ErrStop
			}
			if len(pairs) >= scanKeys || len(arena) > scanBytes {
				next = bytes.Clone(k)
				return nil, ErrStop
			}
			at := len(arena)
			arena = append(append(arena, k...), v...)
			pairs = append(pairs, pair{arena[at : at+len(k)], arena[at+len(k):]})
			return nil, nil
		})
		if err != nil {
			return err
		}
		for _, p := range pairs {
			if err := fn(p.k, p.v); err != nil {
				return err
			}
		}
	}
	return nil
}
