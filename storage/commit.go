package storage

import (
	"fmt"
	"slices"

	"urltree/internal/seen"

	"urltree/storage/record"
)

// Committed is what a transaction came to, for a caller that keeps copies in memory.
type Committed struct {
	// Fresh are the rows that became eligible: new URLs, reopened ones, held ones of which a
	// seed or a shorter way released them, and sitemaps that are to be read. Those that are new but
	// held are not among them.
	Fresh []record.Row
	// Next has, for each outcome in turn, the row where its URL waits now; Range 0: it has an outcome.
	Next []record.Row
	// New is the number of records made, Cut that of links that got none, see Limits.MaxHeld.
	New, Cut int
	// Refused has true for each outcome whose links were not taken, see Outcome.Arrived; nil: for
	// none.
	Refused []bool
	// Posted is the number of links that went to the outbox.
	Posted int
	// Known are the links with a Rank to URLs that had a record.
	Known []KnownLink
	Tx    uint64 // the number of the transaction
}

// A KnownLink is a link that made no record: fingerprint of the URL, see Index.Filter, and Rank.
type KnownLink struct{ Fingerprint, Rank uint64 }

// Commit writes one set of outcomes, with their links, in one transaction. It decides which
// links are new, and adds those to the seen filter after the commit. An outcome for a URL that
// has one already changes nothing, so that a repeat after a crash does no harm. After any error
// but that of WaitForRoom the index must not be used to go on.
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
		c.ledger.coming = comingOf(set)
		// Most links that come this far are new.
		done = Committed{Next: make([]record.Row, len(set)), Fresh: make([]record.Row, 0, c.ledger.coming-int64(len(set)))}
		c.done = &done
		for i, o := range set {
			if o.Arrived && c.strays(o) {
				if done.Refused == nil {
					done.Refused = make([]bool, len(set))
				}
				done.Refused[i] = true
				continue
			}
			c.arrived = o.Arrived || o.Repost
			var err error
			if done.Next[i], err = c.outcome(o); err != nil {
				return err
			}
			if err := c.links(o); err != nil {
				return err
			}
			if err := c.moveIn(o.Moved); err != nil {
				return err
			}
			c.besides(o)
		}
		c.segmentEnds(set)
		c.nextOfOpen(set)
		done.Tx = uint64(c.w.Tx.ID())
		return nil
	})
	if err != nil {
		return Committed{}, fmt.Errorf("index commit: %w", err)
	}
	return done, nil
}

// comingOf returns the most records that a set makes: one for each outcome and link
// and for what is handed over.
func comingOf(set []*record.Outcome) (n int64) {
	for _, o := range set {
		n += 1 + int64(len(o.Links)+len(o.Moved))
	}
	return n
}

// outcome applies what happened to a URL, a sitemap, a target outside or a stored page, and returns
// the row where a URL, a target or a revisit waits now.
func (c *change) outcome(o *record.Outcome) (record.Row, error) {
	switch {
	case o.Row.Kind == record.SitemapRow && !o.Part:
		c.endSitemap(o) // nextOfOpen says where it waits
		return record.Row{}, nil
	case o.Row.Kind == record.OutsideRow:
		return c.endOutside(o)
	case o.Row.Kind == record.RevisitRow:
		return c.endRevisit(o)
	case !o.OfPage():
		return record.Row{}, nil
	}
	e, err := c.entry(o.Row.URL)
	switch {
	case err != nil, o.Part:
		return record.Row{}, err
	case o.Again:
		c.looks.shorter[string(e.key)] = false
		return record.Row{}, nil
	case e.rec == nil:
		c.restore(e, o)
	}
	before := stageOf(e.rec)
	c.apply(e, eventOf(o), cause{outcome: o})
	c.trace(before, e.rec)
	if e.rec.State != record.Pending {
		return record.Row{}, nil
	}
	return e.rec.Row, nil
}

