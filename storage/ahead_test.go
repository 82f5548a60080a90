package storage

import (
	"fmt"
	"strings"
	"testing"
)

// TestAhead: whether an outcome's links come with it or in transactions before it, the index is the
// same: the page waits until its outcome comes, its record counts all links that were cut, and a
// depth that became less meanwhile counts for each of them.
func TestAhead(t *testing.T) {
	for _, parts := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(parts), func(t *testing.T) {
			x, path := newIndex(t, 0)
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
			x = open(t, path, Options{NoSync: true, Strict: true, Limits: Limits{MaxDepth: 3, Host: 6, MaxHeld: 1}})
			x.Filter().SetComplete()
			page := Row{URL: "http://b.org/", Source: "http://c.org/", Depth: 3, Range: Now, Rank: 3}
			for depth := range 2 { // it is known, then a shorter way to it
				link := Link{URL: page.URL, Source: page.Source, Depth: page.Depth - uint32(depth)}
				if _, err := x.Commit([]*Outcome{{Links: []Link{link}}}); err != nil {
					t.Fatal(err)
				}
			}
			o := &Outcome{Row: page, State: Stored, Page: Page{Status: 200, PageDepth: page.Depth}, Meta: &Meta{}}
			for i := range 12 {
				o.Links = append(o.Links, Link{URL: fmt.Sprintf("http://a.org/%d", i), Source: page.URL, Depth: page.Depth + 1})
			}
			fresh := 0
			for range parts - 1 {
				done, err := x.Commit([]*Outcome{o.Ahead(12 / parts)})
				if err != nil {
					t.Fatal(err)
				}
				fresh += len(done.Fresh)
				if r, err := x.Record(page.URL); err != nil || r.State != Pending || r.Cut != 0 {
					t.Errorf("before its outcome: %+v, %v", r, err)
				}
			}
			done, err := x.Commit([]*Outcome{o})
			if fresh += len(done.Fresh); err != nil || fresh != 6 {
				t.Errorf("%d links are eligible, want 6: %v", fresh, err)
			}
			if r, err := x.Record(page.URL); err != nil || r.State != Stored || r.Cut != 5 || x.Totals().Cut != 5 {
				t.Errorf("%+v, %v; in all %d links were cut, want 5", r, err, x.Totals().Cut)
			}
			if r, err := x.Record("http://a.org/0"); err != nil || r.Depth != 3 {
				t.Errorf("depth %d of a link, want 3: %v", r.Depth, err)
			}
			if faults := faultsOf(t, x); len(faults) > 0 || len(x.ahead) > 0 {
				t.Error(faults, x.ahead)
			}
		})
	}
}

// TestWeightOfLabels checks that a folder of a host's name weighs as much as one of a path: both
// have counts.
func TestWeightOfLabels(t *testing.T) {
	labels := Link{URL: "http://" + strings.Repeat("a.", 100) + "b.test/"}
	path := Link{URL: "http://b.test/" + strings.Repeat("a/", 100)}
	if got, want := weigh(&labels), weigh(&path); got < want*9/10 {
		t.Errorf("a link below 100 labels weighs %d, one below 100 segments %d", got, want)
	}
}
