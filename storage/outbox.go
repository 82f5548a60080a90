package storage

import (
	"bytes"
	"context"
	"fmt"

	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// A link to a host that another process of the crawl asks makes no record. It goes to the outbox,
// in the transaction of the page that has it, and stays until an outcome says that it is delivered:
// so it is lost neither with this process nor on the way. A link whose URL was posted since the
// index was opened is dropped by the seen filter like one to a known URL.

// away returns the partition of a URL's host, and whether another process asks it.
func (c *change) away(url string) (part uint16, away bool) {
	if c.x.opts.Away == nil {
		return 0, false
	}
	return c.x.opts.Away(record.Host(url))
}

// strays reports whether one of the links is to a host that another process asks.
func (c *change) strays(links []record.Link) bool {
	for i := range links {
		if _, away := c.away(links[i].URL); away {
			return true
		}
	}
	return false
}

// post puts a link into the outbox.
func (c *change) post(part uint16, l *record.Link) {
	if c.w.err == nil {
		_, c.w.err = c.w.Tx.CreateBucketIfNotExists(record.BucketOutbox)
	}
	c.outbox.Rows++
	c.outbox.Last++
	p := record.Posted{Part: part, Seq: c.outbox.Last, Link: *l}
	c.w.put(record.BucketOutbox, record.PostedKey(part, p.Seq), p.Append(nil))
	c.done.Posted++
}

// deliver takes rows that are delivered out of the outbox. Those that are not there have left
// before.
func (c *change) deliver(rows []record.Delivery) {
	outbox := c.w.Tx.Bucket(record.BucketOutbox)
	if outbox == nil || c.w.err != nil {
		return
	}
	for _, d := range rows {
		first, last := record.PostedKey(d.Part, d.First), record.PostedKey(d.Part, d.Last)
		at := outbox.Cursor()
		for k, _ := at.Seek(first); k != nil && bytes.Compare(k, last) <= 0; k, _ = at.Seek(first) {
			if c.w.err = at.Delete(); c.w.err != nil {
				return
			}
			c.outbox.Rows--
		}
	}
}

// writeOutbox writes how much is in the outbox, if that has changed.
func (c *change) writeOutbox() {
	if c.outbox != c.x.outbox {
		c.w.put(record.BucketSys, record.KeyPosted, c.outbox.Append(nil))
	}
}

// Len returns the number of rows.
func (g Outbox) Len() int64 {
	g.x.mu.Lock()
	defer g.x.mu.Unlock()
	return g.x.outbox.Rows
}

// Read returns the rows of a partition behind the number after, in order, at most so many. A row
// that is damaged is left out.
func (g Outbox) Read(part uint16, after uint64, most int) (rows []record.Posted, err error) {
	if g.Len() == 0 {
		return nil, nil // there may be no bucket
	}
	from := record.PostedKey(part, after+1)
	err = g.x.file.Walk(context.Background(), record.BucketOutbox, from, func(_ *boltfile.Values, k, v []byte) ([]byte, error) {
		if !bytes.HasPrefix(k, from[:2]) || len(rows) == most {
			return nil, boltfile.ErrStop
		}
		if p, err := record.DecodePosted(k, v); err == nil {
			rows = append(rows, p)
		}
		return nil, nil
	})
	return rows, err
}

// Exclusive calls fn while no transaction is being written: what Options.Away returns may change in
// it.
func (x *Index) Exclusive(fn func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	fn()
}

// Cluster returns what SetCluster has kept last, nil if nothing was.
func (g Marks) Cluster() (kept []byte, err error) {
	kept, _, err = boltfile.Read(g.x.file, record.BucketSys, record.KeyCluster, func(key, value []byte) ([]byte, error) {
		body, err := record.Unseal(value, key)
		return bytes.Clone(body), err
	})
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	return kept, nil
}

// SetCluster keeps what this process has to know of the crawl of several that it belongs to.
func (g Marks) SetCluster(kept []byte) error {
	return g.put(record.KeyCluster, record.Seal(bytes.Clone(kept), record.KeyCluster))
}
