package storage

import (
	"bytes"

	bolt "go.etcd.io/bbolt"
)

// A values reads the values of many keys in one transaction, by one cursor for each bucket, where
// each Get of a bucket would make one. It may be used between writes, for each key is looked for
// from the root on, but not once a bucket that it has read has been deleted.
type values struct {
	tx      *bolt.Tx
	cursors []bucketCursor // few
}

type bucketCursor struct {
	name *byte // of the bucket, which has its name in one place
	at   *bolt.Cursor
}

// get returns the value of a key, nil if there is none. It is good until something is written.
func (v *values) get(bucket, key []byte) []byte {
	k, value := v.cursor(bucket).Seek(key)
	if !bytes.Equal(k, key) {
		return nil
	}
	return value
}

// delete deletes a key, if it is there.
func (v *values) delete(bucket, key []byte) error {
	if v.get(bucket, key) == nil {
		return nil
	}
	return v.cursor(bucket).Delete()
}

func (v *values) cursor(bucket []byte) *bolt.Cursor {
	for i := range v.cursors {
		if v.cursors[i].name == &bucket[0] {
			return v.cursors[i].at
		}
	}
	at := v.tx.Bucket(bucket).Cursor()
	v.cursors = append(v.cursors, bucketCursor{&bucket[0], at})
	return at
}

// valueOf returns the value of one record, see values.record.
func valueOf(tx *bolt.Tx, key []byte, seqs ...uint64) []byte {
	v := values{tx: tx}
	return v.record(key, seqs...)
}

// record returns the value of the record under a key, nil if there is none. seqs are the numbers of
// discovery that it may have.
func (v *values) record(key []byte, seqs ...uint64) []byte {
	if value := v.get(bucketURL, key); value != nil || len(seqs) == 0 {
		return value
	}
	value, _, _ := v.late(key, seqs)
	return value
}

// late returns the value that the inbox has for a record key, see record, its list and its number
// of discovery.
func (v *values) late(key []byte, seqs []uint64) (value []byte, list int, seq uint64) {
	var place [8]byte
	for _, seq := range seqs {
		for i, name := range bucketInbox {
			k := inboxKey(place[:0], seq)
			if row := v.get(name, k); row != nil {
				if found, value, err := inboxRow(k, row); err == nil && bytes.Equal(found, key) {
					return value, i, seq
				}
			}
		}
	}
	return nil, 0, 0
}
