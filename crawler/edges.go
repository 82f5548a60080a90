package crawler

import (
	"context"

	"urltree/internal/edges"
	"urltree/internal/extract"
	"urltree/internal/repair"
	"urltree/iut"
	"urltree/storage"
)

// edges returns the edges of a page as an item carries them; nil if the run keeps none.
func (l *Linker) edges(page extract.Result, url string) []byte {
	if !l.opts.Edges {
		return nil
	}
	return edges.AppendPage(nil, edges.Page{URL: url, Edges: l.keptEdges(page.Edges)})
}

// keptEdges replaces the URLs of edges by those that the index knows, and leaves out what is
// forgotten. It works in place.
func (l *Linker) keptEdges(list []edges.Edge) []edges.Edge {
	kept := list[:0]
	for _, e := range list {
		if e.To = l.strip.Apply(e.To); !l.isForgotten(e.To) {
			kept = append(kept, e)
		}
	}
	return kept
}

// EdgesOf returns all references of a stored page, as its folder has it, in page order; with assets
// also those to images, styles and the like. A page that makes the parser panic has none.
func (l *Linker) EdgesOf(f iut.Facts, body []byte, assets bool) (list []edges.Edge) {
	defer func() {
		if recover() != nil {
			list = nil
		}
	}()
	opts := l.opts
	opts.Edges, opts.Assets = true, assets
	return l.keptEdges(extract.Parse(extractFacts(f), body, opts).Edges)
}

// keepEdges opens the file of edges, if this run keeps them.
func (e *engine) keepEdges(ctx context.Context) (err error) {
	if !e.opts.Edges {
		return nil
	}
	e.rules.linker.opts.Edges = true
	e.store.edges, err = e.graph().Keep(ctx, e.opts.Assets)
	return err
}

func (e *engine) graph() *repair.Graph {
	return &repair.Graph{Tree: e.store.tree, Index: e.store.index, Parse: e.rules.linker.EdgesOf, Log: e.opts.Log}
}

// NewGraph returns the link graph of a tree that nobody crawls. The errors are those of NewLinker.
func NewGraph(tree *iut.Tree, index *storage.Index) (*repair.Graph, error) {
	linker, err := NewLinker(tree.Format())
	if err != nil {
		return nil, err
	}
	return &repair.Graph{Tree: tree, Index: index, Parse: linker.EdgesOf}, nil
}
