package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// ErrNotFound says that the index has no such record.
var ErrNotFound = errors.New("not in the index")

// Record returns the record of a canonical URL, or [ErrNotFound].
func (x *Index) Record(url string) (rec record.Record, err error) {
	err = x.inbox.Read([]string{url}, func(_ int, key, value []byte) error {
		if value == nil {
			return fmt.Errorf("%s: %w", url, ErrNotFound)
		}
		rec, err = record.Decode(key, value)
		return err
	})
	return rec, err
}

// Has reports whether the index has a record of each URL, in one transaction.
func (x *Index) Has(urls []string) ([]bool, error) {
	has := make([]bool, len(urls))
	err := x.inbox.Read(urls, func(i int, _, value []byte) error {
		has[i] = value != nil
		return nil
	})
	return has, err
}

// Meta returns the metadata of a stored page, nil if there is none. The error is
// [record.ErrCorrupt] if it is damaged.
func (x *Index) Meta(url string) (*record.Meta, error) {
	key, err := record.Key(url)
	if err != nil {
		return nil, err
	}
	meta, ok, err := boltfile.Read(x.file, record.BucketMeta, key, record.DecodeMeta)
	if err != nil || !ok {
		return nil, err
	}
	return &meta, nil
}

// EachOfScope calls fn with each URL that counts as a seed though its record may not say so: the
// targets of seeds' redirects, and seeds that are stored or were known before as links.
func (g Seeds) EachOfScope(ctx context.Context, fn func(url string) error) error {
	return g.x.file.Scan(ctx, record.BucketScope, nil, func(k, _ []byte) error { return fn(string(k)) })
}

// Children returns at most n entries directly below a folder key, those after the key `after`
// (nil: from the first). With a damaged record the child's Record is nil. It need not know of what
// was committed after the last Settle.
func (g Folders) Children(folder, after []byte, n int) ([]record.Child, error) {
	from := folder
	if after != nil {
		from = record.AfterFolder(after)
	}
	var list []record.Child
	err := g.x.inbox.Walk(context.Background(), from, func(in *boltfile.Values, k, v []byte) ([]byte, error) {
		if len(list) >= n || !bytes.HasPrefix(k, folder) {
			return nil, boltfile.ErrStop
		}
		if len(k) == len(folder) {
			return nil, nil // its own page is none of its children
		}
		key, err := record.ChildKey(folder, k)
		if err != nil {
			return nil, err
		}
		child := record.Child{Key: bytes.Clone(key)}
		if len(child.Key) == len(k) { // a folder comes before what is below it
			if rec, err := record.Decode(k, v); err == nil {
				child.Record = &rec
			}
		}
		child.Below, err = g.below(in, child.Key)
		list = append(list, child)
		return record.AfterFolder(child.Key), err
	})
	return list, err
}

// Records calls fn for each record whose key begins with prefix, in key order; a damaged one
// comes with its error. No transaction is open while fn runs, so fn may take its time and use
// the index; what is committed meanwhile may or may not be seen.
func (x *Index) Records(ctx context.Context, prefix []byte, fn func(record.Record, error) error) error {
	return x.Folders().Records(ctx, prefix, nil, fn)
}

// Records is [Index.Records] of the records behind the key after; nil: of all.
func (g Folders) Records(ctx context.Context, prefix, after []byte, fn func(record.Record, error) error) error {
	if err := g.x.Settle(ctx); err != nil {
		return err
	}
	return boltfile.Scan(prefix, after, func(k, v []byte) error { return fn(record.Decode(k, v)) },
		func(from []byte, visit boltfile.WalkFunc) error { return g.x.inbox.Walk(ctx, from, visit) })
}

// LoadFilter makes the seen filter complete from the records of the index. Commits may go on
// meanwhile: they add what they make, and ask the index until the filter is complete.
func (x *Index) LoadFilter(ctx context.Context) error {
	err := x.inbox.Keys(ctx, func(key []byte) error {
		url, err := record.URL(key)
		if err != nil {
			return fmt.Errorf("%w: key %q", record.ErrDamaged, key)
		}
		x.filter.Add(x.filter.Fingerprint(url))
		return nil
	})
	if err == nil {
		x.filter.SetComplete()
	}
	return err
}
