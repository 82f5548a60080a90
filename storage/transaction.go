package storage

import (
	"cmp"
	"context"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"urltree/internal/seen"

	"urltree/storage/boltfile"
	"urltree/storage/inbox"
	"urltree/storage/record"
)

// A change is one transaction on records. It goes these steps:
//
//  1. The inbox moves what commits before it owe, in transactions of its own.
//  2. What is to happen is decided, from outcomes and links for the most part. That changes entries
//     and the ledger, in memory. Only that from which nothing follows is written at once.
//  3. All that has changed is written, a bucket at a time, keys in order. Records are compared old
//     against new, so that pending rows and all counters follow from the records alone.
//  4. The transaction becomes durable.
//  5. Memory learns of it: the totals, the run, the filter and the inbox.
//
// After an error in any of them nothing has happened, but for what the inbox has moved.
type change struct {
	x        *Index
	w        writer
	now      int64 // Unix seconds
	totals   record.Totals
	run      record.Run
	done     *Committed        // what it comes to; nil: no outcomes are committed
	entries  map[string]*entry // by URL
	sitemaps map[string]*entry // by URL
	outside  map[string]*entry // by URL
	fresh    []uint64          // fingerprints of new records, for the filter
	arrivals *inbox.Arrivals   // of these, the ones that go to the inbox
	outbox   record.Outbox
	step     record.Step
	arrived  bool // links belong to this process, see record.Outcome.Arrived
	ledger   ledger
	looks    looks
	seen     boltfile.Puts // of the bucket of looks at stored pages
	versions boltfile.Puts // of the bucket of their earlier versions
	edges    edgesChange
}

// A writer reads and writes in one transaction. After its first error it writes nothing more, and
// the transaction fails with it.
type writer struct {
	boltfile.Values
	arena boltfile.Arena // of what is written
	err   error
}

func (w *writer) fail(err error) {
	w.err = cmp.Or(w.err, err)
}

func (w *writer) put(bucket, key, value []byte) {
	if w.err == nil {
		w.err = w.Tx.Bucket(bucket).Put(key, value)
	}
}

func (w *writer) write(bucket []byte, puts boltfile.Puts) {
	if w.err == nil && len(puts) > 0 {
		w.err = w.Write(bucket, puts)
	}
}

// An entry is the record of a URL, a sitemap or a target outside, before and after a transaction.
type entry struct {
	key  []byte
	old  *record.Record // nil: there was none
	rec  *record.Record // nil: there is none
	lost bool           // there was one that cannot be read
	late bool           // old is in the inbox
	gone bool           // old is to be removed; rec is nil
	meta *record.Meta   // to be kept with rec; nil: nothing new
	// renewed says that the page is another one: without meta it has none.
	renewed bool
}

// update goes the steps of a transaction, of which fn is the second. x.mu is held.
func (x *Index) update(fn func(*change) error) error {
	if err := x.moveWhile(context.Background(), func() bool { return x.inbox.Due(&x.totals) }); err != nil {
		return fmt.Errorf("move new URLs: %w", err)
	}
	c := &change{
		x: x, w: writer{arena: x.arena}, now: time.Now().Unix(), totals: x.totals, run: x.run.Clone(), outbox: x.outbox, step: x.step,
		entries: map[string]*entry{}, sitemaps: map[string]*entry{}, outside: map[string]*entry{}, looks: looks{shorter: map[string]bool{}},
	}
	c.ledger = ledger{
		limits: &x.opts.Limits, w: &c.w,
		hosts: map[string]*hostChange{}, domains: map[string]*domainChange{}, used: map[place]*int64{},
	}
	err := x.file.Update(func(tx *bolt.Tx) error {
		c.w.Tx = tx
		if err := fn(c); err != nil {
			return err
		}
		c.write()
		return c.w.err
	})
	if !x.file.Broken() {
		x.arena = c.w.arena.Spare()
	}
	if err != nil {
		return err
	}
	x.totals, x.run = c.totals, c.run
	if c.totals.Revisits > 0 && !x.revisits.Load() {
		x.revisits.Store(true)
	}
	x.outbox, x.step = c.outbox, c.step
	for _, fp := range c.fresh {
		x.filter.Add(fp)
	}
	x.inbox.Arrived(c.arrivals)
	return nil
}

