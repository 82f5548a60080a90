package crawler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"urltree/crawler"
	"urltree/internal/cluster"
)

// drain asks for a node to be drained.
func (c *testCluster) drain(node int) {
	c.t.Helper()
	_, err := c.engine.Connect("test").Put(c.t.Context(), cluster.Control, cluster.Entry{Key: fmt.Sprint("drain.n", node)})
	if err != nil {
		c.t.Fatal(err)
	}
}

// assigned returns the assignment that the engine has, and its revision.
func (c *testCluster) assigned() (a cluster.Assign, revision uint64) {
	c.t.Helper()
	e, err := c.engine.Connect("test").Get(c.t.Context(), cluster.Control, "assign")
	if err != nil {
		c.t.Fatal(err)
	}
	if err := json.Unmarshal(e.Value, &a); err != nil {
		c.t.Fatal(err)
	}
	return a, e.Revision
}

// ended checks how a life of a node has ended.
func (c *testCluster) ended(want string, runs ...*nodeRun) {
	c.t.Helper()
	c.wait(runs...)
	for i, run := range runs {
		if run.res.Ended != want {
			c.t.Errorf("node %d of %d: %s, want %s", i, len(runs), run.res.Ended, want)
		}
	}
}

// TestClusterJoin: a node that joins a crawl which is going on gets its share of the hosts; one
// that is drained ends when others have all of its hosts, and may join again.
func TestClusterJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCluster(t, treeWeb{pages: 900, hosts: 60, fan: 3}, 3)
		c.least = 1
		c.slow = func() time.Duration { return time.Second }
		runs := []*nodeRun{c.start(0)}
		time.Sleep(5 * time.Second)
		moves := c.watchMoves()
		runs = append(runs, c.start(1))
		time.Sleep(10 * time.Second)
		runs = append(runs, c.start(2))
		time.Sleep(10 * time.Second)
		c.drain(1)
		c.ended("drained", runs[1])
		at := len(c.log.asked)
		time.Sleep(5 * time.Second)
		runs[1] = c.start(1)
		c.ended("nothing left", runs...)
		c.check()
		if most := slices.Max(moves()); most > cluster.Partitions/2+1 {
			t.Errorf("%d partitions were moved at once", most)
		}
		for node, run := range runs {
			if run.res.Run.Stored == 0 {
				t.Errorf("node %d has stored nothing in its last run", node)
			}
		}
		for _, a := range c.log.asked[at:] {
			if a.node == "n1" && a.start.Before(runs[1].began) {
				t.Errorf("node 1 has asked %s after it was drained", a.url)
			}
		}
	})
}

// TestClusterRecrawl: with Recrawl each page is asked again once, by the node that has its host,
// also a page that another node has stored before it handed the host over.
func TestClusterRecrawl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCluster(t, treeWeb{pages: 300, hosts: 60, fan: 3}, 2)
		c.least = 1
		c.slow = func() time.Duration { return time.Second }
		runs := []*nodeRun{c.start(0)}
		for c.log.len() < 100 {
			time.Sleep(time.Second)
		}
		runs = append(runs, c.start(1))
		c.ended("nothing left", runs...)
		c.check()
		if n := runs[1].res.Total.Refused; n < 20 {
			t.Fatalf("%d pages of hosts that were moved are elsewhere", n)
		}
		for _, every := range []time.Duration{crawler.RecrawlNow, crawler.RecrawlNow, 24 * time.Hour, 24 * time.Hour} {
			time.Sleep(25 * time.Hour)
			before := len(c.log.asked)
			c.alter = func(o *crawler.Options) { o.Recrawl = every }
			c.ended("nothing left", c.start(0), c.start(1))
			times := map[string]int{}
			for _, a := range c.log.asked[before:] {
				times[a.url]++
			}
			if len(times) != c.web.pages || len(c.log.asked)-before != c.web.pages {
				t.Errorf("after %v %d pages of %d were asked again, by %d requests", every, len(times), c.web.pages, len(c.log.asked)-before)
			}
			c.complete(true)
		}
	})
}

// watchMoves watches how many partitions have another owner in each assignment than in the one
// before.
func (c *testCluster) watchMoves() (moves func() []int) {
	ctx, stop := context.WithCancel(c.t.Context())
	done := make(chan struct{})
	var list []int
	go func() {
		defer close(done)
		var before cluster.Assign
		_ = c.engine.Connect("test").Watch(ctx, cluster.Control, func(e cluster.Entry) {
			var a cluster.Assign
			if e.Key != "assign" || json.Unmarshal(e.Value, &a) != nil {
				return
			}
			moved := 0
			for p := range before.Owner {
				if before.Owner[p] != a.Owner[p] {
					moved++
				}
			}
			list, before = append(list, moved), a
		})
	}()
	return func() []int {
		stop()
		<-done
		return list
	}
}

