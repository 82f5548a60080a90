package storage

import (
	"context"
	"encoding/binary"

	"urltree/storage/record"
)

// A Filler adds entries to an index that is made from what can be read of another one. It writes in
// one transaction, see [Index.Fill]; what follows from the entries is written with them: pending
// rows, and the counts of hosts, folders and the whole. One goroutine uses it.
type Filler struct{ c *change }

// Fill calls fn in one transaction, with a Filler that is valid during the call. fn must not use
// the index otherwise. If it returns an error, nothing is written.
func (x *Index) Fill(fn func(*Filler) error) error {
	if err := x.lock(); err != nil {
		return err
	}
	defer x.mu.Unlock()
	return x.update(func(c *change) error { return fn(&Filler{c}) })
}

// Record adds a record under its key, and reports whether it did: the first of a URL counts.
func (f *Filler) Record(key []byte, rec record.Record) bool {
	c := f.c
	if c.entries[rec.URL] != nil || f.Get(record.BucketURL, key) != nil {
		return false
	}
	c.entries[rec.URL] = &entry{key: key, rec: &rec}
	c.fresh = append(c.fresh, c.x.filter.Fingerprint(rec.URL))
	c.totals.Seq = max(c.totals.Seq, rec.Seq)
	return true
}

// Host adds the times of a host.
func (f *Filler) Host(times *record.HostTimes) { f.c.ledger.host(times.Name).times = times }

// Sitemap adds a sitemap.
func (f *Filler) Sitemap(r record.Record) { f.c.sitemap(r.URL).rec = &r }

// Outside adds a target outside. Without a number of discovery it gets the next one.
func (f *Filler) Outside(r record.Record) error {
	e, err := f.c.outsideEntry(r.URL)
	if err == nil {
		if r.Seq == 0 {
			r.Seq = uint64(f.c.totals.Named) + 1
		}
		e.rec = &r
		f.c.totals.Named = max(f.c.totals.Named, int64(r.Seq))
	}
	return err
}

// Posted adds a row of the outbox.
func (f *Filler) Posted(key, value []byte) error {
	outbox, err := f.c.w.Tx.CreateBucketIfNotExists(record.BucketOutbox)
	if err != nil {
		return err
	}
	f.c.outbox.Rows++
	f.c.outbox.Last = max(f.c.outbox.Last, binary.BigEndian.Uint64(key[2:]))
	return outbox.Put(key, value)
}

// Get returns the value of a key as it was before the transaction, or as Put has written it.
func (f *Filler) Get(bucket, key []byte) []byte { return f.c.w.Get(bucket, key) }

// Put writes a value, sealed for its key, from which nothing follows.
func (f *Filler) Put(bucket, key, value []byte) error {
	return f.c.w.Tx.Bucket(bucket).Put(key, value)
}

// Entries calls fn, outside of transactions, with each entry of a bucket that [Filler.Put] may
// fill, in the order of keys. They are valid during the call, and may be damaged.
func (x *Index) Entries(ctx context.Context, bucket []byte, fn func(key, value []byte) error) error {
	return x.file.Scan(ctx, bucket, nil, fn)
}
