package repair

import (
	"context"
	"fmt"
	"log/slog"

	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// Relink parses stored pages again and gives the links that count now, and have no record, one:
// what a run does whose link options differ from those of FORMAT, before it writes its own
// there, and whenever scope has grown. What had links without leaving a folder, a redirect whose
// target did not count or a page that was not kept, is to be asked again.
//
// With cut only the answers of which links were cut are looked at: enough if nothing but budgets
// have changed. The parser has been told of all seeds. It may be cut off and done again. fresh
// is told of the new and the reopened rows, once they are durable; nil: nobody is.
func Relink(ctx context.Context, tree *iut.Tree, index *storage.Index, p Parser, cut bool, log *slog.Logger, fresh func(rows []record.Row, tx uint64)) (int, error) {
	r := newRebuild(tree, index, p, log)
	r.fresh = fresh
	err := index.Records(ctx, nil, func(rec record.Record, err error) error {
		if err != nil || rec.State != record.Stored || cut && rec.Cut == 0 {
			return nil // a damaged record is for check to name
		}
		return r.again(ctx, &rec)
	})
	if err == nil {
		err = r.commit(ctx)
	}
	if err == nil {
		var again int
		again, err = index.Reopen(ctx, nil, func(rec *record.Record) bool {
			switch {
			case rec.State != record.Redirected && !rec.GaveLinks():
				return false
			case cut:
				return rec.Cut > 0
			}
			return rec.State != record.Redirected || rec.Reason != "" || rec.Cut > 0
		}, fresh)
		if err == nil && again > 0 {
			r.log.Info("redirects and unkept pages are asked again for their links", "URLs", again)
		}
	}
	if err == nil && !cut {
		err = iut.DiskError("relink", index.Marks().Relinked())
	}
	if err != nil {
		return r.report.Found, fmt.Errorf("relink: %w", err)
	}
	return r.report.Found, nil
}

// Nearer looks again at the links of URLs to which a shorter way was found: those are nearer as
// well, until no depth becomes less. It gives how many URLs it looked at. fresh is told of rows
// that became eligible, once they are durable.
func Nearer(ctx context.Context, tree *iut.Tree, index *storage.Index, p Parser, fresh func(rows []record.Row, tx uint64)) (int, error) {
	r := newRebuild(tree, index, p, nil)
	r.fresh = fresh
	for looked := 0; ; {
		list, err := index.Shorter(setPages)
		if err != nil || len(list) == 0 {
			return looked, err
		}
		for i := range list {
			if err := r.again(ctx, &list[i]); err != nil {
				return looked, fmt.Errorf("shorter ways: %w", err)
			}
		}
		if err := r.commit(ctx); err != nil {
			return looked, fmt.Errorf("shorter ways: %w", err)
		}
		looked += len(list)
	}
}

func (r *rebuild) again(ctx context.Context, rec *record.Record) error {
	o, _, err := r.answer(rec)
	if err != nil {
		return fmt.Errorf("%w: %s is stored in the index: %w", record.ErrDamaged, rec.URL, err)
	}
	return r.take(ctx, o)
}

// answer returns the outcome that takes the links of an answer again, and the flags of its page.
func (r *rebuild) answer(rec *record.Record) (o *record.Outcome, flags string, err error) {
	o = &record.Outcome{Row: rec.Row, State: rec.State, Page: rec.Page, Again: true}
	switch {
	case rec.State == record.Stored:
		f, body, err := r.tree.Load(iut.FactsOf(rec))
		if err != nil {
			return nil, "", err
		}
		o.Page, o.Links, flags = f.Page, r.parser.Parse(f, body).Links, f.Flags
	case rec.State == record.Redirected && rec.Reason == "" && rec.HeaderLinks != "":
		o.Page.PageDepth = rec.Depth
		o.Links = []record.Link{{
			URL: rec.HeaderLinks, Source: rec.Source, Via: rec.URL, Depth: rec.Depth, Hops: rec.Hops + 1,
		}}
	}
	return o, flags, nil
}
