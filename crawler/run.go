package crawler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"urltree/buffer"
	"urltree/cleaner"
	"urltree/crawler/extract"
	"urltree/crawler/fetch"
	"urltree/crawler/frontier"
	"urltree/crawler/robots"
	"urltree/crawler/scope"
	"urltree/crawler/weburl"
	"urltree/iut"
	"urltree/storage"
)

// How fetching ends. None of these is an error of the crawl.
var (
	errTime        = errors.New("time is up")
	errPages       = errors.New("page limit reached")
	errBytes       = errors.New("byte limit reached")
	errStopped     = errors.New("stopped")
	errNothingLeft = errors.New("nothing left")
)

// downloadGrace is how long downloads in flight may go on once fetching has stopped.
const downloadGrace = 10 * time.Second

// A Result tells how a run ended.
type Result struct {
	Ended string // "time is up", "page limit reached", "byte limit reached", "stopped", "nothing left"
	Run   storage.Run
	Total storage.Totals
	Files cleaner.Files
	// Waits tells, when nothing was left but URLs that wait, what they wait for; else "".
	Waits string
}

// An engine is one run. Everything in it lives as long as the run does.
type engine struct {
	opts     Options
	files    cleaner.Files
	tree     *iut.Tree
	index    *storage.Index
	linker   *Linker
	robots   *robotsCache
	client   *fetch.Client
	frontier *frontier.Frontier
	buffers  []*buffer.Buffer[*iut.Item]
	workers  []*worker

	run         storage.Run
	lastUnclean uint32 // rows of runs up to this one may have their page in the tree

	// Three contexts end one after the other: no new requests; no requests any more; disk error.
	fetching, transfers, alive context.Context
	stop                       context.CancelCauseFunc // ends fetching
	fail                       context.CancelCauseFunc // ends alive, with what is Run's error

	tickets *semaphore.Weighted // of MaxPages; nil: no limit
	stored  atomic.Int64        // tickets used
	parsing chan struct{}       // a place for each processor; held from parsing until Buffer.Add
	stages  [stageCount]histogram
	start   time.Time
}

// Run crawls until ctx ends, opts.Time is over or nothing is left. Then, one step after the
// other: downloads in flight finish; the cleaner drains the buffers into the tree, closes the
// index, and writes the results. Draining does not depend on ctx, so that stopping is not
// cut short. All of these ends give a nil error.
//
// The first disk error ends the crawl and is returned, wrapped in iut.ErrDisk. Other errors come
// before anything is fetched: ErrOptions, ErrNoWork, iut.ErrBusy, iut.ErrFormat,
// iut.ErrIdentity, storage.ErrDamaged, storage.ErrSchema.
func Run(ctx context.Context, opts Options) (Result, error) {
	opts, err := opts.defaults()
	if err != nil {
		return Result{}, err
	}
	files, err := cleaner.FilesFor(opts.Output)
	if err != nil {
		return Result{}, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(opts.Memory()))
	}
	e := &engine{opts: opts, files: files, parsing: make(chan struct{}, runtime.GOMAXPROCS(0))}
	e.alive, e.fail = context.WithCancelCause(context.WithoutCancel(ctx))
	defer e.fail(nil)
	if err := e.open(); err != nil {
		return Result{}, errors.Join(err, e.close())
	}
	result, err := e.crawl(ctx)
	return result, errors.Join(err, e.close())
}

// Memory is the limit of our own memory, in bytes, that the options give: the sum of what the
// parts may hold.
func (o Options) Memory() int64 {
	return 64<<20 + o.MemoryBodies + int64(o.Buffers)*o.BufferBytes + o.FrontierBytes + o.SeenBytes
}

