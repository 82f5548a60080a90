package frontier

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"urltree/internal/frontier/queue"
	"urltree/storage"
	"urltree/storage/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A memStore is an index in memory.
type memStore struct {
	mu      sync.Mutex
	rows    map[string]record.Row     // guarded by mu; the pending rows by ID
	keys    map[string]string         // guarded by mu; record keys by URL
	reading map[string]bool           // guarded by mu; hosts that a refill reads
	twice   string                    // guarded by mu; a host that two refills read at once
	pause   func()                    // called while a refill is on its way; nil: not
	err     error                     // of every read
	times   map[string]record.HostRow // guarded by mu; what is durable of hosts besides their rows
	table   []record.HostRow          // in place of the host table that belongs to the rows; nil: that
	tx      uint64                    // guarded by mu; the last transaction
	run     uint32                    // guarded by mu; the number of this run
}

func newStore(rows ...record.Row) *memStore {
	s := &memStore{
		rows: map[string]record.Row{}, keys: map[string]string{},
		reading: map[string]bool{}, times: map[string]record.HostRow{}, run: 1,
	}
	for _, r := range rows {
		s.rows[r.ID()] = r
	}
	return s
}

// commit is a transaction: the outcomes of rows, new rows, times of hosts in this run.
func (s *memStore) commit(done []Done, fresh []record.Row, times []record.HostTimes) (tx uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range done {
		if d.Row.URL == "" {
			continue
		}
		if d.Next.Range != 0 {
			next := d.Next
			next.URL, next.Kind = d.Row.URL, d.Row.Kind
			s.rows[next.ID()] = next
		} else {
			delete(s.rows, d.Row.ID())
		}
	}
	for _, r := range fresh {
		s.rows[r.ID()] = r
	}
	for _, t := range times {
		if had := s.times[t.Name]; had.Run != s.run || t.Seq >= had.Seq {
			s.times[t.Name] = record.HostRow{HostTimes: t, Run: s.run}
		}
	}
	s.tx++
	return s.tx
}

func (s *memStore) NextHosts(after string, n int) ([]record.HostRow, uint64, error) {
	s.wait()
	hosts, tx := s.hosts()
	s.wait()
	hosts = slices.DeleteFunc(hosts, func(h record.HostRow) bool { return h.Name <= after || h.Now+h.Later+h.Sitemaps == 0 })
	return hosts[:min(n, len(hosts))], tx, s.err
}

