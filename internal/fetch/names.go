package fetch

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	maxNames      = 10_000           // names that are remembered
	maxAddrs      = 16               // addresses of one name
	nameLife      = 5 * time.Minute  // of an answer
	failLife      = 30 * time.Second // of a failure
	lookupTimeout = 10 * time.Second
)

// names remembers what the resolver said, so that it is not asked for each connection. Answers live
// for the same time whatever the name server says: a crawl asks a host again and again and then no
// more.
//
// A lookup belongs to all who wait for it, so it goes on when one of them gives up.
type names struct {
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	family string          // "ip", "ip4" or "ip6": addresses of others are left out
	ctx    context.Context // of all lookups
	flight singleflight.Group

	mu    sync.Mutex
	known map[string]nameAnswer // guarded by mu; at most maxNames
}

// A nameAnswer has addresses or an error. Nobody changes either.
type nameAnswer struct {
	addrs   []netip.Addr
	private bool // one of them, or of those that are left out, is internal
	err     error
	until   time.Time
}

// newNames makes the memory of a client. stop ends lookups that are under way.
func newNames(opts Options) (n *names, stop context.CancelFunc) {
	n = &names{family: "ip", lookup: opts.Lookup, known: map[string]nameAnswer{}}
	switch {
	case opts.Network == "tcp4", opts.Network == "" && opts.Bind.Is4():
		n.family = "ip4"
	case opts.Network == "tcp6", opts.Network == "" && opts.Bind.Is6():
		n.family = "ip6"
	}
	if n.lookup == nil {
		n.lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return opts.Resolver.LookupNetIP(ctx, n.family, host)
		}
	}
	n.ctx, stop = context.WithCancel(context.Background())
	return n, stop
}

// addresses returns those of a name or literal, at least one, in the order in which they are to be
// tried. Waiting ends with ctx, whose cause is returned then; all else is an *Error for DNS.
// private says whether one of the addresses, usable or not, is internal.
func (n *names) addresses(ctx context.Context, host string) (addrs []netip.Addr, private bool, err error) {
	if a, err := netip.ParseAddr(host); err == nil {
		addrs, err := n.usable([]netip.Addr{a})
		return addrs, internal(a), err
	}
	a, ok := n.recall(host)
	if !ok {
		select {
		case r := <-n.flight.DoChan(host, func() (any, error) { return n.ask(host), nil }):
			a = r.Val.(nameAnswer)
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
	return a.addrs, a.private, a.err
}

func (n *names) recall(host string) (nameAnswer, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	a, ok := n.known[host]
	return a, ok && time.Now().Before(a.until)
}

// ask looks a name up and remembers the answer. One goroutine at a time does it for a name.
func (n *names) ask(host string) nameAnswer {
	if a, ok := n.recall(host); ok {
		return a // of a lookup that ended since the caller saw none
	}
	ctx, cancel := context.WithTimeout(n.ctx, lookupTimeout)
	defer cancel()
	var a nameAnswer
	life := nameLife
	addrs, err := n.lookup(ctx, host)
	if err == nil {
		a.addrs, a.err = n.usable(addrs)
		a.private = slices.ContainsFunc(addrs, internal)
	} else {
		dns, ok := errors.AsType[*net.DNSError](err)
		a.err = &Error{DNS, !ok || !dns.IsNotFound, err}
	}
	if a.err != nil {
		life = failLife
	}
	a.until = time.Now().Add(life)

	n.mu.Lock()
	defer n.mu.Unlock()
	if _, again := n.known[host]; !again && len(n.known) >= maxNames {
		for victim := range n.known { // any will do
			delete(n.known, victim)
			break
		}
	}
	n.known[host] = a
	return a
}

// usable returns the addresses of our family in their one spelling, each once.
func (n *names) usable(addrs []netip.Addr) ([]netip.Addr, error) {
	var usable []netip.Addr
	for _, a := range addrs {
		a = a.Unmap()
		if fits := n.family == "ip" || (n.family == "ip4") == a.Is4(); fits && len(usable) < maxAddrs && !slices.Contains(usable, a) {
			usable = append(usable, a)
		}
	}
	if usable == nil {
		return nil, &Error{DNS, false, errors.New("no address that can be used")}
	}
	return usable, nil
}
