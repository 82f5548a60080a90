package cleaner

import (
	"cmp"
	"slices"
	"strings"

	"urltree/internal/top"
	"urltree/storage/record"
)

// Failures are the URLs that a run could not get, as the records say at its end.
type Failures struct {
	Failed    int64     // URLs that failed in this run
	Reasons   []Failure // of these: one for each reason, the commonest first
	Unreached int64     // pending URLs of origins that gave no answer
	Origins   []Failure // of these: one for each origin, those with most URLs first, at most 10
	More      int64     // origins that Origins leaves out

	// Of the seeds that this run had to ask, and the URLs to which they redirect: those that failed
	// or could not be reached, and all others.
	SeedsFailed, SeedsOther int64
}

// A Failure is a reason, and the URLs that it concerns.
type Failure struct {
	Reason string   // as in the index
	Origin string   // of all these URLs, such as http://example.org; "" in Reasons
	Count  int64    // URLs
	URLs   []string // the first of them, at most 3
}

const (
	mostExamples = 3
	mostOrigins  = 10
)

// A failureScan makes Failures of the records; those of an origin come one after the other.
type failureScan struct {
	run       uint32
	unreached func(*record.Record) (cause string, yes bool)
	found     Failures
	byReason  map[string]*Failure
	origins   top.List[Failure]
	origin    Failure // the one at hand
}

func newFailureScan(run uint32, unreached func(*record.Record) (cause string, yes bool)) *failureScan {
	return &failureScan{
		run: run, unreached: unreached, byReason: map[string]*Failure{},
		origins: top.List[Failure]{N: mostOrigins, Compare: moreFirst},
	}
}

func (s *failureScan) add(r *record.Record) {
	seed := func(failed bool) {
		switch {
		case r.Source != record.Seed:
		case failed:
			s.found.SeedsFailed++
		default:
			s.found.SeedsOther++
		}
	}
	switch {
	case r.State == record.Pending:
		cause, yes := s.unreached(r)
		if seed(yes); yes {
			s.addUnreached(r, cause)
		}
	case r.Run != s.run || r.State == record.Redirected: // the target of a seed's redirect counts as a seed
	case r.State == record.Failed:
		seed(true)
		s.found.Failed++
		f := s.byReason[r.Reason]
		if f == nil {
			f = &Failure{Reason: r.Reason}
			s.byReason[r.Reason] = f
		}
		f.add(r.URL)
	default:
		seed(false)
	}
}

func (s *failureScan) addUnreached(r *record.Record, cause string) {
	if origin := record.Origin(r.URL); origin != s.origin.Origin {
		s.endOrigin()
		s.origin = Failure{Origin: strings.Clone(origin), Reason: strings.Clone(cause)}
	}
	s.found.Unreached++
	s.origin.add(r.URL)
}

func (f *Failure) add(url string) {
	if f.Count++; len(f.URLs) < mostExamples {
		f.URLs = append(f.URLs, strings.Clone(url))
	}
}

func (s *failureScan) endOrigin() {
	if s.origin.Count > 0 {
		s.origins.Add(s.origin)
	}
}

func (s *failureScan) end() Failures {
	s.endOrigin()
	s.found.Origins, s.found.More = s.origins.Items(), s.origins.More()
	for _, f := range s.byReason {
		s.found.Reasons = append(s.found.Reasons, *f)
	}
	slices.SortFunc(s.found.Reasons, func(a, b Failure) int {
		return cmp.Or(moreFirst(a, b), cmp.Compare(a.Reason, b.Reason))
	})
	return s.found
}

func moreFirst(a, b Failure) int { return cmp.Compare(b.Count, a.Count) }
