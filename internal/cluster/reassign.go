package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// goneKey returns the key in Control that says that a node is gone for good.
func goneKey(node string) string { return "gone." + node }

// lose takes a node out that is gone for good. What it had, and what was on its way to or from it,
// is lost, and goes to the nodes that have least.
func (a *Assign) lose(node string, v *view) {
	if _, member := a.Members[node]; !member {
		return
	}
	load := map[string]int{}
	for other, life := range a.Members {
		if other != node && v.lives[other] == life && !v.drains[other] {
			load[other] = len(a.of(other))
		}
	}
	if len(load) == 0 {
		return // nobody can take it
	}
	if a.Gone == nil {
		a.Gone, a.Lost = map[string]uint64{}, map[int]uint64{}
	}
	delete(a.Members, node)
	a.Gone[node] = a.Epoch
	for p := range a.Owner {
		switch {
		case a.Owner[p] == node:
			to := least(load)
			load[to]++
			if a.Owner[p], a.Moved[p], a.Lost[p] = to, a.Epoch, a.Epoch; a.From[p] == to {
				a.From[p] = "" // it has begun to hand it over
			}
		case a.From[p] == node:
			a.From[p], a.Lost[p] = "", a.Epoch
		}
	}
}

// least returns the first node that has least.
func least(load map[string]int) (node string) {
	for other, n := range load {
		if node == "" || n < load[node] || n == load[node] && other < node {
			node = other
		}
	}
	return node
}

// goneNow returns the nodes that are gone for good, of those that somebody says it of: one that had
// a lease less than TTL ago may still be asking something. What is said of one that is back is
// over.
func (n *Node) goneNow(ctx context.Context, said map[string]bool, lives map[string]string) (map[string]bool, error) {
	gone := map[string]bool{}
	for node := range said {
		if _, here := lives[node]; here {
			e, err := n.opts.Bus.Get(ctx, Control, goneKey(node))
			if err == nil {
				err = n.opts.Bus.Delete(ctx, Control, e.Key, e.Revision)
			}
			if err != nil {
				return nil, err
			}
			continue
		}
		n.mu.Lock()
		last, known := n.heard.last[node]
		n.mu.Unlock()
		if known && time.Since(last) >= n.opts.TTL {
			gone[node] = true
		}
	}
	return gone, nil
}

// lost returns the partitions of which something is lost that this node has not read its pages
// again for.
func (k *kept) lost() (parts []int) {
	for p, epoch := range k.Assign.Lost {
		if epoch > k.Read {
			parts = append(parts, p)
		}
	}
	return parts
}

// readAgain reads the pages again whenever what another node knew is lost, until ctx ends. That it
// was done is kept behind all that it came to: a node that is killed before does it again.
func (n *Node) readAgain(ctx context.Context) error {
	for ctx.Err() == nil {
		n.mu.Lock()
		changed, epoch, parts, mail := n.changed, n.kept.Assign.Epoch, n.kept.lost(), n.mail
		n.mu.Unlock()
		if len(parts) == 0 {
			select {
			case <-changed:
			case <-time.After(askAgain):
			case <-ctx.Done():
			}
			continue
		}
		err := mail.ReadAgain(ctx, func(host string) bool { return slices.Contains(parts, int(Partition(host, Partitions))) })
		if err == nil {
			err = n.alter(func(k *kept) { k.Read = epoch })
		}
		if err != nil {
			return n.unless(ctx, err)
		}
	}
	return nil
}

var (
	// ErrNoNode says that there is no such node.
	ErrNoNode = errors.New("no such node")
	// ErrFrozen says that the crawl goes in supersteps.
	ErrFrozen = errors.New("in supersteps no node comes or goes")
	// ErrHere says that a node is there.
	ErrHere = errors.New("the node is there")
)

// GiveUp says that a node is gone for good, and waits until others have its hosts. It returns how
// many partitions were lost.
func GiveUp(ctx context.Context, bus Bus, node string) (parts int, err error) {
	for asked := false; ; {
		a, err := dividedBy(ctx, bus)
		if err != nil {
			return 0, err
		}
		if epoch := a.Gone[node]; epoch > 0 {
			for _, lost := range a.Lost {
				if lost == epoch {
					parts++
				}
			}
			return parts, nil
		}
		if !asked {
			if err := mayGiveUp(ctx, bus, &a, node); err != nil {
				return 0, err
			}
			_, err := bus.Put(ctx, Control, Entry{Key: goneKey(node), Value: []byte(runningState)})
			if err != nil && !errors.Is(err, ErrRevision) { // or it was said before
				return 0, err
			}
			asked = true
		}
		if !pause(ctx, askAgain) {
			return 0, fmt.Errorf("no node has done it yet: %w", context.Cause(ctx))
		}
	}
}

// mayGiveUp returns why a node cannot be given up.
func mayGiveUp(ctx context.Context, bus Bus, a *Assign, node string) error {
	here, err := leased(ctx, bus)
	switch {
	case err != nil:
		return err
	case slices.Contains(here, node):
		return ErrHere
	}
	if _, member := a.Members[node]; !member {
		return ErrNoNode
	}
	for _, other := range here {
		if s, _ := probe(ctx, bus, other); s.Frozen {
			return ErrFrozen
		}
	}
	return running(ctx, bus)
}
