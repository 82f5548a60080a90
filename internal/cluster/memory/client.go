package memory

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"urltree/internal/cluster"
)

// A client is the engine as one node uses it.
type client struct {
	e    *Engine
	node string
}

var _ cluster.Bus = (*client)(nil)

func (c *client) Publish(ctx context.Context, b cluster.Batch) error {
	return c.e.call(ctx, c.node, "Publish", func(Fault) error {
		defer c.e.changedLocked()
		return c.e.store.publish(b, c.e.cfg.MaxBytes)
	})
}

func (c *client) Subscribe(ctx context.Context, by cluster.Subscriber, parts []int) (cluster.Subscription, error) {
	s := &subscription{e: c.e, by: by}
	err := c.e.call(ctx, c.node, "Subscribe", func(Fault) error {
		defer c.e.changedLocked()
		made, err := c.e.store.subscribe(by, parts)
		if err == nil {
			s.serial = made.serial
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (c *client) Fence(ctx context.Context, node string, before uint64) error {
	return c.e.call(ctx, c.node, "Fence", func(Fault) error {
		defer c.e.changedLocked()
		for name, of := range c.e.store.consumers {
			if of.by.Node == node && of.by.Epoch < before {
				c.e.store.remove(name)
			}
		}
		return nil
	})
}

// A confirmation is one goroutine that listens.
type confirmation struct{ queue [][]uint64 }

// Confirm sends to who listens now, and returns nil even if nobody does.
func (c *client) Confirm(ctx context.Context, sender string, batches []uint64) error {
	times := 1
	_ = c.e.call(ctx, c.node, "Confirm", func(fault Fault) error {
		if fault.Repeat {
			times = 2
		}
		if !c.e.reachableLocked(sender) {
			return nil
		}
		for _, to := range c.e.confirms[sender] {
			for range times {
				to.queue = append(to.queue, slices.Clone(batches))
			}
		}
		c.e.changedLocked()
		return nil
	})
	return ctx.Err()
}

func (c *client) Confirmed(ctx context.Context, node string, fn func([]uint64)) error {
	own := new(confirmation)
	c.e.mu.Lock()
	c.e.confirms[node] = append(c.e.confirms[node], own)
	c.e.mu.Unlock()
	defer func() {
		c.e.mu.Lock()
		defer c.e.mu.Unlock()
		c.e.confirms[node] = slices.DeleteFunc(c.e.confirms[node], func(o *confirmation) bool { return o == own })
	}()
	for {
		var queue [][]uint64
		err := c.e.wait(ctx, func() (bool, time.Time) {
			queue, own.queue = own.queue, nil
			return len(queue) > 0, time.Time{}
		})
		if err != nil {
			return err
		}
		for _, batches := range queue {
			fn(batches)
		}
	}
}

func (c *client) Get(ctx context.Context, t cluster.Table, key string) (found cluster.Entry, err error) {
	err = c.e.call(ctx, c.node, "Get", func(fault Fault) error {
		for _, e := range c.e.store.entries(t, fault.Stale) {
			if e.Key == key {
				found = e
				return nil
			}
		}
		return cluster.ErrNoKey
	})
	return found, err
}

func (c *client) Put(ctx context.Context, t cluster.Table, e cluster.Entry) (revision uint64, err error) {
	err = c.e.call(ctx, c.node, "Put", func(Fault) error {
		revision, err = c.e.store.put(t, e, c.e.cfg.TTL)
		c.e.changedLocked()
		return err
	})
	if err != nil {
		revision = 0
	}
	return revision, err
}

func (c *client) Delete(ctx context.Context, t cluster.Table, key string, revision uint64) error {
	return c.e.call(ctx, c.node, "Delete", func(Fault) error {
		live, _ := c.e.store.table(t)
		if e := live[key]; e == nil || e.now.Revision != revision {
			return cluster.ErrRevision
		}
		delete(live, key)
		c.e.changedLocked()
		return nil
	})
}

func (c *client) List(ctx context.Context, t cluster.Table) (list []cluster.Entry, err error) {
	err = c.e.call(ctx, c.node, "List", func(fault Fault) error {
		list = c.e.store.entries(t, fault.Stale)
		return nil
	})
	return list, err
}

func (c *client) Watch(ctx context.Context, t cluster.Table, fn func(cluster.Entry)) error {
	known := map[string]uint64{}
	for {
		var news []cluster.Entry
		err := c.e.wait(ctx, func() (bool, time.Time) {
			if !c.e.reachableLocked(c.node) {
				return false, time.Time{}
			}
			live, next := c.e.store.table(t)
			for key := range known {
				if live[key] == nil {
					news = append(news, cluster.Entry{Key: key})
				}
			}
			for key, e := range live {
				if known[key] != e.now.Revision {
					news = append(news, cluster.Entry{Key: key, Value: bytes.Clone(e.now.Value), Revision: e.now.Revision})
				}
			}
			return len(news) > 0, next
		})
		if err != nil {
			return err
		}
		slices.SortFunc(news, func(a, b cluster.Entry) int { return cmp.Compare(a.Revision, b.Revision) }) // as they were written
		for _, e := range news {
			known[e.Key] = e.Revision
			if e.Revision == 0 {
				delete(known, e.Key)
			}
			fn(e)
		}
	}
}

func (c *client) Probe(ctx context.Context, node string) (answer []byte, err error) {
	var ask func() []byte
	err = c.e.call(ctx, c.node, "Probe", func(Fault) error {
		ask = c.e.answers[node]
		if ask == nil || !c.e.reachableLocked(node) {
			return errDown
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return bytes.Clone(ask()), nil
}

func (c *client) Answer(ctx context.Context, node string, fn func() []byte) error {
	c.e.mu.Lock()
	c.e.answers[node] = fn
	c.e.mu.Unlock()
	<-ctx.Done()
	c.e.mu.Lock()
	delete(c.e.answers, node)
	c.e.mu.Unlock()
	return ctx.Err()
}

func (c *client) Reconnected(ctx context.Context, fn func()) {
	c.e.mu.Lock()
	before := c.e.connectionsLocked(c.node)
	c.e.mu.Unlock()
	for {
		err := c.e.wait(ctx, func() (bool, time.Time) {
			now := c.e.connectionsLocked(c.node)
			back := c.e.reachableLocked(c.node) && now != before
			if back {
				before = now
			}
			return back, time.Time{}
		})
		if err != nil {
			return
		}
		fn()
	}
}

func (c *client) Close() error { return nil }
