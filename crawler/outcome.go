package crawler

import (
	"errors"
	"math"
	"net/http"
	"strings"
	"time"

	"urltree/internal/extract"
	"urltree/internal/fetch"
	"urltree/internal/frontier"
	"urltree/internal/sitemap"
	"urltree/iut"
	"urltree/storage/record"
)

// Flags of a page in source.txt.
const (
	flagNone      = "-"
	flagNoFollow  = "n" // header or page said nofollow
	flagTruncated = "t" // the body is only the first part
	flagCut       = "c" // not all of its links are followed, there are too many
)

// maxHops is how many redirects in a row are followed.
const maxHops = 10

// judge turns what came back for a URL into its outcome. The times are left to the caller.
// known says that the host has answered before.
func (c *crawler) judge(item *iut.Item, known bool, res *fetch.Response, err error) frontier.Answer {
	if item.Row.Tries < math.MaxUint16 {
		item.Row.Tries++
	}
	now := time.Now().Unix()
	item.Outcome.Page = record.Page{Time: now, PageDepth: item.Row.Depth}
	if err != nil {
		return c.failed(item, known, err)
	}
	page := &item.Outcome.Page
	page.Status = uint16(res.Status)
	a := frontier.Answer{Took: res.First, RetryAfter: res.RetryAfter}
	switch status := res.Status; {
	case status == http.StatusNotModified && item.ETag+item.Modified != "":
		item.State, item.Same, item.Fresh = record.Stored, true, freshFor(res)
	case status == http.StatusNoContent || status == http.StatusResetContent || status == http.StatusNotModified:
		item.Fail("no-content")
	case res.Partial():
		item.Fail("partial")
	case status >= 200 && status < 300 && item.Row.Kind == record.SitemapRow:
		c.readSitemap(item, res)
	case status >= 200 && status < 300:
		c.page(item, res)
	case status >= 300 && status < 400 && item.Row.Kind == record.SitemapRow:
		c.redirectSitemap(item, res)
	case status >= 300 && status < 400:
		c.redirect(item, res)
	case status == http.StatusTooManyRequests || status >= 500:
		a.Cause, a.Fault = statusReason(status), faultOf(status)
		c.again(item, a.Cause, spares(a.Fault))
	case item.Row.Kind == record.SitemapRow:
		item.Fail(statusReason(status)) // few sites have one: it is not worth a login
	default:
		item.Fail(failReason(res))
	}
	switch {
	case item.State == record.Stored && !item.Same:
	case item.OfPage() && item.State != record.Refused && c.keepsAll(res):
		keep(item, res)
	default:
		res.Body.Release()
	}
	return a
}

// keepsAll reports whether an answer is kept though it is no page.
func (c *crawler) keepsAll(res *fetch.Response) bool { return c.opts.WARC.All && res.Wire != nil }

// keep lets an item carry an answer and its body, which the item releases from then on.
func keep(item *iut.Item, res *fetch.Response) {
	item.Answer = answerOf(res)
	if page := &item.Outcome.Page; res.Truncated {
		page.Flags = addFlag(page.Flags, flagTruncated)
	}
	if coded := res.Body.TakeCoded(); coded != nil { // what the tree keeps is all that is needed from here on
		res.Body.Release()
		res.Body = coded
	}
	if item.Temp = res.Body.Temp(); item.Temp == "" {
		item.Body = res.Body.Bytes()
	}
	item.Free = res.Body.Release // of a file that the tree has taken only the map goes
}

// statusReason returns the reason of a status that brought no page. One that HTTP does not have
// counts as one of a server that failed, as RFC 9110, 15 recommends; one below 200 ends no answer.
func statusReason(status int) string {
	switch {
	case status < 200:
		return fetch.Protocol
	case status < 400:
		return "http-3xx"
	case status < 500:
		return "http-4xx"
	}
	return "http-5xx"
}

// faultOf returns what the status of a failure, 429 or 5xx, means for the host. Other ones than
// these are of this URL; whether the host is in trouble shows with the next ones. 502 is how a
// server answers that stands before one which cannot be reached.
func faultOf(status int) frontier.Fault {
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return frontier.Refused
	case http.StatusBadGateway:
		return frontier.Unreached
	case http.StatusGatewayTimeout:
		return frontier.Broken
	}
	return frontier.NoFault
}

