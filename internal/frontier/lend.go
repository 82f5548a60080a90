package frontier

import "urltree/storage/record"

// lendReadyLocked lends hosts that have their turn until there are want loans. Those that must be
// refilled first wait for that.
func (f *Frontier) lendReadyLocked(loans []*Loan, now int64, want int) []*Loan {
	for len(loans)+len(f.turns.needs) < want {
		h := f.turns.first()
		if h == nil || h.seat.at > now {
			break
		}
		if l := f.serveLocked(h, now); l != nil {
			loans = append(loans, l)
		}
	}
	return loans
}

// serveLocked lends a host that has its turn. It returns nil if the host cannot be lent at once: it
// waits for a refill, leaves memory or waits for others.
func (f *Frontier) serveLocked(h *host, now int64) (l *Loan) {
	switch {
	case h.needsRefill(now) && h.refill.served && h.win.len() == 0 && f.rotatesLocked(now):
		h.lending.leaving = true // others have their turn
	case h.needsRefill(now):
		f.turns.need(h)
	default:
		l = f.lendLocked(h, f.supplyLocked(h), now)
	}
	f.placeLocked(h)
	return l
}

// A supply has the pages of one loan, in the order in which they are to be asked.
type supply interface {
	first() *record.Row // nil: there are no others
	pop() record.Row    // takes the first one out
}

// lendLocked makes a loan of a host that has its turn, of what goes first: a redirect of a
// robots.txt, a row of the side, or pages. Pages are those of the window, or others of which none
// is out. It returns nil when the host must first be returned by others.
func (f *Frontier) lendLocked(h *host, pages supply, now int64) *Loan {
	l := &Loan{Host: h.name, Known: h.pace.took > 0, h: h}
	l.Rows = l.one[:0]
	sifts := h.lending.sifts && now < h.pace.next
	h.lending.sifts = false
	switch {
	case sifts:
		f.siftLocked(l, pages)
	case f.lendRedirectLocked(l, pages):
	case f.lendSideLocked(l, pages):
	default:
		f.lendPagesLocked(l, pages)
	}
	if len(l.Rows) == 0 && len(l.Held) == 0 {
		return nil
	}
	f.reserveLocked(l, now)
	h.lending.borrowers++
	f.lent.loans++
	f.waits.changes++
	return l
}

// siftLocked lends pages that are to be held, and no others: the host may not be asked yet. If
// there may be more of them, it goes on with the next loan.
func (f *Frontier) siftLocked(l *Loan, pages supply) {
	row := f.holdLocked(l, pages)
	l.h.lending.sifts = row == nil && (l.h.stock.more || l.h.repeats.lacks() || len(l.Held) == maxHeld)
}

// lendPagesLocked lends pages as many as one loan takes, or the robots.txt that must be asked for
// before, and what is to be held on the way.
func (f *Frontier) lendPagesLocked(l *Loan, pages supply) {
	limit := 1
	if l.h.pace.wait(&f.opts) == 0 {
		limit = f.opts.PerLoan
	}
	for len(l.Rows) < limit {
		row := f.holdLocked(l, pages)
		if row == nil || f.robotsFirstLocked(l, row) {
			return
		}
		l.Rows = append(l.Rows, f.goOutLocked(l.h, pages.pop()))
		l.h.side.passed()
	}
}

// holdLocked moves the first pages to Held as long as they are not to be asked in this run. It
// returns the first that is to be asked; nil: there is none, or Held is full.
func (f *Frontier) holdLocked(l *Loan, pages supply) *record.Row {
	for len(l.Held) < maxHeld {
		row := pages.first()
		if row == nil {
			return nil
		}
		reason := f.holdReason(l.h, row)
		if reason == "" {
			return row
		}
		l.Held = append(l.Held, HeldRow{Row: f.goOutLocked(l.h, pages.pop()), Reason: reason})
	}
	return nil
}

func (f *Frontier) holdReason(h *host, row *record.Row) string {
	switch {
	case h.pace.givenUp && h.pace.cause != "":
		return GivenUp + ":" + h.pace.cause
	case h.pace.givenUp:
		return GivenUp
	case f.opts.Admit == nil:
		return ""
	}
	return f.opts.Admit(row)
}

// robotsFirstLocked reports whether a robots.txt must be asked for before a row. If the row would
// be the first of the loan, that of the robots.txt is, once the host is lent to nobody else.
func (f *Frontier) robotsFirstLocked(l *Loan, row *record.Row) bool {
	if f.opts.NeedRobots == nil {
		return false
	}
	origin := record.Origin(row.URL)
	if !f.opts.NeedRobots(origin) {
		return false
	}
	if len(l.Rows) == 0 {
		l.h.lending.alone = true
		if l.h.lending.borrowers == 0 {
			l.Rows = append(l.Rows, record.Row{Kind: record.RobotsRow, URL: origin + "/robots.txt", Source: origin})
		}
	}
	return true
}

// reserveLocked makes other loans of the host wait for one delay, as if this one had asked.
func (f *Frontier) reserveLocked(l *Loan, now int64) {
	if p := &l.h.pace; len(l.Rows) > 0 && p.atOnce(&f.opts) > 1 {
		l.before = p.next
		p.next = max(p.next, now+int64(p.wait(&f.opts)))
		l.reserved = p.next
	}
}

// unreserveLocked ends that wait if nothing was asked.
func (f *Frontier) unreserveLocked(l *Loan) {
	if l.reserved != 0 && !l.used && l.h.pace.next == l.reserved {
		l.h.pace.next = l.before
	}
}
