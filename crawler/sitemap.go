package crawler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

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
	sitemapLinks  = 10_000  // of one outcome: a sitemap may have more than a transaction should,
	sitemapBytes  = 1 << 20 // and more bytes
	sitemapAccept = "application/xml,text/xml;q=0.9,text/plain;q=0.8,*/*;q=0.5"

	noSitemap = "no-sitemap" // why an answer gives nothing
)

// ReadsSitemaps reports whether a run with these options reads sitemaps. If not, what robots.txt
// names is noted all the same, for a later run.
func (o *Options) ReadsSitemaps() bool { return !o.NoSitemaps && !o.IgnoreRobots && o.MaxDepth >= 0 }

// namedSitemaps returns the sitemaps that the robots.txt of an origin names, and the place where
// one usually is. A host that does not belong to the crawl, and is asked only because its
// robots.txt allows or forbids a sitemap that others name, names none.
func (e *engine) namedSitemaps(origin string, rules *robots.Rules) []record.Sitemap {
	if rules == nil || !e.linker.scope.HasHost(origin+"/") {
		return nil
	}
	var list []record.Sitemap
	from := origin + "/robots.txt"
	base, err := weburl.NewBase(from)
	if err != nil {
		return nil
	}
	for _, ref := range rules.Sitemaps {
		if url, err := base.Resolve(weburl.EscapeBytes(ref)); err == nil && len(url) <= e.opts.MaxURL {
			list = append(list, record.Sitemap{URL: url, Level: 1, Source: from})
		}
	}
	return append(list, record.Sitemap{URL: origin + "/sitemap.xml", Level: 1})
}

// nameSitemaps names the sitemaps of all origins that have an answer and belong to the crawl, and
// that have not been named yet: robots.txt may have been read when its host did not belong, or
// never, and an index that was made again knows of neither. It gives how many are to be read.
func (e *engine) nameSitemaps(ctx context.Context) (named int, err error) {
	o := &record.Outcome{}
	commit := func() error {
		if len(o.Sitemaps) == 0 {
			return nil
		}
		done, err := e.index.Commit([]*record.Outcome{o})
		if err != nil {
			return fmt.Errorf("%w: %w", iut.ErrDisk, err)
		}
		e.tellSitemaps(done.NewSitemaps, done.Tx)
		named, o = named+len(done.NewSitemaps), &record.Outcome{}
		return nil
	}
	err = e.index.Origins(ctx, func(origin string) error {
		rules := robots.AllowAll // where it is not known, it is asked for before a sitemap is
		if row, ok, err := e.index.Robots(origin); err == nil && ok && answered(row.Status) {
			rules = parseRobots(row, e.robots.token)
		}
		for _, s := range e.namedSitemaps(origin, rules) {
			_, known, err := e.index.Sitemap(s.URL)
			if err != nil {
				return err
			}
			if !known {
				o.Sitemaps = append(o.Sitemaps, s)
			}
		}
		if len(o.Sitemaps) >= 1000 {
			return commit()
		}
		return nil
	})
	if err == nil {
		err = commit()
	}
	return named, err
}

// tellSitemaps lets the frontier know of sitemaps to be read, durable since transaction tx.
func (e *engine) tellSitemaps(list []record.Sitemap, tx uint64) {
	if len(list) > 0 && e.opts.ReadsSitemaps() {
		e.frontier.AddSitemaps(list, tx)
	}
}

