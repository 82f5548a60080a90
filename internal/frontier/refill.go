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
	skip := make(map[string]struct{}, int(h.outs)+h.win.len())
	for o := h.out; o != nil; o = o.next {
		skip[o.url] = struct{}{}
	}
	h.win.each(func(r *record.Row) { skip[r.URL] = struct{}{} })
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
	later := h.due != 0
	h.more, h.due = false, 0
	h.queued, h.reading = false, new(reading)
	f.readers++
	f.refills++

	rows, due, times, err := f.readUnlocked(h.name, now, n, skip, later, h.unread)

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
		h.more = h.more || len(rows) >= n
		// All that was due is read when fewer than n rows came. A time that says otherwise
		// belongs to a row that cannot be read, and would be asked for again and again.
		if due != 0 && (len(rows) >= n || due > now.UnixNano()) {
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
	if h.count > 0 && h.win.len() == 0 && !h.more && h.due == 0 && h.outs == 0 {
		// The index has fewer rows than its counts say. Nobody may wait for the others.
		f.missing += h.count
		f.countLocked(h, -h.count)
	}
	f.placeLocked(h)
	f.wakeLocked()
}

// readUnlocked unlocks, reads, and locks again.
func (f *Frontier) readUnlocked(name string, now time.Time, n int, skip map[string]struct{}, later, unread bool) (rows []record.Row, due int64, times record.HostTimes, err error) {
	f.mu.Unlock()
	defer f.mu.Lock()
	skips := func(url string) bool {
		_, ok := skip[url]
		return ok
	}
	if unread {
		stored, _, err := f.opts.Store.HostAt(name)
		if err != nil {
			return nil, 0, times, err
		}
		times = stored.HostTimes
	}
	rows, err = f.opts.Store.Refill(name, now, n, skips)
	if err != nil || !later {
		return rows, 0, times, err
	}
	for i := range rows {
		skip[rows[i].URL] = struct{}{}
	}
	due, err = f.opts.Store.NextDue(name, skips)
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
