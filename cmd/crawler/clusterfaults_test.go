package main

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"urltree/internal/cluster"
	"urltree/internal/testseed"
)

// A faultyCluster is a crawl of three processes with a server beside them, to which things happen.
type faultyCluster struct {
	t      *testing.T
	r      *rand.Rand
	web    *branchedWeb
	server *serverProcess
	nodes  []*processNode
	old    string // copy of the server's store, of some time before
	last   bool   // nothing else happens to it afterwards
}

// newFaultyCluster returns a crawl of a web that begins once some of its nodes are there. The
// server runs, and no node does.
func newFaultyCluster(t *testing.T, pages, nodes, begin int) *faultyCluster {
	c := &faultyCluster{t: t, r: rand.New(rand.NewPCG(testseed.Draw(t), 0)), web: newBranchedWeb(t, pages)}
	c.server = newServerProcess(t, freeEngine())
	c.nodes = nodesOf(t, c.web, c.server.address, nodes)
	for _, n := range c.nodes {
		n.args[slices.Index(n.args, "-cluster-nodes")+1] = strconv.Itoa(begin)
	}
	c.server.start()
	return c
}

// clusterFaults are what may happen. While one is played the web answers few pages more than were
// crawled when it began, so that the crawl cannot end before.
var clusterFaults = []struct {
	name string
	play func(*faultyCluster)
}{
	{"a node is killed", func(c *faultyCluster) {
		n := c.any()
		n.kill()
		n.start()
	}},
	{"the engine is killed", (*faultyCluster).outage},
	{"all are killed", func(c *faultyCluster) {
		c.server.kill()
		for _, n := range c.nodes {
			n.kill()
		}
		c.server.start()
		for _, n := range c.nodes {
			n.start()
		}
	}},
	{"the engine comes back with an old store", func(c *faultyCluster) {
		n := c.any() // it may have what the engine has lost, unless it is gone as well
		n.kill()
		c.server.kill()
		c.server.rollBack(c.old)
		c.server.start()
		n.start()
	}},
	{"the engine comes back with nothing", func(c *faultyCluster) {
		c.server.kill()
		if err := os.RemoveAll(c.server.store); err != nil {
			c.t.Fatal(err)
		}
		c.server.start()
	}},
	{"a node is paused until its lease is over", (*faultyCluster).paused},
	{"confirmations are lost", (*faultyCluster).unconfirmed},
	{"the stream is full", (*faultyCluster).full},
	{"a second process has the name of a node", (*faultyCluster).twins},
}

// TestClusterFaults: three processes crawl a web whole with a server beside them, each page in one
// tree and no host asked by two at once, whatever happens at random times.
func TestClusterFaults(t *testing.T) {
	t.Parallel()
	pages, times := 1000, 3
	switch {
	case os.Getenv("TEST_URLTREE_FULL") != "":
		pages, times = 4000, 20
	case testing.Short():
		pages, times = 300, 1
	}
	for _, tt := range clusterFaults {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newFaultyCluster(t, pages, 3, 3)
			moments := make([]int, times)
			for i := range moments {
				moments[i] = 1 + c.r.IntN(pages*3/4)
			}
			slices.Sort(moments)
			c.web.hold(moments[0])
			for _, n := range c.nodes {
				n.start()
			}
			for i, pages := range moments {
				c.last = i == times-1
				c.old = c.copyStore()
				c.web.hold(pages + c.r.IntN(30))
				c.web.until(pages)
				tt.play(c)
			}
			c.web.hold(0)
			for _, n := range c.nodes {
				n.ends()
			}
			c.web.check(c.nodes)
		})
	}
}

func (c *faultyCluster) any() *processNode { return c.nodes[c.r.IntN(len(c.nodes))] }

// copyStore copies the store of the server while it runs. Files that go meanwhile begin it anew.
func (c *faultyCluster) copyStore() (dir string) {
	for {
		dir = filepath.Join(c.t.TempDir(), "copy")
		err := os.CopyFS(dir, os.DirFS(c.server.store))
		if err == nil {
			return dir
		}
		if !errors.Is(err, fs.ErrNotExist) {
			c.t.Fatal(err)
		}
	}
}

// becomes waits until ok.
func (c *faultyCluster) becomes(what string, ok func() bool) {
	c.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("not after %s: %s", patience, what)
		}
	}
}

// rests waits until a node says why it asks nothing.
func (c *faultyCluster) rests(n *processNode) {
	c.t.Helper()
	said := ""
	c.t.Cleanup(func() {
		if c.t.Failed() {
			c.t.Logf("node %s said last: %s", n.name, said)
		}
	})
	c.becomes("node "+n.name+" rests", func() bool {
		said, _, _ = call(c.t, n.dir, "stats")
		return strings.Contains(said, "the engine of the cluster") // the line is cut off
	})
}

// outage: without the engine nodes ask nothing, whatever is answered meanwhile, and go on once it
// is back.
func (c *faultyCluster) outage() {
	c.server.kill()
	c.silent()
	c.server.start()
}

// settled waits until what some nodes were writing when they came to rest has arrived, and returns
// how many requests these have made.
func (c *faultyCluster) settled(of func() []request) (n int) {
	c.t.Helper()
	n = -1
	c.becomes("nothing more arrives", func() bool {
		before := n
		n = len(of())
		return n == before
	})
	return n
}

