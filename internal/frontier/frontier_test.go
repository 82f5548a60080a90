package frontier

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"urltree/internal/frontier/queue"
	"urltree/storage/record"
)

// take returns the URLs, as numbers of discovery, that the next Take lends, and the loans.
func take(t *testing.T, f *Frontier, free int) ([]uint64, []*Loan) {
	t.Helper()
	loans, err := f.Take(t.Context(), free)
	if err != nil {
		t.Fatalf("Take: %v", err)
	}
	var got []uint64
	for _, l := range loans {
		for _, r := range l.Rows {
			got = append(got, r.Seq)
		}
	}
	return got, loans
}

// finish ends loans with all their rows asked and committed.
func finish(f *Frontier, s *memStore, loans ...*Loan) {
	for _, l := range loans {
		f.Return(l, nil)
		for _, r := range l.Rows {
			s.gone(r)
			f.Done([]Done{{Row: r}}, nil)
		}
	}
}

func wantEnd(t *testing.T, f *Frontier) {
	t.Helper()
	if loans, err := f.Take(t.Context(), 1); !errors.Is(err, io.EOF) {
		t.Fatalf("Take gave %v, %v, want io.EOF", loans, err)
	}
}

// TestBreadthOrder: where nothing but the rank counts, all windows give the same.
func TestBreadthOrder(t *testing.T) {
	for _, tt := range []struct {
		name   string
		memory int64
		rows   int
	}{
		{"all in the window", 0, 200},
		{"most on disk", 4000, 200},
		{"nothing stays in the window", 1, 50},
		{"more than a window takes", 0, maxRows + 500},
	} {
		for _, o := range exactOrders {
			t.Run(tt.name+"/"+o.name, func(t *testing.T) {
				s := newStore()
				f := start(t, s, o.options(Options{Memory: tt.memory, PerLoan: maxRows}))
				var rows []record.Row
				for i := range tt.rows {
					r := row("a.example", uint64(i*7%5), uint64(i))
					rows = append(rows, r)
					s.rows[r.URL] = r
				}
				for part := range slices.Chunk(rows, 17) {
					f.Add(part, 1)
				}
				sortRows(rows)
				for len(rows) > 0 {
					got, loans := take(t, f, 1)
					for _, seq := range got {
						if seq != rows[0].Seq {
							t.Fatalf("got %d, want %d: depth, then discovery", seq, rows[0].Seq)
						}
						rows = rows[1:]
					}
					finish(f, s, loans...)
				}
				wantEnd(t, f)
			})
		}
	}
}

func TestDueRowsGoFirst(t *testing.T) {
	in(t, exactOrders, func(t *testing.T, o order) {
		s := newStore()
		var rows []record.Row
		for i := range uint64(5) {
			r := row("a.example", 0, i)
			if i >= 3 {
				r.Range, r.Due = record.Later, time.Now().Add(time.Duration(10*(i-2))*time.Second).UnixNano()
			}
			rows = append(rows, r)
			s.rows[r.URL] = r
		}
		f := start(t, s, o.options(Options{Delay: 15 * time.Second}))
		f.Add(nil, 1)
		var order []uint64
		for range rows {
			got, loans := take(t, f, 1)
			order = append(order, got...)
			f.Answered(loans[0], Answer{})
			finish(f, s, loans...)
		}
		// At 0, 15 s, 30 s and so on; 3 is due at 10 s and 4 at 20 s.
		if want := []uint64{0, 3, 4, 1, 2}; !slices.Equal(order, want) {
			t.Errorf("order %v, want %v", order, want)
		}
	})
}

// TestManyDueRows has more rows become due than a window takes: refills must come to an end.
func TestManyDueRows(t *testing.T) {
	in(t, exactOrders, func(t *testing.T, o order) {
		s := newStore(row("a.example", 0, 0))
		for i := range uint64(5 * fewRows) {
			r := row("a.example", 0, 100+i)
			r.Range, r.Due = record.Later, time.Now().Add(time.Minute).UnixNano()-int64(i)
			s.rows[r.URL] = r
		}
		f := start(t, s, o.options(Options{Memory: 1, PerLoan: 2, MaxWait: time.Second}))
		got, loans := take(t, f, 1)
		finish(f, s, loans...)
		wantEnd(t, f)
		<-time.After(time.Minute)
		for len(got) < 1+5*fewRows {
			more, loans := take(t, f, 1)
			got = append(got, more...)
			finish(f, s, loans...)
		}
		wantEnd(t, f)
		for i, seq := range got[1:] {
			if want := uint64(100 + 5*fewRows - 1 - i); seq != want {
				t.Fatalf("order %v: %d where %d is due", got, seq, want)
			}
		}
	})
}

func TestRobotsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(row("a.example", 0, 1), row("a.example", 0, 2), row("a.example", 0, 3))
		for url, r := range s.rows {
			if r.Seq == 3 {
				delete(s.rows, url)
				r.URL = "https://a.example:99/3"
				s.rows[r.URL] = r
			}
		}
		known := map[string]bool{}
		f := start(t, s, Options{PerHost: 2, NeedRobots: func(origin string) bool { return !known[origin] }})
		_, loans := take(t, f, 2)
		if l := loans[0]; len(loans) != 1 || robotsOf(l) != "http://a.example" {
			t.Fatalf("first loan %+v, want the robots.txt alone", loans[0])
		}
		if more, ok := f.TryTake(2); ok {
			t.Fatalf("%+v lent beside a robots.txt", more[0])
		}
		f.CrawlDelay("a.example", 2*time.Second)
		f.Answered(loans[0], Answer{})
		known["http://a.example"] = true
		answered := time.Now()
		f.Return(loans[0], nil)
		got, first := take(t, f, 2)
		if !slices.Equal(got, []uint64{1}) || time.Since(answered) != 2*time.Second {
			t.Fatalf("got %v after %v, want 1 after the Crawl-delay", got, time.Since(answered))
		}
		got, second := take(t, f, 2)
		if !slices.Equal(got, []uint64{2}) {
			t.Fatalf("got %v, want 2", got)
		}
		// The next robots.txt waits until both are back.
		var third []*Loan
		var wg sync.WaitGroup
		wg.Go(func() { third, _ = f.Take(t.Context(), 2) })
		<-time.After(time.Hour)
		finish(f, s, first...)
		synctest.Wait()
		if third != nil {
			t.Fatal("a robots.txt lent while the host is in use")
		}
		finish(f, s, second...)
		wg.Wait()
		if robotsOf(third[0]) != "https://a.example:99" {
			t.Fatalf("got %+v, want the robots.txt of the other origin", third[0])
		}
		known["https://a.example:99"] = true
		f.Return(third[0], nil)
		got, loans = take(t, f, 2)
		if !slices.Equal(got, []uint64{3}) {
			t.Fatalf("got %v, want 3", got)
		}
		finish(f, s, loans...)
		wantEnd(t, f)
	})
}

func TestHeldRowsCostNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(row("a.example", 0, 1), row("a.example", 0, 2), row("a.example", 0, 3))
		f := start(t, s, Options{
			Delay: time.Minute, NeedRobots: func(string) bool { return false },
			Admit: func(r *record.Row) string {
				if r.Seq != 2 {
					return "budget"
				}
				return ""
			},
		})
		begin := time.Now()
		got, loans := take(t, f, 1)
		if !slices.Equal(got, []uint64{2}) || len(loans[0].Held) != 1 || loans[0].Held[0].Reason != "budget" {
			t.Fatalf("got %v and %v, want 2 asked and 1 held", got, loans[0].Held)
		}
		f.Return(loans[0], loans[0].Rows) // not asked after all
		again, loans2 := take(t, f, 1)
		if !slices.Equal(again, got) || time.Since(begin) != 0 {
			t.Fatalf("got %v after %v, want %v at once", again, time.Since(begin), got)
		}
		f.Answered(loans2[0], Answer{})
		f.Done([]Done{{Row: loans[0].Held[0].Row, Next: record.Row{Range: record.Held}}}, nil)
		finish(f, s, loans2...)
		if n := f.figures(); n.Eligible != 1 || n.Removed != 1 {
			t.Errorf("%d eligible and %d removed, want 1 of each: one is held", n.Eligible, n.Removed)
		}
		_, loans = take(t, f, 1)
		if len(loans[0].Held) != 1 || len(loans[0].Rows) != 0 {
			t.Fatalf("got %+v, want a held row alone", loans[0])
		}
		f.Done([]Done{{Row: loans[0].Held[0].Row, Next: record.Row{Range: record.Held}}}, nil)
		f.Return(loans[0], nil)
		wantEnd(t, f)
	})
}

