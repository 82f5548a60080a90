package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"syscall"

	"urltree/crawler"
	"urltree/internal/inspect"
	"urltree/iut"
	"urltree/storage"
)

// lookCommand makes a subcommand that only looks. answer gets its operand, "" if there is none.
func (c *command) lookCommand(name, operand, usage string, answer func(ctx context.Context, operand string, w *bufio.Writer) error, flags ...*option) *subcommand {
	return &subcommand{
		name: name, usage: usage, operand: operand, flags: append([]*option{c.flags.tree()}, flags...),
		about: "While a crawl has the tree, it answers; else the tree is read.",
		run: func(ctx context.Context, operands []string) error {
			roots := c.roots()
			for _, root := range roots {
				if err := treeThere(root); err != nil {
					return err
				}
			}
			c.flags.opts.Tree = roots[0]
			out := bufio.NewWriterSize(c.stdout, 64<<10)
			err := answer(ctx, first(operands), out)
			return cmp.Or(err, out.Flush())
		},
	}
}

// inspectCommand makes a subcommand that asks q, in which its flags are kept.
func (c *command) inspectCommand(q *inspect.Question, operand, usage string, flags ...*option) *subcommand {
	answer := func(ctx context.Context, url string, w *bufio.Writer) error {
		q.URL = url
		return c.inspect(ctx, c.root(), *q, w)
	}
	return c.lookCommand(q.Command, operand, usage, answer, flags...)
}

// word makes a flag whose value is judged where the question is answered; words are those that it
// takes, as far as they are known here.
func word(name string, p *string, none, usage string, words ...string) *option {
	o := plainFlag(name, known{text{p}, words}, usage)
	o.usual = none
	return o
}

func (c *command) lsCommand() *subcommand {
	q := &inspect.Question{Command: "ls"}
	return c.inspectCommand(q, "[URL-PREFIX]", "show the tree: states and counts of folders and pages",
		plainFlag("r", toggle{&q.Recursive}, "folders below folders too"),
		word("state", &q.State, "any", "only what is in this `STATE`, one of those below", inspect.Words("state")...),
		plainFlag("n", amount[int64]{in: numbers, p: &q.Lines, none: "all"}, "at most `N` lines"))
}

func (c *command) urlCommand(name, usage string) *subcommand {
	return c.inspectCommand(&inspect.Question{Command: name}, "URL", usage)
}

// look writes the answer to a question that has no operand.
func (c *command) look(ctx context.Context, question string) error {
	if err := treeThere(c.root()); err != nil {
		return err
	}
	return c.inspect(ctx, c.root(), inspect.Question{Command: question}, c.stdout)
}

// inspect asks the process that crawls; without one it looks for itself.
func (c *command) inspect(ctx context.Context, root string, q inspect.Question, w io.Writer) error {
	return c.inspectBy(ctx, root, q, nil, w)
}

// inspectBy is inspect that tells how far it is where no other process answers, see Inspector.Tell.
func (c *command) inspectBy(ctx context.Context, root string, q inspect.Question, tell func(what string, done, total int64), w io.Writer) error {
	err := crawler.Ask(ctx, root, q, tell, w)
	if err == nil {
		return nil
	}
	return cmp.Or(treeThere(root), err)
}

// treeThere returns an error if there is no tree, or one that another process is only just making.
// Other errors are met again when the tree is opened.
func treeThere(root string) error {
	_, err := iut.ReadFormat(root)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return usagef("-tree %s: there is no tree", root)
	case errors.Is(err, iut.ErrFormat), errors.Is(err, iut.ErrBusy), errors.Is(err, iut.ErrUniting):
		return err
	}
	return nil
}

// withIndex is crawler.WithIndex where there is a tree.
func withIndex(root string, how iut.Options, opts storage.Options, fn func(*iut.Tree, *storage.Index) error) error {
	if err := treeThere(root); err != nil {
		return err
	}
	return crawler.WithIndex(root, how, opts, fn)
}
