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

// strays reports whether something of an outcome is about a host that another process asks.
func (c *change) strays(o *record.Outcome) bool {
	for i := range o.Links {
		if _, away := c.away(o.Links[i].URL); away {
			return true
		}
	}
	for i := range o.Moved {
		if host := o.Moved[i].Host(); host != "" && c.x.opts.Away != nil {
			if _, away := c.x.opts.Away(host); away {
				return true
			}
		}
	}
	return false
}

// post puts a link into the outbox, or what is handed over.
func (c *change) post(p record.Posted) {
	if c.w.err == nil {
		_, c.w.err = c.w.Tx.CreateBucketIfNotExists(record.BucketOutbox)
	}
	c.outbox.Rows++
	c.outbox.Last++
	p.Seq = c.outbox.Last
	c.w.put(record.BucketOutbox, record.PostedKey(p.Part, p.Seq), p.Append(nil))
	if c.done != nil {
		c.done.Posted++
	}
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

// Last returns the number of the row that was posted last.
func (g Outbox) Last() uint64 {
	g.x.mu.Lock()
	defer g.x.mu.Unlock()
	return g.x.outbox.Last
}

// Has reports whether one of the rows of some partitions up to a number is still there.
func (g Outbox) Has(parts []int, upTo uint64) (has bool, err error) {
	for _, part := range parts {
		rows, err := g.Read(uint16(part), 0, 1) // the first one is the oldest
		if err != nil || len(rows) > 0 && rows[0].Seq <= upTo {
			return true, err
		}
	}
	return false, nil
}

// Strays returns hosts, at most so many, of which rows wait that another process is to ask.
func (g Outbox) Strays(most int) (hosts []string, err error) {
	if away := g.x.opts.Away; away != nil {
		after := ""
		for len(hosts) < most {
			list, _, err := g.x.nextHosts(after, 256, func(h *record.HostRow) bool { return h.Now+h.Later+h.Sitemaps > 0 })
			if err != nil || len(list) == 0 {
				return hosts, err
			}
			for i := range list {
				after = list[i].Name
				if _, strays := away(after); strays {
					hosts = append(hosts, after)
				}
			}
		}
	}
	return hosts, nil
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
