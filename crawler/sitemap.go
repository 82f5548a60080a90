package crawler

import (
	"bytes"
	"context"
	"errors"

	"urltree/crawler/weburl"
	"urltree/internal/disk"
	"urltree/internal/fetch"
	"urltree/internal/frontier"
	"urltree/internal/robots"
	"urltree/internal/sitemap"
	"urltree/iut"
	"urltree/storage/record"
)

const (
	sitemapLevels = 3       // of indexes and what they name; a robots.txt names the first
	sitemapHops   = 5       // redirects in a row
	sitemapBytes  = 1 << 20 // of the links of one outcome: a sitemap may have more than a transaction should
	sitemapAccept = "application/xml,text/xml;q=0.9,text/plain;q=0.8,*/*;q=0.5"

	noSitemap = "no-sitemap" // why an answer gives nothing
)

// ReadsSitemaps reports whether a run with these options reads sitemaps. If not, what robots.txt
// names is noted all the same, for a later run.
func (o *Options) ReadsSitemaps() bool { return !o.NoSitemaps && !o.IgnoreRobots && !o.SeedsOnly }

// namedSitemaps returns links to the sitemaps that the robots.txt of an origin names, and to the
// place where one usually is. A host that does not belong to the crawl, and is asked only because
// its robots.txt allows or forbids a sitemap that others name, names none.
func (l *Linker) namedSitemaps(origin string, rules *robots.Rules, mostURL int) []record.Link {
	if rules == nil || !l.scope.HasHost(origin+"/") {
		return nil
	}
	var list []record.Link
	from := origin + "/robots.txt"
	base, err := weburl.NewBase(from)
	if err != nil {
		return nil
	}
	for _, ref := range rules.Sitemaps {
		if url, err := base.Resolve(weburl.EscapeBytes(ref)); err == nil && len(url) <= mostURL && !l.isForgotten(url) {
			list = append(list, record.Link{Kind: record.SitemapRow, URL: url, Depth: 1, Source: from})
		}
	}
	if usual := origin + "/sitemap.xml"; !l.isForgotten(usual) {
		list = append(list, record.Link{Kind: record.SitemapRow, URL: usual, Depth: 1})
	}
	return list
}

// nameSitemaps names the sitemaps of all origins that have an answer and belong to the crawl, and
// that have not been named yet: robots.txt may have been read when its host did not belong, or
// never, and an index that was made again knows of neither. It gives how many are to be read.
func (e *engine) nameSitemaps(ctx context.Context) (named int, err error) {
	o := &record.Outcome{}
	commit := func() error {
		if len(o.Links) == 0 {
			return nil
		}
		done, err := e.store.index.Commit([]*record.Outcome{o})
		if err != nil {
			return err
		}
		e.found(done.Fresh, done.Tx)
		named, o = named+len(done.Fresh), &record.Outcome{}
		return nil
	}
	err = e.store.index.Origins(ctx, func(origin string) error {
		rules := robots.AllowAll // where it is not known, it is asked for before a sitemap is
		if row, ok, err := e.store.index.Hosts().Robots(origin); err == nil && ok && answered(row.Status) {
			rules = parseRobots(row, e.rules.robots.token)
		}
		for _, l := range e.rules.linker.namedSitemaps(origin, rules, e.opts.MaxURL) {
			_, known, err := e.store.index.Sitemaps().Get(l.URL)
			if err != nil {
				return err
			}
			if !known {
				o.Links = append(o.Links, l)
			}
		}
		if len(o.Links) >= 1000 {
			return commit()
		}
		return nil
	})
	if err == nil {
		err = commit()
	}
	return named, err
}

// askSitemap brings a sitemap to its outcome in the buffer, after outcomes with the links for which
// one has no room: see row.
func (c *crawler) askSitemap(loan *frontier.Loan, row *record.Row) (done bool, next int64, err error) {
	item := &iut.Item{Outcome: record.Outcome{Row: *row}}
	if cause, yes := c.rules.robots.unreachable(record.Origin(row.URL)); yes {
		item.Refuse(heldRobots + ":" + cause)
	} else if known, err := c.obeys(item); !known {
		return false, 0, err
	}
	if item.State == record.Refused {
		return c.add(item, 0), 0, nil
	}
	r, ok, err := c.request(loan, row.URL, fetch.Request{
		Accept: sitemapAccept, MaxSize: sitemap.MaxBytes, KeepLarge: true,
		KeepBroken: int(row.Tries)-int(row.Spared) >= c.opts.Retries,
	})
	if !ok {
		return false, 0, err
	}
	if r.res != nil {
		defer r.res.Body.Release()
		parsed, err := c.places.acquireParser(c.ends.transfers, 0)
		if err != nil {
			return false, 0, nil
		}
		defer parsed()
	}
	a := c.judge(item, loan.Known, r.res, r.err)
	next, done = c.finish(loan, row, item, a, r.start)
	return done, next, nil
}

