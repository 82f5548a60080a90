package crawler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"urltree/internal/disk"
	"urltree/internal/fetch"
	"urltree/internal/frontier"
)

const (
	outageHosts = 3                // that cannot be reached, with no answer from any in between
	firstHosts  = 3                // that fail before any has answered are reported at once
	firstProbe  = time.Second      // from the beginning of an outage to the first probe
	mostProbe   = 15 * time.Second // between two probes
)

// errOutage ends fetching when an outage takes longer than -max-wait.
var errOutage = errors.New("no host can be reached")

// errAway says that a request did not get to its host while no host could be reached: it says
// nothing of host or URL.
type errAway struct{ reason string }

func (e errAway) Error() string { return e.reason + ": no host can be reached" }

// A pause is what keeps fetching from going on: the caller, a disk with little room, hosts that
// another process may be about to ask, or an outage, a time in which nothing that is asked can be
// reached: several hosts, one after the other, and none answers. In an outage one request at a time
// finds out whether it is over.
type pause struct {
	watch *disk.Watch
	log   *slog.Logger
	most  time.Duration // after which an outage ends the crawl
	over  func()        // ends it
	files bool          // Options.Fetch is asked, whose failures say nothing of hosts
	// leased reports whether the hosts are still those of this process; nil: they always are.
	leased func() bool
	held   atomic.Bool // the caller wants it so, see Crawler.Pause

	mu       sync.Mutex
	answered bool                // in this run; guarded by mu, as is all below
	failed   map[string]struct{} // hosts that could not be reached since the last answer
	told     map[string]struct{} // hosts that are reported, see firstHosts
	since    time.Time           // zero: there is none
	pause    time.Duration       // between the probes
	next     time.Time           // of the next probe
	probing  bool
	changed  chan struct{} // closed when it is over
}

func newPause(watch *disk.Watch, log *slog.Logger, most time.Duration, over func()) *pause {
	return &pause{watch: watch, log: log, most: most, over: over, failed: map[string]struct{}{}, told: map[string]struct{}{}, changed: make(chan struct{})}
}

// on reports whether fetching pauses.
func (p *pause) on() bool { return p.String() != "" }

// wait waits while fetching pauses, but not for room or the caller while left says that there is
// nothing to fetch, and in an outage until a probe is due. It is false when ctx ends first.
func (p *pause) wait(ctx context.Context, left func() bool) bool {
	for ctx.Err() == nil {
		var next time.Duration // look
		if room, lease, _ := p.reasons(); lease != "" || (room != "" || p.held.Load()) && left() {
			next = time.Second
		}
		p.mu.Lock()
		switch {
		case p.probing:
			next = firstProbe
		case !p.since.IsZero():
			next = max(next, time.Until(p.next))
		}
		changed := p.changed
		p.mu.Unlock()
		if next <= 0 {
			return true
		}
		select {
		case <-time.After(next):
		case <-changed:
		case <-ctx.Done():
		}
	}
	return false
}

// begin reports whether a request may be made now. It is followed by end.
func (p *pause) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.ours() || p.held.Load():
		return false
	case p.since.IsZero():
		return true
	case p.probing || time.Now().Before(p.next):
		return false
	}
	p.probing = true
	return true
}

// drop says that no request followed begin.
func (p *pause) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probing = false
}

// end takes note of what a request has come to; known says that its host has answered before. It
// returns err, or errAway in its place.
//
// A host that has never answered may well not be there. It is no sign of an outage unless nothing
// has answered in this run.
func (p *pause) end(host string, known bool, err error) error {
	var failure *fetch.Error
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probing = false
	if err == nil {
		p.answersLocked(host)
		return nil
	}
	p.tellLocked(host, known, err)
	switch {
	case !errors.As(err, &failure) || failure.Reason != fetch.DNS && failure.Reason != fetch.Connect:
		p.next = time.Now().Add(p.pause) // it tells neither
		return err
	case known || !p.answered:
		p.failed[host] = struct{}{}
	}
	if p.since.IsZero() {
		if len(p.failed) < outageHosts {
			return err
		}
		p.since, p.pause = time.Now(), firstProbe
		p.log.Warn("fetching pauses: no host can be reached; one is asked now and then", "hosts", len(p.failed), "last", host, "why", failure.Reason)
	} else {
		p.pause = min(2*p.pause, mostProbe)
	}
	p.next = time.Now().Add(p.pause)
	if time.Since(p.since) >= p.most {
		p.over()
	}
	if !known && !p.answered {
		return err // it counts, for the host may be the reason
	}
	return errAway{failure.Reason}
}

// tellLocked reports that a host cannot be asked, if nothing has answered yet: whoever mistyped its
// name should not have to wait until the crawl gives it up.
func (p *pause) tellLocked(host string, known bool, err error) {
	_, told := p.told[host]
	if told || p.answered || p.files || len(p.told) == firstHosts || errors.Is(err, context.Canceled) {
		return
	}
	if _, fault := failureOf(err, known); fault == frontier.NoFault {
		return
	}
	p.told[host] = struct{}{}
	p.log.Warn("no answer; the host is asked a few times more, less and less often", "host", host, "err", err)
}

// answersLocked takes note of an answer.
func (p *pause) answersLocked(host string) {
	p.answered = true
	clear(p.failed)
	if p.since.IsZero() {
		return
	}
	p.log.Warn("fetching goes on: a host can be reached again", "host", host, "after", time.Since(p.since).Round(time.Second))
	p.since = time.Time{}
	close(p.changed)
	p.changed = make(chan struct{})
}

// String returns why fetching pauses, "" if it does not.
func (p *pause) String() string {
	if p.held.Load() {
		return "paused"
	}
	return cmp.Or(p.reasons())
}

func (p *pause) ours() bool { return p.leased == nil || p.leased() }

// reasons returns what there is too little of on the disk, that the lease of the hosts is not
// renewed, and how long no host can be reached; "" of what does not keep fetching from going on.
func (p *pause) reasons() (room, lease, outage string) {
	if !p.ours() {
		lease = "the engine of the cluster cannot be reached"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.since.IsZero() {
		outage = fmt.Sprintf("no host can be reached since %s", time.Since(p.since).Round(time.Second))
	}
	return p.watch.TooLittle(), lease, outage
}
