package storage

import (
	"bytes"
	"context"

	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// What is known of a partition that another process gets goes there through the outbox. URLs that
// wait leave the index in the transaction that posts them. Those with an outcome stay, with their
// pages: the other process learns that they are known elsewhere.

const (
	moveItems = 2000    // of one transaction at most
	moveBytes = 4 << 20 // of their values, after which a transaction takes no more
)

// MoveOut posts the next part of what goes, and returns where the scan goes on; nil: it has ended.
func (g Outbox) MoveOut(ctx context.Context, d *record.Departure) (next []byte, err error) {
	x := g.x
	if d.From == nil && d.Leg == record.LegWaiting {
		if err := x.Settle(ctx); err != nil {
			return nil, err
		}
	}
	keys, next, err := x.leaving(ctx, d)
	if err != nil {
		return nil, err
	}
	if err := x.lock(); err != nil {
		return nil, err
	}
	defer x.mu.Unlock()
	return next, x.update(func(c *change) error {
		for _, k := range keys {
			if err := c.moveOut(d, k); err != nil {
				return err
			}
		}
		c.w.put(record.BucketSys, record.KeyCluster, record.Seal(d.Kept(next), record.KeyCluster))
		return nil
	})
}

// leaving returns keys of what a Departure may take, and where the next one begins.
func (x *Index) leaving(ctx context.Context, d *record.Departure) (keys [][]byte, next []byte, err error) {
	size, looked := 0, 0
	waits := map[string]record.Row{}
	from := d.From
	if from == nil {
		from = []byte{}
	}
	visit := func(_ *boltfile.Values, k, v []byte) ([]byte, error) {
		if looked++; len(keys) >= moveItems || size >= moveBytes || looked > 100*moveItems {
			next = bytes.Clone(k)
			return nil, boltfile.ErrStop
		}
		if _, leaves := d.Leaves(hostOfKey(d.Leg, k)); leaves {
			keys = append(keys, bytes.Clone(k))
			size += len(v)
			if d.Stays != nil && d.Leg == record.LegWaiting {
				if r, err := record.Decode(k, v); err == nil && r.State == record.Pending {
					waits[string(k)] = r.Row
				}
			}
		}
		return nil, nil
	}
	switch d.Leg {
	case record.LegWaiting, record.LegDone:
		err = x.inbox.Walk(ctx, from, visit)
	case record.LegSitemaps:
		err = x.file.Walk(ctx, record.BucketSitemap, from, visit)
	case record.LegRobots:
		err = x.file.Walk(ctx, record.BucketRobots, from, visit)
	case record.LegHosts:
		err = x.file.Walk(ctx, record.BucketHost, from, visit)
	}
	if err != nil || len(waits) == 0 {
		return keys, next, err
	}
	leaving := keys[:0]
	for _, k := range keys {
		if row, is := waits[string(k)]; is {
			stays, err := d.Stays(&row)
			if err != nil {
				return nil, nil, err
			}
			if stays {
				continue
			}
		}
		leaving = append(leaving, k)
	}
	return leaving, next, nil
}

// hostOfKey returns the host that an entry of a leg's bucket is about.
func hostOfKey(leg record.Leg, k []byte) string {
	switch leg {
	case record.LegSitemaps:
		host, _, _ := bytes.Cut(k, []byte{0})
		return string(host)
	case record.LegRobots:
		return record.Host(string(k) + "/")
	case record.LegHosts:
		return string(k)
	}
	url, err := record.URL(k)
	if err != nil {
		return "" // damaged: for check to name
	}
	return record.Host(url)
}

// moveOut posts what stands under a key. What is damaged stays.
func (c *change) moveOut(d *record.Departure, k []byte) error {
	part, _ := d.Leaves(hostOfKey(d.Leg, k))
	post := func(m record.Moved) { c.post(record.Posted{Part: part, Moved: m}) }
	switch d.Leg {
	case record.LegWaiting, record.LegDone:
		url, err := record.URL(k)
		if err != nil {
			return nil
		}
		e, err := c.entry(url)
		switch {
		case err != nil:
			return err
		case e.rec == nil || (e.rec.State == record.Pending) != (d.Leg == record.LegWaiting):
		case d.Leg == record.LegWaiting:
			post(record.MovedWaiting(e.rec, e.key))
			e.gone, e.rec = true, nil
		default:
			post(record.MovedDone(e.rec, e.key))
		}
	case record.LegSitemaps:
		_, url, _ := bytes.Cut(k, []byte{0})
		if e := c.sitemap(string(url)); e.rec != nil {
			post(record.Moved{Kind: record.MovedSitemap, Name: e.rec.URL, Value: e.rec.AppendSitemap(nil)})
			e.gone, e.rec = true, nil
		}
	case record.LegRobots:
		if v := c.w.Get(record.BucketRobots, k); v != nil {
			if _, err := record.DecodeRobots(string(k), v); err == nil {
				post(record.Moved{Kind: record.MovedRobots, Name: string(k), Value: bytes.Clone(v)})
			}
		}
	case record.LegHosts:
		if h, err := hostRow(&c.w.Values, string(k)); err == nil {
			post(record.MovedTimes(&h))
		}
	}
	return nil
}

// PostMarkers posts, for each partition, that all of it has gone before, in the given epoch of
// each, and keeps what SetCluster would.
func (g Outbox) PostMarkers(markers []record.Posted, kept []byte) error {
	x := g.x
	if err := x.lock(); err != nil {
		return err
	}
	defer x.mu.Unlock()
	return x.update(func(c *change) error {
		for _, p := range markers {
			c.post(p)
		}
		c.w.put(record.BucketSys, record.KeyCluster, record.Seal(bytes.Clone(kept), record.KeyCluster))
		return nil
	})
}

// moveIn merges what another process hands over with what is known here, see [record.Join]: the
// order in which it comes does not matter, nor how often.
func (c *change) moveIn(list []record.Moved) error {
	for i := range list {
		m := &list[i]
		var err error
		switch m.Kind {
		case record.MovedURL:
			err = c.moveInURL(m)
		case record.MovedSitemap:
			err = c.moveInSitemap(m)
		case record.MovedRobots:
			err = c.moveInRobots(m)
		case record.MovedHost:
			err = c.moveInHost(m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *change) moveInURL(m *record.Moved) error {
	e, err := c.entry(m.Name)
	if err != nil {
		return err
	}
	theirs, err := record.DecodeOf(m.Name, e.key, m.Value)
	if err != nil {
		return err
	}
	counted, fresh := false, true
	switch own := e.rec; {
	case own == nil:
		c.totals.Seq++
		theirs.Seq = c.totals.Seq
		c.run.Found++
		c.fresh = append(c.fresh, c.x.filter.Fingerprint(m.Name))
		c.done.New++
	default:
		theirs.Seq = own.Seq // numbers are of one index
		counted = own.State != record.Pending || own.Range != record.Held
		fresh = !(own.State == record.Pending && counted) // else it is told already
	}
	theirs.Run = 0
	if theirs.State == record.Pending {
		theirs.Run = c.run.ID
	}
	if e.rec == nil {
		e.rec = &theirs
	} else {
		joined := record.Join(*e.rec, theirs)
		if joined.State == record.Pending {
			c.undo(e)
		}
		e.rec = &joined
	}
	if waits := e.rec.State == record.Pending; !waits || e.rec.Range != record.Held {
		if !counted {
			c.ledger.spend(e.key, c.ledger.host(record.Host(m.Name)))
		}
		if waits && fresh {
			c.done.Fresh = append(c.done.Fresh, e.rec.Row)
		}
	}
	return nil
}

func (c *change) moveInSitemap(m *record.Moved) error {
	e := c.sitemap(m.Name)
	r, err := record.DecodeSitemap(e.key, m.Value)
	if err != nil {
		return err
	}
	waited := false
	if e.rec != nil {
		waited = e.rec.State == record.Pending
		r = record.Join(*e.rec, r)
	}
	e.rec = &r
	if r.State == record.Pending && !waited {
		c.done.Fresh = append(c.done.Fresh, r.Row)
	}
	return nil
}

func (c *change) moveInRobots(m *record.Moved) error {
	r, err := record.DecodeRobots(m.Name, m.Value)
	if err != nil {
		return err
	}
	if v := c.w.Get(record.BucketRobots, []byte(m.Name)); v != nil {
		if own, err := record.DecodeRobots(m.Name, v); err == nil {
			r = record.JoinRobots(own, r)
		}
	}
	c.w.put(record.BucketRobots, []byte(m.Name), r.Append(nil))
	return nil
}

// moveInHost takes over the times of a host. Its answers are numbered anew here.
func (c *change) moveInHost(m *record.Moved) error {
	theirs, err := record.DecodeHost(m.Name, m.Value)
	if err != nil {
		return err
	}
	h := c.ledger.host(m.Name)
	own := h.row.HostTimes
	if h.times != nil {
		own = *h.times
	}
	if h.row.Run != c.run.ID && h.times == nil {
		own.Seq = 0
	}
	times := record.JoinTimes(own, theirs.HostTimes)
	times.Seq = own.Seq
	h.times = &times
	return nil
}
