package crawler_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"urltree/crawler"
	"urltree/crawler/scope"
	"urltree/iut"
)

// TestSet: another delay and another number of requests at once count while the crawl goes on.
func TestSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := handled(t, star(200))
		o.Delay, o.MaxWait = time.Hour, 24*time.Hour
		var begun, busy, most atomic.Int64
		fetch := o.Fetch
		o.Fetch = func(ctx context.Context, url string) (crawler.Content, error) {
			begun.Add(1)
			if n := busy.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer busy.Add(-1)
			time.Sleep(10 * time.Second)
			return fetch(ctx, url)
		}
		c := newCrawler(t, o)
		done := make(chan error)
		go func() {
			_, err := c.Run(t.Context())
			done <- err
		}()
		want := func(what string, after time.Duration, least, greatest int64) {
			t.Helper()
			before := begun.Load()
			time.Sleep(after)
			synctest.Wait()
			if n := begun.Load() - before; n < least || n > greatest {
				t.Errorf("%s: %d requests in %v, want %d to %d", what, n, after, least, greatest)
			}
		}
		set := func(change func(s *crawler.Settings)) {
			t.Helper()
			s := c.Settings()
			change(&s)
			if err := c.Set(s); err != nil {
				t.Error(err)
			}
		}
		want("a delay of an hour", 3*time.Hour, 3, 4)
		set(func(s *crawler.Settings) { s.Delay = 10 * time.Second })
		want("of ten seconds", 10*time.Minute, 28, 31)
		if most.Load() != 1 {
			t.Errorf("%d requests at once", most.Load())
		}
		set(func(s *crawler.Settings) { s.PerHost, s.Delay = 5, 2*time.Second })
		want("five at once", time.Minute, 25, 31)
		if most.Load() != 5 {
			t.Errorf("%d requests at once, want 5", most.Load())
		}
		set(func(s *crawler.Settings) { s.PerHost, s.Delay = 1, time.Hour })
		want("those that go on", time.Minute, 0, 1)
		most.Store(0)
		want("one an hour", 3*time.Hour, 2, 3)
		if most.Load() > 1 {
			t.Errorf("%d requests at once", most.Load())
		}
		set(func(s *crawler.Settings) { s.PerHost, s.Delay = 100, -1 })
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := c.Set(c.Settings()); !errors.Is(err, crawler.ErrOver) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// TestSetNext: what says which URLs belong to the crawl counts from the next run on, where its
// options leave it open; one Set is all of it, and what cannot work is refused and changes nothing.
func TestSetNext(t *testing.T) {
	g := linkGraph{graphSite: {graphSite + "a", graphSite + "b"}, graphSite + "a": {graphSite + "a/c"}, graphSite + "b": nil, graphSite + "a/c": nil}
	o := handled(t, g)
	c := newCrawler(t, o)
	if s := c.Settings(); s.PerHost != math.MaxInt32 || s.Delay != -1 || s.Next.Budgets.Repeat != 3 {
		t.Errorf("at the beginning: %+v", s)
	}
	s := c.Settings()
	s.Next.Scope, s.Next.Exclude = scope.Host, []*regexp.Regexp{regexp.MustCompile("/b$")}
	s.Next.Budgets.Prefix, s.Next.MaxDepth = -1, 1
	s.Delay, s.LimitRate = 0, 5<<20 // of a crawl by Fetch 0 is none
	if err := c.Set(s); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(s *crawler.Settings){
		"PerHost":   func(s *crawler.Settings) { s.PerHost, s.Delay = -1, time.Hour },
		"LimitRate": func(s *crawler.Settings) { s.LimitRate, s.Delay = -1, time.Hour },
		"Scope":     func(s *crawler.Settings) { s.Next.Scope, s.Delay = 9, time.Hour },
	} {
		bad := c.Settings()
		change(&bad)
		if err := c.Set(bad); !errors.Is(err, crawler.ErrOptions) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	many := c.Settings()
	many.Delay = time.Hour
	many.Next.Include = []*regexp.Regexp{regexp.MustCompile(strings.Repeat("x", 2<<20))}
	if err := c.Set(many); !errors.Is(err, iut.ErrFormat) {
		t.Errorf("too much to keep: %v", err)
	}
	r, err := c.Run(t.Context())
	if err != nil || r.Total.Stored != 4 {
		t.Errorf("this run: %+v, %v", r.Total, err)
	}

	c = newCrawler(t, o)
	got := c.Settings()
	if got.Delay != -1 || got.LimitRate != 5<<20 || got.Next.Scope != scope.Host || len(got.Next.Exclude) != 1 || got.Next.Budgets.Prefix != -1 || got.Next.MaxDepth != 1 || got.Next.Budgets.Host != 1_000_000 {
		t.Errorf("the next run: %+v", got)
	}
	got.LimitRate, got.Next.Exclude = 0, nil
	if err := c.Set(got); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	o.MaxDepth = 7
	c = newCrawler(t, o)
	if got := c.Settings(); got.LimitRate != 0 || got.Next.Exclude != nil || got.Next.MaxDepth != 7 || got.Next.Scope != scope.Host {
		t.Errorf("the one after that, with another depth: %+v", got)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestSetCounts: what Set left to the next run, that one crawls by.
func TestSetCounts(t *testing.T) {
	o := handled(t, star(9))
	c := newCrawler(t, o)
	s := c.Settings()
	s.Next.Exclude = []*regexp.Regexp{regexp.MustCompile("leaf[2-9]")}
	err := c.Set(s)
	if err = errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
	if r, err := crawler.Run(t.Context(), o); err != nil || r.Total.Stored != 2+1 {
		t.Errorf("%+v, %v: want the middle and two leaves", r.Total, err)
	}
}

// TestSetNothingKept: a run that keeps nothing takes what counts at once alone.
func TestSetNothingKept(t *testing.T) {
	o := handled(t, star(1))
	o.NoTree, o.Tree, o.Output = true, "", ""
	c := newCrawler(t, o)
	s := c.Settings()
	s.Delay = time.Nanosecond
	if err := c.Set(s); err != nil {
		t.Error(err)
	}
	s.Next.MaxDepth = 3
	if err := c.Set(s); !errors.Is(err, crawler.ErrOptions) || c.Settings().Delay != time.Nanosecond {
		t.Errorf("of the next run: %v, %+v", err, c.Settings())
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

const setFolder = "TEST_URLTREE_SET" // the folder of the process that is killed

// numbered are settings that differ with n in each part of FORMAT that Set changes.
func numbered(n int) (s crawler.Settings) {
	s.Delay, s.PerHost, s.LimitRate = time.Duration(n)*time.Minute, n, int64(n)
	s.Next.MaxDepth, s.Next.Budgets.Host, s.Next.Budgets.MaxHeld = n, int64(n), int64(n)
	s.Next.Exclude = []*regexp.Regexp{regexp.MustCompile(fmt.Sprintf("^%d", n)), regexp.MustCompile(fmt.Sprintf("%d$", n))}
	return s
}

// setUntilKilled changes all settings, and prints a line for each time that Set returns.
func setUntilKilled(t *testing.T, dir string) {
	o := crawler.Options{Tree: filepath.Join(dir, "iut"), Output: filepath.Join(dir, "res.txt"), Seeds: []string{graphSite}}
	o.MaxWait = math.MaxInt64 // the seed waits for the delay of the last run
	o.Fetch = func(ctx context.Context, _ string) (crawler.Content, error) {
		<-ctx.Done()
		return crawler.Content{}, ctx.Err()
	}
	c, err := crawler.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	first := c.Settings().PerHost
	if first == math.MaxInt32 {
		first = 0 // there was no run yet
	}
	go c.Run(t.Context()) //nolint:errcheck // the process is killed
	for n := first + 1; n < first+100_000; n++ {
		if err := c.Set(numbered(n)); err != nil {
			t.Fatal(err)
		}
		fmt.Printf("set %d\n", n)
	}
}

// TestSetKilled: of one Set a kill leaves all to the next run, or nothing, and all of the last one
// that has returned.
func TestSetKilled(t *testing.T) {
	if dir := os.Getenv(setFolder); dir != "" {
		setUntilKilled(t, dir)
		return
	}
	dir := t.TempDir()
	last := 0
	for range 6 {
		child := exec.Command(os.Args[0], "-test.run=^TestSetKilled$")
		child.Env = append(os.Environ(), setFolder+"="+dir)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for first := true; lines.Scan(); first = false {
			if _, err := fmt.Sscanf(lines.Text(), "set %d", &last); err != nil {
				t.Errorf("the process that is to be killed: %s", lines.Text())
			}
			if first {
				time.AfterFunc(time.Duration(rand.IntN(100_000))*time.Microsecond, func() { _ = child.Process.Kill() })
			}
		}
		if err := child.Wait(); child.ProcessState.Exited() {
			t.Fatalf("it ended before it was killed: %v", err)
		}
		o := crawler.Options{Tree: filepath.Join(dir, "iut"), Output: filepath.Join(dir, "res.txt")}
		c, err := crawler.New(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		s := c.Settings()
		want := numbered(s.PerHost)
		if s.PerHost < last || s.PerHost > last+1 || s.Delay != want.Delay || s.LimitRate != want.LimitRate ||
			s.Next.MaxDepth != want.Next.MaxDepth || s.Next.Budgets.Host != want.Next.Budgets.Host || s.Next.Budgets.MaxHeld != want.Next.Budgets.MaxHeld ||
			fmt.Sprint(s.Next.Exclude) != fmt.Sprint(want.Next.Exclude) {
			t.Errorf("Set of %d had returned; the next run has %+v", last, s)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
