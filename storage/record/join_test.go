package record

import (
	"testing"

	"pgregory.net/rapid"
)

// drawJoined draws a record of few values, so that two of them often are alike.
func drawJoined(t *rapid.T) Record {
	small := rapid.IntRange(0, 2)
	word := rapid.SampledFrom([]string{"", Seed, "http://a.org/", "http://b.org/"})
	r := Record{
		State: rapid.SampledFrom(States).Draw(t, "state"), Reopened: uint8(small.Draw(t, "reopened")),
		Generation: uint32(small.Draw(t, "generation")), Found: int64(small.Draw(t, "found")),
		Row: Row{
			URL: "http://a.org/x", Source: word.Draw(t, "source"), Via: word.Draw(t, "via"), Depth: uint32(small.Draw(t, "depth")),
			Hops: uint8(small.Draw(t, "hops")), Cookie: rapid.Bool().Draw(t, "cookie"), Tries: uint16(small.Draw(t, "tries")),
			Spared: uint8(small.Draw(t, "spared")), Run: uint32(small.Draw(t, "run")),
			Range: rapid.SampledFrom([]Range{0, Now, Later, Held}).Draw(t, "range"),
			Rank:  uint64(small.Draw(t, "rank")), Seq: uint64(small.Draw(t, "seq")), Due: int64(small.Draw(t, "due")),
			Reason: word.Draw(t, "reason"),
		},
		Page: Page{
			Time: int64(small.Draw(t, "time")), Status: uint16(small.Draw(t, "status")), Bytes: int64(small.Draw(t, "bytes")),
			Digest: [32]byte{31: byte(small.Draw(t, "digest"))}, Media: word.Draw(t, "media"), Charset: word.Draw(t, "charset"),
			Flags: word.Draw(t, "flags"), HeaderLinks: word.Draw(t, "links"), PageDepth: uint32(small.Draw(t, "page depth")),
			Extent: Extent{Segment: uint32(small.Draw(t, "segment")), Offset: int64(small.Draw(t, "offset")), Length: int64(small.Draw(t, "length"))},
		},
		Cut: uint32(small.Draw(t, "cut")),
	}
	return r
}

// alike returns records that differ from a in one field, or a group of them, as c has it. Of two
// that are drawn hardly any come as far as the last fields.
func alike(a, c Record) []Record {
	list := []Record{a, a, a, a, a, a, a, a, a, a}
	list[0].Depth, list[1].Tries, list[2].Extent, list[3].Cookie, list[4].Run = c.Depth, c.Tries, c.Extent, c.Cookie, c.Run
	list[5].Range, list[6].Cut, list[7].Reopened, list[8].Spared, list[9].Via = c.Range, c.Cut, c.Reopened, c.Spared, c.Via
	return list
}

// TestJoinLaws: the laws of a semilattice, for any records.
func TestJoinLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawJoined(t), drawJoined(t), drawJoined(t)
		if got := Join(a, a); got != a {
			t.Errorf("with itself\n%+v becomes\n%+v", a, got)
		}
		for _, b := range append(alike(a, c), b) {
			if x, y := Join(a, b), Join(b, a); x != y {
				t.Errorf("one order\n%+v, the other\n%+v", x, y)
			}
			if x, y := Join(Join(a, b), c), Join(a, Join(b, c)); x != y {
				t.Errorf("the first two first\n%+v, the last two\n%+v", x, y)
			}
			if x := Join(a, b); Join(x, b) != x || Join(x, a) != x {
				t.Errorf("%+v is not above what it was made of", x)
			}
		}
	})
}

