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

	"github.com/urfave/cli/v2"

	"urltree/crawler"
	"urltree/crawler/ctl"
	"urltree/iut"
	"urltree/storage"
)

// inspectCommand makes a subcommand that only looks. Its own flags are read where the question
// is answered, which may be the process that crawls.
func (c *command) inspectCommand(name, args, usage string) *cli.Command {
	return &cli.Command{
		Name: name, Usage: usage, UsageText: strings.TrimSpace("crawler " + name + " [-tree DIR] " + args),
		SkipFlagParsing: true,
		Action: func(x *cli.Context) error {
			tree, rest, help, err := treeFlag(x.Args().Slice())
			if err != nil {
				return err
			}
			if help {
				return cli.ShowSubcommandHelp(x)
			}
			out := bufio.NewWriterSize(c.stdout, 64<<10)
			err = c.inspect(x.Context, tree, append([]string{name}, rest...), out)
			if ferr := out.Flush(); err == nil {
				err = ferr
			}
			return err
		},
	}
}

// inspect asks the process that crawls; without one it looks for itself.
func (c *command) inspect(ctx context.Context, root string, args []string, w io.Writer) error {
	err := ctl.Call(ctx, root, args, w)
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
	return in.Run(ctx, args, w)
}

// openShared opens a tree that nobody crawls, for reading.
func openShared(root string) (*iut.Tree, *storage.Index, error) {
	tree, err := iut.Open(root, iut.Options{ReadOnly: true})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, usagef("-tree %s: there is no tree", root)
	}
	if err != nil {
		return nil, nil, err
	}
	index, err := storage.Open(filepath.Join(root, "index.db"), storage.Options{ReadOnly: true})
	if err != nil {
		return nil, nil, errors.Join(damaged(root, err), tree.Close())
	}
	return tree, index, nil
}

// damaged adds to an error what helps: merge makes the index again.
func damaged(root string, err error) error {
	if errors.Is(err, storage.ErrDamaged) || errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; crawler merge -tree %s makes it again from the folders", errors.Join(storage.ErrDamaged, err), root)
	}
	return err
}

// treeFlag takes -tree out of arguments, and tells whether help is wanted.
func treeFlag(args []string) (tree string, rest []string, help bool, err error) {
	if tree = os.Getenv("URLTREE_TREE"); tree == "" {
		tree = "iut"
	}
	for i := 0; i < len(args); i++ {
		name, value, ok := strings.Cut(args[i], "=")
		switch name {
		case "-tree", "--tree":
			if !ok {
				if i++; i == len(args) {
					return "", nil, false, usagef("flag -tree needs a value: the folder of the tree")
				}
				value = args[i]
			}
			tree = value
		case "-h", "--help", "-help":
			help = true
		default:
			rest = append(rest, args[i])
		}
	}
	return tree, rest, help, nil
}
