package nats_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"urltree/internal/cluster"
	"urltree/internal/cluster/batch"
)

// send makes and publishes a batch with one URL.
func send(t *testing.T, b cluster.Bus, part int, number uint64, try int) cluster.Batch {
	t.Helper()
	body, _, err := batch.Pack([]batch.Record{{URL: fmt.Sprintf("http://p%d/%d", part, number)}}, batch.Plain)
	if err != nil {
		t.Fatal(err)
	}
	it := cluster.Batch{Sender: "sender-1", Number: number, Boot: "b7", Try: try, Partition: part, Body: body}
	if err := b.Publish(within(t), it); err != nil {
		t.Fatalf("publish %d: %v", number, err)
	}
	return it
}

func subscribe(t *testing.T, b cluster.Bus, node string, epoch uint64, parts ...int) cluster.Subscription {
	t.Helper()
	s, err := b.Subscribe(within(t), cluster.Subscriber{Node: node, Boot: "x", Epoch: epoch}, parts)
	if err != nil {
		t.Fatalf("subscribe %s: %v", node, err)
	}
	return s
}

// receive takes so many deliveries.
func receive(t *testing.T, s cluster.Subscription, n int) []cluster.Delivery {
	t.Helper()
	var list []cluster.Delivery
	for len(list) < n {
		more, err := s.Next(within(t), n-len(list))
		if err != nil {
			t.Fatalf("after %d of %d: %v", len(list), n, err)
		}
		list = append(list, more...)
	}
	slices.SortFunc(list, func(a, b cluster.Delivery) int { return int(a.Batch().Number) - int(b.Batch().Number) })
	return list
}

func numbers(list []cluster.Delivery) (numbers []uint64) {
	for _, d := range list {
		numbers = append(numbers, d.Batch().Number)
	}
	return numbers
}

func acknowledge(t *testing.T, list []cluster.Delivery) {
	t.Helper()
	for _, d := range list {
		if err := d.Ack(within(t)); err != nil {
			t.Fatal(err)
		}
	}
}

// requireNothingBefore publishes one more batch, and requires that it is the next and only one that
// arrives: what was acknowledged or is of others did not.
func requireNothingBefore(t *testing.T, b cluster.Bus, s cluster.Subscription, part int, number uint64) {
	t.Helper()
	send(t, b, part, number, 0)
	got := receive(t, s, 1)
	if got[0].Batch().Number != number {
		t.Fatalf("batch %d arrived, want only %d", got[0].Batch().Number, number)
	}
	acknowledge(t, got)
}

// TestReceive: a batch arrives as it was sent, at whoever has its partition, also if it was sent
// before, and once it is acknowledged it is gone.
func TestReceive(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		b := e.connect(t, "a")
		want := []cluster.Batch{send(t, b, 0, 1, 0), send(t, b, 3, 2, 0)}
		send(t, b, 2, 3, 0)
		s := subscribe(t, b, "a", 1, 0, 3)
		none := subscribe(t, b, "none", 1)
		want = append(want, send(t, b, 3, 1<<63, 4))
		got := receive(t, s, 3)
		for i, d := range got {
			of := d.Batch()
			if of.Schema != batch.Schema {
				t.Errorf("schema %q", of.Schema)
			}
			of.Schema = ""
			if i == 0 || i == 1 {
				if diff := cmp.Diff(want[i], of); diff != "" {
					t.Error(diff)
				}
			}
		}
		if last := got[2].Batch(); last.Number != 1<<63 || last.Try != 4 {
			t.Errorf("last is %d, try %d", last.Number, last.Try)
		}
		acknowledge(t, got)
		requireNothingBefore(t, b, s, 3, 5)
		requireClosed(t, s, none)
		again := subscribe(t, b, "a", 2, 0, 2, 3)
		if got := numbers(receive(t, again, 1)); got[0] != 3 {
			t.Errorf("%d is left, want 3", got)
		}
		requireClosed(t, again)
	})
}

