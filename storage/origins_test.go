package storage

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"urltree/storage/record"
)

// TestOrigins: it tells of the origins that a look at all records finds, and looks at few of them.
func TestOrigins(t *testing.T) {
	ctx := context.Background()
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 20 {
		x, _ := newIndex(t, 0)
		hosts := []string{"a", "a.b", "a.b.q", "a.r", "b:81", "b", "c.r:8080", "rr", "q"}
		paths := []string{"", "?", "?x", "a", "a/", "a/b?d", "d/o", "zz"}
		var set []*record.Outcome
		for _, scheme := range []string{"http", "https"} {
			for _, host := range hosts {
				answers := r.IntN(3) > 0
				for _, path := range paths {
					url := scheme + "://" + host + "/" + path
					if _, err := record.Key(url); err != nil || r.IntN(3) == 0 {
						continue
					}
					o := &record.Outcome{Row: record.Row{URL: url, Source: record.Seed}, State: []record.State{record.Stored, record.Failed, record.Refused}[r.IntN(3)], Page: record.Page{Status: 200}}
					if o.State == record.Stored {
						o.Meta = &record.Meta{}
					}
					if !answers || r.IntN(2) == 0 {
						o = &record.Outcome{Links: []record.Link{{URL: url, Source: record.Seed}}}
					}
					set = append(set, o)
				}
			}
		}
		if _, err := x.Commit(set); err != nil {
			t.Fatal(err)
		}
		want := map[string]int{}
		err := x.Records(ctx, nil, func(rec record.Record, err error) error {
			if rec.State != record.Pending {
				want[record.Origin(rec.URL)] = 1
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int{}
		if err := x.Origins(ctx, func(o string) error { got[o]++; return nil }); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); d != "" {
			t.Fatalf("round %d (-want +got):\n%s", round, d)
		}
		for o, n := range got {
			if n > 2 {
				t.Errorf("%s is told %d times", o, n)
			}
		}
	}

	x, _ := newIndex(t, 0)
	var set []*record.Outcome
	const urls = 3000
	for i := range urls {
		set = append(set, &record.Outcome{Row: record.Row{URL: fmt.Sprintf("http://a.org/%d", i), Source: record.Seed}, State: record.Failed, Reason: "dns"})
	}
	if _, err := x.Commit(set); err != nil {
		t.Fatal(err)
	}
	if err := x.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	looked := x.Stats().Looked
	if err := x.Origins(ctx, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if n := x.Stats().Looked - looked; n > 2 {
		t.Errorf("of %d records of one origin, %d were looked at", urls, n)
	}
}
