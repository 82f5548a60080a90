package crawler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

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

// An outage is a time in which nothing that is asked can be reached: several hosts, one after the
// other, and none answers. Fetching pauses meanwhile, and one request at a time finds out whether
// it is over.
type outage struct {
	log   *slog.Logger
	most  time.Duration // after which the crawl ends
	over  func()        // ends it
	files bool          // Options.Fetch is asked, whose failures say nothing of hosts

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

func newOutage(log *slog.Logger, most time.Duration, over func()) *outage {
	return &outage{log: log, most: most, over: over, failed: map[string]struct{}{}, told: map[string]struct{}{}, changed: make(chan struct{})}
}

// out reports whether fetching pauses.
func (o *outage) out() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.since.IsZero()
}

// wait waits while fetching pauses, until a probe is due. It is false when ctx ends first.
func (o *outage) wait(ctx context.Context) bool {
	for ctx.Err() == nil {
		o.mu.Lock()
		left, changed := time.Until(o.next), o.changed
		if o.since.IsZero() || !o.probing && left <= 0 {
			o.mu.Unlock()
			return true
		}
		if o.probing {
			left = firstProbe
		}
		o.mu.Unlock()
		timer := time.NewTimer(max(left, time.Millisecond))
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return false
}

// begin reports whether a request may be made now. It is followed by end.
func (o *outage) begin() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.since.IsZero():
		return true
	case o.probing || time.Now().Before(o.next):
		return false
	}
	o.probing = true
	return true
}

// drop says that no request followed begin.
func (o *outage) drop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.probing = false
}

// end takes note of what a request has come to; known says that its host has answered before. It
// returns err, or errAway in its place.
//
// A host that has never answered may well not be there. It is no sign of an outage unless nothing
// has answered in this run.
func (o *outage) end(host string, known bool, err error) error {
	var failure *fetch.Error
	o.mu.Lock()
	defer o.mu.Unlock()
	o.probing = false
	if err == nil {
		o.answersLocked(host)
		return nil
	}
	o.tellLocked(host, known, err)
	switch {
	case !errors.As(err, &failure) || failure.Reason != fetch.DNS && failure.Reason != fetch.Connect:
		o.next = time.Now().Add(o.pause) // it tells neither
		return err
	case known || !o.answered:
		o.failed[host] = struct{}{}
	}
	if o.since.IsZero() {
		if len(o.failed) < outageHosts {
			return err
		}
		o.since, o.pause = time.Now(), firstProbe
		o.log.Warn("fetching pauses: no host can be reached; one is asked now and then", "hosts", len(o.failed), "last", host, "why", failure.Reason)
	} else {
		o.pause = min(2*o.pause, mostProbe)
	}
	o.next = time.Now().Add(o.pause)
	if time.Since(o.since) >= o.most {
		o.over()
	}
	if !known && !o.answered {
		return err // it counts, for the host may be the reason
	}
	return errAway{failure.Reason}
}

// tellLocked reports that a host cannot be asked, if nothing has answered yet: whoever mistyped its
// name should not have to wait until the crawl gives it up.
func (o *outage) tellLocked(host string, known bool, err error) {
	_, told := o.told[host]
	if told || o.answered || o.files || len(o.told) == firstHosts || errors.Is(err, context.Canceled) {
		return
	}
	if _, fault := failureOf(err, known); fault == frontier.NoFault {
		return
	}
	o.told[host] = struct{}{}
	o.log.Warn("no answer; the host is asked a few times more, less and less often", "host", host, "err", err)
}

// answersLocked takes note of an answer.
func (o *outage) answersLocked(host string) {
	o.answered = true
	clear(o.failed)
	if o.since.IsZero() {
		return
	}
	o.log.Warn("fetching goes on: a host can be reached again", "host", host, "after", time.Since(o.since).Round(time.Second))
	o.since = time.Time{}
	close(o.changed)
	o.changed = make(chan struct{})
}

// String returns a sentence about an outage, "" if there is none.
func (o *outage) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() {
		return ""
	}
	return fmt.Sprintf("no host can be reached since %s", time.Since(o.since).Round(time.Second))
}
