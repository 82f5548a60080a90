package crawler_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"urltree/crawler"
	"urltree/internal/cluster"
	"urltree/internal/cluster/batch"
	"urltree/internal/cluster/memory"
)

// The coders of batches are shared: they have to be made outside the bubbles of synctest.
func init() {
	body, _, err := batch.Pack([]batch.Record{{URL: "http://a.test/"}}, batch.Zstd)
	if err == nil {
		_, err = batch.Unpack(body)
	}
	if err != nil {
		panic(err)
	}
}

// A treeWeb is a web that is a tree: one page links to each other one, so that one link that is
// lost can be seen. Page n is on host n mod hosts, and links to pages n*fan+1 to n*fan+fan.
// The last ones, loose in number, are a chain: no page links to its first one.
type treeWeb struct{ pages, hosts, fan, loose int }

func (w treeWeb) url(n int) string { return fmt.Sprintf("http://h%d.test/p%d", n%w.hosts, n) }

func (w treeWeb) urls() map[string]bool {
	urls := map[string]bool{}
	for n := range w.pages {
		urls[w.url(n)] = true
	}
	return urls
}

func (w treeWeb) page(url string) string {
	var n int
	if _, err := fmt.Sscanf(url[strings.LastIndex(url, "/"):], "/p%d", &n); err != nil {
		panic(err)
	}
	var body strings.Builder
	for k := n*w.fan + 1; k <= n*w.fan+w.fan && k < w.pages-w.loose; k++ {
		fmt.Fprintf(&body, "<a href=%q>x</a>\n", w.url(k))
	}
	if n >= w.pages-w.loose && n+1 < w.pages {
		fmt.Fprintf(&body, "<a href=%q>x</a>\n", w.url(n+1))
	}
	return body.String()
}

// A fetchLog notes which node has asked for what, and when, over all of them.
type fetchLog struct {
	mu    sync.Mutex
	asked []asked
}

type asked struct {
	node, host, url string
	start, end      time.Time
	whole           bool // it was answered
}

func (l *fetchLog) add(a asked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, a)
}

func (l *fetchLog) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.asked)
}

// check fails the test where two nodes asked a host at once.
func (l *fetchLog) check(t *testing.T) {
	t.Helper()
	byHost := map[string][]asked{}
	for _, a := range l.asked {
		byHost[a.host] = append(byHost[a.host], a)
	}
	for host, list := range byHost {
		slices.SortFunc(list, func(a, b asked) int { return a.start.Compare(b.start) })
		var last map[string]time.Time = map[string]time.Time{} // the end of the last request of each node
		for _, a := range list {
			for node, end := range last {
				if node != a.node && end.After(a.start) {
					t.Errorf("%s and %s asked %s at once", node, a.node, host)
				}
			}
			if a.end.After(last[a.node]) {
				last[a.node] = a.end
			}
		}
	}
}

// A nodeRun is one life of a node.
type nodeRun struct {
	stop  context.CancelCauseFunc
	done  chan struct{}
	res   crawler.Result
	err   error
	end   time.Time
	began time.Time
}

// A testCluster runs nodes of one crawl, all in this process.
type testCluster struct {
	t      *testing.T
	web    treeWeb
	engine *memory.Engine
	dir    string
	nodes  int // with a folder
	least  int // that divide the hosts
	log    fetchLog
	slow   func() time.Duration // of an answer
	alter  func(*crawler.Options)
	lives  int
}

func newTestCluster(t *testing.T, web treeWeb, nodes int) *testCluster {
	c := &testCluster{t: t, web: web, dir: t.TempDir(), nodes: nodes, least: nodes, slow: func() time.Duration { return 50 * time.Millisecond }}
	c.engine = memory.New(cluster.Config{Crawl: "test", Partitions: cluster.Partitions, TTL: 15 * time.Second})
	return c
}

func (c *testCluster) folder(node int) string { return filepath.Join(c.dir, fmt.Sprint(node)) }

// start begins a life of a node. The first one has the seed.
func (c *testCluster) start(node int) *nodeRun {
	name := fmt.Sprint("n", node)
	c.lives++
	ctx, stop := context.WithCancelCause(c.t.Context())
	run := &nodeRun{stop: stop, done: make(chan struct{}), began: time.Now()}
	o := crawler.Options{
		Tree:      filepath.Join(c.folder(node), "iut"),
		Output:    filepath.Join(c.folder(node), "res.txt"),
		Storage:   crawler.Storage{NoSync: true, MinFree: -1},
		Resources: crawler.Resources{Crawlers: 2, Buffers: 1},
		Cluster: cluster.New(cluster.Options{
			Bus: c.engine.Connect(name), Name: name, Boot: fmt.Sprint("boot", c.lives), Nodes: c.least,
			Log: slog.New(slog.NewTextHandler(c.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})).With("node", node),
		}),
		Fetch: func(ctx context.Context, url string) (crawler.Content, error) {
			start := time.Now()
			var err error
			select {
			case <-time.After(c.slow()):
			case <-ctx.Done():
				err = ctx.Err()
			}
			host, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
			c.log.add(asked{name, host, url, start, time.Now(), err == nil})
			return crawler.Content{Body: []byte(c.web.page(url)), Media: "text/html"}, err
		},
	}
	o.AnswerNobody()
	if err := os.MkdirAll(c.folder(node), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if node == 0 {
		o.Seeds = []string{c.web.url(0)}
	}
	if c.alter != nil {
		c.alter(&o)
	}
	go func() {
		defer close(run.done)
		run.res, run.err = crawler.Run(ctx, o)
		run.end = time.Now()
	}()
	return run
}

