package crawler

import (
	"urltree/internal/fetch"
	"urltree/internal/frontier"
	"urltree/iut"
	"urltree/storage/record"
)

// askPage brings a page to an outcome in the buffer: see handle. free lets the next download begin.
func (c *crawler) askPage(loan *frontier.Loan, row *record.Row, free func()) (done bool, next int64, err error) {
	item := &iut.Item{Outcome: record.Outcome{Row: *row}, Crawler: c.number}
	if ok, err := c.early(item); !ok {
		return false, 0, err
	}
	if item.State != 0 {
		return c.add(item, 0), 0, nil
	}
	// One of -max-pages tickets: kept by a page until it is committed, and by what is stored; given
	// back by everything else. A page that is stored already needs none.
	stored := false
	if row.Kind == record.PageRow {
		if !c.limit.take(c.ends.fetching) {
			return false, 0, nil
		}
		defer func() { c.limit.buffered(stored) }()
	}
	if err := c.conditions(item); err != nil {
		return false, 0, err
	}
	r, ok, err := c.request(loan, row.URL, fetch.Request{
		ETag: item.ETag, Modified: item.Modified, Wants: c.wants, Looks: c.looks, KeepLarge: c.opts.CutLarge,
		KeepBroken: int(row.Tries)-int(row.Spared) >= c.opts.Retries, // the last try keeps what there is
	})
	if !ok {
		return false, 0, err
	}
	res := r.res
	if res != nil {
		// Kept until the item is in the buffer: what waits there with its links is bounded too.
		parsed, err := c.places.queueForParser(c.ends.transfers, res.Body.Len(), free)
		if err != nil {
			res.Body.Release()
			return false, 0, nil
		}
		defer parsed()
	}
	a := c.judge(item, loan.Known, res, r.err)
	if c.ends.broken.Load() != nil {
		// Whether this page's call-backs were called or not: it is pending, and comes again.
		drop(item)
		return false, 0, nil
	}
	if res != nil {
		c.measured.stages[stageRequest].add(res.First)
		c.measured.stages[stageResponse].add(res.Total - res.First)
	}
	keeps := item.State == record.Stored && row.Kind == record.PageRow
	item.Ticket = keeps && c.limit.tickets != nil
	if next, ok = c.finish(loan, row, item, a, r.start); !ok {
		return false, 0, nil
	}
	stored = keeps
	if res != nil {
		res.Body.HandOver() // the buffer counts its bytes now
	}
	return true, next, nil
}

// early decides on a page whose outcome needs no request: then item has a state. It returns false
// if the row stays as it is.
func (c *crawler) early(item *iut.Item) (ok bool, err error) {
	row := &item.Row
	if row.Run <= c.lastUnclean && row.Kind == record.PageRow {
		there, err := c.store.tree.Has(row.URL)
		if err != nil {
			return false, err
		}
		if there {
			item.State, item.Adopt = record.Stored, true
			return true, nil
		}
	}
	if len(row.URL) > c.opts.MaxURL {
		item.Refuse("length")
		return true, nil
	}
	if !c.opts.IgnoreRobots {
		if known, err := c.obeys(item); !known || item.State != 0 {
			return known, err
		}
	}
	allowed, ok := c.allows(row)
	if ok && !allowed {
		item.State, item.Next = record.Pending, *row
		item.Next.Range, item.Next.Reason = record.Held, heldAllow
	}
	return ok, nil
}

// pathOf returns path and query of a canonical URL.
func pathOf(url string) string { return url[len(record.Origin(url)):] }
