package cluster_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"urltree/internal/cluster"
	"urltree/internal/cluster/memory"
	"urltree/storage/record"
)

// An empty mailbox has nothing for others and gets nothing.
type empty struct{}

func (empty) Exclusive(fn func())                       { fn() }
func (empty) Reconsider()                               {}
func (empty) Quiet() bool                               { return true }
func (empty) Last() uint64                              { return 0 }
func (empty) Has([]int, uint64) (bool, error)           { return false, nil }
func (empty) PostMarkers([]record.Posted, []byte) error { return nil }
func (empty) MoveOut(_ context.Context, d *record.Departure) ([]byte, error) {
	d.Kept(nil)
	return nil, nil
}
func (empty) Keep([]byte) error                                              { return nil }
func (empty) ReadAgain(context.Context, func(string) bool) error             { return nil }
func (empty) Len() int64                                                     { return 0 }
func (empty) Figures() cluster.Figures                                       { return cluster.Figures{} }
func (empty) Read(uint16, uint64, int) ([]record.Posted, error)              { return nil, nil }
func (empty) Put(_ context.Context, _ record.Outcome, then func(bool)) error { then(false); return nil }

// TestLostWhileJoining: an engine that loses all it has while a node joins gets back from the nodes
// that go on what the new one waits for, and hosts stay divided as they were.
func TestLostWhileJoining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		engine := memory.New(cluster.Config{Crawl: "lost", Partitions: cluster.Partitions, TTL: 15 * time.Second})
		node := func(name, boot string) *cluster.Node {
			return cluster.New(cluster.Options{Bus: engine.Connect(name), Name: name, Boot: boot, Nodes: 3})
		}
		a, b, c := node("a", "a1"), node("b", "b1"), node("c", "c1")
		var joining errgroup.Group
		for _, n := range []*cluster.Node{a, b, c} {
			joining.Go(func() error { _, err := n.Join(ctx, nil); return err })
		}
		if err := joining.Wait(); err != nil {
			t.Fatal(err)
		}
		exchanged := make(chan error)
		go func() { exchanged <- a.Exchange(ctx, empty{}, true) }()
		b.Kill()
		c.Kill()
		time.Sleep(time.Minute) // their leases are over

		engine.Restart(nil)
		again := node("b", "b2")
		waiting, stop := context.WithTimeout(ctx, time.Minute)
		defer stop()
		if _, err := again.Join(waiting, nil); err != nil {
			t.Fatal(err)
		}
		for _, host := range []string{"a.test", "b.test", "c.test", "d.test", "e.test", "f.test"} {
			_, before := b.Away(host)
			if _, now := again.Away(host); now != before {
				t.Errorf("%s: away %t, before %t", host, now, before)
			}
		}
		again.Kill()
		cancel()
		if err := <-exchanged; err != nil {
			t.Error(err)
		}
		a.Kill()
	})
}
