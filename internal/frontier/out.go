package frontier

import "urltree/storage/record"

// lent is what crawlers have.
type lent struct {
	// All rows that are out, by ID. It does not shrink: what is out waits in crawlers and buffers.
	rows  map[string]*outRow
	loans int // not returned
}

// out returns the number of rows that are out.
func (l *lent) out() int64 { return int64(len(l.rows)) }

// An outRow is the ID of a row that was taken, and neither returned nor done. It is in lent.rows
// and in the list of its host, which stays in memory meanwhile. So to find the host of such a row
// costs a look into a table of few entries, not into that of all hosts.
type outRow struct {
	id         string
	h          *host
	next, prev *outRow // others of the host
	told       bool    // see Add
	kind       record.Kind
}

// An outList has the rows of a host that are out.
type outList struct {
	first *outRow
	n     int32
}

// sides returns how many of the rows are no pages.
func (l *outList) sides() (n int64) {
	for o := l.first; o != nil; o = o.next {
		if o.kind != record.PageRow {
			n++
		}
	}
	return n
}

// goOutLocked takes note that a row is out, and returns it.
func (f *Frontier) goOutLocked(h *host, row record.Row) record.Row {
	o := &outRow{id: row.ID(), kind: row.Kind, h: h, next: h.out.first}
	if o.next != nil {
		o.next.prev = o
	}
	h.out.first = o
	h.out.n++
	f.lent.rows[o.id] = o
	f.outLocked(&row, 1)
	return row
}

// backLocked takes a row out of the set of those that are out. It returns nil if it was not there.
//
// A refill that reads now may still meet the row as it was, but it skips by a copy of the set
// made when it began: for that refill the row stays out until it ends.
func (f *Frontier) backLocked(row *record.Row) *outRow {
	o := f.lent.rows[row.ID()]
	if o == nil {
		return nil
	}
	delete(f.lent.rows, o.id)
	if o.next != nil {
		o.next.prev = o.prev
	}
	if o.prev != nil {
		o.prev.next = o.next
	} else {
		o.h.out.first = o.next
	}
	o.h.out.n--
	f.outLocked(row, -1)
	return o
}
