package frontier

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"urltree/storage/record"
)

// A site is what a host of TestRest knows of the requests that it got, over all runs.
type site struct {
	begins []time.Time
	ends   []time.Time
	busy   int // of this run
	wants  []demand
}

// A demand is a fault, or a Retry-After, that an answer came with.
type demand struct {
	end   time.Time
	least time.Duration // how long the host rests
	kept  bool          // it is durable
	run   int
}

// A restWorld is crawls of some hosts that are killed and go on.
type restWorld struct {
	t     *testing.T
	store *memStore
	opts  Options
	delay time.Duration
	mu    sync.Mutex
	rng   *rand.Rand       // guarded by mu
	sites map[string]*site // guarded by mu
	run   int
	asked int // guarded by mu
}

func (w *restWorld) random(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

func (w *restWorld) sleep(ctx context.Context, most time.Duration) bool {
	select {
	case <-time.After(time.Duration(w.random(int(most)))):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// begins checks a request that begins now. w.mu is held.
func (w *restWorld) begins(host string) {
	s, now := w.sites[host], time.Now()
	for _, d := range s.wants {
		least := d.least
		if d.run != w.run && !d.kept {
			least = firstDelay // nobody knows any more what it was
		}
		if at := d.end.Add(least); now.After(d.end) && now.Before(at) {
			w.t.Errorf("%s is asked %v after a fault, wants to rest %v (durable: %v, run %d, now %d)", host, now.Sub(d.end), least, d.kept, d.run, w.run)
		}
	}
	if s.busy++; s.busy > w.opts.PerHost {
		w.t.Errorf("%s has %d requests at once", host, s.busy)
	}
	from := s.begins
	if w.opts.PerHost == 1 {
		from = s.ends
	}
	if n := len(from); n > 0 && now.Sub(from[n-1]) < w.delay {
		w.t.Errorf("%s is asked %v after the last request, want at least %v", host, now.Sub(from[n-1]), w.delay)
	}
	s.begins = append(s.begins, now)
	w.asked++
}

// ask is one request for a row, and the commit of what it came to.
func (w *restWorld) ask(ctx context.Context, f *Frontier, l *Loan, row record.Row) bool {
	w.mu.Lock()
	if ctx.Err() != nil || !f.Begin(l) {
		w.mu.Unlock()
		return false
	}
	w.begins(l.Host)
	begin := time.Now()
	w.mu.Unlock()
	if !w.sleep(ctx, 2*time.Second) {
		return false
	}
	w.mu.Lock()
	s := w.sites[l.Host]
	s.busy--
	s.ends = append(s.ends, time.Now())
	a := Answer{Start: begin, End: time.Now(), Over: w.rng.IntN(4) == 0}
	switch w.rng.IntN(10) {
	case 0, 1:
		a.Fault = Refused
	case 2:
		a.Fault = Unreached
	case 3:
		a.Fault = Broken
	case 4:
		a.RetryAfter = time.Duration(1+w.rng.IntN(9)) * time.Second
	}
	which := -1
	if a.Fault != NoFault || a.RetryAfter > 0 {
		which = len(s.wants)
		s.wants = append(s.wants, demand{end: a.End, least: max(a.RetryAfter, firstDelay), run: w.run})
		if a.Fault == NoFault {
			s.wants[which].least = a.RetryAfter
		}
	}
	times := f.Answered(l, a)
	w.mu.Unlock()
	done := Done{Row: row}
	if a.Fault != NoFault {
		done.Next = row
		done.Next.Range, done.Next.Due = record.Later, times.Next
	}
	commit := func() {
		if !w.sleep(ctx, 400*time.Millisecond) {
			return
		}
		w.store.commit([]Done{done}, nil, []record.HostTimes{times})
		w.mu.Lock()
		if which >= 0 {
			s.wants[which].kept = true
		}
		w.mu.Unlock()
		f.Done([]Done{done}, []record.HostTimes{times})
	}
	go commit()
	return times.Next <= time.Now().UnixNano()
}

// crawl is one run, which is killed after a while.
func (w *restWorld) crawl(life time.Duration, fresh []record.Row) {
	w.run++
	for _, s := range w.sites {
		s.busy = 0
	}
	w.store.mu.Lock()
	w.store.run = uint32(w.run)
	w.store.mu.Unlock()
	opts := w.opts
	opts.Run, opts.Unclean, opts.Earlier = uint32(w.run), w.run > 1, w.run > 1
	f := start(w.t, w.store, opts)
	ctx, kill := context.WithTimeout(w.t.Context(), life)
	defer kill()
	f.Add(fresh, w.store.commit(nil, fresh, nil))
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			for {
				loans, err := f.Take(ctx, 2)
				if err != nil {
					return
				}
				for _, l := range loans {
					wg.Go(func() {
						rows := l.Rows
						w.sleep(ctx, time.Second) // it waits for a download of its own
						for len(rows) > 0 {
							if !w.ask(ctx, f, l, rows[0]) {
								break
							}
							rows = rows[1:]
						}
						for _, h := range l.Held {
							rows = append(rows, h.Row)
						}
						if w.sleep(ctx, time.Millisecond) {
							f.Return(l, rows)
						}
					})
				}
				if !w.sleep(ctx, time.Millisecond) {
					return
				}
			}
		})
	}
	<-ctx.Done()
	wg.Wait()
	synctest.Wait()
}

// TestRest: whatever hosts answer, however many requests they may have at once, and however often
// the crawl is killed, no request begins while its host rests after a fault or a Retry-After, nor
// too soon after another one.
func TestRest(t *testing.T) {
	asked := 0
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 4))
			w := &restWorld{t: t, store: newStore(), rng: rng, sites: map[string]*site{}}
			w.opts = Options{Crawlers: 5, PerHost: 1 + rng.IntN(4)}
			switch rng.IntN(3) {
			case 0:
				w.opts.Auto, w.delay = true, leastAuto
			case 1:
				w.delay = time.Duration(1+rng.IntN(30)) * 100 * time.Millisecond
				w.opts.Delay = w.delay
			}
			if rng.IntN(3) == 0 {
				w.opts.MaxHosts = 2
			}
			seq := uint64(0)
			for range 1 + rng.IntN(5) {
				var fresh []record.Row
				for i := range 4 {
					name := fmt.Sprintf("h%d.example", i)
					if w.sites[name] == nil {
						w.sites[name] = &site{}
					}
					for range rng.IntN(6) {
						seq++
						fresh = append(fresh, row(name, 0, seq))
					}
				}
				w.crawl(time.Duration(1+rng.IntN(20_000))*time.Millisecond, fresh)
			}
			asked += w.asked
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if asked < 1500 {
		t.Errorf("%d requests in all", asked)
	}
}
