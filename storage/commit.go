package storage

import (
	"fmt"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"urltree/internal/seen"

	"urltree/storage/boltfile"
	"urltree/storage/inbox"
	"urltree/storage/record"
)

// Committed is what a transaction came to, for those who keep copies in memory.
type Committed struct {
	// Fresh are the rows that became eligible: new URLs, reopened ones, held ones of which a
	// seed or a shorter way released them, and sitemaps that are to be read. Those that are new but
	// held are not among them.
	Fresh []record.Row
	// Next has, for each outcome in turn, the row where its URL waits now; Range 0: it has an outcome.
	Next []record.Row
	// New is the number of records made, Cut that of links that got none, see Limits.MaxHeld.
	New, Cut int
	// Known are the links with a Rank to URLs that had a record.
	Known []KnownLink
	Tx    uint64 // the number of the transaction
}

// A KnownLink is a link that made no record: the fingerprint of its URL, see Index.Filter, and its
// Rank.
type KnownLink struct{ Fingerprint, Rank uint64 }

// Commit writes one set of outcomes, with their links, in one transaction. It decides which
// links are new, and adds those to the seen filter after the commit. An outcome for a URL that
// has one already changes nothing, so that a repeat after a crash does no harm.
//
// On an error nothing was written, and the index must not be used to go on.
func (x *Index) Commit(set []*record.Outcome) (Committed, error) {
	if err := x.lock(); err != nil {
		return Committed{}, err
	}
	defer x.mu.Unlock()
	return x.commit(set)
}

// commit is Commit; the caller holds x.mu.
func (x *Index) commit(set []*record.Outcome) (Committed, error) {
	var done Committed
	if err := x.makeWay(set); err != nil {
		return done, fmt.Errorf("index commit: %w", err)
	}
	err := x.update(func(c *change) error {
		c.coming = comingOf(set)
		// Most links that come this far are new.
		done = Committed{Next: make([]record.Row, len(set)), Fresh: make([]record.Row, 0, c.coming-int64(len(set)))}
		c.done = &done
		for i, o := range set {
			switch {
			case o.Row.Kind == record.SitemapRow && !o.Part:
				c.endSitemap(o) // settle says where it waits
			case o.OfPage():
				next, err := c.outcome(o)
				if err != nil {
					return err
				}
				done.Next[i] = next
			}
			if err := c.links(o); err != nil {
				return err
			}
			if o.Host != nil {
				if h := c.host(o.Host.Name); h.times == nil || h.times.Seq <= o.Host.Seq {
					h.times = o.Host
				}
			}
			if o.Robots != nil {
				if err := c.tx.Bucket(record.BucketRobots).Put([]byte(o.Robots.Origin), o.Robots.Append(nil)); err != nil {
					return err
				}
			}
			if o.Seeds != nil {
				if err := c.tx.Bucket(record.BucketSys).Put(record.KeySeeds, o.Seeds.Append(nil, record.KeySeeds)); err != nil {
					return err
				}
			}
		}
		c.settle(set)
		done.Tx = uint64(c.tx.ID())
		return nil
	})
	if err != nil {
		return Committed{}, fmt.Errorf("index commit: %w", err)
	}
	return done, nil
}

// comingOf returns the most records that a set makes: one for each outcome and link.
func comingOf(set []*record.Outcome) (n int64) {
	for _, o := range set {
		n += 1 + int64(len(o.Links))
	}
	return n
}

// update runs fn in a write transaction and then writes what it changed, keys in order.
func (x *Index) update(fn func(*change) error) error {
	if err := x.pay(); err != nil {
		return err
	}
	c := &change{
		x: x, now: time.Now().Unix(), totals: x.totals, run: x.run.Clone(),
		entries: map[string]*entry{}, hosts: map[string]*hostChange{}, domains: map[string]*domainChange{},
		queries: map[string]int64{}, prefixes: map[string]int64{}, shorter: map[string]bool{},
		arena: x.arena,
	}
	err := x.file.Update(func(tx *bolt.Tx) error {
		c.tx, c.values.Tx = tx, tx
		if err := fn(c); err != nil {
			return err
		}
		return c.flush()
	})
	if !x.file.Broken() {
		x.arena = c.arena.Spare()
	}
	if err != nil {
		return err
	}
	x.totals, x.run = c.totals, c.run
	for _, fp := range c.fresh {
		x.filter.Add(fp)
	}
	x.inbox.Committed(c.waiting)
	return nil
}

