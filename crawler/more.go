package crawler

import (
	"context"

	"urltree/internal/repair"
	"urltree/storage/record"
)

// again has find look for more work when nothing is left, unless another crawler has found some
// since looked was read, which was before the frontier said so. One looks at a time.
func (c *finalCheck) again(fetching context.Context, looked int64) (more bool, err error) {
	c.ending <- struct{}{}
	defer func() { <-c.ending }()
	if c.looked.Load() != looked {
		return true, nil
	}
	more, err = c.find()
	if err != nil && fetching.Err() != nil {
		return false, nil // the next run does it
	}
	if err == nil && more {
		c.looked.Add(1)
	}
	return err == nil && more, err
}

// findMore looks for work when nothing is left. If seeds' redirects have widened the scope, pages
// that were stored before may have links that belong to the crawl now; if shorter ways were found,
// links of known pages may be near enough now; and sitemaps may not have been named yet. Then links
// may come from other processes, or the next superstep begins. The caller holds finalCheck.ending.
func (e *engine) findMore() (more bool, err error) {
	if e.opts.External {
		return false, nil
	}
	ctx := e.ends.fetching
	grown, err := e.store.index.Marks().NeedsRelink()
	if err == nil && grown {
		_, err = e.store.index.Sitemaps().Reopen(ctx, (*record.Record).Narrowed, e.found)
	}
	if err == nil && grown {
		err = e.relink(ctx, false, e.found)
	}
	nearer := 0
	if err == nil {
		nearer, err = repair.Nearer(ctx, e.store.tree, e.store.index, e.rules.linker, e.found)
	}
	named := 0
	if err == nil && e.steps != nil && !e.check.named {
		var empty bool
		if empty, err = e.steps.empty(ctx); !empty {
			return e.steps.next(ctx)
		}
	}
	if err == nil && !e.check.named && e.opts.ReadsSitemaps() {
		e.check.named = true
		named, err = e.nameSitemaps(ctx)
	}
	if more = grown || nearer > 0 || named > 0; more || err != nil {
		return more, err
	}
	if e.steps != nil {
		return e.steps.next(ctx)
	}
	return e.idle(ctx)
}
