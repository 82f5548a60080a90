package storage

import "urltree/storage/record"

// A stage is how far a URL with a record has come, as far as that decides what an event does.
type stage uint8

const (
	eligible stage = iota // pending, in Now
	waiting               // pending, in Later
	tooDeep               // held for its depth
	heldBack              // held for another reason
	stored
	redirected
	redirectedAway // to a URL that does not belong to the crawl
	failed
	refused     // for any other reason than these:
	refusedLink // an address or a type that may be another one for a seed
	refusedFeed // the same, and its links count
	refusedPage // not kept, but its links count
	elsewhere   // known to another process alone
	stages
)

func stageOf(r *record.Record) stage {
	switch r.State {
	case record.Pending:
		switch {
		case r.Range == record.Now:
			return eligible
		case r.Range == record.Later:
			return waiting
		case r.Reason == record.HeldDepth:
			return tooDeep
		}
		return heldBack
	case record.Stored:
		return stored
	case record.Redirected:
		if r.RefusedAsLink() {
			return redirectedAway
		}
		return redirected
	case record.Failed:
		return failed
	}
	switch asLink, links := r.RefusedAsLink(), r.GaveLinks(); {
	case r.IsElsewhere():
		return elsewhere
	case asLink && links:
		return refusedFeed
	case asLink:
		return refusedLink
	case links:
		return refusedPage
	}
	return refused
}

// An event is what may happen to a URL with a record.
type event uint8

const (
	answered  event = iota // it has an outcome: stored, redirected, failed or refused
	postponed              // it is to be asked later
	suspended              // it is to be held
	released               // it may be asked
	seeded                 // a person has named it
	returned               // a redirect that set a cookie led back to it
	shortened              // a shorter way to it was found
	nearer                 // the same, where depth is no limit
	events
)

// A transition is what an event does to a record of a stage.
type transition struct {
	do     func(*change, *entry, cause) // changes the record
	counts bool                         // its outcome counts for the run
	undoes bool                         // its outcome does not count any more
	fresh  bool                         // if it is eligible now, it is in Committed.Fresh
}

// A cause is where an event comes from: an outcome or a link.
type cause struct {
	outcome *record.Outcome
	link    *record.Link
}

var (
	none         = transition{}
	answer       = transition{do: (*change).answer, counts: true}
	repeat       = transition{do: (*change).repeat}
	postpone     = transition{do: (*change).postpone}
	suspend      = transition{do: (*change).suspend}
	release      = transition{do: (*change).release}
	seed         = transition{do: (*change).seed}
	seedHeld     = transition{do: (*change).seed, fresh: true}
	seedAgain    = transition{do: (*change).seedAgain, undoes: true, fresh: true}
	scope        = transition{do: (*change).scope}
	comeBack     = transition{do: (*change).comeBack, undoes: true, fresh: true}
	shorten      = transition{do: (*change).shorten}
	shortenHeld  = transition{do: (*change).shortenAndRelease, fresh: true}
	shortenLinks = transition{do: (*change).shortenLinks}
	askAgain     = transition{do: (*change).askAgain, undoes: true, fresh: true}
)

// transitions has all that may become of a record, by its stage, with an event in each column. A
// URL that has its outcome keeps it, but for those events that open it again.
var transitions = [stages][events]transition{
	// answered, postponed, suspended, released, seeded, returned, shortened, nearer
	eligible:       {answer, postpone, suspend, postpone, seed, none, shorten, shorten},
	waiting:        {answer, postpone, suspend, postpone, seed, none, shorten, shorten},
	tooDeep:        {answer, postpone, suspend, release, seedHeld, none, shortenHeld, shorten},
	heldBack:       {answer, postpone, suspend, release, seedHeld, none, shorten, shorten},
	stored:         {repeat, none, none, none, scope, none, shortenLinks, shorten},
	redirected:     {repeat, none, none, none, scope, comeBack, shortenLinks, shorten},
	redirectedAway: {repeat, none, none, none, seedAgain, comeBack, shortenLinks, shorten},
	failed:         {repeat, none, none, none, scope, none, shorten, shorten},
	refused:        {repeat, none, none, none, scope, none, shorten, shorten},
	refusedLink:    {repeat, none, none, none, seedAgain, none, shorten, shorten},
	refusedFeed:    {repeat, none, none, none, seedAgain, none, askAgain, shorten},
	refusedPage:    {repeat, none, none, none, scope, none, askAgain, shorten},
	// It is asked only if its row was in memory before that was known: what is in the tree counts. Its
	// links are those of a page that is not here.
	elsewhere: {answer, none, none, none, scope, none, askAgain, shorten},
}

// apply does to a record what an event does.
func (c *change) apply(e *entry, ev event, by cause) {
	t := &transitions[stageOf(e.rec)][ev]
	if t.do == nil {
		return
	}
	if t.undoes {
		c.undo(e)
	}
	t.do(c, e, by)
	if t.counts {
		c.run.Count(e.rec)
	}
	if t.fresh && stageOf(e.rec) == eligible {
		c.done.Fresh = append(c.done.Fresh, e.rec.Row)
	}
}

// undo takes an outcome back. The links of the next one count from the depth of the record then.
func (c *change) undo(e *entry) {
	c.run.Uncount(e.rec)
	c.looks.shorter[string(e.key)] = false
}

func eventOf(o *record.Outcome) event {
	switch {
	case o.State != record.Pending:
		return answered
	case o.Next.Range == record.Held:
		return suspended
	case o.Next.Range == record.Now:
		return released
	}
	return postponed
}

