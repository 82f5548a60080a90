package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"urltree/crawler"
	"urltree/internal/inspect"
	"urltree/iut"
	"urltree/storage"
)

// trees are the folders of trees, one for each use of the flag.
type trees struct{ p *[]string }

func (v trees) Set(s string) error {
	if s == "" {
		return errors.New("a text that is not empty is allowed")
	}
	if s = filepath.Clean(s); slices.Contains(*v.p, s) {
		return errors.New("this tree is given twice")
	}
	*v.p = append(*v.p, s)
	return nil
}

func (v trees) String() string { return "" }

// treesFlag makes the -tree of a subcommand that takes several trees.
func (c *command) treesFlag() *option {
	o := plainFlag("tree", trees{&c.trees}, "the `FOLDER` of a tree; repeatable, for the trees of several machines, or of parts of a crawl")
	o.usual = c.flags.tree().usual
	return o
}

// roots returns the folders of the trees that the call is about.
func (c *command) roots() []string {
	if len(c.trees) > 0 {
		return c.trees
	}
	return []string{c.flags.opts.Tree}
}

// inspectTrees is inspectBy for one tree or several. Of several it needs all for itself: what is
// written comes from them in one order.
func (c *command) inspectTrees(ctx context.Context, q inspect.Question, tell func(what string, done, total int64), w io.Writer) error {
	roots := c.roots()
	if len(roots) == 1 {
		return c.inspectBy(ctx, roots[0], q, tell, w)
	}
	err := c.withTrees(roots, func(all []*inspect.Inspector) error {
		for n, in := range all {
			other := in.Tree.Format().Identity
			other.Store = "" // any
			if err := all[0].Tree.Format().SameRules(other); err != nil {
				return fmt.Errorf("%w: %s and %s do not go together", err, roots[0], roots[n])
			}
		}
		all[0].Tell, all[0].Others = tell, all[1:]
		return all[0].Run(ctx, q, w)
	})
	if of, ok := errors.AsType[*inspect.TreeError](err); ok {
		c.flags.opts.Tree = of.Root
	}
	if errors.Is(err, iut.ErrBusy) {
		return fmt.Errorf("%w; several trees are read only while no crawl goes on in them, one at any time", err)
	}
	return err
}

// withTrees opens trees and calls fn with what answers questions about them. While one of them is
// opened the call is about it, for the message of an error.
func (c *command) withTrees(roots []string, fn func([]*inspect.Inspector) error) error {
	if len(roots) == 0 {
		return fn(nil)
	}
	c.flags.opts.Tree = roots[0]
	return withIndex(roots[0], iut.Options{ReadOnly: true}, storage.Options{ReadOnly: true}, func(tree *iut.Tree, index *storage.Index) error {
		in, err := crawler.NewInspector(tree, index)
		if err != nil {
			return err
		}
		return c.withTrees(roots[1:], func(others []*inspect.Inspector) error {
			return fn(append([]*inspect.Inspector{in}, others...))
		})
	})
}

// sums writes what several trees have together. Each is asked as any tree is: its crawl answers, or
// else it is read.
func (c *command) sums(ctx context.Context, w *bufio.Writer) error {
	var all []*inspect.Sums
	for _, root := range c.roots() {
		c.flags.opts.Tree = root
		var answer bytes.Buffer
		if err := c.inspect(ctx, root, inspect.Question{Command: "sums"}, &answer); err != nil {
			return err
		}
		s := &inspect.Sums{}
		if err := json.Unmarshal(answer.Bytes(), s); err != nil {
			return fmt.Errorf("-tree %s: the answer of the crawl: %w", root, err)
		}
		s.Root = root
		all = append(all, s)
	}
	return inspect.WriteStats(w, all...)
}
