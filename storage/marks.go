package storage

import (
	"bytes"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// write runs fn in a transaction that has nothing to do with records.
func (x *Index) write(fn func(*bolt.Tx) error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.file.Update(fn)
}

// put writes a value that is sealed.
func (g Marks) put(key, value []byte) error {
	return g.x.write(func(tx *bolt.Tx) error { return tx.Bucket(record.BucketSys).Put(key, value) })
}

func (g Marks) remove(key []byte) error {
	return g.x.write(func(tx *bolt.Tx) error { return tx.Bucket(record.BucketSys).Delete(key) })
}

// NeedsRelink reports whether scope has grown since stored pages were parsed: they may have links
// that belong to the crawl only now, and no record.
func (g Marks) NeedsRelink() (bool, error) { return g.x.file.Has(record.BucketSys, record.KeyRelink) }

// Relink has the next run parse all stored pages again: links that were rejected may belong now.
func (g Marks) Relink() error { return g.put(record.KeyRelink, record.Seal(nil, record.KeyRelink)) }

// Relinked says that every stored page has been parsed again.
func (g Marks) Relinked() error { return g.remove(record.KeyRelink) }

// Review has the next run look at all held rows, whatever holds them, and at pages whose links were
// cut: where an index is made from folders, or from what is whole of a damaged one, that may have
// been by other options than those of LinkOptions.
func (g Marks) Review() error { return g.put(record.KeyReview, record.Seal(nil, record.KeyReview)) }

// NeedsReview reports whether Review was called, and Reviewed was not since.
func (g Marks) NeedsReview() (bool, error) { return g.x.file.Has(record.BucketSys, record.KeyReview) }

// Reviewed says that this is done.
func (g Marks) Reviewed() error { return g.remove(record.KeyReview) }

// LinkOptions returns the argument of the last call of SetLinkOptions, nil if there was none.
func (g Marks) LinkOptions() (options []byte, err error) {
	options, _, err = boltfile.Read(g.x.file, record.BucketSys, record.KeyOptions, func(key, value []byte) ([]byte, error) {
		body, err := record.Unseal(value, key)
		return bytes.Clone(body), err
	})
	if err != nil {
		return nil, fmt.Errorf("link options: %w", err)
	}
	return options, nil
}

// SetLinkOptions keeps the options by which links are judged from now on, in whatever form: an
// index that comes back from a copy of earlier days says by what it was made, while FORMAT says
// what came later.
func (g Marks) SetLinkOptions(options []byte) error {
	return g.put(record.KeyOptions, record.Seal(bytes.Clone(options), record.KeyOptions))
}

// Ranked returns the version of the ranks that Rerank has put in last; 0: none.
func (g Marks) Ranked() (version uint64, err error) {
	version, _, err = boltfile.Read(g.x.file, record.BucketSys, record.KeyRanked, record.DecodeRanked)
	return version, err
}