func (s *memStore) HostAt(name string) (record.HostRow, uint64, error) {
	s.wait()
	hosts, tx := s.hosts()
	s.wait()
	for _, h := range hosts {
		if h.Name == name {
			return h, tx, s.err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.times[name]
	h.Name = name
	return h, tx, s.err
}

func (s *memStore) gone(r record.Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.rows, r.ID())
}

// eligible returns the rows of a kind and a host of ranges Later and Now, in the order of a window.
func (s *memStore) eligible(host string, kind record.Kind) []record.Row {
	s.mu.Lock()
	defer s.mu.Unlock()
	var rows []record.Row
	for _, r := range s.rows {
		if record.Host(r.URL) == host && r.Range != record.Held && r.Kind == kind {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b record.Row) int { return strings.Compare(a.URL, b.URL) })
	if kind == record.PageRow {
		sortRows(rows)
	}
	return rows
}

func (s *memStore) Refill(host string, now time.Time, pages, sitemaps int, skip func(string) bool) (rows []record.Row, due int64, err error) {
	rows = s.read(host, record.PageRow, now, pages, skip)
	left := s.eligible(host, record.PageRow)
	if sitemaps >= 0 {
		rows = append(rows, s.read(host, record.SitemapRow, now, sitemaps, skip)...)
		left = append(left, s.eligible(host, record.SitemapRow)...)
	}
	for _, r := range left {
		if r.Range != record.Later || skip(r.ID()) || slices.Contains(rows, r) {
			continue
		}
		if at := max(r.Due, 1); due == 0 || at < due {
			due = at
		}
	}
	return rows, due, s.err
}

func (s *memStore) read(host string, kind record.Kind, now time.Time, n int, skip func(string) bool) []record.Row {
	s.mu.Lock()
	if s.reading[host] {
		s.twice = host
	}
	s.reading[host] = true
	s.mu.Unlock()
	s.wait()
	rows := slices.DeleteFunc(s.eligible(host, kind), func(r record.Row) bool {
		return skip(r.ID()) || r.Range == record.Later && r.Due > now.UnixNano()
	})
	s.wait()
	s.mu.Lock()
	delete(s.reading, host)
	s.mu.Unlock()
	return rows[:min(n, len(rows))]
}

// sitemap is the row of a sitemap that is to be read at once.
func sitemap(url string) record.Row {
	return record.Row{URL: url, Kind: record.SitemapRow, Depth: 1, Range: record.Later}
}

// addSitemaps puts sitemaps to be read at once into the store.
func (s *memStore) addSitemaps(urls ...string) (list []record.Row) {
	for _, url := range urls {
		list = append(list, sitemap(url))
	}
	s.commit(nil, list, nil)
	return list
}

// robotsOf returns the origin of which a loan is to ask for robots.txt, or "".
func robotsOf(l *Loan) string {
	if len(l.Rows) == 1 && l.Rows[0].Kind == record.RobotsRow {
		return l.Rows[0].Source
	}
	return ""
}

// OpenChildren goes over all rows.
func (s *memStore) OpenChildren(folder, after []byte, n int) ([]record.Child, []byte, error) {
	s.wait()
	list := s.open(string(folder))
	s.wait()
	list = slices.DeleteFunc(list, func(c record.Child) bool { return string(c.Key) <= string(after) })
	if len(list) <= n {
		return list, nil, s.err
	}
	return list[:n], list[n-1].Key, s.err
}

func (s *memStore) OpenOf(keys [][]byte) ([]record.Child, error) {
	s.wait()
	list := s.open(parent(string(keys[0]))) // they are of one folder
	list = slices.DeleteFunc(list, func(c record.Child) bool {
		return !slices.ContainsFunc(keys, func(key []byte) bool { return string(key) == string(c.Key) })
	})
	s.wait()
	return list, s.err
}

// open returns the entries directly below a folder with eligible rows, in the order of keys.
func (s *memStore) open(folder string) []record.Child {
	s.mu.Lock()
	defer s.mu.Unlock()
	byKey := map[string]*record.Child{}
	for url, r := range s.rows {
		if r.Kind != record.PageRow {
			continue
		}
		key, known := s.keys[url]
		if !known {
			b, _ := record.Key(url)
			key = string(b)
			s.keys[url] = key
		}
		if r.Range != record.Held && len(key) > len(folder) && strings.HasPrefix(key, folder) {
			end := len(folder) + strings.IndexByte(key[len(folder):], 0) + 1
			c := byKey[key[:end]]
			if c == nil {
				c = &record.Child{Key: []byte(key[:end])}
				byKey[key[:end]] = c
			}
			if end == len(key) {
				c.Record = &record.Record{Row: r, State: record.Pending}
			} else {
				c.Below.Now++
			}
		}
	}
	var list []record.Child
	for _, c := range byKey {
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b record.Child) int { return strings.Compare(string(a.Key), string(b.Key)) })
	return list
}

func (s *memStore) wait() {
	if s.pause != nil {
		s.pause()
	}
}

// hosts returns the host table that belongs to the rows, in the order of names.
func (s *memStore) hosts() ([]record.HostRow, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.table != nil {
		return slices.Clone(s.table), s.tx
	}
	byName := map[string]*record.HostRow{}
	of := func(url string) *record.HostRow {
		name := record.Host(url)
		h := byName[name]
		if h == nil {
			row := s.times[name]
			h = &row
			h.Name = name
			byName[name] = h
		}
		return h
	}
	for _, r := range s.rows {
		h := of(r.URL)
		switch {
		case r.Kind == record.SitemapRow:
			h.Sitemaps++
		case r.Range == record.Now:
			h.Now++
		case r.Range == record.Later:
			h.Later++
		case r.Range == record.Held:
			h.Held++
		}
	}
	var hosts []record.HostRow
	for _, h := range byName {
		hosts = append(hosts, *h)
	}
	slices.SortFunc(hosts, func(a, b record.HostRow) int { return strings.Compare(a.Name, b.Name) })
	return hosts, s.tx
}

func brokenIf(yes bool) Fault {
	if yes {
		return Broken
	}
	return NoFault
}

