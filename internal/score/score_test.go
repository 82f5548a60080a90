package score_test

import (
	"hash/fnv"
	"math"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"urltree/internal/score"
	"urltree/storage/record"
)

// TestRank: ranks are in the order of the scores, behind all depths, and give them back.
func TestRank(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Float64().Draw(t, "a"), rapid.Float64().Draw(t, "b")
		for _, s := range []float64{a, b, math.Inf(1), math.Inf(-1), math.NaN()} {
			r := score.Rank(s)
			if r <= math.MaxUint32 || r >= 1<<63 {
				t.Fatalf("Rank(%v) = %d", s, r)
			}
			back, ok := score.Of(r)
			if !ok || score.Rank(back) != r || math.Abs(back-s) > math.Abs(s)*1e-15+math.SmallestNonzeroFloat64 {
				t.Fatalf("Of(Rank(%v)) = %v, %v", s, back, ok)
			}
		}
		if a < b && score.Rank(a) < score.Rank(b) {
			t.Fatalf("%v stands before %v", a, b)
		}
		if a < b*(1-1e-14) && score.Rank(a) == score.Rank(b) {
			t.Fatalf("%v and %v are the same", a, b)
		}
	})
	for depth := range uint64(3) {
		if s, ok := score.Of(depth); ok {
			t.Errorf("depth %d counts as score %v", depth, s)
		}
	}
	if score.Rank(math.NaN()) != score.Rank(math.Inf(-1)) || score.Rank(math.Copysign(0, -1)) != score.Rank(0) {
		t.Error("NaN is not the worst, or there are two zeros")
	}
}

// TestSitemap: what only a sitemap names stands behind all that pages name.
func TestSitemap(t *testing.T) {
	for _, kind := range []score.Kind{score.OPIC, score.Inlinks} {
		links := []record.Link{{URL: "http://a.example/"}}
		newScorer(t, kind, 1).Shares(nil, len(links))(links)
		if links[0].Rank != score.Rank(0) || links[0].Rank <= score.Rank(math.SmallestNonzeroFloat64*2) {
			t.Errorf("%s: rank %d", kind, links[0].Rank)
		}
	}
}

func hash(url string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(url))
	return h.Sum64()
}

func newScorer(t testing.TB, kind score.Kind, bytes int64) *score.Scorer {
	t.Helper()
	s, err := score.New(kind, bytes, hash)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestLinks: what a page has goes to its links, once and to the last part.
func TestLinks(t *testing.T) {
	const url = "http://a.example/"
	scored := func(s float64) record.Row { return record.Row{URL: url, Rank: score.Rank(s)} }
	link := func(url string) record.Link { return record.Link{URL: url, Source: url} }
	target := record.Link{URL: "http://b.example/", Source: url, Via: url}
	for _, tt := range []struct {
		name  string
		kind  score.Kind
		row   record.Row
		known float64 // what known links have brought before
		links []record.Link
		want  []float64 // -1: no score
	}{
		{"a seed has 1", score.OPIC, record.Row{URL: url}, 0, []record.Link{link("1"), link("2")}, []float64{.5, .5}},
		{"and what links bring", score.OPIC, record.Row{URL: url}, 3, []record.Link{link("1"), link("2")}, []float64{2, 2}},
		{"of an earlier run in order breadth", score.OPIC, record.Row{URL: url, Rank: 3}, 0, []record.Link{link("1")}, []float64{.25}},
		{"page", score.OPIC, scored(.5), .25, []record.Link{link("1"), link("2"), link("3")}, []float64{.25, .25, .25}},
		{"seeds keep their place", score.OPIC, scored(.5), 0, []record.Link{{URL: "1", Source: record.Seed}}, []float64{-1}},
		{"redirect", score.OPIC, scored(.5), .25, []record.Link{target}, []float64{.75}},
		{"redirect of what has none", score.OPIC, record.Row{URL: url}, 1, []record.Link{target}, []float64{-1}},
		{"no links", score.OPIC, scored(.5), 0, nil, nil},
		{"inlinks", score.Inlinks, scored(7), 2, []record.Link{link("1"), link("2")}, []float64{1, 1}},
		{"redirect inherits inlinks", score.Inlinks, scored(7), 2, []record.Link{target}, []float64{9}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScorer(t, tt.kind, 1<<10)
			s.Known(hash(url), score.Rank(tt.known))
			if own, ok := score.Of(tt.row.Rank); ok && s.Rank(&tt.row) != score.Rank(own+tt.known) {
				t.Errorf("rank %d, want that of %v", s.Rank(&tt.row), own+tt.known)
			} else if !ok && s.Rank(&tt.row) != tt.row.Rank {
				t.Errorf("rank %d, want the depth", s.Rank(&tt.row))
			}
			s.Shares(&tt.row, len(tt.links))(tt.links)
			for i, l := range tt.links {
				got, ok := score.Of(l.Rank)
				if !ok {
					got = -1
				}
				if math.Abs(got-tt.want[i]) > 1e-12 {
					t.Errorf("link %d has %v, want %v", i, got, tt.want[i])
				}
			}
			if s.Rank(&tt.row) != tt.row.Rank {
				t.Error("the page has kept what it has given away")
			}
		})
	}
}

// TestTableIsBounded: of more sums than have room the greatest stay.
func TestTableIsBounded(t *testing.T) {
	const bytes, great, all = 16 << 10, 60, 100_000
	s := newScorer(t, score.Inlinks, bytes)
	urls := make([]string, all)
	for i := range urls {
		urls[i] = "http://a.example/" + strconv.Itoa(i)
	}
	rank := func(url string) uint64 { return s.Rank(&record.Row{URL: url, Rank: score.Rank(0)}) }
	for i, url := range urls {
		s.Known(hash(url), score.Rank(1))
		s.Known(hash(urls[i%great]), score.Rank(2))
	}
	if s.Forgotten() == 0 {
		t.Error("nothing was forgotten")
	}
	there := 0
	for i, url := range urls {
		if rank(url) != score.Rank(0) {
			there++
		} else if i < great {
			t.Errorf("one of the %d greatest sums is forgotten", great)
		}
	}
	if there > bytes/16 || there < bytes/32 {
		t.Errorf("%d sums in a table of %d bytes", there, bytes)
	}
}

func TestNewRejects(t *testing.T) {
	if _, err := score.New("best", 1, hash); err == nil {
		t.Error("an unknown kind is taken")
	}
}
