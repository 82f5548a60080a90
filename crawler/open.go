package crawler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"urltree/crawler/weburl"
	"urltree/internal/fetch"
	"urltree/internal/frontier"
	"urltree/internal/repair"
	"urltree/internal/robots"
	"urltree/internal/warc"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// open brings tree and index to where the last run left them, and loads the seeds. When ctx ends it
// returns its error; the next run completes what is missing.
func (e *engine) open(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		e.openTree,
		e.addSeeds,
		e.openIndex,
		e.joinCluster,
		e.beginSteps,
		e.beginRun,
		e.scanArchives,
		e.enterSeeds,
		e.takeOptions, // pages of earlier runs get the links that count now
		e.keepEdges,
		e.markRevisits,
		e.findWork,
		e.makeClient,
		e.loadContents,
		e.fillFrontier,
		e.findClosed,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// openTree opens or makes the tree, and keeps in FORMAT what the caller wants kept.
func (e *engine) openTree(context.Context) (err error) {
	if e.opts.NoTree {
		e.rules.linker = e.opts.linker()
		return e.openScratchTree()
	}
	mode := iut.SyncFull
	if e.opts.NoSync {
		mode = iut.SyncNone
	}
	e.store.tree, err = iut.Open(e.opts.Tree, iut.Options{FS: e.opts.FS, Sync: mode, Identity: e.opts.identity(), Segments: Segments(&e.opts), Watch: e.ends.watch})
	if err != nil {
		return err
	}
	if err := e.opts.recall(e.store.tree.Format().Kept); err != nil {
		return err
	}
	e.rules.linker = e.opts.linker()
	e.rules.linker.forgotten = e.store.tree.Format().Forgotten
	return e.keep()
}

// keep lets the caller change what FORMAT keeps for it, at the beginning and when seeds of further
// origins have a login. A kill later in this run finds it there.
func (e *engine) keep() error {
	if e.opts.Keep == nil || e.opts.NoTree {
		return nil
	}
	e.seeds.keptLogins = len(e.opts.logins)
	kept, err := e.opts.Keep(e.store.tree.Format().Kept, slices.Sorted(maps.Keys(e.opts.logins)))
	if err != nil {
		return err
	}
	return e.store.tree.Keep(kept)
}

// identity is what a new tree is made by, and an old one must have been made by.
func (o *Options) identity() *iut.Identity {
	return &iut.Identity{Canonical: strconv.Itoa(weburl.Version), Strip: o.Strip.String(), Partition: "host", Store: string(o.Store)}
}

// Segments says how WARC files are written by these options, and what each says of the crawl.
func Segments(o *Options) iut.SegmentOptions {
	robots := "obey"
	if o.IgnoreRobots {
		robots = "ignore"
	}
	about := warc.Header{
		{Name: "software", Value: "urltree/" + Version()},
		{Name: "format", Value: "WARC file version 1.1"},
		{Name: "conformsTo", Value: "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"},
		{Name: "robots", Value: robots},
		{Name: "http-header-user-agent", Value: o.UserAgent},
		{Name: "operator", Value: o.WARC.Operator},
	}
	return iut.SegmentOptions{Size: o.WARC.Size, Plain: o.WARC.Plain, NoRevisit: o.WARC.NoRevisit, About: about}
}

// openIndex opens the index, or makes it of the folders.
func (e *engine) openIndex(ctx context.Context) error {
	opts := storage.Options{NoSync: e.opts.NoSync, SeenMemory: e.opts.SeenBytes, Watch: e.ends.watch}
	if e.opts.NoTree {
		opts.Limits, opts.Inbox, opts.Bulk = e.opts.limits(), e.opts.inbox(), e.steps != nil
		return e.openScratchIndex(opts)
	}
	path := filepath.Join(e.opts.Tree, "index.db")
	there, err := storage.Exists(path)
	if err != nil {
		return fmt.Errorf("%w: %w", iut.ErrDisk, err)
	}
	open := storage.Open
	if !there {
		if err := e.store.tree.Finish(nil); err != nil {
			return err
		}
		made, err := e.makeIndex(ctx, opts)
		if err != nil {
			return err
		}
		if !made {
			open = storage.New
		}
	}
	opts.Limits, opts.Inbox, opts.Bulk = e.opts.limits(), e.opts.inbox(), e.steps != nil
	opts.Recrawl, opts.Versions = e.opts.schedule(), e.opts.Versions
	if e.opts.Cluster != nil {
		opts.Away = e.opts.Cluster.Away
	}
	if e.store.index, err = open(path, opts); err != nil {
		return err
	}
	if err := e.store.tree.SetVersions(e.opts.Versions); err != nil {
		return err
	}
	if e.begun.earlier = e.store.index.Totals().Records() > 0; !e.begun.earlier {
		e.store.index.Filter().SetComplete()
	}
	if err := e.store.tree.Finish(e.store.index.Record); err != nil {
		return err
	}
	known := iut.Committed{Has: func(f iut.Facts) bool {
		rec, err := e.store.index.Record(f.URL)
		return err == nil && (rec.Extent == f.Extent || rec.State == record.Stored && f.Time <= rec.Time)
	}}
	if known.Ends, err = e.store.index.Marks().SegmentEnds(ctx); err == nil {
		known.Open, err = e.store.index.Marks().SegmentsOpen(ctx)
	}
	if err != nil {
		return err
	}
	return e.store.tree.Recover(known)
}

// makeIndex makes the index of the folders, by the link options in FORMAT and not by those of this
// run: after a kill before these are in FORMAT, the next run would take the index for one that has
// all links which FORMAT's options admit. It reports whether it made one: of a tree without pages
// there is nothing to make it of, and seeds enter a new one later.
func (e *engine) makeIndex(ctx context.Context, opts storage.Options) (made bool, err error) {
	found := errors.New("a page")
	switch err := e.store.tree.Walk(func(string, string, iut.PageStatus, iut.Facts) error { return found }); {
	case err == nil:
		return false, nil
	case !errors.Is(err, found):
		return false, err
	}
	before, err := NewLinker(e.store.tree.Format())
	if err != nil {
		return false, err
	}
	report, err := repair.NewIndex(ctx, e.store.tree, opts, before, e.opts.Log)
	if err == nil && report.Pages > 0 {
		e.opts.Log.Warn("index.db was missing: made again from the folders", "pages", report.Pages)
	}
	return true, err
}

// inbox returns the number of new URLs from which on they are moved to their places in the index:
// of fewer most have their outcome before, and come there with it. The order tree looks for them
// there, see settle.
func (o *Options) inbox() int {
	if o.Order == OrderTree {
		return -1
	}
	return 50_000
}

// beginRun begins the run in the index.
func (e *engine) beginRun(context.Context) (err error) {
	e.rules.linker.Use(e.store.index)
	e.rules.linker.failed = e.ends.fail
	e.begun.run, e.begun.unclean, e.begun.lastUnclean, err = e.store.index.Runs().Begin()
	return err
}

// enterSeeds makes a record of each seed that has none.
func (e *engine) enterSeeds(ctx context.Context) (err error) {
	_, e.begun.seeded, err = repair.EnterSeeds(ctx, e.store.tree, e.store.index, e.rules.linker, e.opts.Scope.String(), e.opts.Log)
	return err
}

// findWork returns ErrNoWork if there is none, and warns of options that hardly find any.
func (e *engine) findWork(context.Context) error {
	if total := e.store.index.Totals(); total.Pending() == 0 && total.Revisits == 0 && !e.begun.seeded && e.importing == nil && e.opts.Cluster == nil {
		return ErrNoWork
	}
	if !e.opts.accepts("text/html") && !e.opts.accepts("application/xhtml+xml") {
		e.opts.Log.Warn("no HTML is accepted, so no link of a page is followed: accept text/html as well", "accept", strings.Join(e.opts.Accept, ","))
	}
	return nil
}

// makeClient makes the client, and what is known of robots.txt files.
func (e *engine) makeClient(context.Context) error {
	bad := 0
	cookies, err := e.opts.cookies(func(line int, err error) {
		if bad++; bad <= 10 {
			e.opts.Log.Warn("skipped a line of the cookie file", "line", line, "err", err)
		}
	})
	if err != nil {
		return err
	}
	wire := e.store.tree.Format().Store == iut.StoreWARC && !e.opts.External // then no answer is kept
	e.network.client = fetch.New(fetch.Options{
		UserAgent: e.opts.UserAgent, Timeout: e.opts.Timeout, MaxSize: e.opts.MaxSize,
		Bodies: fetch.NewBudget(e.opts.MemoryBodies),
		Temp:   func() (fetch.Temp, error) { return e.store.tree.Temp(e.ends.hasRoom) },
		Proxy:  e.opts.Proxy, Header: e.opts.Header, User: e.opts.User, Password: e.opts.Password, Logins: e.opts.logins,
		Cookies: cookies, SeedHost: e.seedHost, SeedOrigin: e.seedOrigin,
		Guard:     e.guard,
		LimitRate: e.opts.LimitRate, MinRate: e.opts.MinRate, FirstByte: e.opts.FirstByte,
		Network: string(e.opts.Network), Bind: e.opts.Bind, PerIP: e.opts.PerIP, Insecure: e.opts.Insecure, HTTP1: e.opts.HTTP1, IdleConns: e.opts.idle,
		Source: e.source(), Wire: wire, All: e.opts.WARC.All && wire,
	})
	e.rules.robots = newRobotsCache(e.store.index, robots.Token(e.opts.UserAgent), uint32(e.opts.Retries)+1, e.begun.run.Start)
	e.rules.robots.forgotten = e.rules.linker.isForgotten
	return nil
}

// fillFrontier makes the frontier, which reads the rows that wait as it needs them.
func (e *engine) fillFrontier(ctx context.Context) (err error) {
	total := e.store.index.Totals()
	live := total.Now + total.Later + total.Revisits
	if e.opts.ReadsSitemaps() {
		live += total.Sitemaps
	}
	opts := frontier.Options{
		Store: e.store.index.Queues(), Memory: e.opts.FrontierBytes, Crawlers: e.opts.Crawlers, PerHost: e.opts.PerHost,
		Delay: max(e.opts.Delay, 0), Auto: e.opts.Delay == 0, MaxWait: e.opts.MaxWait, MaxCrawlDelay: e.opts.MaxDelay,
		Live: live, NoSitemaps: !e.opts.ReadsSitemaps(), Run: e.begun.run.ID, Unclean: e.begun.unclean, Earlier: e.begun.earlier, NotBefore: e.begun.run.Start * int64(time.Second),
		Admit: e.admit, NeedRobots: func(origin string) bool { return !e.opts.IgnoreRobots && e.rules.robots.need(origin) }, Idle: e.flushAll,
	}
	if queues := e.store.index.Queues(); e.opts.RecrawlShare > 0 {
		opts.Store, opts.Revisits = queues.Apart(), frontier.Revisits{Share: e.opts.RecrawlShare, Refill: queues.Again}
	}
	if node := e.opts.Cluster; node != nil {
		opts.Barred = func(host string) bool { return !node.Asks(host) }
	}
	if e.opts.External {
		e.outsideStore(&opts)
	} else if err := e.order(ctx, &opts); err != nil {
		return err
	}
	if e.steps != nil {
		opts.Store, opts.Live = e.steps, 0
	}
	if e.frontier, err = frontier.New(opts); err != nil {
		return err
	}
	if e.begun.holding {
		e.frontier.Expect(1)
	}
	e.rules.robots.found = e.frontier.CrawlDelay
	if e.steps != nil {
		return e.steps.resume(ctx)
	}
	return nil
}

// admit returns the reason why a row is held in this run, or "".
func (e *engine) admit(row *record.Row) string {
	if reason := e.rules.linker.hold(row); reason != "" && row.Kind != record.RevisitRow {
		return reason
	}
	return e.unreachable(row)
}

// unreachable returns the reason why a row is held whose robots.txt gave no answer, or "".
func (e *engine) unreachable(row *record.Row) string {
	if !e.opts.IgnoreRobots {
		if cause, yes := e.rules.robots.unreachable(record.Origin(row.URL)); yes {
			return heldRobots + ":" + cause
		}
	}
	return ""
}
