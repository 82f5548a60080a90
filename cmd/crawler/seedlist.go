package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"urltree/crawler/weburl"
	"urltree/internal/repair"
	"urltree/internal/words"
	"urltree/iut"
	"urltree/storage"
)

// seedsCommand shows the seeds of a tree, and takes some out.
func (c *command) seedsCommand() *subcommand {
	var file string
	return &subcommand{
		name: "seeds", usage: "show the seeds of a tree, or take some out of it", operand: seedsOperand,
		about: "list prints each line of seeds.txt with the state of its URL, as a table that -input reads, also while a crawl goes on. remove takes the URLs out of seeds.txt: their pages and records stay, no longer as those of seeds, and where a redirect of one led is none either. What -scope allows from the next run on is seen from the seeds that are left; URLs that are outside of it then are held. To be rid of pages as well: crawler forget. Killed or stopped, the same command goes on.",
		flags: []*option{c.flags.tree(), plainFlag("url-file", text{&file}, "with remove: take out the URLs in this `FILE`, read as a seed file; - is standard input")},
		run: func(ctx context.Context, operands []string) error {
			what, urls := first(operands), operands[min(1, len(operands)):]
			switch {
			case what == "list" && len(urls) == 0 && file == "":
				return c.look(ctx, "seeds")
			case what == "list":
				return usagef("seeds list prints all seeds, and takes nothing else")
			case what != "remove":
				return usagef("%q: seeds takes list or remove", what)
			case len(urls) == 0 && file == "", len(urls) > 0 && file != "":
				return usagef("seeds remove takes URLs or -url-file")
			}
			return c.removeSeeds(ctx, urls, file)
		},
	}
}

// removeSeeds takes seeds out.
func (c *command) removeSeeds(ctx context.Context, urls []string, file string) error {
	return withIndex(c.root(), iut.Options{}, storage.Options{}, func(tree *iut.Tree, index *storage.Index) error {
		strip, err := weburl.ParseStrip(tree.Format().Strip)
		if err != nil {
			return err
		}
		var entries iter.Seq2[iut.ForgottenEntry, error] = func(yield func(iut.ForgottenEntry, error) bool) {
			for _, arg := range urls {
				url, err := canonical(arg, strip)
				if !yield(iut.ForgottenEntry{Kind: iut.ForgottenURL, Text: url}, err) || err != nil {
					return
				}
			}
		}
		if file != "" {
			if entries, err = c.urlFile(file, strip); err != nil {
				return err
			}
		}
		list, err := iut.ListOf(ctx, entries)
		if err != nil {
			return err
		}
		m := &steps{of: "seeds"}
		stop := m.showOn(newProgress(c.stderr, false))
		lines, records, err := (&repair.Unseed{Tree: tree, Index: index, Tell: m.set}).Run(ctx, list)
		stop()
		if err = errors.Join(err, list.Close()); err != nil {
			return err
		}
		said := "none of these is a seed; crawler seeds list prints those there are\n"
		if lines+records > 0 {
			said = fmt.Sprintf("taken out: %s of seeds.txt; %s no longer of seeds; the next run sees scope from the others\n",
				words.Count(lines, "line"), words.Count(records, "record"))
		}
		_, err = io.WriteString(c.stdout, said)
		return err
	})
}
