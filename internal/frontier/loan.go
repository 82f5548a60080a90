package frontier

import "urltree/storage/record"

// A Loan lends a host to one crawler until Return. The rows are to be asked one after the
// other, each request followed by Answered. When that returns a next permitted time in the
// future, the rest goes back by Return.
type Loan struct {
	Host string
	// Rows are of pages, or there is one of another kind. That of a robots.txt is in no Store and is
	// not out: it needs no Done, and nobody else has this host, unless as many redirects as its Hops
	// have led to it.
	Rows  []record.Row
	Known bool // the host has answered before
	// Held are rows that are not to be asked in this run. An outcome moves each to the held
	// range; they need no request and no turn. That of a robots.txt ends the way of its redirects.
	Held []HeldRow

	h        *host
	one      [1]record.Row // where Rows lies, if it is one
	by       *Taker        // in order tree
	returned bool
	used     bool  // something was asked
	onward   bool  // its robots.txt goes on as a redirect
	before   int64 // the host's next permitted time before this loan moved it to reserved
	reserved int64 // 0: not moved
}

// A HeldRow is a row that this run does not ask, and why.
type HeldRow struct {
	Row    record.Row
	Reason string
}

// Done describes a committed outcome: Row as it was lent, and its new place. Next counts only by
// Range and Due: Later or Now if the row is pending as before, Held, or 0 if it is pending no more.
type Done struct {
	Row  record.Row
	Next record.Row
}

// Begin reports whether a request of the loan may begin now. It is called right before each one. It
// may not where another loan of the host has met an answer meanwhile that demands a rest, or has
// begun a request too short a time ago, or the host is barred: the rest of the loan goes back then.
func (f *Frontier) Begin(l *Loan) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, now := &l.h.pace, f.clock.now()
	if p.givenUp || now < p.until || l.redirect() == nil && f.barredLocked(l.Host) {
		return false
	}
	if p.asked != 0 && now < p.asked+int64(p.wait(&f.opts)) {
		return false
	}
	if l.h.lending.borrowers > 1 || p.atOnce(&f.opts) > 1 {
		p.asked = now
		p.keep(&f.opts)
		f.placeLocked(l.h)
	}
	l.used = true
	return true
}

// Answered records how the host took a request of the loan, and returns what is to be stored of it.
func (f *Frontier) Answered(l *Loan, a Answer) record.HostTimes {
	f.mu.Lock()
	defer f.mu.Unlock()
	l.used = true
	l.h.stored.seq++
	l.h.pace.answered(&f.opts, &f.clock, a)
	l.h.lending.sifts = a.Over && f.opts.Tree == nil
	if l.h.pace.givenUp {
		f.forgetSideLocked(l.h)
	}
	if a.Failed && l.by != nil {
		f.moveLocked(l.by, "")
	}
	f.placeLocked(l.h)
	f.wakeLocked()
	return l.h.times()
}

// Return ends a loan. The unasked rows, of Rows or Held, may be taken again at once. A second
// Return of a loan does nothing.
func (f *Frontier) Return(l *Loan, unasked []record.Row) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l.returned {
		return
	}
	l.returned = true
	h := l.h
	f.lent.loans--
	f.waits.changes++
	f.unreserveLocked(l)
	f.returnRedirectLocked(l)
	var rows []record.Row
	for i := range unasked {
		switch o := f.backLocked(&unasked[i]); {
		case o == nil:
		case f.withdrawn:
			f.countLocked(h, o.kind, -1)
		case h.pace.givenUp && o.kind == record.SitemapRow:
			f.countLocked(h, o.kind, -1)
		default:
			rows = append(rows, unasked[i])
		}
	}
	if rows = f.takeRepeatsLocked(h, h.takeSide(rows)); len(rows) > 0 {
		sortRows(rows)
		f.insertLocked(h, rows)
	}
	if h.lending.borrowers--; h.lending.borrowers == 0 {
		h.lending.alone = false
	}
	f.placeLocked(h)
	f.shrinkLocked()
	f.wakeLocked()
}

// Done records that the outcomes of rows are committed, with what Answered returned of their hosts.
// Rows that are not out are ignored.
func (f *Frontier) Done(done []Done, times []record.HostTimes) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range times {
		if h := f.hosts.byName[times[i].Name]; h != nil {
			h.stored.saved = max(h.stored.saved, times[i].Seq)
			f.placeLocked(h)
		}
	}
	for i := range done {
		row, next := &done[i].Row, &done[i].Next
		o := f.backLocked(row)
		if o == nil {
			continue
		}
		h := o.h
		if o.told {
			f.leaveLocked(h, &record.Row{Range: record.Now}, o.kind) // it may be open again, on disk
		}
		waits := o.kind != record.SitemapRow || !h.pace.givenUp
		switch {
		case f.withdrawn && (next.Range == record.Now || next.Range == record.Later):
			f.countLocked(h, o.kind, -1)
		case (next.Range == record.Now || next.Range == record.Later) && waits:
			f.leaveLocked(h, next, o.kind)
		case isPage(o.kind) && next.Range != record.Held:
			f.counts.removed++
			fallthrough
		default:
			f.countLocked(h, o.kind, -1)
		}
		f.placeLocked(h)
	}
	f.wakeLocked()
}
