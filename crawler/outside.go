package crawler

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"iter"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	"urltree/internal/edges"
	"urltree/internal/fetch"
	"urltree/internal/frontier"
	"urltree/internal/inspect"
	"urltree/internal/seen"
	"urltree/internal/spool"
	"urltree/iut"
	"urltree/storage/record"
)

const (
	outsideAccept = "*/*"
	outsideMemory = 8 << 20 // bytes of targets that are sorted in memory
	outsideRecent = 1 << 14 // targets that are remembered, so that one which each page has is not sorted as often
)

// checkExternal says what is wrong with options beside External. A kill is to lose few answers, for
// each is a request made in vain: no more are on the way to the index than there are downloads.
func (o *Options) checkExternal() error {
	if !o.External {
		if o.ExternalAge != 0 {
			return fmt.Errorf("%w: ExternalAge is of External alone", ErrOptions)
		}
		return nil
	}
	name := o.firstSet("NoTree", "Fetch", "Archives", "MoreSeeds")
	if name == "" && len(o.Seeds) > 0 {
		name = "Seeds"
	}
	if name != "" {
		return fmt.Errorf("%w: External asks what a tree refers to: %s must be unset", ErrOptions, name)
	}
	o.Buffers, o.BufferSize = 1, o.Crawlers*o.Downloads
	return nil
}

// openOutside is open for a run with Options.External. If nothing is left to ask, it returns
// errNothingLeft; if there is no tree, ErrNoWork.
func (e *engine) openOutside(ctx context.Context) error {
	if _, err := iut.ReadFormat(e.opts.Tree); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: there is no tree %s", ErrNoWork, e.opts.Tree)
	}
	for _, step := range []func(context.Context) error{
		e.openTree, e.openIndex, e.nameOutside, e.beginRun, e.makeClient, e.fillFrontier,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// nameOutside makes the targets outside of the references of all stored pages known, and opens
// those that are to be asked again. If none is left to ask, it returns errNothingLeft.
func (e *engine) nameOutside(ctx context.Context) (err error) {
	index := e.store.index
	e.rules.linker.Use(index)
	if err := index.LoadFilter(ctx); err != nil {
		return err
	}
	now := time.Now()
	_, err = index.Outside().Reopen(ctx, func(r *record.Record) bool {
		return r.State == record.Pending ||
			r.State == record.Refused && (r.Reason == "address" && e.opts.AllowPrivate || r.Reason == "robots" && e.opts.IgnoreRobots) ||
			e.opts.ExternalAge > 0 && !time.Unix(r.Time, 0).Add(e.opts.ExternalAge).After(now)
	})
	if err != nil {
		return err
	}
	found := spool.NewSorter(outsideMemory, 32)
	defer func() {
		if closed := found.Close(); err == nil {
			err = closed
		}
	}()
	if err := e.findOutside(ctx, found); err != nil {
		return err
	}
	if err := index.Outside().Enter(outsideLinks(ctx, found.Sorted())); err != nil {
		return err
	}
	if index.Totals().Outside == 0 {
		return errNothingLeft
	}
	return nil
}

// findOutside adds the target of each reference that seems to lead outside.
func (e *engine) findOutside(ctx context.Context, found *spool.Sorter) error {
	filter, told := e.store.index.Filter(), time.Now()
	totals := e.store.index.Totals()
	p := Progress{Phase: "scan", External: true, Size: totals.Stored + totals.Redirected}
	recent, seed := make([]string, outsideRecent), maphash.MakeSeed()
	return e.graph().Pages(ctx, func(page edges.Page) error {
		if p.Read++; e.opts.Progress != nil && time.Since(told) >= time.Second {
			told = time.Now()
			e.opts.Progress(p)
		}
		for i := range page.Edges {
			url := page.Edges[i].To
			if filter.Lookup(filter.Fingerprint(url)) == seen.Known || !e.rules.linker.asksOutside(url, e.opts.MaxURL) {
				continue
			}
			last := &recent[maphash.String(seed, url)%outsideRecent]
			key, err := record.Key(url)
			if *last == url || err != nil {
				continue
			}
			*last = url
			if err := found.Add(spool.Row{Key: string(key), Values: [2]string{page.URL}}); err != nil {
				return err
			}
		}
		return nil
	})
}

// asksOutside reports whether a URL may be asked as a target outside: it has at most so many bytes,
// no pattern excludes it, and it has not been forgotten.
func (l *Linker) asksOutside(url string, mostURL int) bool {
	return len(url) <= mostURL && !l.scope.Excludes(url) && !l.isForgotten(url)
}

// outsideLinks returns links to the targets of sorted rows, each once.
func outsideLinks(ctx context.Context, rows spool.Cursor) iter.Seq2[record.Link, error] {
	return func(yield func(record.Link, error) bool) {
		for last := ""; ; {
			row, err := rows()
			if err == io.EOF {
				return
			}
			if err == nil {
				err = ctx.Err()
			}
			if err == nil && row.Key == last {
				continue
			}
			last = row.Key
			l := record.Link{Kind: record.OutsideRow, Source: row.Values[0]}
			if err == nil {
				l.URL, err = record.URL([]byte(row.Key))
			}
			if !yield(l, err) || err != nil {
				return
			}
		}
	}
}

// outsideStore is where the frontier of a run with Options.External reads.
func (e *engine) outsideStore(opts *frontier.Options) {
	opts.Store, opts.Live, opts.NoSitemaps = e.store.index.Outside(), e.store.index.Totals().Outside, true
	opts.Admit = func(row *record.Row) string { return e.unreachable(row) }
}

// askOutside brings a target outside to what it comes to, in the buffer. The first request is by
// HEAD, and any other by GET, of which no body is read.
func (c *crawler) askOutside(loan *frontier.Loan, row *record.Row) (done bool, next int64, err error) {
	item := &iut.Item{Outcome: record.Outcome{Row: *row}}
	if !c.opts.IgnoreRobots {
		if known, err := c.obeys(item); !known {
			return false, 0, err
		}
		if item.State == record.Refused {
			return c.add(item, 0), 0, nil
		}
	}
	head := row.Tries == 0
	r, ok, err := c.request(loan, row.URL, fetch.Request{Accept: outsideAccept, Head: head, NoBody: true})
	if !ok {
		return false, 0, err
	}
	var a frontier.Answer
	if r.err != nil {
		a = c.outsideFailed(item, loan.Known, head, r.err)
	} else {
		a = c.judgeOutside(item, head, r.res)
		r.res.Body.Release()
	}
	next, done = c.finish(loan, row, item, a, r.start)
	c.buf.Flush()
	return done, next, nil
}

// asked counts a request for a target outside.
func asked(item *iut.Item) {
	if item.Row.Tries < math.MaxUint16 {
		item.Row.Tries++
	}
	item.Outcome.Page = record.Page{Time: time.Now().Unix()}
}

// outsideFailed is for a request that brought no answer. After one by HEAD another one by GET may
// do better, unless the connection could not be made.
func (c *crawler) outsideFailed(item *iut.Item, known, head bool, err error) frontier.Answer {
	asked(item)
	a := c.failed(item, known, err)
	if _, unreached := inspect.Unreached(item.Reason); head && item.State == record.Failed && (!unreached || item.Reason == fetch.Reset || item.Reason == fetch.Timeout) {
		c.again(item, item.Reason, true)
	}
	return a
}

// judgeOutside makes of an answer what the target comes to.
func (c *crawler) judgeOutside(item *iut.Item, head bool, res *fetch.Response) frontier.Answer {
	asked(item)
	item.Outcome.Page.Status = uint16(res.Status)
	a := frontier.Answer{Took: res.First, RetryAfter: res.RetryAfter}
	switch status := res.Status; {
	case status >= 200 && status < 300, status == http.StatusNotModified:
		item.State = record.Works
	case status >= 300 && status < 400:
		c.redirectOutside(item, res)
	case head && refusesHead(status):
		c.again(item, statusReason(status), true)
	case status == http.StatusTooManyRequests || status >= 500:
		a.Cause, a.Fault = statusReason(status), faultOf(status)
		c.again(item, a.Cause, spares(a.Fault))
	default:
		item.Fail(failReason(res))
	}
	return a
}

// refusesHead reports whether an answer to HEAD with this status may be about the method: of
// servers that do not know it, or fail on it, and of firewalls that take it for an attack.
func refusesHead(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusInternalServerError, http.StatusNotImplemented:
		return true
	}
	return false
}

