package crawler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"urltree/cleaner"
	"urltree/internal/frontier"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// How fetching ends. None of these is an error of the crawl.
var (
	errTime        = errors.New("time is up")
	errPages       = errors.New("page limit reached")
	errBytes       = errors.New("byte limit reached")
	errStopped     = errors.New("stopped")
	errNothingLeft = errors.New("nothing left")
	errDrained     = errors.New("drained")
)

// ErrStuck says that the crawl was to end and a step of it did not, for two minutes. What had
// been committed is safe; what had not will be asked again.
var ErrStuck = errors.New("stuck")

// downloadGrace is how long downloads in flight may go on once fetching has stopped.
const downloadGrace = 10 * time.Second

// A Result says how a run ended.
type Result struct {
	Ended string // "drained", "time is up", "page limit reached", "byte limit reached", "stopped", "nothing left", one that begins with "nothing reachable", or the text of a CallbackError
	// Cause is why the context ended that ended the run, see [context.Cause]; nil: another thing did.
	Cause error
	Run   record.Run
	Total record.Totals
	Files cleaner.Files // without names for a run with NoTree
	// Closed are the URLs that this run did not ask for although they were given as seeds, since
	// they failed or were refused in an earlier run: of the first 256 seeds, or where these
	// redirect to.
	Closed []record.Record
	// Waits says, when nothing was left but URLs that wait, what they wait for; else "".
	Waits string
	// Stages are the times of this run's stages, as in statistics.txt.
	Stages []cleaner.Stage
	// Failures are the URLs that failed in this run, and those whose origins gave no answer; none
	// for a run with NoTree.
	Failures cleaner.Failures
	// SeedsFailed is true if the run asked something and stored no page, and each seed that it had
	// to ask failed or could not be reached. It is false if ctx ended the run, and with NoTree.
	SeedsFailed bool
	// Steps is the number of supersteps in which this process had a URL, over all runs, and Trace a
	// digest of all its outcomes with the steps that they are of; 0 and "" without Options.Step.
	Steps uint64
	Trace string
	// Imported says what became of what stands in Options.Archives; zero without.
	Imported Imported
}

// Run crawls until ctx ends, opts.Time is over or nothing is left. Then, one step after the
// other: downloads in flight finish; the cleaner drains the buffers into the tree and writes the
// results; tree and index are closed. Draining does not depend on ctx, so that stopping is not
// cut short. All of these ends give a nil error. Nothing is left when no URL waits, none is asked,
// no page waits to be parsed and none is: source C's four conditions. If ctx ends while the tree is
// still being opened, or opts.Time was spent there waiting for room on the disk, nothing is asked
// and no results are written; Result.Run has no ID then.
//
// A call-back that returns an error or panics ends fetching at once, and the downloads in flight
// with it. No other one is begun; the buffers are drained, the results written, and the error is a
// *[CallbackError]. Pages whose call-backs were not all called are pending.
//
// The first disk error ends the crawl and is returned, wrapped in iut.ErrDisk. With ErrStuck, which
// a disk or a call-back that hangs is as well, tree and memory are not given back before the step
// that hangs ends: the process should end. Other errors come before anything is fetched:
// ErrOptions, ErrNoWork, iut.ErrBusy, iut.ErrFormat, iut.ErrIdentity, iut.ErrTree, iut.ErrOlder,
// record.ErrDamaged, storage.ErrSchema, storage.ErrOlder. ErrDamaged is also the error where damage
// is met later; the results are written if the index could be read, and lack what it lacks. But for
// ErrStuck no goroutine of Run is left when it returns.
//
// Several crawls may go on in one process, each with a tree of its own or none.
func Run(ctx context.Context, opts Options) (Result, error) {
	c, err := New(ctx, opts)
	if err != nil {
		return Result{}, err
	}
	return c.Run(ctx)
}

