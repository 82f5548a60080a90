package crawler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"urltree/internal/cluster"
)

// look asks how the crawl is, as one that is no node.
func (c *testCluster) look() cluster.Status {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 20*time.Second)
	defer cancel()
	s, err := cluster.Look(ctx, c.engine.Connect("visitor"))
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

// TestClusterStatus: whoever asks the engine learns which nodes are there, how far they are, and
// what keeps the crawl from ending.
func TestClusterStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCluster(t, treeWeb{pages: 300, hosts: 40, fan: 3}, 3)
		c.slow = func() time.Duration { return 500 * time.Millisecond }
		runs := []*nodeRun{c.start(0), c.start(1)}
		time.Sleep(5 * time.Second)
		if s := c.look(); s.State != "waiting" || len(s.Nodes) != 2 || s.Nodes[0].Answers || !s.Nodes[0].Here {
			t.Errorf("before the third node: %+v", s)
		}
		runs = append(runs, c.start(2))
		time.Sleep(4 * time.Second)
		s := c.look()
		if s.State != "running" || s.Epoch == 0 || len(s.Nodes) != 3 {
			t.Fatalf("%+v", s)
		}
		leads, parts, busy := 0, 0, 0
		for i, n := range s.Nodes {
			if !n.Here || !n.Answers || n.Node != fmt.Sprint("n", i) || n.SilentMS != 0 {
				t.Errorf("%+v", n)
			}
			parts += n.Partitions
			busy += len(n.Reasons)
			if n.Leading {
				leads++
			}
		}
		if leads != 1 || parts != cluster.Partitions || busy == 0 {
			t.Errorf("%d leaders, %d partitions, %d reasons why it goes on", leads, parts, busy)
		}

		runs[2].stop(nil)
		<-runs[2].done
		time.Sleep(10 * time.Minute) // the others have long done what they can
		s = c.look()
		gone, stored := s.Nodes[2], int64(0)
		if gone.Here || gone.Answers || gone.Partitions == 0 || len(gone.Reasons) != 1 || !strings.HasPrefix(gone.Reasons[0], "is silent for ") {
			t.Errorf("%+v", gone)
		}
		if since := time.Duration(gone.SilentMS) * time.Millisecond; since < 9*time.Minute+50*time.Second || since > 10*time.Minute+20*time.Second {
			t.Errorf("silent for %v, not ten minutes", since)
		}
		for _, n := range s.Nodes[:2] {
			stored += n.Stored
			if n.Pending != 0 || n.Taking != 0 || n.Outbox > 0 != slices.ContainsFunc(n.Reasons, func(w string) bool { return strings.Contains(w, "for others") }) {
				t.Errorf("%+v", n)
			}
		}
		stored += runs[2].res.Total.Stored

		again := c.start(2)
		c.wait(runs[0], runs[1], again)
		c.check()
		if stored == 0 || stored >= int64(c.web.pages) || s.State != "running" {
			t.Errorf("%s with %d pages of %d", s.State, stored, c.web.pages)
		}
		if s := c.look(); s.State != "finished" || len(s.Nodes[0].Reasons) != 0 {
			t.Errorf("in the end: %+v", s)
		}
	})
}

// give sends the first pages of the chain as seeds.
func (c *testCluster) give(pages int) (cluster.Given, error) {
	return cluster.Give(c.t.Context(), c.engine.Connect("visitor"), func(yield func(string, error) bool) {
		for n := c.web.pages - c.web.loose; n < c.web.pages-c.web.loose+pages; n++ {
			if !yield(c.web.url(n), nil) {
				return
			}
		}
	})
}

// TestClusterSeeds: seeds that are given to a crawl that goes on are crawled by the nodes whose
// hosts they are of. Those for a node that is away are not given.
func TestClusterSeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCluster(t, treeWeb{pages: 500, hosts: 25, fan: 3, loose: 60}, 3)
		c.slow = func() time.Duration { return 3 * time.Second } // so that the crawl does not end before
		if _, err := c.give(60); !errors.Is(err, cluster.ErrUndivided) {
			t.Errorf("before there is a crawl: %v", err)
		}
		runs := []*nodeRun{c.start(0), c.start(1), c.start(2)}
		time.Sleep(5 * time.Second)
		runs[2].stop(nil)
		<-runs[2].done
		given, err := c.give(60)
		missing := given.Away["n2"]
		if err != nil || missing == 0 || len(given.Away) != 1 || given.Taken+missing != int64(c.web.loose) {
			t.Errorf("with a node away: %+v, %v", given, err)
		}
		runs[2] = c.start(2)
		time.Sleep(500 * time.Millisecond)
		if given, err = c.give(60); err != nil || given.Taken != int64(c.web.loose) {
			t.Errorf("with all nodes: %+v, %v", given, err)
		}
		c.wait(runs...)
		c.check()
		if _, err := c.give(60); !errors.Is(err, cluster.ErrEnded) {
			t.Errorf("after the end: %v", err)
		}
	})
}
