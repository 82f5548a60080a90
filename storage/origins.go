package storage

import (
	"bytes"
	"context"

	"urltree/storage/boltfile"
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
	var origins []string
	for next := []byte("h"); next != nil; { // of http or https
		from := next
		next, origins = nil, origins[:0]
		err := x.file.Walk(ctx, record.BucketURL, from, func(_ *boltfile.Values, k, v []byte) ([]byte, error) {
			if len(origins) >= 1000 {
				next = bytes.Clone(k)
				return nil, boltfile.ErrStop
			}
			if state, _, damaged := record.Peek(k, v); damaged != nil || state == record.Pending {
				return nil, nil
			}
			url, damaged := record.URL(k)
			if damaged != nil {
				return nil, nil
			}
			origins = append(origins, record.Origin(url))
			if root := originOf(k); len(root) < len(k) {
				return append(bytes.Clone(root), record.Segment+1), nil // behind all its paths
			}
			return nil, nil
		})
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