// redirectOutside makes where a redirect leads a target outside of its own.
func (c *crawler) redirectOutside(item *iut.Item, res *fetch.Response) {
	row := &item.Row
	target := c.rules.linker.strip.Apply(resolve(row.URL, res.Location))
	switch {
	case res.Location == "":
		item.Fail(statusReason(res.Status))
	case target == "" || len(target) > c.opts.MaxURL:
		item.Fail("redirect-location")
	case target == row.URL && res.CookieSet:
		c.again(item, "redirect-loop", false) // with the cookie it may get further
	case row.Hops >= maxHops || target == row.URL:
		item.Fail("redirect-loop")
	default:
		item.State, item.Outcome.Page.HeaderLinks = record.Redirected, target
		if c.rules.linker.asksOutside(target, c.opts.MaxURL) {
			item.Links = []record.Link{{Kind: record.OutsideRow, URL: target, Source: row.Source, Via: row.URL, Hops: row.Hops + 1}}
		}
	}
}

// endUnreached makes an outcome by which a target outside is held a failure, if it says that its
// host cannot be reached. Others wait for a later run.
func endUnreached(item *iut.Item) {
	if _, yes := inspect.Unreached(item.Next.Reason); yes {
		item.Fail(item.Next.Reason)
		item.Outcome.Page.Time = time.Now().Unix()
	}
}

// outside counts the targets outside that have come to something in this run.
type outside struct{ done atomic.Int64 }

// committed takes note of an outcome that is durable, and of where its row waits now.
func (o *outside) committed(it *iut.Item, next record.Row) {
	if it.Row.Kind == record.OutsideRow && next.Range == 0 {
		o.done.Add(1)
	}
}
