package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// leaseOf returns the key of a node's lease.
func leaseOf(node string) string { return "node." + node }

// A lease is a key of Leases that this process has and renews. The engine removes it a TTL after it
// was last renewed, whatever becomes of the process; the process counts it as gone before that, by
// the time before the call that renewed it, on its own monotonic clock.
type lease struct {
	key, who string // who of its value, which begins so, says which process has it

	mu       sync.Mutex
	value    string    // guarded by mu, as is all below
	revision uint64    // 0: not held
	renewed  time.Time // before the call that did it last
}

func (l *lease) fresh(within time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.revision != 0 && time.Since(l.renewed) < within
}

func (l *lease) set(revision uint64, renewed time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.revision, l.renewed = revision, renewed
}

func (l *lease) held() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.revision
}

// become changes the value, from the next renewal on.
func (l *lease) become(value string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.value = value
}

// entry returns the key as it is to be written next.
func (l *lease) entry() Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Entry{Key: l.key, Value: []byte(l.value), Revision: l.revision}
}

// renew writes the key, as its holder or as the first. It returns the process that has it then, ""
// if none has; if that is another one, the lease is not held.
func (l *lease) renew(ctx context.Context, bus Bus) (holder string, err error) {
	before := time.Now()
	revision, err := bus.Put(ctx, Leases, l.entry())
	if err == nil {
		l.set(revision, before)
		return l.who, nil
	}
	if !errors.Is(err, ErrRevision) {
		return "", err
	}
	e, err := bus.Get(ctx, Leases, l.key)
	switch {
	case errors.Is(err, ErrNoKey):
		l.set(0, time.Time{}) // it has expired, or is to be seen soon
		return "", nil
	case err != nil:
		return "", err
	case strings.HasPrefix(string(e.Value), l.who+"."):
		// A write whose answer was lost. It renews nothing: the next one does.
		l.mu.Lock()
		l.revision = e.Revision
		l.mu.Unlock()
		return l.who, nil
	}
	l.set(0, time.Time{})
	holder, _, _ = strings.Cut(string(e.Value), ".")
	return holder, nil
}

// release removes the key, if it is held.
func (l *lease) release(ctx context.Context, bus Bus) {
	if revision := l.held(); revision != 0 {
		l.set(0, time.Time{})
		_ = bus.Delete(ctx, Leases, l.key, revision) // else it expires
	}
}

// enter takes the lease of the node's name, and goes on renewing it. A lease that an earlier
// process has left expires; if it is renewed meanwhile, that process is not gone.
func (n *Node) enter(ctx context.Context) error {
	n.lease.key, n.lease.who = leaseOf(n.opts.Name), n.opts.Boot
	n.leader.key, n.leader.who = "leader", n.opts.Name+"/"+n.opts.Boot
	n.leader.become(n.leader.who + ".")
	n.lapse() // of a life that it has not had yet
	var seen Entry
	var since time.Time
	err := n.persist(ctx, func() (done bool, err error) {
		holder, err := n.lease.renew(ctx, n.opts.Bus)
		switch {
		case err != nil || holder == "":
			return false, err
		case holder == n.opts.Boot:
			return true, nil
		}
		e, err := n.opts.Bus.Get(ctx, Leases, n.lease.key)
		switch {
		case err != nil:
			return false, err
		case string(e.Value) != string(seen.Value) || since.IsZero():
			n.opts.Log.Info("waiting until the lease of the process that had this name is over", "node", n.opts.Name)
			seen, since = e, time.Now()
		case e.Revision > seen.Revision && time.Since(since) > n.opts.TTL:
			return true, fmt.Errorf("%w: another process is node %s", ErrOther, n.opts.Name)
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	n.stopRenewing = stop
	n.renewing.Go(func() error { n.renewLeases(renewing); return nil })
	return nil
}

// renewLeases renews the lease of the node, and gets or renews that of the leader, until ctx ends.
// Where the lease is gone, the engine may have lost all else too.
func (n *Node) renewLeases(ctx context.Context) {
	every := n.opts.TTL / 6
	gone := false
	for {
		call, cancel := context.WithTimeout(ctx, every)
		holder, err := n.lease.renew(call, n.opts.Bus)
		if err == nil && holder != "" && holder != n.opts.Boot {
			n.fail(fmt.Errorf("%w: another process has become node %s", ErrOther, n.opts.Name))
		}
		_, _ = n.leader.renew(call, n.opts.Bus) // what is not renewed is not held
		if err == nil && holder == "" {
			n.lapse()
		}
		gone = gone || err == nil && holder == ""
		gone = gone && !n.restore(call)
		cancel()
		wait := every
		if err == nil && holder == "" {
			wait = askAgain // it had expired
		}
		if !pause(ctx, wait) {
			return
		}
	}
}

// leads reports whether this node is the leader.
func (n *Node) leads() bool { return n.leader.fresh(n.opts.TTL * 2 / 3) }
