package crawler

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"urltree/crawler/weburl"
	"urltree/internal/fetch"
	"urltree/internal/frontier"
	"urltree/internal/robots"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

const (
	robotsLife = 24 * time.Hour // RFC 9309, 2.4
	robotsHops = 5              // RFC 9309, 2.3.1.2
	rulesKept  = 8 << 20        // bytes of parsed files in memory; the others are read from the index again
	agesKept   = 1 << 17        // origins of which the age of the answer is in memory
)

// A robotsCache knows what each origin answered to the request for its robots.txt. The answers
// live in the index; in memory are the ages and rules of those in use, and what has failed in
// this run.
type robotsCache struct {
	index *storage.Index
	token string // our product token
	tries uint32 // requests before an origin counts as unreachable in this run
	since int64  // Unix seconds when this run began
	// found is called with the Crawl-delay of a host, 0 for none.
	found func(host string, delay time.Duration)
	// forgotten reports whether a URL is kept out of the tree.
	forgotten func(url string) bool

	mu      sync.Mutex
	origins map[string]*robotsEntry // guarded by mu
	kept    int64                   // guarded by mu; bytes of all rules

	// reading is held while rules of the index are read and parsed: what a file may make of itself
	// is there once. Before mu.
	reading sync.Mutex
}

type robotsEntry struct {
	valid time.Time     // the answer counts until then; zero: there is none
	tries uint32        // failed in a row, in this run
	spare uint32        // and those of which the fault counts on the host
	over  bool          // no more tries in this run
	cause string        // what the last of these tries came to
	rules *robots.Rules // nil: to be read from the index
	used  time.Time     // when it was asked for or read
}

// answered reports whether a status is an answer: 2xx gives rules, other 4xx allow everything.
// 5xx, 429 and no answer at all forbid everything until there is one (RFC 9309, 2.3.1).
func answered(status uint16) bool {
	return status >= 200 && status < 500 && status != http.StatusTooManyRequests
}

func newRobotsCache(index *storage.Index, token string, tries uint32, since int64) *robotsCache {
	return &robotsCache{
		index: index, token: token, tries: tries, since: since, origins: map[string]*robotsEntry{}, forgotten: func(string) bool { return false },
	}
}

// need reports whether robots.txt has to be asked for before any URL of the origin.
func (c *robotsCache) need(origin string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entryLocked(origin)
	return e == nil || !e.over && time.Now().After(e.valid)
}

// entryLocked returns what is known of an origin, by the answer in the index where that is not in
// memory. What it cannot read is asked for again.
func (c *robotsCache) entryLocked(origin string) *robotsEntry {
	if e := c.origins[origin]; e != nil {
		return e
	}
	row, ok, err := c.index.Hosts().Robots(origin)
	e := &robotsEntry{}
	switch {
	case err != nil || !ok:
		return nil
	case answered(row.Status):
		// Not longer than from now on: the clock may have been ahead when the answer was stored.
		now := time.Now()
		e.valid = now.Add(min(robotsLife, time.Unix(row.Time, 0).Add(robotsLife).Sub(now)))
	case row.Time > c.since:
		e.cause = row.Reason
		if spares(faultOf(int(row.Status))) || row.Reason == fetch.DNS || row.Reason == fetch.Connect {
			e.spare = row.Tries
		} else {
			e.tries = row.Tries
		}
		e.over = e.tries >= c.tries || e.spare >= mostSpared
	default:
		return nil // each run tries anew
	}
	c.putLocked(origin, e)
	return e
}

// putLocked keeps an entry. When there are too many, those are forgotten that have long been in
// the index.
func (c *robotsCache) putLocked(origin string, e *robotsEntry) {
	e.used = time.Now()
	if len(c.origins) >= agesKept {
		old := e.used.Add(-10 * time.Minute)
		for other, e := range c.origins {
			if e.used.Before(old) {
				c.dropLocked(other)
			}
		}
	}
	c.dropLocked(origin)
	c.origins[origin] = e
	if e.rules != nil {
		c.kept += e.rules.Size()
	}
}

// dropLocked forgets an origin, if it is there.
func (c *robotsCache) dropLocked(origin string) {
	if e := c.origins[origin]; e != nil && e.rules != nil {
		c.kept -= e.rules.Size()
	}
	delete(c.origins, origin)
}

