package spool

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestSorter: rows come out as a stable sort of all of them puts them, whatever had to go to files.
func TestSorter(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 12 {
		s := &Sorter{budget: 1 + rnd.IntN(3000), fan: 2 + rnd.IntN(3)}
		var want []Row
		for n := range rnd.IntN(600) {
			r := Row{Key: fmt.Sprint("k", rnd.IntN(20)), Sub: fmt.Sprint("p", rnd.IntN(5)), Values: [2]string{"a", fmt.Sprint(n)}}
			want = append(want, r)
			if err := s.Add(r); err != nil {
				t.Fatal(err)
			}
			if files := len(slices.Concat(s.levels...)); s.bytes >= s.budget || files > (s.fan-1)*len(s.levels) {
				t.Fatalf("%d bytes in memory, %d files of %d levels", s.bytes, files, len(s.levels))
			}
		}
		slices.SortStableFunc(want, func(a, b Row) int { return a.compare(&b) })
		sorted := s.Sorted()
		var got []Row
		for {
			r, err := sorted()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, r)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("budget %d, fan %d: %d rows, want %d, in another order", s.budget, s.fan, len(got), len(want))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSorterNoRoom: a temporary file that cannot be made is an error of the disk, and no panic.
func TestSorterNoRoom(t *testing.T) {
	t.Setenv("TMPDIR", "/nowhere/at/all")
	s := &Sorter{budget: 1, fan: 2}
	if err := s.Add(Row{Key: "k"}); err == nil || !strings.Contains(err.Error(), "temporary file") {
		t.Errorf("%v", err)
	}
}