// TestClusterBounce: partitions that are given from node to node at random, each as soon as it has
// been handed over, lose nothing, have one owner at each moment, and each page is in one tree.
func TestClusterBounce(t *testing.T) {
	for seed := range 4 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { bounce(t, rand.New(rand.NewPCG(uint64(seed), 11)), 10*time.Second) })
		})
	}
}

func bounce(t *testing.T, r *rand.Rand, length time.Duration) {
	const nodes = 3
	c := newTestCluster(t, treeWeb{pages: 1500, hosts: 60, fan: 3}, nodes)
	c.slow = func() time.Duration { return 400 * time.Millisecond }
	bus := c.engine.Connect("test")
	runs := make([]*nodeRun, nodes)
	for node := range runs {
		runs[node] = c.start(node)
	}
	time.Sleep(4 * time.Second)
	lead, err := bus.Put(t.Context(), cluster.Leases, c.leader())
	if err != nil {
		t.Fatal(err)
	}
	moved := 0
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if lead, err = bus.Put(t.Context(), cluster.Leases, cluster.Entry{Key: "leader", Value: []byte("test/x."), Revision: lead}); err != nil {
			t.Fatal(err)
		}
		a, revision := c.assigned()
		a.Epoch++
		for p := range a.Owner {
			if a.From[p] != "" && c.arrived(&a, p) {
				a.From[p] = ""
			}
			if a.From[p] == "" && r.IntN(4) == 0 {
				if to := fmt.Sprint("n", r.IntN(nodes)); to != a.Owner[p] {
					a.From[p], a.Owner[p], a.Moved[p] = a.Owner[p], to, a.Epoch
					moved++
				}
			}
		}
		value, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bus.Put(t.Context(), cluster.Control, cluster.Entry{Key: "assign", Value: value, Revision: revision}); err != nil && !errors.Is(err, cluster.ErrRevision) {
			t.Fatal(err)
		}
	}
	if moved < cluster.Partitions {
		t.Fatalf("only %d moves", moved)
	}
	if err := bus.Delete(t.Context(), cluster.Leases, "leader", lead); err != nil {
		t.Fatal(err)
	}
	c.ended("nothing left", runs...)
	c.check()
}

// leader returns the lease of the leader as it is to be written by the test.
func (c *testCluster) leader() cluster.Entry {
	e, err := c.engine.Connect("test").Get(c.t.Context(), cluster.Leases, "leader")
	if err != nil {
		c.t.Fatal(err)
	}
	e.Value = []byte("test/x.")
	return e
}

// arrived reports whether the owner of a partition says that it has been handed over.
func (c *testCluster) arrived(a *cluster.Assign, p int) bool {
	answer, err := c.engine.Connect("test").Probe(c.t.Context(), a.Owner[p])
	var s cluster.State
	return err == nil && json.Unmarshal(answer, &s) == nil && s.Epoch == a.Epoch-1 && !slices.Contains(s.Waits, p)
}

// TestClusterHandoverFaults: a node joins, is drained and joins again, while nodes are stopped and
// cut off until their leases are over, and the engine loses calls, answers and all it has: nothing
// is lost, no two ask a host at once, and none takes the crawl for finished before it is.
func TestClusterHandoverFaults(t *testing.T) {
	for seed := range 8 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { handoverFaults(t, rand.New(rand.NewPCG(uint64(seed), 12))) })
		})
	}
}

// joins waits until a node is a member of the crawl. It returns false if that is finished first.
func (c *testCluster) joins(node int) bool {
	name := fmt.Sprint("n", node)
	for !c.finished() {
		e, err := c.engine.Connect("test").Get(c.t.Context(), cluster.Control, "assign")
		var a cluster.Assign
		if err == nil && json.Unmarshal(e.Value, &a) == nil && a.Members[name] != "" {
			return true
		}
		time.Sleep(time.Second)
	}
	return false
}

func handoverFaults(t *testing.T, r *rand.Rand) {
	const nodes = 3
	c := newTestCluster(t, treeWeb{pages: 900, hosts: 60, fan: 3}, nodes)
	c.least = 2
	c.slow = func() time.Duration { return 800 * time.Millisecond }
	runs := []*nodeRun{c.start(0), c.start(1), nil}
	pause := func(most int) { time.Sleep(time.Duration(r.IntN(most)) * time.Millisecond) }
	pause(5000)
	drained := false
	for range 3 {
		runs[2], drained = c.start(2), false
		pause(3000)
		if r.IntN(2) == 0 {
			c.engine.SetFaults(randomFaults(r.Uint64()))
		}
		c.breaks(1+r.IntN(4), r.IntN(nodes), runs, pause)
		pause(4000)
		c.engine.SetFaults(nil)
		if !c.joins(2) {
			break
		}
		c.drain(2)
		c.wait(runs[2])
		if drained = runs[2].res.Ended == "drained"; !drained {
			break // the crawl was finished first
		}
	}
	if drained {
		runs[2] = c.start(2)
	}
	c.ended("nothing left", runs...)
	c.check()
}
