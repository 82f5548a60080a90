package storage

import (
	"bytes"
	"encoding/binary"
	"time"

	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// flush writes all that changed: records with their pending rows and metadata, the counters of
// folders and hosts, the run, the totals.
func (c *change) flush() error {
	if err := c.flushRecords(); err != nil {
		return err
	}
	if err := c.flushShorter(); err != nil {
		return err
	}
	if err := c.flushSitemaps(); err != nil {
		return err
	}
	if err := c.flushHosts(); err != nil {
		return err
	}
	if err := c.flushDomains(); err != nil {
		return err
	}
	if err := c.flushEdges(); err != nil {
		return err
	}
	if c.run.ID != 0 {
		// By the monotonic clock: nobody's setting of the time makes a run end before it began.
		c.run.End = c.run.Start + int64(time.Since(c.x.began)/time.Second)
		if err := putRun(c.tx, &c.run); err != nil {
			return err
		}
	}
	sys := c.tx.Bucket(record.BucketSys)
	sitemap, _ := c.tx.Bucket(record.BucketSitemap).Cursor().First()
	if c.relink && (c.totals.Parsed() || sitemap != nil) {
		if err := sys.Put(record.KeyRelink, record.Seal(nil, record.KeyRelink)); err != nil {
			return err
		}
	}
	return sys.Put(record.KeyTotals, c.totals.Append(nil, record.KeyTotals))
}

// addTo adds to the counts under a key.
func addTo(sums map[string]*record.Counts, key []byte, diff *record.Counts) {
	f := sums[string(key)]
	if f == nil {
		f = &record.Counts{}
		sums[string(key)] = f
	}
	f.Add(diff)
}

// flushRecords writes records, and what follows from them.
func (c *change) flushRecords() error {
	var urls, metas boltfile.Puts
	rows := make(boltfile.Puts, 0, len(c.entries))
	c.waiting = c.x.inbox.Batch(len(c.entries))
	// By how much the counts of a folder, and of a path with queries, change.
	folders, queries := map[string]*record.Counts{}, map[string]*record.Counts{}
	for _, e := range c.entries {
		if e.rec == nil || e.old != nil && *e.old == *e.rec {
			continue
		}
		waits := e.old == nil && !e.lost && e.rec.State == record.Pending && c.waiting.Take(e.rec, e.key, &c.arena)
		if !waits {
			urls.Put(e.key, c.arena.Keep(func(b []byte) []byte { return e.rec.Append(b, e.key) }))
		}
		unstored := e.lost || e.old != nil && e.old.State == record.Stored && e.rec.State != record.Stored
		c.edgesLost = c.edgesLost || unstored
		switch {
		case e.meta != nil:
			metas.Put(e.key, c.arena.Keep(func(b []byte) []byte { return e.meta.Append(b, e.key) }))
		case unstored:
			metas.Delete(e.key) // only a page that is stored has metadata
		}
		c.putRow(e, &rows)
		if err := c.count(e); err != nil {
			return err
		}
		if waits {
			continue
		}
		var diff record.Counts
		if e.old != nil && !e.late {
			diff.Count(e.old, -1)
		}
		if diff.Count(e.rec, 1); diff == (record.Counts{}) {
			continue
		}
		record.Parents(e.key, func(folder []byte) { addTo(folders, folder, &diff) })
		if path := record.PathOf(e.key); path != nil {
			addTo(queries, path, &diff)
		}
	}
	// Before the records, because it looks at those there are.
	if err := c.flushCounts(&folderCounts, folders); err != nil {
		return err
	}
	if err := c.flushCounts(&queryCounts, queries); err != nil {
		return err
	}
	if err := c.values.Write(record.BucketURL, urls); err != nil {
		return err
	}
	if err := c.values.Write(record.BucketMeta, metas); err != nil {
		return err
	}
	if err := c.waiting.Write(&c.values); err != nil {
		return err
	}
	// The rows of a host mostly come behind all others of it.
	c.tx.Bucket(record.BucketPending).FillPercent = 0.8
	return c.values.Write(record.BucketPending, rows)
}

// putRow replaces the pending row of a record.
func (c *change) putRow(e *entry, rows *boltfile.Puts) {
	var before, after []byte // keys
	if e.old != nil && e.old.State == record.Pending {
		before = c.arena.Keep(func(b []byte) []byte { return record.AppendPendingKey(b, &e.old.Row, e.key) })
	}
	if e.rec.State == record.Pending {
		after = c.arena.Keep(func(b []byte) []byte { return record.AppendPendingKey(b, &e.rec.Row, e.key) })
		rows.Put(after, c.arena.Keep(func(b []byte) []byte { return binary.BigEndian.AppendUint32(b, e.rec.Run) }))
	}
	if before != nil && !bytes.Equal(before, after) {
		rows.Delete(before)
	}
}

// count counts a record that has changed: in the whole, for its host and for its domain.
func (c *change) count(e *entry) error {
	var diff record.Counts
	if e.old != nil {
		diff.Count(e.old, -1)
		c.totals.Count(e.old, -1)
	}
	diff.Count(e.rec, 1)
	c.totals.Count(e.rec, 1)
	if diff != (record.Counts{}) {
		c.host(record.Host(e.rec.URL)).counts.Add(&diff)
	}
	n := record.HeldByDomain(e.rec) - record.HeldByDomain(e.old)
	if n == 0 {
		return nil
	}
	d, err := c.domain(record.Host(e.rec.URL))
	if d != nil {
		d.held += n
	}
	return err
}

func (c *change) flushShorter() error {
	puts := make(boltfile.Puts, 0, len(c.shorter))
	for key, yes := range c.shorter {
		switch {
		case yes:
			puts.Put([]byte(key), record.Seal(nil, []byte(key)))
		case c.values.Get(record.BucketShorter, []byte(key)) != nil:
			puts.Delete([]byte(key))
		}
	}
	return c.values.Write(record.BucketShorter, puts)
}

func (c *change) flushHosts() error {
	puts := make(boltfile.Puts, 0, len(c.hosts))
	for name, change := range c.hosts {
		row, err := c.stored(name, change)
		if err != nil {
			return err
		}
		h := *row
		h.Counts.Add(&change.counts)
		h.Sitemaps += change.maps
		if t := change.times; t != nil && (h.Run != c.run.ID || h.Seq <= t.Seq) {
			h.HostTimes, h.Run = *t, c.run.ID
		}
		if h.Counted == 0 && h.Used() > 0 {
			d, err := c.domain(name)
			if err != nil {
				return err
			}
			if d != nil {
				h.Counted = 1
				d.hosts++
			}
		}
		puts.Put([]byte(name), h.Append(nil))
	}
	return c.values.Write(record.BucketHost, puts)
}
