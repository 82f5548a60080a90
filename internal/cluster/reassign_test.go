package cluster_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"urltree/internal/cluster"
	"urltree/internal/cluster/memory"
)

// A reader takes its time to read its pages again.
type reader struct {
	empty
	done chan struct{} // closed when it has read them
}

func (r reader) ReadAgain(ctx context.Context, lost func(host string) bool) error {
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestGivenUpAndBack: a node that is back before anybody has taken its hosts keeps them, also when
// it is silent later.
func TestGivenUpAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := memory.New(cluster.Config{Crawl: "back", Partitions: cluster.Partitions, TTL: ttl})
		node := func(name string) *cluster.Node {
			return cluster.New(cluster.Options{Bus: engine.Connect(name), Name: name, Boot: name + "1", Nodes: 2, TTL: ttl})
		}
		ctx, end := exchanging(t, node("a"), node("b"))
		defer end()
		time.Sleep(ttl)
		visitor := engine.Connect("visitor")
		if _, err := cluster.GiveUp(ctx, visitor, "b"); !errors.Is(err, cluster.ErrHere) {
			t.Errorf("a node that is there: %v", err)
		}
		engine.Cut("a", true)
		engine.Cut("b", true)
		time.Sleep(2 * ttl)
		waiting, cancel := context.WithTimeout(ctx, ttl)
		defer cancel()
		if _, err := cluster.GiveUp(waiting, visitor, "b"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without a node that leads: %v", err)
		}
		engine.Cut("a", false)
		engine.Cut("b", false)
		time.Sleep(2 * ttl)
		engine.Cut("b", true)
		time.Sleep(10 * ttl)
		if a := assigned(t, visitor); a.Members["b"] == "" || len(a.Gone) > 0 {
			t.Errorf("members %v, gone %v", a.Members, a.Gone)
		}
	})
}

// TestGivenUp: a crawl that has lost a node is not finished before the others have read their pages
// again, and is then.
func TestGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		engine := memory.New(cluster.Config{Crawl: "lost", Partitions: cluster.Partitions, TTL: ttl})
		var nodes []*cluster.Node
		var joining, running errgroup.Group
		for _, name := range []string{"a", "b"} {
			n := cluster.New(cluster.Options{Bus: engine.Connect(name), Name: name, Boot: name + "1", Nodes: 2})
			nodes = append(nodes, n)
			joining.Go(func() error { _, err := n.Join(ctx, nil); return err })
		}
		if err := joining.Wait(); err != nil {
			t.Fatal(err)
		}
		defer nodes[0].Kill()
		defer func() { _ = running.Wait() }()
		defer cancel()
		pages := reader{done: make(chan struct{})}
		running.Go(func() error { return nodes[0].Exchange(ctx, pages, true) })
		finished := false
		running.Go(func() error {
			for {
				more, err := nodes[0].Idle(ctx)
				if finished = err == nil && !more; finished || err != nil {
					return err
				}
			}
		})
		nodes[1].Kill()
		time.Sleep(time.Minute)
		visitor := engine.Connect("visitor")
		if parts, err := cluster.GiveUp(ctx, visitor, "b"); err != nil || parts != cluster.Partitions/2 {
			t.Fatalf("%d partitions, %v", parts, err)
		}
		time.Sleep(time.Minute)
		s, err := cluster.Look(ctx, visitor)
		if err != nil || finished || s.State != "running" || len(s.Nodes) != 1 || s.Nodes[0].Partitions != cluster.Partitions || !strings.Contains(strings.Join(s.Nodes[0].Reasons, ""), "reads its pages again") {
			t.Errorf("while pages are read again: finished: %t, %+v, %v", finished, s, err)
		}
		close(pages.done)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !finished {
			t.Error("behind that the crawl goes on")
		}
	})
}
