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

// A visitor keeps what a host may rightly complain of.
type visitor struct {
	store *memStore
	mu    sync.Mutex
	busy  map[string]int       // guarded by mu, as is all below; requests under way
	from  map[string]time.Time // when the last request began, with PerHost 1 when its answer ended
	next  map[string]int64     // next permitted time, as Answered gave it
	rng   *rand.Rand
}

// TestPolite has many crawlers ask many hosts, and checks every request.
func TestPolite(t *testing.T) {
	for i, tt := range []struct {
		name    string
		hosts   int
		opts    Options
		crawl   time.Duration // Crawl-delay of all
		least   time.Duration // between two requests
		faults  int           // one request in so many fails; 0: none
		longest time.Duration // in which all must be done
	}{
		{name: "fixed delay", hosts: 1000, opts: Options{Delay: 2 * time.Second}, least: 2 * time.Second, longest: time.Minute},
		{name: "automatic", hosts: 400, opts: Options{Auto: true}, least: 100 * time.Millisecond, longest: time.Minute},
		{name: "automatic and fixed", hosts: 200, opts: Options{Auto: true, Delay: 4 * time.Second}, least: 4 * time.Second, longest: time.Minute},
		{name: "no delay", hosts: 300, opts: Options{PerLoan: 3}, longest: time.Minute},
		{name: "crawl delay", hosts: 200, crawl: 7 * time.Second, least: 7 * time.Second, longest: time.Minute},
		{name: "three at once", hosts: 200, opts: Options{PerHost: 3, Delay: time.Second}, least: time.Second, longest: time.Minute},
		{name: "three at once, no delay", hosts: 100, opts: Options{PerHost: 3}, longest: time.Minute},
		{name: "faults", hosts: 300, opts: Options{Delay: time.Second}, least: time.Second, faults: 3, longest: time.Hour},
		{name: "few in memory", hosts: 300, opts: Options{Delay: 2 * time.Second, MaxHosts: 20}, least: 2 * time.Second, longest: 10 * time.Minute},
		{name: "few in memory, automatic", hosts: 200, opts: Options{Auto: true, MaxHosts: 64}, least: 100 * time.Millisecond, longest: 10 * time.Minute},
		{name: "few in memory, no delay", hosts: 200, opts: Options{PerLoan: 3, MaxHosts: 7}, longest: 10 * time.Minute},
		{name: "few in memory, faults", hosts: 100, opts: Options{Delay: time.Second, MaxHosts: 10}, least: time.Second, faults: 3, longest: 4 * time.Hour},
	} {
		if testing.Short() {
			tt.hosts /= 4
			tt.opts.MaxHosts = (tt.opts.MaxHosts + 3) / 4
		}
		t.Run(tt.name, func(t *testing.T) {
			in(t, someOrders(i), func(t *testing.T, o order) {
				var rows []record.Row
				for i := range tt.hosts {
					for range 6 {
						rows = append(rows, row(fmt.Sprintf("h%d.example", i), 0, uint64(len(rows))))
					}
				}
				s := newStore()
				tt.opts.Crawlers, tt.opts.Run = 60, 1
				f := start(t, s, o.options(tt.opts))
				if tt.crawl > 0 {
					for i := range tt.hosts {
						f.CrawlDelay(fmt.Sprintf("h%d.example", i), tt.crawl)
					}
				}
				f.Add(rows, s.commit(nil, rows, nil))
				v := &visitor{store: s, busy: map[string]int{}, from: map[string]time.Time{}, next: map[string]int64{}, rng: rand.New(rand.NewPCG(8, 9))}
				begin := time.Now()
				var wg sync.WaitGroup
				for range tt.opts.Crawlers {
					wg.Go(func() {
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
								wg.Go(func() { v.visit(t, f, l, tt.least, tt.faults) })
							}
						}
					})
				}
				wg.Wait()
				if took := time.Since(begin); took > tt.longest {
					t.Errorf("took %v, though hosts were ready; want at most %v", took, tt.longest)
				}
				held := len(s.rows)
				if n := f.figures(); n.Removed+int64(held) != int64(len(rows)) || n.Eligible != 0 {
					t.Errorf("%d rows removed, %d held, %d left of %d", n.Removed, held, n.Eligible, len(rows))
				}
			})
		})
	}
}

