package crawler_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"urltree/internal/cluster"
	"urltree/internal/cluster/memory"
)

// TestClusterFaults: an engine that loses calls, answers and what it has stored, repeats, delays,
// and answers from the past, nodes that are cut off from it and nodes that are stopped: nothing is
// lost, nothing is done by two nodes, and none takes the crawl for finished before it is.
func TestClusterFaults(t *testing.T) {
	for seed := range 16 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { faults(t, rand.New(rand.NewPCG(uint64(seed), 8)), false) })
		})
	}
}

// TestClusterRollback: an engine that comes back with an old store again and again, and has lost
// batches that it had taken: their senders have them still.
func TestClusterRollback(t *testing.T) {
	for seed := range 4 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { faults(t, rand.New(rand.NewPCG(uint64(seed), 9)), true) })
		})
	}
}

// faults runs a crawl of three nodes with faults at random times, or with old stores alone.
func faults(t *testing.T, r *rand.Rand, rollbacks bool) {
	const nodes = 3
	c := newTestCluster(t, treeWeb{pages: 200, hosts: 25, fan: 2}, nodes)
	runs := make([]*nodeRun, nodes)
	for node := range runs {
		runs[node] = c.start(node)
	}
	pause := func(most int) { time.Sleep(time.Duration(r.IntN(most)) * time.Millisecond) }
	for range 6 {
		store := c.engine.Copy()
		pause(4000)
		synctest.Wait()
		if c.finished() {
			break // what loses that has nodes wait for those that have left: they must be started again
		}
		if !rollbacks {
			c.engine.SetFaults(randomFaults(r.Uint64()))
		}
		node := r.IntN(nodes)
		if what := r.IntN(5); what == 0 || rollbacks {
			c.engine.Restart(store)
		} else {
			c.breaks(what, node, runs, pause)
		}
	}
	c.engine.SetFaults(nil)
	c.wait(runs...)
	c.check()
}

// breaks has one thing of four, from 1 on, happen to the engine or a node for a while.
func (c *testCluster) breaks(what, node int, runs []*nodeRun, pause func(most int)) {
	switch what {
	case 1:
		c.engine.Restart(nil)
	case 2:
		c.engine.Cut(fmt.Sprint("n", node), true)
		pause(50_000)
		c.engine.Cut(fmt.Sprint("n", node), false)
	case 3:
		c.engine.SetDown(true)
		pause(30_000)
		c.engine.SetDown(false)
	case 4:
		runs[node].stop(nil)
		c.wait(runs[node])
		pause(20_000)
		runs[node] = c.start(node)
	}
}

// finished reports whether the engine says that the crawl is.
func (c *testCluster) finished() bool {
	c.engine.SetFaults(nil)
	e, err := c.engine.Connect("test").Get(c.t.Context(), cluster.Control, "state")
	return err == nil && strings.HasPrefix(string(e.Value), "finished")
}

// randomFaults has one call in ten fail in one of the ways that there are.
func randomFaults(seed uint64) func(memory.Call) memory.Fault {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(seed, 0))
	return func(memory.Call) memory.Fault {
		mu.Lock()
		defer mu.Unlock()
		if r.IntN(10) > 0 {
			return memory.Fault{}
		}
		return []memory.Fault{
			{Lose: true}, {Deaf: true}, {Repeat: true}, {Stale: true}, {Delay: time.Duration(r.IntN(8000)) * time.Millisecond},
		}[r.IntN(5)]
	}
}
