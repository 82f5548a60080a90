package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"urltree/crawler"
	"urltree/crawler/weburl"
	"urltree/internal/ctl"
	"urltree/internal/inspect"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// lookCommand makes a subcommand that only looks. answer is called with its argument, "" if there
// is none.
func (c *command) lookCommand(name, args, usage string, answer func(ctx context.Context, operand string, w *bufio.Writer) error, flags ...cli.Flag) *cli.Command {
	return &cli.Command{
		Name: name, Usage: usage, ArgsUsage: strings.TrimSpace("[-tree FOLDER] " + args),
		Description: "While a crawl has the tree, it answers; else the tree is read.",
		Flags:       append([]cli.Flag{c.flags.tree()}, flags...),
		Action: func(x *cli.Context) error {
			if err := arguments(x, strings.Count(args, "URL")); err != nil {
				return err
			}
			operand, err := urlOperand(x)
			switch {
			case err != nil:
				return err
			case operand == "" && args == "URL":
				return usagef("%s takes a URL; usage: crawler %s", name, usageOf(x.Command))
			}
			if err := treeThere(c.root()); err != nil {
				return err
			}
			out := bufio.NewWriterSize(c.stdout, 64<<10)
			err = answer(x.Context, operand, out)
			if ferr := out.Flush(); err == nil {
				err = ferr
			}
			return err
		},
	}
}

// urlOperand returns the URL or URL prefix that a subcommand is called with, "" if there is none.
func urlOperand(x *cli.Context) (string, error) {
	operand := x.Args().First()
	switch operand {
	case "", "http://", "https://":
		return operand, nil
	}
	if _, err := weburl.SeedURL(operand); err != nil {
		return "", usagef("%q: %s; usage: crawler %s", weburl.HideLogin(operand), cause(err), usageOf(x.Command))
	}
	return operand, nil
}

// inspectCommand makes a subcommand that asks q, in which its flags are kept.
func (c *command) inspectCommand(q *inspect.Question, args, usage string, flags ...cli.Flag) *cli.Command {
	answer := func(ctx context.Context, url string, w *bufio.Writer) error {
		q.URL = url
		return c.inspect(ctx, c.root(), *q, w)
	}
	return c.lookCommand(q.Command, args, usage, answer, flags...)
}

const stateWords = "open or pending, held, visited, closed, stored, redirected, refused, error or failed"

// word makes a flag whose value is judged where the question is answered; words are those that it
// takes, as far as they are known here.
func word(name string, p *string, none, usage string, words ...string) cli.Flag {
	f := plainFlag(name, known{text{p}, words}, usage)
	f.DefaultText = none
	return f
}

func (c *command) lsCommand() *cli.Command {
	q := &inspect.Question{Command: "ls"}
	return c.inspectCommand(q, "[-r] [-state STATE] [-n N] [URL-PREFIX]", "show the tree: states and counts of folders and pages",
		plainFlag("r", toggle{&q.Recursive}, "folders below folders too"),
		word("state", &q.State, "any", "only what is in this `STATE`: "+stateWords, inspect.Words("state")...),
		plainFlag("n", number{p: &q.Lines, none: "all"}, "at most `N` lines"))
}

// urlCommand makes a subcommand that asks about one URL.
func (c *command) urlCommand(name, usage string) *cli.Command {
	return c.inspectCommand(&inspect.Question{Command: name}, "URL", usage)
}

// inspect asks the process that crawls; without one it looks for itself.
func (c *command) inspect(ctx context.Context, root string, q inspect.Question, w io.Writer) error {
	err := ctl.Call(ctx, root, q, w)
	if !errors.Is(err, ctl.ErrNone) {
		return err
	}
	tree, index, err := openShared(root)
	if err != nil {
		return err
	}
	defer tree.Close()
	defer index.Close()
	in, err := crawler.NewInspector(tree, index)
	if err != nil {
		return err
	}
	return in.Run(ctx, q, w)
}

// openShared opens a tree that nobody crawls, for reading.
func openShared(root string) (*iut.Tree, *storage.Index, error) {
	tree, err := iut.Open(root, iut.Options{ReadOnly: true})
	if err != nil {
		return nil, nil, err
	}
	index, err := openIndex(root, storage.Options{ReadOnly: true})
	if err != nil {
		return nil, nil, errors.Join(err, tree.Close())
	}
	return tree, index, nil
}

// treeThere distinguishes a missing tree from a damaged one.
func treeThere(root string) error {
	_, err := os.Lstat(filepath.Join(root, "FORMAT"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		if _, err := iut.Open(root, iut.Options{ReadOnly: true}); errors.Is(err, iut.ErrFormat) {
			return err // it is FORMAT that is missing
		}
		return usagef("-tree %s: there is no tree", root)
	}
	return nil // other errors are met again when it is opened
}

// openIndex opens the index of a tree. One that is missing is damage: merge makes it again.
func openIndex(root string, opts storage.Options) (*storage.Index, error) {
	index, err := storage.Open(filepath.Join(root, "index.db"), opts)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", record.ErrDamaged, err)
	}
	return index, err
}
