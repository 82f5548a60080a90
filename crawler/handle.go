package crawler

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"urltree/crawler/weburl"
	"urltree/internal/robots"
	"urltree/iut"
	"urltree/storage/record"
)

// ErrOver says that the run of a Crawler is over, or about to be: nothing can be added to it, and
// it is not run again.
var ErrOver = errors.New("the run is over")

// A Crawler is one run, from the opening of its tree to its end. Its methods may be called from any
// goroutine, also by call-backs, but for Run and Close, which wait for these to return.
type Crawler struct {
	e     *engine
	ran   atomic.Bool
	begin chan context.Context // has the context of Run; closed by Close
	ended chan struct{}        // closed once tree and index are

	adding   sync.Mutex // held while seeds are added
	setting  sync.Mutex // held while settings are changed; taken before using
	settings Settings   // guarded by setting

	using  sync.RWMutex // held for reading while a method uses tree and index
	over   bool         // guarded by using: fetching has ended
	crawls bool         // guarded by using: there are figures of the engine
	last   Progress     // guarded by using; without crawls

	// Set before ended is closed.
	result Result
	err    error
}

// New opens the tree of a crawl, or makes it, and all else that the crawl needs: the errors that
// come before anything is fetched are New's, see [Run]. If ctx ends meanwhile, or the time of opts,
// the Crawler has nothing left to do, and its Run returns at once. Either Run or Close releases
// what New has opened.
func New(ctx context.Context, opts Options) (*Crawler, error) {
	opts, files, err := opts.check()
	if err != nil {
		return nil, err
	}
	limitHeap := func() {}
	if opts.LimitHeap { // while seeds are read, the filter may come to its whole size
		before := debug.SetMemoryLimit(opts.heap(opts.SeenBytes))
		limitHeap = func() { debug.SetMemoryLimit(before) }
	}
	archives, err := opts.openArchives()
	if err != nil {
		limitHeap()
		return nil, err
	}
	c := &Crawler{e: newEngine(ctx, opts, files), begin: make(chan context.Context, 1), ended: make(chan struct{})}
	c.e.importing = archives
	opened := make(chan struct{})
	go func() {
		defer close(c.ended)
		defer limitHeap()
		c.live(ctx, opened)
	}()
	select {
	case <-opened:
		return c, nil
	case <-c.ended:
		if c.err != nil {
			return nil, c.err
		}
		return c, nil
	}
}

// live is the whole run. It closes opened if there is something to crawl.
func (c *Crawler) live(ctx context.Context, opened chan<- struct{}) {
	e := c.e
	defer e.ends.fail(nil)
	hung := e.ends.watch.Guard(func() {
		var open bool
		if c.result, open, c.err = e.openAll(ctx); open {
			c.settings = e.opts.settings()
			close(opened)
			if ctx, run := <-c.begin; run {
				c.result, c.err = e.crawl(ctx, c.begun, c.end)
			}
		}
		c.end()
		c.leave()
	}, func() { c.err = errors.Join(c.err, e.close()) })
	if hung == nil {
		return
	}
	stuck := fmt.Errorf("%w: %w", ErrStuck, hung)
	if hung.Disk {
		stuck = fmt.Errorf("%w: %w", iut.ErrDisk, stuck)
	}
	e.ends.fail(stuck) // should the step end after all, nothing more is done
	c.result, c.err = Result{}, stuck
}

// begun says that the engine has figures.
func (c *Crawler) begun() {
	c.using.Lock()
	defer c.using.Unlock()
	c.crawls = true
}

// end waits until no method changes what is left, and lets none do so any more.
func (c *Crawler) end() {
	c.using.Lock()
	defer c.using.Unlock()
	c.over = true
}

// leave keeps the last figures of the engine, which is about to be closed.
func (c *Crawler) leave() {
	c.using.Lock()
	defer c.using.Unlock()
	if c.crawls {
		c.crawls, c.last = false, c.e.progress()
	}
}

// Run crawls, see the function [Run]. It is called once; another call returns ErrOver.
func (c *Crawler) Run(ctx context.Context) (Result, error) {
	if !c.ran.CompareAndSwap(false, true) {
		return Result{}, ErrOver
	}
	c.begin <- ctx
	<-c.ended
	return c.result, c.err
}

