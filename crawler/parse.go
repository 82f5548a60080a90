package crawler

import (
	"context"
	"errors"
	"strings"
	"time"

	"urltree/internal/disk"
	"urltree/internal/extract"
	"urltree/internal/fetch"
	"urltree/internal/sitemap"
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

// acquireParser waits for the place of a parse worker for a page of so many bytes. done gives it
// back.
func (p *places) acquireParser(ctx context.Context, bytes int64) (done func(), err error) {
	more := min(bytes/parseShare, sharesMore)
	if more > 0 {
		if err := p.shares.Acquire(ctx, more); err != nil {
			return nil, err
		}
	}
	if err := p.parsing.Acquire(ctx, 1); err != nil {
		p.shares.Release(more)
		return nil, err
	}
	return func() {
		p.parsing.Release(1)
		p.shares.Release(more)
	}, nil
}

// queueForParser waits, for a body of so many bytes, for a place in the queue behind the downloads,
// lets the next download begin with free, and waits for a parser. done gives that back.
func (p *places) queueForParser(ctx context.Context, bytes int64, free func()) (done func(), err error) {
	if p.fetched != nil {
		p.fetched <- struct{}{}
		defer func() { <-p.fetched }()
		free()
	}
	return p.acquireParser(ctx, bytes)
}

// wants reports whether the body of an answer is read: to be stored, or for its links if it is a
// feed.
func (c *crawler) wants(media string) bool { return c.opts.accepts(media) || extract.IsFeed(media) }

// looks returns what decides by its first bytes whether an answer is read on; nil: it is. JSON of
// no special kind hardly ever is a feed, and often large.
func (c *crawler) looks(media string) func(head []byte) bool {
	if media != "application/json" || c.opts.accepts(media) {
		return nil
	}
	return func(head []byte) bool { return sitemap.Detect(head).Feed() }
}

// errParseBudget says that a page asks for more work than one may.
var errParseBudget = errors.New("parse-budget")

// parsePage finds links and metadata of an answer. What panics is the page's fault, not the
// crawl's, and so is errParseBudget.
func (c *crawler) parsePage(item *iut.Item, res *fetch.Response) (noindex bool, err error) {
	defer recovered(&err)
	start := time.Now()
	facts := iut.Facts{URL: item.Row.URL, Source: item.Row.Source, Page: item.Outcome.Page}
	said := extractFacts(facts)
	said.Language = strings.Join(res.Header["Content-Language"], ",")
	said.Robots = res.Header["X-Robots-Tag"]
	var r *reader
	if res.Body.Len() <= parseShare {
		r = c.rules.linker.reader()
		defer c.rules.linker.readers.Put(r)
	} else {
		r = newReader() // what it holds after a large page may be large as well
	}
	var page extract.Result
	if err := c.ends.foreign("parse", item.Row.URL, 0, func(*disk.Step) error {
		page = r.Parse(said, res.Body.Bytes(), c.rules.linker.opts)
		return nil
	}); err != nil {
		return false, err
	}
	item.Outcome.Page.Charset = page.Charset
	if page.Exhausted {
		return false, errParseBudget
	}
	if page.NoFollow {
		// The folder says so by itself, whatever name the next run looks for.
		item.Outcome.Page.Flags = addFlag(item.Outcome.Page.Flags, flagNoFollow)
	}
	if page.Cut {
		item.Outcome.Page.Flags = addFlag(item.Outcome.Page.Flags, flagCut)
	}
	if !c.tell(item, res.Header, res.Body.Bytes(), &page) {
		return false, nil // url drops the page
	}
	item.Meta, item.Edges = page.Meta, c.rules.linker.edges(page, facts.URL)
	c.addLinks(item, r, page, facts)
	c.measured.stages[stageParse].add(time.Since(start))
	return page.NoIndex, nil
}

// addLinks makes an item's links of what its page names. If these are very many, all but the last
// go into the buffer at once, so that memory does not hold all of them as records' links; the item
// comes behind them, and no URL gets an outcome before its links have records.
func (c *crawler) addLinks(item *iut.Item, r *reader, page extract.Result, facts iut.Facts) {
	var rank func([]record.Link)
	for rest := page.Links; ; {
		n := min(len(rest), linksAhead)
		page.Links, rest = rest[:n], rest[n:]
		links := c.rules.linker.admit(r, page, facts, c.isKnown())
		if rank == nil {
			// Only of a page that is not looked at in parts is it known how many count.
			total := len(links)
			if len(rest) > 0 {
				total = n + len(rest)
			}
			rank = c.ranks(&item.Row, total)
		}
		links = c.newLinks(rank, links)
		page.NotFollowed = nil // counted now
		if len(item.Links) > 0 {
			links = append(item.Links, links...)
		}
		for item.Links = links; len(item.Links) > linksAhead; {
			if !c.put(&iut.Item{Outcome: *item.Ahead(linksAhead), Crawler: c.number}) {
				return // nor will there be a place for the item
			}
		}
		if len(rest) == 0 {
			return
		}
	}
}
