package cluster_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"urltree/internal/cluster"
	"urltree/internal/cluster/batch"
	"urltree/internal/cluster/memory"
	"urltree/storage/record"
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

// A tiny is a crawl of a web that is a tree: URL n leads to the next ones whose parent it is.
type tiny struct {
	t        *testing.T
	r        *rand.Rand
	engine   *memory.Engine
	children [][]int
	nodes    []*tinyNode

	mu     sync.Mutex
	left   int       // URLs that are not done
	end    time.Time // when the last one was done, the last row left an outbox, or the last node joined
	slow   bool      // of the questions of the leader
	killed bool      // a node was, perhaps the leader
}

func url(n int) string { return fmt.Sprintf("http://h%d.test/%d", n%7, n) }

// A tinyNode is a node with its disk, which stays when it is killed.
type tinyNode struct {
	empty // of all that it does not have: no node joins later, so nothing is handed over
	of    *tiny
	name  string
	kept  []byte

	mu     sync.Mutex
	known  map[string]bool // done or not
	rows   []int           // eligible
	outbox []record.Posted
	last   uint64
	node   *cluster.Node // of the present life
}

func (d *tinyNode) Len() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return int64(len(d.outbox))
}

func (d *tinyNode) Keep(kept []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kept = kept
	return nil
}

func (d *tinyNode) ReadAgain(context.Context, func(string) bool) error { return nil }

func (d *tinyNode) Figures() cluster.Figures { return cluster.Figures{} }

func (d *tinyNode) Read(part uint16, after uint64, most int) (rows []record.Posted, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.outbox {
		if p.Part == part && p.Seq > after && len(rows) < most {
			rows = append(rows, p)
		}
	}
	return rows, nil
}

// Put commits after a while, unless the node is killed first.
func (d *tinyNode) Put(ctx context.Context, o record.Outcome, then func(refused bool)) error {
	delay := d.of.delay(300)
	go func() {
		select {
		case <-time.After(delay):
			d.commit(-1, o)
			then(false)
		case <-ctx.Done():
		}
	}()
	return nil
}

// commit is one transaction: of a URL that is done, with its links, or of what came from others.
func (d *tinyNode) commit(done int, o record.Outcome) {
	d.mu.Lock()
	fresh := false
	if done >= 0 {
		d.rows = d.rows[1:]
		for _, n := range d.of.children[done] {
			o.Links = append(o.Links, record.Link{URL: url(n)})
		}
	}
	for i := range o.Links {
		l := &o.Links[i]
		part, away := d.node.Away(record.Host(l.URL))
		if away {
			d.last++
			d.outbox = append(d.outbox, record.Posted{Part: part, Seq: d.last, Link: *l})
			continue
		}
		if !d.known[l.URL] {
			var host, n int
			fmt.Sscanf(l.URL, "http://h%d.test/%d", &host, &n)
			d.known[l.URL], fresh = true, true
			d.rows = append(d.rows, n)
		}
	}
	var stay []record.Posted
	for _, p := range d.outbox {
		gone := false
		for _, g := range o.Delivered {
			gone = gone || p.Part == g.Part && p.Seq >= g.First && p.Seq <= g.Last
		}
		if !gone {
			stay = append(stay, p)
		}
	}
	d.outbox = stay
	d.mu.Unlock()
	d.of.mu.Lock()
	d.of.end = time.Now()
	if done >= 0 {
		d.of.left--
	}
	d.of.mu.Unlock()
	d.node.Committed(fresh)
}

func (c *tiny) delay(most int) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Duration(c.r.IntN(most)) * time.Millisecond
}

// limit returns within which time a crawl that is done has to end.
func (c *tiny) limit() time.Duration {
	limit := 2 * time.Second
	if c.killed {
		limit += ttl / 6
	}
	if c.slow {
		limit += time.Minute
	}
	return limit
}

