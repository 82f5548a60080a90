package main

import (
	"bufio"
	"context"
	"fmt"

	"urltree/crawler"
	"urltree/internal/rank"
	"urltree/internal/words"
	"urltree/iut"
	"urltree/storage"
)

// rankCommand computes PageRank and keeps it in the tree.
func (c *command) rankCommand() *subcommand {
	best := 10
	return &subcommand{
		name: "rank", usage: "compute the PageRank of all URLs, for -order priority -score rank",
		about: "The nodes are the stored pages, what redirected, and all URLs that these name; a link counts once for each pair of these. Damping 0.85; the rank that ends in URLs without links is spread evenly. It ends when an iteration changes the ranks by less than 1e-10 in all, shows each tenth iteration, and puts the ranks into the file rank of the tree; crawler export -what ranks prints them. " +
			"Pages that were not crawled with -edges are read from their folders. It takes at most 32 bytes of memory for each URL, and some 10 for each link in the system's folder for temporary files (TMPDIR).",
		flags: []*option{c.flags.tree(), plainFlag("n", amount[int]{in: numbers, p: &best}, "print the `N` URLs of the greatest ranks")},
		run: func(ctx context.Context, _ []string) error {
			return c.withGraph(&steps{of: "rank"}, iut.Options{}, func(pages rank.Source, stop func()) error {
				return c.rank(ctx, pages, stop, best)
			})
		},
	}
}

// rank computes the ranks of a graph, keeps them, and prints the best ones. It calls quiet before
// it prints.
func (c *command) rank(ctx context.Context, pages rank.Source, quiet func(), best int) error {
	out := bufio.NewWriter(quieting{c.stdout, quiet})
	g, err := rank.Read(ctx, pages)
	if err != nil {
		return err
	}
	defer g.Close()
	if g.Pages == 0 {
		return usagef("rank: no pages in %s", c.root())
	}
	fmt.Fprintf(out, "pages %d, redirects included; URLs %d; links %d\n", g.Pages, g.Nodes(), g.Links)
	step := func(i int, residual float64) {
		if i == 1 || i%10 == 0 {
			fmt.Fprintf(out, "iteration %-4d residual %.3g\n", i, residual)
			out.Flush()
		}
	}
	ranks, err := g.Rank(ctx, step)
	if err != nil {
		return err
	}
	if err := ranks.Save(c.root()); err != nil {
		return err
	}
	fmt.Fprintf(out, "ended after %s, residual %.3g\n", words.Count(ranks.Iterations, "iteration"), ranks.Residual)
	list, err := ranks.Best(ctx, pages, best)
	if err != nil {
		return err
	}
	for _, b := range list {
		fmt.Fprintf(out, "%.9f  %s\n", b.Rank, b.URL)
	}
	return out.Flush()
}

// withGraph calls fn with the link graph of a tree that nobody crawls, and closes the tree. A
// terminal shows how far the graph is read until fn has ended, or calls stop.
func (c *command) withGraph(m *steps, how iut.Options, fn func(pages rank.Source, stop func()) error) error {
	return withIndex(c.root(), how, storage.Options{ReadOnly: true}, func(tree *iut.Tree, index *storage.Index) error {
		graph, err := crawler.NewGraph(tree, index)
		if err != nil {
			return err
		}
		line := newProgress(c.stderr, false)
		stop := m.showOn(line)
		defer stop()
		graph.Log = c.logger(line)
		totals := index.Totals()
		pages := rank.Source(graph.Pages).Counted(func(done int64) {
			m.set("reading links of pages", done, totals.Stored+totals.Redirected)
		})
		return fn(pages, stop)
	})
}
