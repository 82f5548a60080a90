package main

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"urltree/crawler"
	"urltree/internal/cluster"
	"urltree/internal/cluster/memory"
	"urltree/tools/lab/queues"
)

const (
	exchangeRobots = 96 // of all nodes together
	exchangeLinks  = 10 // of a page
	typicalAnswer  = 50 * time.Millisecond
	longestAnswer  = 30 * time.Second
)

// A graph is a web that is crawled in supersteps: pages by number, each with its links. What a page
// is worth is the number of links to it.
type graph struct {
	hosts int
	links [][exchangeLinks]int
	worth []float64
	takes []time.Duration // until it has answered: few take very long
}

// newGraph makes one in which two links of a page lead to pages that no others may lead to, four to
// the same host, and four to any, of which some have most links.
func newGraph(pages, hosts int) *graph {
	g := &graph{hosts: hosts, links: make([][exchangeLinks]int, pages), worth: make([]float64, pages), takes: make([]time.Duration, pages)}
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range pages {
		for i := range g.links[n] {
			to := int(float64(pages) * math.Pow(rng.Float64(), 3))
			switch {
			case i < 2:
				to = (2*n + 1 + i) % pages
			case i < 6:
				to = (n + hosts*rng.IntN(pages/hosts+1)) % pages
			}
			g.links[n][i] = to
			g.worth[to]++
		}
		tail := math.Pow(1-rng.Float64(), -1/1.3)
		g.takes[n] = min(time.Duration(tail*float64(typicalAnswer)), longestAnswer)
	}
	return g
}

func (g *graph) url(n int) string { return fmt.Sprintf("http://h%d.test/%d", n%g.hosts, n) }

func (g *graph) number(url string) (n int) {
	_, _ = fmt.Sscan(url[strings.LastIndexByte(url, '/')+1:], &n)
	return n
}

func (g *graph) body(n int) []byte {
	var b strings.Builder
	for _, to := range g.links[n] {
		fmt.Fprintf(&b, "<a href=%q>x</a>\n", g.url(to))
	}
	return []byte(b.String())
}

// best is what the first tenth of the pages is worth in the order of one queue that is asked for
// one page at a time.
func (g *graph) best() (sum float64) {
	q := &bestFirst{g: g, list: []int{0}}
	seen := map[int]bool{0: true}
	for range len(g.links) / 10 {
		n := heap.Pop(q).(int)
		sum += g.worth[n]
		for _, to := range g.links[n] {
			if !seen[to] {
				seen[to] = true
				heap.Push(q, to)
			}
		}
	}
	return sum
}

// A bestFirst is a queue of pages by what they are worth.
type bestFirst struct {
	g    *graph
	list []int
}

func (q *bestFirst) Len() int           { return len(q.list) }
func (q *bestFirst) Less(i, j int) bool { return q.g.worth[q.list[i]] > q.g.worth[q.list[j]] }
func (q *bestFirst) Swap(i, j int)      { q.list[i], q.list[j] = q.list[j], q.list[i] }
func (q *bestFirst) Push(x any)         { q.list = append(q.list, x.(int)) }
func (q *bestFirst) Pop() any {
	last := q.list[len(q.list)-1]
	q.list = q.list[:len(q.list)-1]
	return last
}

// An exchange is a crawl of a graph by nodes that go in supersteps.
type exchange struct {
	*graph
	nodes int

	mu            sync.Mutex
	steps         map[uint64][][]int // guarded by mu; pages by step and node
	foreign       int                // guarded by mu; links to hosts of other nodes
	sent, written int                // guarded by mu; links in batches, bytes of these
}

// A steppingNode is a node that says in which step it is.
type steppingNode struct {
	*cluster.Node
	mu   sync.Mutex
	step uint64
}

func (n *steppingNode) Sync(ctx context.Context, step uint64, busy bool) (next uint64, finished bool, err error) {
	next, finished, err = n.Node.Sync(ctx, step, busy)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.step = next
	return next, finished, err
}

func (n *steppingNode) now() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.step
}

// A countingBus counts what is sent.
type countingBus struct {
	cluster.Bus
	of *exchange
}

func (b countingBus) Publish(ctx context.Context, batch cluster.Batch) error {
	list, err := batch.Records()
	if err != nil {
		return err
	}
	b.of.mu.Lock()
	b.of.sent += len(list)
	b.of.written += len(batch.Body)
	b.of.mu.Unlock()
	return b.Bus.Publish(ctx, batch)
}

// crawl has nodes crawl the graph, each with so many URLs in a step.
func (x *exchange) crawl(ctx context.Context, dir string, step int) error {
	x.steps = map[uint64][][]int{}
	engine := memory.New(cluster.Config{Crawl: "lab", Partitions: cluster.Partitions, TTL: time.Minute})
	g, ctx := errgroup.WithContext(ctx)
	for i := range x.nodes {
		name := fmt.Sprint("n", i)
		node := &steppingNode{Node: cluster.New(cluster.Options{
			Bus: countingBus{engine.Connect(name), x}, Name: name, Boot: name, Nodes: x.nodes, TTL: time.Minute, Bulk: true,
		})}
		opts := crawler.Options{
			Tree:      filepath.Join(dir, name),
			Output:    filepath.Join(dir, name+".txt"),
			Storage:   crawler.Storage{Store: crawler.StoreWARC, NoSync: true, MinFree: -1, MinFreeInodes: -1},
			Resources: crawler.Resources{Crawlers: 4, Buffers: 1},
			Ordering:  crawler.Ordering{Order: crawler.OrderPriority, Step: step},
			Cluster:   node,
			Score:     func(c crawler.Candidate) float64 { return x.worth[x.number(c.URL)] },
			Fetch: func(_ context.Context, url string) (crawler.Content, error) {
				n := x.number(url)
				x.asked(node, i, n)
				return crawler.Content{Body: x.body(n), Media: "text/html"}, nil
			},
		}
		if i == 0 {
			opts.Seeds = []string{x.url(0)}
		}
		g.Go(func() error {
			_, err := crawler.Run(ctx, opts)
			return cmp.Or(err, ctx.Err())
		})
	}
	return g.Wait()
}