// Close closes a Crawler whose Run is not called: nothing is asked, and what New has brought to
// disk stays. Once Run was called it does nothing.
func (c *Crawler) Close() error {
	if !c.ran.CompareAndSwap(false, true) {
		return nil
	}
	close(c.begin)
	<-c.ended
	return c.err
}

// use calls fn while fetching has not ended.
func (c *Crawler) use(fn func() error) error {
	c.using.RLock()
	defer c.using.RUnlock()
	if c.over {
		return ErrOver
	}
	return fn()
}

// Stats returns the state of the run: before it fetches the zero value, after its end the last one.
func (c *Crawler) Stats() Progress {
	c.using.RLock()
	defer c.using.RUnlock()
	if c.crawls {
		return c.e.progress()
	}
	return c.last
}

// Pause keeps requests from being begun until Resume is called. Those under way go on, and what
// they bring is stored. A run with nothing left ends all the same.
func (c *Crawler) Pause() { c.e.network.pause.held.Store(true) }

// Resume takes back Pause. Requests begin within a second.
func (c *Crawler) Resume() { c.e.network.pause.held.Store(false) }

// A Request is a URL to be asked for.
type Request struct {
	URL string // http or https, in any spelling, without user name and password
}

// Add adds seeds to the run. Once it has returned they are on disk; a kill before that leaves
// all of them to the next run, or none. Those that are known already, or out of bounds, are as they
// would be as Options.Seeds. The errors are ErrOptions for what is no URL, of which nothing is
// added; ErrOver; iut.ErrDisk, which ends the run; and the cause of ctx.
func (c *Crawler) Add(ctx context.Context, requests ...Request) error {
	e, linker := c.e, c.e.rules.linker
	links := make([]record.Link, 0, len(requests))
	urls := make([]string, 0, len(requests))
	for _, r := range requests {
		url, err := weburl.SeedURL(r.URL)
		if err == nil && loginOf(r.URL) != nil {
			err = errors.New("it has a user name, which only Options.Seeds may have")
		}
		if err != nil {
			return fmt.Errorf("%w: %.80q: %w", ErrOptions, weburl.HideLogin(r.URL), err)
		}
		url = e.opts.Strip.Apply(url)
		urls = append(urls, url)
	}
	if e.opts.External || e.importing != nil {
		return fmt.Errorf("%w: a run with External or Archives takes no seeds", ErrOptions)
	}
	c.adding.Lock()
	defer c.adding.Unlock()
	return c.use(func() error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		kept := urls[:0]
		for _, url := range urls {
			if linker.isForgotten(url) {
				continue
			}
			kept = append(kept, url)
			links = append(links, record.Link{URL: url, Source: record.Seed, Areas: linker.Areas(url), Held: linker.budgets.form(url)})
		}
		// A crawler that finds nothing left in between waits for what comes.
		e.frontier.Expect(1)
		defer e.frontier.Expect(-1)
		done, err := e.store.index.Commit([]*record.Outcome{{Links: links}})
		if err == nil {
			e.found(done.Fresh, done.Tx)
			if e.opts.Cluster != nil {
				e.opts.Cluster.Committed(len(done.Fresh) > 0)
			}
			// Last: from the index alone the next run has all of them, or none.
			err = e.store.tree.AddSeeds(kept)
		}
		if err != nil {
			err = iut.DiskError("add seeds", err)
			e.ends.fail(err)
		}
		return err
	})
}

// Retry turns the URLs below a prefix that failed back to pending, as crawler retry does, and
// returns their number, also with an error. "" is the whole tree. The errors are ErrOptions for a
// prefix that is none, ErrOver, iut.ErrDisk, which ends the run, and that of ctx.
func (c *Crawler) Retry(ctx context.Context, prefix string) (n int, err error) {
	e := c.e
	err = c.use(func() error {
		in := newInspector(e.store.tree, e.store.index, e.rules.linker, robots.Token(e.opts.UserAgent))
		key, below, err := in.Below(prefix, "retry [URL-PREFIX]")
		if err != nil {
			return fmt.Errorf("%w: %w", ErrOptions, err)
		}
		e.frontier.Expect(1)
		defer e.frontier.Expect(-1)
		failed := func(r *record.Record) bool { return r.State == record.Failed && below(r.URL) }
		if n, err = e.store.index.Reopen(ctx, key, failed, e.found); err == nil || ctx.Err() != nil {
			return err
		}
		err = iut.DiskError("retry", err)
		e.ends.fail(err)
		return err
	})
	return n, err
}
