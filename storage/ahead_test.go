package storage

import (
	"fmt"
	"testing"

	"urltree/storage/record"
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
			page := record.Row{URL: "http://b.org/", Source: "http://c.org/", Depth: 3, Range: record.Now, Rank: 3}
			for depth := range 2 { // it is known, then a shorter way to it
				link := record.Link{URL: page.URL, Source: page.Source, Depth: page.Depth - uint32(depth)}
				if _, err := x.Commit([]*record.Outcome{{Links: []record.Link{link}}}); err != nil {
					t.Fatal(err)
				}
			}
			o := &record.Outcome{Row: page, State: record.Stored, Page: record.Page{Status: 200, PageDepth: page.Depth}, Meta: &record.Meta{}}
			for i := range 12 {
				o.Links = append(o.Links, record.Link{URL: fmt.Sprintf("http://a.org/%d", i), Source: page.URL, Depth: page.Depth + 1})
			}
			fresh := 0
			for range parts - 1 {
				done, err := x.Commit([]*record.Outcome{o.Ahead(12 / parts)})
				if err != nil {
					t.Fatal(err)
				}
				fresh += len(done.Fresh)
				if r, err := x.Record(page.URL); err != nil || r.State != record.Pending || r.Cut != 0 {
					t.Errorf("before its outcome: %+v, %v", r, err)
				}
			}
			done, err := x.Commit([]*record.Outcome{o})
			if fresh += len(done.Fresh); err != nil || fresh != 6 {
				t.Errorf("%d links are eligible, want 6: %v", fresh, err)
			}
			if r, err := x.Record(page.URL); err != nil || r.State != record.Stored || r.Cut != 5 || x.Totals().Cut != 5 {
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
