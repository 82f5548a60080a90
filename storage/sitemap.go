package storage

import (
	"context"
	"time"

	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// mostSitemaps bounds the sitemaps of a host that are to be read; what it names beyond them is left
// out. An index of indexes may name 2.5 thousand million.
const mostSitemaps = 50_000

// sitemapAge is how old an answer must be for a sitemap to be read again when it is named again,
// in seconds. A robots.txt is asked for again after a day, and that is when its sitemaps are due.
const sitemapAge = int64(12 * time.Hour / time.Second)

// sitemap returns the entry of a sitemap as this change sees it. A damaged one counts as absent.
func (c *change) sitemap(url string) *entry {
	if e := c.sitemaps[url]; e != nil {
		return e
	}
	e := &entry{key: record.SitemapKey(url)}
	if v := c.w.Get(record.BucketSitemap, e.key); v != nil {
		if old, err := record.DecodeSitemap(e.key, v); err == nil {
			both := [2]record.Record{old, old}
			e.old, e.rec = &both[0], &both[1]
		}
	}
	c.sitemaps[url] = e
	return e
}

// endSitemap applies what a sitemap has come to. One that must not be asked has failed.
func (c *change) endSitemap(o *record.Outcome) {
	r := &record.Record{Row: o.Row, State: o.State, Page: o.Page}
	switch r.Range, r.Due, r.Reason = 0, 0, o.Reason; o.State {
	case record.Pending:
		r.Range, r.Due, r.Reason = record.Later, o.Next.Due, o.Next.Reason
	case record.Refused:
		r.State = record.Failed
	}
	c.sitemap(o.Row.URL).rec = r
	c.trace(waiting, r)
}

// nameSitemap sees to it that a sitemap which something names is read, unless it was lately. One
// that has failed and is named by a robots.txt is read again in a later run, or if only another
// sitemap had named it: the seeds of a host that redirect name its sitemaps each time.
func (c *change) nameSitemap(l *record.Link) {
	e := c.sitemap(l.URL)
	r, run := e.rec, &c.run
	switch {
	case r == nil && c.fullOfSitemaps(record.Host(l.URL)):
		return
	case r == nil:
		r = &record.Record{Row: record.Row{URL: l.URL, Kind: record.SitemapRow, Range: record.Later}, State: record.Pending}
		e.rec = r
	case r.State == record.Pending && l.Depth < r.Depth:
		r.Depth, r.Hops, r.Source = l.Depth, l.Hops, l.Source
		return
	case r.State == record.Pending:
		return
	case r.State == record.Failed && l.Depth == 1 && (r.Depth > 1 || run.ID == 0 || r.Time < run.Start), c.now-r.Time >= sitemapAge,
		r.State == record.Read && l.Depth < r.Depth: // what it names may have been too deep
		if !c.reopenSitemap(r) {
			return
		}
	default:
		return
	}
	r.Depth, r.Hops, r.Source = l.Depth, l.Hops, l.Source
	c.done.Fresh = append(c.done.Fresh, r.Row)
}

// reopenSitemap opens a sitemap that is done, unless its host has as many to be read as it may.
func (c *change) reopenSitemap(r *record.Record) bool {
	if c.fullOfSitemaps(record.Host(r.URL)) {
		return false
	}
	r.Reopen(0)
	r.Range = record.Later
	return true
}

// fullOfSitemaps counts one more sitemap of a host, unless it has as many to be read as it may.
func (c *change) fullOfSitemaps(host string) bool {
	h := c.ledger.host(host)
	if h.row.Sitemaps+h.named >= mostSitemaps {
		return true
	}
	h.named++
	return false
}

func (c *change) writeSitemaps() {
	puts := make(boltfile.Puts, 0, len(c.sitemaps))
	for url, e := range c.sitemaps {
		if e.rec == nil && !e.gone || e.old != nil && e.rec != nil && *e.old == *e.rec {
			continue
		}
		by := int64(0)
		if e.gone {
			puts.Delete(e.key)
		} else {
			puts.Put(e.key, e.rec.AppendSitemap(nil))
			if e.rec.State == record.Pending {
				by++
			}
		}
		if e.old != nil && e.old.State == record.Pending {
			by--
		}
		c.ledger.host(record.Host(url)).maps += by
		c.totals.Sitemaps += by
	}
	c.w.write(record.BucketSitemap, puts)
}

// Get returns the record of a sitemap; ok is false where there is none.
func (g Sitemaps) Get(url string) (r record.Record, ok bool, err error) {
	return boltfile.Read(g.x.file, record.BucketSitemap, record.SitemapKey(url), record.DecodeSitemap)
}

// Each calls fn, outside of transactions, for the record of each sitemap that is not damaged.
func (g Sitemaps) Each(ctx context.Context, fn func(*record.Record) error) error {
	return g.x.file.Scan(ctx, record.BucketSitemap, nil, func(k, v []byte) error {
		r, err := record.DecodeSitemap(k, v)
		if err != nil {
			return nil
		}
		return fn(&r)
	})
}

// Reopen is [Index.Reopen] for sitemaps, as far as their host may have more to be read.
func (g Sitemaps) Reopen(ctx context.Context, pick func(*record.Record) bool, fresh func(rows []record.Row, tx uint64)) (int, error) {
	open := func(c *change, url string) (*record.Row, error) {
		r := c.sitemap(url).rec
		if r == nil || r.State == record.Pending || !c.reopenSitemap(r) {
			return nil, nil
		}
		return &r.Row, nil
	}
	return g.x.reopen(open, fresh, func(each func(url string) error) error {
		return g.x.Sitemaps().Each(ctx, func(r *record.Record) error {
			if r.State == record.Pending || !pick(r) {
				return nil
			}
			return each(r.URL)
		})
	})
}
