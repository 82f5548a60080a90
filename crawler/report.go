package crawler

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"urltree/cleaner"
	"urltree/internal/fetch"
	"urltree/internal/frontier"
	"urltree/storage/record"
)

// report keeps the hourly figures in the index, once a minute, rewrites hourly_statistics.txt
// once an hour, and tells of the progress, once a second, until ctx ends.
func (e *engine) report(ctx context.Context) error {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	last, lastPages, kept := e.measured.start, int64(0), e.measured.start
	hour := record.Hour{Run: e.begun.run.ID, Hour: 1}
	before := int64(0) // new URLs in the tree before this hour
	put := func() error {
		if e.opts.External {
			return nil // the figures are those of pages
		}
		if e.ends.alive.Err() != nil {
			return nil // after an error of the disk nothing is written any more
		}
		hour.Time, hour.Stored, hour.Rows = time.Now().Unix(), e.store.index.Runs().Current().NewURLs-before, map[string][2]int64{}
		for _, q := range e.queues() {
			hour.Rows[q.Name] = [2]int64{q.Added, q.Removed}
		}
		return e.store.index.Runs().PutHour(hour)
	}
	for {
		var now time.Time
		select {
		case <-ctx.Done():
			if e.opts.Progress != nil {
				p := e.progress()
				e.ends.call("Progress", "", func() error { e.opts.Progress(p); return nil })
			}
			return put()
		case now = <-second.C:
		}
		if e.opts.LimitHeap {
			// The filter is outside the heap, and what it takes is not the heap's any more.
			debug.SetMemoryLimit(e.opts.heap(e.store.index.Filter().Bytes()))
		}
		pages := e.store.index.Runs().Current().Stored
		if e.opts.External {
			pages = e.outside.done.Load()
		}
		e.measured.perSecond.Store(math.Float64bits(float64(pages-lastPages) / now.Sub(last).Seconds()))
		last, lastPages = now, pages
		if e.opts.Progress != nil {
			p := e.progress()
			e.ends.call("Progress", "", func() error { e.opts.Progress(p); return nil })
		}
		over := now.Sub(e.measured.start) >= time.Duration(hour.Hour)*time.Hour
		if !over && now.Sub(kept) < time.Minute {
			continue
		}
		kept = now
		if err := put(); err != nil {
			return err
		}
		if !over {
			continue
		}
		hour.Hour, before = hour.Hour+1, before+hour.Stored
		if e.opts.NoTree || e.opts.External {
			continue
		}
		if err := cleaner.WriteHourly(e.ends.alive, e.store.index, e.files, e.ends.watch); err != nil {
			return err
		}
	}
}

func (e *engine) progress() Progress {
	run, total, stats := e.store.index.Runs().Current(), e.store.index.Totals(), e.frontier.Stats()
	p := Progress{
		Elapsed: time.Since(e.measured.start), Pages: run.Stored, Bytes: run.Bytes,
		Pending: total.Now + total.Later, Held: total.Held, Hosts: stats.Hosts, Phase: "fetch",
		PerSecond: math.Float64frombits(e.measured.perSecond.Load()),
	}
	for name, count := range run.Outcomes {
		if strings.HasPrefix(name, record.Failed.String()) {
			p.Failed += count
		}
	}
	if e.opts.Time > 0 {
		p.Left = max(e.opts.Time-p.Elapsed, 0)
	}
	if p.External = e.opts.External; p.External {
		p.Pages, p.Pending = e.outside.done.Load(), total.Outside
	}
	p.Mean = float64(p.Pages) / max(p.Elapsed, 1).Seconds()
	busy := false
	for _, c := range e.crawlers {
		busy = busy || c.flying.Load() > 0
	}
	if e.importing != nil {
		p.Read, p.Size = e.importing.files.Progress()
	}
	if e.ends.fetching.Err() != nil {
		p.Phase = "drain"
	} else if p.Waiting = e.network.pause.String(); p.Waiting == "" && !busy {
		p.Waiting = e.frontier.Waiting()
	}
	return p
}

// queues returns what went into and out of source A's queues: each crawler's batch, the frontier,
// each buffer.
func (e *engine) queues() []cleaner.Queue {
	var list []cleaner.Queue
	for _, c := range e.crawlers {
		list = append(list, cleaner.Queue{
			Name: fmt.Sprintf("crawler %d", c.number), Added: c.batch.added.Load(), Removed: c.batch.removed.Load(),
		})
	}
	stats := e.frontier.Stats()
	list = append(list, cleaner.Queue{Name: "frontier", Added: stats.Added, Removed: stats.Removed})
	for i, b := range e.buffers {
		c := b.Counts()
		list = append(list, cleaner.Queue{Name: fmt.Sprintf("buffer %d", i+1), Added: c.Added, Removed: c.Removed})
	}
	return list
}

// figures are those of the run that only the engine knows.
func (e *engine) figures() cleaner.RunFigures {
	filter := e.store.index.Filter()
	f := cleaner.RunFigures{
		Run: e.store.index.Runs().Current(), Queues: e.queues(), Rejected: e.rules.linker.rejections(),
		LockWait: e.frontier.Stats().LongestWait, ExpectedLosses: filter.ExpectedLosses(), Filter: filter.Stats(),
	}
	f.Order, f.Forgotten = e.orderFigures()
	f.Steps, f.Trace = e.steps.figures()
	f.Pauses, f.Stuck = e.ends.watch.Figures()
	for i := range e.measured.stages {
		f.Stages = append(f.Stages, e.measured.stages[i].stage(stageNames[i]))
	}
	return f
}

// unreached returns a function that reports whether a pending URL waits because its origin gave no
// answer in this run, and why it gave none. If the run has stored pages, that holds for those alone
// that it has given up: the others are asked again. Records come in the order of the index.
func (e *engine) unreached() func(*record.Record) (cause string, yes bool) {
	stored := sync.OnceValue(func() bool { return e.store.index.Runs().Current().Stored > 0 }) // once all is drained
	var last record.Robots                                                                     // of the origin of the record before
	return func(r *record.Record) (string, bool) {
		word, cause, _ := strings.Cut(r.Reason, ":")
		switch {
		case r.Range == record.Held:
			return cmp.Or(cause, word), word == heldRobots || word == heldRefused || word == frontier.GivenUp
		case stored() || word == heldRoom || word == fetch.HTTP1 || word == fetch.GoAway:
			return "", false
		case word != "":
			return word, true
		case e.network.proxyFailing():
			return string(fetch.Proxy), true
		}
		if origin := record.Origin(r.URL); origin != last.Origin {
			row, found, err := e.store.index.Hosts().Robots(origin)
			if last = row; err != nil || !found {
				last = record.Robots{}
			}
			last.Origin = origin
		}
		return last.Reason, last.Reason != "" && !answered(last.Status) && last.Time >= e.begun.run.Start
	}
}

// cookies reads the cookie file. Its bad lines are told to bad.
func (o *Options) cookies(bad func(line int, err error)) ([]*http.Cookie, error) {
	list, err := fetch.ParseCookies(o.Cookies, bad)
	if err != nil {
		return nil, fmt.Errorf("%w: cookies: %w", ErrOptions, err)
	}
	return list, nil
}
