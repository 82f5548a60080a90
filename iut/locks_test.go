package iut

import (
	"runtime"
	"sync"
	"testing"
)

// waitUsers waits until n goroutines hold or wait for the lock of a path.
func waitUsers(l *pathLocks, path string, n int) {
	for users := -1; users != n; runtime.Gosched() {
		l.mu.Lock()
		if users = 0; l.byPath[path] != nil {
			users = l.byPath[path].users
		}
		l.mu.Unlock()
	}
}

func TestPathLocksExclude(t *testing.T) {
	var l pathLocks
	in, release := make(chan string, 4), make(chan bool)
	enter := func(lock func(string) func(), name string) {
		go func() {
			unlock := lock("a")
			in <- name
			<-release
			unlock()
		}()
	}
	unlock := l.lock("a")
	l.lock("b")() // another path is free
	enter(l.rlock, "reader")
	enter(l.rlock, "reader")
	waitUsers(&l, "a", 3)
	if len(in) != 0 {
		t.Fatal("a reader came in beside a writer")
	}
	unlock()
	for range 2 { // both at once: none is released yet
		<-in
	}
	enter(l.lock, "writer")
	waitUsers(&l, "a", 3)
	if len(in) != 0 {
		t.Fatal("a writer came in beside readers")
	}
	release <- true
	waitUsers(&l, "a", 2)
	if len(in) != 0 {
		t.Fatal("a writer came in beside one reader")
	}
	close(release)
	if name := <-in; name != "writer" {
		t.Fatalf("%s came in, want the writer", name)
	}
	waitUsers(&l, "a", 0)
	if len(l.byPath) != 0 {
		t.Fatalf("%d locks are left", len(l.byPath))
	}
}

func TestPathLocksEmpty(t *testing.T) {
	var l pathLocks
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
	if len(l.byPath) != 0 {
		t.Errorf("%d locks are left", len(l.byPath))
	}
}