// asked takes note of a page that a node asks for.
func (x *exchange) asked(node *steppingNode, i, n int) {
	foreign := 0
	for _, to := range x.links[n] {
		if _, away := node.Away(fmt.Sprintf("h%d.test", to%x.hosts)); away {
			foreign++
		}
	}
	step := node.now()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.steps[step] == nil {
		x.steps[step] = make([][]int, x.nodes)
	}
	x.steps[step][i] = append(x.steps[step][i], n)
	x.foreign += foreign
}

// figures returns a row of the table: see its columns.
func (x *exchange) figures(step int, best float64) []string {
	var pages, asked, most, first int
	var worth float64
	var busy, whole time.Duration
	for _, s := range sortedKeys(x.steps) {
		var longest time.Duration
		largest := 0
		for _, list := range x.steps[s] {
			slices.SortFunc(list, func(a, b int) int { return cmp.Or(cmp.Compare(x.worth[b], x.worth[a]), cmp.Compare(a, b)) })
			largest = max(largest, len(list))
			pages += len(list)
			longest = max(longest, x.span(list))
			for _, n := range list {
				busy += x.takes[n]
			}
		}
		asked, most, whole = asked+1, most+largest, whole+longest
		all := slices.Concat(x.steps[s]...)
		slices.SortFunc(all, func(a, b int) int { return cmp.Or(cmp.Compare(x.worth[b], x.worth[a]), cmp.Compare(a, b)) })
		for _, n := range all {
			if first++; first <= len(x.links)/10 {
				worth += x.worth[n]
			}
		}
	}
	share := func(a, b float64) string { return fmt.Sprintf("%.2f", a/b) }
	return []string{
		fmt.Sprint(x.nodes), fmt.Sprint(step), fmt.Sprint(asked),
		share(float64(pages)/float64(x.nodes), float64(most)),
		share(float64(x.foreign), float64(pages*exchangeLinks)),
		share(float64(x.sent), float64(pages)), fmt.Sprintf("%.0f", float64(x.written)/float64(pages)),
		share(float64(whole*exchangeRobots-busy), float64(whole*exchangeRobots)),
		share(worth, best),
	}
}

// span is how long the robots of a node take for pages, each asking for the next one when it is
// free.
func (x *exchange) span(list []int) (longest time.Duration) {
	robots := make([]time.Duration, exchangeRobots/x.nodes)
	for _, n := range list {
		i := slices.Index(robots, slices.Min(robots))
		robots[i] += x.takes[n]
	}
	return slices.Max(robots)
}

func sortedKeys(m map[uint64][][]int) []uint64 {
	keys := make([]uint64, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Exchange crawls a web in supersteps, with 1, 2 and 4 nodes that exchange links in bulk.
func Exchange(ctx context.Context, o Options) ([]queues.Result, error) {
	pages := o.scaled(20_000, 200)
	g := newGraph(pages, max(pages/50, 8))
	best := g.best()
	var rows [][]string
	least := 1.0
	for _, all := range []int{o.scaled(200, 4), o.scaled(1000, 20), o.scaled(5000, 100)} {
		for _, nodes := range []int{1, 2, 4} {
			x := &exchange{graph: g, nodes: nodes}
			if err := o.temp(func(dir string) error { return x.crawl(ctx, dir, all/nodes) }); err != nil {
				return nil, err
			}
			row := x.figures(all/nodes, best)
			rows = append(rows, row)
			var balance float64
			_, _ = fmt.Sscan(row[3], &balance)
			least = min(least, balance)
			o.Say("exchange: %v", row)
		}
	}
	return []queues.Result{{
		Name: "supersteps", Title: "Exchange between P nodes",
		Setup: fmt.Sprintf("%d pages on %d hosts, with %d links each, are crawled with `-bsp R` by P nodes, R for each of them. The score of a page is the number of links to it in the whole web, so that the best order is known. "+
			"Steps are those with a page to ask. *Balance* is the mean number of pages of a node in a step, divided by that of the node with most, over all steps. *Foreign* is the share of links to hosts of another node, "+
			"*sent* and *bytes* what goes to others for each page. *Lost* is the share of the time of robots in which they wait for the last answer of a step, where answers take %s and more (Pareto, exponent 1.3, at most %s) and all nodes together have %d robots. "+
			"*First tenth* is what the first tenth of the pages is worth, divided by what it is with one queue and R = 1. Nothing here depends on the machine.",
			pages, g.hosts, exchangeLinks, typicalAnswer, longestAnswer, exchangeRobots),
		Claims: []queues.Claim{{
			Says:   "Near-perfect load balance while inserting and extracting URLs",
			Agrees: least >= 0.9,
			Ours:   fmt.Sprintf("The source says it of queues; of the nodes' pages in a step the balance is %.2f and more. Agreement: at least 0.90.", least),
		}},
		Table: queues.Table{
			Columns: []string{"P", "R", "steps", "balance", "foreign", "sent", "bytes", "lost", "first tenth"},
			Rows:    rows,
		},
	}}, nil
}
