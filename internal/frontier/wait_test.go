package frontier

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"urltree/storage/record"
)

func TestMaxWait(t *testing.T) {
	for _, tt := range []struct {
		name string
		due  time.Duration
		end  bool
	}{
		{"within", 10 * time.Minute, false},
		{"beyond", 10*time.Minute + 1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := row("a.example", 0, 1)
				other := row("b.example", 0, 2)
				s := newStore(r, other)
				f := start(t, s, Options{})
				begin := time.Now()
				got, loans := take(t, f, 2)
				if len(got) != 2 {
					t.Fatalf("got %v, want both", got)
				}
				if loans[0].Host != "a.example" {
					loans[0], loans[1] = loans[1], loans[0]
				}
				later := r
				later.Range, later.Due = record.Later, begin.Add(tt.due).UnixNano()
				s.mu.Lock()
				s.rows[r.URL] = later
				s.mu.Unlock()
				f.Return(loans[0], nil)
				f.Done([]Done{{Row: r, Next: later}}, nil)
				var err error
				var more []*Loan
				var wg sync.WaitGroup
				wg.Go(func() { more, err = f.Take(t.Context(), 1) })
				synctest.Wait()
				if err != nil {
					t.Fatalf("%v while a URL is out", err)
				}
				finish(f, s, loans[1])
				wg.Wait()
				if tt.end {
					if !errors.Is(err, io.EOF) || time.Since(begin) != 0 || f.figures().Eligible != 1 {
						t.Errorf("%v after %v, %d eligible; want io.EOF at once and the row still pending", err, time.Since(begin), f.figures().Eligible)
					}
				} else if err != nil || time.Since(begin) != tt.due || more[0].Rows[0] != later {
					t.Errorf("%v, %v after %v; want the row when it is due", more, err, time.Since(begin))
				}
			})
		})
	}
}

func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(row("a.example", 0, 1), row("b.example", 0, 2))
		calls := make(chan struct{}, 10)
		var f *Frontier
		f = start(t, s, Options{Idle: func() {
			f.figures() // the lock is free
			calls <- struct{}{}
		}})
		got, loans := take(t, f, 1)
		if len(got) != 1 || f.Starved() || len(calls) != 0 {
			t.Fatalf("got %v, starved %v: the other host is ready", got, f.Starved())
		}
		_, more := take(t, f, 1)
		if !f.Starved() {
			t.Fatal("not starved though all is out")
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if _, err := f.Take(t.Context(), 1); !errors.Is(err, io.EOF) {
					t.Errorf("Take: %v, want io.EOF", err)
				}
			})
		}
		want := func(n int) {
			t.Helper()
			synctest.Wait()
			if len(calls) != n {
				t.Fatalf("Idle called %d times, want %d: once after each change", len(calls), n)
			}
		}
		want(1)
		f.Return(loans[0], nil)
		want(2)
		f.Return(more[0], nil)
		want(3)
		f.Done([]Done{{Row: loans[0].Rows[0]}, {Row: more[0].Rows[0]}}, nil)
		wg.Wait()
		want(3)
		if f.Starved() {
			t.Error("starved though nothing is out")
		}
	})
}

func TestTakeEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := row("a.example", 0, 1)
		r.Range, r.Due = record.Later, time.Now().Add(time.Minute).UnixNano()
		s := newStore(r)
		f := start(t, s, Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := f.Take(ctx, 1); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
				t.Errorf("Take: %v after %v, want the end of ctx", err, time.Since(begin))
			}
		})
		got, _ := take(t, f, 1) // the other one still wakes in time
		if !slices.Equal(got, []uint64{1}) || time.Since(begin) != time.Minute {
			t.Errorf("got %v after %v", got, time.Since(begin))
		}
		wg.Wait()
		if _, err := f.Take(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Take after the end of ctx: %v", err)
		}
	})
}

// TestSleeperThatLeaves has the Take that would wake first end before it does.
func TestSleeperThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(row("a.example", 0, 1), row("a.example", 0, 2))
		f := start(t, s, Options{Delay: 10 * time.Second})
		_, loans := take(t, f, 1)
		f.Answered(loans[0], Answer{})
		finish(f, s, loans...)
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := f.Take(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Take: %v, want the end of ctx", err)
			}
		})
		synctest.Wait() // that one sleeps until 10 s
		f.CrawlDelay("a.example", 15*time.Second)
		wg.Go(func() {
			got, _ := take(t, f, 1)
			if !slices.Equal(got, []uint64{3}) || time.Since(begin) != 12*time.Second {
				t.Errorf("got %v after %v, want 3 when it is due", got, time.Since(begin))
			}
		})
		<-time.After(6 * time.Second)
		r := row("b.example", 0, 3)
		r.Range, r.Due = record.Later, begin.Add(12*time.Second).UnixNano()
		s.mu.Lock()
		s.rows[r.URL] = r
		s.mu.Unlock()
		f.Add([]record.Row{r}, 1)
		wg.Wait()
	})
}

func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(row("a.example", 0, 1), row("a.example", 0, 2))
		f := start(t, s, Options{Delay: 4 * time.Second})
		want := func(text string) {
			t.Helper()
			if got := f.Waiting(); got != text {
				t.Errorf("waiting: %q, want %q", got, text)
			}
		}
		want("")
		_, loans := take(t, f, 1)
		want("1 URL in flight")
		f.Answered(loans[0], Answer{})
		finish(f, s, loans...)
		want("1 host resting, next in 4s")
		_, loans = take(t, f, 1)
		f.Done([]Done{{Row: loans[0].Rows[0]}}, nil)
		want("1 host in use")
		f.Return(loans[0], nil)
		f.Return(loans[0], nil) // does nothing
		want("nothing left")
		wantEnd(t, f)
	})
}
