package frontier

import (
	"cmp"
	"slices"
	"sort"
	"unsafe"

	"urltree/storage/record"
)

const rowSize = int64(unsafe.Sizeof(record.Row{}))

// A window is a copy of some pending rows of one host, in the order in which they are given
// out: those of range Later that are due, then those of range Now. Rows that it is to take are
// sorted by compareRows.
type window interface {
	len() int
	// bytes is the memory that the window keeps, places without a row included.
	bytes() int64
	// first is the row to give out next, or nil. It is good until the next call.
	first() *record.Row
	// pop takes the first row out of a window that has one.
	pop() record.Row
	// has reports whether a row is there.
	has(r *record.Row) bool
	// each calls yield with each row, in any order.
	each(yield func(r *record.Row))
	// merge adds rows of which none is there. If left is not nil, it calls left instead with those
	// that would stand behind all that are there.
	merge(rows []record.Row, left func(r *record.Row))
	// cut drops the last rows until at most most are left and the window takes at most limit
	// bytes, but keeps least rows. It calls left with each row that it drops.
	cut(least, most int, limit int64, left func(r *record.Row))
}

// A sorted window hands out rows by their Rank, as they stand in the store.
type sorted struct {
	rows []record.Row // rows[head:] are there, sorted by compareRows
	head int
	text int64 // bytes of the strings of rows[head:]
}

// compareRows is the order in which the rows of one host are given out. Rows are equal if
// they are the same row at the same place.
func compareRows(a, b *record.Row) int {
	switch {
	case a.Range != b.Range:
		if a.Range == record.Later {
			return -1
		}
		return 1
	case a.Range == record.Later:
		return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.Seq, b.Seq))
	case a.Less(b):
		return -1
	case b.Less(a):
		return 1
	}
	return 0
}

func sortRows(rows []record.Row) {
	byOrder := func(a, b record.Row) int { return compareRows(&a, &b) }
	if !slices.IsSortedFunc(rows, byOrder) {
		slices.SortFunc(rows, byOrder)
	}
}

// rowText is the number of bytes in the strings of a row.
func rowText(r *record.Row) int64 {
	return int64(len(r.URL) + len(r.Source) + len(r.Via) + len(r.Reason))
}

func (w *sorted) len() int { return len(w.rows) - w.head }

func (w *sorted) bytes() int64 { return int64(cap(w.rows))*rowSize + w.text }

func (w *sorted) first() *record.Row {
	if w.len() == 0 {
		return nil
	}
	return &w.rows[w.head]
}

func (w *sorted) pop() record.Row {
	r := w.rows[w.head]
	w.rows[w.head] = record.Row{} // its strings are no longer ours to keep
	w.head++
	w.text -= rowText(&r)
	if w.len() == 0 {
		*w = sorted{}
	}
	return r
}

// search returns the place of a row among rows[head:] and whether it is there.
func (w *sorted) search(r *record.Row) (int, bool) {
	rows := w.rows[w.head:]
	return sort.Find(len(rows), func(i int) int { return compareRows(r, &rows[i]) })
}

func (w *sorted) has(r *record.Row) bool {
	if w.len() == 0 || compareRows(&w.rows[len(w.rows)-1], r) < 0 {
		return false // as most new rows: a search would look at others for nothing
	}
	_, there := w.search(r)
	return there
}

func (w *sorted) each(yield func(r *record.Row)) {
	for i := range w.rows[w.head:] {
		yield(&w.rows[w.head+i])
	}
}

func (w *sorted) merge(rows []record.Row, left func(r *record.Row)) {
	if left != nil {
		n := 0
		if w.len() > 0 {
			last := &w.rows[len(w.rows)-1]
			n = sort.Search(len(rows), func(i int) bool { return compareRows(&rows[i], last) > 0 })
		}
		for i := range rows[n:] {
			left(&rows[n+i])
		}
		rows = rows[:n]
	}
	if len(rows) == 0 {
		return
	}
	for i := range rows {
		w.text += rowText(&rows[i])
	}
	old := w.rows[w.head:]
	switch {
	case len(old) == 0:
		w.rows, w.head = slices.Clone(rows), 0
	case len(rows) <= w.head && compareRows(&rows[len(rows)-1], &old[0]) < 0:
		w.head -= len(rows) // rows that come back: their places are still free
		copy(w.rows[w.head:], rows)
	default:
		// From the end on, so that what comes before the first of rows stays where it is.
		if w.head > 0 && len(w.rows)+len(rows) > cap(w.rows) {
			w.clip() // the free places before the rows count as well
		}
		i, j := len(w.rows)-1, len(rows)-1
		w.rows = append(w.rows, rows...)
		for k := len(w.rows) - 1; j >= 0; k-- {
			if i >= w.head && compareRows(&rows[j], &w.rows[i]) < 0 {
				w.rows[k] = w.rows[i]
				i--
			} else {
				w.rows[k] = rows[j]
				j--
			}
		}
	}
}

// cut drops the last first.
func (w *sorted) cut(least, most int, limit int64, left func(*record.Row)) {
	for n := w.len(); n > least && (n > most || int64(n)*rowSize+w.text > limit); n-- {
		r := &w.rows[len(w.rows)-1]
		w.text -= rowText(r)
		left(r)
		*r = record.Row{}
		w.rows = w.rows[:len(w.rows)-1]
	}
	if w.bytes() > limit {
		w.clip()
	}
}

// clip frees the places that hold no row.
func (w *sorted) clip() {
	if w.len() == 0 {
		*w = sorted{}
	} else if w.len() < cap(w.rows) {
		rows := make([]record.Row, w.len()) // exactly; Clone may round up
		copy(rows, w.rows[w.head:])
		w.rows, w.head = rows, 0
	}
}
