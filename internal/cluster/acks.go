package cluster

import (
	"context"
	"sync"
	"time"
)

// Acks are given for batches whose links are durable: to the engine, which forgets them, then to
// their senders. What is not given is asked for again, by another delivery.
type acks struct {
	bus Bus

	mu    sync.Mutex
	list  []ack         // guarded by mu
	there chan struct{} // has a value while list may not be empty
}

type ack struct {
	of      Delivery
	refused bool // the batch was not taken: it is for another node
}

func newAcks(bus Bus) *acks { return &acks{bus: bus, there: make(chan struct{}, 1)} }

// add never waits.
func (a *acks) add(of Delivery, refused bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = append(a.list, ack{of, refused})
	select {
	case a.there <- struct{}{}:
	default:
	}
}

// run sends acks until ctx ends.
func (a *acks) run(ctx context.Context) {
	for {
		select {
		case <-a.there:
		case <-ctx.Done():
			return
		}
		a.mu.Lock()
		list := a.list
		a.list = nil
		a.mu.Unlock()
		a.give(ctx, list)
	}
}

func (a *acks) give(ctx context.Context, list []ack) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	bySender := map[string][]uint64{}
	for _, l := range list {
		if l.refused {
			_ = l.of.Nak(ctx, notOurs)
			continue
		}
		// The sender hears of it also where this fails: it is durable, and a repeat does no harm.
		_ = l.of.Ack(ctx)
		b := l.of.Batch()
		bySender[b.Sender] = append(bySender[b.Sender], b.Number)
	}
	for sender, batches := range bySender {
		_ = a.bus.Confirm(ctx, sender, batches)
	}
}
