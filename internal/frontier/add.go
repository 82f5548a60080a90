package frontier

import (
	"cmp"
	"slices"

	"urltree/storage/record"
)

// Add adds new pending rows, durable since transaction tx. Those of range Held only count as added,
// and with Options.NoSitemaps those that are no pages do not count at all. Between each maxRows of
// them, others have the lock.
func (f *Frontier) Add(rows []record.Row, tx uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.withdrawn = false
	for at := 0; at < len(rows); at += maxRows {
		if at > 0 {
			f.mu.Unlock()
			f.mu.Lock()
		}
		f.addLocked(rows[at:min(at+maxRows, len(rows))], tx)
	}
	f.shrinkLocked()
	f.wakeLocked()
}

// An arrival is a new row for the window of a host.
type arrival struct {
	h   *host
	row *record.Row
}

// addLocked counts rows, and puts those for the windows of hosts in memory in, host by host: one
// row at a time would move others as often.
func (f *Frontier) addLocked(rows []record.Row, tx uint64) {
	list := f.arrivalsLocked(rows, tx)
	slices.SortFunc(list, func(a, b arrival) int {
		return cmp.Or(cmp.Compare(a.h.seat.listed, b.h.seat.listed), compareRows(a.row, b.row))
	})
	var mine []record.Row
	for len(list) > 0 {
		h := list[0].h
		mine = mine[:0]
		for ; len(list) > 0 && list[0].h == h; list = list[1:] {
			mine = append(mine, *list[0].row)
		}
		if h.refill.reading != nil {
			h.refill.reading.added = append(h.refill.reading.added, mine...)
		} else {
			f.insertLocked(h, mine)
		}
		f.placeLocked(h)
	}
}

// arrivalsLocked counts rows, and returns those that are for a window.
func (f *Frontier) arrivalsLocked(rows []record.Row, tx uint64) []arrival {
	list := make([]arrival, 0, len(rows))
	for i := range rows {
		r := &rows[i]
		if f.barsLocked(r) {
			continue
		}
		h := f.hosts.byName[record.Host(r.URL)]
		if isPage(r.Kind) {
			f.counts.added++
		} else if r.Kind == record.SitemapRow && f.ignoresLocked(h, r, tx) {
			continue
		}
		if h == nil {
			h = f.insideLocked(r)
		}
		switch {
		case h == nil:
		case f.arrivesLocked(h, r, tx):
			list = append(list, arrival{h, r})
		default:
			f.placeLocked(h)
		}
	}
	return list
}

// insideLocked returns the host of a row, which may be new. If it stays outside, that counts the
// row and returns nil.
func (f *Frontier) insideLocked(r *record.Row) *host {
	name := record.Host(r.URL)
	switch {
	case f.hosts.byName[name] != nil || !f.newsOutsideLocked():
		return f.hostLocked(name)
	case r.Range != record.Held:
		f.counts.live++
	}
	return nil
}

// arrivesLocked takes note of a new row of a host in memory. It reports whether the row is for its
// window.
func (f *Frontier) arrivesLocked(h *host, r *record.Row, tx uint64) bool {
	if r.Range == record.Held {
		return false
	}
	if tx > h.stored.tx {
		f.countLocked(h, r.Kind, 1)
	} else {
		f.counts.live++ // the store may have had it already when the host was read
	}
	if r.Range == record.Later {
		h.stock.dueBy(r.Due)
		return false
	}
	if len(h.out) > 0 {
		if o := f.lent.rows[r.ID()]; o != nil {
			// Either a refill has read the row before we were told of it, or the commit
			// that ends it opens it again. Done looks which.
			o.told = true
			return false
		}
	}
	if f.repeatsLocked(h, r.Kind) != nil {
		f.leaveLocked(h, r, r.Kind)
		return false
	}
	return !h.win.has(r)
}
