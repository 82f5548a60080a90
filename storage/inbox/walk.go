package inbox

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"sync"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/boltfile"
)

// An overlay is what a reader of a file that nothing writes to sees of the inbox: the records that
// count. A process that was killed leaves them so, and the reader may not move them.
type overlay struct {
	mu     sync.Mutex
	loaded bool
	rows   lateRows
}

// lateRows are in the order of keys, and no two have the same.
type lateRows []lateRow

// A lateRow is a record of the inbox, in the mapped file.
type lateRow struct {
	key, value []byte
	seq        uint64
}

// late returns the overlay. There is none if the file is open for writing.
func (b *Inbox) late() (lateRows, error) {
	if !b.opts.ReadOnly {
		return nil, nil
	}
	o := &b.over
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.loaded {
		return o.rows, nil
	}
	err := b.file.View(func(tx *bolt.Tx) error {
		o.rows = nil
		records := tx.Bucket(b.opts.Records)
		for _, name := range Buckets {
			err := tx.Bucket(name).ForEach(func(k, v []byte) error {
				// What is damaged is for check to name.
				if key, value, err := Row(k, v); err == nil && records.Get(key) == nil {
					o.rows = append(o.rows, lateRow{key, value, binary.BigEndian.Uint64(k)})
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		slices.SortFunc(o.rows, func(a, b lateRow) int { return bytes.Compare(a.key, b.key) })
		return nil
	})
	o.loaded = err == nil
	return o.rows, err
}

func (l lateRows) from(key []byte) lateRows {
	i, _ := slices.BinarySearchFunc(l, key, func(r lateRow, key []byte) int { return bytes.Compare(r.key, key) })
	return l[i:]
}

// Below calls fn with each record strictly below a folder that the bucket of records does not have
// and will not get, since nothing writes to the file.
func (b *Inbox) Below(folder []byte, fn func(key, value []byte)) error {
	late, err := b.late()
	if err != nil || len(late) == 0 {
		return err
	}
	return boltfile.Guard(func() {
		for _, r := range late.from(folder) {
			if !bytes.HasPrefix(r.key, folder) {
				break
			}
			if len(r.key) > len(folder) {
				fn(r.key, r.value)
			}
		}
	})
}

// Walk is [boltfile.File.Walk] over all records, from a key on. If the file is open for writing it
// leaves out those that wait.
func (b *Inbox) Walk(ctx context.Context, from []byte, fn boltfile.WalkFunc) error {
	late, err := b.late()
	if err != nil {
		return err
	}
	if len(late) == 0 {
		return b.file.Walk(ctx, b.opts.Records, from, fn)
	}
	rest, stopped := late.from(from), false
	call := func(in *boltfile.Values, k, v []byte) (next []byte, err error) {
		if next, err = fn(in, k, v); next != nil {
			rest = rest.from(next)
		}
		stopped = err != nil
		return next, err
	}
	// before calls fn with the late rows that come before a key, and returns where to continue if that
	// is behind the key; nil: all.
	before := func(in *boltfile.Values, k []byte) ([]byte, error) {
		for len(rest) > 0 && (k == nil || bytes.Compare(rest[0].key, k) < 0) {
			r := rest[0]
			rest = rest[1:]
			next, err := call(in, r.key, r.value)
			if err != nil || k != nil && bytes.Compare(k, next) < 0 {
				return next, err
			}
		}
		return nil, nil
	}
	err = b.file.Walk(ctx, b.opts.Records, from, func(in *boltfile.Values, k, v []byte) ([]byte, error) {
		if next, err := before(in, k); next != nil || err != nil {
			return next, err
		}
		return call(in, k, v)
	})
	if err != nil || stopped {
		return err
	}
	err = b.file.View(func(tx *bolt.Tx) error {
		_, err := before(&boltfile.Values{Tx: tx}, nil)
		return err
	})
	if err == boltfile.ErrStop {
		return nil
	}
	return err
}
