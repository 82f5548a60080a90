package iut_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"urltree/internal/frontier"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// Histories of many goroutines on one tree, its index and a frontier are checked against a
// machine that does one thing at a time. A history is linearisable if each operation can be given
// an instant between its call and its return so that the machine, in that order, gives the same
// answers.

// An op is one operation on one URL.
type op struct {
	what string
	url  string
	body string // add: digest of what was brought
}

const (
	opLink   = "Link"   // a page names the URL: true if it is new
	opTake   = "Take"   // the frontier gives it out
	opReturn = "Return" // it goes back unasked
	opAdd    = "Add"    // its page goes into the tree: the digest of what the tree has then
	opCommit = "Commit" // its outcome goes into the index: the digest of the record
	opGet    = "Get"    // the digest of the page, or ""
	opState  = "State"  // the state of its record; 0: it has none
)

// A place is all that the sequential machine keeps of a URL.
type place struct {
	known, out, stored bool
	digest             string // of the page in the tree, or ""
}

// step is the sequential machine: an operation that gives this answer takes it from one place to
// the next, or cannot have happened.
func (p place) step(in op, out any) (bool, place) {
	next := p
	switch in.what {
	case opLink:
		next.known = true
		return out == !p.known, next
	case opTake:
		next.out = true
		return p.known && !p.out && !p.stored, next
	case opReturn:
		next.out = false
		return p.out, next
	case opAdd:
		if p.digest == "" {
			next.digest = in.body
		}
		return out == next.digest, next
	case opCommit:
		next.stored, next.out = true, false
		return p.out && !p.stored && out == p.digest, next
	case opGet:
		return out == p.digest, next
	case opState:
		want := record.State(0)
		if p.stored {
			want = record.Stored
		} else if p.known {
			want = record.Pending
		}
		return out == want, next
	}
	return false, p
}

var machine = porcupine.Model{
	Init: func() any { return place{} },
	Step: func(s, in, out any) (bool, any) {
		ok, next := s.(place).step(in.(op), out)
		return ok, next
	},
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byURL := map[string][]porcupine.Operation{}
		for _, o := range history {
			url := o.Input.(op).url
			byURL[url] = append(byURL[url], o)
		}
		var parts [][]porcupine.Operation
		for _, part := range byURL {
			parts = append(parts, part)
		}
		return parts
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v = %v", in, out) },
}

// The machine is of no use if it takes everything.
func TestMachine(t *testing.T) {
	const u = "u"
	linked := func(more ...porcupine.Operation) []porcupine.Operation {
		return append([]porcupine.Operation{{Input: op{what: opLink, url: u}, Output: true, Call: 0, Return: 1}}, more...)
	}
	at := func(call, ret int64, what, body string, out any) porcupine.Operation {
		return porcupine.Operation{Input: op{what, u, body}, Output: out, Call: call, Return: ret, ClientId: int(call)}
	}
	for _, tt := range []struct {
		name    string
		history []porcupine.Operation
		ok      bool
	}{
		{"in order", linked(at(2, 3, opTake, "", nil), at(4, 5, opAdd, "a", "a"), at(6, 7, opCommit, "", "a"), at(8, 9, opGet, "", "a"), at(10, 11, opState, "", record.Stored)), true},
		{"read while it is written", linked(at(2, 3, opTake, "", nil), at(4, 9, opAdd, "a", "a"), at(5, 6, opGet, "", ""), at(7, 8, opGet, "", "a")), true},
		{"taken again after a return", linked(at(2, 3, opTake, "", nil), at(4, 5, opReturn, "", nil), at(6, 7, opTake, "", nil)), true},
		{"new twice", linked(at(2, 3, opLink, "", true)), false},
		{"taken twice", linked(at(2, 5, opTake, "", nil), at(3, 4, opTake, "", nil)), false},
		{"taken though unknown", []porcupine.Operation{at(2, 3, opTake, "", nil), at(4, 5, opLink, "", true)}, false},
		{"taken after its outcome", linked(at(2, 3, opTake, "", nil), at(4, 5, opAdd, "a", "a"), at(6, 7, opCommit, "", "a"), at(8, 9, opTake, "", nil)), false},
		{"both of two writers win", linked(at(2, 5, opAdd, "a", "a"), at(3, 4, opAdd, "b", "b")), false},
		{"a page vanishes", linked(at(2, 3, opAdd, "a", "a"), at(4, 5, opGet, "", "")), false},
		{"read before it is written", linked(at(2, 3, opGet, "", "a"), at(4, 5, opAdd, "a", "a")), false},
		{"the record differs from the page", linked(at(2, 3, opTake, "", nil), at(4, 5, opAdd, "a", "a"), at(6, 7, opCommit, "", "b")), false},
		{"a state goes back", linked(at(2, 3, opTake, "", nil), at(4, 5, opAdd, "a", "a"), at(6, 7, opCommit, "", "a"), at(8, 9, opState, "", record.Pending)), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := porcupine.CheckOperations(machine, tt.history); got != tt.ok {
				t.Errorf("linearisable: %v, want %v", got, tt.ok)
			}
		})
	}
}

