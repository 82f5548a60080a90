package main

import (
	"bufio"
	"slices"

	"github.com/urfave/cli/v2"

	"urltree/internal/inspect"
	"urltree/internal/rank"
)

// statsCommand asks for totals and runs like the others that only look. Duplicates are looked for
// by this process even while another crawls: that takes time and memory, and the folders are enough.
// So are degrees, but only of a tree that nobody crawls.
func (c *command) statsCommand() *cli.Command {
	var duplicates, degrees bool
	stats := c.inspectCommand("stats", "[-duplicates|-degrees]", "show counts by state and reason, and the runs, or pages that repeat others, or degrees",
		plainFlag("duplicates", toggle{&duplicates}, "read all pages, and list those that are equal and those whose texts are nearly so"),
		plainFlag("degrees", toggle{&degrees}, "show how many links pages have and how many lead to each URL, and the largest of both; pages that were not crawled with -edges are read from their folders"))
	stats.Description = "While a crawl has the tree, it answers; else the tree is read. Duplicates are looked for in the folders, also during a crawl; degrees only while none goes on. Flags may also stand behind the arguments."
	counts := stats.Action
	stats.Action = func(x *cli.Context) error {
		args := x.Args().Slice()
		takeOut := func(flag string) bool {
			n := len(args)
			args = slices.DeleteFunc(args, func(arg string) bool { return arg == "-"+flag || arg == "--"+flag })
			return len(args) < n
		}
		duplicates, degrees := takeOut("duplicates"), takeOut("degrees")
		if !duplicates && !degrees {
			return counts(x)
		}
		rest, help, err := c.treeFlag(args)
		switch {
		case err != nil:
			return err
		case help:
			return counts(x)
		case duplicates && degrees:
			return usagef("stats: -duplicates or -degrees, not both")
		case len(rest) > 0:
			return usagef("%q is too much; usage: crawler stats %s", rest[0], stats.ArgsUsage)
		}
		if err := treeThere(c.root()); err != nil {
			return err
		}
		out := bufio.NewWriterSize(c.stdout, 64<<10)
		if duplicates {
			err = inspect.Duplicates(x.Context, c.root(), out)
		} else {
			err = c.degrees(x, out)
		}
		if err != nil {
			return err
		}
		return out.Flush()
	}
	return stats
}

func (c *command) degrees(x *cli.Context, out *bufio.Writer) error {
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
	return rank.Degrees(x.Context, graph.Pages, out)
}
