package crawler_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"urltree/crawler"
	"urltree/iut"
	"urltree/storage/record"
)

// handled returns options of a crawl of a graph into a tree.
func handled(t *testing.T, g linkGraph) crawler.Options {
	t.Helper()
	dir := t.TempDir()
	o := crawler.Options{
		Tree:    filepath.Join(dir, "iut"),
		Output:  filepath.Join(dir, "res.txt"),
		Storage: crawler.Storage{NoSync: true},
		Seeds:   []string{graphSite},
		Fetch:   func(_ context.Context, url string) (crawler.Content, error) { return g.page(url) },
	}
	o.AnswerNobody()
	return o
}

func newCrawler(t *testing.T, o crawler.Options) *crawler.Crawler {
	t.Helper()
	c, err := crawler.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestNewOpens: New has the tree from its return on until Run or Close returns, and nothing of a
// Crawler is left behind; what its run can no longer do is ErrOver.
func TestNewOpens(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	o := handled(t, star(3))
	c := newCrawler(t, o)
	if _, err := crawler.New(t.Context(), o); !errors.Is(err, iut.ErrBusy) {
		t.Errorf("a second New: %v", err)
	}
	if p := c.Stats(); p != (crawler.Progress{}) {
		t.Errorf("before Run: %+v", p)
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	over := func(c *crawler.Crawler) {
		t.Helper()
		_, runErr := c.Run(t.Context())
		_, retryErr := c.Retry(t.Context(), "")
		for name, err := range map[string]error{"Run": runErr, "Retry": retryErr, "Add": c.Add(t.Context(), crawler.Request{URL: graphSite})} {
			if !errors.Is(err, crawler.ErrOver) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	over(c)

	c = newCrawler(t, o)
	r, err := c.Run(t.Context())
	if err != nil || r.Run.Stored != 4 || c.Stats().Pages != 4 {
		t.Errorf("%+v, %v, %+v", r, err, c.Stats())
	}
	over(c)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	o.MaxURL = 9000
	if _, err := crawler.New(t.Context(), o); !errors.Is(err, crawler.ErrOptions) {
		t.Errorf("bad options: %v", err)
	}
}

// TestNewStopped: a context that ends while the tree is opened leaves a Crawler whose Run returns
// at once.
func TestNewStopped(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	ctx, cancel := context.WithCancel(t.Context())
	o := handled(t, star(1))
	o.MoreSeeds = func(func(string, error) bool) { cancel() }
	c, err := crawler.New(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := c.Run(t.Context()); err != nil || r.Ended != "stopped" || r.Run.ID != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestAdd: seeds that are added before the run, and by its call-backs, are crawled in it, and the
// next run finds them in seeds.txt.
func TestAdd(t *testing.T) {
	g := star(2)
	for _, name := range []string{"early", "late", "gone"} {
		g[graphSite+name] = nil
	}
	o := handled(t, g)
	var c *crawler.Crawler
	added := atomic.Bool{}
	o.OnPage = func(p crawler.Page) error {
		if strings.Contains(p.URL, "leaf") && added.CompareAndSwap(false, true) {
			return c.Add(t.Context(), crawler.Request{URL: strings.ToUpper(graphSite[:7]) + graphSite[7:] + "late#x"}, crawler.Request{URL: graphSite})
		}
		return nil
	}
	ends := 0
	o.Progress = func(p crawler.Progress) {
		if p.Phase == "drain" {
			ends++
			if p.Pages != 5 {
				t.Errorf("at the end: %+v", p)
			}
		}
	}
	c = newCrawler(t, o)
	if err := c.Add(t.Context(), crawler.Request{URL: graphSite + "early"}); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"ftp://x/", "https://user:secret@x.org/"} {
		err := c.Add(t.Context(), crawler.Request{URL: graphSite + "gone"}, crawler.Request{URL: bad})
		if !errors.Is(err, crawler.ErrOptions) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	r, err := c.Run(t.Context())
	if err != nil || r.Run.Stored != 5 || ends == 0 {
		t.Errorf("%+v, %v, %d reports at the end", r, err, ends)
	}
	seeds, err := os.ReadFile(filepath.Join(o.Tree, "seeds.txt"))
	if want := graphSite + "\n" + graphSite + "early\n" + graphSite + "late\n" + graphSite + "\n"; string(seeds) != want || err != nil {
		t.Errorf("seeds.txt: %q, %v; want %q", seeds, err, want)
	}
}

// TestAddAtTheEnd: seeds that are added while nothing else is left are either crawled, or Add says
// that the run is over.
func TestAddAtTheEnd(t *testing.T) {
	for i := range 50 {
		o := handled(t, linkGraph{graphSite: nil, graphSite + "more": nil})
		o.NoTree, o.Tree, o.Output = true, "", ""
		c := newCrawler(t, o)
		got := make(chan error)
		go func() {
			time.Sleep(time.Duration(i) * 200 * time.Microsecond)
			got <- c.Add(t.Context(), crawler.Request{URL: graphSite + "more"})
		}()
		r, err := c.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		switch err := <-got; {
		case err == nil && r.Total.Stored+r.Total.Pending() == 2:
		case errors.Is(err, crawler.ErrOver) && r.Total.Stored == 1:
		default:
			t.Errorf("Add: %v; %+v", err, r.Total)
		}
	}
}

// TestPause: no request begins between Pause and Resume, and Stats says why.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const leaves = 50
		o := handled(t, star(leaves))
		var begun atomic.Int64
		fetch := o.Fetch
		o.Fetch = func(ctx context.Context, url string) (crawler.Content, error) {
			begun.Add(1)
			time.Sleep(time.Second)
			return fetch(ctx, url)
		}
		o.Crawlers, o.Downloads = 1, 2
		c := newCrawler(t, o)
		c.Pause() // before there is anything to pause
		done := make(chan crawler.Result)
		go func() {
			r, err := c.Run(t.Context())
			if err != nil {
				t.Error(err)
			}
			done <- r
		}()
		look := func(after time.Duration) int64 {
			time.Sleep(after)
			synctest.Wait()
			return begun.Load()
		}
		if n := look(time.Minute); n != 0 {
			t.Fatalf("%d requests while it pauses", n)
		}
		if p := c.Stats(); p.Waiting != "paused" || p.Pending != 1 {
			t.Errorf("%+v", p)
		}
		c.Resume()
		if n := look(10 * time.Second); n < 5 || n > leaves/2 {
			t.Fatalf("%d requests in ten seconds", n)
		}
		c.Pause()
		look(2 * time.Second)
		if before, after := begun.Load(), look(time.Hour); before != after {
			t.Errorf("%d requests while it pauses", after-before)
		}
		c.Resume()
		if r := <-done; r.Run.Stored != leaves+1 {
			t.Errorf("%d pages, want %d", r.Run.Stored, leaves+1)
		}
	})
}

// TestRetryWhileItRuns: what failed is asked again in the same run.
func TestRetryWhileItRuns(t *testing.T) {
	g := linkGraph{graphSite: {graphSite + "a/flaky", graphSite + "b/flaky", graphSite + "calm"}, graphSite + "a/flaky": nil, graphSite + "calm": nil}
	o := handled(t, g)
	var works atomic.Bool
	fetch := o.Fetch
	o.Fetch = func(ctx context.Context, url string) (crawler.Content, error) {
		if strings.HasSuffix(url, "flaky") && !works.Load() {
			return crawler.Content{}, errors.New("not now")
		}
		return fetch(ctx, url)
	}
	failed := make(chan struct{}, 2)
	o.OnOutcome = func(out crawler.Outcome) {
		if out.State == record.Failed {
			failed <- struct{}{}
		}
	}
	retried := make(chan struct{})
	o.OnPage = func(p crawler.Page) error {
		if strings.HasSuffix(p.URL, "calm") {
			<-retried // the run does not end before
		}
		return nil
	}
	c := newCrawler(t, o)
	done := make(chan crawler.Result)
	go func() {
		r, err := c.Run(t.Context())
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	<-failed
	<-failed
	works.Store(true)
	for n := 0; n == 0; { // until the outcomes are durable
		var err error
		if n, err = c.Retry(t.Context(), graphSite+"a/"); err != nil || n > 1 {
			t.Fatalf("%d reopened, %v", n, err)
		}
	}
	close(retried)
	if r := <-done; r.Total.Stored != 3 || r.Total.Failed != 1 || r.Total.Pending() != 0 {
		t.Errorf("%+v", r.Total)
	}
	c = newCrawler(t, o)
	if _, err := c.Retry(t.Context(), "ftp://x"); !errors.Is(err, crawler.ErrOptions) {
		t.Errorf("a prefix that is none: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestCause: a result has the cause of the context that ended the run, and of no other one.
func TestCause(t *testing.T) {
	enough := errors.New("enough for today")
	o := handled(t, star(3))
	ctx, cancel := context.WithCancelCause(t.Context())
	o.OnOutcome = func(crawler.Outcome) { cancel(enough) }
	if r, err := crawler.Run(ctx, o); err != nil || r.Ended != "stopped" || !errors.Is(r.Cause, enough) {
		t.Errorf("while it fetches: %v, %v: %q", err, r.Cause, r.Ended)
	}
	if r, err := crawler.Run(ctx, o); err != nil || r.Ended != "stopped" || !errors.Is(r.Cause, enough) {
		t.Errorf("before: %v, %v: %q", err, r.Cause, r.Ended)
	}
	o.OnOutcome = nil
	ctx, cancel = context.WithCancelCause(t.Context())
	if r, err := crawler.Run(ctx, o); err != nil || r.Ended != "nothing left" || r.Cause != nil {
		t.Errorf("to the end: %v, %v: %q", err, r.Cause, r.Ended)
	}
	cancel(enough)
}
