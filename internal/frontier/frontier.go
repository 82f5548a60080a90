// Package frontier decides which pending URL is asked next, and when.
//
// It has two levels: a tournament of hosts (who may be asked, and when) and a window per host
// (its first rows, in order). The rows themselves are in the index; a row is pending until the
// transaction that holds its outcome deletes it, and the frontier only copies.
//
// A row moves so: it is told by Add once it is durable (or counted by New, which reads
// Store.NextHosts); it stands in the window of its host or waits on disk; Take lends it, and it is
// out; Return gives it back unasked, or Done tells that the commit with its outcome has happened. A
// row that is out is neither in a window nor read by a refill, so it is lent once. Rows of sitemaps
// move in the same way, beside the window; that of a robots.txt is made when another needs it.
//
// The committer calls, after each commit and in the order of the commits, first Add with the new
// rows and then Done with the outcomes. So what a page leads to is known before the page
// leaves, and the count of what is left never falls to zero too early.
//
// There is one lock. It is not held while the Store reads or while Idle is called.
package frontier

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

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
	// Refill reads rows of one host that wait on disk, without those whose ID skip names: at most so
	// many of pages, first those of range Later with Due <= now, then those of range Now, in order
	// from the first; and at most so many of sitemaps with Due <= now; negative: sitemaps are left
	// alone. due is the earliest time at which another one may be due; 0: never.
	Refill(host string, now time.Time, pages, sitemaps int, skip func(id string) bool) (rows []record.Row, due int64, err error)
	// HostAt returns what is stored of a host, a zero row with its name if nothing is, and the number
	// of the last transaction that it shows.
	HostAt(name string) (h record.HostRow, tx uint64, err error)
	// NextHosts returns hosts behind a name, in the order of names, that have rows of range Now or
	// Later or open sitemaps, at most n, and the number of the last transaction that they show. None:
	// there are no others.
	NextHosts(after string, n int) (hosts []record.HostRow, tx uint64, err error)
}

// Options of a frontier. Admit, NeedRobots and the Store's skip must not call the frontier.
type Options struct {
	Store         Store
	Memory        int64         // bytes of all windows and of the names of their hosts; 0: 64 MiB
	Crawlers      int           // how many call Take; 0: 1
	Batch         int           // rows of one loan from a host without delay; 0: 16
	Share         int           // loans beyond the free downloads; 0: 64, negative: none
	PerHost       int           // loans of one host at once; 0: 1
	Delay         time.Duration // between two requests to one host; 0: none
	Auto          bool          // adapts the delay to 5 answer times, 100 ms to 30 s, at least Delay
	MaxCrawlDelay time.Duration // more is cut to this; 0: 1 min
	MaxWait       time.Duration // Take ends when nothing can be asked sooner; 0: 10 min

	// NotBefore is the latest time, in Unix nanoseconds, at which earlier runs may have worked: stored
	// times count from a clock that was not behind it.
	NotBefore int64
	Now       func() time.Time // the time of this machine, with the reading of its monotonic clock; nil: time.Now

	Live int64 // rows of range Now and Later in the store, those of sitemaps included
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

	// Admit returns the reason why this run does not ask a row, or "". nil admits all. It is
	// called under the lock, for a row about to be lent, and must be quick.
	Admit func(row *record.Row) (held string)
	// NeedRobots reports whether no valid robots.txt answer is known for an origin. nil: never.
	// It is called as Admit is.
	NeedRobots func(origin string) bool
	// Idle is called, without the lock, by a Take that must wait while all that is left is out:
	// once after each change. It should flush the buffers.
	Idle func()

	// Tree makes the order source B's for those who take by a Taker. nil: rows go by their rank.
	Tree Tree
}

// A Loan lends a host to one crawler until Return. The rows are to be asked one after the
// other, each request followed by Answered. When that gives a next permitted time in the
// future, the rest goes back by Return.
type Loan struct {
	Host string
	// Rows are of pages, or there is one of another kind. That of a robots.txt is in no Store and is
	// not out: it needs no Done, and nobody else has this host, unless Hops redirects have led to it.
	Rows  []record.Row
	Known bool // the host has answered before
	// Held are rows that are not to be asked in this run. An outcome moves each to the held
	// range; they need no request and no turn. That of a robots.txt ends the way of its redirects.
	Held []HeldRow

	h        *host
	one      [1]record.Row // where Rows lies, if it is one
	by       *Taker        // in order tree
	returned bool
	used     bool  // something was asked
	onward   bool  // its robots.txt goes on as a hop
	before   int64 // the host's next permitted time before this loan moved it to reserved
	reserved int64 // 0: not moved
}

// A HeldRow is a row that this run does not ask, and why.
type HeldRow struct {
	Row    record.Row
	Reason string
}

// Done describes a committed outcome: Row as it was lent, and its new place. Next counts only by
// Range and Due: Later or Now if the row is pending as before, Held, or 0 if it is pending no more.
type Done struct {
	Row  record.Row
	Next record.Row
}

