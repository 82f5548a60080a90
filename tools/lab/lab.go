// Lab repeats the experiments of the sources: A's of buffers and crawlers, D's of the time that
// each stage takes, and by package queues E's of priority queues. What it finds becomes
// docs/experiments.md, beside what the sources print or say, with pictures in docs/experiments.
//
//	go run -C tools ./lab                            # ten minutes, 1 GiB of memory
//	go run -C tools ./lab -scale 0.01 -only A7,E8 -out /tmp/lab
//
// A and D are crawls by [crawler.Run] of a web made up in this process, which lets each answer
// wait so that asking takes time as it does elsewhere. What depends on the machine are times;
// what E's figures 8 and 9 and table 1 count does not. The document has the experiments of this
// run alone.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"urltree/crawler"
	"urltree/internal/testweb"
	"urltree/storage"
	"urltree/tools/lab/queues"
)

// Options say which experiments are made, and how large.
type Options struct {
	Scale float64  // multiplies times, pages and items, not numbers of crawlers; 0: 1
	Only  []string // of IDs, those of D all together; nil: all
	Dir   string   // where trees and queues lie until an experiment ends; "": the system's temporary folder
	// NoSync leaves out all syncing, which makes what is measured another thing: for tests.
	NoSync bool
	Say    func(format string, args ...any) // told what goes on, from several goroutines; nil: nobody is
}

// A Finding is a result and the place in the sources that it belongs to.
type Finding struct {
	ID     string // such as "A7"
	Source string // "A", "D" or "E"
	queues.Result
}

// An experiment returns a result for each of its IDs.
type experiment struct {
	ids    []string
	counts bool // times do not matter to it: others may run beside it
	run    func(context.Context, Options) ([]queues.Result, error)
}

// experiments lists all in the order of the document.
func experiments() []experiment {
	counted := func(id string, run func(context.Context, queues.Options) (queues.Result, error)) experiment {
		return experiment{ids: []string{id}, counts: true, run: func(ctx context.Context, o Options) ([]queues.Result, error) {
			r, err := run(ctx, queues.Options{Scale: o.Scale, Dir: o.Dir, Seed: 1})
			return []queues.Result{r}, err
		}}
	}
	timed := func(id string, run func(context.Context, queues.Options) (queues.Result, error)) experiment {
		e := counted(id, run)
		e.counts = false
		return e
	}
	return []experiment{
		{ids: []string{"A7"}, run: Buffers},
		{ids: []string{"D3", "D4", "D1", "D5", "D2"}, run: Stages},
		counted("E8", queues.Figure8),
		counted("E9", queues.Figure9),
		counted("E1", queues.Table1),
		timed("E10", queues.Figure10),
		{ids: []string{"EP"}, run: Exchange},
	}
}

// IDs are the names that Options.Only takes: the letter of a source and the number of a figure,
// or of D's tables I and II and E's table 1; EP is E's exchange between P nodes.
func IDs() []string {
	var ids []string
	for _, e := range experiments() {
		ids = append(ids, e.ids...)
	}
	return ids
}

// Run makes the experiments. First those that only count, as many at a time as there are
// processors, then the others one after the other, so that nothing of ours disturbs their times.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Scale == 0 {
		o.Scale = 1
	}
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	rep := newReport(o.Scale)
	var chosen []experiment
	for _, e := range experiments() {
		if o.Only == nil || slices.ContainsFunc(e.ids, func(id string) bool { return slices.Contains(o.Only, id) }) {
			chosen = append(chosen, e)
		}
	}
	results := make([][]queues.Result, len(chosen))
	for _, counts := range []bool{true, false} {
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(1)
		if counts {
			g.SetLimit(runtime.GOMAXPROCS(0))
		}
		for i, e := range chosen {
			if e.counts != counts {
				continue
			}
			g.Go(func() error {
				start := time.Now()
				var err error
				if results[i], err = e.run(gctx, o); err != nil {
					return fmt.Errorf("lab: %s: %w", e.ids[0], err)
				}
				o.Say("%v took %s", e.ids, time.Since(start).Round(time.Millisecond))
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return nil, err
		}
	}
	for i, e := range chosen {
		for j, id := range e.ids {
			rep.Findings = append(rep.Findings, Finding{ID: id, Source: id[:1], Result: results[i][j]})
		}
	}
	rep.end()
	return rep, nil
}

// scaled is a number of things at the scale, but at least least.
func (o Options) scaled(n, least int) int { return max(int(float64(n)*o.Scale+0.5), least) }

// latency is how long the made-up web waits before each answer.
const latency = 50 * time.Millisecond

// web starts a made-up web. Stop ends it.
func (o Options) web(hosts, pages int) (*testweb.Web, error) {
	w := testweb.New(testweb.Options{Kind: testweb.Linked, Hosts: hosts, Pages: pages, Seed: 1, Latency: latency})
	if err := w.Start(0); err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	return w, nil
}

// temp calls f with a new folder, which is gone afterwards.
func (o Options) temp(f func(dir string) error) error {
	dir, err := os.MkdirTemp(o.Dir, "urltree-lab-")
	if err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	defer os.RemoveAll(dir)
	return f(dir)
}

// A crawl is what came of a run in a folder that is gone.
type crawl struct {
	crawler.Result
	commits uint64 // transactions, those of its start and its end among them
}

// crawl makes a crawl as the sources made theirs: without asking for robots.txt, without pauses.
func (o Options) crawl(ctx context.Context, opts crawler.Options) (c crawl, err error) {
	err = o.temp(func(dir string) error {
		opts.Tree, opts.Output = filepath.Join(dir, "iut"), filepath.Join(dir, "res.txt")
		opts.AllowPrivate, opts.IgnoreRobots, opts.Delay, opts.NoSync = true, true, -1, o.NoSync
		var err error
		if c.Result, err = crawler.Run(ctx, opts); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		index, err := storage.Open(filepath.Join(opts.Tree, "index.db"), storage.Options{ReadOnly: true})
		if err != nil {
			return err
		}
		defer index.Close()
		c.commits, err = index.Transaction()
		return err
	})
	return c, err
}
