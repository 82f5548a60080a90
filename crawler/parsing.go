package crawler

import (
	"urltree/internal/extract"
	"urltree/iut"
	"urltree/storage/record"
)

const (
	// parsersMost are the parse workers that Options.Parsers 0 gives on machines with many cores: no
	// more are busy, and each may hold what a page makes of itself.
	parsersMost = 4
	// parseShare is the size of a page, in bytes, for which a parse worker's memory is meant. What
	// pages make of themselves, which are links of many times their bytes, is bounded for all
	// together: a page takes a share more for each parseShare of its bytes, up to all of the
	// sharesMore that there are, and waits for them before it takes the place of a parse worker.
	// Smaller pages are parsed beside it.
	parseShare = 256 << 10
	sharesMore = parsersMost
	// linksAhead is how many links of a page go into the buffer together.
	linksAhead = 5_000
)

// parse takes the place of a parse worker for a page of so many bytes. done gives it back.
func (w *worker) parse(bytes int64) (done func(), err error) {
	more := min(bytes/parseShare, sharesMore)
	if more > 0 {
		if err := w.shares.Acquire(w.transfers, more); err != nil {
			return nil, err
		}
	}
	if err := w.parsing.Acquire(w.transfers, 1); err != nil {
		w.shares.Release(more)
		return nil, err
	}
	return func() {
		w.parsing.Release(1)
		w.shares.Release(more)
	}, nil
}

// links makes an item's links of what its page names. If these are very many, all but the last go
// into the buffer at once, so that memory does not hold all of them as records' links; the item
// comes behind them, and no URL gets an outcome before its links have records.
func (w *worker) links(item *iut.Item, r *reader, page extract.Result, facts iut.Facts) {
	var rank func([]record.Link)
	for rest := page.Links; ; {
		n := min(len(rest), linksAhead)
		page.Links, rest = rest[:n], rest[n:]
		links := w.linker.admit(r, page, facts, w.isKnown())
		if rank == nil {
			// Only of a page that is not looked at in parts is it known how many count.
			total := len(links)
			if len(rest) > 0 {
				total = n + len(rest)
			}
			rank = w.ranks(&item.Row, total)
		}
		links = w.newLinks(rank, links)
		page.NotFollowed = nil // counted now
		if len(item.Links) > 0 {
			links = append(item.Links, links...)
		}
		for item.Links = links; len(item.Links) > linksAhead; {
			if !w.put(&iut.Item{Outcome: *item.Ahead(linksAhead), Crawler: w.number}) {
				return // nor will there be a place for the item
			}
		}
		if len(rest) == 0 {
			return
		}
	}
}
