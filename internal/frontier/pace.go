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

const (
	mostFound  = 2 * time.Minute
	slowing    = 512 // each answer makes the least time shorter by this part of it
	steady     = 64  // answers in a row by which it has proved right
	searching  = 8   // fewer answers in a row tell that it is far from right
	mostRaises = 10  // of which a steady run takes two back
)

// A pace is when a host may be asked, by its answers and its robots.txt.
//
// Invariant: next is not before until, nor before one delay (wait) has passed since asked.
//
// A host that refuses requests (429, 503) has a least time between two of them that went well, as
// far as is known. It is found as congestion control finds a rate. A refusal after an answer makes
// it longer by a part of the time that was too short, and the back-off, which doubles with each
// refusal in a row and halves with each answer, takes the host there from above: so a server that
// was away for a moment does not change it for long. Then each answer makes it a little shorter, to
// find out whether the limit is still there.
type pace struct {
	next       int64         // Unix nanoseconds before which it may not be asked
	givenUp    bool          // for this run
	raises     int8          // of found, without a steady run
	perHost    uint16        // of its Policy; 0: none
	delay      int32         // of its Policy, in milliseconds; 0: none, negative: no delay
	until      int64         // Unix nanoseconds before which an answer allows no request
	asked      int64         // Unix nanoseconds from which the delay counts: of the last request or answer; 0: none
	took       time.Duration // smoothed answer time; 0: unknown
	crawlDelay time.Duration // of robots.txt; 0: none

	backoff time.Duration // present back-off, without jitter; 0: none
	fault   int64         // Unix nanoseconds at which the last counted failure ended; 0: none
	cause   string        // what it came to
	fails   uint32        // failures in a row
	run     int32         // answers since the last of them

	found time.Duration // the least time, see above; 0: none
}

// wait returns the delay between two requests to the host.
func (p *pace) wait(o *Options) time.Duration {
	d, adapts := o.Delay, o.Auto
	if p.delay != 0 {
		d, adapts = time.Duration(max(p.delay, 0))*time.Millisecond, false
	}
	if adapts {
		auto := firstDelay
		if p.took > 0 {
			auto = min(max(autoFactor*p.took, leastAuto), mostAuto)
		}
		d = max(d, auto)
	}
	return max(d, p.crawlDelay, p.found, p.backoff)
}

// keep moves the next permitted time to one delay behind the last request, if it is before.
func (p *pace) keep(o *Options) {
	if p.asked != 0 {
		p.next = max(p.next, p.asked+int64(p.wait(o)))
	}
}

// load takes over stored times. Times that no run can have stored are cut.
func (p *pace) load(t *record.HostTimes, now int64, longestDelay time.Duration) {
	p.next = min(max(t.Next, 0), now+int64(longestWait))
	p.took = min(max(time.Duration(t.Answer), 0), longestWait)
	p.backoff = min(max(time.Duration(t.Backoff), 0), longestWait)
	p.found = min(max(time.Duration(t.Pace), 0), mostFound)
	p.crawlDelay = min(max(time.Duration(t.Delay), 0), longestDelay)
	p.fails = t.Fails
}

// afterKill keeps a host from being asked too early where its times may not have been kept: at
// least as long as after a first failure, which may be what nobody knows of.
func (p *pace) afterKill(o *Options, start int64) {
	if o.Unclean {
		p.next = max(p.next, start+int64(max(p.wait(o), firstDelay)))
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

// answered applies an answer.
func (p *pace) answered(o *Options, c *clock, a Answer) {
	if a.End.IsZero() {
		a.End = c.read()
	}
	if a.Start.IsZero() {
		a.Start = a.End
	}
	pause := max(p.judge(o, c, &a), min(a.RetryAfter, longestWait))
	if a.Fault == NoFault && !a.Away {
		took := a.Took
		if took <= 0 {
			took = a.End.Sub(a.Start)
		}
		took = min(max(took, 1), longestWait)
		if p.took > 0 {
			took = (7*p.took + took) / 8
		}
		p.took = took
	}
	end := c.at(a.End)
	if pause > 0 {
		p.until = max(p.until, end+int64(pause))
	}
	p.next = max(p.next, p.until, end)
	if p.atOnce(o) > 1 {
		end = c.at(a.Start)
	}
	p.asked = max(p.asked, end)
	p.keep(o)
}

// judge counts a failure or a success, and returns how long the host rests after it.
//
// Requests at once fail at once: one that began before the last failure ended is part of it and
// neither lengthens the back-off nor ends it, but the host rests after it as well.
func (p *pace) judge(o *Options, c *clock, a *Answer) (pause time.Duration) {
	counts := c.at(a.Start) >= p.fault
	switch {
	case a.Away:
		return firstDelay
	case a.Fault != NoFault && counts:
		p.fault = c.at(a.End)
		p.cause = strings.Clone(a.Cause)
		if a.Fault == Refused {
			p.slower(o)
		}
		p.run = 0
		p.fails++
		p.backoff = min(max(2*p.backoff, firstDelay), longestWait)
		most := uint32(giveUpAfter)
		if p.took == 0 && a.Fault == Unreached {
			most = giveUpNew
		}
		p.givenUp = p.givenUp || p.fails >= most
		// Jitter only lengthens: hosts that failed together do not come back together.
		return min(p.backoff+rand.N(p.backoff/2), longestWait)
	case a.Fault != NoFault:
		return max(p.backoff, firstDelay)
	case counts:
		p.fails = 0
		p.faster(o)
	}
	return 0
}

// slower takes note of a refusal. Where refusals come whatever the pace, as from a server that
// fails at random, no least time is found for a while.
func (p *pace) slower(o *Options) {
	if short := max(p.wait(o), leastAuto); p.fails == 0 {
		longer := short + short/4
		if p.run < searching {
			longer = short + short/2
		}
		p.raises = min(p.raises+1, mostRaises+1)
		if p.found = min(longer, mostFound); p.raises > mostRaises {
			p.found = 0
		}
	}
	p.backoff = max(p.backoff, p.wait(o))
}

// faster takes note of an answer.
func (p *pace) faster(o *Options) {
	if p.run++; p.run%steady == 0 {
		p.raises = max(p.raises-2, 0)
	}
	if p.backoff /= 2; p.backoff < firstDelay || p.backoff <= p.found {
		p.backoff = 0
	}
	if p.backoff > 0 || p.found == 0 {
		return
	}
	shorter := p.found - p.found/slowing - 1
	p.found = 0
	if shorter > p.wait(o) {
		p.found = shorter // else it is no more than what the host waits anyway
	}
}
