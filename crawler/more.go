package crawler

import (
	"context"

	"urltree/internal/repair"
	"urltree/storage/record"
)

// lookAgain is asked when nothing is left. If seeds' redirects have widened the scope, pages
// that were stored before may have links that belong to the crawl now; if shorter ways were
// found, links of known pages may be near enough now. Then there may be more. looked is e.looked
// as it was before the frontier said so.
func (e *engine) lookAgain(looked int64) (more bool, err error) {
	e.ending.Lock()
	defer e.ending.Unlock()
	if e.looked.Load() != looked {
		return true, nil // another crawler has looked since
	}
	if more, err = e.findMore(e.fetching); err != nil {
		if e.fetching.Err() != nil {
			return false, nil // the next run does it
		}
		return false, err
	}
	if more {
		e.looked.Add(1)
	}
	return more, nil
}

// findMore is lookAgain for who holds e.ending.
func (e *engine) findMore(ctx context.Context) (more bool, err error) {
	grown, err := e.index.Marks().NeedsRelink()
	if err == nil && grown {
		_, err = e.index.Sitemaps().Reopen(ctx, (*record.Record).Narrowed, e.frontier.Add)
	}
	if err == nil && grown {
		err = e.relink(ctx, false, e.frontier.Add)
	}
	nearer := 0
	if err == nil {
		nearer, err = repair.Nearer(ctx, e.tree, e.index, e.linker, e.frontier.Add)
	}
	named := 0
	if err == nil && !e.named && e.opts.ReadsSitemaps() {
		e.named = true
		named, err = e.nameSitemaps(ctx)
	}
	return grown || nearer > 0 || named > 0, err
}
