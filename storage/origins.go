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
	return boltfile.Scan([]byte("h"), func(k, _ []byte) error { // of http or https
		url, err := record.URL(k)
		if err != nil {
			return err
		}
		return fn(record.Origin(url))
	}, func(from []byte, visit boltfile.WalkFunc) error {
		return x.file.Walk(ctx, record.BucketURL, from, func(in *boltfile.Values, k, v []byte) ([]byte, error) {
			state, _, damaged := record.Peek(k, v)
			if _, err := record.URL(k); err != nil || damaged != nil || state == record.Pending {
				return nil, nil
			}
			_, err := visit(in, k, v)
			if root := record.OriginKey(k); len(root) < len(k) {
				return append(bytes.Clone(root), record.Segment+1), err // behind all its paths
			}
			return nil, err
		})
	})
}
