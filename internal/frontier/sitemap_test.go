package frontier

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"urltree/storage/record"
)

// lend returns what the one loan of the next Take is: "map URL", "robots ORIGIN" or "rows N".
func lend(t *testing.T, f *Frontier) (string, *Loan) {
	t.Helper()
	loans, err := f.Take(t.Context(), 1)
	if err != nil {
		t.Fatalf("Take: %v", err)
	}
	l := loans[0]
	switch {
	case len(loans) != 1:
		t.Fatalf("%d loans, want 1", len(loans))
	case l.Sitemap != nil:
		return "map " + l.Sitemap.URL, l
	case l.Robots != "":
		return "robots " + l.Robots, l
	}
	return fmt.Sprint("rows ", len(l.Rows)), l
}

// done ends a loan of a sitemap with an outcome.
func done(f *Frontier, s *memStore, l *Loan, state record.SitemapState, due time.Time) {
	m := *l.Sitemap
	m.State, m.Due = state, due.UnixNano()
	l.Sitemap = nil
	f.Return(l, nil)
	s.mu.Lock()
	if state == record.SitemapOpen {
		s.maps[m.URL] = m
	} else {
		delete(s.maps, m.URL)
	}
	s.mu.Unlock()
	f.DoneSitemaps([]record.Sitemap{m})
}

// TestSitemapTurns: a sitemap goes first, then URLs and sitemaps take turns, then whatever is left;
// those found at the start count as those that are told later.
func TestSitemapTurns(t *testing.T) {
	for _, early := range []bool{true, false} {
		t.Run(fmt.Sprintf("known at the start %v", early), func(t *testing.T) {
			var rows []record.Row
			for i := range uint64(2) {
				rows = append(rows, row("a.example", 0, i))
			}
			s := newStore(rows...)
			var urls, want []string
			for i := range fewSitemaps + 3 {
				urls = append(urls, fmt.Sprintf("https://a.example/%02d.xml", i))
				want = append(want, "map "+urls[i])
				if i < len(rows) {
					want = append(want, "rows 1")
				}
			}
			if early {
				s.addSitemaps(urls...)
			}
			f := start(t, s, Options{Batch: 1})
			if !early {
				f.AddSitemaps(s.addSitemaps(urls...), 1)
			}
			for _, want := range want {
				got, l := lend(t, f)
				if got != want {
					t.Fatalf("got %s, want %s", got, want)
				}
				if l.Sitemap == nil {
					finish(f, s, l)
				} else {
					done(f, s, l, record.SitemapRead, time.Time{})
				}
			}
			wantEnd(t, f)
		})
	}
}

// TestSitemapRobots: the robots.txt of a sitemap's own origin is asked for first, alone.
func TestSitemapRobots(t *testing.T) {
	s := newStore(row("a.example", 0, 1))
	known := map[string]bool{"http://a.example": true}
	f := start(t, s, Options{PerHost: 3, Crawlers: 9, NeedRobots: func(origin string) bool { return !known[origin] }})
	f.AddSitemaps(s.addSitemaps("http://a.example/1.xml", "https://a.example/2.xml"), 1)
	got, one := lend(t, f)
	if got != "map http://a.example/1.xml" {
		t.Fatal(got)
	}
	got, two := lend(t, f)
	if got != "rows 1" {
		t.Fatal(got)
	}
	if loans, ok := f.TryTake(1); ok {
		t.Fatalf("lent beside others: %+v", loans[0])
	}
	done(f, s, one, record.SitemapRead, time.Time{})
	finish(f, s, two)
	got, l := lend(t, f)
	if got != "robots https://a.example" {
		t.Fatal(got)
	}
	known["https://a.example"] = true
	f.Return(l, nil)
	if got, l = lend(t, f); got != "map https://a.example/2.xml" {
		t.Fatal(got)
	}
	f.Return(l, nil) // not asked
	if got, l = lend(t, f); got != "map https://a.example/2.xml" {
		t.Fatal(got)
	}
	done(f, s, l, record.SitemapFailed, time.Time{})
	wantEnd(t, f)
}

// TestSitemapLater: one that is asked again later is waited for, but not beyond MaxWait; the delay
// of its host counts.
func TestSitemapLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		f := start(t, s, Options{MaxWait: time.Minute, Delay: 10 * time.Second})
		f.AddSitemaps(s.addSitemaps("https://a.example/1.xml"), 1)
		begin := time.Now()
		for _, wait := range []time.Duration{0, 10 * time.Second, 50 * time.Second} {
			_, l := lend(t, f)
			if took := time.Since(begin); took != wait {
				t.Fatalf("lent after %v, want %v", took, wait)
			}
			begin = time.Now()
			f.Answered(l, Answer{})
			done(f, s, l, record.SitemapOpen, begin.Add(wait*5))
		}
		wantEnd(t, f)
		if n := f.Stats().Eligible; n != 1 {
			t.Errorf("%d left, want 1", n)
		}
	})
}