// unreachable reports whether an origin has given no answer after all tries of this run, and what
// the last one came to.
func (c *robotsCache) unreachable(origin string) (cause string, yes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entryLocked(origin)
	if e == nil || !e.over || !time.Now().After(e.valid) {
		return "", false
	}
	return e.cause, true
}

// rules returns the rules of an origin that has answered; nil if it must be asked after all, since
// the answer is neither in memory nor in the index.
func (c *robotsCache) rules(origin string) (*robots.Rules, error) {
	c.mu.Lock()
	e := c.entryLocked(origin)
	if e == nil || e.valid.IsZero() {
		c.mu.Unlock()
		return nil, nil
	}
	rules, valid := e.rules, e.valid
	c.mu.Unlock()
	if rules != nil {
		return rules, nil
	}
	c.reading.Lock()
	defer c.reading.Unlock()
	row, ok, err := c.index.Hosts().Robots(origin)
	if err != nil && !errors.Is(err, record.ErrCorrupt) {
		return nil, err
	}
	if err != nil || !ok {
		// The row is lost, or its commit is still under way.
		c.mu.Lock()
		c.dropLocked(origin)
		c.mu.Unlock()
		return nil, nil
	}
	rules = parseRobots(row, c.token)
	c.keep(origin, valid, rules)
	return rules, nil
}

func (c *robotsCache) keep(origin string, valid time.Time, rules *robots.Rules) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Large ones go first: one host's rules must not drive out those of all others.
	for _, least := range []int64{rulesKept / 128, 0} {
		if c.kept+rules.Size() <= rulesKept {
			break
		}
		for _, e := range c.origins {
			if e.rules != nil && e.rules.Size() >= least {
				c.kept -= e.rules.Size()
				e.rules = nil
			}
		}
	}
	c.putLocked(origin, &robotsEntry{valid: valid, rules: rules})
}

func parseRobots(r record.Robots, token string) *robots.Rules {
	if r.Status >= 400 {
		return robots.AllowAll
	}
	return robots.Parse([]byte(r.Text), token)
}

// A robotsAnswer is what one request for a robots.txt, or for the URL to which it redirects, has
// come to.
type robotsAnswer struct {
	row  *record.Robots  // to be stored; nil: nothing was asked, or a redirect leads on
	next string          // where a redirect leads on
	host frontier.Answer // how the host took it
}

// learn takes what one request for a robots.txt came to, which counts at once. known says that the
// host asked has answered before.
func (c *robotsCache) learn(of *record.Row, known bool, r *reply) (a robotsAnswer) {
	origin := of.Source
	row := &record.Robots{Origin: origin, Time: r.end.Unix()}
	a.host.End = r.end
	if r.err != nil {
		var failure *fetch.Error
		failure, a.host.Fault = failureOf(r.err, known)
		if failure.Reason == fetch.Address && of.Hops == 0 {
			// Nothing was asked, and nothing will be: the guard refuses each URL by itself.
			c.keep(origin, time.Now().Add(robotsLife), robots.AllowAll)
			return a
		}
		row.Reason = failure.Reason
	} else {
		row.Status = uint16(r.res.Status)
		a.host.Took, a.host.RetryAfter = r.res.First, r.res.RetryAfter
		switch {
		case r.res.Status >= 300 && r.res.Status < 400:
			a.next = resolve(of.URL, r.res.Location)
			if a.next != "" && len(a.next) <= maxRecord && of.Hops < robotsHops && !c.forgotten(a.next) {
				return a
			}
			row.Status, a.next = http.StatusNotFound, "" // as good as missing
		case r.res.Status < 300:
			row.Text = string(r.res.Body.Bytes())
		}
	}
	a.row = row
	if answered(row.Status) {
		rules := parseRobots(*row, c.token)
		c.keep(origin, r.end.Add(robotsLife), rules)
		c.found(record.Host(origin+"/"), rules.CrawlDelay)
		return a
	}
	if row.Reason == "" {
		row.Reason, a.host.Fault = statusReason(int(row.Status)), faultOf(int(row.Status))
	}
	if a.host.Fault == frontier.NoFault {
		a.host.Fault = frontier.Broken // of an origin that gives no robots.txt nothing can be asked
	}
	a.host.Cause = row.Reason
	a.host.Over = c.fail(row, spares(a.host.Fault), c.spares(origin, a.host.Fault, known))
	return a
}

