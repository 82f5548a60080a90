package iut

import (
	"fmt"
	"testing"

	"urltree/storage"
)

// TestParts: the parts of a set are the set, in order, and none has more links than a transaction
// takes unless it is one item.
func TestParts(t *testing.T) {
	for _, links := range [][]int{
		{0},
		{0, 0, 0},
		{partLinks},
		{partLinks, 1},
		{3 * partLinks},
		{0, 3 * partLinks, 0},
		{partLinks / 2, partLinks / 2, partLinks / 2, 1, partLinks, 0, 0, partLinks + 1, 7},
	} {
		t.Run(fmt.Sprint(links), func(t *testing.T) {
			var set []*storage.Outcome
			for _, n := range links {
				set = append(set, &storage.Outcome{Links: make([]storage.Link, n)})
			}
			parts := 0
			for from := 0; from < len(set); parts++ {
				to := part(set, from)
				n := 0
				for _, o := range set[from:max(to, from)] {
					n += len(o.Links)
				}
				if to <= from || n > partLinks && to-from > 1 {
					t.Fatalf("from %d to %d with %d links", from, to, n)
				}
				if to < len(set) && n+len(set[to].Links) <= partLinks {
					t.Errorf("part %d ends at %d, though the next item has room", parts, to)
				}
				from = to
			}
		})
	}
}

// TestPartsOfLongURLs: links with very long URLs fill a transaction sooner.
func TestPartsOfLongURLs(t *testing.T) {
	long := storage.Link{URL: string(make([]byte, 8<<10))}
	item := &storage.Outcome{Links: []storage.Link{long, long}}
	set := make([]*storage.Outcome, partBytes/(16<<10)+1)
	for i := range set {
		set[i] = item
	}
	if to := part(set, 0); to != len(set)-1 {
		t.Errorf("the first part has %d of %d items, want all but one", to, len(set))
	}
}
