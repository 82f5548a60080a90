package top

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestList compares a list with sorting everything.
func TestList(t *testing.T) {
	t.Parallel()
	type element struct{ key, number int }
	byKey := func(a, b element) int { return cmp.Compare(b.key, a.key) }
	for range 200 {
		l := List[element]{N: 1 + rand.IntN(5), Compare: byKey}
		var all []element
		for i := range rand.IntN(20) {
			all = append(all, element{rand.IntN(6), i})
			l.Add(all[i])
		}
		slices.SortStableFunc(all, byKey)
		kept := min(len(all), l.N)
		if !slices.Equal(l.Items(), all[:kept]) || l.More() != int64(len(all)-kept) {
			t.Fatalf("%d of %v: %v and %d more", l.N, all, l.Items(), l.More())
		}
	}
}
