package iut

import (
	"strconv"
	"sync"
	"testing"
)

// TestPathLocksExclude: under the lock of a path nobody reads or writes beside a writer, and
// readers are there together; another path is free.
func TestPathLocksExclude(t *testing.T) {
	l := newPathLocks()
	other := "b"
	for i := 0; l.of(other) == l.of("a"); i++ {
		other = strconv.Itoa(i)
	}
	unlock := l.lock("a")
	l.lock(other)()
	if l.of("a").TryRLock() || l.of("a").TryLock() {
		t.Fatal("somebody came in beside a writer")
	}
	unlock()
	one, two := l.rlock("a"), l.rlock("a")
	if l.of("a").TryLock() {
		t.Fatal("a writer came in beside readers")
	}
	one()
	if l.of("a").TryLock() {
		t.Fatal("a writer came in beside one reader")
	}
	two()
	l.lock("a")()
}

func TestPathLocksCount(t *testing.T) {
	l := newPathLocks()
	var wg sync.WaitGroup
	counts := make([]int, 3) // each guarded by the lock of its path
	for i := range 60 {
		wg.Go(func() {
			for range 50 {
				unlock := l.lock([]string{"a", "b", "c"}[i%3])
				counts[i%3]++
				unlock()
			}
		})
	}
	wg.Wait()
	for i, n := range counts {
		if n != 1000 {
			t.Errorf("%d steps under lock %d, want 1000", n, i)
		}
	}
}
