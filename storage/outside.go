package storage

import (
	"context"
	"fmt"
	"iter"
	"time"

	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// A target outside is asked once, and keeps what came of it. It has a record, and while it waits a
// row, as a URL of the crawl has; both lie in buckets of their own, so that a crawl does not see
// them, and a run that asks them sees nothing else.

// outsideEntry returns the entry of a target outside as this change sees it. A damaged one counts
// as absent.
func (c *change) outsideEntry(url string) (*entry, error) {
	if e := c.outside[url]; e != nil {
		return e, nil
	}
	key, err := c.key(url)
	if err != nil {
		return nil, err
	}
	e := &entry{key: key}
	if v := c.w.Get(record.BucketOutside, key); v != nil {
		if old, err := record.DecodeOutside(key, v); err == nil {
			both := [2]record.Record{old, old}
			e.old, e.rec = &both[0], &both[1]
		}
	}
	c.outside[url] = e
	return e, nil
}

// endOutside applies what a target outside has come to, and returns the row where it waits now. One
// that has come to something already keeps that.
func (c *change) endOutside(o *record.Outcome) (record.Row, error) {
	e, err := c.outsideEntry(o.Row.URL)
	if err != nil {
		return record.Row{}, err
	}
	if e.rec == nil { // the record is lost, its row is not
		e.old = &record.Record{Row: o.Row, State: record.Pending}
		e.rec = &record.Record{Row: o.Row, State: record.Pending}
	}
	r := e.rec
	if r.State != record.Pending {
		return record.Row{}, nil
	}
	if o.State == record.Pending {
		n := &o.Next
		r.Range, r.Due, r.Reason, r.Tries, r.Spared = n.Range, n.Due, n.Reason, n.Tries, n.Spared
		return r.Row, nil
	}
	r.State, r.Page, r.Reason, r.Tries, r.Spared = o.State, o.Page, o.Reason, o.Row.Tries, o.Row.Spared
	r.Range, r.Due = 0, 0
	return record.Row{}, nil
}

// nameOutside makes the record of a target outside, unless there is one, or the URL is one of the
// crawl.
func (c *change) nameOutside(l *record.Link) error {
	e, err := c.outsideEntry(l.URL)
	if err != nil || e.rec != nil {
		return err
	}
	if of, err := c.entry(l.URL); err != nil || of.rec != nil || of.lost {
		return err
	}
	c.totals.Named++
	e.rec = &record.Record{State: record.Pending, Row: record.Row{
		URL: l.URL, Source: l.Source, Via: l.Via, Hops: l.Hops, Kind: record.OutsideRow,
		Run: c.run.ID, Range: record.Now, Seq: uint64(c.totals.Named),
	}}
	if c.done != nil {
		c.done.Fresh = append(c.done.Fresh, e.rec.Row)
	}
	return nil
}

func (c *change) writeOutside() {
	targets := make(boltfile.Puts, 0, len(c.outside))
	rows := make(boltfile.Puts, 0, len(c.outside))
	for url, e := range c.outside {
		switch {
		case e.gone:
			targets.Delete(e.key)
		case e.rec == nil, e.old != nil && *e.old == *e.rec:
			continue
		default:
			targets.Put(e.key, e.rec.AppendOutside(nil, e.key))
		}
		c.putRow(e, &rows)
		by := e.rec.Open() - e.old.Open()
		c.ledger.host(record.Host(url)).asks += by
		c.totals.Outside += by
	}
	c.w.write(record.BucketOutside, targets)
	c.w.write(record.BucketWaiting, rows)
}

// Get returns the record of a target outside; ok is false where there is none.
func (g Outside) Get(url string) (r record.Record, ok bool, err error) {
	key, err := record.Key(url)
	if err != nil {
		return r, false, err
	}
	return boltfile.Read(g.x.file, record.BucketOutside, key, record.DecodeOutside)
}

// Each calls fn, outside of transactions, for the record of each target outside that is not
// damaged, in the order of keys.
func (g Outside) Each(ctx context.Context, fn func(*record.Record) error) error {
	return g.x.file.Scan(ctx, record.BucketOutside, nil, func(k, v []byte) error {
		r, err := record.DecodeOutside(k, v)
		if err != nil {
			return nil
		}
		return fn(&r)
	})
}

// enterTargets is how many targets go into one transaction.
const enterTargets = 10_000

// Enter makes the record of each target that is known neither as one nor as a URL of the crawl, in
// transactions of bounded size. They are best in the order of keys. An error that comes with one
// ends it.
func (g Outside) Enter(targets iter.Seq2[record.Link, error]) error {
	return inParts(g.x, enterTargets, func(each func(record.Link) error) error {
		for l, err := range targets {
			if err == nil {
				err = each(l)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}, func(c *change, part []record.Link) (func(), error) {
		for i := range part {
			if err := c.nameOutside(&part[i]); err != nil {
				return nil, fmt.Errorf("enter: %w", err)
			}
		}
		return func() {}, nil
	})
}

// Reopen has the targets asked for which pick is true, as if nobody had asked them. It returns
// their number.
func (g Outside) Reopen(ctx context.Context, pick func(*record.Record) bool) (int, error) {
	open := func(c *change, url string) (*record.Row, error) {
		e, err := c.outsideEntry(url)
		if err != nil || e.rec == nil || e.rec.Open() > 0 {
			return nil, err
		}
		e.rec.Reopen(c.run.ID)
		return &e.rec.Row, nil
	}
	return g.x.reopen(open, nil, func(each func(url string) error) error {
		return g.Each(ctx, func(r *record.Record) error {
			if r.Open() > 0 || !pick(r) {
				return nil
			}
			return each(r.URL)
		})
	})
}

// asHost returns a host as one whose URLs are its targets outside.
func asHost(h record.HostRow) record.HostRow {
	h.Counts, h.Sitemaps, h.Revisits = record.Counts{Now: h.Outside}, 0, 0
	return h
}

// HostAt is [Queues.HostAt] where the URLs of a host are its targets outside.
func (g Outside) HostAt(name string) (record.HostRow, uint64, error) {
	h, tx, err := g.x.Queues().HostAt(name)
	return asHost(h), tx, err
}

// NextHosts is [Queues.NextHosts] for hosts with targets outside that are to be asked.
func (g Outside) NextHosts(after string, n int) (hosts []record.HostRow, tx uint64, err error) {
	hosts, tx, err = g.x.nextHosts(after, n, func(h *record.HostRow) bool { return h.Outside > 0 })
	for i := range hosts {
		hosts[i] = asHost(hosts[i])
	}
	return hosts, tx, err
}

// Refill is [Queues.Refill] for targets outside, which are its pages. A row whose record is damaged
// is left out.
func (g Outside) Refill(host string, now time.Time, pages, _ int, skip func(id string) bool) (rows []record.Row, due int64, err error) {
	q := queue{g.x, record.BucketWaiting, record.OutsideRow, func(in *boltfile.Values, row *record.Row, key []byte) (bool, error) {
		r, err := record.DecodeOutside(key, in.Get(record.BucketOutside, key))
		if err != nil || r.State != record.Pending || r.Seq != row.Seq {
			return false, nil
		}
		*row = r.Row
		return true, nil
	}}
	rows, err = refill([]queue{q}, host, now, pages, skip, earliest(&due))
	return rows, due, err
}
