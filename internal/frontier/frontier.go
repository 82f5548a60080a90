// Package frontier decides which pending URL is asked next, and when.
//
// It has two levels: a tournament of hosts (who may be asked, and when) and a window per host
// (its first rows, in order). The rows themselves are in the index; a row is pending until the
// transaction that holds its outcome deletes it, and the frontier only copies.
//
// A row moves so: it is told by Add once it is durable (or counted by New, which reads
// Store.NextHosts); it stands in the window of its host or waits on disk; Taker.Take lends it, and
// it is out; Return takes it back unasked, or Done records that its outcome is committed. A row
// that is out is neither in a window nor read by a refill, so it is lent once. Rows of sitemaps
// move in the same way, beside the window, and those of targets outside as if they were pages. So
// do stored pages that are asked again, behind all URLs of their host that were not asked yet, or
// with a share of its requests beside them, see repeats. The row of a robots.txt is made when
// another needs it.
//
// The committer calls, after each commit and in the order of the commits, first Add with the new
// rows and then Done with the outcomes. So what a page leads to is known before the page
// leaves, and the count of what is left never falls to zero too early.
//
// There is one lock. It is not held while the Store reads or while Idle is called. It is held while
// Admit and NeedRobots are called. They may look up one key in the index, that of an origin of
// which nothing is in memory: that is so when its host has its first turn, and what is lent then is
// the robots.txt and nothing else.
package frontier

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	"urltree/internal/frontier/queue"
	"urltree/storage/record"
)

// GivenUp is the reason of the rows of a host that failed too often in this run. A colon and what
// the last failure came to follow, if that is known.
const GivenUp = "host given up"

const (
	fewRows = 4    // what a window may hold however small its share is
	maxRows = 4096 // what a window may hold at most; bounds the time of one merge
	// What a host gets when it is read first. Who begins a crawl waits for some such readings, each
	// row of which may cost an access to a disk.
	firstRows = 64
	maxHeld   = 256 // held rows of one loan
	usualRow  = 384 // bytes of a usual row, to choose how many to read
)

// A Store reads the pending rows of a host. storage.Queues is one.
type Store interface {
	// Refill reads rows of one host that wait on disk, without those whose ID skip names: at most
	// so many of pages, first those of range Later with Due <= now, then those of range Now, in
	// order from the first, then stored pages that are to be asked again; and at most so many of
	// sitemaps with Due <= now; negative: sitemaps are left alone. due is the earliest time at
	// which another one may be due; 0: never.
	Refill(host string, now time.Time, pages, sitemaps int, skip func(id string) bool) (rows []record.Row, due int64, err error)
	// HostAt returns what is stored of a host, a zero row with its name if nothing is, and the number
	// of the last transaction that it shows.
	HostAt(name string) (h record.HostRow, tx uint64, err error)
	// NextHosts returns hosts behind a name, in the order of names, that have rows of range Now or
	// Later, open sitemaps or stored pages to be asked again, at most n, and the number of the last
	// transaction that they show. None: there are no others.
	NextHosts(after string, n int) (hosts []record.HostRow, tx uint64, err error)
}

