package main

import (
	"bufio"
	"fmt"

	"github.com/urfave/cli/v2"

	"urltree/crawler"
	"urltree/internal/rank"
	"urltree/internal/repair"
	"urltree/internal/words"
	"urltree/iut"
	"urltree/storage"
)

// rankCommand computes PageRank and keeps it in the tree.
func (c *command) rankCommand() *cli.Command {
	best := int64(10)
	return &cli.Command{
		Name: "rank", Usage: "compute the PageRank of all URLs, for -order priority -score rank",
		ArgsUsage: "[-tree FOLDER] [-n N]",
		Description: "The nodes are the stored pages, what redirected, and all URLs that these name; a link counts once for each pair of these. Damping 0.85; the rank that ends in URLs without links is spread evenly. It ends when an iteration changes the ranks by less than 1e-10 in all, shows each tenth iteration, and puts the ranks into the file rank of the tree; crawler export -what ranks prints them. " +
			"Pages that were not crawled with -edges are read from their folders. It takes at most 32 bytes of memory for each URL, and some 10 for each link in the system's folder for temporary files (TMPDIR).",
		Flags: []cli.Flag{c.flags.tree(), plainFlag("n", number{p: &best}, "print the `N` URLs of the greatest ranks")},
		Action: func(x *cli.Context) (err error) {
			if err := arguments(x, 0); err != nil {
				return err
			}
			tree, err := openExclusive(c.root())
			if err != nil {
				return err
			}
			defer tree.Close()
			index, err := openIndex(c.root(), storage.Options{ReadOnly: true})
			if err != nil {
				return err
			}
			defer index.Close()
			source, err := c.graph(tree, index)
			if err != nil {
				return err
			}
			out := bufio.NewWriter(c.stdout)
			g, err := rank.Read(x.Context, source.Pages)
			if err != nil {
				return err
			}
			defer g.Close()
			if g.Pages == 0 {
				return usagef("rank: no pages in %s", c.root())
			}
			fmt.Fprintf(out, "pages %d, redirects included; URLs %d; links %d\n", g.Pages, g.Nodes(), g.Links)
			step := func(i int, residual float64) {
				if i == 1 || i%10 == 0 {
					fmt.Fprintf(out, "iteration %-4d residual %.3g\n", i, residual)
					out.Flush()
				}
			}
			ranks, err := g.Rank(x.Context, rank.Options{Step: step})
			if err != nil {
				return err
			}
			if err := ranks.Save(c.root()); err != nil {
				return err
			}
			fmt.Fprintf(out, "ended after %s, residual %.3g\n", words.Count(ranks.Iterations, "iteration"), ranks.Residual)
			list, err := ranks.Best(x.Context, source.Pages, int(best))
			if err != nil {
				return err
			}
			for _, b := range list {
				fmt.Fprintf(out, "%.9f  %s\n", b.Rank, b.URL)
			}
			return out.Flush()
		},
	}
}

// graph returns the link graph of a tree that nobody crawls.
func (c *command) graph(tree *iut.Tree, index *storage.Index) (*repair.Graph, error) {
	graph, err := crawler.NewGraph(tree, index)
	if err != nil {
		return nil, err
	}
	graph.Log = c.logger(c.stderr)
	return graph, nil
}
