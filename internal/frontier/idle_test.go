package frontier

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"urltree/storage/record"
)

// TestNoIdleWorker: on a thousand hosts no crawler waits while a host may be asked, not for a
// moment. All that happens does so at whole milliseconds; it is looked at between them.
func TestNoIdleWorker(t *testing.T) {
	const hosts, rowsOfEach = 1000, 2
	for i, crawlers := range []int{40, 150} { // too few for the hosts, and more than they keep busy
		t.Run(fmt.Sprint(crawlers), func(t *testing.T) {
			in(t, someOrders(i), func(t *testing.T, o order) {
				var rows []record.Row
				for n := range hosts * rowsOfEach {
					rows = append(rows, row(fmt.Sprintf("h%d.example", n%hosts), 0, uint64(n)))
				}
				s := newStore()
				f := start(t, s, o.options(Options{Crawlers: crawlers, Delay: 2 * time.Second, Run: 1}))
				f.Add(rows, s.commit(nil, rows, nil))

				ended := make(chan struct{})
				var idle, waited time.Duration // of all crawlers: while a host was ready, and in all
				var looking sync.WaitGroup
				looking.Go(func() {
					<-time.After(time.Millisecond / 2)
					for tick := time.NewTicker(time.Millisecond); ; {
						synctest.Wait()
						f.mu.Lock()
						waits := time.Duration(f.waits.takes) * time.Millisecond
						waited += waits
						if len(f.turns.needs)+f.turns.count(time.Now().UnixNano(), 1) > 0 {
							idle += waits
						}
						f.mu.Unlock()
						select {
						case <-ended:
							tick.Stop()
							return
						case <-tick.C:
						}
					}
				})
				var wg sync.WaitGroup
				for n := range crawlers {
					rng := rand.New(rand.NewPCG(uint64(n), 3))
					wg.Go(func() { crawlPlainly(t, f, s, rng) })
				}
				wg.Wait()
				close(ended)
				looking.Wait()
				if got := f.figures().Removed; got != int64(len(rows)) {
					t.Errorf("%d of %d rows are done", got, len(rows))
				}
				if idle != 0 || waited == 0 {
					t.Errorf("crawlers waited for %v, for %v of it while a host was ready; want none of it", waited, idle)
				}
			})
		})
	}
}

// crawlPlainly asks what it gets, one request after the other, until nothing is left.
func crawlPlainly(t *testing.T, f *Frontier, s *memStore, rng *rand.Rand) {
	for {
		loans, err := f.Take(t.Context(), 1)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Errorf("Take: %v", err)
			return
		}
		for _, l := range loans {
			begin := time.Now()
			<-time.After(time.Duration(100+rng.IntN(200)) * time.Millisecond)
			times := f.Answered(l, Answer{Start: begin, End: time.Now()})
			f.Return(l, l.Rows[1:])
			done := []Done{{Row: l.Rows[0]}}
			s.commit(done, nil, []record.HostTimes{times})
			f.Done(done, []record.HostTimes{times})
		}
	}
}
