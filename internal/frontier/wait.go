package frontier

import (
	"context"
	"fmt"
	"math"
	"time"

	"urltree/internal/words"
	"urltree/storage/record"
)

// What a Take that has got nothing does next.
type outlook int

const (
	again outlook = iota // something is ready or must be read
	sleep                // wait for a time or a change
	idle                 // call Idle, then look again
	end                  // io.EOF
)

// waits are the Takes that wait, and what tells them to go on.
type waits struct {
	wake    chan struct{} // closed and replaced to wake them
	takes   int
	until   int64         // Unix nanoseconds when the first of them wakes by itself; in the past: unknown
	changes int64         // loans made and returned, and calls of Expect
	idle    int64         // changes when Idle was called last
	longest time.Duration // time that a Take waited for the lock
}

// outlookLocked returns what a Take would do now; for sleep, also until when if nothing changes.
func (f *Frontier) outlookLocked(now int64) (what outlook, until int64) {
	until = math.MaxInt64
	if top := f.turns.first(); top != nil {
		until = top.seat.at
	}
	if t := &f.others; !t.all && !t.reading && f.outsideLocked() > 0 {
		until = min(until, t.after)
	}
	switch {
	case f.err != nil || len(f.turns.needs) > 0 || until <= now:
		return again, 0
	case f.readers > 0:
		return sleep, until
	case len(f.lent.rows) == 0 && f.lent.loans == 0 && f.counts.expected == 0 && (until == math.MaxInt64 || until-now > int64(f.opts.MaxWait)):
		// No turn at all means that nothing is left: each live row that is not out gives its
		// host a turn, unless the host is lent or being refilled.
		return end, 0
	case f.starvedLocked() && f.waits.idle != f.waits.changes:
		return idle, 0
	}
	return sleep, until
}

// Left reports whether there are rows of range Now or Later, those that are out included.
func (f *Frontier) Left() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts.live > 0
}

// Starved reports whether all that is left is out. A crawler that puts an item into a buffer
// after it has returned the loan asks this, since Idle may have come before the item.
func (f *Frontier) Starved() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.starvedLocked()
}

func (f *Frontier) starvedLocked() bool {
	out := f.lent.out()
	return out+f.counts.expected > 0 && f.counts.live <= out
}

// waitLocked unlocks until something changes, the time comes or ctx ends.
func (f *Frontier) waitLocked(ctx context.Context, now, until int64) {
	if f.waits.until <= now || until < f.waits.until {
		f.waits.until = until
	}
	f.waits.takes++
	wake := f.waits.wake
	f.mu.Unlock()
	var timer <-chan time.Time
	if until != math.MaxInt64 {
		timer = time.After(time.Duration(until - now))
	}
	select {
	case <-wake:
	case <-timer:
	case <-ctx.Done():
	}
	f.mu.Lock()
	f.waits.takes--
}

// wakeLocked wakes the waiting Takes if one of them would now do something else than sleep
// until it wakes by itself. Every method that may bring that about ends with it.
func (f *Frontier) wakeLocked() {
	if f.waits.takes == 0 {
		return
	}
	now := f.clock.now()
	what, until := f.outlookLocked(now)
	if what == sleep && until >= f.waits.until && f.waits.until > now {
		return
	}
	close(f.waits.wake)
	f.waits.wake = make(chan struct{})
	f.waits.until = math.MaxInt64
}

// counts are those of a frontier.
type counts struct {
	live           int64 // rows of range Now and Later, those that are out and of hosts that are not in memory included
	expected       int64 // see Expect
	added, removed int64 // see Stats
	missing        int64 // rows that the counts of the index promised and its ranges did not have
	refills        int64 // reads of the store for a host
}

// Stats are figures of a frontier.
type Stats struct {
	Hosts    int   // in memory
	Eligible int64 // rows of range Now and Later, those that are out included
	Added    int64 // rows of pages told by Add
	Removed  int64 // rows of pages done for good
	// LongestWait is the longest time that a Take waited for the lock.
	LongestWait time.Duration
}

// Stats returns the figures of now.
func (f *Frontier) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &f.counts
	return Stats{Hosts: len(f.hosts.byName), Eligible: c.live, Added: c.added, Removed: c.removed, LongestWait: f.waits.longest}
}

// Out returns the URLs that were taken and have no outcome yet, in no order.
func (f *Frontier) Out() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []string
	for _, o := range f.lent.rows {
		if o.kind == record.PageRow {
			list = append(list, o.id)
		}
	}
	return list
}

// Waiting says in a few words what a Take would wait for; "" if something is ready.
func (f *Frontier) Waiting() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.now()
	switch top := f.turns.first(); {
	case len(f.turns.needs) > 0 || top != nil && top.seat.at <= now:
		return ""
	case top != nil:
		next := max(time.Duration(top.seat.at-now).Round(time.Second), time.Second)
		return fmt.Sprintf("%s resting, next in %s", words.Count(int64(f.turns.tournament.Len()), "host"), next)
	case f.lent.out()+f.counts.expected > 0:
		return words.Count(f.lent.out()+f.counts.expected, "URL") + " in flight"
	case f.lent.loans > 0 || f.readers > 0:
		return words.Count(int64(f.lent.loans+f.readers), "host") + " in use"
	}
	return "nothing left"
}
