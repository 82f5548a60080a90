package frontier

import (
	"math"
	"slices"

	"urltree/internal/frontier/queue"
	"urltree/storage/record"
)

const (
	// Bytes of a scored window, about: of each queue and of the map; of a row's places in them,
	// when they have just grown.
	scoredFixed = 448
	scoredRow   = 128

	fewRanked = 32 // rows that are ranked again at any time
)

// A scored window hands out rows by what they are worth, from a priority queue. What a row is worth
// is asked when it comes in, and of all rows again when a quarter of them has gone, or at once if
// they are few.
//
// The window takes no row behind edge while there are others on disk only: these are about as good.
type scored struct {
	opts   *Options
	rows   map[string]*record.Row // by URL
	text   int64                  // bytes of the strings of rows
	queue  queue.Queue[*record.Row]
	edge   ranked
	peak   int  // most rows since the map was made
	popped int  // rows that have gone since all were ranked
	looked bool // none has gone since first looked whether to rank them again
}

type ranked = queue.Item[*record.Row]

// newWindow makes an empty window of the kind that the options ask for; a sorted one is plain.
func (f *Frontier) newWindow(plain *sorted) window {
	if f.opts.Queue == "" {
		return plain
	}
	return &scored{opts: &f.opts}
}

// fixed returns the bytes that a window of few rows takes beside these; 0 if it is sorted.
func (o *Options) fixed() int64 {
	if o.Queue == "" {
		return 0
	}
	return int64(1+o.Queues) * scoredFixed
}

// place returns a row as an item with its key: those of range Later come first, by Due.
func (w *scored) place(r *record.Row) ranked {
	key := uint64(max(r.Due, 0))
	if r.Range != record.Later {
		rank := r.Rank
		if w.opts.Rank != nil && r.Kind != record.RevisitRow { // which stand behind all that were not asked yet
			rank = w.opts.Rank(r)
		}
		key = 1<<63 | min(rank, math.MaxInt64)
	}
	return ranked{Value: r, Key: key, Seq: r.Seq}
}

func (w *scored) len() int { return len(w.rows) }

func (w *scored) bytes() int64 {
	if len(w.rows) == 0 {
		return 0
	}
	return w.opts.fixed() + int64(w.peak)*scoredRow + int64(len(w.rows))*rowSize + w.text
}

func (w *scored) first() *record.Row {
	if len(w.rows) == 0 {
		return nil
	}
	if w.opts.Rank != nil && !w.looked && 4*w.popped >= len(w.rows)-fewRanked {
		items := make([]ranked, 0, len(w.rows))
		for _, r := range w.rows {
			items = append(items, w.place(r))
		}
		w.requeue(items)
	}
	w.looked = true
	item, _ := w.queue.First()
	return item.Value
}

func (w *scored) pop() record.Row {
	r := w.queue.Pop().Value
	w.text -= rowText(r)
	w.popped++
	w.looked = false
	if delete(w.rows, r.URL); len(w.rows) == 0 {
		*w = scored{opts: w.opts}
	}
	return *r
}

func (w *scored) has(r *record.Row) bool { return w.rows[r.URL] != nil }

func (w *scored) each(yield func(r *record.Row)) {
	for _, r := range w.rows {
		yield(r)
	}
}

func (w *scored) merge(rows []record.Row, left func(r *record.Row)) {
	items := make([]ranked, 0, len(rows))
	none := len(w.rows) == 0
	for i := range rows {
		item := w.place(&rows[i])
		if left != nil && (none || w.edge.Less(&item)) {
			left(&rows[i])
			continue
		}
		r := rows[i]
		item.Value = &r
		items = append(items, item)
	}
	if len(items) == 0 {
		return
	}
	if none {
		w.refresh(nil)
		w.edge = items[0]
	}
	for i := range items {
		item := &items[i]
		w.rows[item.Value.URL] = item.Value
		w.text += rowText(item.Value)
		if w.edge.Less(item) {
			w.edge = ranked{Key: item.Key, Seq: item.Seq}
		}
		w.queue.Insert(*item)
	}
	w.peak = max(w.peak, len(w.rows))
}

// refresh makes map and queue anew, of these items.
func (w *scored) refresh(items []ranked) {
	w.peak, w.text = len(items), 0
	w.rows = make(map[string]*record.Row, len(items))
	for i := range items {
		r := items[i].Value
		w.rows[r.URL] = r
		w.text += rowText(r)
	}
	w.requeue(items)
}

// requeue makes the queue anew, of all rows.
func (w *scored) requeue(items []ranked) {
	w.popped = 0
	w.queue, _ = queue.New[*record.Row](w.opts.Queue, w.opts.Queues)
	for _, item := range items {
		w.queue.Insert(item)
	}
}

// cut drops an eighth more than it must, so that its pass over all rows is paid for by those that
// come after.
func (w *scored) cut(least, most int, limit int64, left func(r *record.Row)) {
	n := len(w.rows)
	if n <= most && w.bytes() <= limit || n <= least && w.peak == n {
		return
	}
	items := make([]ranked, n)
	for i := range items {
		items[i] = w.queue.Pop()
	}
	size := w.opts.fixed()
	keep := 0
	for ; keep < n; keep++ {
		size += scoredRow + rowSize + rowText(items[keep].Value)
		if keep >= least && (keep >= most-most/8 || size > limit-limit/8) {
			break
		}
	}
	for i := range slices.Backward(items[keep:]) {
		left(items[keep+i].Value)
	}
	if keep == 0 {
		*w = scored{opts: w.opts}
		return
	}
	edge := items[keep-1]
	w.refresh(items[:keep])
	w.edge = ranked{Key: edge.Key, Seq: edge.Seq}
}