// check returns the options with their defaults, and the result files that belong to them.
func (o Options) check() (Options, cleaner.Files, error) {
	o, err := o.defaults()
	if err != nil {
		return o, cleaner.Files{}, err
	}
	if err := o.fit(openFiles()); err != nil {
		return o, cleaner.Files{}, err
	}
	files, err := cleaner.FilesFor(o.Tree, o.Output)
	if err != nil {
		return o, files, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	if o.NoTree || o.External {
		files = cleaner.Files{}
	}
	switch err := files.Replaceable(); {
	case errors.Is(err, iut.ErrDisk):
		return o, files, err
	case err != nil:
		return o, files, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	if err := o.checkBind(); err != nil {
		return o, files, err
	}
	return o, files, o.checkFolders()
}

// openAll opens all that the run needs. It returns false if the run is over with that, as result
// and err say.
func (e *engine) openAll(ctx context.Context) (result Result, open bool, err error) {
	// To make the index again or to parse all pages again takes its time; both may be cut off.
	opening, stopOpening := context.WithCancel(ctx)
	defer stopOpening()
	defer context.AfterFunc(e.ends.alive, stopOpening)()
	how := e.open
	if e.opts.External {
		how = e.openOutside
	}
	err = how(opening)
	switch {
	case err != nil && ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))):
		return Result{Ended: errStopped.Error(), Cause: context.Cause(ctx)}, false, nil
	case errors.Is(err, errTime):
		return Result{Ended: errTime.Error()}, false, nil // it was spent waiting for room on the disk
	case errors.Is(err, errNothingLeft):
		return Result{Ended: errNothingLeft.Error(), Total: e.store.index.Totals()}, false, nil
	case err != nil || e.ends.alive.Err() != nil:
		return Result{}, false, errors.Join(err, context.Cause(e.ends.alive))
	}
	return Result{}, true, nil
}

// downloadBytes is what a download may hold beside its body: 64 KiB of response header take up to
// 1.4 MiB while they arrive, and HTTP/2 may have 256 KiB of a body that waits for memory.
const downloadBytes = 3 << 19

// Memory returns the limit of our own memory, in bytes, that the options set: the sum of what the
// parts may hold. A field that is zero counts as its default.
func (o Options) Memory() int64 {
	o.fill()
	downloads := int64(o.Crawlers) * int64(o.Downloads)
	return 64<<20 + downloads*downloadBytes + o.MemoryBodies + int64(o.Buffers)*o.BufferBytes + o.FrontierBytes + o.SeenBytes
}

// heap is what of that Go's runtime may take when filter bytes lie outside the heap. Some is kept
// back, for the limit is one that the runtime aims at: what is allocated while it collects comes on
// top.
func (o Options) heap(filter int64) int64 {
	return o.Memory() - min(o.Memory()/16, 16<<20) - 12<<20 - filter
}

// crawl fetches until something ends it, then cleans up. begun is called once progress has figures,
// over once fetching has ended.
func (e *engine) crawl(ctx context.Context, begun, over func()) (Result, error) {
	defer e.begin(ctx)()
	p := e.startPipeline()
	defer p.stopOthers()
	begun()
	if e.opts.Started != nil {
		e.ends.call("Started", "", func() error { e.opts.Started(); return nil })
		if ctx.Err() != nil {
			e.ends.stop(errStopped) // before anything is asked
		}
	}
	if e.importing != nil {
		e.startImporting(p)
	} else {
		e.startFetching(p)
	}
	<-e.ends.fetching.Done()
	over()
	grace := time.AfterFunc(downloadGrace, e.ends.cut)
	crawlErr := p.crawlers.Wait()
	e.steps.end()
	grace.Stop()

	result := Result{Files: e.files, Closed: e.seeds.closed, Ended: context.Cause(e.ends.fetching).Error()}
	if errors.Is(context.Cause(e.ends.fetching), errStopped) {
		result.Cause = context.Cause(ctx)
	}
	if e.importing != nil {
		result.Imported = e.importing.report
	}
	if errors.Is(context.Cause(e.ends.fetching), errNothingLeft) && e.store.index.Totals().Pending() > 0 {
		result.Waits = e.frontier.Waiting()
	}
	drain := func(context.Context) error {
		if err := errors.Join(crawlErr, p.drain(e.buffers)); err != nil {
			return err
		}
		_, err := e.store.index.Runs().Finish()
		return err
	}
	var err error
	if e.opts.NoTree || e.opts.External {
		err = drain(e.ends.alive)
	} else {
		err = cleaner.Clean(e.ends.alive, cleaner.Steps{
			Log: e.opts.Log, Drain: drain, Index: e.store.index, Files: e.files, Root: e.opts.Tree, Figures: e.figures, Watch: e.ends.watch,
			Unreached: e.unreached(), Failures: func(f cleaner.Failures) { result.Failures = f },
		})
	}
	result.Run, result.Total, result.Stages = e.store.index.Runs().Current(), e.store.index.Totals(), e.figures().Stages
	result.Steps, result.Trace = e.steps.figures()
	result.SeedsFailed = e.measured.asked.Load() && result.Run.Stored == 0 && result.Failures.SeedsFailed > 0 &&
		result.Failures.SeedsOther == 0 && !errors.Is(context.Cause(e.ends.fetching), errStopped)
	if cause := context.Cause(e.ends.alive); cause != nil {
		err = cause // the first error, not what followed from it
	}
	if broken := e.ends.broken.Load(); broken != nil && err == nil {
		err = broken
	}
	return result, err
}

