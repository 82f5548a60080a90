package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"urltree/internal/cluster"
)

// TestClusterHandover: nodes join a crawl of processes and are drained while it runs, also where
// one that hands over or that is to get something is killed or stands still at any time: the web is
// crawled whole, each page is in one tree, and no host is asked by two at once.
func TestClusterHandover(t *testing.T) {
	t.Parallel()
	pages, times := 1000, 2
	switch {
	case os.Getenv("TEST_URLTREE_FULL") != "":
		pages, times = 4000, 20
	case testing.Short():
		pages, times = 600, 1
	}
	for _, tt := range []struct {
		name string
		play func(*faultyCluster)
	}{
		{"a node comes back", func(c *faultyCluster) {}},
		{"the one that hands over is killed", func(c *faultyCluster) {
			c.nodes[0].kill()
			c.nodes[0].start()
		}},
		{"the one that gets something is killed", func(c *faultyCluster) {
			c.nodes[2].kill()
			c.nodes[2].start()
		}},
		{"the one that hands over stands still", func(c *faultyCluster) { c.stands(c.nodes[0]) }},
		{"the one that gets something stands still", func(c *faultyCluster) { c.stands(c.nodes[2]) }},
		{"the engine is killed", func(c *faultyCluster) {
			c.server.kill()
			c.server.start()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newFaultyCluster(t, pages, 3, 2)
			first := 1 + c.r.IntN(pages/4)
			c.web.hold(first)
			c.nodes[0].start()
			c.nodes[1].start()
			c.web.until(first)
			for i := range times {
				stop := c.web.trickle(max(first, pages/4+i*pages/(2*times)))
				t.Cleanup(stop)
				c.nodes[2].start()
				c.becomes("node c gets something", func() bool { return c.assigned().on(true, "c") > 0 })
				c.web.until(c.web.answered() + c.r.IntN(12)) // somewhere in it
				tt.play(c)
				c.becomes("node c has its share", func() bool { a := c.assigned(); return a.on(true, "") == 0 && a.on(false, "c") > cluster.Partitions/4 })
				if out := must(t, c.nodes[0].dir, "cluster", "drain", "c", "-cluster", c.server.address, "-cluster-name", "web1"); !strings.Contains(out, "drained: node c") {
					t.Errorf("cluster drain: %s", out)
				}
				c.nodes[2].endsWith("crawler: drained")
				stop()
				if a := c.assigned(); a.on(false, "c") > 0 || a.Members["c"] != "" {
					t.Errorf("a node that was drained has %d partitions, and is a member in its life %q", a.on(false, "c"), a.Members["c"])
				}
			}
			c.nodes[2].start()
			c.web.hold(0)
			for _, n := range c.nodes {
				n.ends()
			}
			if !strings.Contains(c.nodes[2].errs.String(), "known to other nodes") {
				t.Errorf("node c does not say what others have:\n%s", c.nodes[2].errs.String())
			}
			c.web.check(c.nodes)
		})
	}
}

// TestClusterRest: a host that has asked to be left alone for an hour is left alone by the node
// that gets it as well.
func TestClusterRest(t *testing.T) {
	t.Parallel()
	c := newFaultyCluster(t, 2000, 2, 1)
	c.nodes[0].start()
	c.web.until(100) // pages of all hosts are known
	asked := func() (hosts, requests int) {
		c.web.mu.Lock()
		defer c.web.mu.Unlock()
		for _, n := range c.web.resting {
			requests += n
		}
		return len(c.web.resting), requests
	}
	c.web.mu.Lock()
	c.web.resting = map[string]int{}
	c.web.mu.Unlock()
	c.becomes("all hosts rest", func() bool { hosts, _ := asked(); return hosts == len(c.web.hosts) })
	_, before := asked()
	c.nodes[1].start()
	c.becomes("node b has its share", func() bool { a := c.assigned(); return a.on(true, "") == 0 && a.on(false, "b") > cluster.Partitions/3 })
	time.Sleep(nodeLease) // hundreds of the delay, in which nothing is to be seen
	if _, after := asked(); after > before {
		t.Errorf("%d requests to hosts that had asked to be left alone for an hour", after-before)
	}
}

// trickle has the web answer some pages a second from now on, until stop is called: requests end,
// and the crawl does not.
func (w *branchedWeb) trickle(pages int) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for tick := time.NewTicker(120 * time.Millisecond); ; pages++ {
			w.hold(pages)
			select {
			case <-tick.C:
			case <-end:
				tick.Stop()
				return
			}
		}
	}()
	return sync.OnceFunc(func() { close(end); <-ended })
}

// stands has a node stand still until its lease is over, and for a while longer.
func (c *faultyCluster) stands(n *processNode) {
	_ = n.cmd.Process.Signal(syscall.SIGSTOP)
	js, stop := c.connect()
	defer stop()
	c.becomes("the lease of node "+n.name+" is over", func() bool { return !c.leased(js, n) })
	_ = n.cmd.Process.Signal(syscall.SIGCONT)
}

// An assigned is the assignment of a crawl.
type assigned struct{ cluster.Assign }

// on returns how many partitions a node has, or, with moving, how many are on their way to it; "":
// to any node.
func (a assigned) on(moving bool, node string) (n int) {
	for p, owner := range a.Owner {
		if (node == "" || owner == node) && (!moving || a.From[p] != "") {
			n++
		}
	}
	return n
}

// assigned returns the assignment that the engine has.
func (c *faultyCluster) assigned() (a assigned) {
	c.t.Helper()
	js, stop := c.connect()
	defer stop()
	table, err := js.KeyValue(c.t.Context(), "CR_web1_ctl")
	var e jetstream.KeyValueEntry
	if err == nil {
		e, err = table.Get(c.t.Context(), "assign")
	}
	if err == nil {
		err = json.Unmarshal(e.Value(), &a.Assign)
	}
	if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
		c.t.Fatal(err)
	}
	return a
}

// endsWith waits for the end of a node, which must be a good one, and say why.
func (n *processNode) endsWith(why string) {
	n.t.Helper()
	select {
	case <-n.done:
	case <-time.After(3 * time.Minute):
		n.kill()
		n.t.Fatalf("node %s goes on:\n%s", n.name, n.errs.String())
	}
	if code := n.cmd.ProcessState.ExitCode(); code != 0 || !strings.Contains(n.errs.String(), why) {
		n.t.Errorf("node %s: exit %d, want %s\n%s", n.name, code, fmt.Sprintf("%q", why), n.errs.String())
	}
}
