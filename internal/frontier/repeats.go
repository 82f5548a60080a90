package frontier

import (
	"slices"
	"time"

	"urltree/storage/record"
)

// repeatRows is how many rows of stored pages stand beside the window of a host at a time.
const repeatRows = 16

// Revisits say what stored pages that are to be asked again get while URLs of their host wait that
// were not asked yet. The zero value is nothing: they stand in the window, behind these.
type Revisits struct {
	Share int // of 100 pages that the host is asked; 0: none
	// Refill reads these rows of a host as Store.Refill reads pages, which leaves them out then: at
	// most so many, first those of range Later that are due, then those of range Now.
	Refill func(host string, now time.Time, n int, skip func(id string) bool) (rows []record.Row, due int64, err error)
}

// Repeats hold the first rows of the stored pages of a host that are to be asked again, where
// these have a share. A new row waits on disk for the next refill.
type repeats struct {
	sorted
	more   bool // some may be on disk only
	credit int  // what pages have left to these, in hundredths of a request
}

// lacks reports whether rows must be read before it is known which is next.
func (r *repeats) lacks() bool { return r != nil && r.more && r.len() == 0 }

// ready returns the number of rows that may be asked at once.
func (r *repeats) ready() int {
	if r == nil {
		return 0
	}
	return r.len()
}

// isDue reports whether the first row is one of range Later.
func (r *repeats) isDue() bool { return r.ready() > 0 && r.first().Range == record.Later }

// repeatsLocked returns where the rows of a kind stand beside the window of a host; nil: nowhere.
func (f *Frontier) repeatsLocked(h *host, kind record.Kind) *repeats {
	if kind != record.RevisitRow || f.opts.Revisits.Share == 0 {
		return nil
	}
	if h.repeats == nil {
		h.repeats = &repeats{}
	}
	return h.repeats
}

// leaveLocked notes that a row of a host is now on disk only.
func (f *Frontier) leaveLocked(h *host, r *record.Row, kind record.Kind) {
	if a := f.repeatsLocked(h, kind); a != nil && r.Range == record.Now {
		a.more = true
		return
	}
	h.stock.leave(r)
}

// takeRepeatsLocked moves the rows of stored pages that have a share beside the window of their
// host, and returns the others.
func (f *Frontier) takeRepeatsLocked(h *host, rows []record.Row) []record.Row {
	if h.repeats == nil {
		return rows
	}
	var back []record.Row
	rows = slices.DeleteFunc(rows, func(r record.Row) bool {
		if r.Kind != record.RevisitRow {
			return false
		}
		back = append(back, r)
		return true
	})
	sortRows(back)
	h.repeats.merge(back, nil)
	return rows
}

// supplyLocked returns the pages of a host that may be lent without a refill.
func (f *Frontier) supplyLocked(h *host) supply {
	if h.repeats == nil {
		return h.win
	}
	return &mix{h, f.opts.Revisits.Share}
}

// A mix is a supply of pages of which stored ones have a share, counted as they are lent while both
// kinds wait. It ends where rows must be read of one of them.
type mix struct {
	h     *host
	share int
}

// isAgain reports whether a stored page is next, if there is one at all.
func (m *mix) isAgain() bool {
	return m.h.repeats.len() > 0 && (m.h.win.len() == 0 || m.h.repeats.credit >= 100-m.share)
}

func (m *mix) first() *record.Row {
	switch h := m.h; {
	case h.repeats.lacks(), h.stock.more && h.win.len() == 0:
		return nil
	case m.isAgain():
		return h.repeats.first()
	default:
		return h.win.first()
	}
}

func (m *mix) pop() record.Row {
	h, again, both := m.h, m.isAgain(), m.h.win.len() > 0 && m.h.repeats.len() > 0
	switch {
	case both && again:
		h.repeats.credit -= 100 - m.share
	case both:
		h.repeats.credit += m.share
	}
	if again {
		return h.repeats.pop()
	}
	return h.win.pop()
}
