package frontier

import (
	"testing"
	"time"

	"urltree/storage/record"
)

// asks takes the next loan of a host, answers each of its rows at once, and returns how long that
// took from now on until it was lent.
func asks(t *testing.T, f *Frontier, s *memStore, host string) (waited time.Duration) {
	t.Helper()
	begin := time.Now()
	_, loans := take(t, f, 1)
	waited = time.Since(begin)
	if len(loans) != 1 || loans[0].Host != host {
		t.Fatalf("%d loans, the first of %s, want one of %s", len(loans), loans[0].Host, host)
	}
	l := loans[0]
	if !f.Begin(l) {
		t.Fatalf("a request to %s may not begin", host)
	}
	times := f.Answered(l, Answer{Took: time.Millisecond})
	done := []Done{{Row: l.Rows[0]}}
	s.commit(done, nil, []record.HostTimes{times})
	f.Done(done, []record.HostTimes{times})
	f.Return(l, l.Rows[1:])
	return waited
}

// TestSetPace: another delay counts from the last request on, be it longer or shorter, but never
// before what an answer asked for; what is lent already begins no earlier than that either.
func TestSetPace(t *testing.T) {
	in(t, allOrders(), func(t *testing.T, o order) {
		var rows []record.Row
		for i := range 9 {
			rows = append(rows, row("a.example", 0, uint64(i)))
		}
		s := newStore(rows...)
		f := start(t, s, o.options(Options{Delay: time.Hour, MaxWait: 100 * time.Hour}))
		asks(t, f, s, "a.example")
		want := func(what string, want time.Duration) {
			t.Helper()
			if got := asks(t, f, s, "a.example"); got != want {
				t.Errorf("%s: asked after %v, want %v", what, got, want)
			}
		}
		want("an hour", time.Hour)
		f.SetPace(time.Second, false, 1)
		want("shorter", time.Second)
		f.SetPace(time.Minute, false, 1)
		want("longer", time.Minute)
		f.SetPace(0, true, 1)
		want("auto", leastAuto)
		f.CrawlDelay("a.example", 3*time.Second)
		f.SetPace(0, false, 1)
		want("robots.txt asks for more", 3*time.Second)

		time.Sleep(3 * time.Second)
		_, loans := take(t, f, 1)
		f.Answered(loans[0], Answer{RetryAfter: time.Hour})
		f.Return(loans[0], loans[0].Rows)
		f.SetPace(time.Second, false, 1)
		want("Retry-After", time.Hour)

		time.Sleep(3 * time.Second)
		if _, loans = take(t, f, 1); len(loans) != 1 {
			t.Fatalf("%d loans", len(loans))
		}
		f.SetPace(time.Hour, false, 1)
		if f.Begin(loans[0]) {
			t.Error("a request of a loan may begin three seconds after the last one, at a delay of an hour")
		}
		f.Return(loans[0], loans[0].Rows)
	})
}

// TestSetPerHost: more loans of a host at once, and fewer, though they are still out.
func TestSetPerHost(t *testing.T) {
	in(t, allOrders(), func(t *testing.T, o order) {
		var rows []record.Row
		for i := range 20 {
			rows = append(rows, row("a.example", 0, uint64(i)))
		}
		s := newStore(rows...)
		f := start(t, s, o.options(Options{PerLoan: 1, Share: -1}))
		var loans []*Loan
		lend := func(n int) {
			t.Helper()
			for range n {
				_, more := take(t, f, 1)
				loans = append(loans, more...)
			}
			if _, more := f.TryTake(9); more || int(f.hosts.byName["a.example"].lending.borrowers) != len(loans) {
				t.Errorf("%d loans, and more to be had: %t", len(loans), more)
			}
		}
		lend(1)
		f.SetPace(0, false, 3)
		lend(2)
		f.SetPace(time.Minute, false, 1)
		begun := 0
		for _, l := range loans {
			if f.Begin(l) {
				begun++
			}
		}
		if begun != 1 {
			t.Errorf("%d requests begin at once, want one in a minute", begun)
		}
		finish(f, s, loans...)
	})
}

// TestPolicy: a host of its own policy goes by that, whether the store had it when the frontier was
// made or not, others as usual; and what the policy leaves open is what SetPace says.
func TestPolicy(t *testing.T) {
	in(t, allOrders(), func(t *testing.T, o order) {
		asked := map[string]int{}
		policy := func(host string) Policy {
			asked[host]++
			return map[string]Policy{
				"slow.example": {Delay: time.Hour}, "fast.example": {Delay: -1}, "wide.example": {PerHost: 2},
			}[host]
		}
		for _, tt := range []struct {
			host string
			want time.Duration
		}{{"slow.example", time.Hour}, {"fast.example", 0}, {"wide.example", time.Minute}, {"any.example", time.Minute}} {
			for _, later := range []bool{false, true} {
				rows := []record.Row{row(tt.host, 0, 1), row(tt.host, 0, 2), row(tt.host, 0, 3)}
				s := newStore()
				if !later {
					s = newStore(rows...)
				}
				f := start(t, s, o.options(Options{Delay: time.Minute, MaxWait: 100 * time.Hour, PerLoan: 1, Policy: policy}))
				if later {
					f.Add(rows, s.commit(nil, rows, nil))
				}
				asks(t, f, s, tt.host)
				if got := asks(t, f, s, tt.host); got != tt.want {
					t.Errorf("%s is asked after %v, want %v", tt.host, got, tt.want)
				}
				f.SetPace(time.Second, false, 1)
				if tt.want == time.Minute {
					tt.want = time.Second
				}
				if got := asks(t, f, s, tt.host); got != tt.want {
					t.Errorf("%s is asked after %v, want %v", tt.host, got, tt.want)
				}
				wantEnd(t, f)
				if tt.want == time.Second {
					tt.want = time.Minute
				}
			}
			if asked[tt.host] != 2 {
				t.Errorf("the policy of %s was asked for %d times, want once for each of two frontiers", tt.host, asked[tt.host])
			}
		}
	})
}