// row is a pending row; seq is its number of discovery, of which the URL is made.
func row(host string, depth, seq uint64) record.Row {
	return record.Row{
		URL: fmt.Sprintf("http://%s/%d", host, seq), Source: record.Seed,
		Depth: uint32(depth), Rank: depth, Seq: seq, Range: record.Now,
	}
}

// start makes a frontier over the rows of a store.
func start(t testing.TB, s *memStore, opts Options) *Frontier {
	t.Helper()
	opts.Store = s
	hosts, _ := s.hosts()
	for _, h := range hosts {
		opts.Live += h.Now + h.Later + h.Sitemaps
	}
	f, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { checkInvariants(t, f) })
	return f
}

// Take is that of a Taker of its own.
func (f *Frontier) Take(ctx context.Context, free int) ([]*Loan, error) {
	return f.Taker().Take(ctx, free)
}

// TryTake is that of a Taker of its own.
func (f *Frontier) TryTake(free int) ([]*Loan, bool) { return f.Taker().TryTake(free) }

// figures are what only tests ask for.
type figures struct{ Eligible, Out, Added, Removed, Missing, Refills, Windows int64 }

func (f *Frontier) figures() figures {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &f.counts
	return figures{c.live, f.lent.out(), c.added, c.removed, c.missing, c.refills, f.hosts.windows}
}

// checkInvariants compares every sum with what it sums up.
func checkInvariants(t testing.TB, f *Frontier) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	var bytes, names, resident, out int64
	busy, seats, listed := 0, 0, 0
	below := map[string]int{}
	for name, h := range f.hosts.byName {
		outs, sideOut := 0, int64(0)
		for _, o := range h.out {
			if outs++; f.lent.rows[o.id] != o || o.h != h {
				t.Errorf("%s is out of %s only", o.id, name)
			}
			if o.kind != record.PageRow {
				sideOut++
			} else if key, err := record.Key(o.id); err == nil && f.opts.Tree != nil {
				record.Parents(key, func(folder []byte) { below[string(folder)]++ })
			}
		}
		if outs != len(h.out) {
			t.Errorf("%s: %d rows are out, %d counted", name, outs, len(h.out))
		}
		listed += outs
		rows := 0
		h.win.each(func(r *record.Row) {
			rows++
			if f.lent.rows[r.URL] != nil {
				t.Errorf("%s is in the window and out", r.URL)
			}
		})
		if rows != h.win.len() {
			t.Errorf("window of %s has %d rows, gives %d", name, h.win.len(), rows)
		}
		if err := soundWindow(h.win); err != nil {
			t.Errorf("window of %s: %v", name, err)
		}
		bytes += h.win.bytes()
		names += int64(len(name))
		resident += h.stock.count
		out += int64(outs)
		h.side.each(func(r *record.Row) {
			if f.lent.rows[r.ID()] != nil {
				t.Errorf("%s is in the side and out", r.URL)
			}
		})
		count := int64(0)
		if h.side != nil {
			count = h.side.count
		}
		if n := sideOut + int64(h.side.ready()); count < n || count > h.stock.count || count > n && h.stock.due == 0 {
			t.Errorf("%s: %d rows, %d of the side, %d of them in memory, the others due %d", name, h.stock.count, count, n, h.stock.due)
		}
		if h.stock.count > 0 {
			busy++
		}
		if h.seat.taken() {
			seats++
		}
		if at, ok := h.turn(&f.opts); ok != h.seat.taken() || ok && at != h.seat.at {
			t.Errorf("%s: turn at %d %v, but seat %+v", name, at, ok, h.seat)
		}
	}
	earliest := int64(math.MaxInt64)
	for h := range f.turns.tournament.UpTo(math.MaxUint64, math.MaxInt) {
		if f.hosts.byName[h.name] != h || !h.seat.taken() {
			t.Errorf("%s has a turn, but is not in memory", h.name)
		}
		earliest = min(earliest, h.seat.at)
	}
	if h := f.turns.first(); h != nil && h.seat.at != earliest {
		t.Errorf("%s is first with %d, not one with %d", h.name, h.seat.at, earliest)
	}
	for key, n := range f.walks.nodes {
		if n.out != below[key] || n.workers < 0 || n.out == 0 && n.workers == 0 {
			t.Errorf("folder %q: %d rows out and %d workers counted, %d rows are out", key, n.out, n.workers, below[key])
		}
		delete(below, key)
	}
	if len(below) > 0 || len(f.walks.scans) > 0 {
		t.Errorf("%d folders with rows that are out are not in memory, %d readings go on", len(below), len(f.walks.scans))
	}
	if listed != len(f.lent.rows) {
		t.Errorf("%d rows are out, %d of hosts in memory", len(f.lent.rows), listed)
	}
	if len(f.hosts.list) != len(f.hosts.byName) || len(f.hosts.byName) > f.opts.MaxHosts {
		t.Errorf("%d hosts in the list, %d in the map, at most %d are allowed", len(f.hosts.list), len(f.hosts.byName), f.opts.MaxHosts)
	}
	if f.others.all && f.counts.live != f.hosts.rows {
		t.Errorf("all hosts are in memory, with %d of %d rows", f.hosts.rows, f.counts.live)
	}
	if bytes != f.hosts.windows || resident != f.hosts.rows || out != f.lent.out() || busy != f.hosts.busy || seats != f.turns.tournament.Len() {
		t.Errorf("counted bytes %d, resident %d, out %d, busy %d, seats %d; there are %d, %d, %d, %d, %d",
			f.hosts.windows, f.hosts.rows, f.lent.out(), f.hosts.busy, f.turns.tournament.Len(), bytes, resident, out, busy, seats)
	}
	if names != f.hosts.names || f.hosts.windows > max(f.opts.Memory-names, 0) {
		t.Errorf("windows take %d bytes and names %d, counted %d, of %d", f.hosts.windows, names, f.hosts.names, f.opts.Memory)
	}
}

