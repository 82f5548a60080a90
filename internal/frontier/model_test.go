package frontier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"urltree/internal/frontier/queue"
	"urltree/storage/record"
)

// A world is a crawl whose every step takes a random time: crawlers, one committer, a store.
// It knows which URL may be lent when.
type world struct {
	t      *testing.T
	f      *Frontier
	store  *memStore
	opts   Options
	items  chan item
	flush  chan struct{}
	budget int // URLs still to be found

	mu     sync.Mutex
	rng    *rand.Rand      // guarded by mu, as is all below
	taken  map[string]bool // lent, not returned, not committed
	gone   map[string]int  // outcomes
	known  map[string]bool // origins with a robots.txt answer
	loans  map[string]int  // by host
	robots map[string]bool // hosts with a robots loan
	queued int             // items on their way to a commit
	seq    uint64
}

// An item is one outcome: the row as it was lent, and where it goes; or a robots.txt, which names
// sitemaps.
type item struct {
	row, next record.Row
	times     *record.HostTimes // nil: not asked
	robots    bool
}

func (w *world) random(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

func (w *world) pause() {
	if n := w.random(40); n > 10 {
		<-time.After(time.Duration(n) * time.Millisecond)
	}
}

func (w *world) newRow() record.Row {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seq++
	r := row(fmt.Sprintf("h%d.example", w.rng.IntN(w.opts.Crawlers*4)), uint64(w.rng.IntN(6)), w.seq)
	for range w.rng.IntN(4) { // into a folder, for order tree
		r.URL = fmt.Sprintf("%s/%d/%s", record.Origin(r.URL), w.rng.IntN(3), r.URL[len(record.Origin(r.URL))+1:])
	}
	if w.rng.IntN(12) == 0 {
		r.URL += "/no" // not admitted in this run
	}
	if w.rng.IntN(3) == 0 {
		r.URL = strings.Replace(r.URL, "http:", "https:", 1) // another origin of the host
	}
	if w.rng.IntN(12) == 0 {
		r.Range, r.Due = record.Later, time.Now().Add(time.Duration(w.rng.IntN(5000))*time.Millisecond).UnixNano()
	}
	return r
}

// take notes that a row is lent.
func (w *world) take(r *record.Row) {
	w.store.mu.Lock()
	_, pending := w.store.rows[r.ID()]
	w.store.mu.Unlock()
	givenUp := w.givenUp(record.Host(r.URL)) // w.mu comes behind the lock of the frontier
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.taken[r.URL] || !pending {
		w.t.Errorf("%s lent: out before: %v, pending: %v", r.URL, w.taken[r.URL], pending)
	}
	if r.Range == record.Later && r.Due > time.Now().UnixNano() && !givenUp {
		w.t.Errorf("%s lent before it is due", r.URL)
	}
	w.taken[r.URL] = true
}

func (w *world) free(url string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.taken[url] = false
}

func (w *world) borrow(l *Loan, by int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loans[l.Host] += by
	for i := range l.Rows {
		if l.Rows[i].Kind != record.PageRow && len(l.Rows) > 1 || l.Rows[i].Kind == record.SitemapRow && len(l.Held) > 0 {
			w.t.Errorf("a row that is no page is not lent alone: %+v", l)
		}
	}
	if robotsOf(l) != "" {
		w.robots[l.Host] = by > 0
	}
	if n := w.loans[l.Host]; n > w.opts.PerHost || w.robots[l.Host] && n > 1 {
		w.t.Errorf("%s has %d loans at once (robots.txt: %v)", l.Host, n, w.robots[l.Host])
	}
}

func (w *world) send(it item) {
	w.mu.Lock()
	w.queued++
	w.mu.Unlock()
	w.items <- it
}

func (w *world) crawler(ctx context.Context) {
	taker := w.f.Taker()
	for {
		loans, ok := []*Loan(nil), false
		if w.random(3) == 0 {
			loans, ok = taker.TryTake(1 + w.random(4))
		}
		if !ok {
			var err error
			loans, err = taker.Take(ctx, 1+w.random(4))
			if errors.Is(err, io.EOF) {
				w.checkEnd()
				return
			}
			if err != nil {
				w.t.Errorf("Take: %v", err)
				return
			}
		}
		for _, l := range loans {
			w.borrow(l, 1)
			w.work(l)
		}
	}
}

// givenUp reports whether the frontier has given a host up, one that has left memory included.
func (w *world) givenUp(host string) bool {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	h := w.f.hosts.byName[host]
	return h != nil && h.pace.givenUp || w.f.others.forgotten[host]
}

// checkEnd asserts that an io.EOF is neither early nor late.
func (w *world) checkEnd() {
	w.mu.Lock()
	queued := w.queued
	w.mu.Unlock()
	if queued > 0 {
		w.t.Errorf("io.EOF while %d outcomes are on their way", queued)
	}
	hosts, _ := w.store.hosts()
	for _, h := range hosts {
		if h.Now+h.Later > 0 || h.Sitemaps > 0 && !w.givenUp(h.Name) {
			w.t.Errorf("io.EOF while %s has %d rows and %d sitemaps", h.Name, h.Now+h.Later, h.Sitemaps)
		}
	}
}

func (w *world) work(l *Loan) {
	for i := range l.Held {
		h := &l.Held[i]
		w.take(&h.Row)
		if h.Reason != GivenUp && !strings.HasSuffix(h.Row.URL, "/no") {
			w.t.Errorf("%s held: %s", h.Row.URL, h.Reason)
		}
		next := h.Row
		next.Range, next.Reason = record.Held, h.Reason
		w.send(item{row: h.Row, next: next})
	}
	origin := robotsOf(l)
	for i := range l.Rows {
		if origin == "" {
			w.take(&l.Rows[i])
		}
	}
	rows := l.Rows
	for len(rows) > 0 {
		if w.random(12) == 0 {
			break
		}
		begin := time.Now()
		w.pause()
		fault := w.random(6) == 0 || strings.HasPrefix(l.Host, "h1.") // h1 is dead
		var times *record.HostTimes
		if w.random(6) > 0 || origin != "" {
			got := w.f.Answered(l, Answer{Start: begin, End: time.Now(), Fault: brokenIf(fault), Failed: w.random(10) == 0, Over: w.random(10) == 0})
			times = &got
		}
		if origin != "" {
			w.mu.Lock()
			w.known[origin] = w.known[origin] || !fault
			w.mu.Unlock()
			w.f.Expect(1)
			w.send(item{robots: true, times: times})
			break
		}
		next := rows[0]
		next.Tries++
		switch {
		case fault:
			next.Range, next.Due = record.Later, time.Now().Add(time.Duration(w.random(3000))*time.Millisecond).UnixNano()
		case w.random(10) == 0:
			if next.Kind == record.PageRow {
				next.Range = record.Now
			}
		default:
			next.Range = 0
			if strings.HasSuffix(rows[0].URL, "/no") {
				w.t.Errorf("%s asked but not admitted", rows[0].URL)
			}
		}
		w.send(item{row: rows[0], next: next, times: times})
		rows = rows[1:]
	}
	for i := range rows {
		w.free(rows[i].URL)
	}
	w.borrow(l, -1)
	w.f.Return(l, rows)
}

// newSitemap names a sitemap in a commit.
func (w *world) newSitemap() record.Row {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seq++
	return sitemap(fmt.Sprintf("https://h%d.example/%d.xml", w.rng.IntN(w.opts.Crawlers*4), w.seq))
}

// committer commits the items in sets, as the index would, until the channel is closed.
func (w *world) committer() {
	var set []item
	timer := time.NewTicker(700 * time.Millisecond)
	defer timer.Stop()
	for {
		select {
		case it, ok := <-w.items:
			if !ok {
				return
			}
			if set = append(set, it); len(set) < 30 {
				continue
			}
		case <-timer.C:
		case <-w.flush:
		}
		w.commit(set)
		set = set[:0]
	}
}

func (w *world) commit(set []item) {
	var fresh []record.Row
	var done []Done
	var links, reopened, named []record.Row
	robots := 0
	for _, it := range set {
		if it.robots {
			robots++
		}
		for it.robots || it.row.Kind == record.SitemapRow && it.next.Range == 0 {
			if named = append(named, w.newSitemap()); w.random(3) > 0 {
				break
			}
		}
		for range w.random(4) {
			if it.next.Range == 0 && w.budget > 0 {
				w.budget--
				links = append(links, w.newRow())
			}
		}
	}
	var times []record.HostTimes
	for i := range named {
		if w.budget -= 5; w.budget < 0 {
			named = named[:i]
			break
		}
	}
	for _, it := range set {
		if it.times != nil {
			times = append(times, *it.times)
		}
		url := it.row.URL
		if url == "" {
			continue
		}
		w.mu.Lock()
		if it.next.Range == 0 {
			w.gone[url]++
			if it.row.Kind == record.PageRow && w.rng.IntN(15) == 0 && w.gone[url] < 3 {
				// A link of the same set opens it again; it is told as new, or as waiting.
				w.seq++
				again := row(record.Host(url), 1, w.seq)
				again.URL = url
				w.gone[url] = 0
				reopened = append(reopened, again)
				if w.rng.IntN(2) == 0 {
					fresh = append(fresh, again)
				} else {
					it.next = again
				}
			}
		}
		w.mu.Unlock()
		done = append(done, Done{Row: it.row, Next: it.next})
	}
	fresh = append(fresh, links...)
	fresh = append(fresh, named...)
	tx := w.store.commit(done, slices.Concat(links, reopened, named), times)
	w.pause()
	w.f.Add(fresh, tx)
	w.pause()
	w.mu.Lock()
	w.queued -= len(set)
	for _, it := range set {
		w.taken[it.row.URL] = false
	}
	w.mu.Unlock()
	w.f.Done(done, times)
	w.f.Expect(-robots)
}

// TestExact runs whole crawls. Every pending row must be lent once, and again only after it was
// returned or committed as pending; the end must come when nothing is left, and must come.
func TestExact(t *testing.T) {
	seeds := 40
	if testing.Short() {
		seeds = 8
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runWorld(t, uint64(seed)) })
		})
	}
}