// Options of a frontier. Admit, NeedRobots and the Store's skip must not call the frontier.
type Options struct {
	Store         Store
	Memory        int64         // bytes of all windows and of the names of their hosts; 0: 64 MiB
	Crawlers      int           // how many take; 0: 1
	PerLoan       int           // rows of one loan from a host without delay; 0: 16
	Share         int           // loans beyond the free downloads; 0: 64, negative: none
	PerHost       int           // loans of one host at once; 0: 1; see SetPace
	Delay         time.Duration // between two requests to one host; 0: none; see SetPace
	Auto          bool          // adapts the delay to 5 answer times, 100 ms to 30 s, at least Delay; see SetPace
	MaxCrawlDelay time.Duration // more is cut to this; 0: 1 min
	MaxWait       time.Duration // Take ends when nothing can be asked sooner; 0: 10 min

	// NotBefore is the latest time, in Unix nanoseconds, at which earlier runs may have worked: stored
	// times count from a clock that was not behind it.
	NotBefore int64
	Now       func() time.Time // the time of this machine, with the reading of its monotonic clock; nil: time.Now

	Live int64 // rows of range Now and Later in the store, those of sitemaps and revisits included
	// NoSitemaps: those of sitemaps wait for a later run, and Live is without them.
	NoSitemaps bool
	MaxHosts   int    // hosts in memory at a time; 0: Memory / 2 KiB, at least 1000
	Run        uint32 // the number of this run; 0: none, times of hosts are of an earlier one
	// Unclean: the last run has left no mark of a clean stop, so the stored times may be too
	// early. No host is asked before one full delay of its own, and none in the first second.
	Unclean bool
	// Earlier: the store may have times of hosts without rows, from earlier runs.
	Earlier bool

	// Queue is the kind of queue, queue.CBT or queue.QuickHeap, from which each host gives out its
	// rows by rank; "": sorted, which is cheaper where ranks stay as they are.
	Queue  string
	Queues int // for each host, side by side; 0: 1
	// Rank returns the present rank of a row, the less the better, in place of Row.Rank. It counts
	// for rows in memory: what is read first goes by Row.Rank. It is called as Admit is, and not
	// without Queue. nil: Row.Rank.
	Rank func(row *record.Row) uint64

	// Policy returns what is special about a host. It is called without the lock, each time that a
	// host has come into memory and before anything of it is lent. nil: nothing.
	Policy func(host string) Policy

	// Admit returns the reason why this run does not ask a row, or "". nil admits all. It is
	// called under the lock, for a row about to be lent, and must be quick: at most a look into the
	// index.
	Admit func(row *record.Row) (held string)
	// NeedRobots reports whether no valid robots.txt answer is known for an origin. nil: never.
	// It is called as Admit is.
	NeedRobots func(origin string) bool
	// Barred reports whether a host is not to be asked before it says otherwise: see Rebar. nil: none
	// is. It is called as Admit is, and looks into no index.
	Barred func(host string) bool
	// Idle is called, without the lock, by a Take that must wait while all that is left is out:
	// once after each change. It should flush the buffers.
	Idle func()

	// Revisits have a share of what a host is asked. Not with Tree.
	Revisits Revisits

	// Tree makes the order source B's. nil: rows go by their rank.
	Tree Tree
}

// A Frontier lends pending URLs to crawlers. All methods may be called at the same time.
type Frontier struct {
	opts  Options
	clock clock

	mu     sync.Mutex
	hosts  hosts    // in memory; guarded by mu, as is all below
	others rotation // the hosts that are not
	turns  turns    // of the hosts in memory
	lent   lent
	walks  walks // of order tree
	counts counts
	waits  waits
	// Since Withdraw was called nothing was added.
	withdrawn bool
	readers   int   // readings of the Store that go on, those of walks not included
	since     int64 // Unix nanoseconds of the last Rebar; 0: there was none
	err       error // the first one of the Store; ends all Takes
}

