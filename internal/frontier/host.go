package frontier

import (
	"math/rand/v2"
	"strings"
	"time"

	"urltree/storage/record"
)

const (
	longestWait = 24 * time.Hour         // longest back-off and Retry-After
	firstDelay  = time.Second            // automatic delay before the first answer; first back-off
	leastAuto   = 100 * time.Millisecond // bounds of the automatic delay
	mostAuto    = 30 * time.Second
	autoFactor  = 5  // automatic delay in smoothed answer times
	giveUpAfter = 10 // failures in a row
	giveUpNew   = 6  // of a host that has never answered: one more than its first origin is asked
)

// A host holds what the frontier knows of one host name. All fields are guarded by the lock of the
// frontier.
//
// Invariant while no refill of the host is reading: each of its rows of range Now or Later that Add
// or New has told of is in the window or the side, or out, or on disk only. If one of range Now is
// on disk only, more is set; if one of range Later is on disk only, due is set and not after its
// Due. In a sorted window all rows stand before those of range Now that are on disk only.
//
// The fields that Add, Take, Return and Done look at stand first, together: of many hosts each look
// is a wait for memory.
type host struct {
	win   window
	plain sorted // where win is, if it is sorted
	bytes int64  // of the window, as last counted in Frontier.bytes
	count int64  // rows of range Now and Later, those that are out and of the side included
	tx    uint64 // the transaction that the store showed when the host came in

	next      int64 // Unix nanoseconds before which it may not be asked
	due       int64 // see above; 0: none; may be too early, never too late
	seat      seat
	borrowers int32    // loans that are not returned
	outs      int32    // number of rows that are out
	group     int32    // in an Add, of its rows; 0: none
	run       int32    // answers since the last failure
	out       *outRow  // the rows that were taken and neither returned nor done; nil: none
	side      *side    // rows that are no pages; nil: none
	hops      *hops    // that wait for a turn; nil: none
	reading   *reading // the refill that reads now, or nil
	more      bool     // see above
	queued    bool     // waits for a refill
	served    bool     // a refill has read its rows since it came in
	leaving   bool     // lends nothing more and goes as soon as it may
	alone     bool     // lends nothing before all is returned: robots.txt is to be asked or being asked
	givenUp   bool     // for this run
	sifts     bool     // its first rows may be held without a request: see Answer.Over
	unread    bool     // the store may have times of it that are not known here
	without   bool     // it came in when its side was forgotten already
	raises    int8     // see slower
	kind      int8     // of addresses, see record.HostTimes; 0: not known
	away      int8     // ways of its own robots.txt that go on as hops
	fails     uint32   // failures in a row

	asked   int64         // Unix nanoseconds from which the delay counts: of the last request or answer; 0: none
	answer  time.Duration // smoothed answer time; 0: unknown
	backoff time.Duration // present back-off, without jitter; 0: none
	pace    time.Duration // see slower; 0: none
	rest    int64         // Unix nanoseconds before which an answer allows no request
	cause   string        // what the last counted failure came to
	delay   time.Duration // Crawl-delay; 0: none
	fault   int64         // Unix nanoseconds at which the last counted failure ended; 0: none
	seq     uint64        // answers in this run
	saved   uint64        // those of which the times are durable
	name    string        // not a part of a URL, which would stay in memory with it
	at      int           // its place in Frontier.list
}

// leave notes that a row is now on disk only.
func (h *host) leave(r *record.Row) {
	if r.Range == record.Later {
		h.dueBy(r.Due)
	} else {
		h.more = true
	}
}

// dueBy notes that a row of range Later on disk is due at due.
func (h *host) dueBy(due int64) {
	due = max(due, 1) // 0 means none
	if h.due == 0 || due < h.due {
		h.due = due
	}
}

// turn is the time of the host's next turn, and whether it has one.
func (f *Frontier) turn(h *host) (at int64, ok bool) {
	switch {
	case h.leaving:
		return 0, false
	case h.queued || h.reading != nil:
		return 0, false // has its turn when it is refilled
	case int(h.borrowers) >= f.opts.PerHost:
		return 0, false
	case h.hops != nil && (h.givenUp || h.unread):
		return 0, true
	case h.hops != nil:
		return h.next, true
	case h.alone && h.borrowers > 0 || h.away > 0:
		return 0, false
	}
	rows := h.win.len() + h.side.ready()
	switch {
	case rows == 0 && !h.more && h.due == 0 && (h.count <= 0 || h.outs > 0):
		return 0, false // with a count but no row known, a refill has to find out
	case h.givenUp || h.unread:
		return 0, true // nothing is asked of it, so nothing needs to wait
	case rows == 0 && !h.more:
		return max(h.next, h.due), true
	case h.sifts:
		return 0, true
	}
	return h.next, true
}

// needsRefill reports whether a host that has its turn must be refilled first.
func (h *host) needsRefill(now int64) bool {
	first := h.win.first()
	due := h.due != 0 && h.due <= now
	// A row that became due goes first. If the first one is such a row already, or one of the side,
	// it is given out before the next refill, which makes sure that refills end.
	switch {
	case h.unread:
		return true
	case first == nil && h.side.ready() > 0:
		return h.more
	case first == nil && h.hops != nil:
		return h.more || due
	case first == nil || h.givenUp:
		return first == nil
	}
	return due && first.Range != record.Later && h.side.ready() == 0
}

