package frontier

import (
	"fmt"
	"math"
	"time"

	"urltree/storage/record"
)

// A reading is a refill of one host on its way, while the lock is free.
type reading struct {
	added []record.Row // rows that Add told of meanwhile; the refill may or may not have met them
}

// refillLocked reads first rows of a host that has joined needs into its window. It gives the
// lock free while the store reads. An error stays in f.err.
//
// Exactness: the rows that are out or in the window now are skipped to the end, whatever becomes
// of them meanwhile, so the rows read are neither. While a refill reads, the host lends nothing
// and Add defers new rows; they join afterwards unless the refill has met them.
func (f *Frontier) refillLocked(h *host) {
	skip := make(map[string]struct{}, int(h.outs)+h.win.len()+h.side.ready())
	for o := h.out; o != nil; o = o.next {
		skip[o.id] = struct{}{}
	}
	h.win.each(func(r *record.Row) { skip[r.ID()] = struct{}{} })
	h.side.each(func(r *record.Row) { skip[r.ID()] = struct{}{} })
	now := f.time()
	if h.givenUp {
		now = time.Unix(0, math.MaxInt64) // its rows leave as held, due or not
	}
	most := maxRows
	if f.opts.Tree != nil && !h.givenUp {
		most = f.opts.Batch // the others are for walks to find
	}
	if !h.served {
		most = min(most, firstRows)
	}
	n := max(min(int(f.shareLocked()/usualRow), most)-h.win.len(), fewRows)
	if f.opts.Rank != nil {
		n *= 2 // the better half stays
	}
	// More and due are found out anew; what sets them from here on stays.
	w := wanted{host: h.name, now: now, pages: n, sitemaps: -1, unread: h.unread, skip: skip}
	if h.due != 0 && h.side != nil && !h.givenUp {
		w.sitemaps = sideRows - h.side.ready()
	}
	h.more, h.due = false, 0
	h.queued, h.reading = false, new(reading)
	f.readers++
	f.refills++

	rows, due, times, err := f.readUnlocked(w)

	f.readers--
	added := h.reading.added
	h.reading, h.served = nil, true
	if h.unread && err == nil {
		h.unread = false
		h.load(times, f.start, f.opts.MaxCrawlDelay)
		f.afterKill(h)
	}
	if err != nil {
		// No row may seem to be gone; the host is as it was, and the error ends every Take.
		h.more = true
		h.dueBy(0)
		if f.err == nil {
			f.err = fmt.Errorf("frontier: refill of %s: %w", h.name, err)
		}
	} else {
		if rows = h.takeSide(rows); h.givenUp {
			f.forgetSideLocked(h)
		}
		h.more = h.more || len(rows) >= n
		if due != 0 {
			h.dueBy(due)
		}
	}
	sortRows(rows)
	h.win.merge(rows)
	sortRows(added)
	fresh := added[:0]
	for i := range added {
		if !h.win.has(&added[i]) {
			fresh = append(fresh, added[i])
		}
	}
	f.insertLocked(h, fresh)
	if h.count > 0 && h.win.len()+h.side.ready() == 0 && !h.more && h.due == 0 && h.outs == 0 {
		// The index has fewer rows than its counts say. Nobody may wait for the others.
		f.missing += h.count
		f.countLocked(h, record.PageRow, -h.count)
		h.side = nil
	}
	f.placeLocked(h)
	f.wakeLocked()
}

// wanted says which rows a refill reads.
type wanted struct {
	host     string
	now      time.Time
	pages    int  // rows of these
	sitemaps int  // rows of these; negative: no matter how many there are
	unread   bool // with the times of the host
	skip     map[string]struct{}
}

// readUnlocked unlocks, reads, and locks again. due is the earliest time at which another row may
// be due; 0: there is none.
func (f *Frontier) readUnlocked(w wanted) (rows []record.Row, due int64, times record.HostTimes, err error) {
	f.mu.Unlock()
	defer f.mu.Lock()
	if w.unread {
		stored, _, err := f.opts.Store.HostAt(w.host)
		if err != nil {
			return nil, 0, times, err
		}
		times = stored.HostTimes
	}
	rows, due, err = f.opts.Store.Refill(w.host, w.now, w.pages, w.sitemaps, func(id string) bool {
		_, skips := w.skip[id]
		return skips
	})
	return rows, due, times, err
}

// insertLocked puts sorted rows that are nowhere else into the window, except those that would
// stand behind rows that are on disk only: these go nowhere. In order tree all stay on disk.
func (f *Frontier) insertLocked(h *host, rows []record.Row) {
	if f.opts.Tree != nil {
		for i := range rows {
			h.leave(&rows[i])
		}
		return
	}
	if h.more {
		h.win.insert(rows, h.leave)
	} else {
		h.win.merge(rows)
	}
	h.win.cut(fewRows, maxRows, f.shareLocked(), h.leave)
}

// shareLocked is the memory that the window of one host may take.
func (f *Frontier) shareLocked() int64 { return f.windowsLocked() / int64(max(f.busy, 1)) }

// windowsLocked is the memory that all windows may take: what the names of the hosts leave.
func (f *Frontier) windowsLocked() int64 { return max(f.opts.Memory-f.names, 0) }

// shrinkLocked brings the windows below the limit of memory. They grew when there were fewer
// hosts, or to a few rows beyond their share. It goes on until an eighth is free, so that
// a round over all hosts is paid for by many insertions.
func (f *Frontier) shrinkLocked() {
	most := f.windowsLocked()
	if f.bytes <= most {
		return
	}
	share := f.shareLocked() / 4 * 3
	for range f.list {
		if f.bytes <= most/8*7 {
			return
		}
		f.hand = (f.hand + 1) % len(f.list)
		h := f.list[f.hand]
		h.win.cut(0, maxRows, share, h.leave)
		f.placeLocked(h)
	}
}
