package frontier

import (
	"time"

	"urltree/storage/record"
)

// A host holds what the frontier knows of one host name. All of it is guarded by the lock of the
// frontier.
//
// What Add, Take, Return and Done look at stands first, together: of many hosts each look is a wait
// for memory.
type host struct {
	win   window
	plain sorted // where win is, if it is sorted
	bytes int64  // of the window, as last counted in hosts.windows

	stock     stock
	out       []*outRow // the rows that are out
	seat      seat
	lending   lending
	refill    refill
	side      *side      // rows that are no pages; nil: none
	repeats   *repeats   // stored pages that have a share; nil: none
	redirects *redirects // that wait for a turn; nil: none
	stored    stored
	pace      pace

	name string // not a part of a URL, which would stay in memory with it
}

// A stock is what is pending of a host: how many rows, and whether some are on disk only.
//
// Invariant while no refill of the host is reading: each of its rows of range Now or Later that Add
// or New has told of is in the window or the side, or out, or on disk only. If one of range Now is
// on disk only, more is set; if one of range Later is on disk only, due is set and not after its
// Due. In a sorted window all rows stand before those of range Now that are on disk only.
type stock struct {
	count int64 // rows of range Now and Later, those that are out and of the side included
	due   int64 // see above; 0: none; may be too early, never too late
	more  bool  // see above
}

// leave notes that a row is now on disk only.
func (s *stock) leave(r *record.Row) {
	if r.Range == record.Later {
		s.dueBy(r.Due)
	} else {
		s.more = true
	}
}

// dueBy notes that a row of range Later on disk is due at due.
func (s *stock) dueBy(due int64) {
	due = max(due, 1) // 0 means none
	if s.due == 0 || due < s.due {
		s.due = due
	}
}

// isDue reports whether a row of range Later on disk may be due.
func (s *stock) isDue(now int64) bool { return s.due != 0 && s.due <= now }

// A lending is to how many a host is lent, and what keeps it from being lent to others.
type lending struct {
	borrowers int32 // loans that are not returned
	away      int8  // ways of its own robots.txt that go on as redirects
	leaving   bool  // lends nothing more and goes as soon as it may
	alone     bool  // lends nothing before all is returned: robots.txt is to be asked or being asked
	sifts     bool  // its first rows may be held without a request: see Answer.Over
}

// A stored is what the store has of a host, and what it has not got yet.
type stored struct {
	tx        uint64 // the transaction that the store showed when the host came in
	seq       uint64 // answers in this run
	saved     uint64 // those of which the times are durable
	addresses int8   // see record.HostTimes.Kind; 0: not known
	unread    bool   // the store may have times of it, or Options.Policy a policy, that are not known here
	noSide    bool   // it came in when its side was forgotten already
}

// load takes over the stored times of a host.
func (h *host) load(t *record.HostTimes, now int64, longestDelay time.Duration) {
	h.pace.load(t, now, longestDelay)
	h.stored.addresses = int8(t.Kind)
}

// times returns what is to be stored of the host.
func (h *host) times() record.HostTimes {
	p := &h.pace
	return record.HostTimes{
		Name: h.name, Next: p.next, Answer: int64(p.took), Backoff: int64(p.backoff), Pace: int64(p.found),
		Fails: p.fails, Delay: int64(p.crawlDelay), Kind: int64(h.stored.addresses), Seq: h.stored.seq,
	}
}

// idle reports whether nothing of the host is out, lent or being read, and the store has all that
// is known of it.
func (h *host) idle() bool {
	return h.redirects == nil && h.lending.away == 0 && h.lending.borrowers == 0 && !h.refill.waits() && len(h.out) == 0 && h.stored.seq == h.stored.saved
}

// ready returns how many rows may be lent without a refill.
func (h *host) ready() int { return h.win.len() + h.side.ready() + h.repeats.ready() }

// turn returns the time of the host's next turn, and whether it has one.
func (h *host) turn(o *Options) (at int64, ok bool) {
	none := h.ready() == 0 && !h.stock.more && !h.repeats.lacks()
	switch {
	case h.lending.leaving && h.redirects == nil || h.refill.waits() || int(h.lending.borrowers) >= h.pace.atOnce(o):
		return 0, false
	case h.redirects != nil && (h.pace.givenUp || h.stored.unread):
		return 0, true
	case h.redirects != nil:
		return h.pace.next, true
	case h.lending.alone && h.lending.borrowers > 0 || h.lending.away > 0:
		return 0, false
	case none && h.stock.due == 0 && (h.stock.count <= 0 || len(h.out) > 0):
		return 0, false // with a count but no row known, a refill has to find out
	case h.pace.givenUp || h.stored.unread:
		return 0, true // nothing is asked of it, so nothing needs to wait
	case none:
		return max(h.pace.next, h.stock.due), true
	case h.lending.sifts:
		return 0, true
	}
	return h.pace.next, true
}

// needsRefill reports whether a host that has its turn must be refilled first.
//
// A row that became due goes first. If the first one is such a row already, or one of the side, it
// is given out before the next refill, which makes sure that refills end.
func (h *host) needsRefill(now int64) bool {
	first, due := h.win.first(), h.stock.isDue(now)
	switch {
	case h.stored.unread || h.repeats.lacks():
		return true
	case first == nil && h.repeats.ready() > 0:
		return h.stock.more || due && !h.repeats.isDue() && h.side.ready() == 0 && !h.pace.givenUp
	case first == nil && h.side.ready() > 0:
		return h.stock.more
	case first == nil && h.redirects != nil:
		return h.stock.more || due
	case first == nil || h.pace.givenUp:
		return first == nil
	}
	return due && first.Range != record.Later && h.side.ready() == 0 && !h.repeats.isDue()
}
