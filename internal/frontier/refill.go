package frontier

import (
	"fmt"
	"math"
	"time"

	"urltree/storage/record"
)

// A refill reads first rows of a host that has its turn, while the lock is free.
//
// Exactness: the rows that are out or in the window when it begins are skipped to the end, whatever
// becomes of them meanwhile, so the rows read are neither. While it reads, the host lends nothing
// and Add defers new rows; they join afterwards unless the refill has met them.
type refill struct {
	reading *reading // nil: none reads
	queued  bool     // the host waits for one
	served  bool     // one has read rows of the host since it came in
}

// A reading is a refill on its way.
type reading struct {
	added []record.Row // rows that Add told of meanwhile; the refill may or may not have met them
}

// waits reports whether the host has its turn when a refill has ended.
func (r *refill) waits() bool { return r.queued || r.reading != nil }

// wanted says which rows a refill reads.
type wanted struct {
	host     string
	now      time.Time
	pages    int  // rows of these
	sitemaps int  // rows of these; negative: no matter how many there are
	repeats  int  // rows of stored pages that have a share; 0: none
	unread   bool // with the times of the host
	skip     map[string]struct{}
}

// found is what a refill has read.
type found struct {
	rows    []record.Row
	repeats []record.Row
	due     int64            // the earliest time at which another row may be due; 0: there is none
	times   record.HostTimes // with wanted.unread, as is own
	own     Policy
}

// refillLocked reads first rows of a host into its window. An error stays in f.err.
func (f *Frontier) refillLocked(h *host) {
	w := f.wantedLocked(h)
	// More and due are found out anew; what sets them from here on stays.
	h.stock.more, h.stock.due = false, 0
	if h.repeats != nil {
		h.repeats.more = w.repeats == 0
	}
	h.refill.queued, h.refill.reading = false, new(reading)
	f.readers++
	f.counts.refills++
	got, err := f.readUnlocked(&w)
	f.readers--
	added := h.refill.reading.added
	h.refill.reading, h.refill.served = nil, true
	if err != nil {
		// No row may seem to be gone; the host is as it was, and the error ends every Take.
		h.stock.more = true
		h.stock.dueBy(0)
		if h.repeats != nil {
			h.repeats.more = true
		}
		f.failLocked(fmt.Errorf("refill of %s: %w", h.name, err))
	} else {
		f.foundLocked(h, &w, got)
	}
	f.joinLocked(h, added)
	f.lackLocked(h)
	f.placeLocked(h)
	f.withdrawLocked()
	f.wakeLocked()
}

// wantedLocked returns what a refill of a host reads.
func (f *Frontier) wantedLocked(h *host) wanted {
	w := wanted{host: h.name, now: f.clock.time(), sitemaps: -1, unread: h.stored.unread}
	w.skip = make(map[string]struct{}, len(h.out)+h.ready())
	for _, o := range h.out {
		w.skip[o.id] = struct{}{}
	}
	skip := func(r *record.Row) { w.skip[r.ID()] = struct{}{} }
	h.win.each(skip)
	h.side.each(skip)
	if h.repeats != nil {
		h.repeats.each(skip)
		w.repeats = max(repeatRows-h.repeats.len(), 0)
	}
	most := maxRows
	switch {
	case h.pace.givenUp:
		w.now = time.Unix(0, math.MaxInt64) // its rows leave as held, due or not
	case f.opts.Tree != nil:
		most = f.opts.PerLoan // the others are for walks to find
	}
	if !h.refill.served {
		most = min(most, firstRows)
	}
	w.pages = max(min(int(f.shareLocked()/usualRow), most)-h.win.len(), fewRows)
	if f.opts.Rank != nil {
		w.pages *= 2 // the better half stays
	}
	if h.stock.due != 0 && h.side != nil && !h.pace.givenUp {
		w.sitemaps = sideRows - h.side.ready()
	}
	return w
}

