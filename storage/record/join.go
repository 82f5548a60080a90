package record

import (
	"bytes"
	"cmp"
)

// Join returns the record of a URL, or a sitemap, of which there are two: of two trees, or one that
// a message brings. It is the join of a semilattice: the order in which records are joined does not
// matter, nor how often one of them is.
//
// The record of the higher generation counts. Of one generation a stored page is above any other
// outcome, of two outcomes that are alike in that the later one, any of these above one that is
// only known elsewhere, and any outcome above a record that waits. Two that wait become one with
// the better source, the more tries and the later turn. Depth, Rank and Seq are the least of both,
// whatever else counts.
//
// What is equal in all of this is decided by the other fields: only equal records are taken for
// each other. The URL and the kind of both must be the same.
func Join(a, b Record) Record {
	r := a
	switch order := cmp.Or(cmp.Compare(a.Generation, b.Generation), cmp.Compare(a.class(), b.class())); {
	case order < 0:
		r = b
	case order > 0:
	case a.State == Pending:
		r = joinWaiting(a, b)
	case compareOutcomes(&a, &b) < 0:
		r = b
	}
	r.Depth, r.Rank, r.Seq = min(a.Depth, b.Depth), min(a.Rank, b.Rank), min(a.Seq, b.Seq)
	return r
}

// class orders the states of one generation, as far as one of them is above the other.
func (r *Record) class() int {
	switch {
	case r.State == Pending:
		return 0
	case r.IsElsewhere():
		return 1
	case r.State == Stored || r.State == Read:
		return 3
	}
	return 2
}

// joinWaiting joins pending records, each group of fields that belong together for itself.
func joinWaiting(a, b Record) Record {
	r, from, turn := a, &a, &a
	if compareSources(&a, &b) < 0 {
		from = &b
	}
	if cmp.Or(
		cmp.Compare(turns[a.Range], turns[b.Range]), cmp.Compare(a.Due, b.Due), cmp.Compare(a.Reason, b.Reason),
		cmp.Compare(a.Run, b.Run), cmp.Compare(a.Range, b.Range),
	) < 0 {
		turn = &b
	}
	r.Source, r.Via, r.Hops, r.Cookie, r.Found = from.Source, from.Via, from.Hops, from.Cookie, from.Found
	r.Range, r.Due, r.Reason, r.Run = turn.Range, turn.Due, turn.Reason, turn.Run
	r.Tries, r.Spared, r.Reopened = max(a.Tries, b.Tries), max(a.Spared, b.Spared), max(a.Reopened, b.Reopened)
	if comparePages(&a, &b) < 0 { // of a sitemap: what was there when it was last read
		r.Page, r.Cut = b.Page, b.Cut
	}
	return r
}

// turns orders ranges: a URL that one of two must not ask yet waits, and is not held for good
// because the other one holds it.
var turns = map[Range]int{Held: 1, Now: 2, Later: 3}

// compareSources orders where records come from: a person before a page, then who was first.
func compareSources(a, b *Record) int {
	return cmp.Or(
		truth(a.Source == Seed, b.Source == Seed),
		truth(a.Found != 0, b.Found != 0), cmp.Compare(b.Found, a.Found),
		cmp.Compare(b.Hops, a.Hops), cmp.Compare(b.Source, a.Source), cmp.Compare(b.Via, a.Via), truth(a.Cookie, b.Cookie),
	)
}

// compareOutcomes orders the outcomes of one class, those that are equal in all but Depth, Rank and
// Seq as equal.
func compareOutcomes(a, b *Record) int {
	return cmp.Or(
		comparePages(a, b), compareSources(a, b),
		cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.State, b.State),
		cmp.Compare(a.Tries, b.Tries), cmp.Compare(a.Spared, b.Spared), cmp.Compare(a.Reopened, b.Reopened),
		cmp.Compare(a.Range, b.Range), cmp.Compare(a.Due, b.Due), cmp.Compare(a.Run, b.Run),
	)
}

// comparePages orders answers: by time, then by what they hold. The place in segments comes last.
func comparePages(a, b *Record) int {
	p, q := &a.Page, &b.Page
	return cmp.Or(
		cmp.Compare(p.Time, q.Time), bytes.Compare(p.Digest[:], q.Digest[:]),
		cmp.Compare(p.Status, q.Status), cmp.Compare(p.Bytes, q.Bytes), cmp.Compare(b.Cut, a.Cut),
		cmp.Compare(p.Media, q.Media), cmp.Compare(p.Charset, q.Charset), cmp.Compare(p.Flags, q.Flags),
		cmp.Compare(p.HeaderLinks, q.HeaderLinks), cmp.Compare(q.PageDepth, p.PageDepth),
		cmp.Compare(p.Extent.Length, q.Extent.Length), cmp.Compare(p.Extent.About, q.Extent.About),
		cmp.Compare(p.Extent.Segment, q.Extent.Segment), cmp.Compare(p.Extent.Offset, q.Extent.Offset),
	)
}

// truth orders false before true.
func truth(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// JoinTimes returns the times of a host of which there are two, the more careful of each. It is a
// join as Join is one.
func JoinTimes(a, b HostTimes) HostTimes {
	a.Next, a.Answer, a.Backoff = max(a.Next, b.Next), max(a.Answer, b.Answer), max(a.Backoff, b.Backoff)
	a.Fails, a.Delay, a.Pace, a.Seq = max(a.Fails, b.Fails), max(a.Delay, b.Delay), max(a.Pace, b.Pace), max(a.Seq, b.Seq)
	if a.Kind == 0 || b.Kind != 0 && b.Kind < a.Kind { // what was public once must not become private
		a.Kind = b.Kind
	}
	return a
}

// JoinRobots returns the later of two answers of one origin. It is a join as Join is one.
func JoinRobots(a, b Robots) Robots {
	if cmp.Or(
		cmp.Compare(a.Time, b.Time), cmp.Compare(a.Status, b.Status), cmp.Compare(a.Tries, b.Tries),
		cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Text, b.Text),
	) < 0 {
		return b
	}
	return a
}
