package crawler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"urltree/internal/fetch"
)

const (
	proxyPause    = time.Minute      // the longest one between two tries of a request that a proxy has failed
	proxyTries    = 4                // of a request, where the proxy works for others
	loginTries    = 3                // of a request that gets 407 alone, where the proxy has worked before
	proxyPassword = 30 * time.Second // how long a proxy may ask for a password that it does not get
)

// errNotAsked says that a request did not go out: fetching has ended while the proxy failed.
var errNotAsked = errors.New("not asked: the proxy fails")

// A network asks. What a proxy fails is no answer of any host: it waits, with its place among the
// downloads, and is asked again, so that nothing becomes of a URL or a robots.txt by it.
type network struct {
	log      *slog.Logger
	ends     *ends
	client   *fetch.Client
	pause    *pause
	patience time.Duration // with a proxy that fails

	mu     sync.Mutex
	since  time.Time // guarded by mu: of the proxy's first failure in a row; zero: it works, or is not known to fail
	worked time.Time // guarded by mu: of the last request that it did not fail
}

// get asks for a URL, again and again while the proxy fails. A proxy that fails one request and not
// others is not at fault in the end: then the failure is one of connecting to the host.
func (n *network) get(ctx context.Context, url string, req fetch.Request) (*fetch.Response, error) {
	pause := time.Second
	for tries := 1; ; tries++ {
		start := time.Now()
		res, err := n.client.Get(ctx, url, req)
		failure, _ := errors.AsType[*fetch.Error](err)
		if failure == nil || failure.Reason != fetch.Proxy {
			if ctx.Err() == nil {
				n.proxyWorks()
			}
			return res, err
		}
		works, worked := n.proxyFails(failure, start)
		if worked && tries >= loginTries && errors.Is(failure, fetch.ErrProxyPassword) {
			return nil, failure // it may be the site that says so
		}
		if works && tries >= proxyTries {
			return nil, &fetch.Error{Reason: fetch.Connect, Passing: true, Err: failure.Err}
		}
		select {
		case <-time.After(pause):
		case <-n.ends.fetching.Done():
			return nil, errNotAsked
		}
		pause = min(2*pause, proxyPause)
	}
}

// proxyFailing reports whether the proxy has failed since it last worked.
func (n *network) proxyFailing() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.since.IsZero()
}

func (n *network) proxyWorks() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.worked = time.Now()
	if !n.since.IsZero() {
		n.log.Info("the proxy works again", "after", n.worked.Sub(n.since).Round(time.Second))
		n.since = time.Time{}
	}
}

// proxyFails takes note of a failure, tells of the first one in a row, and ends fetching after the
// last one. It reports whether the proxy has worked for others since the request began, and whether
// it ever has in this run.
func (n *network) proxyFails(failure *fetch.Error, start time.Time) (works, worked bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	worked = !n.worked.IsZero()
	if n.worked.After(start) {
		return true, worked
	}
	if n.since.IsZero() {
		n.since = start
		n.log.Warn("the proxy fails: nothing is asked until it works", "err", failure)
	}
	patience := n.patience
	if errors.Is(failure, fetch.ErrProxyPassword) {
		patience = min(patience, proxyPassword)
	}
	if time.Since(n.since) >= patience {
		n.ends.stop(fmt.Errorf("nothing reachable: %w", failure))
	}
	return false, worked
}
