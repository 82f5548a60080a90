package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"urltree/crawler"
	"urltree/internal/ctl"
	"urltree/internal/inspect"
	"urltree/internal/rank"
	"urltree/iut"
)

// statsCommand asks for totals and runs like the others that only look. Duplicates are looked for
// by this process even while another crawls: that takes time and memory, and the folders are
// enough. So are degrees, but only of a tree that nobody crawls.
func (c *command) statsCommand() *subcommand {
	var duplicates, degrees, watch bool
	answer := func(ctx context.Context, _ string, w *bufio.Writer) error {
		switch several := len(c.roots()) > 1; {
		case several && (duplicates || degrees || watch):
			return usagef("stats: -duplicates, -degrees and -watch are of one tree; crawler unite makes one of several")
		case several:
			return c.sums(ctx, w)
		case duplicates && degrees || watch && (duplicates || degrees):
			return usagef("stats: one of -duplicates, -degrees and -watch, not two")
		case watch:
			return c.watch(ctx)
		case duplicates:
			m := &steps{of: "duplicates"}
			stop := m.showOn(newProgress(c.stderr, false))
			defer stop()
			return inspect.Duplicates(ctx, c.root(), m.set, quieting{w, stop})
		case degrees:
			return c.degrees(ctx, w)
		}
		return c.inspect(ctx, c.root(), inspect.Question{Command: "stats"}, w)
	}
	stats := c.lookCommand("stats", "", "show counts by state and reason, and the runs, or pages that repeat others, or degrees", answer,
		plainFlag("duplicates", toggle{&duplicates}, "read all pages, and list those that are equal and those whose texts are nearly so"),
		plainFlag("watch", toggle{&watch}, "show how the crawl that is going on gets on, until it ends: a line kept up to date on a terminal, else a line a minute"),
		plainFlag("degrees", toggle{&degrees}, "show how many links pages have and how many lead to each URL, and the largest of both; pages that were not crawled with -edges are read from their folders"))
	stats.flags[0] = c.treesFlag()
	stats.args = "[-tree FOLDER] [-duplicates|-degrees|-watch]"
	stats.about = "While a crawl has the tree, it answers; else the tree is read. Duplicates are looked for in the folders, also during a crawl; degrees only while none goes on. The numbers of several trees are added, and what two of them have counts twice."
	return stats
}

// watch shows the progress of the crawl that has the tree until that, or ctx, ends.
func (c *command) watch(ctx context.Context) error {
	show := newProgress(c.stdout, false)
	show.last = time.Time{} // the first line comes at once
	defer show.close()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for first := true; ; first = false {
		var answer bytes.Buffer
		err := ctl.Call(ctx, c.root(), inspect.Question{Command: "progress"}, &answer)
		switch {
		case ctx.Err() != nil:
			return nil
		case first && errors.Is(err, ctl.ErrNone):
			if err := iut.InUse(c.root()); err != nil {
				return err
			}
			return fmt.Errorf("-tree %s: no crawl is going on; crawler stats shows what there is", c.root())
		case errors.Is(err, ctl.ErrNone), errors.Is(err, ctl.ErrEnding), errors.Is(err, ctl.ErrCut):
			show.close()
			_, err := fmt.Fprintln(c.stdout, "crawler: the crawl has ended")
			return err
		case err != nil:
			return err
		}
		var p crawler.Progress
		if err := json.Unmarshal(answer.Bytes(), &p); err != nil {
			return fmt.Errorf("the answer of the crawl: %w", err)
		}
		show.update(p)
		select {
		case <-second.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (c *command) degrees(ctx context.Context, out *bufio.Writer) error {
	m := &steps{of: "degrees"}
	return c.withGraph(m, iut.Options{ReadOnly: true}, func(pages rank.Source, stop func()) error {
		return rank.Degrees(ctx, pages, quieting{out, stop})
	})
}
