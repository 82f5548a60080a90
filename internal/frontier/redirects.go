package frontier

import (
	"slices"

	"urltree/storage/record"
)

// redirects are rows of a robots.txt to which a redirect has led: each waits for the turn of the
// host that it asks. Meanwhile the host of its origin lends nothing else but redirects that lead to
// it.
//
// They wait at a host first come first served, and by turns with what else the host has.
type redirects struct {
	rows []record.Row
	last bool // the last loan was one of these
}

// redirectBytes is about what a redirect takes.
func redirectBytes(r *record.Row) int64 { return rowSize + rowText(r) }

// redirect returns the redirect of a loan; nil: it has none.
func (l *Loan) redirect() *record.Row {
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
	there := f.hosts.byName[name] != nil
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
	h := f.hosts.byName[name]
	if f.hosts.redirects+redirectBytes(&next) > f.opts.Memory/16 || h == nil && there || f.barredLocked(name) {
		return false, nil
	}
	if h == nil {
		f.wantsLocked(&stored) // without a side that does not count
		h = f.loadLocked(&stored, tx)
	}
	f.queueRedirectLocked(h, &next, false)
	h.lending.leaving = false
	l.onward = true
	if next.Hops == 1 {
		l.h.lending.away++
		f.placeLocked(l.h)
	}
	f.placeLocked(h)
	f.wakeLocked()
	return true, nil
}

// queueRedirectLocked has a redirect wait at a host, before or behind the others.
func (f *Frontier) queueRedirectLocked(h *host, row *record.Row, first bool) {
	if h.redirects == nil {
		h.redirects = &redirects{}
	}
	at := len(h.redirects.rows)
	if first {
		at = 0
	}
	h.redirects.rows = slices.Insert(h.redirects.rows, at, *row)
	f.hosts.redirects += redirectBytes(row)
}

// lendRedirectLocked puts the next redirect into a loan. It reports whether it is the turn of one.
func (f *Frontier) lendRedirectLocked(l *Loan, pages supply) bool {
	h, r := l.h, l.h.redirects
	if r == nil {
		return false
	}
	others := h.lending.away == 0 && !h.lending.alone && !h.pace.givenUp && (pages.first() != nil || h.side.ready() > 0)
	if r.last && others {
		r.last = false
		return false
	}
	next := r.rows[0]
	r.last = true
	if r.rows = r.rows[1:]; len(r.rows) == 0 {
		h.redirects = nil
	}
	f.hosts.redirects -= redirectBytes(&next)
	if h.pace.givenUp {
		l.Held, l.used = append(l.Held, HeldRow{next, f.holdReason(h, nil)}), true
	} else {
		l.Rows = append(l.Rows, next)
	}
	return true
}

// returnRedirectLocked takes back a redirect that was not asked, or ends the way of a robots.txt
// that leads no further.
func (f *Frontier) returnRedirectLocked(l *Loan) {
	row := l.redirect()
	switch {
	case row == nil:
	case !l.used:
		f.queueRedirectLocked(l.h, row, true)
	case !l.onward:
		h := f.hosts.byName[record.Host(row.Source+"/")]
		h.lending.away--
		f.placeLocked(h)
	}
}
