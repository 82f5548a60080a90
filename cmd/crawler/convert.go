package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"urltree/crawler"
	"urltree/internal/repair"
	"urltree/internal/words"
	"urltree/iut"
)

// convertCommand changes where the pages of a tree are kept.
func (c *command) convertCommand() *subcommand {
	var to string
	store := plainFlag("store", choice{&to, iut.Stores}, "`WHERE` pages are to be kept: folders or warc")
	store.usual = "none"
	return &subcommand{
		name: "convert", usage: "bring the pages of a tree into its other store, in place",
		about: "With -store warc the pages of a tree of folders come into WARC files, as resource records, for the headers of their answers were not kept; with -store folders those of WARC files come into folders, decoded, and headers, requests and the answers that are no pages go with the WARC files. What is known of URLs stays as it is, and the crawl goes on as before. " +
			"It takes room for both stores until all pages are in the new one; if there is too little it says how much it needs, and changes nothing. Stopped or killed at any time, the same command goes on, and that with the old store gives up; until then the tree can be read, and whatever would write to it refuses. " +
			"A stored page that is not whole is pending again, and its files, or the WARC file that it is in, are kept under names that end in .damaged. The flags of WARC files have the values that runs of the tree were given, unless they are given here.",
		flags: []*option{
			c.flags.tree(), store,
			c.flags.option("warc-size"), c.flags.option("warc-compression"), c.flags.option("operator"),
		},
		run: func(ctx context.Context, _ []string) error {
			if to == "" {
				return usagef("convert needs -store folders or -store warc")
			}
			if err := treeThere(c.root()); err != nil {
				return err
			}
			c.flags.option("store").given = false // its variable says where new trees keep their pages
			if _, err := c.recall(); err != nil {
				return err
			}
			line := newProgress(c.stderr, false)
			m := &steps{of: "convert"}
			stop := m.showOn(line)
			opts := c.flags.options()
			report, err := repair.Convert(ctx, repair.ConvertOptions{
				Root: c.root(), Store: to, Segments: crawler.Segments(&opts), Log: c.logger(line),
				Progress: func(what string, done, total int) { m.set(what, int64(done), int64(total)) },
			})
			stop()
			if err != nil {
				return err
			}
			_, err = io.WriteString(c.stdout, converted(&report, c.root(), to))
			return err
		},
	}
}

// option returns a flag of the crawl by its name.
func (f *flags) option(name string) *option {
	return f.all[slices.IndexFunc(f.all, func(o *option) bool { return o.name == name })]
}

// converted says what a conversion did.
func converted(r *repair.ConvertReport, root, to string) string {
	if r.Already {
		return fmt.Sprintf("%s has the store %s: nothing to do\n", root, to)
	}
	if r.GivenUp {
		return fmt.Sprintf("the unfinished conversion is given up: %s has the store %s as before\n", root, to)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s has the store %s now: %s copied\n", root, to, words.Count(r.Pages, "page"))
	if r.Unknown > 0 {
		fmt.Fprintf(&b, "%s more that the index does not know yet: the next run looks at what a kill has left\n", words.Count(r.Unknown, "page"))
	}
	if r.Damaged > 0 {
		fmt.Fprintf(&b, "damaged pages: %d, kept under names that end in .damaged; their URLs are pending again\n", r.Damaged)
	}
	return b.String()
}