// New makes a frontier over the rows that are in the store.
func New(opts Options) (*Frontier, error) {
	if opts.Store == nil {
		return nil, errors.New("frontier: no store")
	}
	if opts.Memory < 0 || opts.Crawlers < 0 || opts.PerLoan < 0 || opts.PerHost < 0 || opts.Delay < 0 || opts.MaxWait < 0 || opts.MaxHosts < 0 || opts.MaxCrawlDelay < 0 || opts.Queues < 0 {
		return nil, errors.New("frontier: negative option")
	}
	if opts.Tree != nil && (opts.Queue != "" || opts.Revisits.Share != 0) {
		return nil, errors.New("frontier: order tree has neither queue nor share")
	}
	opts.Memory = cmp.Or(opts.Memory, 64<<20)
	opts.Crawlers = cmp.Or(opts.Crawlers, 1)
	opts.PerLoan = cmp.Or(opts.PerLoan, 16)
	opts.Share = max(cmp.Or(opts.Share, 64), 0)
	opts.PerHost = cmp.Or(opts.PerHost, 1)
	opts.MaxWait = cmp.Or(opts.MaxWait, 10*time.Minute)
	opts.MaxCrawlDelay = cmp.Or(opts.MaxCrawlDelay, time.Minute)
	opts.Queues = cmp.Or(opts.Queues, 1)
	if opts.Queue != "" {
		if _, err := queue.New[*record.Row](opts.Queue, opts.Queues); err != nil {
			return nil, fmt.Errorf("frontier: %w", err)
		}
	}
	opts.MaxHosts = cmp.Or(opts.MaxHosts, max(int(opts.Memory/(hostBytes+opts.fixed())), 1000))
	f := &Frontier{
		opts:   opts,
		clock:  newClock(opts.Now, opts.NotBefore),
		hosts:  hosts{byName: map[string]*host{}},
		others: rotation{forgotten: map[string]bool{}},
		lent:   lent{rows: map[string]*outRow{}},
		walks:  walks{nodes: map[string]*node{}, scans: map[*scan]struct{}{}},
		counts: counts{live: opts.Live},
		waits:  waits{wake: make(chan struct{})},
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for cursor := ""; len(f.hosts.byName) < opts.MaxHosts; {
		hosts, tx, err := opts.Store.NextHosts(cursor, min(opts.MaxHosts-len(f.hosts.byName), hostsAtOnce))
		if err != nil {
			return nil, fmt.Errorf("frontier: hosts: %w", err)
		}
		for i := range hosts {
			cursor = hosts[i].Name
			if f.wantsLocked(&hosts[i]) {
				f.loadLocked(&hosts[i], tx)
			}
		}
		if len(hosts) == 0 {
			f.others.all = true
			f.counts.live = f.hosts.rows
			break
		}
	}
	return f, nil
}

// hostLocked returns the host of a name; a new one may be asked at once, except shortly after an
// unclean start.
func (f *Frontier) hostLocked(name string) *host {
	if h := f.hosts.byName[name]; h != nil {
		return h
	}
	h := f.newHostLocked(name)
	h.stored.unread = f.opts.Earlier || f.since != 0 || f.opts.Policy != nil
	h.pace.afterKill(&f.opts, f.clock.start)
	h.lending.leaving = f.barredLocked(name)
	return h
}

func (f *Frontier) newHostLocked(name string) *host {
	h := f.hosts.add(name)
	h.win = f.newWindow(&h.plain)
	return h
}

// failLocked notes the first error of the Store.
func (f *Frontier) failLocked(err error) {
	if f.err == nil {
		f.err = fmt.Errorf("frontier: %w", err)
	}
	f.wakeLocked()
}

// CrawlDelay sets the least delay that a robots.txt asks for, at most Options.MaxCrawlDelay; 0
// asks for none. The latest call counts. Answered returns it, to be stored.
func (f *Frontier) CrawlDelay(host string, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hostLocked(host)
	h.pace.crawlDelay = min(max(d, 0), f.opts.MaxCrawlDelay)
	h.pace.keep(&f.opts)
	f.placeLocked(h)
}

// Private reports whether the name of a host had an internal address when it was first looked up.
// private says whether it has one now, and is kept if this is the first time: Answered
// returns it, to be stored.
func (f *Frontier) Private(name string, private bool) (bool, error) {
	addresses := int64(record.KindPublic)
	if private {
		addresses = record.KindPrivate
	}
	f.mu.Lock()
	if h := f.hosts.byName[name]; h != nil && !h.stored.unread {
		defer f.mu.Unlock()
		if h.stored.addresses == 0 {
			h.stored.addresses = int8(addresses)
		}
		return h.stored.addresses == record.KindPrivate, nil
	}
	f.mu.Unlock()
	stored, _, err := f.opts.Store.HostAt(name) // a host that is not lent, such as that of a redirect
	return cmp.Or(stored.Kind, addresses) == record.KindPrivate, err
}

// Times returns the times of a host of a loan, to be stored.
func (f *Frontier) Times(host string) record.HostTimes {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hostLocked(host)
	h.stored.seq++
	return h.times()
}

// Expect changes the number of commits that may bring rows though no row is out for them, such as
// that of a robots.txt: n more, or -n fewer. No Take ends before there are none.
func (f *Frontier) Expect(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts.expected += int64(n)
	f.waits.changes++ // what is expected may wait in a buffer: another reason for Idle
	f.wakeLocked()
}

// countLocked changes the number of a host's rows by so many of a kind.
func (f *Frontier) countLocked(h *host, kind record.Kind, by int64) {
	f.hosts.count(h, by)
	f.counts.live += by
	if kind != record.SitemapRow {
		return
	}
	if s := h.sideOf(); s.count+by == 0 && len(s.rows) == 0 {
		h.side = nil
	} else {
		s.count += by
	}
}

// placeLocked puts a host where it belongs after something of it has changed: among the turns, or
// out of memory if it was to leave as soon as it could. It counts its window.
func (f *Frontier) placeLocked(h *host) {
	if h.lending.leaving && h.idle() {
		f.evictLocked(h)
		return
	}
	f.hosts.weigh(h)
	at, ok := h.turn(&f.opts)
	f.turns.place(h, at, ok)
}
