package nats_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"urltree/internal/cluster"
)

// TestTables: random writes against a map: the one with the right revision is done, any other is
// refused, and greater revisions are younger.
func TestTables(t *testing.T) {
	cfg := config
	cfg.TTL = time.Minute // no key expires here
	eachWith(t, cfg, func(t *testing.T, e engine) {
		b := e.connect(t, "a")
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		for _, table := range []cluster.Table{cluster.Control, cluster.Leases} {
			want := map[string]cluster.Entry{}
			last := uint64(0)
			for i := range 120 {
				key := fmt.Sprintf("node.%d", rng.IntN(3))
				old := want[key]
				revision := old.Revision
				if rng.IntN(3) == 0 {
					revision = []uint64{0, last, 1}[rng.IntN(3)]
				}
				right := revision == old.Revision
				value := []byte(fmt.Sprint(i))
				if rng.IntN(4) == 0 && revision != 0 {
					err := b.Delete(within(t), table, key, revision)
					if right != (err == nil) || !right && !errors.Is(err, cluster.ErrRevision) {
						t.Fatalf("%d: delete %s at %d of %d: %v", i, key, revision, old.Revision, err)
					}
					if right {
						delete(want, key)
					}
					continue
				}
				got, err := b.Put(within(t), table, cluster.Entry{Key: key, Value: value, Revision: revision})
				if right != (err == nil) || !right && !errors.Is(err, cluster.ErrRevision) || right && got <= last {
					t.Fatalf("%d: put %s at %d of %d: %d, %v", i, key, revision, old.Revision, got, err)
				}
				if right {
					want[key], last = cluster.Entry{Key: key, Value: value, Revision: got}, got
				}
			}
			requireTable(t, b, table, want)
		}
	})
}

func requireTable(t *testing.T, b cluster.Bus, table cluster.Table, want map[string]cluster.Entry) {
	t.Helper()
	list, err := b.List(within(t), table)
	if err != nil || len(list) != len(want) {
		t.Fatalf("list: %d of %d, %v", len(list), len(want), err)
	}
	for i, key := range slices.Sorted(maps.Keys(want)) {
		w := want[key]
		got, err := b.Get(within(t), table, key)
		if err != nil || got.Revision != w.Revision || string(got.Value) != string(w.Value) {
			t.Errorf("%s: %+v, %v; want %+v", key, got, err, w)
		}
		if list[i].Key != key || list[i].Revision != w.Revision || string(list[i].Value) != string(w.Value) {
			t.Errorf("%s: listed as %+v", key, list[i])
		}
	}
	if _, err := b.Get(within(t), table, "none"); !errors.Is(err, cluster.ErrNoKey) {
		t.Errorf("a key that is not there: %v", err)
	}
}

// watch has a table's changes sent to a channel until stop is called.
func watch(t *testing.T, b cluster.Bus, table cluster.Table) (news chan cluster.Entry, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	news = make(chan cluster.Entry, 999)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := b.Watch(ctx, table, func(e cluster.Entry) { news <- e }); ctx.Err() == nil {
			t.Errorf("watch ended: %v", err)
		}
	}()
	return news, func() {
		cancel()
		<-done
	}
}

// until reads changes until one is as wanted.
func until(t *testing.T, news chan cluster.Entry, what string, wanted func(cluster.Entry) bool) {
	t.Helper()
	ctx := within(t)
	for {
		select {
		case e := <-news:
			if wanted(e) {
				return
			}
		case <-ctx.Done():
			t.Fatalf("not seen: %s", what)
		}
	}
}

// TestLease: a key of the leases lives while it is renewed, ends when it is not, and can be made
// again by another node; watchers see all of it.
func TestLease(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		b, other := e.connect(t, "a"), e.connect(t, "b")
		rev, err := b.Put(within(t), cluster.Leases, cluster.Entry{Key: "node.a", Value: []byte("boot")})
		if err != nil {
			t.Fatal(err)
		}
		news, stop := watch(t, other, cluster.Leases)
		until(t, news, "the lease", func(e cluster.Entry) bool { return e.Key == "node.a" && string(e.Value) == "boot" })
		ticker := time.NewTicker(config.TTL / 6)
		defer ticker.Stop()
		var renewed time.Time
		for began := time.Now(); time.Since(began) < 2*config.TTL; <-ticker.C {
			renewed = time.Now()
			if rev, err = b.Put(within(t), cluster.Leases, cluster.Entry{Key: "node.a", Value: []byte("boot"), Revision: rev}); err != nil {
				t.Fatalf("after %s: %v", time.Since(began), err)
			}
			if _, err := other.Put(within(t), cluster.Leases, cluster.Entry{Key: "node.a", Value: []byte("other")}); !errors.Is(err, cluster.ErrRevision) {
				t.Fatalf("made by another node: %v", err)
			}
		}
		until(t, news, "the end of the lease", func(e cluster.Entry) bool { return e.Key == "node.a" && e.Revision == 0 })
		if early := time.Since(renewed); early < config.TTL {
			t.Errorf("ended %s after it was renewed for %s", early, config.TTL)
		}
		if _, err := b.Get(within(t), cluster.Leases, "node.a"); !errors.Is(err, cluster.ErrNoKey) {
			t.Errorf("get of a key that has expired: %v", err)
		}
		if list, err := b.List(within(t), cluster.Leases); err != nil || len(list) != 0 {
			t.Errorf("list: %v, %v", list, err)
		}
		if _, err := b.Put(within(t), cluster.Leases, cluster.Entry{Key: "node.a", Value: []byte("late"), Revision: rev}); !errors.Is(err, cluster.ErrRevision) {
			t.Errorf("renewed after its end: %v", err)
		}
		if _, err := other.Put(within(t), cluster.Leases, cluster.Entry{Key: "node.a", Value: []byte("other")}); err != nil {
			t.Errorf("made again: %v", err)
		}
		until(t, news, "the new lease", func(e cluster.Entry) bool { return string(e.Value) == "other" })
		stop()
	})
}

