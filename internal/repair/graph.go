package repair

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"

	"urltree/internal/edges"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// A Graph is the link graph of a tree: of each stored page all references, see [edges.Page]. They
// come from the file of edges as far as it has them, and from the folders otherwise; it does not
// matter which, for a page's edges depend on its folder alone.
type Graph struct {
	Tree  *iut.Tree
	Index *storage.Index
	// Parse returns the edges of a page from what its folder holds; with assets also references to
	// images, styles and the like.
	Parse func(f iut.Facts, body []byte, assets bool) []edges.Edge
	Log   *slog.Logger // nil: no log

	most int64 // hashes that missing holds at a time; 0: passPages. Tests have less.
}

// Pages calls fn for each stored page, in no order that means anything, then for each URL that
// redirected and whose target is known, with the one edge to that. The slice of edges is fn's only
// until it returns. What is stored meanwhile may or may not be seen.
//
// Memory: one frame of the file, 4 MiB if some pages have their edges there and some have not.
func (g *Graph) Pages(ctx context.Context, fn func(edges.Page) error) error {
	kept, stored, err := g.Index.Marks().Edges()
	if err != nil {
		return err
	}
	if kept.Pages == 0 {
		kept.Assets = g.Tree.Format().Links.Assets
	}
	whole, pages, err := g.Tree.ReadEdges(kept.End, func(p edges.Page) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return fn(p)
	})
	if errors.Is(err, edges.ErrDamaged) {
		g.log().Warn("the file of edges is damaged: edges come from the folders instead", "err", err)
		kept.End, kept.Pages, err = whole, pages, nil
	}
	if err == nil && kept.Pages != stored {
		g.log().Info("edges of stored pages come from their folders", "pages", stored-kept.Pages)
		err = g.missing(ctx, kept, func(at iut.Facts) error {
			list, err := g.parse(at, kept.Assets)
			if err != nil {
				return err
			}
			return fn(edges.Page{URL: at.URL, Edges: list})
		})
	}
	if err != nil {
		return err
	}
	to := make([]edges.Edge, 1)
	return g.Index.Records(ctx, nil, func(r record.Record, err error) error {
		if err != nil || r.State != record.Redirected || r.HeaderLinks == "" {
			return nil // a damaged record is for check to name
		}
		to[0] = edges.Edge{To: r.HeaderLinks, Element: "redirect"}
		return fn(edges.Page{URL: r.URL, Edges: to})
	})
}

func (g *Graph) parse(at iut.Facts, assets bool) ([]edges.Edge, error) {
	f, body, err := g.Tree.Load(at)
	if err != nil {
		return nil, fmt.Errorf("%w: %s is stored in the index: %w", record.ErrDamaged, at.URL, err)
	}
	return g.Parse(f, body, assets), nil
}

// passPages is how many pages' hashes, of 8 bytes, missing holds at a time.
const passPages = 1 << 19

