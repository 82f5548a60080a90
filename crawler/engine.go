package crawler

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"urltree/buffer"
	"urltree/cleaner"
	"urltree/internal/disk"
	"urltree/internal/edges"
	"urltree/internal/frontier"
	"urltree/internal/score"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// An engine is one run. Everything in it lives as long as the run does.
type engine struct {
	opts      Options
	files     cleaner.Files
	begun     begun
	seeds     givenSeeds
	ends      ends
	store     stores
	rules     rules
	network   network
	frontier  *frontier.Frontier // lends URLs to the crawlers, which put what came of them into the buffers
	crawlers  []*crawler
	buffers   []*buffer.Buffer[*iut.Item]
	places    places
	limit     pageLimit
	steps     *steps     // nil: links are followed as they come
	importing *importing // nil: answers come from the network
	outside   outside
	check     finalCheck
	measured  measured
}

// newEngine returns the engine of a run, which lives until its fail is called.
func newEngine(ctx context.Context, opts Options, files cleaner.Files) *engine {
	e := &engine{opts: opts, files: files}
	e.ends.watch = disk.NewWatch(ctx, opts.steps, opts.space(), opts.Log)
	e.ends.alive, e.ends.fail = context.WithCancelCause(context.WithoutCancel(ctx))
	e.places.parsing = semaphore.NewWeighted(int64(opts.parsers()))
	e.places.shares = semaphore.NewWeighted(sharesMore)
	e.places.over = semaphore.NewWeighted(overBytes)
	if opts.QueueSize > 0 {
		e.places.fetched = make(chan struct{}, opts.QueueSize)
	}
	if e.limit.most = opts.MaxPages; e.limit.most > 0 {
		e.limit.tickets = semaphore.NewWeighted(e.limit.most)
	}
	e.limit.full = e.flushAll // the last page waits for no others
	e.steps = e.newSteps()
	e.check.find, e.check.ending = e.findMore, make(chan struct{}, 1)
	e.network = network{log: opts.Log, ends: &e.ends, patience: opts.MaxWait}
	e.network.pause = newPause(e.ends.watch, opts.Log, opts.MaxWait, func() { e.ends.stop(errOutage) })
	e.network.pause.files = opts.Fetch != nil
	if opts.Cluster != nil {
		e.network.pause.leased = opts.Cluster.MayAsk
	}
	return e
}

// ends are three contexts that end one after the other: no new requests; no requests any more; disk
// error.
type ends struct {
	watch                      *disk.Watch // of what may hang, and of the room on the disk
	fetching, transfers, alive context.Context
	stop                       context.CancelCauseFunc       // ends fetching
	cut                        context.CancelFunc            // ends transfers
	fail                       context.CancelCauseFunc       // ends alive, with what is Run's error
	broken                     atomic.Pointer[CallbackError] // the first call-back that failed
}

// stores are where the crawl keeps what it finds.
type stores struct {
	tree     *iut.Tree
	index    *storage.Index
	edges    *edges.Writer // nil: edges are not kept
	contents *contents     // nil: duplicates are stored like any other page
}

// rules decide what is asked, and in which order.
type rules struct {
	linker *Linker
	robots *robotsCache
	scorer *score.Scorer // nil: links have no sums
}

// places bound what is in memory between a download and a buffer.
type places struct {
	fetched chan struct{}       // a place for each page between download and parse worker; nil: none
	parsing *semaphore.Weighted // a place for each parse worker; held from parsing until Buffer.Add
	shares  *semaphore.Weighted // of sharesMore, for large pages; taken before parsing, and held as long
	over    *semaphore.Weighted // of overBytes, see crawler.put
}

// pageLimit is that of MaxPages.
type pageLimit struct {
	most    int64
	full    func()              // called when all tickets are used
	tickets *semaphore.Weighted // nil: no limit
	stored  atomic.Int64        // tickets used: by pages that are committed, or on the way to it
	kept    int64               // of these, by pages that are committed; the committer's
}

// take waits for a ticket. It returns false if ctx ends first.
func (l *pageLimit) take(ctx context.Context) bool {
	return l.tickets == nil || l.tickets.Acquire(ctx, 1) == nil
}

// buffered takes note of what has become of a URL with a ticket: a page that is to be stored, or
// else the ticket goes back.
func (l *pageLimit) buffered(stored bool) {
	switch {
	case l.tickets == nil:
	case !stored:
		l.tickets.Release(1)
	case l.stored.Add(1) == l.most:
		l.full()
	}
}

// committed takes note of what has become of a page with a ticket: one that the tree could not hold
// gives it back. It reports whether the limit is reached.
func (l *pageLimit) committed(stored bool) (reached bool) {
	if !stored {
		l.stored.Add(-1)
		l.tickets.Release(1)
		return false
	}
	l.kept++
	return l.kept == l.most
}

// finalCheck is the look whether nothing is left, see again.
type finalCheck struct {
	find   func() (more bool, err error)
	ending chan struct{} // has a place for the crawler that looks, which may take long
	looked atomic.Int64  // number of times that found more work
	named  bool          // guarded by ending; nameSitemaps has been called
}

// begun is what the index said when the run began.
type begun struct {
	run         record.Run
	unclean     bool   // the run before did not end cleanly
	lastUnclean uint32 // rows of runs up to this one may have their page in the tree
	earlier     bool   // the index had records when it was opened
	seeded      bool   // seeds.txt has a line
	holding     bool   // held URLs of earlier runs have not been reconsidered yet
}

// givenSeeds is what is known of the seeds of the options.
type givenSeeds struct {
	given      []string        // the first of them, canonical
	keptLogins int             // number of logins when Keep was called last
	closed     []record.Record // see Result.Closed
}

// measured are the figures of the run.
type measured struct {
	stages    [stageCount]histogram
	syncs     histogram // of pages and folders, for a transaction
	commits   histogram // of transactions
	start     time.Time
	asked     atomic.Bool   // a request was made
	perSecond atomic.Uint64 // pages stored in the last second, as IEEE 754
}
