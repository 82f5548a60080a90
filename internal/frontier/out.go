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

// isPage reports whether rows of a kind count as those of pages: each is added once, and removed
// once.
func isPage(k record.Kind) bool { return k == record.PageRow || k == record.OutsideRow }

// An outRow is the ID of a row that was taken, and neither returned nor done. It is in lent.rows
// and in the list of its host, which stays in memory meanwhile. So to find the host of such a row
// costs a look into a table of few entries, not into that of all hosts.
type outRow struct {
	id   string
	h    *host
	at   int32 // its place in h.out
	told bool  // see Add
	kind record.Kind
}

// goOutLocked takes note that a row is out, and returns it.
func (f *Frontier) goOutLocked(h *host, row record.Row) record.Row {
	o := &outRow{id: row.ID(), kind: row.Kind, h: h, at: int32(len(h.out))}
	h.out = append(h.out, o)
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
	list, last := o.h.out, len(o.h.out)-1
	list[o.at] = list[last]
	list[o.at].at = o.at
	list[last] = nil
	o.h.out = list[:last]
	f.outLocked(row, -1)
	return o
}
