package frontier

import (
	"fmt"
	"math"
	"time"

	"urltree/storage/record"
)

const (
	hostBytes    = 2048 // memory that a host takes with the few rows of the smallest window, for the usual MaxHosts
	hostsAtOnce  = 256  // read from the store at a time
	rotateAgain  = int64(time.Second)
	fewestMoving = 8 // an eighth of the hosts is exchanged before the store is read for others
)

// Only so many hosts are in memory. The others wait in the store: their rows are counted in
// counts.live and not in hosts.rows. While all hosts are in memory, a host that is not is new. Once
// one had to stay outside, hosts take turns: one whose window is empty leaves, as does one that
// rests, and the next of the store, in the order of names and round again, comes in.
//
// Invariant: a host leaves only while nothing of it is out, lent or being read, and after its
// times of this run are durable; so the store has all that is known of it.
//
// A rotation is where the reading of other hosts stands, guarded by the lock of the frontier.
type rotation struct {
	all     bool   // every host of the store is in memory
	cursor  string // the last name read; "": the round begins
	reading bool
	// Of the round so far: hosts that came in, the earliest time at which one of them may be
	// asked, and whether rows of outside hosts were told of since it began.
	met   int
	first int64
	news  bool
	after int64 // Unix nanoseconds before which reading would find nothing new; 0: at once
	full  bool  // after is set for want of room
	// Hosts of which the side is forgotten in this run, those that have left memory included: the
	// store does not know that they are.
	forgotten map[string]bool
}

// outsideLocked is the number of rows of hosts that are not in memory.
func (f *Frontier) outsideLocked() int64 { return f.counts.live - f.hosts.rows }

// newsOutsideLocked reports whether a host that is not in memory stays outside with what it has
// got, for want of room or because the store may know it.
func (f *Frontier) newsOutsideLocked() bool {
	if f.others.all && len(f.hosts.byName) < f.opts.MaxHosts {
		return false
	}
	f.others.all = false
	f.others.news, f.others.after = true, 0
	return true
}

// rotatesLocked reports whether hosts of the store should come in.
func (f *Frontier) rotatesLocked(now int64) bool {
	return !f.others.all && !f.others.reading && f.outsideLocked() > 0 && f.others.after <= now
}

// makeRoomLocked returns how many hosts may come in. With starving, nobody may be asked now, hosts
// that rest or have nothing left make room for others.
func (f *Frontier) makeRoomLocked(now int64, enough int, starving bool) int {
	for looked := len(f.hosts.list); starving && looked > 0 && f.opts.MaxHosts-len(f.hosts.byName) < enough; looked-- {
		if h := f.hosts.next(); h.idle() && !h.seat.due(now) {
			f.evictLocked(h)
		}
	}
	return f.opts.MaxHosts - len(f.hosts.byName)
}

// evictLocked lets an idle host go.
func (f *Frontier) evictLocked(h *host) {
	f.turns.place(h, 0, false)
	if f.barredLocked(h.name) {
		f.counts.live -= h.stock.count
	}
	f.hosts.remove(h)
	f.others.all = false
	if f.others.full {
		f.others.full, f.others.after = false, 0
	}
}

// rotateLocked reads hosts of the store, if some are needed and there is room for them. It
// unlocks meanwhile.
func (f *Frontier) rotateLocked(now int64, starving bool) bool {
	if !f.rotatesLocked(now) {
		return false
	}
	t := &f.others
	enough := max(f.opts.MaxHosts/fewestMoving, 1)
	room := f.makeRoomLocked(now, enough, starving)
	switch {
	case room <= 0 && starving:
		t.full, t.after = true, now+rotateAgain // all are in use
		return false
	case room < enough && !starving:
		return false
	}
	if t.cursor == "" {
		t.met, t.first, t.news = 0, math.MaxInt64, false
	}
	t.reading = true
	f.readers++
	cursor := t.cursor
	f.mu.Unlock()
	hosts, tx, err := f.opts.Store.NextHosts(cursor, min(room, hostsAtOnce))
	f.mu.Lock()
	f.readers--
	t.reading = false
	if err != nil {
		f.failLocked(fmt.Errorf("hosts: %w", err))
		return true
	}
	for i := range hosts {
		t.cursor = hosts[i].Name
		if h := f.hosts.byName[hosts[i].Name]; h == nil && f.wantsLocked(&hosts[i]) {
			h = f.loadLocked(&hosts[i], tx)
			t.met++
			t.first = min(t.first, h.pace.next)
		}
	}
	if len(hosts) == 0 {
		f.roundLocked()
	}
	f.withdrawLocked()
	f.wakeLocked()
	return true
}

// roundLocked ends a round over all hosts of the store.
func (f *Frontier) roundLocked() {
	t := &f.others
	t.cursor = ""
	now := f.clock.now()
	switch {
	case t.news:
	case t.met == 0:
		// The index has fewer rows than its counts say. Nobody may wait for the others.
		f.counts.missing += f.outsideLocked()
		f.counts.live = f.hosts.rows
	case t.first > now:
		t.after = max(t.first, now+rotateAgain) // none of them may be asked sooner
	}
}

// wantsLocked reports whether a host of the store has anything to do in this run.
func (f *Frontier) wantsLocked(stored *record.HostRow) bool {
	if f.opts.NoSitemaps || f.others.forgotten[stored.Name] {
		stored.Sitemaps = 0
	}
	return stored.Now+stored.Later+stored.Sitemaps+stored.Revisits > 0 && !f.barredLocked(stored.Name)
}

// loadLocked brings a host in as the store had it at transaction tx.
func (f *Frontier) loadLocked(stored *record.HostRow, tx uint64) *host {
	h := f.newHostLocked(stored.Name)
	h.load(&stored.HostTimes, f.clock.start, f.opts.MaxCrawlDelay)
	f.gainedLocked(h)
	h.stored.tx, h.stored.noSide, h.stored.unread = tx, f.others.forgotten[h.name], f.opts.Policy != nil
	if f.opts.Run != 0 && stored.Run == f.opts.Run {
		h.stored.seq, h.stored.saved = stored.Seq, stored.Seq
		h.pace.givenUp = h.pace.fails >= giveUpAfter
	} else {
		h.pace.afterKill(&f.opts, f.clock.start)
	}
	h.stock.more = stored.Now > 0
	if stored.Revisits > 0 {
		f.leaveLocked(h, &record.Row{Range: record.Now}, record.RevisitRow)
	}
	if stored.Later > 0 || stored.Revisits > 0 {
		h.stock.dueBy(0)
	}
	f.hosts.count(h, max(stored.Now, 0)+max(stored.Later, 0)+max(stored.Sitemaps, 0)+max(stored.Revisits, 0))
	if stored.Sitemaps > 0 {
		h.stock.dueBy(0)
		if h.sideOf().count = stored.Sitemaps; h.pace.givenUp {
			f.forgetSideLocked(h)
		}
	}
	f.placeLocked(h)
	return h
}