// soundWindow looks into a window.
func soundWindow(w window) error {
	text, counted := int64(0), int64(0)
	w.each(func(r *record.Row) { text += rowText(r) })
	switch w := w.(type) {
	case *sorted:
		counted = w.text
		for i := range w.rows[w.head:] {
			if i > 0 && compareRows(&w.rows[w.head+i-1], &w.rows[w.head+i]) >= 0 {
				return fmt.Errorf("not in order at %d", i)
			}
		}
	case *scored:
		counted = w.text
		if len(w.rows) > 0 && w.queue.Len() != len(w.rows) {
			return fmt.Errorf("%d rows in the queue of %d", w.queue.Len(), len(w.rows))
		}
	}
	if text != counted {
		return fmt.Errorf("%d bytes of text counted, %d there", counted, text)
	}
	return nil
}

// An order is a kind of window that tests run over.
type order struct {
	name   string
	queue  string
	queues int
	rank   func(*record.Row) uint64
}

// exactOrders give out the rows of a host by their ranks.
var exactOrders = []order{{name: "sorted"}, {name: "cbt", queue: queue.CBT}, {name: "quickheap", queue: queue.QuickHeap}}

// allOrders are these and others, whose order is not foreseen.
func allOrders() []order {
	return append(slices.Clip(exactOrders),
		order{name: "cbt, changing ranks", queue: queue.CBT, rank: changingRank()},
		order{name: "three quickheaps, changing ranks", queue: queue.QuickHeap, queues: 3, rank: changingRank()})
}

// someOrders returns all orders with TEST_URLTREE_FULL, else one, a different one for each i.
func someOrders(i int) []order {
	all := allOrders()
	if os.Getenv("TEST_URLTREE_FULL") != "" {
		return all
	}
	return all[i%len(all):][:1]
}

func (o order) options(opts Options) Options {
	opts.Queue, opts.Queues, opts.Rank = o.queue, o.queues, o.rank
	return opts
}

// in runs a test in each order, in fake time.
func in(t *testing.T, orders []order, test func(t *testing.T, o order)) {
	for _, o := range orders {
		t.Run(o.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, o) })
		})
	}
}

// changingRank returns ranks that change all the time, as sums of scores do.
func changingRank() func(*record.Row) uint64 {
	calls := uint64(0)
	return func(r *record.Row) uint64 {
		calls++
		return r.Rank + r.Seq*0x9e3779b97f4a7c15>>50*(calls>>5&3)
	}
}

var (
	_ Store = storage.Queues{}
	_ Tree  = storage.Queues{}
)
