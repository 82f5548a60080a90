package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"urltree/internal/cluster"
	"urltree/internal/cluster/batch"
)

func (s *Store) publish(b cluster.Batch, limit int64) error {
	id := fmt.Sprintf("%s.%s.%d.%d", b.Sender, b.Boot, b.Number, b.Try)
	if at, ok := s.published[id]; ok && time.Since(at) < duplicate {
		return nil
	}
	if limit > 0 && s.bytes+int64(len(b.Body)) > limit {
		return cluster.ErrFull
	}
	b.Body, b.Schema = bytes.Clone(b.Body), cmp.Or(b.Schema, batch.Schema)
	s.seq++
	s.messages = append(s.messages, &message{seq: s.seq, batch: b})
	s.bytes += int64(len(b.Body))
	s.published[id] = time.Now()
	return nil
}

func name(by cluster.Subscriber) string { return fmt.Sprintf("%s_%d_%s", by.Node, by.Epoch, by.Boot) }

// subscribe makes a consumer, unless another one has one of the partitions.
func (s *Store) subscribe(by cluster.Subscriber, parts []int) (*consumer, error) {
	s.remove(name(by))
	for _, c := range s.consumers {
		for _, p := range parts {
			if slices.Contains(c.parts, p) {
				return nil, cluster.ErrOwned
			}
		}
	}
	s.seq++
	c := &consumer{by: by, serial: s.seq, parts: slices.Clone(parts)}
	s.consumers[name(by)] = c
	return c, nil
}

// remove removes a consumer: what it has not acknowledged is again for anybody.
func (s *Store) remove(name string) {
	delete(s.consumers, name)
	for _, m := range s.messages {
		if m.holder == name {
			m.holder = ""
		}
	}
}

// deliver hands over what a consumer may get now, and returns when it may get more.
func (s *Store) deliver(c *consumer, most int) (list []*message, next time.Time) {
	held := 0
	for _, m := range s.messages {
		if m.holder == name(c.by) {
			held++
		}
	}
	now := time.Now()
	for _, m := range s.messages {
		switch mine := m.holder != ""; {
		case !slices.Contains(c.parts, m.batch.Partition):
		case mine && now.Before(m.due):
			if next.IsZero() || m.due.Before(next) {
				next = m.due
			}
		case len(list) < most && (mine || held < mostHeld):
			if !mine {
				held++
			}
			m.holder, m.due = name(c.by), now.Add(ackWait)
			list = append(list, m)
		}
	}
	return list, next
}

// A subscription is the consumer of that name and serial number, if the store still has it.
type subscription struct {
	e      *Engine
	by     cluster.Subscriber
	serial uint64
}

func (s *subscription) consumerLocked() *consumer {
	if c := s.e.store.consumers[name(s.by)]; c != nil && c.serial == s.serial {
		return c
	}
	return nil
}

func (s *subscription) Next(ctx context.Context, most int) (list []cluster.Delivery, err error) {
	for len(list) == 0 && err == nil {
		fault := s.e.fault(s.by.Node, "Next")
		if err := sleep(ctx, fault.Delay); err != nil {
			return nil, err
		}
		var messages []*message
		fenced := false
		err = s.e.wait(ctx, func() (bool, time.Time) {
			if !s.e.reachableLocked(s.by.Node) {
				return false, time.Time{}
			}
			c := s.consumerLocked()
			if fenced = c == nil; fenced {
				return true, time.Time{}
			}
			var next time.Time
			messages, next = s.e.store.deliver(c, most)
			return len(messages) > 0, next
		})
		if fenced {
			return nil, cluster.ErrFenced
		}
		for _, m := range messages {
			d := &delivery{s: s, batch: m.batch, seq: m.seq}
			if !fault.Lose {
				list = append(list, d)
			}
			if fault.Repeat {
				list = append(list, d)
			}
		}
	}
	return list, err
}

func (s *subscription) Close() error {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	if s.consumerLocked() != nil && s.e.reachableLocked(s.by.Node) {
		s.e.store.remove(name(s.by))
		s.e.changedLocked()
	}
	return nil
}

type delivery struct {
	s     *subscription
	batch cluster.Batch
	seq   uint64
}

func (d *delivery) Batch() cluster.Batch { return d.batch }

// Ack acknowledges as JetStream does: by the name of the consumer and the number in the store, both
// of which may mean another message by now, after an old store came back.
func (d *delivery) Ack(ctx context.Context) error {
	d.answer(ctx, "Ack", func(s *Store, i int) {
		s.bytes -= int64(len(s.messages[i].batch.Body))
		s.messages = slices.Delete(s.messages, i, i+1)
	})
	return ctx.Err()
}

func (d *delivery) Nak(ctx context.Context, delay time.Duration) error {
	d.answer(ctx, "Nak", func(s *Store, i int) { s.messages[i].due = time.Now().Add(delay) })
	return ctx.Err()
}

// answer does what a node says of a message. It waits for no answer, so that it may be lost.
func (d *delivery) answer(ctx context.Context, method string, do func(s *Store, i int)) {
	by := d.s.by
	_ = d.s.e.call(ctx, by.Node, method, func(Fault) error {
		s := d.s.e.store
		i := slices.IndexFunc(s.messages, func(m *message) bool { return m.seq == d.seq && m.holder == name(by) })
		if i >= 0 {
			do(s, i)
			d.s.e.changedLocked()
		}
		return nil
	})
}