// open brings tree and index to where the last run left them, and loads the seeds.
func (e *engine) open() error {
	mode := iut.SyncFull
	if e.opts.NoSync {
		mode = iut.SyncNone
	}
	var err error
	e.tree, err = iut.Open(e.opts.Tree, iut.Options{
		FS: e.opts.FS, Sync: mode,
		Identity: &iut.Identity{
			Canonical: strconv.Itoa(weburl.Version), Strip: e.opts.Strip.String(), Partition: "host",
		},
	})
	if err != nil {
		return err
	}
	e.linker = e.opts.linker()
	path := filepath.Join(e.opts.Tree, "index.db")
	there, err := storage.Exists(path)
	if err != nil {
		return fmt.Errorf("%w: %w", iut.ErrDisk, err)
	}
	if len(e.opts.Seeds) > 0 {
		seeds := make([]string, len(e.opts.Seeds))
		for i, url := range e.opts.Seeds {
			seeds[i] = e.opts.Strip.Apply(url)
		}
		if err := e.tree.AddSeeds(seeds); err != nil {
			return err
		}
	}
	open := storage.Options{NoSync: e.opts.NoSync, SeenMemory: e.opts.SeenBytes}
	if !there {
		report, err := cleaner.NewIndex(e.alive, e.tree, open, e.linker, e.opts.Log)
		if err != nil {
			return err
		}
		if report.Pages > 0 {
			e.opts.Log.Warn("index.db was missing: made again from the folders", "pages", report.Pages)
		}
	}
	if e.index, err = storage.Open(path, open); err != nil {
		return err
	}
	if err := e.loadFilter(); err != nil {
		return err
	}
	// Pages of earlier runs must give the links that count now, before FORMAT says that they do.
	links := e.opts.linkOptions()
	if e.index.Totals().Stored > 0 && !reflect.DeepEqual(links, e.tree.Format().Links) {
		e.opts.Log.Info("other link options than before: parsing the stored pages again")
		found, err := cleaner.Relink(e.alive, e.tree, e.index, e.linker, e.opts.Log)
		if err != nil {
			return err
		}
		e.opts.Log.Info("stored pages parsed again", "new URLs", found)
	}
	if err := e.tree.SetLinks(links); err != nil {
		return err
	}
	return e.begin()
}

// loadFilter takes the saved filter if it belongs to this state of the index; else the index is
// asked until a scan has filled it.
func (e *engine) loadFilter() error {
	tx, err := e.index.Transaction()
	if err != nil {
		return err
	}
	f, err := os.Open(e.seenPath())
	if err == nil {
		defer f.Close()
		if err = e.index.Filter().Load(f, tx); err == nil {
			e.index.Filter().SetComplete()
			return nil
		}
	}
	if e.index.Totals().Records() == 0 {
		e.index.Filter().SetComplete()
	}
	return nil
}

func (e *engine) seenPath() string { return filepath.Join(e.opts.Tree, "seen") }

