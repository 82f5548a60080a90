package frontier

import "urltree/storage/record"

// A hop is the row of a robots.txt to which a redirect has led: it waits for the turn of the host
// that it asks. Meanwhile the host of its origin lends nothing else but hops that lead to it.
//
// Hops wait at a host first come first served, and by turns with what else the host has.
type hops struct {
	wait []record.Row
	rest bool // the last loan was one of these
}

// hopBytes is about what a hop takes.
func hopBytes(r *record.Row) int64 { return rowSize + rowText(r) }

// hop returns the hop of a loan; nil: it has none.
func (l *Loan) hop() *record.Row {
	switch {
	case len(l.Rows) == 1 && l.Rows[0].Kind == record.RobotsRow && l.Rows[0].Hops > 0:
		return &l.Rows[0]
	case len(l.Rows) == 0 && len(l.Held) == 1 && l.Held[0].Row.Kind == record.RobotsRow:
		return &l.Held[0].Row
	}
	return nil
}

// Redirected says that the answer to the robots.txt of a loan leads to a URL, which is lent as the
// next hop of that robots.txt when its own host has its turn. It reports whether that is so: there
// is not room for any number of them. It is called before Return, and not without a request.
func (f *Frontier) Redirected(l *Loan, url string) (bool, error) {
	name := record.Host(url)
	f.mu.Lock()
	there := f.hosts[name] != nil
	f.mu.Unlock()
	var stored record.HostRow
	var tx uint64
	if !there {
		var err error
		if stored, tx, err = f.opts.Store.HostAt(name); err != nil {
			return false, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	next := l.Rows[0]
	next.URL, next.Hops = url, next.Hops+1
	h := f.hosts[name]
	if f.hopBytes+hopBytes(&next) > f.opts.Memory/16 || h == nil && there {
		return false, nil
	}
	if h == nil {
		f.wantsLocked(&stored) // without a side that does not count
		h = f.loadLocked(&stored, tx)
	}
	if h.hops == nil {
		h.hops = &hops{}
	}
	f.hopBytes += hopBytes(&next)
	h.hops.wait = append(h.hops.wait, next)
	h.leaving = false
	l.onward = true
	if next.Hops == 1 {
		l.h.away++
		f.placeLocked(l.h)
	}
	f.placeLocked(h)
	f.wakeLocked()
	return true, nil
}

// lendHopLocked puts the next hop into a loan, if it is the turn of one.
func (f *Frontier) lendHopLocked(h *host, rows source, l *Loan) bool {
	if h.hops == nil {
		return false
	}
	others := h.away == 0 && !h.alone && !h.givenUp && (rows.first() != nil || h.side.ready() > 0)
	if h.hops.rest && others {
		h.hops.rest = false
		return false
	}
	next := h.hops.wait[0]
	h.hops.rest = true
	if h.hops.wait = h.hops.wait[1:]; len(h.hops.wait) == 0 {
		h.hops = nil
	}
	f.hopBytes -= hopBytes(&next)
	if h.givenUp {
		l.Held, l.used = append(l.Held, HeldRow{next, f.holdReason(h, nil)}), true
	} else {
		l.Rows = append(l.Rows, next)
	}
	return true
}

// returnHopLocked takes back a hop that was not asked, or ends the way of a robots.txt that leads
// no further.
func (f *Frontier) returnHopLocked(l *Loan, hop *record.Row) {
	switch {
	case !l.used:
		if l.h.hops == nil {
			l.h.hops = &hops{}
		}
		f.hopBytes += hopBytes(hop)
		l.h.hops.wait = append([]record.Row{*hop}, l.h.hops.wait...)
	case !l.onward:
		h := f.hosts[record.Host(hop.Source+"/")]
		h.away--
		f.placeLocked(h)
	}
}

// Times returns the times of a host of a loan, to be stored.
func (f *Frontier) Times(host string) record.HostTimes {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hostLocked(host)
	h.seq++
	return h.times()
}
