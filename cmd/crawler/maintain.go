package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"urltree/cleaner"
	"urltree/crawler"
	"urltree/internal/fetch"
	"urltree/internal/rank"
	"urltree/internal/repair"
	"urltree/internal/words"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// mergeCommand rebuilds the results, and the index if need be, from the folders.
func (c *command) mergeCommand() *subcommand {
	return &subcommand{
		name: "merge", usage: "tidy up index and results, or make them again from the folders",
		about: "A tree of an earlier version is brought to this one, with all that it knows. A sound index keeps what it knows: it is made to agree with the folders, and smaller, and the results are written. One that is missing or damaged is made again from the folders and from what can be read of the old one, which is kept under another name: nothing that a stored page or seeds.txt names is lost; where the old one cannot be read, URLs that had failed, redirected or been refused are pending again, and tries, reasons, robots.txt answers and the hosts' times are lost. A damaged page is kept as well: its files get names that end in .damaged, and its URL is pending again.",
		flags: []*option{c.flags.tree(), c.flags.output()},
		run: func(ctx context.Context, operands []string) error {
			if err := treeThere(c.root()); err != nil {
				return err
			}
			if err := c.probe(c.root(), c.flags.opts.Output); err != nil {
				return err
			}
			_, err := iut.ReadFormat(c.root())
			older := errors.Is(err, iut.ErrOlder)
			m, line := &steps{of: "merge"}, newProgress(c.stderr, false)
			stop := m.showOn(line)
			defer stop()
			report, err := repair.Merge(ctx, repair.MergeOptions{
				Root: c.root(), Output: c.flags.opts.Output, Log: c.logger(line), Tell: m.set,
				Parser: func(f iut.Format) (repair.Parser, error) { return crawler.NewLinker(f) },
			})
			stop()
			if err != nil {
				return err
			}
			out := c.stdout
			if files, err := cleaner.FilesFor(c.root(), c.flags.opts.Output); err == nil && files.Stream {
				out = c.stderr // standard output may have the lines of the results
			}
			text := report.String()
			if older {
				text += "options: the version before kept none; give those of this crawl once more, such as -scope, with the next run\n"
			}
			_, err = io.WriteString(out, text)
			return err
		},
	}
}

// checkCommand proves the promises on a tree that nobody crawls.
func (c *command) checkCommand() *subcommand {
	var links bool
	return &subcommand{
		name: "check", usage: "prove that index, folders and results agree",
		about: "What a kill left behind is counted and no fault. Faults are printed, one a line.",
		flags: []*option{c.flags.tree(), c.flags.output(), plainFlag("links", toggle{&links}, "parse every stored page again and prove that no link of a stored page is lost")},
		run: func(ctx context.Context, _ []string) error {
			opened := false
			check := func(tree *iut.Tree, index *storage.Index) error {
				opened = true
				return c.check(ctx, tree, index, repair.CheckOptions{Links: links, Output: c.flags.opts.Output})
			}
			err := withIndex(c.root(), iut.Options{}, storage.Options{ReadOnly: true}, check)
			if !opened && (errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission)) { // check need not write there
				err = withIndex(c.root(), iut.Options{ReadOnly: true}, storage.Options{ReadOnly: true}, check)
			}
			return err
		},
	}
}