// wait returns when a node has ended, which it must.
func (c *testCluster) wait(runs ...*nodeRun) {
	c.t.Helper()
	for i, run := range runs {
		select {
		case <-run.done:
		case <-time.After(time.Hour):
			for _, run := range runs {
				c.t.Log(run.res.Ended, run.err)
			}
			buf := make([]byte, 1<<20)
			c.t.Fatalf("node %d goes on:\n%s", i, buf[:runtime.Stack(buf, true)])
		}
		if run.err != nil {
			c.t.Fatalf("node %d: %v", i, run.err)
		}
	}
}

// check compares what the trees of all nodes have together with the web, and requires that no page
// is in two.
func (c *testCluster) check() {
	c.t.Helper()
	c.complete(false)
}

// complete compares what the trees have together with the web.
func (c *testCluster) complete(repeats bool) {
	c.t.Helper()
	owner := map[string]int{}
	for node := range c.nodes {
		for _, url := range crawled(c.t, filepath.Join(c.folder(node), "res.txt")) {
			if other, twice := owner[url]; twice && !repeats {
				c.t.Errorf("%s is in the trees of nodes %d and %d", url, other, node)
			}
			owner[url] = node
		}
		requireChecked(c.t, c.folder(node))
	}
	lost := 0
	for url := range c.web.urls() {
		if _, ok := owner[url]; !ok {
			lost++
			c.t.Logf("lost: %s", url)
		}
	}
	if lost > 0 || len(owner) != c.web.pages {
		c.t.Errorf("%d pages of %d are lost", lost, c.web.pages)
	}
	c.log.check(c.t)
}

// TestCluster: nodes of one crawl find the whole web together, each asks the hosts that are its
// own, and all of them end soon after the last page.
func TestCluster(t *testing.T) {
	for _, nodes := range []int{1, 2, 3} {
		synctest.Test(t, func(t *testing.T) {
			c := newTestCluster(t, treeWeb{pages: 300, hosts: 40, fan: 3}, nodes)
			var runs []*nodeRun
			for node := range nodes {
				runs = append(runs, c.start(node))
			}
			c.wait(runs...)
			c.check()
			last := slices.MaxFunc(c.log.asked, func(a, b asked) int { return a.end.Compare(b.end) })
			for node, run := range runs {
				if run.res.Ended != "nothing left" {
					t.Errorf("node %d: %s", node, run.res.Ended)
				}
				// Until the page is committed, its links sent, merged and confirmed, each with a flush
				// interval of a second at most, and two seconds more.
				if late := run.end.Sub(last.end); late > 5*time.Second {
					t.Errorf("node %d of %d ended %v after the last page", node, nodes, late)
				}
			}
			if used := len(slices.Compact(slices.Sorted(maps.Values(c.hosts())))); used != nodes {
				t.Errorf("%d of %d nodes asked", used, nodes)
			}
		})
	}
}

// hosts returns which node has asked each host last.
func (c *testCluster) hosts() map[string]string {
	by := map[string]string{}
	for _, a := range c.log.asked {
		by[a.host] = a.node
	}
	return by
}

// TestClusterStops: nodes that are stopped at any time and started again, one or all, and an engine
// that is away for a while, lose nothing and end nothing too early.
func TestClusterStops(t *testing.T) {
	for seed := range 12 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { stops(t, rand.New(rand.NewPCG(uint64(seed), 7))) })
		})
	}
}

func stops(t *testing.T, r *rand.Rand) {
	const nodes = 2
	c := newTestCluster(t, treeWeb{pages: 200, hosts: 25, fan: 2}, nodes)
	runs := make([]*nodeRun, nodes)
	for node := range runs {
		runs[node] = c.start(node)
	}
	for range 4 {
		time.Sleep(time.Duration(r.IntN(4000)) * time.Millisecond)
		switch what := r.IntN(3); what {
		case nodes: // the engine
			c.engine.SetDown(true)
			time.Sleep(time.Duration(r.IntN(30)) * time.Second)
			c.engine.SetDown(false)
		default:
			runs[what].stop(nil)
			c.wait(runs[what])
			time.Sleep(time.Duration(r.IntN(20)) * time.Second)
			runs[what] = c.start(what)
		}
	}
	c.wait(runs...)
	for node, run := range runs {
		if run.res.Ended != "nothing left" {
			t.Errorf("node %d: %s", node, run.res.Ended)
		}
	}
	c.check()
}

// TestClusterLease: nodes that cannot renew their leases ask nothing from two thirds of their time
// on, and go on by themselves.
func TestClusterLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newTestCluster(t, treeWeb{pages: 300, hosts: 30, fan: 10}, 2)
		c.slow = func() time.Duration { return 3 * time.Second }
		runs := []*nodeRun{c.start(0), c.start(1)}
		time.Sleep(12 * time.Second)
		down := time.Now()
		c.engine.SetDown(true)
		time.Sleep(time.Minute)
		up := time.Now()
		c.engine.SetDown(false)
		c.wait(runs...)
		c.check()
		before, after := 0, 0
		for _, a := range c.log.asked {
			switch at := a.start.Sub(down); {
			case at > 10*time.Second && a.start.Before(up):
				t.Errorf("%s asked %s, %v after the engine was gone", a.node, a.url, at)
			case at > 0 && a.start.Before(up):
				before++
			case at > 0:
				after++
			}
		}
		if before == 0 || after == 0 {
			t.Errorf("%d requests on what was left of the leases, %d after the engine was back", before, after)
		}
	})
}
