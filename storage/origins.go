package storage

import (
	"bytes"
	"context"
	"time"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/record"
)

// Origins calls fn for each origin of which a URL has an outcome, and for some twice: those whose
// root page has one and whose records others lie among, by the order of keys. It reads little more
// than one record of each. The index must be open for writing; what is committed meanwhile may or
// may not be seen, and fn may use the index.
func (x *Index) Origins(ctx context.Context, fn func(origin string) error) error {
	if err := x.Settle(ctx); err != nil {
		return err
	}
	for next := []byte("h"); next != nil; { // of http or https
		if err := ctx.Err(); err != nil {
			return err
		}
		var origins []string
		looked := 0
		err := x.view(func(tx *bolt.Tx) error {
			start := time.Now()
			c := tx.Bucket(bucketURL).Cursor()
			k, v, err := seek(c, next)
			for next = nil; k != nil && err == nil; looked++ {
				if looked >= scanKeys || looked%100 == 99 && time.Since(start) > scanTime {
					next = bytes.Clone(k)
					break
				}
				if state, _, damaged := record.Peek(k, v); damaged != nil || state == record.Pending {
					k, v = c.Next()
					continue
				}
				url, damaged := record.URL(k)
				if damaged != nil {
					k, v = c.Next()
					continue
				}
				origins = append(origins, record.Origin(url))
				if from := originOf(k); len(from) == len(k) {
					k, v = c.Next()
				} else {
					k, v, err = seek(c, append(bytes.Clone(from), record.Segment+1)) // behind all its paths
				}
			}
			return err
		})
		x.looked.Add(int64(looked))
		if err != nil {
			return err
		}
		for _, o := range origins {
			if err := fn(o); err != nil {
				return err
			}
		}
	}
	return nil
}

// originOf returns the key of the root page of a record key's origin: scheme, labels, port.
func originOf(key []byte) []byte {
	from := bytes.IndexByte(key, 0) + 1
	for from < len(key) && (key[from] == record.Label || key[from] == record.Port) {
		from += bytes.IndexByte(key[from:], 0) + 1
	}
	return key[:from]
}