// live is one life of a node, until it is killed or takes the crawl for finished.
func (d *tinyNode) live(ctx context.Context, boot string) (finished bool) {
	node := cluster.New(cluster.Options{Bus: d.of.engine.Connect(d.name), Name: d.name, Boot: boot, Nodes: len(d.of.nodes)})
	defer node.Kill()
	keep, err := node.Join(ctx, d.kept)
	if err != nil {
		return false
	}
	d.mu.Lock()
	d.kept, d.node = keep, node
	d.mu.Unlock()
	if d == d.of.nodes[0] {
		d.commit(-1, record.Outcome{Links: []record.Link{{URL: url(0)}}}) // the seed, at each start
	}
	d.of.mu.Lock()
	d.of.end = time.Now()
	d.of.mu.Unlock()
	d.mu.Lock()
	work := len(d.rows)+len(d.outbox) > 0
	d.mu.Unlock()
	exchanging, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { _ = node.Exchange(exchanging, d, work) })
	defer wg.Wait()
	defer stop()
	for ctx.Err() == nil {
		d.mu.Lock()
		next := -1
		if len(d.rows) > 0 {
			next = d.rows[0]
		}
		d.mu.Unlock()
		if next < 0 {
			if more, err := node.Idle(ctx); err != nil || !more {
				return err == nil
			}
			continue
		}
		select {
		case <-time.After(d.of.delay(200)):
			d.commit(next, record.Outcome{})
		case <-ctx.Done():
		}
	}
	return false
}

const ttl = 15 * time.Second

// TestEnding: crawls of any shape, with delays and kills, end at all nodes: never before all is
// done, and within two seconds after all is and all nodes are there; where one was killed it may
// have been the leader, and another one becomes it with its next renewal.
func TestEnding(t *testing.T) {
	crawls := 1000
	if testing.Short() {
		crawls = 100
	}
	for seed := range crawls {
		synctest.Test(t, func(t *testing.T) { crawlTiny(t, seed) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func crawlTiny(t *testing.T, seed int) {
	c := &tiny{t: t, r: rand.New(rand.NewPCG(uint64(seed), 3)), engine: memory.New(cluster.Config{Crawl: "tiny", Partitions: cluster.Partitions, TTL: ttl})}
	switch seed % 4 {
	case 1:
		c.engine.SetFaults(func(memory.Call) memory.Fault { return memory.Fault{Delay: c.delay(100)} })
	case 3: // much happens between two questions
		c.slow = true
		c.engine.SetFaults(func(call memory.Call) memory.Fault {
			if call.Method == "Probe" {
				return memory.Fault{Delay: c.delay(4000)}
			}
			return memory.Fault{}
		})
	}
	c.left = 1 + c.r.IntN(30)
	c.children = make([][]int, c.left)
	for n := 1; n < c.left; n++ {
		parent := c.r.IntN(n)
		if seed%4 == 3 {
			parent = n - 1 // to and fro between the nodes
		}
		c.children[parent] = append(c.children[parent], n)
	}
	for i := range 1 + c.r.IntN(3) {
		c.nodes = append(c.nodes, &tinyNode{of: c, name: fmt.Sprint("n", i), known: map[string]bool{}})
	}
	var wg sync.WaitGroup
	for i, d := range c.nodes {
		kills := int(c.delay(3) / time.Millisecond)
		wg.Go(func() {
			for life := 0; ; life++ {
				ctx, kill := context.WithCancel(t.Context())
				if life < kills {
					c.mu.Lock()
					c.killed = true
					c.mu.Unlock()
					time.AfterFunc(c.delay(5000), kill)
				}
				finished := d.live(ctx, fmt.Sprint("boot", i, "-", life))
				kill()
				if finished {
					break
				}
				time.Sleep(c.delay(3000))
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.left > 0 {
				t.Errorf("%s takes the crawl for finished: %d URLs are left", d.name, c.left)
			} else if late := time.Since(c.end); late > c.limit() {
				t.Errorf("%s took %v to find out", d.name, late)
			}
		})
	}
	wg.Wait()
}