func (c *change) write() {
	c.writeRecords() // with pending rows, metadata and the counts of folders
	c.writeSitemaps()
	c.writeOutside()
	c.ledger.write(c.run.ID) // both have changed it
	c.edges.write(&c.w)
	c.looks.write(&c.w, &c.totals)
	c.w.write(record.BucketLook, c.seen)
	c.w.write(record.BucketVersion, c.versions)
	c.writeRun()
	c.writeOutbox()
	c.writeStep()
	c.w.put(record.BucketSys, record.KeyTotals, c.totals.Append(nil, record.KeyTotals))
}

// entry returns the record of a URL as this change sees it, or an entry without one.
func (c *change) entry(url string) (*entry, error) {
	if e := c.entries[url]; e != nil {
		return e, nil
	}
	key, err := c.key(url)
	if err != nil {
		return nil, err
	}
	e := &entry{key: key}
	v, moved := c.x.inbox.Change(&c.w.Values, url, key)
	e.late = !moved
	if v != nil {
		// A value that is damaged counts as absent: damage costs one record, not the crawl.
		if old, err := record.DecodeOf(url, key, v); err == nil {
			both := [2]record.Record{old, old}
			e.old, e.rec = &both[0], &both[1]
		} else {
			e.lost = true
		}
	}
	c.entries[url] = e
	return e, nil
}

// target returns the entry of a link's URL, of which the filter has said whether it is known.
func (c *change) target(l *record.Link, fp uint64, answer seen.Answer) (*entry, error) {
	if e := c.entries[l.URL]; e != nil {
		return e, nil
	}
	if answer != seen.Unknown {
		e, err := c.entry(l.URL)
		if err == nil && answer == seen.Maybe {
			c.x.filter.Confirm(fp, e.old != nil) // what this change makes is not durable yet
		}
		return e, err
	}
	// The filter knows all that is durable and not this one: no look into the index.
	key, err := c.key(l.URL)
	if err != nil {
		return nil, err
	}
	if c.x.opts.Strict {
		if v, _ := c.x.inbox.Change(&c.w.Values, l.URL, key); v != nil {
			return nil, fmt.Errorf("put of a new record would replace one: %s", l.URL)
		}
	}
	e := &entry{key: key}
	c.entries[l.URL] = e
	return e, nil
}

// of returns what this change has of a row; nil: nothing yet.
func (c *change) of(row *record.Row) *entry {
	switch row.Kind {
	case record.PageRow, record.RevisitRow:
		return c.entries[row.URL]
	case record.SitemapRow:
		return c.sitemaps[row.URL]
	case record.OutsideRow:
		return c.outside[row.URL]
	}
	return nil
}

func (c *change) key(url string) (key []byte, err error) {
	key = c.w.arena.Keep(func(b []byte) []byte {
		b, err = record.AppendKey(b, url)
		return b
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %q", err, url)
	}
	return key, nil
}

// create makes a pending record, eligible now, in an entry that has none.
func (c *change) create(e *entry, l *record.Link, fp uint64) {
	c.totals.Seq++
	e.rec = &record.Record{
		State: record.Pending, Found: c.now,
		Row: record.Row{
			URL: l.URL, Source: l.Source, Via: l.Via, Depth: l.Depth, Hops: l.Hops, Cookie: l.Cookie,
			Run: c.run.ID, Range: record.Now, Rank: cmp.Or(l.Rank, uint64(l.Depth)), Seq: c.totals.Seq,
		},
	}
	c.run.Found++
	c.fresh = append(c.fresh, fp)
	c.done.New++
}
