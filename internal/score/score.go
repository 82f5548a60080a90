// Package score computes what URLs are worth, by which order priority asks for them.
//
// A URL's score is made of two parts. The link that discovers it gives the first, which is
// written to the index as the rank of its row and stays. Links that come later add to a sum in
// memory, in a table of fixed size: where it is full the least sums are forgotten, and a new
// run begins with none. So a stop or a full table costs order, never a URL.
//
//	OPIC     a page hands its score, in equal parts, to the URLs it names; seeds have 1
//	Inlinks  the number of pages that name the URL
//	PageRank what crawler rank found for the URL, in units of the mean of all; from there as OPIC
//
// A row without a score has its depth as rank: seeds, and what was found in order breadth. It
// stands before all that have one.
package score

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"urltree/storage/record"
)

// A Kind says what a score is made of.
type Kind string

// The kinds of scores. OPIC stands for on-line page importance computation.
const (
	OPIC    Kind = "opic"
	Inlinks Kind = "inlinks"
	// PageRank is put into the index before the run, see Index.Rerank.
	PageRank Kind = "rank"
)

// Rank returns the place of a score among the rows of a host: the greater the score, the less. It
// is more than any depth and less than 1<<63. NaN counts as the worst of all.
func Rank(score float64) uint64 {
	if math.IsNaN(score) {
		score = math.Inf(-1)
	}
	b := math.Float64bits(score + 0) // no negative zero
	if b>>63 == 0 {
		b |= 1 << 63 // order as numbers: negative ones below, and turned round
	} else {
		b = ^b
	}
	return ^b >> 1
}

// Of returns the score of a rank, but for its last bit; ok is false for a rank that is a depth.
func Of(rank uint64) (score float64, ok bool) {
	if rank <= math.MaxUint32 {
		return 0, false
	}
	b := ^(rank<<1 | 1)
	if b>>63 != 0 {
		b &^= 1 << 63
	} else {
		b = ^b
	}
	return math.Float64frombits(b), true
}

// A Scorer knows the sums of known URLs. Its methods may be called at the same time, and none
// waits for longer than a few entries take.
type Scorer struct {
	kind        Kind
	fingerprint func(url string) uint64

	mu     sync.Mutex
	groups []group // guarded by mu
	lost   int64   // guarded by mu; sums forgotten
	holds  bool    // guarded by mu; see Hold
	held   []known // guarded by mu
}

// A known is the score of a link to a URL that has a record.
type known struct{ fingerprint, rank uint64 }

// A group holds the sums of those fingerprints that lead to it.
type group [groupSize]entry

const (
	groupSize  = 8
	entryBytes = 16
)

// An entry is free if its sum is 0.
type entry struct {
	fingerprint uint64
	sum         float32
}

// New makes a Scorer whose table takes so many bytes, at least one group of 128.
func New(kind Kind, bytes int64, fingerprint func(url string) uint64) (*Scorer, error) {
	if kind != OPIC && kind != Inlinks && kind != PageRank {
		return nil, fmt.Errorf("score: unknown kind %q", kind)
	}
	return &Scorer{kind: kind, fingerprint: fingerprint, groups: make([]group, max(bytes/(groupSize*entryBytes), 1))}, nil
}

// Shares returns a function that sets the first scores of the links of an answer, as Rank. It is
// called with the links in one or several parts, total in number. The sum of row's URL goes to
// them: it is known no more. The target of a redirect takes over all that the row has. Seeds keep
// their depth, as do targets of what has no score. With a nil row the links are those of a sitemap,
// which is no page: they have 0.
func (s *Scorer) Shares(row *record.Row, total int) func(links []record.Link) {
	if row == nil {
		return func(links []record.Link) {
			for i := range links {
				links[i].Rank = Rank(0)
			}
		}
	}
	own, scored := Of(row.Rank)
	if !scored {
		own = 1 / (1 + float64(row.Rank)) // a seed has 1
	}
	own += float64(s.take(s.fingerprint(row.URL)))
	return func(links []record.Link) {
		for i := range links {
			switch l := &links[i]; {
			case l.Source == record.Seed:
			case l.Via != "":
				if scored {
					l.Rank = Rank(own)
				}
			case s.kind == Inlinks:
				l.Rank = Rank(1)
			default:
				l.Rank = Rank(own / float64(total))
			}
		}
	}
}

// Known adds the score of a link to a URL that has a record.
func (s *Scorer) Known(fingerprint, rank uint64) {
	score, ok := Of(rank)
	if !ok || !(score > 0) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holds {
		s.held = append(s.held, known{fingerprint, rank})
		return
	}
	s.addLocked(fingerprint, float32(score))
}

// Hold lets what Known adds wait, from now on, until Settle is called.
func (s *Scorer) Hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds = true
}

// Settle adds what waits, in an order that does not depend on that of the calls of Known: sums are
// rounded.
func (s *Scorer) Settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortFunc(s.held, func(a, b known) int {
		return cmp.Or(cmp.Compare(a.fingerprint, b.fingerprint), cmp.Compare(a.rank, b.rank))
	})
	for _, k := range s.held {
		score, _ := Of(k.rank)
		s.addLocked(k.fingerprint, float32(score))
	}
	s.held = s.held[:0]
}

func (s *Scorer) addLocked(fingerprint uint64, add float32) {
	g := s.group(fingerprint)
	least := &g[0]
	for i := range g {
		switch e := &g[i]; {
		case e.fingerprint == fingerprint && e.sum > 0:
			e.sum += add
			return
		case e.sum < least.sum:
			least = e
		}
	}
	if least.sum > 0 {
		s.lost++
	}
	if least.sum < add {
		*least = entry{fingerprint, add}
	}
}

// Rank returns the present place of a row among those of range Now.
func (s *Scorer) Rank(row *record.Row) uint64 {
	first, ok := Of(row.Rank)
	if !ok {
		return row.Rank
	}
	fingerprint := s.fingerprint(row.URL)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.find(fingerprint); e != nil {
		return Rank(first + float64(e.sum))
	}
	return row.Rank
}

// Forgotten is the number of sums, or parts of them, for which the table had no room.
func (s *Scorer) Forgotten() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// take returns a sum and forgets it.
func (s *Scorer) take(fingerprint uint64) float32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.find(fingerprint)
	if e == nil {
		return 0
	}
	sum := e.sum
	*e = entry{}
	return sum
}

func (s *Scorer) group(fingerprint uint64) *group {
	return &s.groups[fingerprint%uint64(len(s.groups))]
}

func (s *Scorer) find(fingerprint uint64) *entry {
	g := s.group(fingerprint)
	for i := range g {
		if e := &g[i]; e.fingerprint == fingerprint && e.sum > 0 {
			return e
		}
	}
	return nil
}
