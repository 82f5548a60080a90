package crawler_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"urltree/crawler"
	"urltree/storage/record"
)

// A graph is a small web of pages, redirects and pages that are not to be kept, on hosts that
// take their time. Its depths are those of a breadth-first walk.
type graph struct {
	links    [][]int
	kind     []byte // p: page, r: redirect to links[0], n: noindex
	host     []int
	wait     []time.Duration
	distance []int // of each node from node 0; -1: none
}

const graphHosts = 5

func newGraph(rnd *rand.Rand, n int) *graph {
	g := &graph{
		links: make([][]int, n), kind: make([]byte, n), host: make([]int, n),
		wait: make([]time.Duration, n), distance: make([]int, n),
	}
	for i := range n {
		g.kind[i], g.host[i] = 'p', rnd.IntN(graphHosts)
		// The way along the numbers is long, and its answers come at once; the short cuts are slow.
		if i+1 < n {
			g.links[i] = append(g.links[i], i+1)
		}
		if rnd.IntN(3) == 0 {
			g.wait[i] = time.Duration(rnd.IntN(40)) * time.Millisecond
			for range rnd.IntN(4) {
				g.links[i] = append(g.links[i], rnd.IntN(n))
			}
		}
		switch k := rnd.IntN(8); {
		case i == 0 || i+1 == n:
		case k == 0:
			g.kind[i], g.links[i] = 'r', []int{i + 1 + rnd.IntN(min(5, n-i-1))}
		case k == 1:
			g.kind[i] = 'n'
		}
	}
	g.walk()
	return g
}

// walk finds the distances. A redirect's target is as far as the redirect.
func (g *graph) walk() {
	for i := range g.distance {
		g.distance[i] = -1
	}
	g.distance[0] = 0
	for changed := true; changed; {
		changed = false
		for i, links := range g.links {
			if g.distance[i] < 0 {
				continue
			}
			d := g.distance[i] + 1
			if g.kind[i] == 'r' {
				d--
			}
			for _, to := range links {
				if g.distance[to] < 0 || g.distance[to] > d {
					g.distance[to], changed = d, true
				}
			}
		}
	}
}

// linkedAt reports whether a page at a distance, no redirect, links to a node.
func (g *graph) linkedAt(to, distance int) bool {
	for i, links := range g.links {
		if g.distance[i] == distance && g.kind[i] != 'r' && slices.Contains(links, to) {
			return true
		}
	}
	return false
}

// TestShortestDepth crawls webs on which long ways are faster than short ones, with a limit of
// depth. Every URL within it has its outcome and its shortest depth; the links of the farthest
// are held, at one more; nothing else is known. A run without a limit and then one with it comes
// to the same depths, and a wider limit to those of a crawl that had it at once.
func TestShortestDepth(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 1))
			g := newGraph(rnd, 60)
			var origins []string
			url := func(i int) string { return fmt.Sprintf("%s/%d", origins[g.host[i]], i) }
			origins = hosts(t, graphHosts, func(_ int, rw http.ResponseWriter, r *http.Request) {
				i, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
				if err != nil || i >= len(g.kind) {
					http.NotFound(rw, r)
					return
				}
				select {
				case <-time.After(g.wait[i]):
				case <-r.Context().Done():
				}
				switch g.kind[i] {
				case 'r':
					http.Redirect(rw, r, url(g.links[i][0]), http.StatusFound)
					return
				case 'n':
					fmt.Fprint(rw, "<meta name=robots content=noindex>")
				}
				for _, to := range g.links[i] {
					fmt.Fprintf(rw, "<a href=%s>", url(to))
				}
			})
			dir := t.TempDir()
			opts := crawler.Options{
				Tree:       filepath.Join(dir, "iut"),
				Output:     filepath.Join(dir, "res.txt"),
				Seeds:      []string{url(0)},
				Politeness: crawler.Politeness{Delay: -1, PerHost: 3},
				HTTP:       crawler.HTTP{AllowPrivate: true},
				Resources:  crawler.Resources{FlushInterval: 2 * time.Millisecond, BufferSize: 5},
			}
			limits := []int{2 + rnd.IntN(3), 5 + rnd.IntN(3)}
			if seed%3 == 2 {
				limits = []int{0, limits[0]} // all of it first
			}
			for run, limit := range limits {
				opts.MaxDepth = limit
				if _, err := crawler.Run(context.Background(), opts); err != nil {
					t.Fatal(err)
				}
				requireChecked(t, dir)
				all := records(t, opts.Tree)
				for i, d := range g.distance {
					r, known := all[url(i)]
					switch {
					case limit == 0 || run > 0 && limits[0] == 0 && d > limit:
						if known != (d >= 0) {
							t.Errorf("run %d: %s at %d is not known", run, url(i), d)
						}
					case d <= limit && d >= 0:
						if !known || r.State == record.Pending || int(r.Depth) != d {
							t.Errorf("run %d to depth %d: %s at %d: %v at %d", run, limit, url(i), d, r.State, r.Depth)
						}
					case known && (r.State != record.Pending || r.Reason != record.HeldDepth || int(r.Depth) != limit+1 || d != limit+1):
						t.Errorf("run %d to depth %d: %s at %d: %v at %d (%s)", run, limit, url(i), d, r.State, r.Depth, r.Reason)
					case !known && d == limit+1 && g.linkedAt(i, limit):
						t.Errorf("run %d to depth %d: %s at %d is not known", run, limit, url(i), d)
					}
				}
			}
		})
	}
}