func (v *visitor) visit(t *testing.T, f *Frontier, l *Loan, least time.Duration, faults int) {
	var done []Done
	var answers []record.HostTimes
	rows := l.Rows
	for len(rows) > 0 {
		v.mu.Lock()
		begin := time.Now()
		if begin.UnixNano() < v.next[l.Host] || begin.Before(v.from[l.Host].Add(least)) && !v.from[l.Host].IsZero() {
			t.Errorf("%s asked %v after the last request, %v too early", l.Host, begin.Sub(v.from[l.Host]), time.Duration(v.next[l.Host]-begin.UnixNano()))
		}
		if v.busy[l.Host]++; v.busy[l.Host] > f.opts.PerHost {
			t.Errorf("%s has %d requests at once", l.Host, v.busy[l.Host])
		}
		if f.opts.PerHost > 1 {
			v.from[l.Host] = begin
		}
		took := time.Duration(1+v.rng.IntN(400)) * time.Millisecond
		a := Answer{Start: begin, Fault: brokenIf(faults > 0 && v.rng.IntN(faults) == 0)}
		v.mu.Unlock()
		<-time.After(took)
		v.mu.Lock()
		v.busy[l.Host]--
		a.End = time.Now()
		if f.opts.PerHost == 1 {
			v.from[l.Host] = a.End
		}
		times := f.Answered(l, a)
		if f.opts.PerHost == 1 {
			v.next[l.Host] = times.Next
		}
		v.mu.Unlock()
		answers = append(answers, times)
		done = append(done, Done{Row: rows[0]})
		rows = rows[1:]
		if times.Next > a.End.UnixNano() {
			break
		}
	}
	for _, h := range l.Held {
		done = append(done, Done{Row: h.Row, Next: record.Row{Range: record.Held}})
	}
	f.Return(l, rows)
	<-time.After(300 * time.Millisecond) // in the buffer
	v.store.commit(done, nil, answers)
	<-time.After(10 * time.Millisecond)
	f.Done(done, answers)
}

