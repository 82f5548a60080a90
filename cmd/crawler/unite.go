package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"urltree/crawler"
	"urltree/internal/repair"
	"urltree/internal/words"
	"urltree/iut"
	"urltree/storage/record"
)

// treesOperand is the operand of a subcommand that makes a tree of others.
const treesOperand = "OUT TREE..."

// uniteCommand makes one tree of several.
func (c *command) uniteCommand() *subcommand {
	var to, output string
	store := plainFlag("store", choice{&to, iut.Stores}, "`WHERE` the new tree keeps its pages: folders or warc")
	store.usual = "as the first TREE"
	return &subcommand{
		name: "unite", usage: "make one tree of several, of parts of a crawl or of crawls that overlap", operand: treesOperand,
		about: "OUT is a new folder; the others are only read, while no crawl goes on in them. All that is known of a URL comes together: what was opened again counts more than what was not, a stored page more than any other outcome, an outcome more than a URL that waits, and of two pages the one that was answered last. Seeds, hosts with their times, robots.txt answers, sitemaps and edges come along; the runs become one, and ranks are left out: crawler rank makes them again. It does not matter in which order the trees are given, or whether one is given twice, so parts may be united in steps. " +
			"Pages go from WARC files to WARC files as they stand there; else as crawler convert brings them into the other store. A page that is not whole is taken from another tree, or its URL is pending again. " +
			"The options are those of the tree that ran last; where others differ a line says so. The rules for URLs, -strip-params and -strip-www, must be the same. Stopped or killed, it leaves an OUT that is no tree, and the same command begins anew.",
		flags: []*option{
			store, c.flags.option("warc-size"), c.flags.option("warc-compression"), c.flags.option("operator"),
			word("output", &output, "none", "the `FILE` for a list of conflicts, which appears once it is complete, in place of an older one: of each URL of which trees have different outcomes, or different pages, a line for each of them: URL, tree, state, reason, status, time, SHA-256"),
		},
		run: func(ctx context.Context, operands []string) error {
			m := &steps{of: "unite"}
			line := newProgress(c.stderr, false)
			opts := c.flags.options()
			o := repair.UniteOptions{
				Root: operands[0], Trees: operands[1:], Store: to, Segments: crawler.Segments(&opts), Tell: m.set, Log: c.logger(line),
			}
			if output == "" {
				stop := m.showOn(line)
				defer stop()
				return c.unite(ctx, o)
			}
			if err := outsideOf(output, operands...); err != nil {
				return err
			}
			return c.deliver(output, m, nil, func(w io.Writer) error {
				o.Conflicts = w
				return c.unite(ctx, o)
			})
		},
	}
}

func (c *command) unite(ctx context.Context, o repair.UniteOptions) error {
	report, err := repair.Unite(ctx, o)
	if c.flags.opts.Tree = o.Root; report.At != "" {
		c.flags.opts.Tree = report.At
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		text := strings.TrimSuffix(strings.TrimPrefix(err.Error(), "iut: "), ": "+fs.ErrExist.Error())
		if !errors.Is(err, iut.ErrFormat) { // which says so
			text += "; name a new folder"
		}
		return usagef("%s", text)
	case report.At != "" && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) && !errors.Is(err, record.ErrDamaged):
		return usagef("%s: there is no tree", report.At)
	case errors.Is(err, syscall.ENOTDIR) && report.At == "":
		return usagef("%s is no folder, or lies in none; name a new folder", o.Root)
	case err != nil:
		return err
	}
	for _, text := range report.Differ {
		c.print(text)
	}
	_, err = io.WriteString(c.stdout, united(&report, o.Root))
	return err
}

// united says what a union came to.
func united(r *repair.UniteReport, root string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s has %s now, of them %s\n", root, words.Count(r.URLs, "URL"), words.Count(r.Pages, "stored page"))
	if r.Conflicts > 0 {
		fmt.Fprintf(&b, "conflicts: %s with different outcomes or pages; -output lists them\n", words.Count(r.Conflicts, "URL"))
	}
	if r.Damaged > 0 {
		fmt.Fprintf(&b, "damaged pages: %d, left out; another tree has the page, or the URL is pending again\n", r.Damaged)
	}
	return b.String()
}
