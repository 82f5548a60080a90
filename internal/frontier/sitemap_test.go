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
	case robotsOf(l) != "":
		return "robots " + robotsOf(l), l
	case len(l.Rows) == 1 && l.Rows[0].Kind == record.SitemapRow:
		return "map " + l.Rows[0].URL, l
	}
	return fmt.Sprint("rows ", len(l.Rows)), l
}

// later ends a loan of a sitemap that is to be asked again.
func later(f *Frontier, s *memStore, l *Loan, due time.Time) {
	done := []Done{{Row: l.Rows[0], Next: l.Rows[0]}}
	done[0].Next.Due = due.UnixNano()
	f.Return(l, nil)
	s.commit(done, nil, nil)
	f.Done(done, nil)
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
			for i := range sideRows + 3 {
				urls = append(urls, fmt.Sprintf("https://a.example/%02d.xml", i))
				want = append(want, "map "+urls[i])
				if i < len(rows) {
					want = append(want, "rows 1")
				}
			}
			if early {
				s.addSitemaps(urls...)
			}
			f := start(t, s, Options{PerLoan: 1})
			if !early {
				f.Add(s.addSitemaps(urls...), 1)
			}
			for _, want := range want {
				got, l := lend(t, f)
				if got != want {
					t.Fatalf("got %s, want %s", got, want)
				}
				finish(f, s, l)
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
	f.Add(s.addSitemaps("http://a.example/1.xml", "https://a.example/2.xml"), 1)
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
	finish(f, s, one, two)
	got, l := lend(t, f)
	if got != "robots https://a.example" {
		t.Fatal(got)
	}
	known["https://a.example"] = true
	f.Return(l, nil)
	if got, l = lend(t, f); got != "map https://a.example/2.xml" {
		t.Fatal(got)
	}
	f.Return(l, l.Rows) // not asked
	if got, l = lend(t, f); got != "map https://a.example/2.xml" {
		t.Fatal(got)
	}
	finish(f, s, l)
	wantEnd(t, f)
}

// TestSitemapLater: one that is asked again later is waited for, but not beyond MaxWait; the delay
// of its host counts.
func TestSitemapLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		f := start(t, s, Options{MaxWait: time.Minute, Delay: 10 * time.Second})
		f.Add(s.addSitemaps("https://a.example/1.xml"), 1)
		begin := time.Now()
		for _, wait := range []time.Duration{0, 10 * time.Second, 50 * time.Second} {
			_, l := lend(t, f)
			if took := time.Since(begin); took != wait {
				t.Fatalf("lent after %v, want %v", took, wait)
			}
			begin = time.Now()
			f.Answered(l, Answer{})
			later(f, s, l, begin.Add(wait*5))
		}
		wantEnd(t, f)
		if n := f.figures().Eligible; n != 1 {
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
			f.Add(s.addSitemaps("https://a.example/1.xml"), 1)
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
		finish(f, s, l)
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
		f.Add(s.addSitemaps("https://a.example/1.xml", "https://a.example/2.xml"), 1)
		for range giveUpAfter {
			_, l := lend(t, f)
			f.Answered(l, Answer{Fault: Broken})
			later(f, s, l, time.Now())
		}
		wantEnd(t, f)
		f.Add(s.addSitemaps("https://a.example/3.xml"), 1)
		wantEnd(t, f)
		if st := f.figures(); st.Eligible != 0 || len(s.rows) != 3 {
			t.Errorf("%+v, %d in the store", st, len(s.rows))
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
	if st := f.figures(); st.Missing != 2 || st.Eligible != 0 {
		t.Errorf("%+v", st)
	}
	s.err = errors.New("bad disk")
	f.Add(s.addSitemaps("https://a.example/1.xml"), 1)
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
			if len(l.Rows) > 0 && l.Rows[0].Kind == record.SitemapRow {
				maps++
				times := f.Answered(l, Answer{Fault: Broken})
				s.commit(nil, nil, []record.HostTimes{times})
				f.Done(nil, []record.HostTimes{times})
				// A robots.txt that was on its way tells of one more.
				f.Add(s.addSitemaps("http://a.example/map/3"), s.commit(nil, nil, nil))
				f.Return(l, l.Rows)
				l.Rows = nil
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
	if asked != 30 || held != 30 || maps != 1 || f.figures().Eligible != 0 || f.figures().Missing != 0 {
		t.Errorf("%d asked, %d held, want 30 each; %d sitemaps of 1; %+v", asked, held, maps, f.figures())
	}
}

// TestKindsOfOneURL: a page, a sitemap and a robots.txt may have the same URL, and be out at the
// same time; what ends or gives back one of them leaves the others alone.
func TestKindsOfOneURL(t *testing.T) {
	const url = "http://a.example/robots.txt"
	page := row("a.example", 0, 1)
	page.URL = url
	s := newStore(page)
	s.addSitemaps(url)
	need := false
	f := start(t, s, Options{PerHost: 3, Crawlers: 3, NeedRobots: func(string) bool { return need }})
	_, first := lend(t, f)
	_, second := lend(t, f)
	if first.Rows[0].Kind != record.SitemapRow || second.Rows[0] != page || f.figures().Out != 2 {
		t.Fatalf("%+v, then %+v", first.Rows, second.Rows)
	}
	f.Return(second, nil) // on its way to a commit
	f.Return(first, first.Rows)
	if st := f.figures(); st.Out != 1 || st.Eligible != 2 {
		t.Errorf("the sitemap has come back: %+v", st)
	}
	need = true
	got, l := lend(t, f)
	if got != "robots http://a.example" {
		t.Fatal(got)
	}
	f.Return(l, l.Rows)
	if out := f.Out(); len(out) != 1 || out[0] != url {
		t.Errorf("a robots.txt has come back, and out are %q", out)
	}
	need = false
	if got, l = lend(t, f); got != "map "+url || f.figures().Out != 2 {
		t.Fatal(got)
	}
	finish(f, s, second)
	if st := f.figures(); st.Out != 1 || st.Eligible != 1 || st.Removed != 1 {
		t.Errorf("the page is done: %+v", st)
	}
	finish(f, s, l)
	wantEnd(t, f)
	if st := f.figures(); st.Removed != 1 || st.Added != 0 {
		t.Errorf("what is no page was counted as one: %+v", st)
	}
}

// TestSitemapsBesideFullSide: sitemaps on disk are not lost sight of by a refill of pages while as
// many are in memory as may be.
func TestSitemapsBesideFullSide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rows []record.Row
		for i := range uint64(40) {
			rows = append(rows, row("a.example", 0, i))
		}
		s := newStore(rows...)
		for i := range sideRows + 3 {
			s.addSitemaps(fmt.Sprintf("https://a.example/%02d.xml", i))
		}
		f := start(t, s, Options{PerLoan: 1, Memory: 1})
		asked, unasked := 0, false
		for f.figures().Eligible > 0 {
			_, l := lend(t, f)
			if !unasked && l.Rows[0].Kind == record.SitemapRow {
				unasked = true
				f.Return(l, l.Rows) // the side is full again, and the pages are next
				continue
			}
			asked += len(l.Rows)
			finish(f, s, l)
		}
		if want := len(rows) + sideRows + 3; asked != want || f.figures().Missing != 0 {
			t.Errorf("asked for %d rows, want %d; %+v", asked, want, f.figures())
		}
	})
}