// spares reports whether a fault counts on the host alone, and uses up no try of the URL.
func spares(f frontier.Fault) bool { return f == frontier.Refused || f == frontier.Unreached }

// mostSpared is how often a URL is spared before it waits for the next run: the fault may be its
// own. It is also how often an origin is before it counts as unreachable in this run.
const mostSpared = 8

// failureOf returns the failure of a request, and what it means for the host. known says that the
// host has answered before: then that its name has no address will pass.
func failureOf(err error, known bool) (failure *fetch.Error, fault frontier.Fault) {
	if !errors.As(err, &failure) {
		failure = &fetch.Error{Reason: fetch.Protocol, Err: err}
	}
	switch failure.Reason {
	case fetch.DNS, fetch.Connect:
		if fault = frontier.Unreached; !failure.Passing && !known {
			fault = frontier.Broken
		}
	case fetch.Timeout, fetch.Reset:
		fault = frontier.Broken
	default:
		if fetch.IsTLS(failure.Reason) {
			fault = frontier.Broken
		}
	}
	return failure, fault
}

// noTry returns the reason for which a request is made again though it failed, if it is not the
// fault of what was asked for and costs it no try; and whether it did not get to its host.
func noTry(err error) (reason string, isAway bool) {
	var failure *fetch.Error
	var away errAway
	switch {
	case errors.Is(err, errNoRoom):
		return heldRoom, false
	case errors.As(err, &away):
		return away.reason, true
	case errors.As(err, &failure) && (failure.Reason == fetch.HTTP1 || failure.Reason == fetch.GoAway):
		return failure.Reason, false
	}
	return "", false
}

func (c *crawler) failed(item *iut.Item, known bool, err error) frontier.Answer {
	if reason, isAway := noTry(err); reason != "" {
		item.Row.Tries--
		item.State = record.Pending
		item.Next = record.Row{Range: record.Later, Reason: reason, Tries: item.Row.Tries, Spared: item.Row.Spared}
		return frontier.Answer{Away: isAway}
	}
	failure, fault := failureOf(err, known)
	if c.opts.Fetch != nil {
		fault = frontier.NoFault // a broken link says nothing of its host
	}
	a := frontier.Answer{Fault: fault, Cause: failure.Reason}
	c.opts.Log.Debug("fetch", "url", item.Row.URL, "err", err)
	switch {
	case failure.Reason == fetch.Address || failure.Reason == fetch.TooLarge:
		item.Refuse(failure.Reason)
	case failure.Passing || spares(fault):
		c.again(item, failure.Reason, spares(fault) || failure.Reason == fetch.Proxy)
	default:
		item.Fail(failure.Reason)
	}
	return a
}

// again asks once more later, unless all tries are used up. With spared this one uses up none.
func (c *crawler) again(item *iut.Item, reason string, spared bool) {
	row := &item.Row
	if spared && row.Spared < math.MaxUint8 {
		row.Spared++
	}
	if int(row.Tries)-int(row.Spared) > c.opts.Retries {
		item.Fail(reason)
		return
	}
	item.State = record.Pending
	item.Next = record.Row{Range: record.Later, Reason: reason, Tries: row.Tries, Spared: row.Spared}
}

// due returns when what has failed is asked again, as Unix nanoseconds: not before its host may be,
// and after tries before this one not within a time that doubles. What was spared before lets
// others of its host go first, for the fault may be its own.
func (c *crawler) due(host record.HostTimes, tries uint16, spared uint8) int64 {
	at := max(host.Next, c.frontier.Now()+int64(time.Second<<min(max(int(tries)-int(spared), 0), 10)))
	if spared > 0 {
		at = max(at, host.Next+int64(time.Second<<min(spared, 4)))
	}
	return at
}