// begin starts the run in the index: seeds get their records, held URLs another look.
func (e *engine) begin() error {
	disk := func(err error) error { return fmt.Errorf("%w: %w", iut.ErrDisk, err) }
	var unclean bool
	var err error
	if e.run, unclean, e.lastUnclean, err = e.index.Begin(); err != nil {
		return disk(err)
	}
	scopeSeeds, err := e.index.ScopeSeeds()
	if err != nil {
		return err
	}
	for _, url := range scopeSeeds {
		e.linker.AddSeed(url)
	}
	var links []storage.Link
	exempt := map[server]bool{}
	err = e.tree.Seeds(func(url string) error {
		e.linker.AddSeed(url)
		exempt[serverOf(url)] = true
		links = append(links, storage.Link{URL: url, Source: storage.Seed})
		if len(links) < 10_000 {
			return nil
		}
		_, err := e.index.Commit([]*storage.Outcome{{Links: links}})
		links = links[:0]
		return err
	})
	if err == nil && len(links) > 0 {
		_, err = e.index.Commit([]*storage.Outcome{{Links: links}})
	}
	if err != nil {
		return disk(err)
	}
	if err := e.release(); err != nil {
		return disk(err)
	}
	if e.index.Totals().Pending() == 0 && len(exempt) == 0 {
		return ErrNoWork
	}
	hosts, err := e.index.Hosts()
	if err != nil {
		return err
	}
	seedHosts := map[string]bool{}
	for s := range exempt {
		seedHosts[s.host] = true
	}
	cookies, err := e.opts.cookies()
	if err != nil {
		return err
	}
	e.client = fetch.New(fetch.Options{
		UserAgent: e.opts.UserAgent, Timeout: e.opts.Timeout, MaxSize: e.opts.MaxSize,
		Bodies: fetch.NewBudget(e.opts.MemoryBodies),
		Temp:   func() (fetch.Temp, error) { return newTemp(e.tree) },
		Proxy:  e.opts.Proxy, Header: e.opts.Header, User: e.opts.User, Password: e.opts.Password,
		Cookies: cookies, SeedHost: func(host string) bool { return seedHosts[host] },
		Guard:     func(host, port string) bool { return e.opts.AllowPrivate || exempt[server{host, port}] },
		LimitRate: e.opts.LimitRate, MinRate: e.opts.MinRate, FirstByte: e.opts.FirstByte,
		Network: e.opts.Network, Bind: e.opts.Bind, PerIP: e.opts.PerIP, Insecure: e.opts.Insecure,
	})
	e.robots = &robotsCache{index: e.index, token: robots.Token(e.opts.UserAgent), tries: uint32(e.opts.Retries) + 1}
	if err := e.robots.load(); err != nil {
		return err
	}
	e.frontier, err = frontier.New(frontier.Options{
		Store: e.index, Memory: e.opts.FrontierBytes, Crawlers: e.opts.Crawlers, PerHost: e.opts.PerHost,
		Delay: max(e.opts.Delay, 0), Auto: e.opts.Delay == 0, MaxWait: e.opts.MaxWait, MaxCrawlDelay: e.opts.MaxDelay,
		Hosts: hosts, Unclean: unclean,
		Admit: e.admit, NeedRobots: func(origin string) bool { return !e.opts.IgnoreRobots && e.robots.need(origin) }, Idle: e.flushAll,
	})
	if err != nil {
		return err
	}
	e.robots.found = e.frontier.CrawlDelay
	if e.opts.MaxPages > 0 {
		e.tickets = semaphore.NewWeighted(e.opts.MaxPages)
	}
	return nil
}

// release gives URLs that earlier runs held back to the frontier, unless this run would hold
// them for the same reason.
func (e *engine) release() error {
	hosts, err := e.index.Hosts()
	if err != nil {
		return err
	}
	for _, h := range hosts {
		for h.Held > 0 {
			rows, err := e.index.HeldRows(h.Name, 10_000, func(r *storage.Row) bool { return e.linker.hold(r) == "" })
			if err != nil {
				return err
			}
			if len(rows) == 0 {
				break
			}
			set := make([]*storage.Outcome, len(rows))
			for i := range rows {
				o := &storage.Outcome{Row: rows[i], State: storage.Pending, Next: rows[i]}
				o.Next.Range, o.Next.Reason = storage.Now, ""
				set[i] = o
			}
			if _, err := e.index.Commit(set); err != nil {
				return err
			}
		}
	}
	return nil
}

// admit gives the reason why a row is held in this run, or "".
func (e *engine) admit(row *storage.Row) string {
	if reason := e.linker.hold(row); reason != "" {
		return reason
	}
	if !e.opts.IgnoreRobots && e.robots.unreachable(storage.Origin(row.URL)) {
		return heldRobots
	}
	return ""
}