func runWorld(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	w := &world{
		t: t, rng: rng, items: make(chan item), flush: make(chan struct{}, 1), budget: 300,
		taken: map[string]bool{}, gone: map[string]int{}, known: map[string]bool{}, loans: map[string]int{}, robots: map[string]bool{},
	}
	w.opts = Options{
		Crawlers: 1 + rng.IntN(6), PerLoan: 1 + rng.IntN(5), PerHost: 1 + rng.IntN(3), MaxWait: 48 * time.Hour,
		Memory: []int64{1, 3000, 20_000, 0}[rng.IntN(4)], MaxHosts: []int{0, 1, 3, 8}[rng.IntN(4)], Run: 1,
		Delay: []time.Duration{0, 0, time.Second}[rng.IntN(3)],
		Auto:  rng.IntN(3) == 0,
		Admit: func(r *record.Row) string {
			if strings.HasSuffix(r.URL, "/no") {
				return "scope"
			}
			return ""
		},
		Idle: func() {
			select {
			case w.flush <- struct{}{}:
			default:
			}
		},
	}
	w.opts.Queue, w.opts.Queues = []string{"", queue.CBT, queue.QuickHeap}[rng.IntN(3)], rng.IntN(4)
	if w.opts.Queue != "" && rng.IntN(3) > 0 {
		w.opts.Rank = changingRank()
	}
	if rng.IntN(2) == 0 {
		w.opts.NeedRobots = func(origin string) bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return !w.known[origin]
		}
	}
	var rows []record.Row
	for range 100 {
		rows = append(rows, w.newRow())
	}
	w.store = newStore(rows...)
	for range 10 {
		w.store.addSitemaps(w.newSitemap().URL)
	}
	w.store.pause = w.pause
	if w.opts.Queue == "" && rng.IntN(2) == 0 {
		w.opts.Tree = w.store
	}
	w.f = start(t, w.store, w.opts)

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Hour) // virtual: the end never came
	defer cancel()
	var crawlers, committer sync.WaitGroup
	committer.Go(w.committer)
	for range w.opts.Crawlers {
		crawlers.Go(func() { w.crawler(ctx) })
	}
	crawlers.Wait()
	close(w.items)
	committer.Wait()

	s := w.f.figures()
	if s.Eligible != 0 || s.Out != 0 || s.Missing != 0 {
		t.Errorf("at the end %d eligible, %d out, %d missing", s.Eligible, s.Out, s.Missing)
	}
	t.Logf("%d hosts; queue %q, order tree: %v, %d loans by walks", w.opts.MaxHosts, w.opts.Queue, w.opts.Tree != nil, w.f.walks.found)
	if w.store.twice != "" {
		t.Errorf("two refills of %s at once", w.store.twice)
	}
	for url, n := range w.gone {
		if n != 1 {
			t.Errorf("%s has %d outcomes", url, n)
		}
	}
	for url, r := range w.store.rows {
		if r.Range != record.Held && r.Kind == record.PageRow {
			t.Errorf("%s is left in range %c", url, r.Range)
		}
	}
}
