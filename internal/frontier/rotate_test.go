package frontier

import (
	"slices"
	"testing"
	"time"

	"urltree/storage/record"
)

// TestReadBeforeTold reads a host from the store with a row of which Add tells only afterwards.
// It counts once.
func TestReadBeforeTold(t *testing.T) {
	in(t, allOrders(), func(t *testing.T, o order) {
		s := newStore(row("a.example", 0, 1), row("b.example", 0, 2))
		f := start(t, s, o.options(Options{MaxHosts: 1}))
		got, loans := take(t, f, 1)
		extra := row("b.example", 1, 3)
		tx := s.commit([]Done{{Row: loans[0].Rows[0]}}, []record.Row{extra}, nil)
		f.Return(loans[0], nil)
		f.Done([]Done{{Row: loans[0].Rows[0]}}, nil)
		more, loans := take(t, f, 1) // b comes in, as of tx
		got = append(got, more...)
		f.Add([]record.Row{extra}, tx)
		if h := f.hosts.byName["b.example"]; h == nil || h.stock.count != 2 || f.figures().Eligible != 2 {
			t.Errorf("b is %+v, %d eligible; want 2 rows of it", h, f.figures().Eligible)
		}
		for len(loans) > 0 {
			finish(f, s, loans...)
			if f.figures().Eligible == 0 {
				break
			}
			more, loans = take(t, f, 1)
			got = append(got, more...)
		}
		wantEnd(t, f)
		if n := f.figures().Missing; n != 0 || !slices.Equal(got, []uint64{1, 2, 3}) {
			t.Errorf("got %v, %d missing", got, n)
		}
	})
}

// TestTimesStay: a host whose times are not durable yet does not leave, though nothing of it is
// out.
func TestTimesStay(t *testing.T) {
	in(t, allOrders(), func(t *testing.T, o order) {
		s := newStore(row("a.example", 0, 1), row("b.example", 0, 2))
		known := map[string]bool{"http://b.example": true}
		f := start(t, s, o.options(Options{MaxHosts: 1, Run: 1, Delay: time.Minute, NeedRobots: func(origin string) bool { return !known[origin] }}))
		begin := time.Now()
		_, loans := take(t, f, 1)
		times := f.Answered(loans[0], Answer{RetryAfter: time.Hour})
		known[robotsOf(loans[0])] = true
		f.Return(loans[0], nil)
		told := make(chan time.Time, 1)
		go func() {
			<-time.After(10 * time.Second) // in the buffer
			s.commit(nil, nil, []record.HostTimes{times})
			told <- time.Now()
			f.Done(nil, []record.HostTimes{times})
		}()
		got, loans := take(t, f, 1)
		if at := <-told; !slices.Equal(got, []uint64{2}) || time.Now().Before(at) || time.Since(at) > time.Second {
			t.Errorf("took %v after %v, the times of a were durable after %v", got, time.Since(begin), at.Sub(begin))
		}
		finish(f, s, loans...)
		f.opts.MaxWait = 2 * time.Hour
		got, loans = take(t, f, 1)
		if wait := time.Since(begin); !slices.Equal(got, []uint64{1}) || wait < time.Hour {
			t.Errorf("took %v after %v: a was to rest for an hour", got, wait)
		}
		finish(f, s, loans...)
		wantEnd(t, f)
	})
}

// TestNewsWhileAllRest: a host of which the store hears while all others rest comes in at once.
func TestNewsWhileAllRest(t *testing.T) {
	in(t, allOrders(), func(t *testing.T, o order) {
		s := newStore(row("a.example", 0, 1), row("b.example", 0, 2), row("d.example", 0, 4))
		rest := time.Now().Add(time.Hour).UnixNano()
		for _, name := range []string{"a.example", "b.example", "d.example"} {
			s.times[name] = record.HostRow{HostTimes: record.HostTimes{Name: name, Next: rest}, Run: 1}
		}
		f := start(t, s, o.options(Options{MaxHosts: 1, Run: 1, MaxWait: 2 * time.Hour}))
		begin := time.Now()
		go func() {
			<-time.After(time.Minute)
			r := row("c.example", 0, 3)
			f.Add([]record.Row{r}, s.commit(nil, []record.Row{r}, nil))
		}()
		got, loans := take(t, f, 1)
		if wait := time.Since(begin); !slices.Equal(got, []uint64{3}) || wait > 2*time.Minute {
			t.Errorf("took %v after %v, want the new one after a minute", got, wait)
		}
		for len(loans) > 0 && f.figures().Eligible > 1 {
			finish(f, s, loans...)
			_, loans = take(t, f, 1)
		}
		finish(f, s, loans...)
		wantEnd(t, f)
	})
}