// TestWatch: a watcher sees the keys that there are, each change, and what a restart with another
// store has changed.
func TestWatch(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		b := e.connect(t, "a")
		put := func(key, value string) uint64 {
			t.Helper()
			rev, err := b.Put(within(t), cluster.Control, cluster.Entry{Key: key, Value: []byte(value)})
			if err != nil {
				t.Fatal(err)
			}
			return rev
		}
		news, stop := watch(t, b, cluster.Control)
		rev := put("first", "1")
		old := e.copy(t)
		put("second", "2")
		saw := func(key, value string) {
			t.Helper()
			until(t, news, key+" = "+value, func(e cluster.Entry) bool {
				return e.Key == key && string(e.Value) == value && (value == "") == (e.Revision == 0)
			})
		}
		saw("first", "1")
		saw("second", "2")
		also, stopAlso := watch(t, b, cluster.Control)
		until(t, also, "what was there", func(e cluster.Entry) bool { return e.Key == "second" })
		stopAlso()
		if err := b.Delete(within(t), cluster.Control, "first", rev); err != nil {
			t.Fatal(err)
		}
		saw("first", "")
		e.stop(t)
		e.restore(t, old)
		e.start(t)
		saw("first", "1")
		e.stop(t)
		e.restore(t, nil)
		e.start(t)
		saw("first", "")
		retry(t, func() error {
			_, err := b.Put(within(t), cluster.Control, cluster.Entry{Key: "third", Value: []byte("3")})
			return err
		})
		saw("third", "3")
		stop()
	})
}

// TestProbe: a node that answers is heard, any other is an error.
func TestProbe(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		a, b := e.connect(t, "a"), e.connect(t, "b")
		if _, err := a.Probe(within(t), "b"); err == nil {
			t.Error("an answer of nobody")
		}
		ctx, cancel := context.WithCancel(within(t))
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = b.Answer(ctx, "b", func() []byte { return []byte("idle") })
		}()
		retry(t, func() error {
			answer, err := a.Probe(within(t), "b")
			if err == nil && string(answer) != "idle" {
				t.Errorf("answer %q", answer)
			}
			return err
		})
		cancel()
		<-done
		retry(t, func() error {
			if _, err := a.Probe(within(t), "b"); err == nil {
				return errors.New("an answer after its end")
			}
			return nil
		})
	})
}

// TestConfirm: confirmations reach the node that they are for, all of them, and no other.
func TestConfirm(t *testing.T) {
	each(t, func(t *testing.T, e engine) {
		a, b := e.connect(t, "a"), e.connect(t, "b")
		ctx, cancel := context.WithCancel(within(t))
		got := make(chan []uint64, 999)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = b.Confirmed(ctx, "b", func(list []uint64) { got <- list })
		}()
		retry(t, func() error { // until b listens
			if err := a.Confirm(within(t), "b", []uint64{1}); err != nil {
				t.Fatal(err)
			}
			select {
			case <-got:
				return nil
			case <-time.After(10 * time.Millisecond):
				return errors.New("nobody listens")
			}
		})
		if err := a.Confirm(within(t), "a", []uint64{2}); err != nil {
			t.Fatalf("to who does not listen: %v", err)
		}
		if err := a.Confirm(within(t), "b", []uint64{3, 1 << 63, 0}); err != nil {
			t.Fatal(err)
		}
		for list := range got {
			if slices.Equal(list, []uint64{3, 1 << 63, 0}) {
				break
			}
			if !slices.Equal(list, []uint64{1}) {
				t.Fatalf("b has got %d", list)
			}
		}
		cancel()
		<-done
	})
}