// readUnlocked unlocks, reads, and locks again.
func (f *Frontier) readUnlocked(w *wanted) (got found, err error) {
	f.mu.Unlock()
	defer f.mu.Lock()
	if w.unread {
		stored, _, err := f.opts.Store.HostAt(w.host)
		if err != nil {
			return got, err
		}
		if got.times = stored.HostTimes; f.opts.Policy != nil {
			got.own = f.opts.Policy(w.host)
		}
	}
	skip := func(id string) bool {
		_, skips := w.skip[id]
		return skips
	}
	got.rows, got.due, err = f.opts.Store.Refill(w.host, w.now, w.pages, w.sitemaps, skip)
	if err != nil || w.repeats == 0 {
		return got, err
	}
	var due int64
	got.repeats, due, err = f.opts.Revisits.Refill(w.host, w.now, w.repeats, skip)
	if due != 0 && (got.due == 0 || due < got.due) {
		got.due = due
	}
	return got, err
}

// foundLocked takes in what a refill has read.
func (f *Frontier) foundLocked(h *host, w *wanted, got found) {
	if h.stored.unread {
		h.stored.unread = false
		h.pace.follow(got.own)
		h.load(&got.times, f.clock.start, f.opts.MaxCrawlDelay)
		h.pace.afterKill(&f.opts, f.clock.start)
		f.gainedLocked(h)
	}
	rows := h.takeSide(got.rows)
	if h.pace.givenUp {
		f.forgetSideLocked(h)
	}
	h.stock.more = h.stock.more || len(rows) >= w.pages
	if got.due != 0 {
		h.stock.dueBy(got.due)
	}
	sortRows(rows)
	h.win.merge(rows, nil)
	if w.repeats > 0 && h.repeats != nil {
		h.repeats.more = h.repeats.more || len(got.repeats) >= w.repeats
		sortRows(got.repeats)
		h.repeats.merge(got.repeats, nil)
	}
}

// joinLocked takes in the rows that Add told of during a refill, unless that has met them.
func (f *Frontier) joinLocked(h *host, added []record.Row) {
	fresh := added[:0]
	for i := range added {
		if !h.win.has(&added[i]) {
			fresh = append(fresh, added[i])
		}
	}
	sortRows(fresh)
	f.insertLocked(h, fresh)
}

// lackLocked looks, after a refill, whether the index has fewer rows of a host than its counts say.
// Nobody may wait for the others.
func (f *Frontier) lackLocked(h *host) {
	if s := &h.stock; s.count > 0 && h.ready() == 0 && !s.more && !h.repeats.lacks() && s.due == 0 && len(h.out) == 0 {
		f.counts.missing += s.count
		f.countLocked(h, record.PageRow, -s.count)
		h.side = nil
	}
}

// insertLocked puts sorted rows that are nowhere else into the window, except those that would
// stand behind rows that are on disk only: these go nowhere. In order tree all stay on disk.
func (f *Frontier) insertLocked(h *host, rows []record.Row) {
	switch {
	case f.opts.Tree != nil:
		for i := range rows {
			h.stock.leave(&rows[i])
		}
		return
	case h.stock.more:
		h.win.merge(rows, h.stock.leave)
	default:
		h.win.merge(rows, nil)
	}
	h.win.cut(fewRows, maxRows, f.shareLocked(), h.stock.leave)
}

// shareLocked returns the memory that the window of one host may take.
func (f *Frontier) shareLocked() int64 { return f.windowsLocked() / int64(max(f.hosts.busy, 1)) }

// windowsLocked returns the memory that all windows may take: what the names of the hosts leave.
func (f *Frontier) windowsLocked() int64 { return max(f.opts.Memory-f.hosts.names, 0) }

// shrinkLocked brings the windows below the limit of memory. They grew when there were fewer
// hosts, or to a few rows beyond their share. It goes on until an eighth is free, so that
// a round over all hosts is paid for by many insertions.
func (f *Frontier) shrinkLocked() {
	most := f.windowsLocked()
	if f.hosts.windows <= most {
		return
	}
	share := f.shareLocked() / 4 * 3
	for range f.hosts.list {
		if f.hosts.windows <= most/8*7 {
			return
		}
		h := f.hosts.next()
		h.win.cut(0, maxRows, share, h.stock.leave)
		f.placeLocked(h)
	}
}