// crawl fetches until something ends it, then cleans up.
func (e *engine) crawl(ctx context.Context) (Result, error) {
	var cutTransfers context.CancelFunc
	e.fetching, e.stop = context.WithCancelCause(e.alive)
	e.transfers, cutTransfers = context.WithCancel(e.alive)
	defer cutTransfers()
	defer context.AfterFunc(ctx, func() { e.stop(errStopped) })()
	if e.opts.Time > 0 {
		defer time.AfterFunc(e.opts.Time, func() { e.stop(errTime) }).Stop()
	}
	e.start = time.Now()

	committer := iut.NewCommitter(e.tree, e.index, e.opts.Buffers)
	committer.After = e.committed
	committer.Committed = func(items int, sync, commit time.Duration) {
		if items > 0 {
			e.stages[stageMetadata].addMany((sync+commit)/time.Duration(items), items)
		}
	}
	var builders, committing, crawlers, rest errgroup.Group
	guard := func(g *errgroup.Group, fn func() error) {
		g.Go(func() error {
			err := fn()
			if err != nil {
				e.fail(err)
			}
			return err
		})
	}
	for range e.opts.Buffers {
		buf := buffer.New(buffer.Options[*iut.Item]{
			Size: e.opts.BufferSize, Bytes: e.opts.BufferBytes, Wait: e.opts.FlushInterval,
			Weight: weigh,
		})
		e.buffers = append(e.buffers, buf)
		b := &iut.Builder{Tree: e.tree, Source: buf, Committer: committer, Parse: e.linker.Links, Stored: e.stages[stageStore].add}
		guard(&builders, func() error { return b.Run(e.alive) })
	}
	guard(&committing, func() error { return committer.Run(e.alive) })
	guard(&rest, e.fillFilter)
	for i := range e.opts.Crawlers {
		w := &worker{engine: e, number: i + 1, buf: e.buffers[i%e.opts.Buffers]}
		e.workers = append(e.workers, w)
	}
	stopAnswering := e.answerQuestions()
	defer stopAnswering()
	reporting, stopReporting := context.WithCancel(e.alive)
	defer stopReporting()
	guard(&rest, func() error { return e.report(reporting) })
	for _, w := range e.workers {
		guard(&crawlers, w.run)
	}
	if e.opts.Started != nil {
		e.opts.Started()
	}
	<-e.fetching.Done()
	grace := time.AfterFunc(downloadGrace, cutTransfers)
	crawlErr := crawlers.Wait()
	grace.Stop()

	result := Result{Files: e.files}
	if cause := context.Cause(e.fetching); cause != nil {
		result.Ended = cause.Error()
	}
	if errors.Is(context.Cause(e.fetching), errNothingLeft) {
		if e.index.Totals().Pending() > 0 {
			result.Waits = e.frontier.Waiting()
		}
	}
	drain := func(context.Context) error {
		for _, b := range e.buffers {
			b.Close()
		}
		err := builders.Wait()
		e.discard() // after an error; else the builders have taken everything
		committer.Close()
		err = errors.Join(crawlErr, err, committing.Wait())
		stopReporting()
		stopAnswering()
		if err = errors.Join(err, rest.Wait()); err != nil {
			return err
		}
		return e.finish()
	}
	err := cleaner.Clean(context.WithoutCancel(ctx), cleaner.Steps{
		Log: e.opts.Log, Drain: drain, Index: e.index, Files: e.files, Figures: e.figures,
	})
	result.Run, result.Total = e.index.Run(), e.index.Totals()
	if cause := context.Cause(e.alive); cause != nil {
		err = cause // the first error, not what followed from it
	}
	return result, err
}

// discard gives back the memory and the files of what the builders have left in the buffers.
func (e *engine) discard() {
	for _, b := range e.buffers {
		for {
			batch, err := b.Take(context.Background())
			if err != nil {
				break // closed and empty
			}
			for _, it := range batch.Items {
				if it.Free != nil {
					it.Free()
				}
			}
		}
	}
}

// finish marks the clean end and saves the filter that belongs to it.
func (e *engine) finish() error {
	if _, err := e.index.Finish(); err != nil {
		return fmt.Errorf("%w: %w", iut.ErrDisk, err)
	}
	if !e.index.Filter().Complete() {
		return nil
	}
	tx, err := e.index.Transaction()
	if err != nil {
		return err
	}
	tmp := e.seenPath() + ".new"
	f, err := os.Create(tmp)
	if err == nil {
		err = errors.Join(e.index.Filter().Save(f, tx), f.Close())
	}
	if err == nil {
		err = os.Rename(tmp, e.seenPath())
	}
	if err != nil {
		// It only saves a scan at the next start.
		e.opts.Log.Warn("the seen filter could not be saved", "err", err)
	}
	return nil
}

