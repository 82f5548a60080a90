package crawler_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"urltree/internal/cluster"
)

// giveUp says that a node is gone for good.
func (c *testCluster) giveUp(node int) (parts int, err error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	return cluster.GiveUp(ctx, c.engine.Connect("visitor"), fmt.Sprint("n", node))
}

// TestClusterGivenUp: a node that is gone for good keeps the crawl from ending until somebody says
// so. Then the others crawl all that is reachable from what they have, whatever the lost node knew,
// also if one of them is stopped while it reads its pages again.
func TestClusterGivenUp(t *testing.T) {
	for _, tt := range []struct {
		name    string
		after   int  // requests, until the node is gone
		stopped bool // another one is stopped, and started again once hosts are divided anew
	}{
		{"early", 50, false},
		{"late", 150, false},
		{"one is stopped meanwhile", 150, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { givenUp(t, tt.after, tt.stopped) })
		})
	}
}

func givenUp(t *testing.T, after int, stopped bool) {
	c := newTestCluster(t, treeWeb{pages: 300, hosts: 40, fan: 3}, 3)
	c.slow = func() time.Duration { return 500 * time.Millisecond }
	runs := []*nodeRun{c.start(0), c.start(1), c.start(2)}
	for c.log.len() < after {
		time.Sleep(100 * time.Millisecond)
	}
	if _, err := c.giveUp(2); !errors.Is(err, cluster.ErrHere) {
		t.Errorf("a node that is there: %v", err)
	}
	runs[2].stop(nil) // its tree is never used again
	<-runs[2].done
	if _, err := c.giveUp(7); !errors.Is(err, cluster.ErrNoNode) {
		t.Errorf("a node that never was: %v", err)
	}
	time.Sleep(10 * time.Minute)
	if s := c.look(); s.State != "running" {
		t.Errorf("without the node the crawl is %s", s.State)
	}
	lost := c.log.len()
	if stopped {
		runs[1].stop(nil)
		<-runs[1].done
	}
	parts, err := c.giveUp(2)
	if err != nil || parts < cluster.Partitions/4 {
		t.Fatalf("%d partitions, %v", parts, err)
	}
	if stopped {
		time.Sleep(10 * time.Minute)
		if s := c.look(); s.State != "running" {
			t.Errorf("before the other node has read its pages again the crawl is %s", s.State)
		}
		runs[1] = c.start(1)
	}
	again, err := c.giveUp(2)
	if err != nil || again != parts {
		t.Errorf("said once more: %d partitions, %v", again, err)
	}
	back := c.start(2) // with what it has of its earlier life
	<-back.done
	if back.err == nil || !errors.Is(back.err, cluster.ErrOther) {
		t.Errorf("the node is back: %v", back.err)
	}
	c.wait(runs[:2]...)
	if after := c.log.asked[lost:]; len(after) == 0 || slices.ContainsFunc(after, func(a asked) bool { return a.node == "n2" }) {
		t.Errorf("%d requests afterwards, or some of the node that is gone", len(after))
	}
	c.nodes = 2
	c.check()
}

// TestClusterGivenUpAfterHandover: pages of hosts that a node had handed over before it was lost
// are asked again by the node that has the hosts.
func TestClusterGivenUpAfterHandover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCluster(t, treeWeb{pages: 300, hosts: 40, fan: 3}, 2)
		c.slow = func() time.Duration { return time.Second }
		runs := []*nodeRun{c.start(0), c.start(1)}
		time.Sleep(10 * time.Second)
		runs = append(runs, c.start(2)) // which gets a third of the hosts
		for joined := false; !joined; time.Sleep(time.Second) {
			s := c.look()
			joined = len(s.Nodes) == 3 && s.Nodes[2].Answers && s.Nodes[2].Partitions > 0 && len(s.Nodes[2].Waits) == 0
		}
		runs[1].stop(nil)
		<-runs[1].done
		pages := crawled(t, filepath.Join(c.folder(1), "res.txt"))
		if err := os.RemoveAll(c.folder(1)); err != nil || len(pages) == 0 {
			t.Fatal(len(pages), err)
		}
		if _, err := c.giveUp(1); err != nil {
			t.Fatal(err)
		}
		c.wait(runs[0], runs[2])
		if err := os.Rename(c.folder(2), c.folder(1)); err != nil {
			t.Fatal(err)
		}
		c.complete(true)
	})
}
