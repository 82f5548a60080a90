package storage

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// A stored page may be asked again. Its record stays stored all the while: it waits for its time by
// Due, is to be asked once it has a Range, see [Revisits.Queue], and waits again after the outcome.
// Its row follows from the record, as that of a pending one does.

// askedAgainAfter is how long a page waits that its run could not ask, or must not.
const askedAgainAfter = time.Hour

// putRevisit writes the row of a stored page that is to be asked again, now or later.
func (c *change) putRevisit(e *entry, rows *boltfile.Puts) {
	keyOf := func(r *record.Record) []byte {
		if r.Revisits() == 0 && !r.Awaits() {
			return nil
		}
		return c.w.arena.Keep(func(b []byte) []byte { return r.AppendRevisitKey(b, e.key) })
	}
	before, after := keyOf(e.old), keyOf(e.rec)
	if after != nil {
		rows.Put(after, c.w.arena.Keep(func(b []byte) []byte { return binary.BigEndian.AppendUint32(b, e.rec.Run) }))
	}
	if before != nil && !bytes.Equal(before, after) {
		rows.Delete(before)
	}
	if e.old != nil && e.old.State == record.Stored && (e.rec == nil || e.rec.State != record.Stored) {
		c.seen.Delete(e.key)
	}
}

// A Recrawl says when stored pages are asked again.
type Recrawl interface {
	// Next returns when a page is due, in Unix nanoseconds, after the look l at it, which may have
	// been the first answer; 0: never. fresh is how many seconds its server says it will not
	// change.
	Next(l *record.Look, fresh int64) int64
	// Place returns the place of a page that is due at a time in Unix seconds among those of its host
	// that are, the least first; 0: by its rank.
	Place(l *record.Look, now int64) int64
}

// nextLook returns when a page is due after a look; 0: never.
func (c *change) nextLook(l *record.Look, fresh int64) int64 {
	if c.x.opts.Recrawl == nil {
		return 0
	}
	return c.x.opts.Recrawl.Next(l, fresh)
}

// firstLook sets when a page that was stored is asked again, and keeps what that look needs.
func (c *change) firstLook(e *entry, o *record.Outcome) {
	l := record.Look{State: record.Stored, Status: o.Page.Status, Time: o.Page.Time, ETag: o.ETag, Modified: o.Modified}
	e.rec.Due = c.nextLook(&l, o.Fresh)
	if o.ETag != "" || o.Modified != "" {
		c.keepLook(e, &l)
	}
}

func (c *change) keepLook(e *entry, l *record.Look) {
	c.seen.Put(e.key, c.w.arena.Keep(func(b []byte) []byte { return l.Append(b, e.key) }))
}

// endRevisit applies what another look at a stored page came to, and returns the row where the page
// waits if it is asked once more. One that does not find the page keeps it as it is.
func (c *change) endRevisit(o *record.Outcome) (record.Row, error) {
	e, err := c.entry(o.Row.URL)
	if err != nil || o.Part || e.rec.Revisits() == 0 {
		return record.Row{}, err
	}
	r := e.rec
	if o.State == record.Pending {
		r.Range, r.Due, r.Tries, r.Spared = o.Next.Range, o.Next.Due, o.Next.Tries, o.Next.Spared
		if o.Next.Range == record.Held {
			r.Range, r.Due = 0, time.Now().Add(askedAgainAfter).UnixNano()
			return record.Row{}, nil
		}
		return r.Revisit(), nil
	}
	l := c.look(e)
	if before := l.Time; o.State == record.Stored && l.Since == 0 {
		l.History.Add(!o.Same, o.Page.Time-before)
	}
	gone, moved := l.Gone(), l.Moved()
	l.State, l.Status, l.Reason, l.Time, l.Target = o.State, o.Page.Status, o.Reason, o.Page.Time, ""
	if o.State == record.Redirected {
		l.Reason, l.Target = record.LeadsAway, o.Page.HeaderLinks
	}
	l.Looks++
	switch {
	case o.State != record.Stored:
		if l.Since == 0 || gone != l.Gone() || moved != l.Moved() {
			l.Since, l.SinceRun = l.Time, int64(c.run.ID)
		}
	case o.Same:
		l.Found(c.run.ID)
		if o.ETag+o.Modified != "" {
			l.ETag, l.Modified = o.ETag, o.Modified
		}
	default:
		l.Found(c.run.ID)
		l.Changed, l.ETag, l.Modified, l.Difference = l.Time, o.ETag, o.Modified, o.Difference
		l.ChangedRun = int64(c.run.ID)
		l.Changes++
		c.keepVersion(e, o)
		r.Page, r.Cut = o.Page, 0
		e.meta, e.renewed = o.Meta, true
		c.edges.lost = true // the file has those of the page as it was
	}
	r.Range, r.Due = 0, c.nextLook(&l, o.Fresh)
	r.Tries, r.Spared = o.Row.Tries, o.Row.Spared
	c.keepLook(e, &l)
	c.run.CountLook(o)
	return record.Row{}, nil
}

// look returns what the last look at a stored page came to, or its first answer.
func (c *change) look(e *entry) record.Look {
	l := record.Look{State: record.Stored, Status: e.rec.Status, Time: e.rec.Time}
	if v := c.w.Get(record.BucketLook, e.key); v != nil {
		if kept, err := record.DecodeLook(e.key, v); err == nil { // damage costs what earlier looks came to
			l = kept
		}
	}
	return l
}

