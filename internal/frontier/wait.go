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
	rest                 // wait for a time or a change
	idle                 // call Idle, then look again
	end                  // io.EOF
)

// outlookLocked returns what a Take would do now; for rest, also until when if nothing changes.
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
		return rest, until
	case f.out == 0 && f.loans == 0 && f.expected == 0 && (until == math.MaxInt64 || until-now > int64(f.opts.MaxWait)):
		// No turn at all means that nothing is left: each live row that is not out gives its
		// host a turn, unless the host is lent or being refilled.
		return end, 0
	case f.starvedLocked() && f.idle != f.changes:
		return idle, 0
	}
	return rest, until
}

// Left reports whether there are rows of range Now or Later, those that are out included.
func (f *Frontier) Left() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.live > 0
}

// Starved reports whether all that is left is out. A crawler that puts an item into a buffer
// after it has returned the loan asks this, since Idle may have come before the item.
func (f *Frontier) Starved() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.starvedLocked()
}

func (f *Frontier) starvedLocked() bool { return f.out+f.expected > 0 && f.live <= f.out }

// waitLocked unlocks until something changes, the time comes or ctx ends.
func (f *Frontier) waitLocked(ctx context.Context, now, until int64) {
	if f.sleep <= now || until < f.sleep {
		f.sleep = until
	}
	f.waiters++
	wake := f.wake
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
	f.waiters--
}

// wakeLocked wakes the waiting Takes if one of them would now do something else than sleep
// until it wakes by itself. Every method that may bring that about ends with it.
func (f *Frontier) wakeLocked() {
	if f.waiters == 0 {
		return
	}
	now := f.now()
	what, until := f.outlookLocked(now)
	if what == rest && until >= f.sleep && f.sleep > now {
		return
	}
	close(f.wake)
	f.wake = make(chan struct{})
	f.sleep = math.MaxInt64
}

// Stats are figures of a frontier.
type Stats struct {
	Hosts    int   // in memory
	Left     int64 // how often one made room for others
	Ready    int   // may be asked now
	Eligible int64 // rows of range Now and Later, those that are out included
	Out      int64 // rows taken, neither returned nor done
	Held     int64 // rows that went to the held range since the start
	Added    int64 // rows of pages told by Add
	Removed  int64 // rows of pages done for good
	Missing  int64 // rows that the counts of the index promised and its ranges did not have
	Refills  int64 // reads of the store
	Windows  int64 // bytes of all windows
	// LongestWait is the longest time that a Take waited for the lock.
	LongestWait time.Duration
}

// Stats returns the figures of now.
func (f *Frontier) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Stats{
		Hosts: len(f.hosts), Left: f.left, Ready: f.turns.count(f.now(), math.MaxInt), Eligible: f.live, Out: f.out, Held: f.held,
		Added: f.added, Removed: f.removed, Missing: f.missing, Refills: f.refills, Windows: f.bytes, LongestWait: f.longestWait,
	}
}

// Out returns the URLs that were taken and have no outcome yet, in no order.
func (f *Frontier) Out() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []string
	for _, o := range f.rowsOut {
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
	now := f.now()
	switch top := f.turns.first(); {
	case len(f.turns.needs) > 0 || top != nil && top.seat.at <= now:
		return ""
	case top != nil:
		next := max(time.Duration(top.seat.at-now).Round(time.Second), time.Second)
		return fmt.Sprintf("%s resting, next in %s", words.Count(int64(f.turns.tournament.Len()), "host"), next)
	case f.out+f.expected > 0:
		return words.Count(f.out+f.expected, "URL") + " in flight"
	case f.loans > 0 || f.readers > 0:
		return words.Count(int64(f.loans+f.readers), "host") + " in use"
	}
	return "nothing left"
}