// redirectSitemap makes the target of a redirect a sitemap to be read.
func (c *crawler) redirectSitemap(item *iut.Item, res *fetch.Response) {
	row := &item.Row
	switch target := resolve(row.URL, res.Location); {
	case res.Location == "":
		item.Fail(statusReason(res.Status))
	case target == "" || len(target) > c.opts.MaxURL:
		item.Fail("redirect-location")
	case row.Hops >= sitemapHops || target == row.URL:
		item.Fail("redirect-loop")
	case c.rules.linker.isForgotten(target):
		item.Fail(record.Forgotten)
	default:
		item.State, item.Reason = record.Read, "redirect"
		item.Links = []record.Link{{Kind: record.SitemapRow, URL: target, Depth: row.Depth, Hops: row.Hops + 1, Source: row.URL}}
	}
}

// A sitemapReading makes links of what a sitemap names. What fills an outcome goes into the buffer
// at once, so that memory does not hold all of them.
type sitemapReading struct {
	*iut.Item
	crawler  *crawler
	kind     sitemap.Kind
	host     string
	size     int // bytes of the links of Item
	rank     func([]record.Link)
	rejected map[string]int
}

var errItemLost = errors.New("the crawl fails")

// readSitemap brings a sitemap that has come to its outcome.
func (c *crawler) readSitemap(item *iut.Item, res *fetch.Response) {
	url, body := item.Row.URL, res.Body.Bytes()
	s := &sitemapReading{
		Item: item, crawler: c, kind: sitemap.Detect(body), host: record.Host(url), rank: c.ranks(nil, 0), rejected: map[string]int{},
	}
	defer func() { c.rules.linker.count(s.rejected) }()
	var read sitemap.Result
	err := c.ends.foreign("read", url, 0, func(at *disk.Step) (err error) {
		read, err = sitemap.Read(url, bytes.NewReader(body), sitemap.Options{Torn: res.Truncated}, func(loc string) error {
			if s.take(loc); len(item.Links) < linksAhead && s.size < sitemapBytes {
				return nil
			}
			var lost error
			at.Wait(func() { lost = s.hand() })
			return lost
		})
		return err
	})
	s.rankLinks()
	switch {
	case errors.Is(err, errItemLost): // nor will there be a place for the item
		item.Fail("panic")
	case err != nil:
		c.opts.Log.Warn("sitemap", "url", url, "err", err)
		item.Fail("panic")
	case read.Kind == sitemap.None:
		item.Fail(noSitemap)
	default:
		item.State = record.Read
		switch {
		case read.Cut, res.Truncated && len(body) >= sitemap.MaxBytes:
			item.Reason = "cut"
		case read.Damaged:
			item.Reason = "damaged"
		case s.deepest():
			item.Reason = "nesting"
		}
	}
}

// deepest reports whether what the sitemap names would be nested too deep.
func (s *sitemapReading) deepest() bool {
	return s.kind == sitemap.Index && s.Row.Depth >= sitemapLevels
}

// take makes a link of a URL that the sitemap names, or counts why it is none.
func (s *sitemapReading) take(loc string) {
	s.Outcome.Page.Bytes++
	s.size += len(loc)
	linker := s.crawler.rules.linker
	switch {
	case s.deepest(), s.kind == sitemap.Index && len(loc) > s.crawler.opts.MaxURL:
	case s.kind == sitemap.Index && linker.isForgotten(loc):
		s.Outcome.Cut++
	case s.kind == sitemap.Index && record.Host(loc) != s.host && !linker.scope.HasHost(loc):
		s.Outcome.Cut++
	case s.kind == sitemap.Index:
		s.Links = append(s.Links, record.Link{Kind: record.SitemapRow, URL: loc, Depth: s.Row.Depth + 1, Source: s.Row.URL})
	default:
		url := linker.strip.Apply(loc)
		if reason := linker.reject(url); reason != "" {
			s.rejected[reason]++
			s.Outcome.Cut++
			return
		}
		s.Links = append(s.Links, record.Link{URL: url, Source: s.Row.URL, Depth: 1, Held: linker.budgets.form(url)})
	}
}

// rankLinks sets the scores of the links.
func (s *sitemapReading) rankLinks() {
	if s.kind != sitemap.Index {
		s.Links = s.crawler.newLinks(s.rank, s.Links)
	}
}

// hand puts the links into the buffer, ahead of the item.
func (s *sitemapReading) hand() error {
	s.rankLinks()
	s.size = 0
	if !s.crawler.put(&iut.Item{Outcome: *s.Ahead(len(s.Links)), Crawler: s.crawler.number}) {
		return errItemLost
	}
	return nil
}