// TestJoin: of each pair, in either order, what counts.
func TestJoin(t *testing.T) {
	const url, page = "http://a.org/x", "http://b.org/"
	waits := func(in Range, edit func(*Record)) Record {
		r := Record{State: Pending, Found: 7, Row: Row{URL: url, Source: page, Range: in, Depth: 3, Rank: 3, Seq: 9}}
		if edit != nil {
			edit(&r)
		}
		return r
	}
	ended := func(state State, time int64, edit func(*Record)) Record {
		r := Record{State: state, Found: 7, Page: Page{Time: time}, Row: Row{URL: url, Source: page, Depth: 3, Rank: 3, Seq: 9}}
		if edit != nil {
			edit(&r)
		}
		return r
	}
	stored := ended(Stored, 10, nil)
	for _, tt := range []struct {
		name       string
		a, b, want Record
	}{
		{"an outcome, and one that waits", ended(Failed, 1, nil), waits(Now, nil), ended(Failed, 1, nil)},
		{"stored, and a later failure", stored, ended(Failed, 20, nil), stored},
		{"two outcomes", ended(Redirected, 1, nil), ended(Failed, 2, nil), ended(Failed, 2, nil)},
		{"two bodies", stored, ended(Stored, 11, nil), ended(Stored, 11, nil)},
		{
			"two bodies of one second", stored, ended(Stored, 10, func(r *Record) { r.Digest[0] = 1 }),
			ended(Stored, 10, func(r *Record) { r.Digest[0] = 1 }),
		},
		{
			"opened again, and stored before", stored, waits(Now, func(r *Record) { r.Generation = 1 }),
			waits(Now, func(r *Record) { r.Generation = 1 }),
		},
		{
			"failed again, and stored before", stored, ended(Failed, 11, func(r *Record) { r.Generation = 1 }),
			ended(Failed, 11, func(r *Record) { r.Generation = 1 }),
		},
		{
			"stored, and a shorter way that waits", stored, waits(Now, func(r *Record) { r.Depth, r.Rank, r.Seq = 1, 1, 2 }),
			ended(Stored, 10, func(r *Record) { r.Depth, r.Rank, r.Seq = 1, 1, 2 }),
		},
		{
			"a seed, and a link that waits for its time", waits(Now, func(r *Record) { r.Source, r.Depth, r.Rank, r.Found = Seed, 0, 0, 9 }),
			waits(Later, func(r *Record) { r.Tries, r.Due, r.Reason = 2, 55, "timeout" }),
			waits(Later, func(r *Record) {
				r.Source, r.Depth, r.Rank, r.Found = Seed, 0, 0, 9
				r.Tries, r.Due, r.Reason = 2, 55, "timeout"
			}),
		},
		{
			"held by one of two", waits(Held, func(r *Record) { r.Reason = HeldDepth }), waits(Now, func(r *Record) { r.Depth = 1 }),
			waits(Now, func(r *Record) { r.Depth = 1 }),
		},
		{
			"two that wait", waits(Later, func(r *Record) { r.Due = 5 }), waits(Later, func(r *Record) { r.Due, r.Tries = 4, 3 }),
			waits(Later, func(r *Record) { r.Due, r.Tries = 5, 3 }),
		},
		{
			"two sources", waits(Now, nil), waits(Now, func(r *Record) { r.Source, r.Via, r.Found = "http://c.org/", page, 6 }),
			waits(Now, func(r *Record) { r.Source, r.Via, r.Found = "http://c.org/", page, 6 }),
		},
		{
			"found at an unknown time", waits(Now, nil), waits(Now, func(r *Record) { r.Source, r.Found = "http://a.org/", 0 }),
			waits(Now, nil),
		},
		{
			"a sitemap that was read, and one that waits", ended(Read, 5, func(r *Record) { r.Kind = SitemapRow }),
			waits(Later, func(r *Record) { r.Kind = SitemapRow }), ended(Read, 5, func(r *Record) { r.Kind = SitemapRow }),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Join(tt.a, tt.b); got != tt.want {
				t.Errorf("\n%+v, want\n%+v", got, tt.want)
			}
			if got := Join(tt.b, tt.a); got != tt.want {
				t.Errorf("in the other order\n%+v, want\n%+v", got, tt.want)
			}
		})
	}
}

// requireJoin checks the laws of a semilattice on all triples of some values.
func requireJoin[T comparable](t *testing.T, list []T, join func(a, b T) T) {
	t.Helper()
	for _, a := range list {
		if join(a, a) != a {
			t.Errorf("%+v with itself is %+v", a, join(a, a))
		}
		for _, b := range list {
			if x, y := join(a, b), join(b, a); x != y {
				t.Errorf("one order %+v, the other %+v", x, y)
			}
			for _, c := range list {
				if x, y := join(join(a, b), c), join(a, join(b, c)); x != y {
					t.Errorf("the first two first %+v, the last two %+v", x, y)
				}
			}
		}
	}
}

func TestJoinTimes(t *testing.T) {
	list := []HostTimes{
		{}, {Next: 5, Answer: 1, Delay: 9}, {Next: 4, Backoff: 3, Fails: 2, Kind: KindPublic}, {Kind: KindPrivate, Pace: 3, Seq: 2},
	}
	requireJoin(t, list, JoinTimes)
	all := list[0]
	for _, h := range list {
		all = JoinTimes(all, h)
	}
	if want := (HostTimes{Next: 5, Answer: 1, Delay: 9, Backoff: 3, Fails: 2, Kind: KindPublic, Pace: 3, Seq: 2}); all != want {
		t.Errorf("%+v, want %+v", all, want)
	}
}

func TestJoinRobots(t *testing.T) {
	list := []Robots{
		{Time: 1, Status: 200, Text: "a"},
		{Time: 2, Status: 404},
		{Time: 2, Status: 200, Text: "b"},
		{Time: 2, Status: 200, Text: "c"},
		{Time: 2, Tries: 3, Reason: "dns"},
	}
	requireJoin(t, list, JoinRobots)
	if got := JoinRobots(list[0], list[1]); got != list[1] {
		t.Errorf("of an earlier and a later answer %+v counts", got)
	}
}
