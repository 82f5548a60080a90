package iut

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// Readers and writers of a few paths, on 1 to 8 threads and with others let in while they hold a
// lock: a writer is alone.
func TestPathLocksSchedules(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for threads := 1; threads <= 8; threads++ {
		runtime.GOMAXPROCS(threads)
		l := newPathLocks()
		var inside [3]atomic.Int32 // readers count 1, a writer 1,000
		var wg sync.WaitGroup
		for range 12 {
			wg.Go(func() {
				for range 100 {
					i := rand.N(3)
					me, lock := int32(1), l.rlock
					if rand.N(3) == 0 {
						me, lock = 1000, l.lock
					}
					unlock := lock([]string{"a", "b", "c"}[i])
					if n := inside[i].Add(me); n >= 1000 && n != me {
						t.Errorf("%d threads: %d and more are inside", threads, n)
					}
					for range rand.N(3) {
						runtime.Gosched()
					}
					inside[i].Add(-me)
					unlock()
				}
			})
		}
		wg.Wait()
	}
}
