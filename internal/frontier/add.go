package frontier

import "urltree/storage/record"

// Add adds new pending rows, durable since transaction tx. Those of range Held only count as added,
// and with Options.NoSitemaps those that are no pages do not count at all. Between each maxRows of
// them, others have the lock.
func (f *Frontier) Add(rows []record.Row, tx uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
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

func (f *Frontier) addLocked(rows []record.Row, tx uint64) {
	for _, g := range f.groupLocked(rows, tx) {
		g.h.group = 0
		sortRows(g.rows)
		if g.h.refill.reading != nil {
			g.h.refill.reading.added = append(g.h.refill.reading.added, g.rows...)
		} else {
			f.insertLocked(g.h, g.rows)
		}
		f.placeLocked(g.h)
	}
}

// A group is what an Add tells of one host: the rows that go into its window, if any.
type group struct {
	h    *host
	n    int
	rows []record.Row
}

// groupLocked counts rows and gives them by host. Those of a host outside are counted only.
func (f *Frontier) groupLocked(rows []record.Row, tx uint64) []group {
	// Hosts are looked up first, and only that, for then a processor waits for several at a time.
	hosts := make([]*host, len(rows))
	last := ""
	for i := range rows {
		name := record.Host(rows[i].URL)
		if i > 0 && name == last {
			hosts[i] = hosts[i-1]
		} else {
			hosts[i], last = f.hosts.byName[name], name
		}
	}
	groups := make([]group, 1, len(rows)+1) // that of number 0 is none
	inside := 0
	for i := range rows {
		r, h := &rows[i], hosts[i]
		if r.Kind == record.PageRow {
			f.counts.added++
		} else if f.ignoresLocked(h, r, tx) {
			hosts[i] = nil
			continue
		}
		if h == nil {
			h = f.insideLocked(r)
		}
		if h == nil {
			continue
		}
		if h.group == 0 {
			h.group = int32(len(groups))
			groups = append(groups, group{h: h})
		}
		if hosts[i] = nil; f.arrivesLocked(h, r, tx) {
			hosts[i] = h
			groups[h.group].n++
			inside++
		}
	}
	all := make([]record.Row, inside)
	for i := range groups {
		n := groups[i].n
		groups[i].rows, all = all[:0:n], all[n:]
	}
	for i, h := range hosts {
		if h != nil {
			g := &groups[h.group]
			g.rows = append(g.rows, rows[i])
		}
	}
	return groups[1:]
}

// insideLocked returns the host of a row, which may be new. If it stays outside, that counts the
// row and gives nil.
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

// arrivesLocked takes note of a new row of a host in memory. It tells whether the row is for its
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
	if h.out.n > 0 {
		if o := f.lent.rows[r.URL]; o != nil {
			// Either a refill has read the row before we were told of it, or the commit
			// that ends it opens it again. Done looks which.
			o.told = true
			return false
		}
	}
	return !h.win.has(r)
}
