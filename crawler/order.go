package crawler

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"urltree/internal/frontier"
	"urltree/internal/rank"
	"urltree/internal/score"
	"urltree/internal/seen"
	"urltree/storage/record"
)

// A Candidate is a URL that a link has discovered, to be given a score, or that is about to be
// asked for, to be allowed.
type Candidate struct {
	URL    string // canonical
	Source string // the URL whose page names it, or what that was found by if it only redirects
	Depth  int
}

// checkOrder fills in the options of the order and says what is wrong with them.
func (o *Options) checkOrder() error {
	if o.Score != nil {
		if o.Order == "" {
			o.Order = OrderPriority
		}
		if o.Order != OrderPriority || o.ScoreBy != "" {
			return fmt.Errorf("%w: Score is of use in Order priority alone, and in place of ScoreBy; Order is %q, ScoreBy %q", ErrOptions, o.Order, o.ScoreBy)
		}
	}
	if idle := o.firstSet("ScoreBy", "Queue", "Queues"); idle != "" && !o.priority() {
		return fmt.Errorf("%w: %s is of use in Order priority alone; Order is %q", ErrOptions, idle, o.Order)
	}
	return nil
}

// checkStep says what supersteps cannot be had with.
func (o *Options) checkStep() error {
	switch {
	case o.Step == 0 && o.StepTime != 0:
		return fmt.Errorf("%w: StepTime is of use with Step alone", ErrOptions)
	case o.Step == 0:
		return nil
	case o.Order == OrderTree:
		return fmt.Errorf("%w: Order tree has no queue that Step could take the first URLs of", ErrOptions)
	}
	if name := o.firstSet("Archives", "SkipDuplicates"); name != "" {
		return fmt.Errorf("%w: in supersteps (Step) nothing may depend on which answer is first: %s must be unset", ErrOptions, name)
	}
	return nil
}

func (o *Options) priority() bool { return o.Order == OrderPriority }

// ranked reports whether the order is that of crawler rank.
func (o *Options) ranked() bool {
	return o.priority() && o.Score == nil && o.ScoreBy == ScoreRank
}

// openRanks opens the ranks that ranked needs.
func (o *Options) openRanks() (*rank.File, error) {
	ranks, err := rank.Open(o.Tree)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: -score rank (ScoreBy): %s has no ranks yet, crawler rank makes them", ErrOptions, o.Tree)
	}
	return ranks, err
}

// order sets what the frontier is to know of the order. A quarter of its memory is for sums of
// scores, if there are any.
func (e *engine) order(ctx context.Context, f *frontier.Options) error {
	switch {
	case e.opts.Pick == PickSingle:
		f.PerLoan, f.Share = 1, -1
	case e.opts.QueueSize > 0 || e.opts.Fetch != nil:
		// A download worker lets go of a URL once its page waits for a parse worker, so a loan is
		// one URL; no worker of a pool is idle while another has several; and those that a crawler
		// has taken and not begun are source C's links queue.
		f.PerLoan, f.Share = 1, e.opts.QueueSize
	}
	if e.opts.Order == OrderTree {
		f.Tree = e.store.index.Queues()
	}
	if !e.opts.priority() {
		return nil
	}
	f.Queue, f.Queues = string(e.opts.Queue), e.opts.Queues
	if e.opts.Score != nil || e.opts.ScoreBy == ScoreDepth {
		return nil
	}
	if e.opts.ranked() {
		if err := e.rerank(ctx); err != nil {
			return err
		}
	}
	table := f.Memory / 4
	f.Memory -= table
	var err error
	e.rules.scorer, err = score.New(score.Kind(e.opts.ScoreBy), table, e.store.index.Filter().Fingerprint)
	if err != nil {
		return err
	}
	if f.Rank = e.rules.scorer.Rank; e.steps != nil {
		e.rules.scorer.Hold()
	}
	return nil
}

// rerank moves the URLs that wait to the places that the ranks of the tree say, if they have
// others.
func (e *engine) rerank(ctx context.Context) (err error) {
	ranks, err := e.opts.openRanks()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ranks.Close()) }()
	version := uint64(ranks.Time.UnixNano())
	done, err := e.store.index.Marks().Ranked()
	if err != nil || done == version {
		return err
	}
	n, err := e.store.index.Rerank(ctx, version, func(url string) (uint64, bool) {
		r, ok := ranks.Rank(url)
		return score.Rank(r * float64(ranks.Nodes)), ok
	})
	e.opts.Log.Info("pending URLs are in the order of their ranks", "moved", n)
	return err
}

// ranks returns a function that sets the scores of links that a row's answer gave, total in number;
// with a nil row, of links of a sitemap. In order breadth it does nothing, and the depth counts.
func (c *crawler) ranks(row *record.Row, total int) func(links []record.Link) {
	switch {
	case c.opts.Score != nil:
		return c.score
	case c.rules.scorer != nil:
		return c.rules.scorer.Shares(row, total)
	}
	return func([]record.Link) {}
}

// score asks the function of the options.
func (c *crawler) score(links []record.Link) {
	for i := range links {
		l := &links[i]
		if l.Source == record.Seed {
			continue
		}
		ok := c.ends.call("Score", l.URL, func() error {
			l.Rank = score.Rank(c.opts.Score(Candidate{URL: l.URL, Source: l.Source, Depth: int(l.Depth)}))
			return nil
		})
		if !ok {
			return
		}
	}
}

// isKnown reports whether the seen filter surely has a link: it is durable already. It is nil
// where more of a known link counts: with a limit of depth each may be a shorter way to what it
// names, and scores add up.
func (c *crawler) isKnown() func(url string) bool {
	if c.opts.boundsDepth() || c.rules.scorer != nil {
		return nil
	}
	filter := c.store.index.Filter()
	return func(url string) bool { return filter.Lookup(filter.Fingerprint(url)) == seen.Known }
}

// newLinks sets the scores of links, and leaves out those that isKnown would, whose scores count
// all the same.
func (c *crawler) newLinks(rank func([]record.Link), links []record.Link) []record.Link {
	rank(links)
	if c.opts.boundsDepth() {
		return links
	}
	filter := c.store.index.Filter()
	kept := links[:0]
	for _, l := range links {
		switch fp := filter.Fingerprint(l.URL); {
		case filter.Lookup(fp) != seen.Known:
			kept = append(kept, l)
		case c.rules.scorer != nil:
			c.rules.scorer.Known(fp, l.Rank)
		}
	}
	if len(kept) <= len(links)/2 {
		kept = append([]record.Link(nil), kept...) // not worth a place for all
	}
	return kept
}

// orderFigures returns what statistics.txt says of the order; "" if it is breadth.
func (e *engine) orderFigures() (order string, forgotten int64) {
	if !e.opts.priority() {
		return "", 0
	}
	by := e.opts.ScoreBy
	if e.opts.Score != nil {
		by = "a function"
	}
	if e.rules.scorer != nil {
		forgotten = e.rules.scorer.Forgotten()
	}
	return fmt.Sprintf("priority by %s, %s x %d", by, e.opts.Queue, max(e.opts.Queues, 1)), forgotten
}