// eventOfLink returns the event that a link is to a record; ok is false if it is none.
func (c *change) eventOfLink(l *record.Link, r *record.Record) (ev event, ok bool) {
	switch {
	case l.Source == record.Seed && r.Source != record.Seed && l.Via == "":
		return seeded, true
	case l.Cookie && r.State == record.Redirected && r.Reopened < 2:
		return returned, true
	}
	return c.way(), l.Depth < r.Depth && c.depthCounts()
}

// way returns the event that a shorter way is.
func (c *change) way() event {
	if c.x.opts.Limits.MaxDepth != 0 {
		return shortened
	}
	return nearer
}

// depthCounts reports whether shorter ways are noted: where depth is a limit, and in a rebuild.
func (c *change) depthCounts() bool { return c.x.opts.Limits.MaxDepth != 0 || c.rebuild() }

// rebuild reports whether the index is made from folders, without a run: pages come in the order of
// the tree, so that the shortest way counts, and they are parsed by the caller.
func (c *change) rebuild() bool { return c.run.ID == 0 }

func (c *change) answer(e *entry, by cause) {
	r, o := e.rec, by.outcome
	r.Tries, r.Spared = max(r.Tries, o.Row.Tries), max(r.Spared, o.Row.Spared)
	r.State, r.Page, r.Reason = o.State, o.Page, o.Reason
	r.Range, r.Due, r.Run = 0, 0, c.run.ID
	switch {
	case o.State == record.Stored:
		c.firstLook(e, o)
		e.meta = o.Meta
		if o.EdgesEnd > 0 {
			c.edges.end, c.edges.pages = o.EdgesEnd, c.edges.pages+1
		}
		// The record names the source that source.txt names, also for a page found in its folder.
		if r.Source == record.Seed || o.Row.Source == record.Seed {
			c.w.putScope(r.URL)
		}
		r.Source = o.Row.Source
		r.Depth = min(r.Depth, o.Row.Depth)
	case o.State == record.Redirected && r.Source == record.Seed:
		for i := range o.Links {
			if l := &o.Links[i]; len(l.Areas) > 0 {
				c.w.putScope(l.URL)
			}
		}
	}
}

// repeat notes that a URL has got an outcome twice: the first counts.
func (c *change) repeat(_ *entry, by cause) {
	c.edges.lost = c.edges.lost || by.outcome.EdgesEnd > 0 // the file has them twice
}

// postpone moves a pending record to another place.
func (c *change) postpone(e *entry, by cause) {
	r, o := e.rec, by.outcome
	r.Tries, r.Spared = max(r.Tries, o.Row.Tries, o.Next.Tries), max(r.Spared, o.Row.Spared, o.Next.Spared)
	r.Range, r.Due, r.Reason = o.Next.Range, o.Next.Due, o.Next.Reason
	// What is held was not asked for: it keeps its run, also 0, which is that of what a rebuild made.
	if r.Run = o.Next.Run; r.Run == 0 && r.Range != record.Held {
		r.Run = c.run.ID
	}
}

// suspend holds a pending record, unless a shorter way was found since it was too deep.
func (c *change) suspend(e *entry, by cause) {
	if by.outcome.Next.Reason != record.HeldDepth || c.x.opts.Limits.TooDeep(e.rec.Depth) {
		c.postpone(e, by)
	}
}

// release makes a held record eligible, unless a budget has no place for it. It keeps its run: it
// is not known whether its page is in the tree.
func (c *change) release(e *entry, _ cause) {
	r := e.rec
	if r.Reason, _ = c.ledger.hold(e.key, &record.Link{URL: r.URL, Source: r.Source, Depth: r.Depth}); r.Reason == "" {
		r.Range = record.Now
	}
}

// seed makes a pending record that of a seed, and eligible unless it waits for its time.
func (c *change) seed(e *entry, _ cause) {
	r := e.rec
	r.Source, r.Via, r.Hops, r.Cookie, r.Depth = record.Seed, "", 0, false, 0
	if r.Range != record.Later {
		r.Range, r.Rank, r.Reason = record.Now, 0, ""
	}
}

// seedAgain opens a record whose outcome may be another one for a seed.
func (c *change) seedAgain(e *entry, by cause) {
	e.rec.Reopen(c.run.ID)
	c.seed(e, by)
}

// scope keeps a URL that has its outcome as a seed.
func (c *change) scope(e *entry, _ cause) { c.w.putScope(e.rec.URL) }

// comeBack opens a record that a redirect has led back to.
func (c *change) comeBack(e *entry, by cause) {
	r, l := e.rec, by.link
	r.State, r.Reopened, r.Page, r.Cut = record.Pending, r.Reopened+1, record.Page{}, 0
	r.Generation++
	r.Range, r.Reason, r.Hops, r.Cookie, r.Via = record.Now, "", l.Hops, l.Cookie, l.Via
	r.Run = c.run.ID
}

func (c *change) shorten(e *entry, by cause) {
	r, l := e.rec, by.link
	if c.rebuild() && r.State == record.Pending { // no copy of the row is in memory
		r.Source, r.Via, r.Hops, r.Cookie = l.Source, l.Via, l.Hops, l.Cookie
	}
	if r.Rank == uint64(r.Depth) {
		r.Rank = uint64(l.Depth)
	}
	r.Depth = l.Depth
}

// shortenAndRelease notes a shorter way to a URL that may be near enough now.
func (c *change) shortenAndRelease(e *entry, by cause) {
	c.shorten(e, by)
	c.release(e, by)
}

// shortenLinks notes a shorter way to a URL whose links are nearer too.
func (c *change) shortenLinks(e *entry, by cause) {
	c.looks.shorter[string(e.key)] = true
	c.shorten(e, by)
}

// askAgain opens a record whose links are nearer too, and are in no folder.
func (c *change) askAgain(e *entry, by cause) {
	c.shorten(e, by)
	e.rec.Reopen(c.run.ID)
}
