package crawler_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"urltree/crawler"
	"urltree/internal/cluster"
	"urltree/internal/cluster/memory"
)

// A stepWeb is a web of many ways to each page, which answers after random times. Page n has links
// to ten others; one of eleven is broken.
type stepWeb struct {
	pages, hosts int

	mu sync.Mutex
	r  *rand.Rand // guarded by mu; of the times
}

func (w *stepWeb) url(n int) string { return fmt.Sprintf("http://h%d.test/p%d", n%w.hosts, n) }

func (w *stepWeb) delay() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.r.IntN(20) == 0 {
		return time.Duration(w.r.IntN(20_000)) * time.Millisecond
	}
	return time.Duration(w.r.IntN(200)) * time.Millisecond
}

func (w *stepWeb) fetch(ctx context.Context, url string) (crawler.Content, error) {
	select {
	case <-time.After(w.delay()):
	case <-ctx.Done():
		return crawler.Content{}, ctx.Err()
	}
	var host, n int
	if _, err := fmt.Sscanf(url, "http://h%d.test/p%d", &host, &n); err != nil {
		return crawler.Content{}, err
	}
	if n%11 == 7 {
		return crawler.Content{}, errors.New("broken")
	}
	var body strings.Builder
	r := rand.New(rand.NewPCG(uint64(n), 1))
	for range 10 {
		fmt.Fprintf(&body, "<a href=%q>x</a>\n", w.url(r.IntN(w.pages)))
	}
	return crawler.Content{Body: []byte(body.String()), Media: "text/html"}, nil
}

// A lateBus is an engine from which news of others come late.
type lateBus struct {
	cluster.Bus
	web *stepWeb
}

func (b lateBus) Watch(ctx context.Context, t cluster.Table, fn func(cluster.Entry)) error {
	return b.Bus.Watch(ctx, t, func(e cluster.Entry) {
		time.Sleep(b.web.delay())
		fn(e)
	})
}

// A stepCrawl is one crawl in supersteps, of a process or of several nodes.
type stepCrawl struct {
	t      *testing.T
	web    *stepWeb
	dir    string
	nodes  int // 0: no cluster
	lives  int
	engine *memory.Engine
	set    func(*crawler.Options)
}

func (c *stepCrawl) start(node int) *nodeRun {
	c.lives++
	dir := filepath.Join(c.dir, fmt.Sprint(node))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		c.t.Fatal(err)
	}
	o := crawler.Options{
		Tree:      filepath.Join(dir, "iut"),
		Output:    filepath.Join(dir, "res.txt"),
		Storage:   crawler.Storage{NoSync: true, MinFree: -1, Store: crawler.StoreWARC},
		Resources: crawler.Resources{Crawlers: 2, Downloads: 3, Buffers: 2},
		Ordering:  crawler.Ordering{Step: 15},
		Fetch:     c.web.fetch,
	}
	c.set(&o)
	if c.nodes > 0 {
		name := fmt.Sprint("n", node)
		o.Cluster = cluster.New(cluster.Options{
			Bus: lateBus{c.engine.Connect(name), c.web}, Name: name, Boot: fmt.Sprint("boot", c.lives), Nodes: c.nodes, Bulk: true,
			Log: slog.New(slog.NewTextHandler(c.t.Output(), nil)).With("node", node),
		})
	}
	if node == 0 {
		o.Seeds = []string{c.web.url(0)}
	}
	o.AnswerNobody()
	ctx, stop := context.WithCancelCause(c.t.Context())
	run := &nodeRun{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(run.done)
		run.res, run.err = crawler.Run(ctx, o)
	}()
	return run
}

// crawlInSteps crawls with answers in times of a seed, and returns what each node has come to. With
// stops, nodes are stopped now and then, and started again.
func crawlInSteps(t *testing.T, nodes, seed, stops int, set func(*crawler.Options)) (traces []string) {
	synctest.Test(t, func(t *testing.T) {
		c := &stepCrawl{t: t, dir: t.TempDir(), nodes: nodes, set: set}
		c.web = &stepWeb{pages: 200, hosts: 30, r: rand.New(rand.NewPCG(uint64(seed), 3))}
		c.engine = memory.New(cluster.Config{Crawl: "test", Partitions: cluster.Partitions, TTL: 15 * time.Second})
		r := rand.New(rand.NewPCG(uint64(seed), 4))
		runs := make([]*nodeRun, max(nodes, 1))
		for node := range runs {
			runs[node] = c.start(node)
		}
		for range stops {
			time.Sleep(time.Duration(r.IntN(60)) * time.Second)
			node := r.IntN(len(runs))
			runs[node].stop(nil)
			<-runs[node].done
			if err := runs[node].err; err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(r.IntN(20)) * time.Second)
			runs[node] = c.start(node)
		}
		all := 0
		for node, run := range runs {
			select {
			case <-run.done:
			case <-time.After(100 * time.Hour):
				t.Fatalf("seed %d: node %d goes on", seed, node)
			}
			if run.err != nil || run.res.Ended != "nothing left" {
				t.Fatalf("node %d: %s, %v", node, run.res.Ended, run.err)
			}
			dir := filepath.Join(c.dir, fmt.Sprint(node))
			requireChecked(t, dir)
			all += len(crawled(t, filepath.Join(dir, "res.txt")))
			traces = append(traces, fmt.Sprint(run.res.Steps, " ", run.res.Trace))
		}
		if all < 150 {
			t.Errorf("%d pages are stored", all)
		}
	})
	return traces
}

