package repair

import (
	"context"
	"fmt"
	"slices"

	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// Repost takes the links of stored pages and redirects once more, and the seeds, as far as they are
// to lost hosts: what another process of the crawl knew of these is lost. Those that this process
// asks now become records, those of others go to the outbox. Answers that gave links without
// leaving them anywhere, and sitemaps, are to be asked again; so are URLs of which another process
// has the page, for it may be the one that is lost.
//
// It may be cut off and done again, which does no harm. fresh is called with the rows that became
// eligible, after each transaction.
func Repost(ctx context.Context, tree *iut.Tree, index *storage.Index, p Parser, lost func(host string) bool, fresh func(rows []record.Row, tx uint64)) error {
	r := newRebuild(tree, index, p, nil)
	r.fresh = fresh
	err := index.Records(ctx, nil, func(rec record.Record, err error) error {
		if err != nil || rec.State != record.Stored && rec.State != record.Redirected {
			return nil // a damaged record is for check to name
		}
		o, _, err := r.answer(&rec)
		if err != nil {
			return fmt.Errorf("%w: %s is stored in the index: %w", record.ErrDamaged, rec.URL, err)
		}
		return r.repost(ctx, o.Links, lost)
	})
	if err == nil {
		err = tree.Seeds(iut.SeedMark{}, func(line string, _ iut.SeedMark) error {
			if !isSeed(tree, line) {
				return nil
			}
			return r.repost(ctx, []record.Link{{URL: line, Source: record.Seed, Areas: p.Areas(line)}}, lost)
		})
	}
	if err == nil {
		err = r.commit(ctx)
	}
	if err == nil {
		_, err = index.Reopen(ctx, nil, func(rec *record.Record) bool { return rec.GaveLinks() || rec.IsElsewhere() }, fresh)
	}
	if err == nil {
		_, err = index.Sitemaps().Reopen(ctx, func(s *record.Record) bool { return s.State == record.Read }, fresh)
	}
	if err != nil {
		return fmt.Errorf("read again: %w", err)
	}
	return nil
}

// repost takes those of links that are to lost hosts.
func (r *rebuild) repost(ctx context.Context, links []record.Link, lost func(host string) bool) error {
	for list := range slices.Chunk(links, setSeeds) {
		o := &record.Outcome{Repost: true}
		for i := range list {
			if lost(record.Host(list[i].URL)) {
				o.Links = append(o.Links, list[i])
			}
		}
		if len(o.Links) > 0 {
			if err := r.take(ctx, o); err != nil {
				return err
			}
		}
	}
	return context.Cause(ctx)
}
