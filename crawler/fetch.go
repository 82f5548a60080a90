package crawler

import (
	"errors"
	"fmt"
	"time"

	"urltree/internal/fetch"
	"urltree/internal/frontier"
	"urltree/iut"
	"urltree/storage/record"
)

// work asks for the URLs of a loan one after the other. free lets the next download begin; it is
// called once a page waits for a parse worker, or else by the caller.
func (c *crawler) work(loan *frontier.Loan, free func()) {
	rows := loan.Rows
	defer func() { c.giveBack(loan, rows) }()
	for _, h := range loan.Held {
		o := record.Outcome{Row: h.Row, State: record.Pending, Next: h.Row}
		o.Next.Range, o.Next.Reason = record.Held, h.Reason
		if h.Row.Kind == record.RobotsRow {
			o.Robots = c.rules.robots.lost(h.Row.Source, h.Reason)
		}
		item := &iut.Item{Outcome: o}
		if h.Row.Kind == record.OutsideRow {
			endUnreached(item)
		}
		c.add(item, 0)
	}
	for len(rows) > 0 {
		if c.ends.fetching.Err() != nil {
			return
		}
		done, next, err := c.handle(loan, &rows[0], free)
		if err != nil {
			c.ends.fail(err)
			return
		}
		if !done {
			return
		}
		rows = rows[1:]
		if next > c.frontier.Now() || c.network.pause.on() {
			return // the host, or the disk, wants to rest before the others
		}
	}
}

// handle brings a row of a loan to an outcome in the buffer, by the handler of its kind. Each
// handler asks by request, makes an outcome of the reply, and ends by finish, or by add where
// nothing was asked.
//
// If the row is done, its outcome is in the buffer; next is the time before which the host may not
// be asked again, 0 if that has not changed. If not, the row and the rest of the loan go back to
// the frontier as they are: fetching has stopped, the host or the disk must rest first, or the
// answer of a robots.txt is needed that is not there. A robots.txt is never done, since its row is
// on no disk. An error is one of the disk, and ends the crawl.
func (c *crawler) handle(loan *frontier.Loan, row *record.Row, free func()) (done bool, next int64, err error) {
	switch row.Kind {
	case record.RobotsRow:
		return false, 0, c.askRobots(loan, row) // nothing waits for it to be done
	case record.SitemapRow:
		return c.askSitemap(loan, row)
	case record.OutsideRow:
		return c.askOutside(loan, row)
	}
	return c.askPage(loan, row, free) // for the first time, or again
}

// A reply is what one request came to.
type reply struct {
	start, end time.Time
	res        *fetch.Response // nil: err is why
	err        error
}

// request makes one request of a loan. It returns false if none may be made now, or if fetching
// stopped first. An error is one of the disk.
func (c *crawler) request(loan *frontier.Loan, url string, req fetch.Request) (r reply, ok bool, err error) {
	if !c.network.pause.begin() {
		return r, false, nil
	}
	if !c.frontier.Begin(loan) {
		c.network.pause.drop()
		return r, false, nil
	}
	c.measured.asked.Store(true)
	c.flying.Add(1)
	r.start = time.Now()
	r.res, r.err = c.network.get(c.ends.transfers, url, req)
	r.err = c.network.pause.end(loan.Host, loan.Known, r.err)
	r.end = time.Now()
	c.flying.Add(-1)
	switch {
	case r.err != nil && c.ends.transfers.Err() != nil, errors.Is(r.err, errNotAsked):
		return r, false, nil
	case errors.Is(r.err, fetch.ErrDisk) && !errors.Is(r.err, errNoRoom):
		return r, false, fmt.Errorf("%w: body of %s: %w", iut.ErrDisk, url, r.err)
	}
	return r, true, nil
}

// obeys looks whether robots.txt allows the row of an item, and refuses it if not. It returns false
// if the answer is not known after all: the frontier asks for it first.
func (c *crawler) obeys(item *iut.Item) (known bool, err error) {
	rules, err := c.rules.robots.rules(record.Origin(item.Row.URL))
	if rules == nil {
		return false, err
	}
	if ok, _ := rules.Allowed(pathOf(item.Row.URL)); !ok {
		item.Refuse("robots")
	}
	return true, nil
}

// finish reports to the frontier how the host took a request that began at start, decides when a
// row is asked again that is still pending, and puts its outcome into the buffer. row is the row as
// it was lent. It fails only when the crawl does.
func (c *crawler) finish(loan *frontier.Loan, row *record.Row, item *iut.Item, a frontier.Answer, start time.Time) (next int64, ok bool) {
	if a.Start = start; a.End.IsZero() {
		a.End = time.Now()
	}
	a.Failed = item.OfPage() && item.State == record.Failed
	times := c.frontier.Answered(loan, a)
	item.Host = &times
	if item.State == record.Pending {
		item.Next.Due = c.due(times, row.Tries, row.Spared)
		spared := item.Next.Spared >= mostSpared
		switch {
		case row.Kind == record.SitemapRow && spared:
			item.Fail(item.Next.Reason)
		case row.Kind != record.SitemapRow && (spared && spares(a.Fault) || a.Cause == fetch.Proxy):
			item.Next.Range, item.Next.Due, item.Next.Run = record.Held, 0, row.Run
			item.Next.Reason = heldRefused + ":" + item.Next.Reason
			if row.Kind == record.OutsideRow {
				endUnreached(item)
			}
		}
	}
	if !c.add(item, time.Since(start)) {
		return 0, false
	}
	if a.Fault != frontier.NoFault || a.RetryAfter > 0 {
		// How long the host wants to be left alone must not be lost.
		c.buf.Flush()
	}
	return times.Next, true
}