// askSitemap brings the sitemap of a loan to its outcome in the buffer, after outcomes with the
// links for which one has no room. When fetching stops first it is to be read as before. An
// error is one of the disk.
func (w *worker) askSitemap(loan *frontier.Loan) error {
	s := *loan.Sitemap
	origin := record.Origin(s.URL)
	if cause, yes := w.robots.unreachable(origin); yes {
		return w.refuseSitemap(loan, s, heldRobots+":"+cause)
	}
	rules, err := w.robots.rules(origin)
	if rules == nil {
		return err // the frontier asks for robots.txt first
	}
	if ok, _ := rules.Allowed(pathOf(s.URL)); !ok {
		return w.refuseSitemap(loan, s, "robots")
	}
	if w.fetching.Err() != nil {
		return nil
	}
	if !w.begins(loan) {
		return nil
	}
	tries, spared := s.Tries, s.Spared
	start := time.Now()
	w.flying.Add(1)
	res, err := w.getter(loan)(w.transfers, s.URL, fetch.Request{
		Accept: sitemapAccept, MaxSize: sitemap.MaxBytes, KeepLarge: true,
		KeepBroken: int(s.Tries)-int(s.Spared) >= w.opts.Retries,
	})
	w.flying.Add(-1)
	if err != nil && w.transfers.Err() != nil || errors.Is(err, errNotAsked) {
		return nil
	}
	if errors.Is(err, fetch.ErrDisk) && !errors.Is(err, errNoRoom) {
		return fmt.Errorf("%w: sitemap %s: %w", iut.ErrDisk, s.URL, err)
	}
	if res != nil {
		defer func() { res.Body.Release() }()
		if w.parsing.Acquire(w.transfers, 1) != nil {
			return nil
		}
		defer w.parsing.Release(1)
	}
	item := &iut.Item{}
	a, read := w.answerSitemap(&s, item, loan.Known, res, err)
	a.Start, a.End = start, time.Now()
	times := w.frontier.Answered(loan, a)
	item.Host = &times
	if s.State == record.SitemapOpen {
		s.Due = w.due(times, tries, spared)
	}
	if s.State == record.SitemapOpen && s.Spared >= mostSpared {
		s.State = record.SitemapFailed
	}
	if read {
		var ok bool
		if item, ok = w.readSitemap(&s, item, res.Body.Bytes(), res.Truncated); !ok {
			return nil // the crawl fails
		}
	}
	item.Outcome.Sitemap = &s
	loan.Sitemap = nil
	if w.add(item, nil) && (a.Fault != frontier.NoFault || a.RetryAfter > 0) {
		w.buf.Flush()
	}
	return nil
}

// refuseSitemap ends a sitemap that must not be asked.
func (w *worker) refuseSitemap(loan *frontier.Loan, s record.Sitemap, reason string) error {
	s.State, s.Reason, s.Time, s.Status = record.SitemapFailed, reason, time.Now().Unix(), 0
	loan.Sitemap = nil
	w.add(&iut.Item{Outcome: record.Outcome{Sitemap: &s}}, nil)
	return nil
}

// answerSitemap returns what an answer means for a sitemap, and whether its body is to be read.
func (w *worker) answerSitemap(s *record.Sitemap, item *iut.Item, known bool, res *fetch.Response, err error) (a frontier.Answer, read bool) {
	s.Tries++
	s.Time, s.Status, s.Reason, s.Locs, s.Outside = time.Now().Unix(), 0, "", 0, 0
	fail := func(reason string) { s.State, s.Reason = record.SitemapFailed, reason }
	again := func(reason string) {
		if spares(a.Fault) {
			s.Spared = min(s.Spared, math.MaxUint8-1) + 1
		}
		if s.Reason = reason; int(s.Tries)-int(s.Spared) > w.opts.Retries {
			fail(reason)
		}
	}
	if reason := noTry(err); reason != "" {
		s.Tries--
		s.Reason, a.Away = reason, isAway(err)
		return a, false
	}
	if err != nil {
		failure, fault := failureOf(err, known)
		a.Fault, a.Cause = fault, failure.Reason
		if failure.Passing || spares(fault) {
			again(failure.Reason)
		} else {
			fail(failure.Reason)
		}
		return a, false
	}
	s.Status = uint16(res.Status)
	a = frontier.Answer{Took: res.First, RetryAfter: res.RetryAfter}
	switch status := res.Status; {
	case status == http.StatusNoContent || status == http.StatusResetContent || status == http.StatusNotModified:
		fail("no-content")
	case res.Partial():
		fail("partial")
	case status >= 200 && status < 300:
		return a, true
	case status >= 300 && status < 400:
		target := resolve(s.URL, res.Location)
		switch {
		case res.Location == "":
			fail(statusReason(status))
		case target == "" || len(target) > w.opts.MaxURL:
			fail("redirect-location")
		case s.Hops >= sitemapHops || target == s.URL:
			fail("redirect-loop")
		default:
			s.State, s.Reason = record.SitemapRead, "redirect"
			item.Sitemaps = []record.Sitemap{{URL: target, Level: s.Level, Hops: s.Hops + 1, Source: s.URL}}
		}
	case status == http.StatusTooManyRequests || status >= 500:
		a.Fault, a.Cause = faultOf(status), statusReason(status)
		again(a.Cause)
	default:
		fail(statusReason(status))
	}
	return a, false
}