// TestOver: rows of an origin that is not asked any more are held at once, whatever its host waits,
// and the rows of another origin of the host have their turn as before.
func TestOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		for i := range uint64(2*maxHeld + 10) {
			r := row("a.example", 0, i)
			s.rows[r.URL] = r
		}
		const last = 2*maxHeld + 9
		over := false
		f := start(t, s, Options{Delay: time.Minute, Admit: func(r *record.Row) string {
			if over && r.Seq != last {
				return "unreachable"
			}
			return ""
		}})
		_, loans := take(t, f, 1)
		over = true
		begin := time.Now()
		f.Answered(loans[0], Answer{Fault: Broken, Over: true})
		f.Return(loans[0], loans[0].Rows)
		for held := 0; held < last; {
			_, loans = take(t, f, 1)
			for _, h := range loans[0].Held {
				held++
				f.Done([]Done{{Row: h.Row, Next: record.Row{Range: record.Held}}}, nil)
				s.gone(h.Row)
			}
			if len(loans[0].Rows) > 0 || time.Since(begin) != 0 {
				t.Fatalf("%d rows to ask and %d held after %v", len(loans[0].Rows), held, time.Since(begin))
			}
			f.Return(loans[0], nil)
		}
		got, loans := take(t, f, 1)
		if !slices.Equal(got, []uint64{last}) || time.Since(begin) < time.Minute {
			t.Errorf("got %v after %v", got, time.Since(begin))
		}
		f.Answered(loans[0], Answer{})
		finish(f, s, loans...)
		wantEnd(t, f)
	})
}

func TestGiveUp(t *testing.T) {
	for _, tt := range []struct {
		name   string
		stored uint32 // failures of earlier runs
		asked  int    // requests before it is given up
	}{
		{"ten failures", 0, 10},
		{"failures of earlier runs count", 7, 3},
		{"one try per run", 30, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore()
				for i := range uint64(700) {
					r := row("a.example", 0, i)
					if i > 600 {
						r.Range, r.Due = record.Later, time.Now().Add(30*time.Hour).UnixNano()
					}
					s.rows[r.URL] = r
				}
				s.times["a.example"] = record.HostRow{HostTimes: record.HostTimes{Fails: tt.stored}}
				f := start(t, s, Options{MaxWait: 40 * time.Hour})
				asked, held := 0, 0
				for {
					loans, err := f.Take(t.Context(), 5)
					if errors.Is(err, io.EOF) {
						break
					}
					for _, l := range loans {
						rows := l.Rows
						if len(rows) > 0 {
							asked++
							f.Answered(l, Answer{Fault: Broken})
							s.gone(rows[0])
							f.Done([]Done{{Row: rows[0]}}, nil)
							rows = rows[1:]
						}
						for _, h := range l.Held {
							if h.Reason != GivenUp {
								t.Errorf("held for %q", h.Reason)
							}
							held++
							f.Done([]Done{{Row: h.Row, Next: record.Row{Range: record.Held}}}, nil)
							s.gone(h.Row)
						}
						f.Return(l, rows)
					}
				}
				if asked != tt.asked || asked+held != 700 {
					t.Errorf("%d asked and %d held, want %d and the rest of 700", asked, held, tt.asked)
				}
			})
		})
	}
}

// TestUnaskedLoanCostsNoTurn has two borrowers of one host, whose delay counts from the start of
// the request before.
func TestUnaskedLoanCostsNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(row("a.example", 0, 1), row("a.example", 0, 2), row("a.example", 0, 3))
		f := start(t, s, Options{PerHost: 2, Delay: 10 * time.Second})
		begin := time.Now()
		_, first := take(t, f, 2)
		finish(f, s, first...) // refused without a request
		_, second := take(t, f, 2)
		if got := time.Since(begin); got != 0 {
			t.Errorf("second loan after %v, want at once", got)
		}
		f.Answered(second[0], Answer{Start: begin.Add(time.Second), End: begin.Add(3 * time.Second)})
		finish(f, s, second...)
		_, third := take(t, f, 2)
		if got := time.Since(begin); got != 11*time.Second {
			t.Errorf("third loan after %v, want one delay from the start of the request", got)
		}
		finish(f, s, third...)
		wantEnd(t, f)
	})
}

func TestReadErrorEndsTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(row("a.example", 0, 1))
		f := start(t, s, Options{})
		s.err = errors.New("torn page")
		for range 2 {
			if _, err := f.Take(t.Context(), 1); !errors.Is(err, s.err) || !strings.Contains(err.Error(), "a.example") {
				t.Errorf("Take: %v, want the error of the store and its place", err)
			}
		}
		if _, ok := f.TryTake(1); ok || f.figures().Eligible != 1 {
			t.Error("a row is lent or lost after an error")
		}
	})
}

// TestMissingRows has an index whose counts promise more than its ranges hold.
func TestMissingRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(row("a.example", 0, 1))
		s.table, _ = s.hosts()
		s.table[0].Now, s.table[0].Later = 3, 2
		f := start(t, s, Options{})
		got, loans := take(t, f, 1)
		finish(f, s, loans...)
		wantEnd(t, f)
		if s := f.figures(); len(got) != 1 || s.Missing != 4 || s.Eligible != 0 {
			t.Errorf("got %v, %d missing, %d eligible; want the one, 4, 0", got, s.Missing, s.Eligible)
		}
		f.Add([]record.Row{row("a.example", 0, 9)}, 1) // an end is not for ever
		if got, _ := take(t, f, 1); !slices.Equal(got, []uint64{9}) {
			t.Errorf("got %v after the end, want 9", got)
		}
	})
}

// TestRowComesBackWhileOut covers what the set of those that are out must remember: a row that
// Add names before Done ends it is open again.
func TestRowComesBackWhileOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(row("a.example", 0, 1), row("a.example", 0, 2))
		f := start(t, s, Options{})
		_, loans := take(t, f, 1)
		f.Return(loans[0], nil)
		again := loans[0].Rows[0]
		again.Seq = 7
		s.rows[again.URL] = again
		f.Add([]record.Row{again}, 1)
		f.Done([]Done{{Row: loans[0].Rows[0]}}, nil)
		if got, _ := take(t, f, 1); !slices.Equal(got, []uint64{7}) {
			t.Errorf("got %v, want the row that was opened again, while the other is out", got)
		}
	})
}

// TestChangesDuringRefill has everything happen while the store reads for the only host.
func TestChangesDuringRefill(t *testing.T) {
	in(t, exactOrders, func(t *testing.T, o order) {
		var rows []record.Row
		for i := range uint64(4) {
			rows = append(rows, row("a.example", 0, i))
		}
		s := newStore(rows...)
		f := start(t, s, o.options(Options{}))
		_, loans := take(t, f, 1) // all four are out
		reads, goOn := make(chan struct{}), make(chan struct{})
		s.pause = func() { reads <- struct{}{}; <-goOn }
		later := row("a.example", 0, 9)
		later.Range = record.Later
		s.rows[later.URL] = later
		f.Add([]record.Row{later}, 1)
		f.Return(loans[0], rows[1:2])
		second := make(chan []*Loan, 1)
		// The window holds row 1 again, and 9 is due: the store is read first.
		go func() { l, _ := f.Take(t.Context(), 1); second <- l }()
		<-reads
		f.Done([]Done{{Row: rows[0]}, {Row: rows[2], Next: rows[2]}}, nil) // 2 waits on disk again
		delete(s.rows, rows[0].URL)
		added := row("a.example", 0, 5)
		s.rows[added.URL] = added
		f.Add([]record.Row{added}, 1)
		if _, ok := f.TryTake(1); ok {
			t.Error("a host is lent while it is refilled")
		}
		goOn <- struct{}{}
		<-reads
		goOn <- struct{}{}
		s.pause = nil
		l := (<-second)[0]
		var got []uint64
		for _, r := range l.Rows {
			got = append(got, r.Seq)
		}
		// 2 was out when the refill began, so it waits for the next one.
		if want := []uint64{9, 1, 5}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		f.Return(l, nil)
		if got, _ := take(t, f, 1); !slices.Equal(got, []uint64{2}) {
			t.Errorf("got %v, want 2", got)
		}
	})
}