// silent fails the test if anything is asked in the time of a lease, though the web answers all,
// once all nodes rest.
func (c *faultyCluster) silent() {
	c.t.Helper()
	for _, n := range c.nodes {
		c.rests(n)
	}
	before := c.settled(c.web.requests)
	c.web.hold(0)
	time.Sleep(nodeLease) // nothing is to be seen: there is nothing to wait for
	if n := len(c.web.requests()) - before; n > 0 {
		c.t.Errorf("%d requests without the engine", n)
	}
}

// paused: a node that stands still until its lease is over asks nothing when it wakes, until it has
// its lease again, which the engine that is away keeps it from.
func (c *faultyCluster) paused() {
	n := c.any()
	_ = n.cmd.Process.Signal(syscall.SIGSTOP)
	js, stop := c.connect()
	c.becomes("the lease of node "+n.name+" is over", func() bool { return !c.leased(js, n) })
	stop()
	c.server.kill()
	before := len(c.from(n))
	_ = n.cmd.Process.Signal(syscall.SIGCONT)
	c.rests(n)
	if asked := c.settled(func() []request { return c.from(n) }) - before; asked > len(c.web.hosts) { // one that was being written at each
		c.t.Errorf("%d requests of a node whose lease was over", asked)
	}
	c.silent()
	c.server.start()
}

// from returns the requests of a node.
func (c *faultyCluster) from(n *processNode) []request {
	return slices.DeleteFunc(c.web.requests(), func(r request) bool { return r.from != n.address })
}

// unconfirmed: confirmations do not reach the senders of batches, which keep them, so that the
// crawl is not finished, and send them again.
func (c *faultyCluster) unconfirmed() {
	c.server.configure("mappings { \"cr.web1.ack.*\": \"lost.$1\" }\n")
	c.goesOn(c.last)
	c.server.configure("mappings { \"cr.web1.ack.*\": \"cr.web1.ack.$1\" }\n") // none would leave that of before
	if testing.Short() {                                                       // they are sent again after half a minute, and at a new connection
		c.server.kill()
		c.server.start()
	}
}

// full: the engine has no room for a batch. Their senders keep them.
func (c *faultyCluster) full() {
	js, stop := c.connect()
	defer stop()
	const nobody = "cr.web1.url.0.9999" // what no node receives
	limit := func(messages int64) {
		stream, err := js.Stream(c.t.Context(), "CR_web1_URL_0")
		if err == nil {
			cfg := stream.CachedInfo().Config
			cfg.MaxMsgs = messages
			stream, err = js.UpdateStream(c.t.Context(), cfg)
		}
		if err == nil && messages < 0 {
			err = stream.Purge(c.t.Context(), jetstream.WithPurgeSubject(nobody))
		}
		if err != nil {
			c.t.Fatal(err)
		}
	}
	if _, err := js.Publish(c.t.Context(), nobody, nil); err != nil {
		c.t.Fatal(err)
	}
	limit(1)
	c.goesOn(true)
	if _, err := js.Publish(c.t.Context(), nobody, nil); err == nil {
		c.t.Error("the stream was not full")
	}
	limit(-1)
}

// goesOn fails the test if a node ends although links wait in outboxes: once some do, and with all
// once nothing else is left anywhere.
func (c *faultyCluster) goesOn(all bool) {
	c.t.Helper()
	c.web.hold(0)
	c.nodes[0].untilStatus(func(s *cluster.Status) bool {
		c.here()
		outbox, pending := int64(0), int64(0)
		for i := range s.Nodes {
			outbox, pending = outbox+s.Nodes[i].Outbox, pending+s.Nodes[i].Pending
		}
		return outbox > 0 && (pending == 0 || !all)
	})
	c.here()
}

// here fails the test if a node has ended.
func (c *faultyCluster) here() {
	c.t.Helper()
	for _, n := range c.nodes {
		select {
		case <-n.done:
			c.t.Fatalf("node %s has ended:\n%s", n.name, n.errs.String())
		default:
		}
	}
}

// twins: a second process of a node ends by itself, and the first one goes on.
func (c *faultyCluster) twins() {
	n := c.any()
	_, stderr, code := call(c.t, c.t.TempDir(), n.args...)
	if code != 2 || !strings.Contains(stderr, "another process is node "+n.name) {
		c.t.Errorf("exit %d of the second process of a node:\n%s", code, stderr)
	}
}

// connect connects the test to the engine.
func (c *faultyCluster) connect() (js jetstream.JetStream, stop func()) {
	c.t.Helper()
	nc, err := natsgo.Connect(c.server.address)
	if err == nil {
		js, err = jetstream.New(nc)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return js, nc.Close
}

// leased reports whether the engine has the lease of a node.
func (c *faultyCluster) leased(js jetstream.JetStream, n *processNode) bool {
	c.t.Helper()
	table, err := js.KeyValue(c.t.Context(), "CR_web1_lease")
	if err == nil {
		_, err = table.Get(c.t.Context(), "node."+n.name)
	}
	if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
		c.t.Fatal(err)
	}
	return err == nil
}