// TestSteps: a crawl in supersteps is the same in ten runs whose answers take random times, of one
// process and of nodes, by depth and by scores that add up; also if it is stopped now and then.
func TestSteps(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		nodes, stops int
		order        crawler.Order
	}{
		{"alone", 0, 0, crawler.OrderBreadth},
		{"alone by score", 0, 0, crawler.OrderPriority},
		{"alone, stopped", 0, 5, crawler.OrderBreadth},
		{"one node", 1, 0, crawler.OrderBreadth},
		{"three nodes", 3, 0, crawler.OrderBreadth},
		{"three nodes by score", 3, 0, crawler.OrderPriority},
		{"three nodes, stopped", 3, 5, crawler.OrderBreadth},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			runs := 10
			if testing.Short() && tt.name != "three nodes by score" {
				runs = 2
			}
			set := func(o *crawler.Options) { o.Order = tt.order }
			first := crawlInSteps(t, tt.nodes, 0, 0, set)
			t.Log(first)
			for seed := range runs {
				if traces := crawlInSteps(t, tt.nodes, seed, tt.stops, set); !slices.Equal(traces, first) {
					t.Errorf("run %d came to %v, the first to %v", seed, traces, first)
				}
			}
		})
	}
}

// TestStepTime: a step that takes too long ends, and what it has not asked for comes in the next
// one; so a host whose pages take long holds others up for so long, and no page is lost.
func TestStepTime(t *testing.T) {
	crawl := func(limit time.Duration) (res crawler.Result, second time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			o := crawler.Options{
				NoTree:     true,
				Ordering:   crawler.Ordering{Step: 100, StepTime: limit},
				Politeness: crawler.Politeness{Delay: 10 * time.Second},
				Storage:    crawler.Storage{MinFree: -1},
				Seeds:      []string{"http://slow.test/"},
				Fetch: func(_ context.Context, url string) (crawler.Content, error) {
					var body strings.Builder
					switch url {
					case "http://slow.test/":
						for i := range 50 {
							fmt.Fprintf(&body, "<a href=/%d>x</a>\n", i)
						}
						body.WriteString("<a href=http://fast.test/>x</a>")
					case "http://fast.test/":
						body.WriteString("<a href=http://fast.test/second>x</a>")
					case "http://fast.test/second":
						second = time.Since(begin)
					}
					return crawler.Content{Body: []byte(body.String()), Media: "text/html"}, nil
				},
			}
			o.AnswerNobody()
			var err error
			if res, err = crawler.Run(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			if res.Run.Stored != 53 || res.Ended != "nothing left" {
				t.Errorf("%d pages, %s", res.Run.Stored, res.Ended)
			}
		})
		return res, second
	}
	whole, late := crawl(0)
	cut, early := crawl(time.Minute)
	if whole.Steps != 3 || late < 500*time.Second {
		t.Errorf("without a limit: %d steps, the second page of the fast host after %v", whole.Steps, late)
	}
	if cut.Steps < 8 || cut.Steps > 12 || early > 2*time.Minute {
		t.Errorf("with a limit: %d steps, the second page of the fast host after %v", cut.Steps, early)
	}
}

// TestStepsRecrawl: pages that are asked again go in supersteps as well, each once.
func TestStepsRecrawl(t *testing.T) {
	dir := t.TempDir()
	var mu sync.Mutex
	asked := map[string]int{}
	web := &stepWeb{pages: 60, hosts: 7, r: rand.New(rand.NewPCG(1, 1))}
	crawl := func(recrawl time.Duration) (res crawler.Result) {
		synctest.Test(t, func(t *testing.T) {
			o := crawler.Options{
				Tree:     filepath.Join(dir, "iut"),
				Output:   filepath.Join(dir, "res.txt"),
				Storage:  crawler.Storage{NoSync: true, MinFree: -1},
				Seeds:    []string{web.url(0)},
				Ordering: crawler.Ordering{Step: 10},
				Revisits: crawler.Revisits{Recrawl: recrawl},
				Fetch: func(ctx context.Context, url string) (crawler.Content, error) {
					mu.Lock()
					asked[url]++
					mu.Unlock()
					return web.fetch(ctx, url)
				},
			}
			o.AnswerNobody()
			var err error
			if res, err = crawler.Run(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		})
		return res
	}
	first := crawl(0)
	stored := crawled(t, filepath.Join(dir, "res.txt"))
	again := crawl(crawler.RecrawlNow)
	if again.Steps <= first.Steps || again.Ended != "nothing left" {
		t.Errorf("%d steps, then %d, %s", first.Steps, again.Steps, again.Ended)
	}
	for _, url := range stored {
		if asked[url] != 2 {
			t.Errorf("%s was asked %d times", url, asked[url])
		}
	}
	requireChecked(t, dir)
}
