package storage

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sync"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/record"
)

// An overlay is what a reader of a file that nobody writes to sees of the inbox: the records that
// count, in the order of keys. A process that was killed leaves them so, and the reader may not
// move them.
type overlay struct {
	mu     sync.Mutex
	loaded bool
	rows   lateRows
}

// lateRows are in the order of keys, and no two have the same.
type lateRows []lateRow

// A lateRow is a record of the inbox, in place of the file, which must be open.
type lateRow struct {
	key, value []byte
	seq        uint64
}

// late returns the overlay; there is none if the index is open for writing, see Settle.
func (x *Index) late() (lateRows, error) {
	if !x.opts.ReadOnly {
		return nil, nil
	}
	o := &x.over
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.loaded {
		return o.rows, nil
	}
	err := x.view(func(tx *bolt.Tx) error {
		o.rows = nil
		urls := tx.Bucket(bucketURL)
		for _, name := range bucketInbox {
			err := tx.Bucket(name).ForEach(func(k, v []byte) error {
				// What is damaged is for check to name.
				if key, value, err := inboxRow(k, v); err == nil && urls.Get(key) == nil {
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

// from returns the rows from a key on.
func (l lateRows) from(key []byte) lateRows {
	i, _ := slices.BinarySearchFunc(l, key, func(r lateRow, key []byte) int { return bytes.Compare(r.key, key) })
	return l[i:]
}

// value returns the value of the record under a key, nil if there is none.
func (l lateRows) value(tx *bolt.Tx, key []byte) []byte {
	v := tx.Bucket(bucketURL).Get(key)
	if rows := l.from(key); v == nil && len(rows) > 0 && bytes.Equal(rows[0].key, key) {
		v = rows[0].value
	}
	return v
}

// below returns the counts of the records strictly below a folder.
func (l lateRows) below(tx *bolt.Tx, folder []byte) (record.Counts, error) {
	sum, _, err := folderCounts.of(&values{tx: tx}, folder)
	for _, r := range l.from(folder) {
		if !bytes.HasPrefix(r.key, folder) {
			break
		}
		if state, where, err := record.Peek(r.key, r.value); err == nil && len(r.key) > len(folder) {
			sum.Count(&record.Record{State: state, Row: record.Row{Range: where}}, 1)
		}
	}
	return sum, err
}

// record reads the record.
func (r *lateRow) record() (rec record.Record, err error) {
	if panicked := guard(func() { rec, err = record.Decode(r.key, r.value) }); panicked != nil {
		return rec, panicked
	}
	return rec, err
}

// finder returns a function that tells the numbers of discovery which a URL may have in the inbox.
// What they lead to is to be looked for in a transaction that begins later.
func (x *Index) finder() (func(url string) []uint64, error) {
	if !x.opts.ReadOnly {
		return func(url string) []uint64 {
			if x.inbox.most == 0 {
				return nil
			}
			return x.inbox.candidates(x.filter.Fingerprint(url))
		}, nil
	}
	late, err := x.late()
	return func(url string) []uint64 {
		key, err := record.Key(url)
		if rows := late.from(key); err == nil && len(rows) > 0 && bytes.Equal(rows[0].key, key) {
			return []uint64{rows[0].seq}
		}
		return nil
	}, err
}
