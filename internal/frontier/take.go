package frontier

import (
	"context"
	"io"
	"time"
)

// Take waits until a host may be asked and lends it: at least one loan, at most free downloads plus
// the caller's share of the hosts that are ready, in order tree one. It returns io.EOF when all
// rows are done, or when none is out and what is left must wait longer than MaxWait; it may be
// called again after an Add. An error of the Store ends it for good. When ctx ends first, it
// returns the error of ctx.
func (t *Taker) Take(ctx context.Context, free int) ([]*Loan, error) {
	f := t.f
	f.lockMeasured()
	defer f.mu.Unlock()
	for {
		if err := ctx.Err(); err != nil {
			f.waits.until = 0 // the others may have relied on this one to wake first
			f.wakeLocked()
			return nil, err
		}
		var loans []*Loan
		if f.opts.Tree != nil {
			loans = f.stepLocked(t) // the next of its walk
		} else {
			loans = f.gatherLocked(max(free, 1))
		}
		if len(loans) > 0 {
			f.wakeLocked()
			return loans, nil
		}
		if f.err != nil {
			return nil, f.err
		}
		now := f.clock.now()
		switch what, at := f.outlookLocked(now); what {
		case end:
			return nil, io.EOF
		case idle:
			f.waits.idle = f.waits.changes
			if f.opts.Idle != nil {
				f.mu.Unlock()
				f.opts.Idle()
				f.mu.Lock()
			}
		case sleep:
			f.waitLocked(ctx, now, at)
		}
	}
}

// lockMeasured takes the lock and notes the longest time that took.
func (f *Frontier) lockMeasured() {
	if f.mu.TryLock() {
		return
	}
	begin := time.Now()
	f.mu.Lock()
	f.waits.longest = max(f.waits.longest, time.Since(begin))
}

// TryTake is Take for a crawler that has work of its own: it lends what is ready and never
// waits. It returns false when the lock is busy, nothing is ready, or the store must be read
// first, as always in order tree, which Take does.
func (t *Taker) TryTake(free int) ([]*Loan, bool) {
	f := t.f
	if f.opts.Tree != nil || !f.mu.TryLock() {
		return nil, false
	}
	defer f.mu.Unlock()
	if f.err != nil || len(f.turns.needs) > 0 {
		return nil, false
	}
	now := f.clock.now()
	loans := f.lendReadyLocked(nil, now, f.wantLocked(now, max(free, 1)))
	f.wakeLocked()
	return loans, len(loans) > 0
}

// wantLocked returns the number of loans that a crawler may get.
func (f *Frontier) wantLocked(now int64, free int) int {
	if f.opts.Tree != nil {
		return free // no row goes out of order for the sake of others
	}
	ready := f.turns.count(now, f.opts.Share*f.opts.Crawlers)
	return free + ready/f.opts.Crawlers
}

// gatherLocked lends what is ready. It refills hosts until the free downloads are served or
// no host needs it, and one in any case, so that none waits for ever.
func (f *Frontier) gatherLocked(free int) []*Loan {
	var loans []*Loan
	want := f.wantLocked(f.clock.now(), free)
	for refilled := false; f.err == nil; refilled = true {
		now := f.clock.now()
		loans = f.lendReadyLocked(loans, now, want)
		if len(f.turns.needs) == 0 {
			if len(loans) < free && f.rotateLocked(now, len(loans) == 0) {
				continue
			}
			break
		}
		if refilled && len(loans) >= free {
			break
		}
		f.refillLocked(f.turns.needed())
	}
	f.shrinkLocked()
	return loans
}
