package main

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"urltree/crawler"
	"urltree/internal/words"
	"urltree/storage"
	"urltree/storage/record"
)

// external is what broken -external is given.
type external struct {
	on  bool
	age time.Duration // 0: what is known is not asked again
}

// externalFlags are the flags of the crawl that say how targets outside are asked.
var externalFlags = []string{
	"time", "robots", "delay", "per-host", "per-ip", "max-crawl-delay", "max-wait", "retries", "timeout", "first-byte", "limit-rate",
	"user-agent", "proxy", "4", "6", "bind", "insecure", "http1", "allow-private", "quiet", "crawlers", "downloads", "sync",
}

// crawlFlags returns these flags of the crawl.
func (c *command) crawlFlags(names []string) (flags []*option) {
	for _, o := range c.flags.all {
		if slices.Contains(names, o.name) {
			flags = append(flags, o)
		}
	}
	return flags
}

// check refuses flags that have no effect without -external.
func (x *external) check(c *command) error {
	if x.on {
		return nil
	}
	if x.age > 0 {
		return usagef("-recheck is for -external")
	}
	for _, s := range c.set {
		if slices.Contains(externalFlags, s.option.name) {
			return usagef("-%s is for -external", s.option.name)
		}
	}
	return nil
}

// ask asks the targets outside that nothing is known of, until ctx ends or the time is up.
func (x *external) ask(ctx context.Context, c *command) error {
	index := filepath.Join(c.root(), "index.db")
	switch there, err := storage.Exists(index); {
	case err != nil:
		return err
	case !there:
		return fmt.Errorf("%w: %w", record.ErrDamaged, &fs.PathError{Op: "open", Path: index, Err: fs.ErrNotExist})
	}
	opts, err := c.crawlOptions()
	if err != nil {
		return err
	}
	c.warnFirst()
	opts.Keep, opts.Started = nil, nil // what the tree keeps is for its crawl
	opts.External, opts.ExternalAge = true, x.age
	opts.LimitHeap = os.Getenv("GOMEMLIMIT") == ""
	show := newProgress(c.stderr, c.flags.quiet)
	opts.Progress, opts.Log = show.update, c.loggerFrom(slog.LevelWarn, show)
	stopped := context.AfterFunc(ctx, func() {
		if !c.flags.quiet {
			fmt.Fprintln(show, "crawler: stopping: what is under way gets 10 s, then the report is written; a second signal forces")
		}
	})
	result, err := crawler.Run(ctx, opts)
	stopped()
	show.close()
	if err != nil {
		return err
	}
	c.asked(ctx, result)
	return nil
}

// asked writes how many targets outside wait after a run.
func (c *command) asked(ctx context.Context, r crawler.Result) {
	switch n := r.Total.Outside; {
	case n > 0:
		c.tell(fmt.Sprintf("%s; %s outside to be asked yet: the same command goes on", r.Ended, words.Count(n, "target")))
	case ctx.Err() != nil && r.Run.ID == 0:
		c.tell(r.Ended + " before anything was asked: the same command goes on")
	}
}
