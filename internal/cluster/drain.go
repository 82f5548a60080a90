package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// ErrNoDrain says that a node cannot be drained, and why.
var ErrNoDrain = errors.New("cannot be drained")

// Drain asks the leader of a crawl to give all that a node has to others, and waits until the node
// has left. If ctx ends before, the node goes on to leave. The error is ErrUndivided, ErrNoDrain or
// ErrEnded, that of ctx, or one of the engine.
func Drain(ctx context.Context, bus Bus, node string) error {
	a, err := dividedBy(ctx, bus)
	if err != nil {
		return err
	}
	if a.Epoch == 0 {
		return ErrUndivided
	}
	if err := drainable(ctx, bus, &a, node); err != nil {
		return err
	}
	for {
		_, err := bus.Put(ctx, Control, Entry{Key: drainKey(node)}) // again, since the engine may lose it
		if errors.Is(err, ErrRevision) {
			err = nil
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		if !pause(ctx, time.Second) {
			return context.Cause(ctx)
		}
		a, err := dividedBy(ctx, bus)
		switch {
		case err != nil && ctx.Err() == nil:
			return err
		case err == nil && a.Epoch > 0 && a.Members[node] == "":
			return nil
		}
		e, err := bus.Get(ctx, Control, "state")
		if err == nil && strings.HasPrefix(string(e.Value), finishedState) {
			return ErrEnded
		}
	}
}

// drainable returns why a node cannot be drained.
func drainable(ctx context.Context, bus Bus, a *Assign, node string) error {
	here, err := leased(ctx, bus)
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(slices.Clone(here), func(n string) bool { return n == node || a.Members[n] == "" })
	s, answers := probe(ctx, bus, node)
	switch {
	case a.Members[node] == "":
		return fmt.Errorf("node %s %w: the nodes of the crawl are %s", node, ErrNoDrain, strings.Join(slices.Sorted(maps.Keys(a.Members)), ", "))
	case len(others) == 0:
		return fmt.Errorf("node %s %w: no other one is here to have its hosts", node, ErrNoDrain)
	case !answers:
		return fmt.Errorf("node %s %w: it does not answer; start it again, with its tree", node, ErrNoDrain)
	case s.Hosts:
		return fmt.Errorf("node %s %w: the engine is in its process", node, ErrNoDrain)
	case s.Frozen:
		return fmt.Errorf("node %s %w: in supersteps no node comes or goes", node, ErrNoDrain)
	}
	return nil
}