// TestSitemapEnd: no end before an expected commit has come and what it brings is read.
func TestSitemapEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		idles := 0
		f := start(t, s, Options{Idle: func() { idles++ }})
		f.Expect(1)
		if !f.Starved() {
			t.Error("what is expected waits in a buffer, and nobody would flush it")
		}
		go func() {
			synctest.Wait()
			f.AddSitemaps(s.addSitemaps("https://a.example/1.xml"), 1)
			f.Expect(-1)
		}()
		_, l := lend(t, f)
		if idles != 1 {
			t.Errorf("Idle was called %d times, want once", idles)
		}
		ended := make(chan error)
		go func() {
			_, err := f.Take(t.Context(), 1)
			ended <- err
		}()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("Take ended while a sitemap is out: %v", err)
		default:
		}
		done(f, s, l, record.SitemapRead, time.Time{})
		if err := <-ended; !errors.Is(err, io.EOF) {
			t.Errorf("%v, want io.EOF", err)
		}
	})
}

// TestSitemapGivenUp: of a host that is given up no sitemap is asked, and nobody waits for them.
func TestSitemapGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		f := start(t, s, Options{MaxWait: 100 * time.Hour})
		f.AddSitemaps(s.addSitemaps("https://a.example/1.xml", "https://a.example/2.xml"), 1)
		for range giveUpAfter {
			_, l := lend(t, f)
			f.Answered(l, Answer{Fault: Broken})
			done(f, s, l, record.SitemapOpen, time.Now())
		}
		wantEnd(t, f)
		f.AddSitemaps(s.addSitemaps("https://a.example/3.xml"), 1)
		wantEnd(t, f)
		if st := f.Stats(); st.Eligible != 0 || len(s.maps) != 3 {
			t.Errorf("%+v, %d in the store", st, len(s.maps))
		}
	})
}

// TestSitemapStoreFails: an error of the store ends all Takes; fewer sitemaps than were counted end
// none.
func TestSitemapStoreFails(t *testing.T) {
	s := newStore()
	s.table = []record.HostRow{{HostTimes: record.HostTimes{Name: "a.example"}, Sitemaps: 2}}
	f := start(t, s, Options{})
	wantEnd(t, f)
	if st := f.Stats(); st.Missing != 2 || st.Eligible != 0 {
		t.Errorf("%+v", st)
	}
	s.err = errors.New("bad disk")
	f.AddSitemaps(s.addSitemaps("https://a.example/1.xml"), 1)
	if _, err := f.Take(t.Context(), 1); !errors.Is(err, s.err) || !strings.Contains(err.Error(), "a.example") {
		t.Errorf("%v", err)
	}
}

// TestForgottenSitemapsStayForgotten: hosts that were given up make room for others as any do, and
// do not bring back the sitemaps that are forgotten.
func TestForgottenSitemapsStayForgotten(t *testing.T) {
	for _, most := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testForgotten(t, most) })
		})
	}
}

func testForgotten(t *testing.T, most int) {
	var rows []record.Row
	for i := range uint64(60) {
		rows = append(rows, row([]string{"a.example", "a.example", "b.example", "c.example"}[i%4], 0, i))
	}
	s := newStore(rows...)
	s.addSitemaps("http://a.example/map/1", "http://a.example/map/2")
	s.times["a.example"] = record.HostRow{HostTimes: record.HostTimes{Fails: giveUpAfter - 1}}
	f := start(t, s, Options{MaxHosts: most, Memory: 1, Run: 1})
	asked, held, maps := 0, 0, 0
	for {
		loans, err := f.Take(t.Context(), 1)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range loans {
			if l.Sitemap != nil {
				maps++
				times := f.Answered(l, Answer{Fault: Broken})
				s.commit(nil, nil, []record.HostTimes{times})
				f.Done(nil, []record.HostTimes{times})
				// A robots.txt that was on its way tells of one more.
				f.AddSitemaps(s.addSitemaps("http://a.example/map/3"), s.commit(nil, nil, nil))
			}
			asked += len(l.Rows)
			for _, h := range l.Held {
				held++
				s.gone(h.Row)
				f.Done([]Done{{Row: h.Row, Next: record.Row{Range: record.Held}}}, nil)
			}
			finish(f, s, l)
		}
	}
	if asked != 30 || held != 30 || maps != 1 || f.Stats().Eligible != 0 || f.Stats().Missing != 0 {
		t.Errorf("%d asked, %d held, want 30 each; %d sitemaps of 1; %+v", asked, held, maps, f.Stats())
	}
}
