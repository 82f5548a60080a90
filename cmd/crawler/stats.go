package main

import (
	"bufio"
	"context"

	"github.com/urfave/cli/v2"

	"urltree/internal/inspect"
	"urltree/internal/rank"
)

// statsCommand asks for totals and runs like the others that only look. Duplicates are looked for
// by this process even while another crawls: that takes time and memory, and the folders are
// enough. So are degrees, but only of a tree that nobody crawls.
func (c *command) statsCommand() *cli.Command {
	var duplicates, degrees bool
	answer := func(ctx context.Context, _ string, w *bufio.Writer) error {
		switch {
		case duplicates && degrees:
			return usagef("stats: -duplicates or -degrees, not both")
		case duplicates:
			return inspect.Duplicates(ctx, c.root(), w)
		case degrees:
			return c.degrees(ctx, w)
		}
		return c.inspect(ctx, c.root(), inspect.Question{Command: "stats"}, w)
	}
	stats := c.lookCommand("stats", "[-duplicates|-degrees]", "show counts by state and reason, and the runs, or pages that repeat others, or degrees", answer,
		plainFlag("duplicates", toggle{&duplicates}, "read all pages, and list those that are equal and those whose texts are nearly so"),
		plainFlag("degrees", toggle{&degrees}, "show how many links pages have and how many lead to each URL, and the largest of both; pages that were not crawled with -edges are read from their folders"))
	stats.Description = "While a crawl has the tree, it answers; else the tree is read. Duplicates are looked for in the folders, also during a crawl; degrees only while none goes on."
	return stats
}

func (c *command) degrees(ctx context.Context, out *bufio.Writer) error {
	tree, index, err := openShared(c.root())
	if err != nil {
		return err
	}
	defer tree.Close()
	defer index.Close()
	graph, err := c.graph(tree, index)
	if err != nil {
		return err
	}
	return rank.Degrees(ctx, graph.Pages, out)
}
