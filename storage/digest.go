package storage

import (
	"bytes"
	"context"
	"fmt"

	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// First returns the stored page with this SHA-256 that was answered first, of those of one second
// the one whose URL sorts first. Other pages with it are duplicates of that one. ErrNotFound: no
// page has it.
//
// It looks at every record, about a second for ten million that are in memory. An index by
// SHA-256 would cost each page of a crawl some 30 µs, a third of what its transaction takes, since
// the rows of a set would lie far apart; and a mark kept with a page would have to be found and
// changed when the page that it names is no longer stored.
func (x *Index) First(ctx context.Context, digest [32]byte) (first record.Record, err error) {
	err = x.digests(ctx, func(key, value, found []byte) error {
		if !bytes.Equal(found, digest[:]) {
			return nil
		}
		r, err := record.Decode(key, value)
		if err != nil {
			return nil // for check to name
		}
		if first.URL == "" || r.Time < first.Time || r.Time == first.Time && r.URL < first.URL {
			first = r
		}
		return nil
	})
	if err == nil && first.URL == "" {
		err = fmt.Errorf("a page with SHA-256 %x: %w", digest, ErrNotFound)
	}
	return first, err
}

// Digests calls fn, which must not use the index, for the SHA-256 of each page in tree order.
func (x *Index) Digests(ctx context.Context, fn func(digest [32]byte)) error {
	return x.digests(ctx, func(_, _, digest []byte) error {
		fn([32]byte(digest))
		return nil
	})
}

// digests calls fn for each record that says that it is stored, with its SHA-256, in short
// transactions. Nothing is decoded, and the bytes are the file's: so it is fast.
func (x *Index) digests(ctx context.Context, fn func(key, value, digest []byte) error) error {
	err := x.file.Walk(ctx, record.BucketURL, nil, func(_ *boltfile.Values, k, v []byte) ([]byte, error) {
		if digest := record.PeekDigest(v); digest != nil {
			return nil, fn(k, v, digest)
		}
		return nil, nil
	})
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
