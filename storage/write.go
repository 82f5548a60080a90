package storage

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"time"

	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// writeRecords writes records, and what follows from them.
func (c *change) writeRecords() {
	var urls, metas boltfile.Puts
	var revisits boltfile.Puts
	rows := make(boltfile.Puts, 0, len(c.entries))
	c.arrivals = c.x.inbox.Arrivals(len(c.entries))
	// By how much the counts of a folder, and of a path with queries, change.
	folders, queries := map[string]*record.Counts{}, map[string]*record.Counts{}
	for _, e := range c.entries {
		if e.gone {
			c.remove(e, &urls, &metas, &rows)
			c.putRevisit(e, &revisits)
			c.forgetVersions(e)
			c.countBelow(e, folders, queries)
			continue
		}
		if e.rec == nil || e.old != nil && *e.old == *e.rec {
			continue
		}
		waits := e.old == nil && !e.lost && e.rec.State == record.Pending && c.arrivals.Take(e.rec, e.key, &c.w.arena)
		if !waits {
			urls.Put(e.key, c.w.arena.Keep(func(b []byte) []byte { return e.rec.Append(b, e.key) }))
		}
		unstored := e.lost || e.old != nil && e.old.State == record.Stored && e.rec.State != record.Stored
		c.edges.lost = c.edges.lost || unstored
		switch {
		case e.meta != nil:
			metas.Put(e.key, c.w.arena.Keep(func(b []byte) []byte { return e.meta.Append(b, e.key) }))
		case unstored || e.renewed:
			metas.Delete(e.key) // only a page that is stored has metadata
		}
		c.putRow(e, &rows)
		c.putRevisit(e, &revisits)
		c.count(e)
		if waits {
			continue
		}
		c.countBelow(e, folders, queries)
	}
	// Before the records, because it looks at those there are.
	folderCounts.write(&c.w, folders)
	queryCounts.write(&c.w, queries)
	c.w.write(record.BucketURL, urls)
	c.w.write(record.BucketMeta, metas)
	c.w.fail(c.arrivals.Write(&c.w.Values))
	// The rows of a host mostly come behind all others of it.
	c.w.Tx.Bucket(record.BucketPending).FillPercent = 0.8
	c.w.write(record.BucketPending, rows)
	c.w.write(record.BucketRevisit, revisits)
}

// remove removes a record, and what follows from it.
func (c *change) remove(e *entry, urls, metas, rows *boltfile.Puts) {
	urls.Delete(e.key)
	metas.Delete(e.key)
	c.looks.shorter[string(e.key)] = false
	c.edges.lost = c.edges.lost || e.old.State == record.Stored
	if e.old.State == record.Pending {
		rows.Delete(c.w.arena.Keep(func(b []byte) []byte { return record.AppendPendingKey(b, &e.old.Row, e.key) }))
	}
	c.count(e)
	c.totals.Forgotten++
}

// countBelow counts a record that has changed: for the folders that it is in, and for its path.
func (c *change) countBelow(e *entry, folders, queries map[string]*record.Counts) {
	var diff record.Counts
	if e.old != nil && !e.late {
		diff.Count(e.old, -1)
	}
	if e.rec != nil {
		diff.Count(e.rec, 1)
	}
	if diff == (record.Counts{}) {
		return
	}
	record.Parents(e.key, func(folder []byte) { addTo(folders, folder, &diff) })
	if path := record.PathOf(e.key); path != nil {
		addTo(queries, path, &diff)
	}
}

func (c *change) putRow(e *entry, rows *boltfile.Puts) {
	var before, after []byte // keys
	if e.old != nil && e.old.State == record.Pending {
		before = c.w.arena.Keep(func(b []byte) []byte { return record.AppendPendingKey(b, &e.old.Row, e.key) })
	}
	if e.rec != nil && e.rec.State == record.Pending {
		after = c.w.arena.Keep(func(b []byte) []byte { return record.AppendPendingKey(b, &e.rec.Row, e.key) })
		rows.Put(after, c.w.arena.Keep(func(b []byte) []byte { return binary.BigEndian.AppendUint32(b, e.rec.Run) }))
	}
	if before != nil && !bytes.Equal(before, after) {
		rows.Delete(before)
	}
}

// count counts a record that has changed: in the whole, for its host and for its domain.
func (c *change) count(e *entry) {
	var diff record.Counts
	if e.old != nil {
		diff.Count(e.old, -1)
		c.totals.Count(e.old, -1)
	}
	if e.rec != nil {
		diff.Count(e.rec, 1)
		c.totals.Count(e.rec, 1)
	}
	host := record.Host(cmp.Or(e.rec, e.old).URL)
	if n := e.rec.Revisits() - e.old.Revisits(); n != 0 {
		c.ledger.host(host).revisits += n
	}
	if diff != (record.Counts{}) {
		h := c.ledger.host(host)
		h.counts = h.counts.Plus(diff, 1)
	}
	if n := record.HeldByDomain(e.rec) - record.HeldByDomain(e.old); n != 0 {
		if d := c.ledger.domain(host); d != nil {
			d.held += n
		}
	}
}

func (c *change) writeRun() {
	if c.run.ID == 0 {
		return
	}
	// By the monotonic clock: setting the time cannot make a run end before it began.
	c.run.End = c.run.Start + int64(time.Since(c.x.began)/time.Second)
	c.w.fail(putRun(c.w.Tx, &c.run))
}
