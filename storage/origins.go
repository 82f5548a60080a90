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
	return boltfile.Scan([]byte("h"), nil, func(k, _ []byte) error { // of http or https
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

// Origins returns the keys of the root pages of origins that have records below a folder key (""
// for the whole tree): at most n from the key from on, which may be nil, in the order of keys. An
// origin comes twice if its root page has a record and those of longer host names or ports lie
// between that and the others. next is the key to go on from; nil: there are no others.
func (g Folders) Origins(folder, from []byte, n int) (roots [][]byte, next []byte, err error) {
	if len(from) == 0 {
		from = folder
	}
	err = g.x.inbox.Walk(context.Background(), from, func(_ *boltfile.Values, k, _ []byte) ([]byte, error) {
		if !bytes.HasPrefix(k, folder) {
			return nil, boltfile.ErrStop
		}
		root := record.OriginKey(k)
		switch {
		case len(roots) > 0 && bytes.Equal(roots[len(roots)-1], root):
		case len(roots) == n:
			next = bytes.Clone(k)
			return nil, boltfile.ErrStop
		default:
			roots = append(roots, bytes.Clone(root))
		}
		if len(root) < len(k) {
			return append(bytes.Clone(root), record.Segment+1), nil // behind all its paths
		}
		return nil, nil
	})
	return roots, next, err
}