// check prints the faults of a tree, and what was looked at.
func (c *command) check(ctx context.Context, tree *iut.Tree, index *storage.Index, opts repair.CheckOptions) error {
	linker, err := crawler.NewLinker(tree.Format())
	if err != nil {
		return err
	}
	m, line := &steps{of: "check"}, newProgress(c.stderr, false)
	stop := m.showOn(line)
	defer stop()
	opts.Tell = m.set
	tell := func(fault string) {
		line.above(func() { fmt.Fprintln(c.stdout, "fault:", fault) })
	}
	report, err := repair.Check(ctx, tree, index, linker, opts, tell)
	stop()
	if err != nil {
		return err
	}
	switch ranks, err := rank.Open(c.root()); {
	case err == nil:
		if err := ranks.Close(); err != nil {
			return err
		}
	case errors.Is(err, rank.ErrDamaged):
		report.Faults++
		tell(err.Error())
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if report.Faults > 0 {
		err = errFaults
	}
	_, werr := io.WriteString(c.stdout, report.String())
	return errors.Join(err, werr)
}

// retryCommand turns failures back into work.
func (c *command) retryCommand() *subcommand {
	var w retry
	states := plainFlag("state", choice{&w.state, []string{"failed", "error", "refused", "redirected"}}, "only URLs of this `STATE`: failed, also called error, refused or redirected")
	states.usual = "failed; any with -reason"
	return &subcommand{
		name: "retry", usage: "turn failed, refused or redirected URLs back to pending", operand: "[URL-PREFIX]",
		about: "The next run asks them again, and reads failed sitemaps again. With -reason or -state also refused and redirected URLs. Before those of reason robots, robots.txt is asked for again.",
		flags: []*option{
			c.flags.tree(),
			states,
			plainFlag("reason", choice{&w.reason, retryReasons()}, "only what failed or was refused for this `REASON`, of those below"),
		},
		run: func(ctx context.Context, operands []string) error {
			if w.state == "error" {
				w.state = "failed"
			}
			return withIndex(c.root(), iut.Options{}, storage.Options{}, func(tree *iut.Tree, index *storage.Index) error {
				in, err := crawler.NewInspector(tree, index)
				if err != nil {
					return err
				}
				w.index = index
				prefix, usage := first(operands), "retry [-state S] [-reason R] [URL-PREFIX]"
				if w.prefix, w.below, err = in.Below(prefix, usage); err != nil {
					return err
				}
				urls, sitemaps, err := w.reopen(ctx)
				if err == nil && urls+sitemaps == 0 { // a sitemap has no record
					err = in.ThereIs(ctx, prefix, usage)
				}
				if err != nil {
					return err
				}
				return c.printRetry(urls, sitemaps)
			})
		},
	}
}

// A retry says what is to be asked again.
type retry struct {
	index         *storage.Index
	prefix        []byte // of keys
	below         func(url string) bool
	state, reason string // "": see takes
}

// takes reports whether a URL is to be asked again: without a state or a reason one that failed.
// What another node has is asked only for its reason.
func (w *retry) takes(r *record.Record) bool {
	switch {
	case r.State == record.Stored, r.IsElsewhere() && w.reason == "", !w.below(r.URL), w.reason != "" && !hasReason(r.Reason, w.reason):
		return false
	case w.state != "":
		return r.State.String() == w.state
	}
	return r.State == record.Failed || w.reason != "" && r.State != record.Pending
}

// takesSitemap is takes for sitemaps.
func (w *retry) takesSitemap(s *record.Record) bool {
	word, _, _ := strings.Cut(s.Reason, ":")
	return (s.State == record.Failed || w.reason != "") && !s.Absent() &&
		w.below(s.URL) && (w.reason == "" || hasReason(word, w.reason))
}

func (w *retry) reopen(ctx context.Context) (urls, sitemaps int, err error) {
	if w.reason == "robots" { // first: a kill behind it must not leave URLs open beside the answer that refuses them
		if err := w.index.Hosts().ForgetRobots(); err != nil {
			return 0, 0, err
		}
	}
	urls, err = w.index.Reopen(ctx, w.prefix, w.takes, nil)
	if err == nil && (w.state == "" || w.state == "failed") {
		sitemaps, err = w.index.Sitemaps().Reopen(ctx, w.takesSitemap, nil)
	}
	return urls, sitemaps, err
}

func (c *command) printRetry(urls, sitemaps int) error {
	var text string
	if sitemaps > 0 {
		text = words.Count(sitemaps, "sitemap") + " to be read again\n"
	}
	switch {
	case urls > 0:
		text += words.Count(urls, "URL") + " pending again; the next run asks them\n"
	case sitemaps == 0:
		text = "nothing to ask again; crawler stats and crawler export show states and reasons\n"
	}
	_, err := io.WriteString(c.stdout, text)
	return err
}

// hasReason reports whether a reason is the one asked for: tls is also those that say more.
func hasReason(has, asked string) bool { return has == asked || asked == fetch.TLS && fetch.IsTLS(has) }