// fillFilter completes the seen filter while the crawl is already going on.
func (e *engine) fillFilter() error {
	if e.index.Filter().Complete() {
		return nil
	}
	err := e.index.LoadFilter(e.fetching)
	if e.fetching.Err() != nil {
		return nil
	}
	return err
}

// committed is told of each set that is durable: only now its new URLs become work.
func (e *engine) committed(set []*iut.Item, c storage.Committed) {
	done := make([]frontier.Done, 0, len(set))
	for i, it := range set {
		if it.Row.URL == "" {
			continue
		}
		done = append(done, frontier.Done{Row: it.Row, Next: c.Next[i]})
		if n := it.Crawler; n > 0 {
			e.workers[n-1].batch.removed.Add(1)
		}
	}
	// New URLs first: between the two calls nothing must look as if nothing were left.
	e.frontier.Add(c.Fresh)
	e.frontier.Done(done)
	if e.opts.MaxBytes > 0 && e.index.Run().Bytes >= e.opts.MaxBytes {
		e.stop(errBytes)
	}
}

// flushAll is called when the frontier has nothing left to give while items are out.
func (e *engine) flushAll() {
	for _, b := range e.buffers {
		b.Flush()
	}
}

// ticketUsed counts a page towards MaxPages.
func (e *engine) ticketUsed() {
	if e.stored.Add(1) == e.opts.MaxPages {
		e.stop(errPages)
	}
}

func (e *engine) close() error {
	if e.client != nil {
		e.client.Close()
	}
	var err error
	if e.index != nil {
		err = e.index.Close()
	}
	if e.tree != nil {
		err = errors.Join(err, e.tree.Close())
	}
	return err
}

// linker makes the Linker of these options; seeds are still to be added.
func (o *Options) linker() *Linker {
	return &Linker{
		opts:     extract.Options{Token: robots.Token(o.UserAgent), NoFollow: o.NoFollow},
		strip:    o.Strip,
		scope:    scope.New(scope.Options{Mode: o.Scope, Include: o.Include, Exclude: o.Exclude}),
		maxDepth: o.MaxDepth, rejected: map[string]int64{},
	}
}

// linkOptions are those that FORMAT keeps.
func (o *Options) linkOptions() iut.LinkOptions {
	l := iut.LinkOptions{
		Scope: o.Scope.String(), Include: patterns(o.Include), Exclude: patterns(o.Exclude),
		MaxDepth: o.MaxDepth, NoFollow: o.NoFollow, Robots: "obey", Accept: o.Accept,
	}
	if o.IgnoreRobots {
		l.Robots = "ignore"
	}
	switch {
	case o.MaxDepth == 0:
		l.MaxDepth = -1
	case o.MaxDepth < 0:
		l.MaxDepth = 0
	}
	return l
}

// NewLinker makes the Linker that FORMAT describes: what merge and check parse pages with.
func NewLinker(f iut.Format) (*Linker, error) {
	l := f.Links
	o := Options{MaxDepth: l.MaxDepth, NoFollow: l.NoFollow}
	var err error
	if o.Strip, err = weburl.ParseStrip(f.Strip); err != nil {
		return nil, fmt.Errorf("FORMAT: %w", err)
	}
	if l.Scope != "" { // a tree that was made, and no run got so far as to set its options
		if o.Scope, err = scope.ParseMode(l.Scope); err != nil {
			return nil, fmt.Errorf("FORMAT: %w", err)
		}
	}
	switch {
	case l.MaxDepth < 0:
		o.MaxDepth = 0
	case l.MaxDepth == 0:
		o.MaxDepth = -1
	}
	for _, list := range []struct {
		from []string
		to   *[]*regexp.Regexp
	}{{l.Include, &o.Include}, {l.Exclude, &o.Exclude}} {
		for _, text := range list.from {
			re, err := regexp.Compile(text)
			if err != nil {
				return nil, fmt.Errorf("FORMAT: %w", err)
			}
			*list.to = append(*list.to, re)
		}
	}
	return o.linker(), nil
}

func patterns(list []*regexp.Regexp) []string {
	var texts []string
	for _, re := range list {
		texts = append(texts, re.String())
	}
	return texts
}