// Queue has stored pages asked that are due, in transactions of bounded size. It calls fresh with
// the rows of each, as [Index.Reopen] does, and returns their number. Of the rows that are
// not due it reads one.
func (g Revisits) Queue(ctx context.Context, now time.Time, fresh func(rows []record.Row, tx uint64)) (int, error) {
	open := func(c *change, url string) (*record.Row, error) {
		e, err := c.entry(url)
		if err != nil || !e.rec.Awaits() || e.rec.Due > now.UnixNano() {
			return nil, err
		}
		e.rec.Range, e.rec.Due, e.rec.Tries, e.rec.Spared = record.Now, 0, 0, 0
		if g.x.opts.Recrawl != nil {
			l := c.look(e)
			e.rec.Due = g.x.opts.Recrawl.Place(&l, now.Unix())
		}
		row := e.rec.Revisit()
		return &row, nil
	}
	return g.x.reopen(open, fresh, func(each func(url string) error) error {
		for from := []byte(nil); ; {
			urls, next, err := g.due(ctx, from, now)
			if err != nil {
				return err
			}
			for _, url := range urls {
				if err := each(url); err != nil {
					return err
				}
			}
			if from = next; from == nil {
				return nil
			}
		}
	})
}

// due returns the URLs of stored pages that are due, at most as many as one transaction opens, from
// a key on; next is where to go on, nil at the end.
func (g Revisits) due(ctx context.Context, from []byte, now time.Time) (urls []string, next []byte, err error) {
	err = g.x.file.Walk(ctx, record.BucketRevisit, from, func(_ *boltfile.Values, k, _ []byte) ([]byte, error) {
		url, due, ok, err := record.DecodeAwaits(k)
		switch {
		case err != nil:
			return nil, err
		case !ok || due > now.UnixNano():
			return nil, boltfile.ErrStop
		case len(urls) == reopenURLs:
			next = bytes.Clone(k)
			return nil, boltfile.ErrStop
		}
		urls = append(urls, url)
		return nil, nil
	})
	return urls, next, err
}

// Mark sets the time at which each stored page below a prefix is asked again to what due returns;
// 0: never. Those that are to be asked now stay so. It works in transactions of bounded size, and
// returns the number of pages whose time is another.
func (g Revisits) Mark(ctx context.Context, prefix []byte, due func(*record.Record) int64) (n int, err error) {
	type mark struct {
		url string
		due int64
	}
	err = inParts(g.x, reopenURLs, func(each func(mark) error) error {
		return g.x.Records(ctx, prefix, func(r record.Record, err error) error {
			if err != nil || r.State != record.Stored || r.Revisits() > 0 {
				return nil // damage is for check to name
			}
			if at := due(&r); at != r.Due {
				return each(mark{r.URL, at})
			}
			return nil
		})
	}, func(c *change, part []mark) (func(), error) {
		for _, m := range part {
			e, err := c.entry(m.url)
			if err != nil {
				return nil, fmt.Errorf("mark: %w", err)
			}
			if r := e.rec; r != nil && r.State == record.Stored && r.Range == 0 {
				r.Due = m.due
			}
		}
		return func() { n += len(part) }, nil
	})
	return n, err
}

// Plan returns the last argument of SetPlan; the zero Plan: there was none.
func (g Revisits) Plan() (record.Plan, error) {
	p, _, err := boltfile.Read(g.x.file, record.BucketSys, record.KeyRecrawl, record.DecodePlan)
	return p, err
}

// SetPlan keeps by what plan all stored pages are due, once Mark has brought them to it.
func (g Revisits) SetPlan(p record.Plan) error {
	return g.x.Marks().put(record.KeyRecrawl, p.Append(nil, record.KeyRecrawl))
}

// Look returns what the latest looks at a stored page came to; ok is false if there was none that
// is kept. The error is [record.ErrCorrupt] if it is damaged.
func (g Revisits) Look(url string) (l record.Look, ok bool, err error) {
	key, err := record.Key(url)
	if err != nil {
		return l, false, err
	}
	return boltfile.Read(g.x.file, record.BucketLook, key, record.DecodeLook)
}

// Looks calls fn with what is kept of the looks at each page, in the order of the URLs, and ends
// with its error. What is damaged is left out.
func (g Revisits) Looks(ctx context.Context, prefix []byte, fn func(url string, l *record.Look) error) error {
	return g.x.file.Scan(ctx, record.BucketLook, prefix, func(k, v []byte) error {
		l, err := record.DecodeLook(k, v)
		if err != nil {
			return nil
		}
		url, err := record.URL(k)
		if err != nil {
			return nil
		}
		return fn(url, &l)
	})
}

// revisits is the queue of stored pages that are to be asked again.
func (g Queues) revisits() queue {
	return queue{g.x, record.BucketRevisit, record.RevisitRow, func(in *boltfile.Values, row *record.Row, key []byte) (bool, error) {
		r, err := record.DecodeOf(row.URL, key, in.Get(record.BucketURL, key))
		if err != nil || r.Revisits() == 0 || r.Seq != row.Seq {
			return false, nil // damage costs the look, not the run
		}
		*row = r.Revisit()
		return true, nil
	}}
}