// page makes a 2xx answer a stored page, or says why it is not one.
func (c *crawler) page(item *iut.Item, res *fetch.Response) {
	page := &item.Outcome.Page
	page.Media, page.Charset, page.Flags = res.Media, res.Charset, flagNone
	accepted := c.opts.accepts(res.Media)
	if res.Unwanted || !accepted && !sitemap.Detect(res.Body.Bytes()).Feed() {
		item.Refuse("type")
		return
	}
	noindex, nofollow := extract.Directives(res.Header["X-Robots-Tag"], c.rules.robots.token)
	if nofollow {
		page.Flags = addFlag(page.Flags, flagNoFollow)
	}
	if res.Truncated {
		page.Flags = addFlag(page.Flags, flagTruncated)
	}
	page.HeaderLinks = keptLinks(extract.HeaderLinks(item.Row.URL, res.Header))
	page.Bytes, page.Digest = res.Body.Len(), res.Body.Digest()
	if c.opts.Recrawl != 0 || item.Row.Kind == record.RevisitRow {
		item.ETag, item.Modified = validators(res)
		item.Fresh = freshFor(res)
	}
	if (!noindex || c.opts.IgnoreRobots) && c.same(item) {
		item.State, item.Same = record.Stored, true
		return
	}
	unwanted, err := c.parsePage(item, res)
	switch {
	case errors.Is(err, errParseBudget):
		c.opts.Log.Warn("parse", "url", item.Row.URL, "err", err)
		item.Fail("parse-budget")
	case err != nil:
		c.opts.Log.Warn("parse", "url", item.Row.URL, "err", err)
		item.Fail("panic")
	case !accepted:
		item.Refuse("type") // the links of a feed count all the same
	case (noindex || unwanted) && !c.opts.IgnoreRobots:
		item.Refuse("noindex") // its links count all the same
	case item.Row.Kind == record.PageRow && c.store.skips(page):
		item.Refuse(record.Duplicate) // as do its
	default:
		item.State = record.Stored
		if item.Row.Kind == record.RevisitRow {
			item.Difference = c.difference(item, res.Body.Bytes())
		}
		keep(item, res)
	}
}

// answerOf returns what a tree of segments keeps of an answer besides its body; nil: nothing.
func answerOf(res *fetch.Response) *iut.Answer {
	w := res.Wire
	if w == nil {
		return nil
	}
	return &iut.Answer{Request: w.Request, Head: w.Head, Protocol: w.Protocol, Peer: w.Addr, Time: w.Sent}
}

// keptLinks returns the links of an answer's headers as source.txt has them.
func keptLinks(links []extract.HeaderLink) string {
	var kept []string
	for _, l := range links {
		if l.Kept != "" {
			kept = append(kept, l.Kept)
		}
	}
	return strings.Join(kept, " ")
}

// addFlag adds a letter to the flags of a page.
func addFlag(flags, flag string) string {
	switch {
	case flags == flagNone:
		return flag
	case strings.Contains(flags, flag):
		return flags
	}
	return flags + flag
}

// redirect makes the target a link that takes over source and depth.
func (c *crawler) redirect(item *iut.Item, res *fetch.Response) {
	row := &item.Row
	if res.Location == "" {
		item.Fail(statusReason(res.Status))
		return
	}
	target := c.rules.linker.strip.Apply(resolve(row.URL, res.Location))
	switch {
	case target == "":
		item.Fail("redirect-location")
		return
	case row.Hops >= maxHops, target == row.URL && !res.CookieSet:
		item.Fail("redirect-loop")
		return
	}
	item.State, item.Answer = record.Redirected, answerOf(res)
	if c.rules.linker.isForgotten(target) {
		c.rules.linker.count(map[string]int{record.Forgotten: 1})
		item.Reason = record.Forgotten // and it is not named
		return
	}
	item.Outcome.Page.HeaderLinks = target
	seed := row.Source == record.Seed && len(target) <= maxRecord
	var areas []string
	var sitemaps []record.Link
	if seed {
		c.rules.linker.scope.Widen(target)
		areas = c.rules.linker.Areas(target)
		// The robots.txt of its host may have been read before the host belonged to this crawl.
		rules, err := c.rules.robots.rules(record.Origin(target))
		if err != nil {
			c.opts.Log.Warn("robots.txt of a redirect's target", "url", target, "err", err)
		}
		sitemaps = c.rules.linker.namedSitemaps(record.Origin(target), rules, c.opts.MaxURL)
	} else if reason := c.rules.linker.reject(target); reason != "" {
		c.rules.linker.count(map[string]int{reason: 1})
		item.Reason = reason
		return
	}
	item.Links = []record.Link{{
		URL: target, Source: row.Source, Via: row.URL, Depth: row.Depth, Hops: row.Hops + 1,
		Cookie: row.Cookie || res.CookieSet, Areas: areas,
	}}
	c.ranks(row, len(item.Links))(item.Links)
	item.Links = append(item.Links, sitemaps...)
}