// wait is the delay between two requests to the host.
func (f *Frontier) wait(h *host) time.Duration {
	d := f.opts.Delay
	if f.opts.Auto {
		auto := firstDelay
		if h.answer > 0 {
			auto = min(max(autoFactor*h.answer, leastAuto), mostAuto)
		}
		d = max(d, auto)
	}
	return max(d, h.delay, h.pace, h.backoff)
}

// load takes over the stored times of a host. Times that no run can have stored are cut.
func (h *host) load(t record.HostTimes, now int64, longestDelay time.Duration) {
	h.next = min(max(t.Next, 0), now+int64(longestWait))
	h.answer = min(max(time.Duration(t.Answer), 0), longestWait)
	h.backoff = min(max(time.Duration(t.Backoff), 0), longestWait)
	h.pace = min(max(time.Duration(t.Pace), 0), mostPace)
	h.delay = min(max(time.Duration(t.Delay), 0), longestDelay)
	h.fails = t.Fails
	h.kind = int8(t.Kind)
}

// afterKill keeps a host from being asked too early where its times may not have been kept: at
// least as long as after a first failure, which may be what nobody knows of.
func (f *Frontier) afterKill(h *host) {
	if f.opts.Unclean {
		h.next = max(h.next, f.start+int64(max(f.wait(h), firstDelay)))
	}
}

func (h *host) times() record.HostTimes {
	return record.HostTimes{
		Name: h.name, Next: h.next, Answer: int64(h.answer), Backoff: int64(h.backoff), Pace: int64(h.pace),
		Fails: h.fails, Delay: int64(h.delay), Kind: int64(h.kind), Seq: h.seq,
	}
}

// A Fault says what a failed request means for its host.
type Fault uint8

const (
	NoFault Fault = iota
	// Broken is one that began: a time-out, a connection that ended, 504.
	Broken
	// Unreached is one that did not get to the host: no address, no connection, 502.
	Unreached
	// Refused is one of which the host said that it came too soon, or that it has too much to do: 429
	// or 503.
	Refused
)

// An Answer says how a host took a request.
type Answer struct {
	Start, End time.Time     // zero: End is now, Start is End
	Took       time.Duration // the answer time to adapt to; 0: End - Start
	Fault      Fault         // whether the host is in trouble
	Cause      string        // of a fault, a short word
	Away       bool          // it did not get there, as none does: it says nothing of the host
	Over       bool          // Options.Admit holds the URLs of the origin from now on
	Failed     bool          // the URL has failed for good: in order tree the crawler goes back to the sentinel
	RetryAfter time.Duration // as the answer asks; 0: not
}

// answered applies an answer to the times of the host.
func (f *Frontier) answered(h *host, a Answer) {
	if a.End.IsZero() {
		a.End = f.read()
	}
	if a.Start.IsZero() {
		a.Start = a.End
	}
	// Requests at once fail at once: one that began before the last failure ended is part
	// of it and neither lengthens the back-off nor ends it, but the host rests after it as well.
	counts := f.at(a.Start) >= h.fault
	pause := time.Duration(0)
	switch {
	case a.Away:
		pause = firstDelay
	case a.Fault != NoFault && counts:
		h.fault = f.at(a.End)
		h.cause = strings.Clone(a.Cause)
		if a.Fault == Refused {
			f.slower(h)
		}
		h.run = 0
		h.fails++
		h.backoff = min(max(2*h.backoff, firstDelay), longestWait)
		// Jitter only lengthens: hosts that failed together do not come back together.
		pause = min(h.backoff+rand.N(h.backoff/2), longestWait)
		most := uint32(giveUpAfter)
		if h.answer == 0 && a.Fault == Unreached {
			most = giveUpNew
		}
		h.givenUp = h.givenUp || h.fails >= most
	case a.Fault != NoFault:
		pause = max(h.backoff, firstDelay)
	case counts:
		h.fails = 0
		f.faster(h)
	}
	h.sifts = a.Over && f.opts.Tree == nil
	if a.Fault == NoFault && !a.Away {
		took := a.Took
		if took <= 0 {
			took = a.End.Sub(a.Start)
		}
		took = min(max(took, 1), longestWait)
		if h.answer > 0 {
			took = (7*h.answer + took) / 8
		}
		h.answer = took
	}
	pause = max(pause, min(a.RetryAfter, longestWait))
	if pause > 0 {
		h.rest = max(h.rest, f.at(a.End)+int64(pause))
		h.next = max(h.next, h.rest)
	}
	h.next = max(h.next, f.at(a.End))
	from := a.End
	if f.opts.PerHost > 1 {
		from = a.Start
	}
	h.asked = max(h.asked, f.at(from))
	f.restLocked(h)
}

// restLocked moves the next permitted time to one delay behind the last request, if it is before.
func (f *Frontier) restLocked(h *host) {
	if h.asked != 0 {
		h.next = max(h.next, h.asked+int64(f.wait(h)))
	}
}
