package cluster_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"urltree/internal/cluster"
	"urltree/internal/cluster/memory"
)

// exchanging starts nodes that have joined, and returns a function that ends them.
func exchanging(t *testing.T, nodes ...*cluster.Node) (ctx context.Context, end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var joining, running errgroup.Group
	for _, n := range nodes {
		joining.Go(func() error { _, err := n.Join(ctx, nil); return err })
	}
	if err := joining.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		running.Go(func() error { return n.Exchange(ctx, empty{}, true) })
	}
	return ctx, func() {
		cancel()
		if err := running.Wait(); err != nil {
			t.Error(err)
		}
		for _, n := range nodes {
			n.Kill()
		}
	}
}

// assigned returns the assignment that an engine has.
func assigned(t *testing.T, bus cluster.Bus) (a cluster.Assign) {
	t.Helper()
	e, err := bus.Get(t.Context(), cluster.Control, "assign")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(e.Value, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestLapsed: a node whose lease has lapsed asks nothing on the new one, however long it has that,
// before the assignment names its new life.
func TestLapsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := memory.New(cluster.Config{Crawl: "lapsed", Partitions: cluster.Partitions, TTL: ttl})
		node := func(name string) *cluster.Node {
			return cluster.New(cluster.Options{Bus: engine.Connect(name), Name: name, Boot: name + "1", Nodes: 2, TTL: ttl})
		}
		a, b := node("a"), node("b")
		_, end := exchanging(t, a, b)
		defer end()
		time.Sleep(10 * time.Second)
		looks := engine.Connect("test")
		first := assigned(t, looks).Members["b"]
		if !b.MayAsk() || first == "" {
			t.Fatalf("node b may not ask, in its life %q", first)
		}
		engine.Cut("b", true)
		time.Sleep(2 * ttl)
		engine.Cut("a", true) // the leader, so that b has a lease for a while without being named
		engine.Cut("b", false)
		leased, unnamed := 0, 0
		for range 10 * int(2*ttl/time.Second) {
			time.Sleep(100 * time.Millisecond)
			list, err := looks.List(t.Context(), cluster.Leases)
			if err != nil {
				t.Fatal(err)
			}
			life := ""
			for _, e := range list {
				if e.Key == "node.b" {
					life, _, _ = strings.Cut(string(e.Value), " ")
					leased++
				}
			}
			named := assigned(t, looks).Members["b"]
			if life != "" && named != life {
				unnamed++
			}
			if b.MayAsk() && (named != life || life == first) {
				t.Fatalf("node b may ask in its life %q, the assignment names %q", life, named)
			}
		}
		if leased == 0 || unnamed == 0 || !b.MayAsk() {
			t.Errorf("node b had its lease %d times, %d of them without being named; in the end it may ask: %t", leased, unnamed, b.MayAsk())
		}
	})
}