// yielding is a disk that lets others run before and after what it does, as chance has it.
type yielding struct{ iut.FS }

func yield() {
	for range rand.N(4) {
		runtime.Gosched()
	}
}

func (y yielding) Mkdir(name string) error {
	yield()
	defer yield()
	return y.FS.Mkdir(name)
}

func (y yielding) Open(name string, flag int) (iut.File, error) {
	yield()
	defer yield()
	return y.FS.Open(name, flag)
}

func (y yielding) Stat(name string) (iut.Entry, error) {
	yield()
	defer yield()
	return y.FS.Stat(name)
}

// A recorder notes operations in the order of calls and returns.
type recorder struct {
	clock atomic.Int64

	mu      sync.Mutex
	history []porcupine.Operation // guarded by mu
}

func (r *recorder) now() int64 { return r.clock.Add(1) }

// note notes an operation that returns now, and gives the time.
func (r *recorder) note(client int, in op, out any, call int64) int64 {
	ret := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = append(r.history, porcupine.Operation{ClientId: client, Input: in, Output: out, Call: call, Return: ret})
	return ret
}

// A crowd is many goroutines at the pipeline of a crawl.
type crowd struct {
	recorder
	*pipeline
	frontier *frontier.Frontier
	urls     []string
	returned atomic.Bool // a loan went back unasked

	waitMu sync.Mutex
	waits  map[*iut.Item]chan bool // guarded by waitMu; whether it brought a new link
}

// committed does what a crawl does after each commit, and tells those who wait.
func (c *crowd) committed(set []*iut.Item, done storage.Committed) {
	fresh := map[string]bool{}
	for _, row := range done.Fresh {
		fresh[row.URL] = true
	}
	c.frontier.Add(done.Fresh, done.Tx)
	var gone []frontier.Done
	var times []record.HostTimes
	for i, it := range set {
		if it.Host != nil {
			times = append(times, *it.Host)
		}
		if it.Row.URL != "" {
			gone = append(gone, frontier.Done{Row: it.Row, Next: done.Next[i]})
		}
	}
	c.frontier.Done(gone, times)
	c.waitMu.Lock()
	defer c.waitMu.Unlock()
	for _, it := range set {
		isNew := false
		for _, l := range it.Links {
			isNew = isNew || fresh[l.URL]
			delete(fresh, l.URL) // of two that bring it the first is the one
		}
		c.waits[it] <- isNew
	}
}

// bring puts an item into a buffer and waits for its commit. It tells whether that brought a new
// link.
func (c *crowd) bring(client int, it *iut.Item) (isNew bool, err error) {
	wait := make(chan bool, 1)
	c.waitMu.Lock()
	c.waits[it] = wait
	c.waitMu.Unlock()
	b := client % len(c.buffers)
	if err := c.add(b, it); err != nil {
		return false, err
	}
	c.buffers[b].Flush()
	select {
	case isNew := <-wait:
		return isNew, nil
	case <-c.ctx.Done(): // a builder or the committer has failed
		return false, c.ctx.Err()
	}
}