func TestAnsweredTimes(t *testing.T) {
	fault := func(retry time.Duration) Answer { return Answer{Fault: Broken, RetryAfter: retry} }
	good := func(took time.Duration) Answer { return Answer{Took: took} }
	many := func(n int) []Answer {
		list := make([]Answer, n)
		for i := range list {
			list[i] = fault(0)
		}
		return list
	}
	for _, tt := range []struct {
		name     string
		opts     Options
		answers  []Answer      // one after the other, each one hour after the last permitted time
		min, max time.Duration // from the end of the last to the next permitted time
		fails    uint32
		backoff  time.Duration
	}{
		{name: "no delay", answers: []Answer{good(time.Second)}},
		{name: "delay", opts: Options{Delay: 3 * time.Second}, answers: []Answer{good(time.Second)}, min: 3 * time.Second, max: 3 * time.Second},
		{name: "auto", opts: Options{Auto: true}, answers: []Answer{good(time.Second)}, min: 5 * time.Second, max: 5 * time.Second},
		{name: "auto smoothed", opts: Options{Auto: true}, answers: []Answer{good(time.Second), good(9 * time.Second)}, min: 10 * time.Second, max: 10 * time.Second},
		{name: "auto least", opts: Options{Auto: true}, answers: []Answer{good(time.Microsecond)}, min: 100 * time.Millisecond, max: 100 * time.Millisecond},
		{name: "auto most", opts: Options{Auto: true}, answers: []Answer{good(time.Hour)}, min: 30 * time.Second, max: 30 * time.Second},
		{name: "auto before an answer", opts: Options{Auto: true}, answers: []Answer{fault(0)}, min: time.Second, max: 1500 * time.Millisecond, fails: 1, backoff: time.Second},
		{name: "back-off", answers: many(1), min: time.Second, max: 1500 * time.Millisecond, fails: 1, backoff: time.Second},
		{name: "back-off doubles", answers: many(4), min: 8 * time.Second, max: 12 * time.Second, fails: 4, backoff: 8 * time.Second},
		{name: "back-off halves", answers: append(many(4), good(1)), min: 4 * time.Second, max: 4 * time.Second, backoff: 4 * time.Second},
		{name: "back-off ends", answers: append(many(4), good(1), good(1), good(1), good(1)), fails: 0},
		{name: "back-off begins anew", answers: append(many(1), good(1), fault(0)), min: time.Second, max: 1500 * time.Millisecond, fails: 1, backoff: time.Second},
		{name: "refused", opts: Options{Delay: 2 * time.Second}, answers: []Answer{{Fault: Refused}}, min: 6 * time.Second, max: 9 * time.Second, fails: 1, backoff: 6 * time.Second},
		{name: "longest back-off", answers: many(60), min: 24 * time.Hour, max: 24 * time.Hour, fails: 60, backoff: 24 * time.Hour},
		{name: "Retry-After", answers: []Answer{fault(time.Minute)}, min: time.Minute, max: time.Minute, fails: 1, backoff: time.Second},
		{name: "Retry-After without a fault", answers: []Answer{{Took: 1, RetryAfter: time.Minute}}, min: time.Minute, max: time.Minute},
		{name: "Retry-After shorter than the back-off", answers: append(many(3), fault(1)), min: 8 * time.Second, max: 12 * time.Second, fails: 4, backoff: 8 * time.Second},
		{name: "Retry-After shorter than the delay", opts: Options{Delay: time.Minute}, answers: []Answer{fault(1)}, min: time.Minute, max: time.Minute, fails: 1, backoff: time.Second},
		{name: "longest Retry-After", answers: []Answer{fault(1000 * time.Hour)}, min: 24 * time.Hour, max: 24 * time.Hour, fails: 1, backoff: time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := start(t, newStore(), tt.opts)
			l := &Loan{h: f.hostLocked("a.example")}
			begin, at := time.Time{}, time.Unix(1_000_000, 0)
			var times record.HostTimes
			for _, a := range tt.answers {
				a.Start, a.End = at, at.Add(time.Second)
				times = f.Answered(l, a)
				if times.Next < a.End.UnixNano() {
					t.Errorf("may be asked %v before the answer ended", time.Duration(a.End.UnixNano()-times.Next))
				}
				begin, at = a.End, time.Unix(0, times.Next).Add(time.Hour)
			}
			if got := time.Duration(times.Next - begin.UnixNano()); got < tt.min || got > tt.max {
				t.Errorf("rests %v, want %v to %v", got, tt.min, tt.max)
			}
			if times.Fails != tt.fails || times.Backoff != int64(tt.backoff) || times.Name != "a.example" {
				t.Errorf("%+v, want %d fails and back-off %v", times, tt.fails, tt.backoff)
			}
			again := f.hostLocked("b.example")
			again.load(&times, begin.UnixNano(), time.Minute)
			if got := again.times(); got.Next != times.Next || got.Backoff != times.Backoff || got.Answer != times.Answer || got.Pace != times.Pace || got.Fails != times.Fails {
				t.Errorf("%+v loaded as %+v", times, got)
			}
		})
	}
}

// The kind of address that a host had at first is kept, stored with its times, and counts for a
// host that is not there.
func TestPrivateIsKept(t *testing.T) {
	for _, first := range []bool{false, true} {
		f := start(t, newStore(), Options{})
		l := &Loan{h: f.hostLocked("a.example")}
		for _, now := range []bool{first, true, false} {
			if got, err := f.Private("a.example", now); got != first || err != nil {
				t.Errorf("private %v, %v; %v at first, %v now", got, err, first, now)
			}
		}
		times := f.Answered(l, Answer{})
		if want := map[bool]int64{false: record.KindPublic, true: record.KindPrivate}[first]; times.Kind != want {
			t.Errorf("stored as %d, want %d", times.Kind, want)
		}
		again := f.hostLocked("b.example")
		again.load(&times, 0, time.Minute)
		if got, err := f.Private("b.example", !first); got != first || err != nil {
			t.Errorf("loaded: private %v, %v, want %v", got, err, first)
		}
		again.stored.unread = true
		for _, now := range []bool{true, false} { // neither the store nor the memory has times of it
			for _, name := range []string{"b.example", "c.example"} {
				if got, err := f.Private(name, now); got != now || err != nil {
					t.Errorf("%s: private %v, %v, want %v", name, got, err, now)
				}
			}
		}
	}
}