// TestRefillReadBeforeCommit adds a row that a refill on its way cannot have met, for it has
// read already: the row must not be forgotten with what the refill brings.
func TestRefillReadBeforeCommit(t *testing.T) {
	in(t, exactOrders, func(t *testing.T, o order) {
		s := newStore(row("a.example", 0, 1))
		f := start(t, s, o.options(Options{}))
		late := row("a.example", 0, 2)
		waits := 0
		s.pause = func() {
			s.mu.Lock()
			refilling := s.reading["a.example"]
			s.mu.Unlock()
			if !refilling {
				return
			}
			if waits++; waits == 2 { // it has read, and is not back
				f.Add([]record.Row{late}, s.commit(nil, []record.Row{late}, nil))
			}
		}
		var got []uint64
		for f.figures().Eligible > 0 {
			more, loans := take(t, f, 1)
			got = append(got, more...)
			finish(f, s, loans...)
		}
		if !slices.Equal(got, []uint64{1, 2}) {
			t.Errorf("got %v, want 1 and 2, of which the commit told during the refill", got)
		}
	})
}

func TestShare(t *testing.T) {
	for _, tt := range []struct {
		name                               string
		hosts, crawlers, free, share, want int
	}{
		{"none free", 1, 4, 0, 0, 1},
		{"few hosts", 3, 4, 8, 0, 3},
		{"free and share", 100, 10, 8, 0, 18},
		{"share has an end", 1000, 2, 8, 0, 8 + 64},
		{"a smaller one", 100, 2, 8, 5, 8 + 5},
		{"no share", 100, 2, 1, -1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStore()
			f := start(t, s, Options{Crawlers: tt.crawlers, Share: tt.share, Delay: time.Second})
			for i := range tt.hosts {
				f.Add([]record.Row{row(fmt.Sprintf("h%d.example", i), 0, uint64(i)), row(fmt.Sprintf("h%d.example", i), 1, uint64(10_000+i))}, 1)
			}
			loans, ok := f.TryTake(tt.free)
			if !ok || len(loans) != tt.want {
				t.Errorf("%d loans, want %d", len(loans), tt.want)
			}
			for _, l := range loans {
				if len(l.Rows) != 1 || l.Rows[0].Depth != 0 {
					t.Errorf("%s lends %d rows, want the first alone", l.Host, len(l.Rows))
				}
			}
		})
	}
}

func TestTryTakeNeverWaits(t *testing.T) {
	s := newStore(row("a.example", 0, 1))
	f := start(t, s, Options{})
	f.Add([]record.Row{row("b.example", 0, 2)}, 1)
	f.mu.Lock()
	_, ok := f.TryTake(1)
	f.mu.Unlock()
	if ok {
		t.Error("lent while the lock is busy")
	}
	if loans, ok := f.TryTake(5); !ok || len(loans) != 1 || loans[0].Host != "b.example" {
		t.Errorf("got %v, want the host that needs no read", loans)
	}
	if _, ok := f.TryTake(5); ok {
		t.Error("lent though a host waits for a read, which is Take's work")
	}
	if got, _ := take(t, f, 1); !slices.Equal(got, []uint64{1}) {
		t.Errorf("got %v, want 1", got)
	}
}

func TestNewRejects(t *testing.T) {
	for _, tt := range []struct {
		name string
		opts Options
		ok   bool
	}{
		{"defaults", Options{Store: newStore()}, true},
		{"no store", Options{}, false},
		{"negative memory", Options{Store: newStore(), Memory: -1}, false},
		{"negative delay", Options{Store: newStore(), Delay: -1}, false},
		{"negative number of hosts", Options{Store: newStore(), MaxHosts: -1}, false},
		{"unknown queue", Options{Store: newStore(), Queue: "heap"}, false},
		{"negative number of queues", Options{Store: newStore(), Queue: queue.CBT, Queues: -1}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := New(tt.opts)
			if (err == nil) != tt.ok || (f != nil) != tt.ok {
				t.Errorf("New: %v, %v; want ok %v", f != nil, err, tt.ok)
			}
		})
	}
}
