package main

import (
	"bufio"
	"slices"

	"github.com/urfave/cli/v2"

	"urltree/crawler/inspect"
)

// statsCommand asks for totals and runs like the others that only look. Duplicates are looked for
// by this process even while another crawls: that takes time and memory, and the folders are enough.
func (c *command) statsCommand() *cli.Command {
	var duplicates bool
	stats := c.inspectCommand("stats", "[-duplicates]", "show counts by state and reason, and the runs, or pages that repeat others",
		plainFlag("duplicates", toggle{&duplicates}, "read all pages, and list those that are equal and those whose texts are nearly so"))
	counts := stats.Action
	stats.Action = func(x *cli.Context) error {
		args := x.Args().Slice()
		rest := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "-duplicates" || arg == "--duplicates" })
		if len(rest) == len(args) {
			return counts(x)
		}
		rest, help, err := c.treeFlag(rest)
		switch {
		case err != nil:
			return err
		case help:
			return counts(x)
		case len(rest) > 0:
			return usagef("%q is too much; usage: crawler stats %s", rest[0], stats.ArgsUsage)
		}
		if err := treeThere(c.root()); err != nil {
			return err
		}
		out := bufio.NewWriterSize(c.stdout, 64<<10)
		if err := inspect.Duplicates(x.Context, c.root(), out); err != nil {
			return err
		}
		return out.Flush()
	}
	return stats
}