// restore makes a record for an outcome of a URL that has none, or has lost it.
func (c *change) restore(e *entry, o *record.Outcome) {
	l := record.Link{URL: o.Row.URL, Source: o.Row.Source, Via: o.Row.Via, Depth: o.Row.Depth, Hops: o.Row.Hops}
	c.create(e, &l, c.x.filter.Fingerprint(l.URL))
	c.ledger.spend(e.key, c.ledger.host(record.Host(l.URL)))
	if o.Row.Range != 0 { // the record is lost, its pending row may not be
		c.w.fail(c.w.Delete(record.BucketPending, record.AppendPendingKey(nil, &o.Row, e.key)))
	}
}

// besides keeps what comes with an outcome: of its host, of a robots.txt and of the list of seeds.
func (c *change) besides(o *record.Outcome) {
	if o.Host != nil {
		if h := c.ledger.host(o.Host.Name); h.times == nil || h.times.Seq <= o.Host.Seq {
			h.times = o.Host
		}
	}
	if o.Robots != nil {
		c.w.put(record.BucketRobots, []byte(o.Robots.Origin), o.Robots.Append(nil))
	}
	c.deliver(o.Delivered)
	if o.Seeds != nil {
		c.w.put(record.BucketSys, record.KeySeeds, o.Seeds.Append(nil, record.KeySeeds))
	}
}

// nextOfOpen sets Next of each outcome whose record waits again: a sitemap that is to be asked
// later, or a URL that a link of the same set reopened, which then is not in Fresh.
func (c *change) nextOfOpen(set []*record.Outcome) {
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

// link makes a record for a link that is new, and changes a known one where the link says so. Of
// one that has arrived from another process the filter may know that it was posted, or that it was
// here before it was handed over, which says nothing of the index.
func (c *change) link(l *record.Link) error {
	part, away := c.away(l.URL)
	later := c.x.opts.Bulk && !c.arrived
	away = away || later
	switch {
	case l.Kind == record.SitemapRow && away:
		c.post(record.Posted{Part: part, Link: *l})
		return nil
	case l.Kind == record.SitemapRow:
		c.nameSitemap(l)
		return nil
	case l.Kind == record.OutsideRow:
		return c.nameOutside(l)
	}
	if l.Source == record.Seed {
		if c.w.putSeed(l) && (!c.rebuild() || l.Via != "") {
			c.looks.relink = true
		}
	}
	fp := c.x.filter.Fingerprint(l.URL)
	answer := c.x.filter.Lookup(fp)
	if c.arrived && answer == seen.Known {
		answer = seen.Maybe
	}
	if answer == seen.Known && !l.Cookie && l.Source != record.Seed && !c.depthCounts() {
		c.done.known(fp, l)
		return nil
	}
	if away {
		if c.post(record.Posted{Part: part, Link: *l}); !later {
			c.fresh = append(c.fresh, fp) // so that the filter drops repeats
		}
		return nil
	}
	e, err := c.target(l, fp, answer)
	if err != nil {
		return err
	}
	if e.rec == nil {
		c.discover(e, l, fp)
		return nil
	}
	c.done.known(fp, l)
	ev, ok := c.eventOfLink(l, e.rec)
	if !ok {
		return nil
	}
	if c.apply(e, ev, cause{link: l}); ev == seeded && l.Depth < e.rec.Depth {
		c.apply(e, c.way(), cause{link: l}) // to a seed that keeps its outcome
	}
	return nil
}

// discover makes the record of a URL that has none, unless it would be held and too many are.
func (c *change) discover(e *entry, l *record.Link, fp uint64) {
	reason, full := c.ledger.hold(e.key, l)
	if full {
		c.done.Cut++
		return
	}
	c.create(e, l, fp)
	if reason == "" {
		c.done.Fresh = append(c.done.Fresh, e.rec.Row)
		return
	}
	e.rec.Range, e.rec.Reason = record.Held, reason
	host := record.Host(l.URL)
	c.ledger.host(host).held++
	if reason == record.HeldDomain {
		c.ledger.domain(host).waiting++ // the domain has too many hosts, so there is one
	}
}

func (d *Committed) known(fp uint64, l *record.Link) {
	if l.Rank != 0 {
		d.Known = append(d.Known, KnownLink{fp, l.Rank})
	}
}
