package iut

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"urltree/storage/record"
)

// outcomeOf returns an outcome with links that weigh about so many percent of what a transaction
// takes.
func outcomeOf(percent int, path string) *record.Outcome {
	o := &record.Outcome{}
	none := o.Weight()
	for weight := none; weight < record.MostWeight/100*percent; {
		link := record.Link{URL: fmt.Sprintf("http://a.org/%d%s", len(o.Links), path)}
		one := record.Outcome{Links: []record.Link{link}}
		o.Links = append(o.Links, link)
		weight += one.Weight() - none
	}
	return o
}

// TestParts: the parts of a set are the set, in order, and none has more links than a transaction
// takes unless it is one item.
func TestParts(t *testing.T) {
	for _, percents := range [][]int{
		{0},
		{0, 0, 0},
		{98},
		{98, 3},
		{300},
		{0, 300, 0},
		{50, 48, 50, 1, 97, 0, 0, 101, 7},
	} {
		t.Run(fmt.Sprint(percents), func(t *testing.T) {
			var set []*record.Outcome
			for _, n := range percents {
				set = append(set, outcomeOf(n, ""))
			}
			parts := 0
			for from := 0; from < len(set); parts++ {
				to := part(set, from)
				n := 0
				for _, o := range set[from:max(to, from)] {
					n += o.Weight()
				}
				if to <= from || n > record.MostWeight && to-from > 1 {
					t.Fatalf("from %d to %d with %d bytes", from, to, n)
				}
				if to < len(set) && n+set[to].Weight() <= record.MostWeight {
					t.Errorf("part %d ends at %d, though the next item has room", parts, to)
				}
				from = to
			}
		})
	}
}

// TestPartsOfLargeLinks: what a transaction takes is the less the longer its URLs are, and the more
// folders they name, for each of which it writes a count.
func TestPartsOfLargeLinks(t *testing.T) {
	for path, most := range map[string]int{
		"":                              15_000,
		"/" + strings.Repeat("x", 8000): 250,
		strings.Repeat("/x", 90):        400,
		strings.Repeat("/"+strings.Repeat("x", 30), 250): 8,
	} {
		o := outcomeOf(500, path)
		all, were := o.Links, []record.Link(nil)
		for ahead := o.TakeAhead(); ahead != nil; ahead = o.TakeAhead() {
			if !ahead.Part || len(ahead.Links) == 0 || len(ahead.Links) > most {
				t.Fatalf("%.20q: %d links of %d go ahead, at most %d may", path, len(ahead.Links), len(all), most)
			}
			were = append(were, ahead.Links...)
		}
		if len(were) < len(all)/2 || len(o.Links) == 0 || !reflect.DeepEqual(append(were, o.Links...), all) {
			t.Errorf("%.20q: %d links went ahead, %d are left of %d", path, len(were), len(o.Links), len(all))
		}
	}
}
