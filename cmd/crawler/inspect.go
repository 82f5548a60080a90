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
	"urltree/internal/ctl"
	"urltree/iut"
	"urltree/storage"
)

// inspectCommand makes a subcommand that only looks. Its flags but -tree are read where the
// question is answered, which may be the process that crawls; here they are for the help text.
func (c *command) inspectCommand(name, args, usage string, flags ...cli.Flag) *cli.Command {
	usageText := strings.TrimSpace("[-tree FOLDER] " + args)
	return &cli.Command{
		Name: name, Usage: usage, ArgsUsage: usageText,
		Description:     "While a crawl has the tree, it answers; else the tree is read. Flags may also stand behind the arguments.",
		Flags:           append([]cli.Flag{c.flags.tree()}, flags...),
		SkipFlagParsing: true,
		Action: func(x *cli.Context) error {
			rest, help, err := c.treeFlag(x.Args().Slice())
			if err != nil {
				return err
			}
			if help {
				_, err := io.WriteString(c.stdout, x.Command.CustomHelpTemplate)
				return err
			}
			out := bufio.NewWriterSize(c.stdout, 64<<10)
			err = c.inspect(x.Context, c.root(), append([]string{name}, rest...), out)
			if ferr := out.Flush(); err == nil {
				err = ferr
			}
			return err
		},
	}
}

const stateWords = "open or pending, held, visited, closed, stored, redirected, refused, error or failed"

func (c *command) lsCommand() *cli.Command {
	var recursive bool
	lines, state := int64(0), ""
	return c.inspectCommand("ls", "[-r] [-state STATE] [-n N] [URL-PREFIX]", "show the tree: states and counts of folders and pages",
		plainFlag("r", toggle{&recursive}, "folders below folders too"),
		plainFlag("state", choice{p: &state}, "only what is in this `STATE`: "+stateWords),
		plainFlag("n", number{p: &lines, none: "all"}, "at most `N` lines"))
}

func (c *command) exportCommand() *cli.Command {
	state, what, format := "", "urls", "tsv"
	return c.inspectCommand("export", "[-what WHAT] [-format FORMAT] [-state STATE] [URL-PREFIX]", "print a line per URL: state, reason, status, tries, source, ..., or the link graph",
		plainFlag("what", text{&what}, "`WHAT` to print: urls; edges: every reference of the stored pages, in page order, with element, rel and text, and those of redirects; ranks: what crawler rank has found. Edges of pages that were not crawled with -edges are read from their folders"),
		plainFlag("format", text{&format}, "the `FORMAT` of edges: tsv, graphml (not while a crawl goes on; it takes some 20 bytes of memory for each URL) or dot"),
		plainFlag("state", choice{p: &state}, "only URLs in this `STATE`: "+stateWords))
}

// inspect asks the process that crawls; without one it looks for itself.
func (c *command) inspect(ctx context.Context, root string, args []string, w io.Writer) error {
	if err := treeThere(root); err != nil {
		return err
	}
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
	_, err := os.Stat(filepath.Join(root, "FORMAT"))
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

// treeFlag takes -tree out of arguments, and tells whether help is wanted.
func (c *command) treeFlag(args []string) (rest []string, help bool, err error) {
	for i := 0; i < len(args); i++ {
		name, value, ok := strings.Cut(args[i], "=")
		switch name {
		case "-tree", "--tree":
			if !ok {
				if i++; i < len(args) {
					value = args[i]
				}
			}
			if value == "" {
				return nil, false, usagef("flag -tree needs a value: the folder of the tree")
			}
			c.asked = value
		case "-h", "--h", "--help", "-help":
			help = true
		default:
			rest = append(rest, args[i])
		}
	}
	return rest, help, nil
}