// client does so many operations, as chance has it.
func (c *crowd) client(id, ops int) error {
	rng := rand.New(rand.NewPCG(uint64(id), 1))
	for n := range ops {
		url := c.urls[rng.IntN(len(c.urls))]
		page := &iut.Page{Facts: iut.Facts{URL: url, Source: record.Seed}, Body: fmt.Appendf(nil, "%d of %d", n, id)}
		var err error
		switch rng.IntN(8) {
		case 0:
			err = c.link(id, url)
		case 1, 2:
			err = c.take(id, rng.IntN(3) == 0, page.Body)
		case 3:
			// As a crawl that died between tree and index.
			if rng.IntN(8) == 0 {
				call := c.now()
				var res iut.Result
				res, err = c.tree.Store(page)
				c.note(id, op{opAdd, url, digest(sha256.Sum256(page.Body))}, digest(res.Facts.Digest), call)
			}
		case 4, 5:
			call := c.now()
			facts, _, loadErr := c.tree.Load(iut.Facts{URL: url})
			if !errors.Is(loadErr, fs.ErrNotExist) {
				err = loadErr
			}
			c.note(id, op{what: opGet, url: url}, digest(facts.Digest), call)
		default:
			call := c.now()
			rec, recErr := c.pipeline.index.(*storage.Index).Record(url)
			if !errors.Is(recErr, storage.ErrNotFound) {
				err = recErr
			}
			c.note(id, op{what: opState, url: url}, rec.State, call)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *crowd) link(id int, url string) error {
	call := c.now()
	isNew, err := c.bring(id, &iut.Item{Outcome: record.Outcome{Links: []record.Link{seedLink(url)}}})
	if err == nil {
		c.note(id, op{what: opLink, url: url}, isNew, call)
	}
	return err
}

// take takes what the frontier gives, and brings a page for each URL or gives it back.
func (c *crowd) take(id int, back bool, body []byte) error {
	call := c.now()
	loans, _ := c.frontier.Taker().TryTake(1)
	for _, l := range loans {
		for _, row := range l.Rows {
			c.note(id, op{what: opTake, url: row.URL}, nil, call)
		}
	}
	for _, l := range loans {
		// The first goes back in any case, so that each history has one that does.
		if first := c.returned.CompareAndSwap(false, true); first || back {
			call := c.now()
			c.frontier.Return(l, l.Rows)
			for _, row := range l.Rows {
				c.note(id, op{what: opReturn, url: row.URL}, nil, call)
			}
			continue
		}
		for _, row := range l.Rows {
			it := itemOf(&iut.Page{Facts: iut.Facts{URL: row.URL, Source: row.Source}, Body: body})
			it.Row = row
			inTree := make(chan int64, 1)
			it.Free = func() { inTree <- c.now() } // the builder frees the body when the tree has it
			call := c.now()
			if _, err := c.bring(id, it); err != nil {
				return err
			}
			had, between := digest(it.Page.Digest), <-inTree
			c.mu.Lock()
			c.history = append(c.history, porcupine.Operation{
				ClientId: id, Input: op{opAdd, row.URL, digest(sha256.Sum256(body))}, Output: had, Call: call, Return: between,
			})
			c.mu.Unlock()
			c.note(id, op{what: opCommit, url: row.URL}, had, between)
		}
		c.frontier.Return(l, nil)
	}
	return nil
}

// TestLinearisable records histories on 1 to 8 threads and has each checked.
func TestLinearisable(t *testing.T) {
	rounds, ops := 1, 60
	if os.Getenv("TEST_URLTREE_FULL") != "" {
		rounds, ops = 20, 300
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, threads := range slices.Repeat([]int{1, 2, 4, 8}, rounds) {
		runtime.GOMAXPROCS(threads)
		t.Run(fmt.Sprintf("threads=%d", threads), func(t *testing.T) {
			c := &crowd{waits: map[*iut.Item]chan bool{}}
			root := t.TempDir()
			tree := open(t, root, onFS(yielding{disk(t, root, iut.SyncNone)}))
			index := newIndex(t)
			var err error
			if c.frontier, err = frontier.New(frontier.Options{Store: index.Queues(), Crawlers: 6}); err != nil {
				t.Fatal(err)
			}
			for i := range 8 { // each has a host of its own, so that all may be taken at once
				c.urls = append(c.urls, fmt.Sprintf("https://h%d.example/p", i))
			}
			c.pipeline = (&pipeline{tree: tree, index: index, after: c.committed, size: 3}).start(2)
			var clients sync.WaitGroup
			for id := range 6 {
				clients.Go(func() {
					if err := c.client(id, ops); err != nil {
						t.Errorf("client %d: %v", id, err)
					}
				})
			}
			clients.Wait()
			if err := c.end(); err != nil {
				t.Fatal(err)
			}
			switch got := porcupine.CheckOperationsTimeout(machine, c.history, time.Minute); got {
			case porcupine.Illegal:
				t.Errorf("%d operations are not linearisable", len(c.history))
			case porcupine.Unknown:
				t.Errorf("no answer for %d operations", len(c.history))
			}
			count := map[string]int{}
			for _, o := range c.history {
				count[o.Input.(op).what]++
			}
			for _, what := range []string{opLink, opTake, opReturn, opAdd, opCommit, opGet, opState} {
				if count[what] == 0 {
					t.Errorf("no %s among %v", what, count)
				}
			}
			requireSound(t, index)
		})
	}
}

// digest returns a short name of a SHA-256, "" for none.
func digest(sum [32]byte) string {
	if sum == [32]byte{} {
		return ""
	}
	return fmt.Sprintf("%x", sum[:6])
}