func requireClosed(t *testing.T, list ...cluster.Subscription) {
	t.Helper()
	for _, s := range list {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

// TestRedelivery: what is neither acknowledged nor refused comes again after a while, what is
// refused not before its delay, and what others have is not held up.
func TestRedelivery(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		b := e.connect(t, "a")
		s := subscribe(t, b, "a", 1, 0, 1)
		send(t, b, 0, 1, 0)
		received := time.Now()
		receive(t, s, 1)
		acknowledge(t, receive(t, s, 1))
		if after := time.Since(received); after < e.ackWait()*9/10 {
			t.Errorf("delivered again after %s, before %s", after, e.ackWait())
		}
		send(t, b, 1, 2, 0)
		d := receive(t, s, 1)[0]
		refused := time.Now()
		const delay = 300 * time.Millisecond
		if err := d.Nak(within(t), delay); err != nil {
			t.Fatal(err)
		}
		requireNothingBefore(t, b, s, 0, 3)
		acknowledge(t, receive(t, s, 1))
		if after := time.Since(refused); after < delay {
			t.Errorf("delivered again %s after it was refused for %s", after, delay)
		}
		requireNothingBefore(t, b, s, 1, 4)
		requireClosed(t, s)
	})
}

// TestFence: after a subscription was fenced its acknowledgements have no effect, others get what
// it had, and it learns of it.
func TestFence(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		leader, a, b := e.connect(t, "leader"), e.connect(t, "a"), e.connect(t, "b")
		late := subscribe(t, a, "a", 4, 0, 1, 2)
		other := subscribe(t, b, "a-1", 4, 3)
		send(t, leader, 0, 1, 0)
		send(t, leader, 1, 2, 0)
		old := receive(t, late, 2)
		if err := leader.Fence(within(t), "a", 5); err != nil {
			t.Fatal(err)
		}
		acknowledge(t, old)
		if _, err := late.Next(within(t), 1); !errors.Is(err, cluster.ErrFenced) {
			t.Errorf("Next of a fenced subscription: %v", err)
		}
		s := subscribe(t, b, "b", 5, 0, 1)
		if got := numbers(receive(t, s, 2)); !slices.Equal(got, []uint64{1, 2}) {
			t.Errorf("the new owner has %d", got)
		}
		acknowledge(t, old)
		requireClosed(t, s)
		s = subscribe(t, b, "b", 6, 0, 1)
		got := receive(t, s, 2) // the old acknowledgements had no effect
		if err := leader.Fence(within(t), "b", 6); err != nil {
			t.Fatal(err)
		}
		acknowledge(t, got) // not fenced: its epoch is not before 6
		requireNothingBefore(t, leader, s, 1, 3)
		requireNothingBefore(t, leader, other, 3, 4) // another name that begins as a's does
		requireClosed(t, s, other)
	})
}

// TestOwned: two subscriptions cannot have the same partition, whatever the rest; of the same name
// the second replaces the first.
func TestOwned(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		b := e.connect(t, "a")
		first := subscribe(t, b, "a", 1, 0, 1)
		for _, parts := range [][]int{{0}, {1, 2}, {2, 0, 3}, {2, 3, 1}} {
			if _, err := b.Subscribe(within(t), cluster.Subscriber{Node: "b", Boot: "y", Epoch: 1}, parts); !errors.Is(err, cluster.ErrOwned) {
				t.Fatalf("%v: %v, want ErrOwned", parts, err)
			}
		}
		second := subscribe(t, b, "b", 1, 2, 3) // nothing of the refused ones is left
		again := subscribe(t, b, "a", 1, 1)
		third := subscribe(t, b, "c", 1, 0)
		requireNothingBefore(t, b, third, 0, 1)
		requireNothingBefore(t, b, again, 1, 2)
		requireClosed(t, first, second, again, third)
	})
}

// TestDuplicates: the same try of a batch is dropped for a while, another try is not.
func TestDuplicates(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		b := e.connect(t, "a")
		s := subscribe(t, b, "a", 1, 0)
		send(t, b, 0, 1, 0)
		send(t, b, 0, 1, 0)
		send(t, b, 0, 1, 1)
		got := receive(t, s, 2)
		if got[0].Batch().Try+got[1].Batch().Try != 1 {
			t.Errorf("tries %d and %d", got[0].Batch().Try, got[1].Batch().Try)
		}
		acknowledge(t, got)
		send(t, b, 0, 1, 1) // acknowledged, and still known
		requireNothingBefore(t, b, s, 0, 2)
		requireClosed(t, s)
	})
}

