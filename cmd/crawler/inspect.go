package main

import (
	"bufio"
	"context"
	"errors"
	stdflag "flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"urltree/crawler"
	"urltree/internal/ctl"
	"urltree/internal/inspect"
	"urltree/iut"
	"urltree/storage"
)

// lookCommand makes a subcommand that only looks. answer is given its argument, "" if there is
// none.
func (c *command) lookCommand(name, args, usage string, answer func(ctx context.Context, operand string, w *bufio.Writer) error, flags ...cli.Flag) *cli.Command {
	flags = append([]cli.Flag{c.flags.tree()}, flags...)
	return &cli.Command{
		Name: name, Usage: usage, ArgsUsage: strings.TrimSpace("[-tree FOLDER] " + args),
		Description:     "While a crawl has the tree, it answers; else the tree is read. Flags may also stand behind the arguments.",
		Flags:           flags,
		SkipFlagParsing: true, // for it would end at the first argument
		Action: func(x *cli.Context) error {
			operands, err := parse(name, flags, x.Args().Slice())
			switch {
			case errors.Is(err, stdflag.ErrHelp):
				_, err := io.WriteString(c.stdout, x.Command.CustomHelpTemplate)
				return err
			case err != nil:
				return usageError(x, err, true)
			}
			most := strings.Count(args, "URL")
			if len(operands) > most {
				return usagef("%q is too much; usage: crawler %s", operands[most], strings.TrimSpace(name+" "+args))
			}
			if err := treeThere(c.root()); err != nil {
				return err
			}
			operands = append(operands, "")
			out := bufio.NewWriterSize(c.stdout, 64<<10)
			err = answer(x.Context, operands[0], out)
			if ferr := out.Flush(); err == nil {
				err = ferr
			}
			return err
		},
	}
}

// inspectCommand makes a subcommand that asks q, in which its flags are kept.
func (c *command) inspectCommand(q *inspect.Question, args, usage string, flags ...cli.Flag) *cli.Command {
	answer := func(ctx context.Context, url string, w *bufio.Writer) error {
		q.URL = url
		return c.inspect(ctx, c.root(), *q, w)
	}
	return c.lookCommand(q.Command, args, usage, answer, flags...)
}

// parse reads flags before, between and behind operands. [flag.ErrHelp] says that help is wanted.
func parse(name string, flags []cli.Flag, args []string) (operands []string, err error) {
	set := stdflag.NewFlagSet(name, stdflag.ContinueOnError)
	set.SetOutput(io.Discard)
	for _, f := range flags {
		if err := f.Apply(set); err != nil {
			return nil, err
		}
	}
	for {
		if err := set.Parse(args); err != nil {
			return nil, err
		}
		if args = set.Args(); len(args) == 0 {
			return operands, nil
		}
		operands, args = append(operands, args[0]), args[1:]
	}
}

const stateWords = "open or pending, held, visited, closed, stored, redirected, refused, error or failed"

// word makes a flag whose value is judged where the question is answered.
func word(name string, p *string, none, usage string) cli.Flag {
	f := plainFlag(name, text{p}, usage)
	f.DefaultText = none
	return f
}

func (c *command) lsCommand() *cli.Command {
	q := &inspect.Question{Command: "ls"}
	return c.inspectCommand(q, "[-r] [-state STATE] [-n N] [URL-PREFIX]", "show the tree: states and counts of folders and pages",
		plainFlag("r", toggle{&q.Recursive}, "folders below folders too"),
		word("state", &q.State, "any", "only what is in this `STATE`: "+stateWords),
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

// treeThere tells a tree that is missing from one that is damaged.
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
		return nil, fmt.Errorf("%w: %w", storage.ErrDamaged, err)
	}
	return index, err
}
