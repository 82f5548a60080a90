package crawler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"

	"urltree/crawler/weburl"
	"urltree/internal/fetch"
	"urltree/internal/frontier"
	"urltree/internal/repair"
	"urltree/internal/robots"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// open brings tree and index to where the last run left them, and loads the seeds. When ctx ends
// it gives up with its error; the next run completes what is missing.
func (e *engine) open(ctx context.Context) error {
	mode := iut.SyncFull
	if e.opts.NoSync {
		mode = iut.SyncNone
	}
	e.linker = e.opts.linker()
	if e.opts.NoTree {
		if err := e.openScratch(storage.Options{NoSync: true, SeenMemory: e.opts.SeenBytes, Watch: e.watch, Limits: e.opts.limits(), Inbox: e.opts.inbox()}); err != nil {
			return err
		}
		if err := e.addSeeds(ctx); err != nil {
			return err
		}
		return e.begin(ctx)
	}
	var err error
	e.tree, err = iut.Open(e.opts.Tree, iut.Options{FS: e.opts.FS, Sync: mode, Identity: e.opts.identity(), Watch: e.watch})
	if err != nil {
		return err
	}
	if err := e.keep(); err != nil {
		return err
	}
	e.room = e.opts.room(ctx, e.tree.Free)
	path := filepath.Join(e.opts.Tree, "index.db")
	there, err := storage.Exists(path)
	if err != nil {
		return fmt.Errorf("%w: %w", iut.ErrDisk, err)
	}
	if err := e.addSeeds(ctx); err != nil {
		return err
	}
	open := storage.Options{NoSync: e.opts.NoSync, SeenMemory: e.opts.SeenBytes, Watch: e.watch, Room: e.room.Ask}
	if !there {
		// By the link options in FORMAT, not by ours: after a kill before ours are in FORMAT, the
		// next run would take the index for one that has all links which FORMAT's options admit.
		before, err := NewLinker(e.tree.Format())
		if err != nil {
			return err
		}
		if err := e.room.Ask(); err != nil {
			return err
		}
		report, err := repair.NewIndex(ctx, e.tree, open, before, e.opts.Log)
		if err != nil {
			return err
		}
		if report.Pages > 0 {
			e.opts.Log.Warn("index.db was missing: made again from the folders", "pages", report.Pages)
		}
	}
	open.Limits, open.Inbox = e.opts.limits(), e.opts.inbox()
	if e.index, err = storage.Open(path, open); err != nil {
		return err
	}
	if e.earlier = e.index.Totals().Records() > 0; !e.earlier {
		e.index.Filter().SetComplete()
	}
	if e.opened, err = e.index.Transaction(); err != nil {
		return err
	}
	if err := e.begin(ctx); err != nil {
		return err
	}
	return e.findClosed()
}

// keep lets the caller change what FORMAT keeps for it, at the beginning and when seeds of further
// origins have a login. A kill later in this run finds it there.
func (e *engine) keep() error {
	if e.opts.Keep == nil {
		return nil
	}
	e.keptLogins = len(e.opts.logins)
	kept, err := e.opts.Keep(e.tree.Format().Kept, slices.Sorted(maps.Keys(e.opts.logins)))
	if err != nil {
		return err
	}
	return e.tree.Keep(kept)
}

// identity is what a new tree is made by, and an old one must have been made by.
func (o *Options) identity() *iut.Identity {
	return &iut.Identity{Canonical: strconv.Itoa(weburl.Version), Strip: o.Strip.String(), Partition: "host"}
}

// optionsBefore returns the link options that the index was last brought to: those that it names,
// since it may be a copy that is older than FORMAT, else those of FORMAT, by which it was made
// again.
func (e *engine) optionsBefore() (before iut.LinkOptions, err error) {
	text, err := e.index.LinkOptions()
	if err != nil || text == nil {
		return e.tree.Format().Links, err
	}
	if err := json.Unmarshal(text, &before); err != nil {
		return before, fmt.Errorf("%w: link options: %w", record.ErrDamaged, err)
	}
	return before, nil
}