// TestFull: an engine that is full takes nothing, loses nothing, and takes more once there is room.
func TestFull(t *testing.T) {
	cfg := config
	cfg.MaxBytes = 128 << 10
	eachWith(t, cfg, func(t *testing.T, e engine) {
		b := e.connect(t, "a")
		s := subscribe(t, b, "a", 1, 0)
		var err error
		taken := uint64(0)
		body, _, _ := batch.Pack([]batch.Record{{URL: "http://a/" + strings.Repeat("x", 8000)}}, batch.Plain)
		publish := func() error {
			return b.Publish(within(t), cluster.Batch{Sender: "a", Boot: "b", Number: taken + 1, Partition: 0, Body: body})
		}
		for err == nil && taken < 100 {
			if err = publish(); err == nil {
				taken++
			}
		}
		if !errors.Is(err, cluster.ErrFull) || taken < 5 || taken > 16 {
			t.Fatalf("took %d, then %v", taken, err)
		}
		got := receive(t, s, int(taken))
		if err := publish(); !errors.Is(err, cluster.ErrFull) {
			t.Fatalf("what is delivered has its place still: %v", err)
		}
		acknowledge(t, got[:3])
		for err = publish(); errors.Is(err, cluster.ErrFull); err = publish() {
			if within(t).Err() != nil {
				break
			}
		}
		if err != nil {
			t.Fatalf("with room again: %v", err)
		}
		acknowledge(t, got[3:])
		acknowledge(t, receive(t, s, 1))
		requireClosed(t, s)
	})
}

// TestUnknownSchema: a batch of a newer program arrives as such, can be left to others, and holds
// nothing up.
func TestUnknownSchema(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		b := e.connect(t, "a")
		s := subscribe(t, b, "a", 1, 0)
		newer := cluster.Batch{Sender: "a", Boot: "b", Number: 1, Body: []byte("n"), Schema: "2"}
		if err := b.Publish(within(t), newer); err != nil {
			t.Fatal(err)
		}
		d := receive(t, s, 1)[0]
		it := d.Batch()
		if _, err := it.Records(); !errors.Is(err, batch.ErrUnknown) {
			t.Errorf("%+v: %v", it, err)
		}
		if err := d.Nak(within(t), time.Hour); err != nil {
			t.Fatal(err)
		}
		known := send(t, b, 0, 2, 0)
		d = receive(t, s, 1)[0]
		if list, err := known.Records(); err != nil || len(list) != 1 || d.Batch().Number != 2 {
			t.Errorf("%d records, %v", len(list), err)
		}
		requireClosed(t, s)
	})
}

// TestLargest: the largest batch that can be packed goes through.
func TestLargest(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		b := e.connect(t, "a")
		s := subscribe(t, b, "a", 1, 0)
		body := append([]byte{'n'}, make([]byte, batch.MaxBody-1)...)
		it := cluster.Batch{Sender: strings.Repeat("a", 64), Boot: strings.Repeat("b", 64), Number: 1, Body: body}
		if err := b.Publish(within(t), it); err != nil {
			t.Fatal(err)
		}
		got := receive(t, s, 1)[0].Batch()
		if !bytes.Equal(got.Body, body) || got.Sender != it.Sender {
			t.Errorf("%d bytes arrived, want %d", len(got.Body), len(body))
		}
		requireClosed(t, s)
	})
}

// TestManyPartitions: one subscription of all partitions, and then half of them to another node.
func TestManyPartitions(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		b := e.connect(t, "a")
		var all []int
		for p := range 256 {
			all = append(all, p)
			send(t, b, p, uint64(p), 0)
		}
		s := subscribe(t, b, "a", 1, all...)
		acknowledge(t, receive(t, s, 256))
		if err := b.Fence(within(t), "a", 2); err != nil {
			t.Fatal(err)
		}
		first, second := subscribe(t, b, "a", 2, all[:128]...), subscribe(t, b, "b", 2, all[128:]...)
		for p := range 256 {
			send(t, b, p, uint64(1000+p), 0)
		}
		for i, s := range []cluster.Subscription{first, second} {
			for _, d := range receive(t, s, 128) {
				if d.Batch().Partition/128 != i {
					t.Errorf("partition %d at node %d", d.Batch().Partition, i)
				}
			}
		}
		requireClosed(t, first, second, s)
	})
}

