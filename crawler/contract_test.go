package crawler_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"urltree/crawler"
	"urltree/storage/record"
)

// A linkGraph is source C's web: the pages by URL, each with its links in page order.
type linkGraph map[string][]string

const graphSite = "http://graph.example/"

// newLinkGraph makes a graph of n pages that all can be reached from the first, with cycles, links
// to the page itself, repeated ones, and broken ones, of which there are about n/10.
func newLinkGraph(n int, seed uint64) linkGraph {
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	name := func(i int) string { return fmt.Sprintf("%sp%d", graphSite, i) }
	g := make(linkGraph, n)
	for i := range n {
		links := make([]string, 0, 8)
		for range rng.IntN(4) {
			links = append(links, name(rng.IntN(n)))
		}
		if i%10 == 3 {
			links = append(links, name(i), fmt.Sprintf("%sbroken%d", graphSite, i))
		}
		if len(links) > 0 && i%3 == 0 {
			links = append(links, links[0])
		}
		g[name(i)] = links
	}
	for i := 1; i < n; i++ {
		from := name(rng.IntN(i))
		at := rng.IntN(len(g[from]) + 1)
		g[from] = slices.Insert(g[from], at, name(i))
	}
	return g
}

// page writes a page in source C's format.
func (g linkGraph) page(url string) (crawler.Content, error) {
	links, ok := g[url]
	if !ok {
		return crawler.Content{}, errors.New("broken link")
	}
	var b strings.Builder
	for _, l := range links {
		fmt.Fprintf(&b, "some text\nlink: %s\n", l)
	}
	return crawler.Content{Body: []byte(b.String()), Media: crawler.LinkLines}, nil
}

// A watcher counts what the call-backs of a crawl of a graph are told.
type watcher struct {
	mu      sync.Mutex
	fetched map[string]int      // guarded by mu, as is all below
	edges   map[string][]string // by page, in the order of the calls
	busy    map[string]bool     // pages of which Edge is being called
	broken  map[string]string   // failed URLs, and the reason
	stored  int
	faults  []string
}

func (w *watcher) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

func (w *watcher) watch(g linkGraph, o *crawler.Options) {
	w.fetched, w.edges = map[string]int{}, map[string][]string{}
	w.busy, w.broken = map[string]bool{}, map[string]string{}
	o.Fetch = func(_ context.Context, url string) (crawler.Content, error) {
		w.mu.Lock()
		w.fetched[url]++
		w.mu.Unlock()
		return g.page(url)
	}
	o.Edge = func(from, to string) {
		w.mu.Lock()
		if w.busy[from] {
			w.fault("two calls of Edge at once for %s", from)
		}
		w.busy[from] = true
		w.mu.Unlock()
		w.mu.Lock() // others may come in between
		w.edges[from] = append(w.edges[from], to)
		w.busy[from] = false
		w.mu.Unlock()
	}
	o.OnOutcome = func(out crawler.Outcome) {
		w.mu.Lock()
		defer w.mu.Unlock()
		switch out.State {
		case record.Stored:
			w.stored++
		case record.Failed:
			w.broken[out.URL] = out.Reason
		default:
			w.fault("%s is %s %s", out.URL, out.State, out.Reason)
		}
	}
}

// require compares what was told with the graph.
func (w *watcher) require(t *testing.T, g linkGraph) {
	t.Helper()
	broken := map[string]string{}
	for _, links := range g {
		for _, to := range links {
			if _, ok := g[to]; !ok {
				broken[to] = "fetch"
			}
		}
	}
	if !maps.Equal(w.broken, broken) {
		t.Errorf("broken links: %d, want %d", len(w.broken), len(broken))
	}
	if w.stored != len(g) || len(w.fetched) != len(g)+len(broken) {
		t.Errorf("%d pages stored, %d URLs fetched; want %d, %d", w.stored, len(w.fetched), len(g), len(g)+len(broken))
	}
	for url, n := range w.fetched {
		if n != 1 {
			t.Errorf("%s fetched %d times", url, n)
		}
	}
	for url, links := range g {
		if !slices.Equal(w.edges[url], links) {
			t.Errorf("edges of %s: %q, want %q", url, w.edges[url], links)
		}
		delete(w.edges, url)
	}
	for url := range w.edges {
		t.Errorf("edges of %s, which is no page", url)
	}
	for _, f := range w.faults {
		t.Error(f)
	}
}

// TestContract is source C's contract, with pools from 1 to 64 workers and small queues.
func TestContract(t *testing.T) {
	full := os.Getenv("TEST_URLTREE_FULL") != ""
	for i, size := range []struct{ downloads, parsers, queue, pages int }{
		{1, 1, 1, 60},
		{1, 1, 2, 60},
		{1, 1, 100, 300},
		{1, 64, 1, 300},
		{64, 1, 1, 300},
		{64, 64, 1, 1000},
		{64, 64, 2, 1000},
		{64, 64, 100, 1000},
		{2, 3, 1, 300},
		{8, 4, 100, 1000},
		{3, 8, 0, 300},
		{8, 8, 100, 100_000}, // without a tree
	} {
		t.Run(fmt.Sprintf("%d downloads %d parsers queue %d pages %d", size.downloads, size.parsers, size.queue, size.pages), func(t *testing.T) {
			most := 1500
			if testing.Short() {
				most = 150
			}
			if !full {
				size.pages = min(size.pages, most)
			}
			g := newLinkGraph(size.pages, 1)
			var w watcher
			dir, withTree := t.TempDir(), i%3 == 1
			o := crawler.Options{
				NoTree:    !withTree,
				Seeds:     []string{graphSite + "p0"},
				Resources: crawler.Resources{Crawlers: 1, Downloads: size.downloads, Parsers: size.parsers, QueueSize: size.queue},
			}
			if withTree {
				o.Tree, o.Output = filepath.Join(dir, "iut"), filepath.Join(dir, "res.txt")
			}
			w.watch(g, &o)
			res, err := crawler.Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if res.Ended != "nothing left" || res.Total.Pending() != 0 {
				t.Errorf("ended: %s, %d pending", res.Ended, res.Total.Pending())
			}
			w.require(t, g)
			if withTree {
				requireSame(t, crawled(t, o.Output), g.urls())
				requireChecked(t, dir)
			}
		})
	}
}
