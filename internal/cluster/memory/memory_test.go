package memory

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"urltree/internal/cluster"
)

// What the engine shares with a real one is tested beside that, in package nats. Here are the
// faults that only this one has.

var config = cluster.Config{Crawl: "c", Partitions: 4, Shards: 1, TTL: 15 * time.Second}

// once returns faults of which the first call of a method has one.
func once(method string, fault Fault) func(Call) Fault {
	first := true
	return func(c Call) Fault {
		if c.Method != method || !first {
			return Fault{}
		}
		first = false
		return fault
	}
}

func publish(t *testing.T, b cluster.Bus, number uint64) error {
	t.Helper()
	return b.Publish(t.Context(), cluster.Batch{Sender: "a", Boot: "b", Number: number, Body: []byte("n")})
}

func subscribe(t *testing.T, b cluster.Bus) cluster.Subscription {
	t.Helper()
	s, err := b.Subscribe(t.Context(), cluster.Subscriber{Node: "a", Boot: "b", Epoch: 1}, []int{0})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// arrives returns the numbers of the batches that arrive in so long.
func arrives(t *testing.T, s cluster.Subscription, d time.Duration, ack bool) (numbers []uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	for {
		list, err := s.Next(ctx, 8)
		if err != nil {
			return numbers
		}
		for _, d := range list {
			numbers = append(numbers, d.Batch().Number)
			if ack {
				_ = d.Ack(t.Context())
			}
		}
	}
}

func TestFaultsOfBatches(t *testing.T) {
	const short = time.Second
	for _, tt := range []struct {
		name, method string
		fault        Fault
		fails        bool          // Publish
		after        time.Duration // it took
		now, later   []uint64      // what arrives at once, and after the engine waited for an acknowledgement
	}{
		{"none", "", Fault{}, false, 0, []uint64{1}, nil},
		{"lost", "Publish", Fault{Lose: true}, true, 0, nil, nil},
		{"answer lost", "Publish", Fault{Deaf: true}, true, 0, []uint64{1}, nil},
		{"late", "Publish", Fault{Delay: 3 * short}, false, 3 * short, []uint64{1}, nil},
		{"delivery lost", "Next", Fault{Lose: true}, false, 0, nil, []uint64{1}},
		{"delivered twice", "Next", Fault{Repeat: true}, false, 0, []uint64{1, 1}, nil},
		{"acknowledgement lost", "Ack", Fault{Lose: true}, false, 0, []uint64{1}, []uint64{1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := New(config)
				b := e.Connect("a")
				s := subscribe(t, b)
				e.SetFaults(once(tt.method, tt.fault))
				began := time.Now()
				if err := publish(t, b, 1); (err != nil) != tt.fails || time.Since(began) != tt.after {
					t.Errorf("publish: %v after %s", err, time.Since(began))
				}
				if got := arrives(t, s, short, true); !slices.Equal(got, tt.now) {
					t.Errorf("%d arrives, want %d", got, tt.now)
				}
				if got := arrives(t, s, 2*ackWait, true); !slices.Equal(got, tt.later) {
					t.Errorf("%d arrives later, want %d", got, tt.later)
				}
			})
		})
	}
}

func TestFaultsOfTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(config)
		b := e.Connect("a")
		put := func(value string, revision uint64) (uint64, error) {
			return b.Put(t.Context(), cluster.Control, cluster.Entry{Key: "k", Value: []byte(value), Revision: revision})
		}
		first, err := put("1", 0)
		if err != nil {
			t.Fatal(err)
		}
		e.SetFaults(once("Put", Fault{Deaf: true}))
		if _, err := put("2", first); err == nil || errors.Is(err, cluster.ErrRevision) {
			t.Errorf("answer lost: %v", err)
		}
		if _, err := put("2", first); !errors.Is(err, cluster.ErrRevision) {
			t.Errorf("it had its effect: %v", err)
		}
		e.SetFaults(once("Get", Fault{Stale: true}))
		for _, want := range []string{"1", "2"} {
			if got, err := b.Get(t.Context(), cluster.Control, "k"); err != nil || string(got.Value) != want {
				t.Errorf("read %q, %v; want %s", got.Value, err, want)
			}
		}
	})
}

// TestCut: a node that is cut off gets nothing and reaches nobody, its lease expires, and it learns
// of the end of it; the others go on.
func TestCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(config)
		a, b := e.Connect("a"), e.Connect("b")
		s := subscribe(t, a)
		ctx, cancel := context.WithCancel(t.Context())
		again, confirmed := 0, 0
		go func() { a.Reconnected(ctx, func() { again++ }) }()
		go func() { _ = a.Confirmed(ctx, "a", func([]uint64) { confirmed++ }) }()
		go func() { _ = a.Answer(ctx, "a", func() []byte { return nil }) }()
		if _, err := a.Put(ctx, cluster.Leases, cluster.Entry{Key: "node.a"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		e.Cut("a", true)
		if err := publish(t, b, 1); err != nil {
			t.Fatal(err)
		}
		if err := b.Confirm(ctx, "a", []uint64{1}); err != nil {
			t.Fatal(err)
		}
		if got := arrives(t, s, config.TTL, true); got != nil {
			t.Errorf("%d arrives at a node that is cut off", got)
		}
		if err := publish(t, a, 2); err == nil {
			t.Error("published by a node that is cut off")
		}
		if _, err := b.Probe(ctx, "a"); err == nil {
			t.Error("a node that is cut off answers")
		}
		if _, err := b.Get(ctx, cluster.Leases, "node.a"); !errors.Is(err, cluster.ErrNoKey) {
			t.Errorf("its lease: %v", err)
		}
		synctest.Wait()
		if again+confirmed > 0 {
			t.Errorf("connected again %d times, %d confirmations", again, confirmed)
		}
		e.Cut("a", false)
		if got := arrives(t, s, time.Second, true); !slices.Equal(got, []uint64{1}) {
			t.Errorf("%d arrives afterwards", got)
		}
		if err := b.Confirm(ctx, "a", []uint64{1}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if again != 1 || confirmed != 1 {
			t.Errorf("connected again %d times, %d confirmations, want 1 and 1", again, confirmed)
		}
		cancel()
		synctest.Wait()
	})
}

// TestOldAck: an acknowledgement of a batch whose number in the store is that of another one, since
// an old store came back, makes the engine forget that one: the sender has to publish it again.
func TestOldAck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(config)
		b := e.Connect("a")
		s := subscribe(t, b)
		old := e.Copy()
		if err := publish(t, b, 1); err != nil {
			t.Fatal(err)
		}
		lost, err := s.Next(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		e.Restart(old)
		if err := publish(t, b, 2); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Next(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if err := lost[0].Ack(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := arrives(t, s, 2*ackWait, false); got != nil {
			t.Errorf("%d arrives", got)
		}
	})
}