// missing calls fn for each stored page that has no entry in what is kept of the file.
func (g *Graph) missing(ctx context.Context, kept record.Edges, fn func(at iut.Facts) error) error {
	seed := maphash.MakeSeed()
	most := cmp.Or(g.most, passPages)
	passes := uint64(kept.Pages/most) + 1
	have := make([]uint64, 0, min(kept.Pages, most+most/8))
	for pass := range passes {
		have = have[:0]
		_, _, err := g.Tree.ReadEdges(kept.End, func(p edges.Page) error {
			if h := maphash.String(seed, p.URL); h%passes == pass {
				have = append(have, h)
			}
			return ctx.Err()
		})
		if err != nil {
			return err
		}
		slices.Sort(have)
		err = g.Index.Records(ctx, nil, func(r record.Record, err error) error {
			if err != nil || r.State != record.Stored {
				return nil
			}
			h := maphash.String(seed, r.URL)
			if _, there := slices.BinarySearch(have, h); there || h%passes != pass {
				return nil
			}
			return fn(iut.FactsOf(&r))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Keep opens the file of edges for a run that keeps them, with or without those to assets. First
// the stored pages that have none there, or of which the file was cut off, get theirs from their
// folders; if it was written with the other value of assets, these are all. It may be cut off and
// done again. A failing disk is iut.ErrDisk.
func (g *Graph) Keep(ctx context.Context, assets bool) (w *edges.Writer, err error) {
	defer func() {
		if err != nil {
			w, err = nil, fmt.Errorf("edges: %w", err)
		}
	}()
	kept, stored, err := g.Index.Marks().Edges()
	if err != nil {
		return nil, err
	}
	size, err := g.Tree.EdgesSize()
	switch {
	case err != nil:
		return nil, err
	case kept.Assets != assets, kept.Pages > stored:
		kept = record.Edges{}
	case size < kept.End, kept.Pages != stored: // pages without edges: those that have some are looked for in the file
		if kept, err = g.whole(ctx, kept); err != nil {
			return nil, err
		}
	}
	kept.Assets = assets
	// First the index, then the file: what the index says is there is there at any time.
	if err := g.Index.Marks().SetEdges(kept); err != nil {
		return nil, iut.DiskError("index", err)
	}
	w, err = g.Tree.WriteEdges(kept.End)
	if err == nil && kept.Pages != stored {
		g.log().Info("edges of stored pages are made from their folders", "pages", stored-kept.Pages)
		if err = g.fill(ctx, w, kept); err != nil {
			err = errors.Join(err, w.Close())
		}
	}
	return w, err
}

// whole returns what of the file is whole, and that much counts.
func (g *Graph) whole(ctx context.Context, kept record.Edges) (record.Edges, error) {
	whole, pages, err := g.Tree.ReadEdges(kept.End, func(edges.Page) error { return ctx.Err() })
	if errors.Is(err, edges.ErrDamaged) {
		g.log().Warn("the file of edges is damaged: its last pages are dropped", "err", err, "pages", kept.Pages-pages)
		kept.End, kept.Pages, err = whole, pages, nil
	}
	return kept, err
}

// fill appends the edges of stored pages that have no entry.
func (g *Graph) fill(ctx context.Context, w *edges.Writer, kept record.Edges) error {
	now, entry := kept, []byte(nil)
	commit := func() error {
		var err error
		if now.End, err = w.Flush(); err != nil {
			return iut.DiskError("write", err)
		}
		if err := g.Tree.Sync(); err != nil {
			return err
		}
		return iut.DiskError("index", g.Index.Marks().SetEdges(now))
	}
	err := g.missing(ctx, kept, func(at iut.Facts) error {
		if err := g.Index.WaitForRoom(); err != nil {
			return err
		}
		list, err := g.parse(at, kept.Assets)
		if err != nil {
			return err
		}
		entry = edges.AppendPage(entry[:0], edges.Page{URL: at.URL, Edges: list})
		if err := w.Append(entry); err != nil {
			return iut.DiskError("write", err)
		}
		if now.Pages++; (now.Pages-kept.Pages)%setPages == 0 {
			return commit()
		}
		return nil
	})
	if err != nil {
		return err
	}
	return commit()
}

// Mend lets of a damaged file of edges only that count which is whole: the next run that keeps
// edges makes the others again.
func (g *Graph) Mend(ctx context.Context) error {
	kept, _, err := g.Index.Marks().Edges()
	if err != nil || kept.End == 0 {
		return err
	}
	whole, err := g.whole(ctx, kept)
	if err == nil && whole != kept {
		err = iut.DiskError("index", g.Index.Marks().SetEdges(whole))
	}
	return err
}

func (g *Graph) log() *slog.Logger { return orDiscard(g.Log) }

// orDiscard returns a log in place of nil: one that nobody reads.
func orDiscard(log *slog.Logger) *slog.Logger { return cmp.Or(log, slog.New(slog.DiscardHandler)) }