// TestKilled: after the engine was killed and started again, what it took is there, subscriptions
// go on, what they had not acknowledged comes again, and nodes learn of it.
func TestKilled(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		b := e.connect(t, "a")
		ctx, cancel := context.WithCancel(within(t))
		again := make(chan struct{}, 9)
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.Reconnected(ctx, func() { again <- struct{}{} })
		}()
		s := subscribe(t, b, "a", 1, 0, 1)
		send(t, b, 0, 1, 0)
		receive(t, s, 1)
		send(t, b, 1, 2, 0)
		rev, err := b.Put(within(t), cluster.Control, cluster.Entry{Key: "conf", Value: []byte("v")})
		if err != nil {
			t.Fatal(err)
		}
		e.stop(t)
		if err := b.Publish(within(t), cluster.Batch{Sender: "a", Boot: "b", Number: 9}); err == nil {
			t.Error("published, but there is no engine")
		}
		if _, err := b.Get(within(t), cluster.Control, "conf"); err == nil || errors.Is(err, cluster.ErrNoKey) {
			t.Errorf("read, but there is no engine: %v", err)
		}
		e.start(t)
		select {
		case <-again:
		case <-within(t).Done():
			t.Fatal("connected again, and not told of it")
		}
		send(t, b, 1, 3, 0)
		seen := map[uint64]bool{}
		for len(seen) < 3 {
			for _, d := range receive(t, s, 1) {
				seen[d.Batch().Number] = true
				acknowledge(t, []cluster.Delivery{d})
			}
		}
		if got, err := b.Get(within(t), cluster.Control, "conf"); err != nil || got.Revision != rev {
			t.Errorf("key has revision %d, %v; had %d", got.Revision, err, rev)
		}
		cancel()
		<-done
		requireClosed(t, s)
	})
}

// TestRollback: an engine that comes back with an older store has lost what came later. It arrives
// when it is published again.
func TestRollback(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		b := e.connect(t, "a")
		send(t, b, 0, 1, 0)
		rev, err := b.Put(within(t), cluster.Control, cluster.Entry{Key: "assign", Value: []byte("1")})
		if err != nil {
			t.Fatal(err)
		}
		old := e.copy(t)
		later, err := b.Put(within(t), cluster.Control, cluster.Entry{Key: "assign", Value: []byte("2"), Revision: rev})
		if err != nil {
			t.Fatal(err)
		}
		send(t, b, 1, 2, 0)
		e.stop(t)
		e.restore(t, old)
		e.start(t)
		retry(t, func() error {
			_, err := b.Put(within(t), cluster.Control, cluster.Entry{Key: "assign", Revision: later})
			if errors.Is(err, cluster.ErrRevision) {
				return nil
			}
			return fmt.Errorf("a revision that is lost: %v", err)
		})
		if got, err := b.Get(within(t), cluster.Control, "assign"); err != nil || string(got.Value) != "1" || got.Revision != rev {
			t.Errorf("%q, revision %d, %v", got.Value, got.Revision, err)
		}
		s := subscribe(t, b, "a", 1, 0, 1)
		acknowledge(t, receive(t, s, 1))
		requireNothingBefore(t, b, s, 1, 3) // 2 is lost
		send(t, b, 1, 2, 1)
		if got := numbers(receive(t, s, 1)); got[0] != 2 {
			t.Errorf("%d arrived, want 2 again", got)
		}
		requireClosed(t, s)
	})
}

// TestWiped: an engine that has lost its store is used again, empty.
func TestWiped(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		b := e.connect(t, "a")
		send(t, b, 0, 1, 0)
		s := subscribe(t, b, "a", 1, 0, 1)
		revs := map[cluster.Table]uint64{}
		for _, table := range []cluster.Table{cluster.Control, cluster.Leases} {
			rev, err := b.Put(within(t), table, cluster.Entry{Key: "k", Value: []byte("1")})
			if err != nil {
				t.Fatal(err)
			}
			revs[table] = rev
		}
		e.stop(t)
		e.restore(t, nil)
		e.start(t)
		for table, rev := range revs {
			retry(t, func() error {
				if _, err := b.Get(within(t), table, "k"); !errors.Is(err, cluster.ErrNoKey) {
					return fmt.Errorf("key: %v", err)
				}
				return nil
			})
			if rev, err := b.Put(within(t), table, cluster.Entry{Key: "k"}); err != nil || rev == 0 {
				t.Errorf("new key: %d, %v", rev, err)
			}
			if _, err := b.Put(within(t), table, cluster.Entry{Key: "k", Revision: rev}); !errors.Is(err, cluster.ErrRevision) {
				t.Errorf("a revision of the lost table: %v", err)
			}
		}
		for {
			if _, err := s.Next(within(t), 1); err != nil {
				if !errors.Is(err, cluster.ErrFenced) {
					t.Errorf("Next of a subscription that is lost: %v", err)
				}
				break
			}
		}
		_ = s.Close()
		s = subscribe(t, b, "a", 2, 0, 1)
		requireNothingBefore(t, b, s, 0, 7)
		requireNothingBefore(t, b, s, 1, 8)
		requireClosed(t, s)
	})
}

// retry calls f until it returns nil.
func retry(t *testing.T, f func() error) {
	t.Helper()
	ctx := within(t)
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