// begin lets fetching begin, until ctx ends or the time is up. The function that it returns
// releases what that takes.
func (e *engine) begin(ctx context.Context) (release func()) {
	e.ends.fetching, e.ends.stop = context.WithCancelCause(e.ends.alive)
	e.ends.transfers, e.ends.cut = context.WithCancel(e.ends.alive)
	unhook := []func() bool{context.AfterFunc(ctx, func() { e.ends.stop(errStopped) })}
	if e.opts.Time > 0 {
		unhook = append(unhook, time.AfterFunc(e.opts.Time, func() { e.ends.stop(errTime) }).Stop)
	}
	e.ends.watch.Begin(e.ends.alive, e.ends.fetching)
	e.measured.start = time.Now()
	return func() {
		for _, fn := range unhook {
			fn()
		}
		e.ends.cut()
	}
}

// committed is called with each set that is durable: only now its new URLs become work.
func (e *engine) committed(set []*iut.Item, c storage.Committed) {
	done := make([]frontier.Done, 0, len(set))
	var times []record.HostTimes
	robots := 0
	if e.importing != nil {
		e.importing.committed(set)
	}
	for i, it := range set {
		if it.Over > 0 {
			e.places.over.Release(it.Over)
		}
		if it.Host != nil {
			times = append(times, *it.Host)
		}
		if it.Robots != nil && answered(it.Robots.Status) {
			robots++
		}
		if it.Row.URL == "" || it.Row.Kind == record.RobotsRow || it.Part {
			continue
		}
		if e.steps != nil {
			e.steps.committed(&it.Row, &c.Next[i])
		}
		done = append(done, frontier.Done{Row: it.Row, Next: c.Next[i]})
		e.outside.committed(it, c.Next[i])
		if n := it.Crawler; n > 0 && it.OfPage() {
			e.crawlers[n-1].batch.removed.Add(1)
		}
		if it.Ticket && e.limit.committed(it.State == record.Stored) {
			e.ends.stop(errPages)
		}
	}
	if c.Cut > 0 {
		e.rules.linker.count(map[string]int{"max-held": c.Cut})
	}
	if e.store.contents != nil {
		e.store.contents.learn(set)
	}
	if e.rules.scorer != nil {
		for _, l := range c.Known {
			e.rules.scorer.Known(l.Fingerprint, l.Rank)
		}
	}
	if e.importing == nil {
		// New URLs first: between the two calls nothing must look as if nothing were left.
		e.found(c.Fresh, c.Tx)
		e.frontier.Done(done, times)
		e.frontier.Expect(-robots)
	}
	if e.opts.Cluster != nil {
		// Behind the rows, which Idle would else miss; before anybody is told that they are durable.
		e.opts.Cluster.Committed(len(c.Fresh) > 0)
	}
	for i, it := range set {
		if it.Then != nil {
			it.Then(c.Refused != nil && c.Refused[i])
		}
	}
	if e.opts.MaxBytes > 0 && e.store.index.Runs().Current().Bytes >= e.opts.MaxBytes {
		e.ends.stop(errBytes)
	}
}

// found lets the frontier know of rows that are durable. Those that are found in a superstep wait
// for another one to choose them.
func (e *engine) found(rows []record.Row, tx uint64) {
	if e.steps == nil {
		e.frontier.Add(rows, tx)
	}
}

// flushAll is called when the frontier has nothing left to give while items are out.
func (e *engine) flushAll() {
	for _, b := range e.buffers {
		b.Flush()
	}
}

// close releases everything.
func (e *engine) close() error {
	err := e.importing.close()
	if e.network.client != nil {
		e.network.client.Close()
	}
	if e.store.contents != nil {
		err = errors.Join(err, e.store.contents.set.Close())
	}
	if e.store.edges != nil {
		err = errors.Join(err, iut.DiskError("edges", e.store.edges.Close()))
	}
	if e.store.index != nil {
		err = errors.Join(err, e.store.index.Close())
	}
	if e.store.tree != nil {
		err = errors.Join(err, e.store.tree.Close())
	}
	if e.opts.Cluster != nil {
		e.opts.Cluster.Leave()
	}
	return err
}