// keepOptions records in the index that it has been brought to these link options, once FORMAT says
// so.
func (e *engine) keepOptions(options iut.LinkOptions) error {
	text, err := json.Marshal(options)
	if err != nil {
		return err
	}
	kept, err := e.index.LinkOptions()
	if err != nil || bytes.Equal(kept, text) {
		return err
	}
	return e.index.SetLinkOptions(text)
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

// fillFilter completes the seen filter while the crawl is already going on and the index is asked:
// by the saved one if that belongs to the state in which the index was opened, else by a scan.
func (e *engine) fillFilter(fetching context.Context) error {
	if err := e.watch.Disk("read", e.seenPath(), e.useSeen); err != nil || e.index.Filter().Complete() {
		return err
	}
	err := e.index.LoadFilter(fetching)
	if fetching.Err() != nil {
		return nil
	}
	return err
}

// useSeen loads the saved filter, if it belongs to the state in which the index was opened, and
// removes it in any case. It is known by the number of a transaction: should index.db be made anew,
// or an older one come back, then that would reach the number once more, and the filter knows URLs
// that are not in it.
func (e *engine) useSeen() error {
	if e.opts.NoTree {
		return nil
	}
	f, err := os.OpenFile(e.seenPath(), os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO must not stop us
	if err != nil {
		return nil // it only saves a scan
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	if filter := e.index.Filter(); !filter.Complete() {
		_ = filter.Load(f, e.opened) // what does not belong to this state is as good as none
	}
	if err := os.Remove(e.seenPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", iut.ErrDisk, err)
	}
	return nil
}

func (e *engine) seenPath() string { return filepath.Join(e.opts.Tree, "seen") }

// begin starts the run in the index: seeds get their records, held URLs another look.
func (e *engine) begin(ctx context.Context) error {
	disk := func(err error) error { return fmt.Errorf("%w: %w", iut.ErrDisk, err) }
	var unclean bool
	var err error
	if e.run, unclean, e.lastUnclean, err = e.index.Begin(); err != nil {
		return disk(err)
	}
	e.linker.Use(e.index)
	e.linker.failed = e.fail
	_, seeds, err := repair.EnterSeeds(ctx, e.tree, e.index, e.linker, e.opts.Scope.String(), e.opts.Log)
	if err != nil {
		return err
	}
	// Pages of earlier runs must give the links that count now, before FORMAT says that they do.
	options := e.opts.linkOptions()
	grown, err := e.index.NeedsRelink()
	if err != nil {
		return err
	}
	before, err := e.optionsBefore()
	if err != nil {
		return err
	}
	review, err := e.index.NeedsReview()
	if err != nil {
		return err
	}
	changed := !reflect.DeepEqual(options, before)
	if changed || grown {
		if _, err := e.index.ReopenSitemaps(ctx, (*record.Record).Narrowed, nil); err != nil {
			return disk(err)
		}
	}
	if changed || grown || review { // that it is done will be kept; else it takes place while the crawl goes on
		if err := e.release(ctx, true, nil); err != nil {
			return disk(err)
		}
	} else {
		e.holding = e.index.Totals().Held > 0
	}
	if grown || (changed || review) && e.index.Totals().Parsed() {
		if changed && e.opts.Keep == nil {
			e.opts.Log.Warn("the options for links have changed since the last run", "changed", optionChanges(before, options))
		}
		if changed || grown {
			if err := e.reconsider(ctx, before, options); err != nil {
				return disk(err)
			}
		}
		before.Budgets = options.Budgets
		if err := e.relink(ctx, !grown && reflect.DeepEqual(options, before), nil); err != nil {
			return err
		}
	}
	if err := e.tree.SetLinks(options); err != nil {
		return err
	}
	if err := e.keepOptions(options); err != nil {
		return disk(err)
	}
	if review {
		if err := e.index.Reviewed(); err != nil {
			return disk(err)
		}
	}
	if err := e.keepEdges(ctx); err != nil {
		return err
	}
	if e.index.Totals().Pending() == 0 && !seeds {
		return ErrNoWork
	}
	bad := 0
	cookies, err := e.opts.cookies(func(line int, err error) {
		if bad++; bad <= 10 {
			e.opts.Log.Warn("skipped a line of the cookie file", "line", line, "err", err)
		}
	})
	if err != nil {
		return err
	}
	if !e.opts.accepts("text/html") && !e.opts.accepts("application/xhtml+xml") {
		e.opts.Log.Warn("no HTML is accepted, so no link of a page is followed: accept text/html as well", "accept", strings.Join(e.opts.Accept, ","))
	}
	e.client = fetch.New(fetch.Options{
		UserAgent: e.opts.UserAgent, Timeout: e.opts.Timeout, MaxSize: e.opts.MaxSize,
		Bodies: fetch.NewBudget(e.opts.MemoryBodies),
		Temp:   func() (fetch.Temp, error) { return newTemp(e.tree, e.room) },
		Proxy:  e.opts.Proxy, Header: e.opts.Header, User: e.opts.User, Password: e.opts.Password, Logins: e.opts.logins,
		Cookies: cookies, SeedHost: e.seedHost, SeedOrigin: e.seedOrigin,
		Guard:     e.guard,
		LimitRate: e.opts.LimitRate, MinRate: e.opts.MinRate, FirstByte: e.opts.FirstByte,
		Network: e.opts.Network, Bind: e.opts.Bind, PerIP: e.opts.PerIP, Insecure: e.opts.Insecure, HTTP1: e.opts.HTTP1, IdleConns: e.opts.idle,
		Source: e.source(),
	})
	e.robots = newRobotsCache(e.index, robots.Token(e.opts.UserAgent), uint32(e.opts.Retries)+1, e.run.Start)
	total := e.index.Totals()
	live := total.Now + total.Later
	if e.opts.ReadsSitemaps() {
		live += total.Sitemaps
	}
	waiting := frontier.Options{
		Store: e.index, Memory: e.opts.FrontierBytes, Crawlers: e.opts.Crawlers, PerHost: e.opts.PerHost,
		Delay: max(e.opts.Delay, 0), Auto: e.opts.Delay == 0, MaxWait: e.opts.MaxWait, MaxCrawlDelay: e.opts.MaxDelay,
		Live: live, NoSitemaps: !e.opts.ReadsSitemaps(), Run: e.run.ID, Unclean: unclean, Earlier: e.earlier, NotBefore: e.run.Start * int64(time.Second),
		Admit: e.admit, NeedRobots: func(origin string) bool { return !e.opts.IgnoreRobots && e.robots.need(origin) }, Idle: e.flushAll,
	}
	if e.opts.SkipDuplicates {
		if e.contents, err = loadContents(ctx, e.index); err != nil {
			return err
		}
	}
	if err := e.order(ctx, &waiting); err != nil {
		return err
	}
	if e.frontier, err = frontier.New(waiting); err != nil {
		return err
	}
	if e.holding {
		e.frontier.Expect(1)
	}
	e.robots.found = e.frontier.CrawlDelay
	if e.opts.MaxPages > 0 {
		e.tickets = semaphore.NewWeighted(e.opts.MaxPages)
	}
	return nil
}

// relink parses stored pages again, for links that belong to the crawl only now: all of them, or
// those of which links were cut.
func (e *engine) relink(ctx context.Context, cut bool, fresh func(rows []record.Row, tx uint64)) error {
	if cut {
		e.opts.Log.Info("reading the stored pages again whose links were cut")
	} else {
		e.opts.Log.Info("reading stored pages again for links", "pages", e.index.Totals().Stored)
	}
	e.linker.scope.Forget() // areas may have been added by commits
	found, err := repair.Relink(ctx, e.tree, e.index, e.linker, cut, e.opts.Log, fresh)
	if err == nil {
		e.opts.Log.Info("stored pages read again", "new URLs", found)
	}
	return err
}

// reconsider opens again what the last run refused for its type or by robots.txt, and this run
// would not.
func (e *engine) reconsider(ctx context.Context, before, now iut.LinkOptions) error {
	ignored := before.Robots != now.Robots && e.opts.IgnoreRobots
	if !ignored && slices.Equal(before.Accept, now.Accept) {
		return nil
	}
	n, err := e.index.Reopen(ctx, nil, func(r *record.Record) bool {
		return r.State == record.Refused && (r.Reason == "type" && e.opts.accepts(r.Media) || r.Reason == "robots" && ignored)
	}, nil)
	if err == nil && n > 0 {
		e.opts.Log.Info("refused by the options of the last run, and asked again", "URLs", n)
	}
	return err
}

// lookAgain is asked when nothing is left. If seeds' redirects have widened the scope, pages
// that were stored before may have links that belong to the crawl now; if shorter ways were
// found, links of known pages may be near enough now. Then there may be more. looked is e.looked
// as it was before the frontier said so.
func (e *engine) lookAgain(looked int64) (more bool, err error) {
	e.ending.Lock()
	defer e.ending.Unlock()
	if e.looked.Load() != looked {
		return true, nil // another crawler has looked since
	}
	if more, err = e.findMore(e.fetching); err != nil {
		if e.fetching.Err() != nil {
			return false, nil // the next run does it
		}
		return false, err
	}
	if more {
		e.looked.Add(1)
	}
	return more, nil
}

// findMore is lookAgain for who holds e.ending.
func (e *engine) findMore(ctx context.Context) (more bool, err error) {
	grown, err := e.index.NeedsRelink()
	if err == nil && grown {
		_, err = e.index.ReopenSitemaps(ctx, (*record.Record).Narrowed, e.frontier.Add)
	}
	if err == nil && grown {
		err = e.relink(ctx, false, e.frontier.Add)
	}
	nearer := 0
	if err == nil {
		nearer, err = repair.Nearer(ctx, e.tree, e.index, e.linker, e.frontier.Add)
	}
	named := 0
	if err == nil && !e.named && e.opts.ReadsSitemaps() {
		e.named = true
		named, err = e.nameSitemaps(ctx)
	}
	return grown || nearer > 0 || named > 0, err
}

// settle moves, for the order tree, what a killed run has left in the inbox, while the crawl is
// already going on: walks miss those URLs until then, and nothing else does.
func (e *engine) settle(fetching context.Context) error {
	if e.opts.Order != OrderTree {
		return nil
	}
	err := e.index.Settle(fetching)
	switch {
	case fetching.Err() != nil:
		return nil // the next run does it
	case err != nil:
		return fmt.Errorf("%w: %w", iut.ErrDisk, err)
	}
	return nil
}

// releaseHeld has another look at held URLs while the crawl is already going on.
func (e *engine) releaseHeld(fetching context.Context) error {
	if !e.holding {
		return nil
	}
	defer e.frontier.Expect(-1)
	err := e.release(fetching, false, e.frontier.Add)
	switch {
	case fetching.Err() != nil:
		return nil // the next run does it
	case err != nil:
		return fmt.Errorf("%w: %w", iut.ErrDisk, err)
	}
	return nil
}

// release returns URLs that earlier runs held to what may be asked, unless this run would hold
// them as well. Where no option has changed, those that options hold are not looked at. fresh is as
// for Index.Release.
func (e *engine) release(ctx context.Context, changed bool, fresh func(rows []record.Row, tx uint64)) error {
	want := func(reason string) bool { return changed || !heldByOptions(reason) }
	admit := func(r *record.Row) bool { return e.linker.hold(r) == "" }
	most := 10_000
	if fresh != nil {
		most = 1000 // outcomes wait for such a transaction
	}
	return e.index.Hosts(ctx, func(h record.HostRow) error {
		for from := []byte(nil); h.Held > 0; {
			if err := ctx.Err(); err != nil {
				return err
			}
			rows, next, err := e.index.HeldRows(h.Name, from, most, want, admit)
			if err != nil {
				return err
			}
			if err := e.index.Release(rows, fresh); err != nil {
				return err
			}
			if from = next; from == nil {
				break
			}
		}
		return nil
	})
}

// admit returns the reason why a row is held in this run, or "".
func (e *engine) admit(row *record.Row) string {
	if reason := e.linker.hold(row); reason != "" {
		return reason
	}
	if !e.opts.IgnoreRobots {
		if cause, yes := e.robots.unreachable(record.Origin(row.URL)); yes {
			return heldRobots + ":" + cause
		}
	}
	return ""
}
