package crawler

import (
	"context"
	"errors"
	"net/http"
	"time"

	"urltree/internal/fetch"
	"urltree/iut"
	"urltree/storage/record"
)

// A stored page that is asked again is a row of the frontier as a URL is that was not asked yet,
// and goes the same way. Its record is stored all the while. What is due later the frontier does
// not see, so it keeps no run alive.

// lookForDue is how often a run looks whether further stored pages are due.
const lookForDue = 10 * time.Second

// markRevisits says of each stored page when it is due, if that is by another plan than in the last
// run, and has those asked that are due now.
func (e *engine) markRevisits(ctx context.Context) error {
	revisits, now := e.store.index.Revisits(), time.Now()
	was, err := revisits.Plan()
	if err != nil {
		return err
	}
	plan, schedule := e.opts.plan(), e.opts.schedule()
	switch {
	case plan == was && e.opts.Recrawl != RecrawlNow:
	case e.opts.Recrawl == 0:
		err = revisits.SetPlan(plan)
	default:
		_, err = revisits.Mark(ctx, nil, func(r *record.Record) int64 {
			if schedule == nil || r.Due != 0 && r.Due <= now.UnixNano() {
				return record.DueAtOnce
			}
			return schedule.Next(e.lastLook(r), 0)
		})
		if err == nil {
			err = revisits.SetPlan(plan)
		}
	}
	if err == nil && e.opts.Cluster != nil && e.opts.Recrawl != 0 {
		err = e.reopenMoved(ctx, now)
	}
	if err == nil {
		_, err = revisits.Queue(ctx, now, nil)
	}
	return err
}

// reopenMoved has pages asked that are due and that another process has, which stored them before
// it handed their hosts over: it asks them no more. Both trees have them then, and this one the
// later answer, whose record is of a higher generation.
func (e *engine) reopenMoved(ctx context.Context, now time.Time) error {
	schedule := e.opts.schedule()
	_, err := e.store.index.Reopen(ctx, nil, func(r *record.Record) bool {
		if !r.IsElsewhere() || r.Status == 0 || e.opts.away(r.URL) {
			return false
		}
		return schedule == nil || schedule.Next(e.lastLook(r), 0) <= now.UnixNano()
	}, nil)
	return err
}

// lastLook returns what the last look at a stored page came to, or its first answer.
func (e *engine) lastLook(r *record.Record) *record.Look {
	l, ok, err := e.store.index.Revisits().Look(r.URL)
	if !ok || err != nil {
		l = record.Look{State: record.Stored, Status: r.Status}
	}
	l.Time = max(l.Time, r.Time)
	return &l
}

// queueRevisits has stored pages asked as they come due while the crawl goes on.
func (e *engine) queueRevisits(fetching context.Context) error {
	if e.opts.schedule() == nil || e.steps != nil { // between steps nothing else becomes work
		return nil
	}
	tick := time.NewTicker(lookForDue)
	defer tick.Stop()
	for {
		select {
		case <-fetching.Done():
			return nil
		case now := <-tick.C:
			e.frontier.Expect(1)
			_, err := e.store.index.Revisits().Queue(fetching, now, e.found)
			e.frontier.Expect(-1)
			if err != nil {
				return unlessOver(fetching, err)
			}
		}
	}
}

// conditions has the page of an item asked again only for other content, if its server has said by
// what it knows that.
func (c *crawler) conditions(item *iut.Item) error {
	if item.Row.Kind != record.RevisitRow {
		return nil
	}
	l, _, err := c.store.index.Revisits().Look(item.Row.URL)
	if errors.Is(err, iut.ErrDisk) {
		return err
	}
	item.ETag, item.Modified = l.ETag, l.Modified // of a damaged look nothing is known
	return nil
}

// mostValidator is how many bytes of a header are kept for the next look.
const mostValidator = 512

// validators returns the headers ETag and Last-Modified by which a server knows what it has sent,
// as far as they can be relied on: not of an answer that did not come whole, nor a time so near
// that of the answer that the page may have changed once more within that second.
func validators(res *fetch.Response) (tag, modified string) {
	if res.Truncated {
		return "", ""
	}
	if tag = res.Header.Get("ETag"); len(tag) > mostValidator {
		tag = ""
	}
	modified = res.Header.Get("Last-Modified")
	changed, err := http.ParseTime(modified)
	sent, without := http.ParseTime(res.Header.Get("Date"))
	if err != nil || without != nil || len(modified) > mostValidator || !changed.Before(sent) {
		modified = ""
	}
	return tag, modified
}

// same reports whether a page that was asked again has the content that is stored.
func (c *crawler) same(item *iut.Item) bool {
	if item.Row.Kind != record.RevisitRow {
		return false
	}
	was, err := c.store.index.Record(item.Row.URL)
	page := &item.Outcome.Page
	return err == nil && was.State == record.Stored && was.Digest == page.Digest && was.Bytes == page.Bytes
}