// fail counts a request that was no answer, by row.Reason. Those that are spared make the origin
// unreachable in this run when there are most of them; over reports whether it is.
func (c *robotsCache) fail(row *record.Robots, spared bool, most uint32) (over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := &robotsEntry{cause: row.Reason}
	if before := c.origins[row.Origin]; before != nil {
		e.tries, e.spare = before.tries, before.spare
	}
	if spared {
		e.spare++
	} else {
		e.tries++
	}
	e.over = e.tries >= c.tries || e.spare >= most
	row.Tries = e.tries + e.spare
	c.putLocked(row.Origin, e)
	return e.over
}

// lost makes an origin unreachable in this run whose robots.txt leads to a host that is given up.
func (c *robotsCache) lost(origin, cause string) *record.Robots {
	row := &record.Robots{Origin: origin, Reason: cause, Time: time.Now().Unix()}
	c.fail(row, true, 1)
	return row
}

// spares returns how many faults of a kind that counts on the host make an origin unreachable in
// this run. An origin that has never answered, and cannot be reached, is likely not to be there,
// and the other origins of its host wait meanwhile: above all if known says that one of them has
// answered.
func (c *robotsCache) spares(origin string, fault frontier.Fault, known bool) uint32 {
	switch {
	case fault != frontier.Unreached:
		return mostSpared
	case !known:
		return 2*c.tries - 1
	}
	if before, ok, err := c.index.Hosts().Robots(origin); err == nil && ok && answered(before.Status) {
		return mostSpared
	}
	return c.tries + 1
}

// askRobots makes one request for a robots.txt, and puts its outcome into the buffer. Where a
// redirect leads on, the next request waits for the turn of the host that it asks.
func (c *crawler) askRobots(loan *frontier.Loan, row *record.Row) error {
	r, ok, err := c.request(loan, row.URL, fetch.Request{Accept: "text/plain,*/*;q=0.5", MaxSize: robots.MaxBytes, KeepLarge: true})
	if !ok {
		return err
	}
	if reason, isAway := noTry(r.err); reason != "" {
		c.frontier.Answered(loan, frontier.Answer{Start: r.start, End: r.end, Away: isAway})
		return nil
	}
	kept := false
	if r.res != nil {
		defer func() {
			if !kept {
				r.res.Body.Release()
			}
		}()
		if r.res.Status < 300 {
			parsed, err := c.places.acquireParser(c.ends.transfers, 0)
			if err != nil {
				return nil
			}
			defer parsed()
		}
	}
	a := c.rules.robots.learn(row, loan.Known, &r)
	if a.row == nil && a.next == "" {
		return nil
	}
	if a.next != "" {
		on := false
		if !c.opts.away(a.next) { // else another node asks that host, for its own URLs alone
			if on, err = c.frontier.Redirected(loan, a.next); err != nil {
				return err
			}
		}
		if !on { // or there is not room for so many that wait
			a.row = &record.Robots{Origin: row.Source, Reason: statusReason(http.StatusFound), Time: time.Now().Unix()}
			c.rules.robots.fail(a.row, false, 1)
		}
	}
	item := &iut.Item{Outcome: record.Outcome{Row: *row, Robots: a.row}}
	if a.row != nil && answered(a.row.Status) {
		rules := parseRobots(*a.row, c.rules.robots.token)
		if !c.opts.External { // else the next crawl would read those of hosts outside
			item.Links = c.rules.linker.namedSitemaps(row.Source, rules, c.opts.MaxURL)
		}
		c.frontier.Expect(1) // what they are is known when this is committed
		if row.Hops > 0 && rules.CrawlDelay > 0 {
			c.add(&iut.Item{Outcome: record.Outcome{Row: *row, Host: new(c.frontier.Times(record.Host(row.Source + "/")))}}, 0)
		}
	}
	if kept = r.res != nil && c.keepsAll(r.res); kept {
		keep(item, r.res)
	}
	if _, ok := c.finish(loan, row, item, a.host, r.start); ok && kept {
		r.res.Body.HandOver() // the buffer counts its bytes now
	}
	return nil
}

// resolve returns the canonical URL that a Location header of url names, or "".
func resolve(url, location string) string {
	base, err := weburl.NewBase(url)
	if err != nil || location == "" {
		return ""
	}
	target, _ := base.Resolve(weburl.EscapeBytes(location)) // "" with an error
	return target
}
