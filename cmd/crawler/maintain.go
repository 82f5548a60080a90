package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"urltree/cleaner"
	"urltree/crawler"
	"urltree/iut"
	"urltree/storage"
)

// mergeCommand rebuilds the results, and the index if need be, from the folders.
func (c *command) mergeCommand() *cli.Command {
	return &cli.Command{
		Name: "merge", Usage: "rebuild index and results from the folders alone",
		UsageText: "crawler merge [-tree DIR] [-output FILE]", OnUsageError: usageError,
		Flags: []cli.Flag{c.flags.tree(), c.flags.output()},
		Action: func(x *cli.Context) error {
			if err := noArguments(x); err != nil {
				return err
			}
			report, err := cleaner.Merge(x.Context, cleaner.MergeOptions{
				Root: c.flags.opts.Tree, Output: c.flags.opts.Output, Log: c.logger(c.stderr),
				Parser: func(f iut.Format) (cleaner.Parser, error) { return crawler.NewLinker(f.Links) },
			})
			if errors.Is(err, fs.ErrNotExist) {
				return usagef("-tree %s: there is no tree", c.flags.opts.Tree)
			}
			if err != nil {
				return err
			}
			fmt.Fprint(c.stdout, report.String())
			return nil
		},
	}
}

// checkCommand proves the promises on a tree that nobody crawls.
func (c *command) checkCommand() *cli.Command {
	var links bool
	return &cli.Command{
		Name: "check", Usage: "compare index, folders and results; -links parses every stored page again",
		UsageText: "crawler check [-tree DIR] [-output FILE] [-links]", OnUsageError: usageError,
		Flags: []cli.Flag{c.flags.tree(), c.flags.output(), flag("links", toggle{&links}, "prove that no link of a stored page is lost")},
		Action: func(x *cli.Context) error {
			if err := noArguments(x); err != nil {
				return err
			}
			root := c.flags.opts.Tree
			tree, err := openExclusive(root)
			if err != nil {
				return err
			}
			defer tree.Close()
			index, err := storage.Open(filepath.Join(root, "index.db"), storage.Options{ReadOnly: true})
			if err != nil {
				return damaged(root, err)
			}
			defer index.Close()
			linker, err := crawler.NewLinker(tree.Format().Links)
			if err != nil {
				return err
			}
			report, err := cleaner.Check(x.Context, tree, index, linker, cleaner.CheckOptions{
				Links: links, Output: c.flags.opts.Output,
			}, func(fault string) { fmt.Fprintln(c.stdout, "fault:", fault) })
			if err != nil {
				return err
			}
			fmt.Fprint(c.stdout, report.String())
			if report.Faults > 0 {
				return errFaults
			}
			return nil
		},
	}
}

// retryCommand turns failures back into work.
func (c *command) retryCommand() *cli.Command {
	return &cli.Command{
		Name: "retry", Usage: "turn failed URLs back to pending, all or those below a URL; the next run asks them",
		UsageText: "crawler retry [-tree DIR] [URL-prefix]", OnUsageError: usageError,
		Flags: []cli.Flag{c.flags.tree()},
		Action: func(x *cli.Context) error {
			if x.NArg() > 1 {
				return usagef("retry: one URL-prefix is allowed, not %d arguments", x.NArg())
			}
			prefix, err := crawler.FolderKey(x.Args().First())
			if err != nil {
				return usagef("retry: %w", err)
			}
			root := c.flags.opts.Tree
			tree, err := openExclusive(root)
			if err != nil {
				return err
			}
			defer tree.Close()
			index, err := storage.Open(filepath.Join(root, "index.db"), storage.Options{})
			if err != nil {
				return damaged(root, err)
			}
			defer index.Close()
			n, err := index.Reopen(x.Context, prefix, func(r *storage.Record) bool { return r.State == storage.Failed })
			if err != nil {
				return err
			}
			fmt.Fprintf(c.stdout, "%d URLs are pending again\n", n)
			return nil
		},
	}
}

func openExclusive(root string) (*iut.Tree, error) {
	tree, err := iut.Open(root, iut.Options{})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usagef("-tree %s: there is no tree", root)
	}
	return tree, err
}

func noArguments(x *cli.Context) error {
	if x.NArg() > 0 {
		return usagef("%s takes no arguments: %s", x.Command.Name, strings.Join(x.Args().Slice(), " "))
	}
	return nil
}
