package storage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"urltree/storage/record"
)

// movedIndex returns a new index of a process that asks all hosts.
func movedIndex(t *testing.T) *Index {
	path := filepath.Join(t.TempDir(), "index.db")
	if err := Create(path); err != nil {
		t.Fatal(err)
	}
	x := open(t, path, Options{NoSync: true, Strict: true, Inbox: 4})
	if _, _, _, err := x.Runs().Begin(); err != nil {
		t.Fatal(err)
	}
	return x
}

// dump returns all that two processes must have alike: neither numbers of discovery nor of runs.
func dump(t *testing.T, x *Index) (lines []string) {
	t.Helper()
	add := func(r record.Record, err error) error {
		r.Seq, r.Run, r.Found = 0, 0, 0
		lines = append(lines, fmt.Sprintf("%+v %v", r, err))
		return nil
	}
	if err := x.Records(context.Background(), nil, add); err != nil {
		t.Fatal(err)
	}
	err := x.Sitemaps().Each(context.Background(), func(r *record.Record) error { return add(*r, nil) })
	if err != nil {
		t.Fatal(err)
	}
	err = x.Hosts().Each(context.Background(), func(h record.HostRow) error {
		h.Run, h.Seq, h.Counted = 0, 0, 0
		lines = append(lines, fmt.Sprintf("%+v", h))
		r, _, err := x.Hosts().Robots("http://" + h.Name)
		lines = append(lines, fmt.Sprintf("%+v", r))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// drawMoved returns something that is handed over, of few URLs.
func drawMoved(t *testing.T, r *rand.Rand) record.Moved {
	host := fmt.Sprint("h", r.IntN(3), ".org")
	url := fmt.Sprintf("http://%s/%d", host, r.IntN(4))
	key, err := record.Key(url)
	if err != nil {
		t.Fatal(err)
	}
	rec := record.Record{
		State: record.Pending, Found: 5, Generation: uint32(r.IntN(2)),
		Row: record.Row{URL: url, Source: []string{record.Seed, "http://s.org/"}[r.IntN(2)], Depth: uint32(r.IntN(3)), Rank: uint64(r.IntN(3)), Tries: uint16(r.IntN(2)), Range: record.Now},
	}
	switch r.IntN(7) {
	case 0:
		rec.Range, rec.Due, rec.Reason = record.Later, int64(1+r.IntN(3)), "timeout"
	case 1:
		rec.Range, rec.Reason = record.Held, record.HeldDepth
	case 2:
		rec.State, rec.Time = record.Stored, int64(r.IntN(3))
		return record.MovedDone(&rec, key)
	case 3:
		rec = record.Record{State: []record.State{record.Pending, record.Read}[r.IntN(2)], Row: record.Row{URL: url, Kind: record.SitemapRow, Depth: 1}}
		rec.Time = int64(r.IntN(3))
		return record.Moved{Kind: record.MovedSitemap, Name: url, Value: rec.AppendSitemap(nil)}
	case 4:
		h := record.HostRow{HostTimes: record.HostTimes{Name: host, Next: int64(r.IntN(9)), Backoff: int64(r.IntN(3)), Delay: int64(r.IntN(3))}}
		return record.MovedTimes(&h)
	case 5:
		robots := record.Robots{Origin: "http://" + host, Time: int64(r.IntN(4)), Status: 200, Text: strings.Repeat("x", r.IntN(3))}
		return record.Moved{Kind: record.MovedRobots, Name: robots.Origin, Value: robots.Append(nil)}
	}
	return record.MovedWaiting(&rec, key)
}

// TestMoveIn: what is handed over comes to the same in any order, in any batches, and however often
// parts of it come again.
func TestMoveIn(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		var list []record.Moved
		for range 1 + r.IntN(30) {
			m := drawMoved(t, r)
			if err := m.Check(); err != nil {
				t.Fatal(err)
			}
			list = append(list, m)
		}
		var first []string
		for round := range 3 {
			x := movedIndex(t)
			again := slices.Clone(list)
			for _, m := range list {
				if r.IntN(3) == 0 {
					again = append(again, m)
				}
			}
			r.Shuffle(len(again), func(i, k int) { again[i], again[k] = again[k], again[i] })
			for len(again) > 0 {
				n := 1 + r.IntN(len(again))
				if _, err := x.Commit([]*record.Outcome{{Moved: again[:n], Arrived: true}}); err != nil {
					t.Fatal(err)
				}
				again = again[n:]
			}
			if faults := faultsOf(t, x); len(faults) > 0 {
				t.Fatal(faults)
			}
			switch got := dump(t, x); {
			case round == 0:
				first = got
			case !slices.Equal(got, first):
				t.Fatalf("seed %d: it came to\n%s\nand to\n%s", seed, strings.Join(first, "\n"), strings.Join(got, "\n"))
			}
		}
	}
}

// TestMoveOut: all that is known of a partition gets to another index, a part at a time, and back:
// what waits leaves the first one, pages stay there.
func TestMoveOut(t *testing.T) {
	const moves = "h1.org"
	a, b := movedIndex(t), movedIndex(t)
	page := func(url string) *record.Outcome {
		return &record.Outcome{
			Row: record.Row{URL: url, Source: record.Seed}, State: record.Stored, Page: record.Page{Time: 7, Bytes: 3},
			Links: []record.Link{{URL: url + "later", Source: url, Depth: 1, Rank: 9}, {URL: url + "held", Source: url, Depth: 1, Held: "scope"}},
		}
	}
	set := []*record.Outcome{page("http://h1.org/"), page("http://h2.org/"), {
		Links:  []record.Link{{URL: "http://h1.org/map", Kind: record.SitemapRow, Depth: 1}},
		Host:   &record.HostTimes{Name: moves, Next: 1 << 60, Backoff: 5, Seq: 3},
		Robots: &record.Robots{Origin: "http://h1.org", Time: 9, Status: 200, Text: "User-agent: *"},
	}}
	if _, err := a.Commit(set); err != nil {
		t.Fatal(err)
	}
	move := func(from, to *Index) {
		t.Helper()
		for leg := range record.Legs {
			d := record.Departure{
				Leg: leg, Kept: func([]byte) []byte { return []byte("kept") },
				Leaves: func(host string) (uint16, bool) { return 3, host == moves },
			}
			for more := true; more; more = d.From != nil {
				var err error
				if d.From, err = from.Outbox().MoveOut(t.Context(), &d); err != nil {
					t.Fatal(err)
				}
			}
		}
		rows, err := from.Outbox().Read(3, 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		o := &record.Outcome{Arrived: true}
		for _, p := range rows {
			o.Moved = append(o.Moved, p.Moved)
		}
		last := rows[len(rows)-1].Seq
		if has, err := from.Outbox().Has([]int{3}, last); err != nil || !has {
			t.Errorf("the outbox has its rows: %t, %v", has, err)
		}
		for _, err := range []error{commitOne(to, o), commitOne(from, &record.Outcome{Delivered: []record.Delivery{{Part: 3, First: 1, Last: last}}})} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if has, err := from.Outbox().Has([]int{3}, last); err != nil || has {
			t.Errorf("the outbox has rows that are delivered: %t, %v", has, err)
		}
		for _, x := range []*Index{from, to} {
			if faults := faultsOf(t, x); len(faults) > 0 {
				t.Error(faults)
			}
		}
	}
	is := func(x *Index, url, want string) {
		t.Helper()
		r, err := x.Record(url)
		got := strings.TrimSpace(fmt.Sprint(r.State, " ", r.Reason, " ", r.Depth, " ", r.Rank))
		if err != nil {
			got = "missing"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
	before := dump(t, a)
	move(a, b)
	is(a, "http://h1.org/", "stored  0 0")
	is(a, "http://h1.org/later", "missing")
	is(a, "http://h1.org/held", "missing")
	is(a, "http://h2.org/later", "pending  1 9")
	is(b, "http://h1.org/", "refused elsewhere 0 0")
	is(b, "http://h1.org/later", "pending  1 9")
	is(b, "http://h1.org/held", "pending scope 1 1")
	is(b, "http://h2.org/", "missing")
	if n := b.Totals().Elsewhere; n != 1 {
		t.Errorf("%d are known elsewhere", n)
	}
	h, err := b.Hosts().Get(moves)
	robots, ok, robotsErr := b.Hosts().Robots("http://h1.org")
	if err != nil || robotsErr != nil || h.Next != 1<<60 || h.Backoff != 5 || h.Sitemaps != 1 || !ok || robots.Time != 9 {
		t.Errorf("of the host: %+v, %+v, %v, %v", h, robots, err, robotsErr)
	}
	if kept, err := a.Marks().Cluster(); err != nil || string(kept) != "kept" {
		t.Errorf("kept %q, %v", kept, err)
	}
	move(b, a)
	is(b, "http://h1.org/", "refused elsewhere 0 0")
	is(b, "http://h1.org/later", "missing")
	if after := dump(t, a); !slices.Equal(before, after) {
		t.Errorf("before\n%s\nafter\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
}

func commitOne(x *Index, o *record.Outcome) error {
	_, err := x.Commit([]*record.Outcome{o})
	return err
}
