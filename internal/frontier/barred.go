package frontier

import "urltree/storage/record"

// A host that Options.Barred reports is none of the frontier's: it lends nothing of it, and its
// rows count for nothing. One in memory leaves as soon as nothing of it is out and the store has
// all that is known of it.

// Rebar is called after the answers of Options.Barred have changed. rows is at least the number of
// rows in the store of hosts that are barred no more: these come in from there, and wait one delay
// of their own.
func (f *Frontier) Rebar(rows int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := len(f.hosts.list) - 1; i >= 0; i-- { // from the end, since hosts leave
		if h := f.hosts.list[i]; f.barredLocked(h.name) {
			h.lending.leaving = true
			f.placeLocked(h)
		}
	}
	f.counts.live += rows
	t := &f.others
	t.all, t.cursor, t.news, t.after = false, "", true, 0
	f.since = f.clock.now()
	f.wakeLocked()
}

// Barred returns the number of hosts in memory that are barred and have not left.
func (f *Frontier) Barred() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.hosts.list {
		if f.barredLocked(h.name) {
			n++
		}
	}
	return n
}

func (f *Frontier) barredLocked(host string) bool { return f.opts.Barred != nil && f.opts.Barred(host) }

// barsLocked reports whether a new row is of a host that is barred.
func (f *Frontier) barsLocked(r *record.Row) bool {
	return f.opts.Barred != nil && f.opts.Barred(record.Host(r.URL))
}

// gainedLocked has a host of the store wait one delay from the time on at which it may have been
// asked by another process.
func (f *Frontier) gainedLocked(h *host) {
	if f.since != 0 {
		h.pace.next = max(h.pace.next, f.since+int64(h.pace.wait(&f.opts)))
	}
}