// readSitemap makes links, or sitemaps to be read, of what a sitemap names; torn says that its body
// broke off. What fills an outcome goes into the buffer at once; it gives the last one. It is false
// when the crawl fails.
func (w *worker) readSitemap(s *record.Sitemap, item *iut.Item, body []byte, torn bool) (last *iut.Item, ok bool) {
	var (
		kind     = sitemap.Detect(body)
		deepest  = kind == sitemap.Index && s.Level >= sitemapLevels
		host     = record.Host(s.URL)
		size     = 0 // of what item names
		rank     = w.ranks(nil, 0)
		full     = errors.New("the crawl fails")
		rejected = map[string]int{}
		step     *disk.Step // reading
	)
	defer func() { w.linker.count(rejected) }()
	take := func(loc string) error {
		s.Locs++
		switch {
		case deepest, kind == sitemap.Index && len(loc) > w.opts.MaxURL:
		case kind == sitemap.Index && record.Host(loc) != host && !w.linker.scope.HasHost(loc):
			s.Outside++
		case kind == sitemap.Index:
			item.Sitemaps = append(item.Sitemaps, record.Sitemap{URL: loc, Level: s.Level + 1, Source: s.URL})
		default:
			link, reason := w.linker.admitLoc(s.URL, loc)
			if reason != "" {
				rejected[reason]++
				s.Outside++
			} else {
				item.Links = append(item.Links, link)
			}
		}
		if size += len(loc); len(item.Links)+len(item.Sitemaps) < sitemapLinks && size < sitemapBytes {
			return nil
		}
		item.Links = w.newLinks(rank, item.Links)
		added := false
		step.Wait(func() { added = w.add(item, nil) })
		if !added {
			return full
		}
		item, size = &iut.Item{}, 0
		return nil
	}
	var res sitemap.Result
	err := w.watch.Work("read", s.URL, 0, func(at *disk.Step) (err error) {
		step = at
		res, err = readSafely(s.URL, body, torn, take)
		return err
	})
	item.Links = w.newLinks(rank, item.Links)
	switch {
	case errors.Is(err, full):
		return nil, false
	case err != nil:
		w.opts.Log.Warn("sitemap", "err", err)
		s.State, s.Reason = record.SitemapFailed, "panic"
		return item, true
	case res.Kind == sitemap.None:
		s.State, s.Reason = record.SitemapFailed, noSitemap
		return item, true
	}
	s.State = record.SitemapRead
	switch {
	case res.Cut, torn && len(body) >= sitemap.MaxBytes:
		s.Reason = "cut"
	case res.Damaged:
		s.Reason = "damaged"
	case deepest:
		s.Reason = "nesting"
	}
	return item, true
}

// readSafely is sitemap.Read. What panics is the sitemap's fault, not the crawl's.
func readSafely(url string, body []byte, torn bool, take func(string) error) (res sitemap.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("read %s: panic: %v", url, p)
		}
	}()
	return sitemap.Read(url, bytes.NewReader(body), sitemap.Options{Torn: torn}, take)
}

// admitLoc makes a record's link of a URL that a sitemap names, one link from a seed, or gives the
// reason why it gets no record.
func (l *Linker) admitLoc(source, loc string) (link record.Link, rejected string) {
	url := l.strip.Apply(loc)
	if reason := l.reject(url); reason != "" {
		return link, reason
	}
	return record.Link{URL: url, Source: source, Depth: 1, Held: l.budgets.form(url)}, ""
}
