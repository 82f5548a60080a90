package storage

import (
	"context"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// mostSitemaps bounds the sitemaps of a host that are to be read; what it names beyond them is left
// out. An index of indexes may name 2.5 thousand million.
const mostSitemaps = 50_000

// sitemapAge is how old an answer must be for a sitemap to be read again when it is named again,
// in seconds. A robots.txt is asked for again after a day, and that is when its sitemaps are due.
const sitemapAge = int64(12 * time.Hour / time.Second)

// A sitemapEntry is a row of a sitemap as a change sees it.
type sitemapEntry struct {
	old  record.Sitemap // State 0: there was none
	row  record.Sitemap
	told bool // its outcome is in this set
}

// sitemap returns the row of a URL; State 0 where there is none. A damaged one counts as absent.
func (c *change) sitemap(url string) *sitemapEntry {
	if e := c.sitemaps[url]; e != nil {
		return e
	}
	e := &sitemapEntry{row: record.Sitemap{URL: url}}
	key := record.SitemapKey(url)
	if v := c.tx.Bucket(record.BucketSitemap).Get(key); v != nil {
		if s, err := record.DecodeSitemap(key, v); err == nil {
			e.old, e.row = s, s
		}
	}
	if c.sitemaps == nil {
		c.sitemaps = map[string]*sitemapEntry{}
	}
	c.sitemaps[url] = e
	return e
}

// cutSitemap notes that links of a sitemap which is being read got no record.
func (c *change) cutSitemap(url string, links int) {
	if c.cut == nil {
		c.cut = map[string]uint32{}
	}
	c.cut[url] += uint32(links)
}

// endSitemap takes what a sitemap has come to. Its links, or part of them, may have been committed
// before, and cut.
func (c *change) endSitemap(s *record.Sitemap) {
	e := c.sitemap(s.URL)
	open := e.row.State == record.SitemapOpen
	e.row, e.told = *s, true
	if open && s.State == record.SitemapRead {
		e.row.Outside += c.x.cut[s.URL] + c.cut[s.URL]
	}
}

// cutsDone keeps, after the commit, what was cut of the sitemaps that are still being read.
func (c *change) cutsDone() {
	for url, n := range c.cut {
		c.x.cut[url] += n
	}
	for url, e := range c.sitemaps {
		if e.told {
			delete(c.x.cut, url)
		}
	}
}

// nameSitemap sees to it that a sitemap which something names is read, unless it was lately. One
// that has failed and is named by a robots.txt is read again in a later run, or if only another
// sitemap had named it: the seeds of a host that redirect name its sitemaps each time.
func (c *change) nameSitemap(s *record.Sitemap) {
	row := &c.sitemap(s.URL).row
	run := &c.x.run
	switch {
	case row.State == 0 && c.fullOfSitemaps(record.Host(s.URL)):
	case row.State == 0:
		*row = record.Sitemap{URL: s.URL, State: record.SitemapOpen, Level: s.Level, Hops: s.Hops, Source: s.Source}
	case row.State == record.SitemapOpen && s.Level < row.Level:
		row.Level, row.Hops, row.Source = s.Level, s.Hops, s.Source
	case row.State == record.SitemapOpen:
	case row.State == record.SitemapFailed && s.Level == 1 && (row.Level > 1 || run.ID == 0 || row.Time < run.Start), c.now-row.Time >= sitemapAge,
		row.State == record.SitemapRead && s.Level < row.Level: // what it names may have been too deep
		if c.reopenSitemap(row) {
			row.Level, row.Hops, row.Source = s.Level, s.Hops, s.Source
		}
	}
}

// reopenSitemap opens a row that is done, unless its host has as many to be read as it may: then it
// stays as it is.
func (c *change) reopenSitemap(row *record.Sitemap) bool {
	if c.fullOfSitemaps(record.Host(row.URL)) {
		return false
	}
	row.State, row.Tries, row.Spared, row.Due, row.Outside = record.SitemapOpen, 0, 0, 0, 0
	return true
}

// fullOfSitemaps counts one more sitemap of a host, unless it has as many to be read as it may.
func (c *change) fullOfSitemaps(host string) bool {
	h := c.host(host)
	row, err := c.stored(host, h)
	if err == nil && row.Sitemaps+h.named >= mostSitemaps {
		return true
	}
	h.named++
	return false
}

// settleSitemaps records what became of the sitemaps that a set has to do with.
func (c *change) settleSitemaps(done *Committed) {
	for _, e := range c.sitemaps {
		switch {
		case e.told:
			done.Sitemaps = append(done.Sitemaps, e.row)
		case e.row.State == record.SitemapOpen && e.old.State != record.SitemapOpen:
			done.NewSitemaps = append(done.NewSitemaps, e.row)
		}
	}
}

func (c *change) flushSitemaps() error {
	puts := make(boltfile.Puts, 0, len(c.sitemaps))
	for url, e := range c.sitemaps {
		if open, was := e.row.State == record.SitemapOpen, e.old.State == record.SitemapOpen; open != was {
			by := int64(1)
			if was {
				by = -1
			}
			c.host(record.Host(url)).maps += by
			c.totals.Sitemaps += by
		}
		if e.row != e.old && e.row.State != 0 {
			puts.Put(record.SitemapKey(url), e.row.Append(nil))
		}
	}
	return c.values.Write(record.BucketSitemap, puts)
}

// Sitemap returns the row of a sitemap; ok is false where there is none.
func (x *Index) Sitemap(url string) (s record.Sitemap, ok bool, err error) {
	err = x.file.View(func(tx *bolt.Tx) error {
		key := record.SitemapKey(url)
		if v := tx.Bucket(record.BucketSitemap).Get(key); v != nil {
			ok = true
			s, err = record.DecodeSitemap(key, v)
		}
		return err
	})
	return s, ok, err
}

// EachSitemap calls fn for the row of each sitemap; damaged ones are left out. No transaction is
// open while fn runs.
func (x *Index) EachSitemap(ctx context.Context, fn func(record.Sitemap)) error {
	return x.file.Scan(ctx, record.BucketSitemap, nil, func(k, v []byte) error {
		if s, err := record.DecodeSitemap(k, v); err == nil {
			fn(s)
		}
		return nil
	})
}

// Sitemaps reads sitemaps of one host that are to be read and due, without those that skip names,
// at most n. due is the earliest time at which there may be another one, in Unix nanoseconds; 0:
// there is none.
func (x *Index) Sitemaps(host string, now time.Time, n int, skip func(url string) bool) (list []record.Sitemap, due int64, err error) {
	err = x.file.Scan(context.Background(), record.BucketSitemap, record.SitemapPrefix(host), func(k, v []byte) error {
		if len(v) == 0 || record.SitemapState(v[0]) != record.SitemapOpen {
			return nil
		}
		s, err := record.DecodeSitemap(k, v)
		if err != nil || skip(s.URL) {
			return nil // damage costs one sitemap
		}
		at := max(s.Due, 1)
		switch {
		case at > now.UnixNano() || len(list) >= n:
			if due == 0 || at < due {
				due = at
			}
		default:
			list = append(list, s)
		}
		return nil
	})
	return list, due, err
}

// RereadSitemaps opens sitemaps again, those that are done and for which pick is true, and gives
// their number. fresh is told of them once that is durable; nil: nobody is. Those of a host that
// has as many to be read as it may stay as they are.
func (x *Index) RereadSitemaps(ctx context.Context, pick func(*record.Sitemap) bool, fresh func(list []record.Sitemap, tx uint64)) (int, error) {
	n := 0
	var urls []string
	flush := func() error {
		if len(urls) == 0 {
			return nil
		}
		done, err := x.reread(urls)
		if err != nil {
			return err
		}
		if fresh != nil && len(done.NewSitemaps) > 0 {
			fresh(done.NewSitemaps, done.Tx)
		}
		n, urls = n+len(done.NewSitemaps), urls[:0]
		return nil
	}
	err := x.file.Scan(ctx, record.BucketSitemap, nil, func(k, v []byte) error {
		s, err := record.DecodeSitemap(k, v)
		if err != nil || s.State == record.SitemapOpen || !pick(&s) {
			return nil
		}
		if urls = append(urls, s.URL); len(urls) >= reopenURLs {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	return n, err
}

func (x *Index) reread(urls []string) (Committed, error) {
	var done Committed
	if err := x.lock(); err != nil {
		return done, err
	}
	defer x.mu.Unlock()
	err := x.update(func(c *change) error {
		for _, url := range urls {
			if row := &c.sitemap(url).row; row.State != 0 && row.State != record.SitemapOpen {
				c.reopenSitemap(row)
			}
		}
		c.settleSitemaps(&done)
		done.Tx = uint64(c.tx.ID())
		return nil
	})
	if err != nil {
		return done, fmt.Errorf("sitemaps to be read again: %w", err)
	}
	return done, nil
}
