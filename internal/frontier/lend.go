package frontier

import "urltree/storage/record"

// lendReadyLocked lends hosts that may be asked now until there are want loans. Those that
// must be refilled first join needs.
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

// serveLocked lends a host that may be asked now. It gives nil if the host cannot be lent at once:
// it has joined needs, leaves memory or waits for others.
func (f *Frontier) serveLocked(h *host, now int64) (l *Loan) {
	switch {
	case h.needsRefill(now) && h.served && h.win.len() == 0 && f.rotatesLocked(now):
		h.leaving = true // others have their turn
		if f.leaveLocked(h) {
			return nil
		}
	case h.needsRefill(now):
		f.turns.need(h)
	default:
		l = f.lendLocked(h, h.win, now)
	}
	f.placeLocked(h)
	return l
}

// A source has the rows of one loan, in the order in which they are to be asked.
type source interface {
	first() *record.Row // nil: there are no others
	pop() record.Row    // takes the first one out
}

// lendLocked makes a loan of a host that has its turn: of rows of its window, or others of which
// none is out, of its side, or a hop. It gives nil when the host must first be returned by others.
func (f *Frontier) lendLocked(h *host, rows source, now int64) *Loan {
	l := &Loan{Host: h.name, Known: h.answer > 0, h: h}
	limit := 1
	if f.wait(h) == 0 {
		limit = f.opts.Batch
	}
	l.Rows = l.one[:0]
	sifts := h.sifts && now < h.next
	h.sifts = false
	alone := !sifts && (f.lendHopLocked(h, rows, l) || f.lendSideLocked(h, rows, l))
	for !alone && len(l.Rows) < limit && len(l.Held) < maxHeld {
		row := rows.first()
		if row == nil {
			h.sifts = sifts && h.more
			break
		}
		if reason := f.holdReason(h, row); reason != "" {
			l.Held = append(l.Held, HeldRow{Row: f.popLocked(h, rows), Reason: reason})
			h.sifts = sifts && len(l.Held) == maxHeld
			continue
		}
		if sifts {
			break
		}
		if f.needsRobots(h, row, l) {
			break
		}
		l.Rows = append(l.Rows, f.popLocked(h, rows))
	}
	asks := len(l.Rows) > 0
	if !asks && len(l.Held) == 0 {
		return nil
	}
	if asks && f.opts.PerHost > 1 {
		l.before = h.next
		h.next = max(h.next, now+int64(f.wait(h)))
		l.reserved = h.next
	}
	if h.side != nil && asks && l.Rows[0].Kind == record.PageRow {
		h.side.rest = false
	}
	h.borrowers++
	f.loans++
	f.changes++
	return l
}

// needsRobots reports whether a robots.txt must be asked for before a row. If the row would be the
// first of the loan, that of the robots.txt is, once the host is lent to nobody else.
func (f *Frontier) needsRobots(h *host, row *record.Row, l *Loan) bool {
	if f.opts.NeedRobots == nil {
		return false
	}
	origin := record.Origin(row.URL)
	if !f.opts.NeedRobots(origin) {
		return false
	}
	if len(l.Rows) == 0 {
		h.alone = true
		if h.borrowers == 0 {
			l.Rows = append(l.Rows, record.Row{Kind: record.RobotsRow, URL: origin + "/robots.txt", Source: origin})
		}
	}
	return true
}

func (f *Frontier) holdReason(h *host, row *record.Row) string {
	switch {
	case h.givenUp && h.cause != "":
		return GivenUp + ":" + h.cause
	case h.givenUp:
		return GivenUp
	}
	if f.opts.Admit == nil {
		return ""
	}
	return f.opts.Admit(row)
}

// An outRow is the ID of a row that was taken, and neither returned nor done. It is in
// Frontier.rowsOut and in the list of its host, which stays in memory meanwhile. So to find the
// host of such a row takes a look into a table of few entries, not into that of all hosts.
type outRow struct {
	id         string
	h          *host
	next, prev *outRow // others of the host
	told       bool    // see Add
	kind       record.Kind
}

// popLocked takes the first of the rows out.
func (f *Frontier) popLocked(h *host, rows source) record.Row { return f.lentLocked(h, rows.pop()) }

// lentLocked takes note that a row is out.
func (f *Frontier) lentLocked(h *host, row record.Row) record.Row {
	o := &outRow{id: row.ID(), kind: row.Kind, h: h, next: h.out}
	if o.next != nil {
		o.next.prev = o
	}
	h.out = o
	h.outs++
	f.rowsOut[o.id] = o
	f.out++
	f.outLocked(&row, 1)
	return row
}

// backLocked takes a row out of the set of those that are out. It gives nil if it was not there.
//
// A refill that reads now may still meet the row as it was, but it skips by a copy of the set
// made when it began: for that refill the row stays out until it ends.
func (f *Frontier) backLocked(row *record.Row) *outRow {
	o := f.rowsOut[row.ID()]
	if o == nil {
		return nil
	}
	delete(f.rowsOut, o.id)
	if o.next != nil {
		o.next.prev = o.prev
	}
	if o.prev != nil {
		o.prev.next = o.next
	} else {
		o.h.out = o.next
	}
	o.h.outs--
	f.out--
	f.outLocked(row, -1)
	return o
}
