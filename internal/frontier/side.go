package frontier

import (
	"slices"

	"urltree/storage/record"
)

// sideRows is how many rows of the side are in memory at a time.
const sideRows = 16

// A side holds the rows of a host that do not stand in its window: sitemaps to be read, which are
// of range Later. They are counted, lent and returned, and wait on disk, as all rows do, but stand
// beside the window. One is given out alone, before the URLs, but not two in a row while URLs wait:
// a host with many sitemaps gets on with both.
//
// Of a host that is given up they are forgotten: they wait for the next run.
type side struct {
	count int64        // of these, within the count of the host
	rows  []record.Row // may be asked at once
	last  bool         // the last loan was one of these
}

// ready returns the number of rows that may be asked at once.
func (s *side) ready() int {
	if s == nil {
		return 0
	}
	return len(s.rows)
}

// turn reports whether a row of the side goes before the pages now, as far as is known.
func (s *side) turn(h *host, now int64) bool {
	return s != nil && !s.last && (len(s.rows) > 0 || h.stock.isDue(now))
}

// passed notes that a page was lent.
func (s *side) passed() {
	if s != nil {
		s.last = false
	}
}

func (s *side) each(yield func(r *record.Row)) {
	for i := range s.ready() {
		yield(&s.rows[i])
	}
}

// sideOf returns the side of a host, to be changed.
func (h *host) sideOf() *side {
	if h.side == nil {
		h.side = &side{}
	}
	return h.side
}

// takeSide moves the rows of sitemaps to the side, and returns the others.
func (h *host) takeSide(rows []record.Row) []record.Row {
	return slices.DeleteFunc(rows, func(r record.Row) bool {
		if r.Kind != record.SitemapRow {
			return false
		}
		h.sideOf().rows = append(h.side.rows, r)
		return true
	})
}

// ignoresLocked reports whether a new row is of a side that is forgotten, or that this run does not
// ask. h is nil if the host is not in memory.
func (f *Frontier) ignoresLocked(h *host, r *record.Row, tx uint64) bool {
	switch {
	case f.opts.NoSitemaps:
		return true
	case h == nil || h.stored.noSide:
		return f.others.forgotten[record.Host(r.URL)]
	case h.pace.givenUp && tx > h.stored.tx:
		f.others.forgotten[h.name] = true
		return true
	}
	return false
}

// lendSideLocked puts a row of the side into a loan of a host that has its turn, or the robots.txt
// that must be asked for before. It reports whether it is the turn of the side.
func (f *Frontier) lendSideLocked(l *Loan, pages supply) bool {
	s := l.h.side
	if s.ready() == 0 || s.last && pages.first() != nil {
		return false
	}
	if f.robotsFirstLocked(l, &s.rows[0]) {
		return true
	}
	s.last = true
	l.Rows = append(l.Rows, f.goOutLocked(l.h, s.rows[0]))
	s.rows = s.rows[1:]
	return true
}

// forgetSideLocked drops all rows of the side that are not out.
func (f *Frontier) forgetSideLocked(h *host) {
	if h.side == nil {
		return
	}
	f.others.forgotten[h.name] = true
	out := int64(0)
	for _, o := range h.out {
		if o.kind == record.SitemapRow {
			out++
		}
	}
	h.side.rows = nil
	f.countLocked(h, record.SitemapRow, out-h.side.count)
}