// A Frontier lends pending URLs to crawlers. All methods may be called at the same time.
type Frontier struct {
	opts    Options
	ranking ranking // of the windows, with Options.Queue
	clock

	mu    sync.Mutex
	hosts map[string]*host // guarded by mu, as is all below
	list  []*host          // all hosts, for shrink and rotation
	hand  int              // where in list they go on
	// All rows that are out, by ID. It does not shrink: what is out waits in crawlers and buffers.
	rowsOut map[string]*outRow
	others  rotation // the hosts that are not in memory
	turns   turns
	// Hosts of which the side is forgotten in this run, those that have left memory included: the
	// store does not know that they are.
	forgotten map[string]bool
	walks     walks // of order tree
	err       error // the first error of the Store; ends all Takes

	bytes    int64 // of all windows
	names    int64 // bytes of the names of the hosts
	busy     int   // hosts with a count above 0
	live     int64 // rows of range Now and Later
	resident int64 // those of hosts in memory: the sum of their counts
	out      int64 // sum of the sizes of the hosts' out sets
	loans    int   // not returned
	hopBytes int64 // of all hops that wait
	readers  int   // refills that read
	changes  int64 // loans made and returned, and calls of Expect
	idle     int64 // changes when Idle was called last

	wake    chan struct{} // closed and replaced to wake the waiting Takes
	waiters int
	sleep   int64 // Unix nanoseconds when the first of them wakes by itself; in the past: unknown

	expected int64 // see Expect

	held, added, removed, missing, refills, left int64
	longestWait                                  time.Duration
}

// New makes a frontier over the rows that are in the store.
func New(opts Options) (*Frontier, error) {
	if opts.Store == nil {
		return nil, errors.New("frontier: no store")
	}
	if opts.Memory < 0 || opts.Crawlers < 0 || opts.Batch < 0 || opts.PerHost < 0 || opts.Delay < 0 || opts.MaxWait < 0 || opts.MaxHosts < 0 || opts.MaxCrawlDelay < 0 || opts.Queues < 0 {
		return nil, errors.New("frontier: negative option")
	}
	if opts.Tree != nil && opts.Queue != "" {
		return nil, errors.New("frontier: order tree has no queue")
	}
	orDefault(&opts.Memory, 64<<20)
	orDefault(&opts.Crawlers, 1)
	orDefault(&opts.Batch, 16)
	orDefault(&opts.Share, 64)
	opts.Share = max(opts.Share, 0)
	orDefault(&opts.PerHost, 1)
	orDefault(&opts.MaxWait, 10*time.Minute)
	orDefault(&opts.MaxCrawlDelay, time.Minute)
	ranking, err := opts.ranking()
	if err != nil {
		return nil, fmt.Errorf("frontier: %w", err)
	}
	orDefault(&opts.MaxHosts, max(int(opts.Memory/(hostBytes+ranking.fixed())), 1000))
	f := &Frontier{
		opts: opts, ranking: ranking,
		clock:     newClock(opts.Now, opts.NotBefore),
		hosts:     map[string]*host{},
		rowsOut:   map[string]*outRow{},
		live:      opts.Live,
		wake:      make(chan struct{}),
		forgotten: map[string]bool{},
		walks:     walks{nodes: map[string]*node{}, scans: map[*scan]struct{}{}},
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for cursor := ""; len(f.hosts) < opts.MaxHosts; {
		hosts, tx, err := opts.Store.NextHosts(cursor, min(opts.MaxHosts-len(f.hosts), hostsAtOnce))
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
			f.live = f.resident
			break
		}
	}
	return f, nil
}

func orDefault[T ~int | ~int64](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// hostLocked returns the host of a name; a new one may be asked at once, except shortly after an
// unclean start.
func (f *Frontier) hostLocked(name string) *host {
	if h := f.hosts[name]; h != nil {
		return h
	}
	h := f.newHostLocked(name)
	h.unread = f.opts.Earlier
	f.afterKill(h)
	return h
}

func (f *Frontier) newHostLocked(name string) *host {
	h := &host{name: strings.Clone(name), at: len(f.list)} // a part of a URL would keep all of it
	h.win = f.newWindow(&h.plain)
	f.names += int64(len(h.name))
	f.hosts[h.name] = h
	f.list = append(f.list, h)
	return h
}

// Begin reports whether a request of the loan may begin now. It is called right before each one. It
// may not where another loan of the host has met an answer meanwhile that demands a rest, or has
// begun a request too short a time ago: the rest of the loan goes back then.
func (f *Frontier) Begin(l *Loan) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, now := l.h, f.now()
	if h.givenUp || now < h.rest {
		return false
	}
	if f.opts.PerHost > 1 {
		if h.asked != 0 && now < h.asked+int64(f.wait(h)) {
			return false
		}
		h.asked = now
		f.restLocked(h)
		f.placeLocked(h)
	}
	l.used = true
	return true
}