// A change is what one transaction is about to write. Records are compared old against new at
// the end, so that pending rows and all counters follow from the records alone.
type change struct {
	x                 *Index
	tx                *bolt.Tx
	values            boltfile.Values // of tx
	done              *Committed      // what it comes to; nil: no outcomes are committed
	now               int64
	totals            record.Totals
	run               record.Run
	entries           map[string]*entry      // by URL
	hosts             map[string]*hostChange // by name
	domains           map[string]*domainChange
	fresh             []uint64         // fingerprints for the filter after the commit
	coming            int64            // outcomes and links of the set: it makes no more records
	queries, prefixes map[string]int64 // URLs that count towards a budget, by path and by folder, where asked
	shorter           map[string]bool  // by record key: whether its links must be looked at again
	arena             boltfile.Arena   // of what it writes
	waiting           *inbox.Batch     // the records that it adds to the inbox
	edgesEnd          int64            // of the file of edges, if some came
	edgesPages        int64            // stored pages that came with edges
	edgesLost         bool             // an entry of the file may be of a page no more
	relink            bool             // pages stored before may have links that only now belong to the crawl

	sitemaps map[string]*entry // by URL; nil: none
}

type entry struct {
	key  []byte
	old  *record.Record // nil: there was none
	rec  *record.Record // nil: there is none
	lost bool           // there was one that cannot be read
	late bool           // old is in the inbox
	meta *record.Meta   // to be kept with rec; nil: nothing new
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
	v, moved := c.x.inbox.Change(&c.values, url, key)
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

// of returns what this change has of a row; nil: nothing yet.
func (c *change) of(row *record.Row) *entry {
	switch row.Kind {
	case record.PageRow:
		return c.entries[row.URL]
	case record.SitemapRow:
		return c.sitemaps[row.URL]
	}
	return nil
}

// key returns the record key of a URL.
func (c *change) key(url string) (key []byte, err error) {
	key = c.arena.Keep(func(b []byte) []byte {
		b, err = record.AppendKey(b, url)
		return b
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %q", err, url)
	}
	return key, nil
}

// outcome applies what happened to a URL, and returns the row where it waits now.
func (c *change) outcome(o *record.Outcome) (record.Row, error) {
	e, err := c.entry(o.Row.URL)
	switch {
	case err != nil, o.Part:
		return record.Row{}, err
	case o.Again:
		c.shorter[string(e.key)] = false
		return record.Row{}, nil
	case e.rec == nil:
		if err := c.restore(e, o); err != nil {
			return record.Row{}, err
		}
	}
	if err := c.apply(e, eventOf(o), cause{outcome: o}); err != nil || e.rec.State != record.Pending {
		return record.Row{}, err
	}
	return e.rec.Row, nil
}

// restore makes a record for an outcome of a URL that has none, or has lost it.
func (c *change) restore(e *entry, o *record.Outcome) error {
	l := record.Link{URL: o.Row.URL, Source: o.Row.Source, Via: o.Row.Via, Depth: o.Row.Depth, Hops: o.Row.Hops}
	c.create(e, &l, c.x.filter.Fingerprint(l.URL))
	if _, _, err := c.hold(e.key, &record.Link{URL: o.Row.URL, Source: record.Seed}); err != nil {
		return err
	}
	if o.Row.Range == 0 {
		return nil
	}
	// The record is lost, its pending row may not be.
	return c.tx.Bucket(record.BucketPending).Delete(record.AppendPendingKey(nil, &o.Row, e.key))
}

// putScope keeps a URL as a seed whose record does not say so.
func (c *change) putScope(url string) error {
	return c.tx.Bucket(record.BucketScope).Put([]byte(url), record.Seal(nil, []byte(url)))
}

// settle sees to it that a URL which got its outcome and was reopened by a link of the same set
// is told of once: as a row that waits again.
func (c *change) settle(set []*record.Outcome) {
	done := c.done
	again := map[string]bool{}
	for i, o := range set {
		if o.Again || o.Part {
			continue
		}
		if e := c.of(&o.Row); e != nil && e.rec != nil && e.rec.State == record.Pending && done.Next[i].Range == 0 {
			done.Next[i] = e.rec.Row
			again[o.Row.ID()] = true
		}
	}
	if len(again) > 0 {
		done.Fresh = slices.DeleteFunc(done.Fresh, func(r record.Row) bool { return again[r.ID()] })
	}
}

// links takes the links of an outcome, and marks its record if some of them were cut.
func (c *change) links(o *record.Outcome) error {
	var from *record.Record
	shift := uint32(0) // by how much the record's depth is less than what the links are counted from
	if e := c.of(&o.Row); e != nil && e.rec != nil {
		from = e.rec
		if c.x.opts.Limits.MaxDepth != 0 && o.Page.PageDepth > from.Depth {
			shift = o.Page.PageDepth - from.Depth
		}
	}
	before := c.done.Cut
	var l record.Link // one place for all, since it may escape
	for i := range o.Links {
		if l = o.Links[i]; l.Kind == record.PageRow {
			l.Depth -= min(l.Depth, shift)
		}
		if err := c.link(&l); err != nil {
			return err
		}
	}
	cut := uint32(c.done.Cut - before)
	switch {
	case o.Row.URL == "":
		return nil
	case o.Part:
		c.x.ahead[o.Row.ID()] += cut
		return nil
	}
	cut += c.x.ahead[o.Row.ID()] + o.Cut
	delete(c.x.ahead, o.Row.ID())
	if from != nil && from.State != record.Pending && (cut > 0 || o.Again) {
		from.Cut = cut
	}
	return nil
}

// link makes a record for a link that is new, and changes a known one where the link says so.
func (c *change) link(l *record.Link) error {
	if l.Kind == record.SitemapRow {
		c.nameSitemap(l)
		return nil
	}
	if l.Source == record.Seed {
		grown, err := c.seeded(l)
		if err != nil {
			return err
		}
		c.relink = c.relink || grown && (!c.rebuild() || l.Via != "")
	}
	fp := c.x.filter.Fingerprint(l.URL)
	answer := c.x.filter.Lookup(fp)
	if answer == seen.Known && !l.Cookie && l.Source != record.Seed && !c.depthCounts() {
		c.done.known(fp, l)
		return nil
	}
	e, err := c.target(l, fp, answer)
	if err != nil {
		return err
	}
	if e.rec == nil {
		return c.discover(e, l, fp)
	}
	c.done.known(fp, l)
	ev, ok := c.eventOfLink(l, e.rec)
	if !ok {
		return nil
	}
	if err := c.apply(e, ev, cause{link: l}); err != nil || ev != seeded || l.Depth >= e.rec.Depth {
		return err
	}
	return c.apply(e, c.way(), cause{link: l}) // to a seed that keeps its outcome
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
		if v, _ := c.x.inbox.Change(&c.values, l.URL, key); v != nil {
			return nil, fmt.Errorf("put of a new record would replace one: %s", l.URL)
		}
	}
	e := &entry{key: key}
	c.entries[l.URL] = e
	return e, nil
}

// discover makes the record of a URL that has none, unless it would be held and too many are.
func (c *change) discover(e *entry, l *record.Link, fp uint64) error {
	reason, full, err := c.hold(e.key, l)
	if err != nil {
		return err
	}
	if full {
		c.done.Cut++
		return nil
	}
	c.create(e, l, fp)
	if reason == "" {
		c.done.Fresh = append(c.done.Fresh, e.rec.Row)
		return nil
	}
	e.rec.Range, e.rec.Reason = record.Held, reason
	c.host(record.Host(l.URL)).held++
	if reason == record.HeldDomain {
		d, err := c.domain(record.Host(l.URL))
		if err != nil {
			return err
		}
		d.waiting++
	}
	return nil
}

func (d *Committed) known(fp uint64, l *record.Link) {
	if l.Rank != 0 {
		d.Known = append(d.Known, KnownLink{fp, l.Rank})
	}
}

// create makes a pending record, eligible now, in an entry that has none.
func (c *change) create(e *entry, l *record.Link, fp uint64) {
	c.totals.Seq++
	rank := l.Rank
	if rank == 0 {
		rank = uint64(l.Depth)
	}
	e.rec = &record.Record{
		State: record.Pending, Found: c.now,
		Row: record.Row{
			URL: l.URL, Source: l.Source, Via: l.Via, Depth: l.Depth, Hops: l.Hops, Cookie: l.Cookie,
			Run: c.run.ID, Range: record.Now, Rank: rank, Seq: c.totals.Seq,
		},
	}
	c.run.Found++
	c.fresh = append(c.fresh, fp)
	c.done.New++
}