func TestFaultsAtOnceCountOnce(t *testing.T) {
	f := start(t, newStore(), Options{PerHost: 3})
	l := &Loan{h: f.hostLocked("a.example")}
	begin := time.Unix(1_000_000, 0)
	f.Answered(l, Answer{Start: begin, End: begin.Add(time.Second), Fault: Broken})
	f.Answered(l, Answer{Start: begin, End: begin.Add(2 * time.Second), Fault: Broken})
	times := f.Answered(l, Answer{Start: begin, End: begin.Add(3 * time.Second)})
	if times.Fails != 1 || times.Backoff != int64(time.Second) {
		t.Errorf("%d failures, back-off %v after three requests at once, two failed; want 1 and 1s", times.Fails, time.Duration(times.Backoff))
	}
	times = f.Answered(l, Answer{Start: begin.Add(4 * time.Second), End: begin.Add(5 * time.Second), Fault: Broken})
	if times.Fails != 2 || times.Backoff != int64(2*time.Second) {
		t.Errorf("%d failures, back-off %v after a later one; want 2 and 2s", times.Fails, time.Duration(times.Backoff))
	}
}

func TestFirstRequest(t *testing.T) {
	now := func(d time.Duration) int64 { return time.Now().Add(d).UnixNano() }
	for _, tt := range []struct {
		name  string
		opts  Options
		times func() record.HostTimes // stored; nil: the host is unknown
		want  time.Duration           // from the start to the first request
	}{
		{name: "known, clean", opts: Options{Delay: time.Minute}, times: func() record.HostTimes { return record.HostTimes{} }},
		{name: "known, clean, stored time", times: func() record.HostTimes { return record.HostTimes{Next: now(5 * time.Second)} }, want: 5 * time.Second},
		{name: "known, unclean", opts: Options{Delay: 3 * time.Second, Unclean: true}, times: func() record.HostTimes { return record.HostTimes{} }, want: 3 * time.Second},
		{name: "known, unclean, later stored time", opts: Options{Delay: 3 * time.Second, Unclean: true}, times: func() record.HostTimes { return record.HostTimes{Next: now(5 * time.Second)} }, want: 5 * time.Second},
		{name: "known, unclean, slow answers", opts: Options{Auto: true, Unclean: true}, times: func() record.HostTimes { return record.HostTimes{Answer: int64(2 * time.Second)} }, want: 10 * time.Second},
		{name: "known, unclean, crawl delay", opts: Options{Unclean: true}, times: func() record.HostTimes { return record.HostTimes{Delay: int64(9 * time.Second)} }, want: 9 * time.Second},
		{name: "known, unclean, no delay", opts: Options{Unclean: true}, times: func() record.HostTimes { return record.HostTimes{} }, want: time.Second},
		{name: "time no run stored", opts: Options{MaxWait: 48 * time.Hour}, times: func() record.HostTimes { return record.HostTimes{Next: now(1000 * time.Hour)} }, want: 24 * time.Hour},
		{name: "unknown, clean", opts: Options{Delay: time.Minute}},
		{name: "unknown, unclean", opts: Options{Auto: true, Unclean: true}, want: time.Second},
		{name: "unknown, unclean, short delay", opts: Options{Delay: time.Millisecond, Unclean: true}, want: time.Second},
		{name: "unknown, unclean, long delay", opts: Options{Delay: 8 * time.Second, Unclean: true}, want: 8 * time.Second},
		{name: "unknown, unclean, no delay", opts: Options{Unclean: true}, want: time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				r := row("a.example", 0, 1)
				if tt.times != nil {
					s.rows[r.URL] = r
					s.table, _ = s.hosts()
					name := s.table[0].Name
					s.table[0].HostTimes = tt.times()
					s.table[0].Name = name
				}
				f := start(t, s, tt.opts)
				begin := time.Now()
				if tt.times == nil {
					s.rows[r.URL] = r
					f.Add([]record.Row{r}, 1)
				}
				loans, err := f.Take(t.Context(), 3)
				if err != nil || len(loans) != 1 || len(loans[0].Rows) != 1 || loans[0].Rows[0] != r {
					t.Fatalf("Take gave %v, %v", loans, err)
				}
				if got := time.Since(begin); got != tt.want {
					t.Errorf("first request after %v, want %v", got, tt.want)
				}
			})
		})
	}
}
