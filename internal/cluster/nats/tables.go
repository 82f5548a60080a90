package nats

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"urltree/internal/cluster"
)

// table calls f with a table, which is made if it is missing.
func (b *bus) table(ctx context.Context, t cluster.Table, f func(context.Context, jetstream.KeyValue) error) error {
	return b.do(ctx, func(ctx context.Context) error {
		kv, err := b.js.KeyValue(ctx, b.bucket(t))
		if err != nil {
			return err
		}
		return f(ctx, kv)
	})
}

func (b *bus) Get(ctx context.Context, t cluster.Table, key string) (e cluster.Entry, err error) {
	err = b.table(ctx, t, func(ctx context.Context, kv jetstream.KeyValue) error {
		found, err := kv.Get(ctx, key)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return cluster.ErrNoKey
		}
		if err == nil {
			e = cluster.Entry{Key: key, Value: found.Value(), Revision: found.Revision()}
		}
		return err
	})
	return e, err
}

func (b *bus) Put(ctx context.Context, t cluster.Table, e cluster.Entry) (revision uint64, err error) {
	err = b.table(ctx, t, func(ctx context.Context, kv jetstream.KeyValue) error {
		if e.Revision == 0 {
			revision, err = kv.Create(ctx, e.Key, e.Value)
		} else {
			revision, err = kv.Update(ctx, e.Key, e.Value, e.Revision)
		}
		return err
	})
	return revision, lost(err)
}

func (b *bus) Delete(ctx context.Context, t cluster.Table, key string, revision uint64) error {
	return lost(b.table(ctx, t, func(ctx context.Context, kv jetstream.KeyValue) error {
		return kv.Delete(ctx, key, jetstream.LastRevision(revision))
	}))
}

// lost makes the error of a write that was not the first cluster.ErrRevision.
func lost(err error) error {
	if errors.Is(err, jetstream.ErrKeyExists) || errors.Is(err, jetstream.ErrKeyRevisionMismatch) ||
		hasCode(err, jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant) {
		return fmt.Errorf("%w: %w", cluster.ErrRevision, err)
	}
	return err
}

func (b *bus) List(ctx context.Context, t cluster.Table) (list []cluster.Entry, err error) {
	err = b.table(ctx, t, func(ctx context.Context, kv jetstream.KeyValue) error {
		w, err := kv.WatchAll(ctx, jetstream.IgnoreDeletes())
		if err != nil {
			return err
		}
		defer func() { _ = w.Stop() }()
		list = nil
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case e, ok := <-w.Updates():
				if !ok {
					return nats.ErrConnectionClosed
				}
				if e == nil {
					return nil
				}
				list = append(list, entry(e))
			}
		}
	})
	slices.SortFunc(list, func(a, b cluster.Entry) int { return cmp.Compare(a.Key, b.Key) })
	return list, err
}

// entry makes an entry of what a watcher has seen, which may be the end of a key.
func entry(e jetstream.KeyValueEntry) cluster.Entry {
	if e.Operation() != jetstream.KeyValuePut {
		return cluster.Entry{Key: e.Key()}
	}
	return cluster.Entry{Key: e.Key(), Value: e.Value(), Revision: e.Revision()}
}

// Watch begins anew after each reconnection, and when the table was made again: the server may have
// another store than before, of which a watcher that goes on knows nothing.
func (b *bus) Watch(ctx context.Context, t cluster.Table, fn func(cluster.Entry)) error {
	again, stop := b.listen()
	defer stop()
	known := map[string]uint64{}
	for {
		err := b.watch(ctx, t, again, known, fn)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			continue
		}
		// The server cannot be reached, or makes the table just now.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again:
		case <-time.After(time.Second):
		}
	}
}

// watch is Watch until it has to begin anew. known has the revisions that fn has seen.
func (b *bus) watch(ctx context.Context, t cluster.Table, again chan struct{}, known map[string]uint64, fn func(cluster.Entry)) error {
	b.mu.Lock()
	made := b.watching
	b.mu.Unlock()
	var w jetstream.KeyWatcher
	err := b.table(ctx, t, func(_ context.Context, kv jetstream.KeyValue) (err error) {
		w, err = kv.WatchAll(ctx)
		return err
	})
	if err != nil {
		return err
	}
	defer func() { _ = w.Stop() }()
	tell := func(e cluster.Entry) {
		if known[e.Key] != e.Revision {
			known[e.Key] = e.Revision
			if e.Revision == 0 {
				delete(known, e.Key)
			}
			fn(e)
		}
	}
	gone := map[string]bool{}
	for key := range known {
		gone[key] = true
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again:
			return nil
		case <-made:
			return nil
		case e, ok := <-w.Updates():
			switch {
			case !ok:
				return nats.ErrConnectionClosed
			case e != nil:
				delete(gone, e.Key())
				tell(entry(e))
			default: // these were all that there are
				for key := range gone {
					tell(cluster.Entry{Key: key})
				}
			}
		}
	}
}

func (b *bus) ackSubject(node string) string   { return "cr." + b.cfg.Crawl + ".ack." + node }
func (b *bus) probeSubject(node string) string { return "cr." + b.cfg.Crawl + ".probe." + node }

func (b *bus) Confirm(_ context.Context, sender string, batches []uint64) error {
	body := make([]byte, 0, 8*len(batches))
	for _, n := range batches {
		body = binary.BigEndian.AppendUint64(body, n)
	}
	return b.nc.Publish(b.ackSubject(sender), body)
}

func (b *bus) Confirmed(ctx context.Context, node string, fn func([]uint64)) error {
	s, err := b.nc.SubscribeSync(b.ackSubject(node))
	if err != nil {
		return err
	}
	defer func() { _ = s.Unsubscribe() }()
	for {
		m, err := s.NextMsgWithContext(ctx)
		if errors.Is(err, nats.ErrSlowConsumer) {
			continue // some are lost, and will be published again
		}
		if err != nil {
			return err
		}
		var list []uint64
		for body := m.Data; len(body) >= 8; body = body[8:] {
			list = append(list, binary.BigEndian.Uint64(body))
		}
		fn(list)
	}
}

func (b *bus) Probe(ctx context.Context, node string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	m, err := b.nc.RequestWithContext(ctx, b.probeSubject(node), nil)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", node, err)
	}
	return m.Data, nil
}

func (b *bus) Answer(ctx context.Context, node string, fn func() []byte) error {
	s, err := b.nc.SubscribeSync(b.probeSubject(node))
	if err != nil {
		return err
	}
	defer func() { _ = s.Unsubscribe() }()
	for {
		m, err := s.NextMsgWithContext(ctx)
		if errors.Is(err, nats.ErrSlowConsumer) {
			continue
		}
		if err != nil {
			return err
		}
		if err := m.Respond(fn()); err != nil && ctx.Err() == nil {
			continue // whoever asked asks again
		}
	}
}
