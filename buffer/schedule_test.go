package buffer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// yield lets others run, as chance has it.
func yield() {
	for range rand.N(3) {
		runtime.Gosched()
	}
}

// A yieldingContext lets others run whenever it is asked, which the buffer does between its steps.
type yieldingContext struct{ context.Context }

func (c yieldingContext) Err() error {
	yield()
	return c.Context.Err()
}

func (c yieldingContext) Done() <-chan struct{} {
	yield()
	return c.Context.Done()
}

// Under many schedules, on 1 to 8 threads and with others let in between the steps: what an Add
// took over is written once and then arrives once, the counts agree at every instant, no more than
// Size items are in the buffer or out, and at the end all permits are back. Adds are cancelled, and
// the buffer is closed while some are on their way.
func TestSchedules(t *testing.T) {
	rounds := 15
	if os.Getenv("TEST_URLTREE_FULL") != "" {
		rounds = 1000
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for threads := 1; threads <= 8; threads++ {
		runtime.GOMAXPROCS(threads)
		for round := range rounds {
			size := 1 + round%4
			t.Run(fmt.Sprintf("%d threads, %d places, round %d", threads, size, round), func(t *testing.T) { schedule(t, size) })
		}
	}
}

func schedule(t *testing.T, size int) {
	const crawlers, each, limit = 5, 12, 10
	var writes [crawlers * each]atomic.Int32
	b := New(Options[int]{Size: size, Bytes: limit, Burst: 4, Weight: func(n int) int64 {
		yield()
		return int64(n%13) / int64(1+writes[n].Load())
	}})
	write := func(items []int) error {
		for _, n := range items {
			yield()
			writes[n].Add(1)
		}
		return nil
	}
	check := func() {
		c := b.Counts()
		if c.Added != c.Removed+int64(c.Waiting+c.Out) || c.Waiting+c.Out > size {
			t.Errorf("%+v with %d places", c, size)
		}
	}
	var mu sync.Mutex
	accepted, arrived := map[int]int{}, map[int]int{} // guarded by mu
	var adders, builders sync.WaitGroup
	for c := range crawlers {
		adders.Go(func() {
			for n := range each {
				ctx, cancel := context.WithCancel(t.Context())
				if n%4 == 3 {
					go cancel()
				}
				item := c*each + n
				err := b.Add(yieldingContext{ctx}, item)
				cancel()
				switch {
				case err == nil:
					mu.Lock()
					accepted[item]++
					mu.Unlock()
				case errors.Is(err, ErrClosed):
					return
				case n%4 != 3 || !errors.Is(err, context.Canceled):
					t.Errorf("Add: %v", err)
				}
				b.Flush()
				check()
			}
		})
	}
	for range 2 {
		builders.Go(func() {
			for {
				batch, err := b.Take(yieldingContext{t.Context()}, write)
				if err != nil {
					if err != io.EOF {
						t.Errorf("Take: %v", err)
					}
					return
				}
				mu.Lock()
				for _, item := range batch.Items {
					arrived[item]++
					if n := writes[item].Load(); n != 1 {
						t.Errorf("item %d arrived and was written %d times", item, n)
					}
				}
				mu.Unlock()
				check()
				yield()
				batch.Done()
			}
		})
	}
	closing := make(chan struct{})
	go func() {
		defer close(closing)
		for range rand.N(400) {
			runtime.Gosched()
		}
		b.Close()
	}()
	adders.Wait()
	<-closing
	builders.Wait()
	for item := range crawlers * each {
		if accepted[item] != arrived[item] || arrived[item] > 1 {
			t.Errorf("item %d was accepted %d times and arrived %d times", item, accepted[item], arrived[item])
		}
	}
	requireEmpty(t, b)
}