// Answered records how the host took a request of the loan, and returns what is to be stored of it.
func (f *Frontier) Answered(l *Loan, a Answer) record.HostTimes {
	f.mu.Lock()
	defer f.mu.Unlock()
	l.used = true
	l.h.seq++
	f.answered(l.h, a)
	if l.h.givenUp {
		f.forgetSideLocked(l.h)
	}
	if a.Failed && l.by != nil {
		f.moveLocked(l.by, "")
	}
	f.placeLocked(l.h)
	f.wakeLocked()
	return l.h.times()
}

// CrawlDelay sets the least delay that a robots.txt asks for, at most Options.MaxCrawlDelay; 0
// asks for none. The latest call counts. Answered gives it back to be stored.
func (f *Frontier) CrawlDelay(host string, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hostLocked(host)
	h.delay = min(max(d, 0), f.opts.MaxCrawlDelay)
	f.restLocked(h)
	f.placeLocked(h)
}

// Private reports whether the name of a host had an internal address when it was first looked up.
// private says whether it has one now, and is kept if this is the first time: Answered gives it
// back to be stored.
func (f *Frontier) Private(name string, private bool) (bool, error) {
	kind := int64(record.KindPublic)
	if private {
		kind = record.KindPrivate
	}
	f.mu.Lock()
	if h := f.hosts[name]; h != nil && !h.unread {
		defer f.mu.Unlock()
		if h.kind == 0 {
			h.kind = int8(kind)
		}
		return h.kind == record.KindPrivate, nil
	}
	f.mu.Unlock()
	stored, _, err := f.opts.Store.HostAt(name) // a host that is not lent, such as that of a redirect
	if stored.Kind != 0 {
		kind = stored.Kind
	}
	return kind == record.KindPrivate, err
}

// Return ends a loan. The unasked rows, of Rows or Held, may be taken again at once. A second
// Return of a loan does nothing.
func (f *Frontier) Return(l *Loan, unasked []record.Row) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l.returned {
		return
	}
	l.returned = true
	h := l.h
	f.loans--
	f.changes++
	h.borrowers--
	if h.borrowers == 0 {
		h.alone = false
	}
	if l.reserved != 0 && !l.used && h.next == l.reserved {
		h.next = l.before // nothing was asked, so nobody waits for it
	}
	if hop := l.hop(); hop != nil {
		f.returnHopLocked(l, hop)
	}
	var rows []record.Row
	for i := range unasked {
		switch o := f.backLocked(&unasked[i]); {
		case o == nil:
		case h.givenUp && o.kind != record.PageRow:
			f.countLocked(h, o.kind, -1)
		default:
			rows = append(rows, unasked[i])
		}
	}
	if rows = h.takeSide(rows); len(rows) > 0 {
		sortRows(rows)
		f.insertLocked(h, rows)
	}
	if !f.leaveLocked(h) {
		f.placeLocked(h)
	}
	f.shrinkLocked()
	f.wakeLocked()
}

// Done records that the outcomes of rows are committed, with what Answered returned of their hosts.
// Rows that are not out are ignored.
func (f *Frontier) Done(done []Done, times []record.HostTimes) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range times {
		if h := f.hosts[times[i].Name]; h != nil {
			h.saved = max(h.saved, times[i].Seq)
			f.leaveLocked(h)
		}
	}
	for i := range done {
		row, next := &done[i].Row, &done[i].Next
		o := f.backLocked(row)
		if o == nil {
			continue
		}
		h := o.h
		h.more = h.more || o.told // it may be open again, on disk
		page := o.kind == record.PageRow
		switch {
		case (next.Range == record.Now || next.Range == record.Later) && (page || !h.givenUp):
			h.leave(next)
		case !page:
			f.countLocked(h, o.kind, -1)
		case next.Range == record.Held:
			f.held++
			f.countLocked(h, o.kind, -1)
		default:
			f.removed++
			f.countLocked(h, o.kind, -1)
		}
		if !f.leaveLocked(h) {
			f.placeLocked(h)
		}
	}
	f.wakeLocked()
}

// Expect changes the number of commits that may bring rows though no row is out for them, such as
// that of a robots.txt: n more, or -n fewer. No Take ends before there are none.
func (f *Frontier) Expect(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expected += int64(n)
	f.changes++ // what is expected may wait in a buffer: another reason for Idle
	f.wakeLocked()
}

// countLocked changes the number of a host's rows by so many of a kind.
func (f *Frontier) countLocked(h *host, kind record.Kind, by int64) {
	if h.count > 0 {
		f.busy--
	}
	h.count += by
	f.live += by
	f.resident += by
	if h.count > 0 {
		f.busy++
	}
	if kind == record.PageRow {
		return
	}
	if s := h.sideOf(); s.count+by == 0 && len(s.rows) == 0 {
		h.side = nil
	} else {
		s.count += by
	}
}

// placeLocked puts a host where it belongs among the turns after something of it has changed, and
// counts its window.
func (f *Frontier) placeLocked(h *host) {
	bytes := h.win.bytes()
	f.bytes += bytes - h.bytes
	h.bytes = bytes
	at, ok := f.turn(h)
	f.turns.place(h, at, ok)
}
