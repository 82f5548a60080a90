package crawler_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"urltree/crawler"
	"urltree/crawler/scope"
	"urltree/storage/record"
)

// star is a page with n links, and the pages that they lead to.
func star(n int) linkGraph {
	g := linkGraph{graphSite: nil}
	for i := range n {
		to := fmt.Sprintf("%sleaf%d", graphSite, i)
		g[graphSite] = append(g[graphSite], to)
		g[to] = nil
	}
	return g
}

// TestPoolsFill: with the parse workers at a standstill, as many pages are fetched as there are
// workers and places in the queue, and not one more.
func TestPoolsFill(t *testing.T) {
	for _, size := range []struct{ downloads, parsers, queue, most int }{
		{1, 1, 1, 3},
		{4, 2, 3, 9},
		{2, 8, 1, 11},
		{5, 2, 0, 5}, // a download worker keeps its page
	} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			g := star(100)
			var (
				out, most atomic.Int64
				full      = make(chan struct{})
				once      sync.Once
			)
			_, err := crawler.Run(t.Context(), crawler.Options{
				NoTree:    true,
				Seeds:     []string{graphSite},
				Resources: crawler.Resources{Crawlers: 1, Downloads: size.downloads, Parsers: size.parsers, QueueSize: size.queue},
				Fetch: func(_ context.Context, url string) (crawler.Content, error) {
					n := out.Add(1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					if n == int64(size.most) {
						once.Do(func() { close(full) })
					}
					return g.page(url)
				},
				OnPage: func(p crawler.Page) error {
					if p.Source != record.Seed {
						<-full
					}
					out.Add(-1)
					return nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			if n := most.Load(); n != int64(size.most) {
				t.Errorf("%d pages at a time between Fetch and the end of OnPage, want %d", n, size.most)
			}
		})
	}
}

// TestLinksQueue: of many URLs that may be asked a crawler takes one for its download worker and as
// many as the queue holds.
func TestLinksQueue(t *testing.T) {
	g := linkGraph{graphSite: nil}
	for i := range 100 {
		g[graphSite] = append(g[graphSite], fmt.Sprintf("http://host%d.example/", i))
	}
	for _, size := range []int{1, 2, 30} {
		res, err := crawler.Run(t.Context(), crawler.Options{
			NoTree:    true,
			Seeds:     []string{graphSite},
			Resources: crawler.Resources{Crawlers: 1, Downloads: 1, Parsers: 1, QueueSize: size},
			Fetch: func(_ context.Context, url string) (crawler.Content, error) {
				if url != graphSite {
					panic("the end") // nothing is taken any more once this has ended the crawl
				}
				return g.page(url)
			},
		})
		var failure *crawler.CallbackError
		if !errors.As(err, &failure) {
			t.Fatal(err)
		}
		if s := res.Stages[0]; s.Name != "pick URL" || s.Count != int64(1+1+size) {
			t.Errorf("queue of %d: %+v, want the seed, one, and %d that wait", size, s, size)
		}
	}
}

// TestCallbackFails: whatever a call-back does, Run returns it with everything stopped, and a
// later run of the same tree goes on with the pages that were not done.
func TestCallbackFails(t *testing.T) {
	boom := errors.New("boom")
	g := star(sized(200, 40))
	for _, tt := range []struct {
		name string
		set  func(o *crawler.Options, fail func())
		mute bool // fail ends the goroutine in place of a panic
		dies bool // it returns an error instead
	}{
		{name: "Fetch", set: func(o *crawler.Options, fail func()) {
			fetch := o.Fetch
			o.Fetch = func(ctx context.Context, url string) (crawler.Content, error) { fail(); return fetch(ctx, url) }
		}},
		{name: "OnPage", set: func(o *crawler.Options, fail func()) {
			o.OnPage = func(crawler.Page) error { fail(); return nil }
		}},
		{name: "OnPage", dies: true, set: func(o *crawler.Options, _ func()) {
			var n atomic.Int64
			o.OnPage = func(crawler.Page) error {
				if n.Add(1) == 5 {
					return fmt.Errorf("page: %w", boom)
				}
				return nil
			}
		}},
		{name: "Edge", set: func(o *crawler.Options, fail func()) { o.Edge = func(string, string) { fail() } }},
		{name: "Score", set: func(o *crawler.Options, fail func()) {
			o.Score = func(crawler.Candidate) float64 { fail(); return 1 }
		}},
		{name: "Allow", set: func(o *crawler.Options, fail func()) {
			o.Allow = func(crawler.Candidate) bool { fail(); return true }
		}},
		{name: "OnOutcome", set: func(o *crawler.Options, fail func()) { o.OnOutcome = func(crawler.Outcome) { fail() } }},
		{name: "Started", set: func(o *crawler.Options, fail func()) {
			o.Started = func() {
				for range 5 {
					fail()
				}
			}
		}},
		{name: "Fetch", mute: true, set: func(o *crawler.Options, fail func()) {
			fetch := o.Fetch
			o.Fetch = func(ctx context.Context, url string) (crawler.Content, error) { fail(); return fetch(ctx, url) }
		}},
	} {
		for _, noTree := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s mute %v dies %v no tree %v", tt.name, tt.mute, tt.dies, noTree), func(t *testing.T) {
				defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
				o := crawler.Options{Seeds: []string{graphSite}, Resources: crawler.Resources{Crawlers: 3, Downloads: 4, Parsers: 2, QueueSize: 2}}
				o.Fetch = func(ctx context.Context, url string) (crawler.Content, error) {
					if strings.HasSuffix(url, "leaf7") && tt.name != "Started" {
						<-ctx.Done()
						return crawler.Content{}, ctx.Err()
					}
					return g.page(url)
				}
				dir := t.TempDir()
				if noTree {
					o.NoTree = true
				} else {
					o.Tree, o.Output = filepath.Join(dir, "iut"), filepath.Join(dir, "res.txt")
				}
				good := o
				var calls atomic.Int64
				tt.set(&o, func() {
					switch {
					case calls.Add(1) != 5:
					case tt.mute:
						runtime.Goexit()
					default:
						panic(boom)
					}
				})
				_, err := crawler.Run(t.Context(), o)
				var failure *crawler.CallbackError
				if !errors.As(err, &failure) {
					t.Fatalf("got %v, want a CallbackError", err)
				}
				if failure.Name != tt.name || !tt.mute && !errors.Is(err, boom) || (failure.Stack != nil) != (!tt.mute && !tt.dies) {
					t.Errorf("got %q, stack %q", err, failure.Stack)
				}
				if ofNone := tt.name == "Started" || tt.name == "Progress"; ofNone != (failure.URL == "") {
					t.Errorf("it failed for the URL %q", failure.URL)
				}
				if strings.Contains(err.Error(), "\n") {
					t.Errorf("more than one line: %q", err)
				}
				if noTree {
					return
				}
				good.Fetch = func(_ context.Context, url string) (crawler.Content, error) { return g.page(url) }
				if _, err := crawler.Run(t.Context(), good); err != nil {
					t.Fatal(err)
				}
				requireSame(t, crawled(t, o.Output), g.urls())
				requireChecked(t, dir)
			})
		}
	}
}

// TestCallbackEndsDownloads: the failure of one call-back ends the other downloads at once.
func TestCallbackEndsDownloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var others atomic.Int64
		begun := make(chan struct{})
		_, err := crawler.Run(t.Context(), crawler.Options{
			NoTree: true, Seeds: []string{graphSite + "a", graphSite + "b", graphSite + "c"},
			Fetch: func(ctx context.Context, url string) (crawler.Content, error) {
				if url == graphSite+"a" {
					<-begun
					<-begun
					panic("boom")
				}
				begun <- struct{}{}
				<-ctx.Done()
				others.Add(1)
				return crawler.Content{}, ctx.Err()
			},
		})
		if err == nil || err.Error() != "Fetch of "+graphSite+"a: panic: boom" {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start); others.Load() != 2 || took > 2*time.Second {
			t.Errorf("%d other downloads ended, after %v", others.Load(), took)
		}
	})
}

// TestFetchTakesTooLong: its context ends with Timeout, and its URL is asked again only if Retries
// says so.
func TestFetchTakesTooLong(t *testing.T) {
	for retries, calls := range map[int]int{-1: 1, 0: 1, 2: 3} {
		synctest.Test(t, func(t *testing.T) {
			got, outcome := 0, ""
			_, err := crawler.Run(t.Context(), crawler.Options{
				NoTree: true,
				Seeds:  []string{graphSite},
				HTTP:   crawler.HTTP{Timeout: time.Minute, Retries: retries},
				Fetch: func(ctx context.Context, _ string) (crawler.Content, error) {
					start := time.Now()
					<-ctx.Done()
					if took := time.Since(start); took != time.Minute {
						t.Errorf("ctx ended after %v", took)
					}
					got++
					return crawler.Content{}, ctx.Err()
				},
				OnOutcome: func(o crawler.Outcome) { outcome = fmt.Sprint(o.State, " ", o.Reason) },
			})
			if err != nil || got != calls || outcome != "failed timeout" {
				t.Errorf("Retries %d: %d calls, want %d; %s, %v", retries, got, calls, outcome, err)
			}
		})
	}
}

func (g linkGraph) urls() []string {
	var urls []string
	for url := range g {
		urls = append(urls, url)
	}
	slices.Sort(urls)
	return urls
}

// TestFailedPageComesAgain: a page whose OnPage failed is pending, and no other one is told twice.
func TestFailedPageComesAgain(t *testing.T) {
	g := star(50)
	dir := t.TempDir()
	told := map[string]int{}
	failed := false
	o := crawler.Options{
		Tree:      filepath.Join(dir, "iut"),
		Output:    filepath.Join(dir, "res.txt"),
		Seeds:     []string{graphSite},
		Resources: crawler.Resources{Crawlers: 1, Downloads: 1, Parsers: 1},
		Fetch:     func(_ context.Context, url string) (crawler.Content, error) { return g.page(url) },
		OnPage: func(p crawler.Page) error {
			if len(told) == 20 && !failed {
				failed = true
				return errors.New("no room")
			}
			told[p.URL]++
			return nil
		},
	}
	if _, err := crawler.Run(t.Context(), o); err == nil || !strings.HasSuffix(err.Error(), ": no room") || !strings.HasPrefix(err.Error(), "OnPage of "+graphSite) {
		t.Fatalf("got %v", err)
	}
	if _, err := crawler.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for url := range g {
		if told[url] != 1 {
			t.Errorf("%s told %d times", url, told[url])
		}
	}
}

// TestExternalOfNoTree: to ask what a tree refers to makes no tree.
func TestExternalOfNoTree(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "none")
	if _, err := crawler.Run(t.Context(), crawler.Options{External: true, Tree: root}); !errors.Is(err, crawler.ErrNoWork) {
		t.Errorf("%v, want %v", err, crawler.ErrNoWork)
	}
	if _, err := os.Lstat(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v", root, err)
	}
}

// TestOptionsThatCannotWork: such options give an error, and nothing is made or begun.
func TestOptionsThatCannotWork(t *testing.T) {
	fetch := func(context.Context, string) (crawler.Content, error) { panic("asked") }
	score := func(crawler.Candidate) float64 { return 0 }
	for _, tt := range []struct {
		name string
		opts crawler.Options
		want error
		text string
	}{
		{"no seed", crawler.Options{NoTree: true}, crawler.ErrNoWork, "no seeds"},
		{"bad seed", crawler.Options{Seeds: []string{"http://a.example/", "mailto:a@b.example"}}, crawler.ErrOptions, `"...@b.example"`},
		{"parsers", crawler.Options{Resources: crawler.Resources{Parsers: -1}}, crawler.ErrOptions, "Parsers is -1"},
		{"queue", crawler.Options{Resources: crawler.Resources{QueueSize: -1}}, crawler.ErrOptions, "QueueSize is -1"},
		{"downloads", crawler.Options{Resources: crawler.Resources{Downloads: -1}}, crawler.ErrOptions, "Downloads is -1"},
		{"tree and none", crawler.Options{NoTree: true, Tree: "iut"}, crawler.ErrOptions, "NoTree"},
		{"output and none", crawler.Options{NoTree: true, Output: "res.txt"}, crawler.ErrOptions, "NoTree"},
		{"asking of seeds", crawler.Options{External: true, Seeds: []string{"http://a.example/"}}, crawler.ErrOptions, "Seeds must be unset"},
		{"asking of no tree", crawler.Options{External: true, NoTree: true}, crawler.ErrOptions, "NoTree"},
		{"an age of nothing", crawler.Options{ExternalAge: 1}, crawler.ErrOptions, "ExternalAge"},
		{"edges and none", crawler.Options{NoTree: true, Storage: crawler.Storage{Edges: true}}, crawler.ErrOptions, "Edges"},
		{"rank and none", crawler.Options{NoTree: true, Ordering: crawler.Ordering{ScoreBy: "rank"}}, crawler.ErrOptions, "ScoreBy rank"},
		{"header", crawler.Options{Fetch: fetch, HTTP: crawler.HTTP{Header: http.Header{}}}, crawler.ErrOptions, "Header"},
		{"bind", crawler.Options{Fetch: fetch, HTTP: crawler.HTTP{Bind: netip.MustParseAddr("127.0.0.1")}}, crawler.ErrOptions, "Bind"},
		{"bind to an address elsewhere", crawler.Options{HTTP: crawler.HTTP{Bind: netip.MustParseAddr("192.0.2.1")}}, crawler.ErrOptions, "to bind to 192.0.2.1, an address of this machine is needed"},
		{"seeds alone and a depth", crawler.Options{Bounds: crawler.Bounds{SeedsOnly: true, MaxDepth: 1}}, crawler.ErrOptions, "SeedsOnly"},
		{"score in another order", crawler.Options{Score: score, Ordering: crawler.Ordering{Order: crawler.OrderBreadth}}, crawler.ErrOptions, "Score"},
		{"score and its kind", crawler.Options{Score: score, Ordering: crawler.Ordering{ScoreBy: "opic"}}, crawler.ErrOptions, "Score"},
		{"no seed and no tree", crawler.Options{}, crawler.ErrNoWork, "no seeds"},
		{"unknown scope", crawler.Options{Bounds: crawler.Bounds{Scope: 77}}, crawler.ErrOptions, "Scope is 77"},
		{"negative scope", crawler.Options{Bounds: crawler.Bounds{Scope: -1}}, crawler.ErrOptions, "Scope is -1"},
		{"no media type", crawler.Options{Bounds: crawler.Bounds{Accept: []string{"text/html", "nonsense"}}}, crawler.ErrOptions, `"nonsense"`},
		{"media type with parameters", crawler.Options{Bounds: crawler.Bounds{Accept: []string{"text/html; charset=utf-8"}}}, crawler.ErrOptions, "Accept"},
		{"no folder for the results", crawler.Options{Output: "none/res.txt"}, crawler.ErrOptions, "no folder none"},
		{"timeout", crawler.Options{HTTP: crawler.HTTP{Timeout: -1}}, crawler.ErrOptions, "Timeout is -1, at least 1, or 0 for its default, is needed"},
		{"retries", crawler.Options{HTTP: crawler.HTTP{Retries: 65_535}}, crawler.ErrOptions, "Retries is 65535, at most 10000"},
		{"long URLs", crawler.Options{Bounds: crawler.Bounds{MaxURL: 8193}}, crawler.ErrOptions, "at most 8192"},
		{"rank in another order", crawler.Options{Ordering: crawler.Ordering{ScoreBy: "rank"}}, crawler.ErrOptions, "ScoreBy"},
		{"a share over all", crawler.Options{Revisits: crawler.Revisits{RecrawlShare: 101}}, crawler.ErrOptions, "RecrawlShare is 101"},
		{"a negative share", crawler.Options{Revisits: crawler.Revisits{RecrawlShare: -1}}, crawler.ErrOptions, "RecrawlShare is -1"},
		{"a share in order tree", crawler.Options{Revisits: crawler.Revisits{RecrawlShare: 30}, Ordering: crawler.Ordering{Order: crawler.OrderTree}}, crawler.ErrOptions, "not for OrderTree"},
		{"queue in another order", crawler.Options{Ordering: crawler.Ordering{Queue: "cbt"}}, crawler.ErrOptions, "Queue"},
		{"queues in another order", crawler.Options{Ordering: crawler.Ordering{Queues: 2}}, crawler.ErrOptions, "Queues"},
		{"no ranks", crawler.Options{Ordering: crawler.Ordering{Order: crawler.OrderPriority, ScoreBy: "rank"}}, crawler.ErrOptions, "-score rank"},
		{"cookies", crawler.Options{HTTP: crawler.HTTP{Cookies: []byte("no such format")}}, crawler.ErrOptions, "cookies"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if tt.opts.Seeds == nil && tt.want != crawler.ErrNoWork {
				tt.opts.Seeds = []string{"http://a.example/"}
			}
			tt.opts.Started = func() { t.Error("started") }
			_, err := crawler.Run(t.Context(), tt.opts)
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
				t.Fatalf("got %v", err)
			}
			if entries, err := os.ReadDir("."); err != nil || len(entries) > 0 {
				t.Errorf("left behind: %v %v", entries, err)
			}
		})
	}
}

// TestContent: what Fetch gives counts as an answer of a server does.
func TestContent(t *testing.T) {
	large := append([]byte(`<title>large</title><a href=end>`), bytes.Repeat([]byte("x "), 2<<20)...)
	web := map[string]crawler.Content{
		"/":        {Body: []byte(`<a href=moved><a href=gone><a href=plain><a href=large><a href=lines><a href=noindex><a href=header><a href=99><a href=-1><a href=999>`)},
		"/moved":   {Status: http.StatusMovedPermanently, Header: http.Header{"Location": {"target"}}},
		"/target":  {Body: []byte("<title>T</title>"), Media: "TEXT/HTML; charset=utf-8"},
		"/gone":    {Status: http.StatusGone},
		"/99":      {Status: 99},
		"/-1":      {Status: -1},
		"/999":     {Status: 999},
		"/plain":   {Body: []byte("link: not/followed")},
		"/large":   {Body: large},
		"/end":     {Body: []byte{}},
		"/lines":   {Body: []byte("a link: b c\n\nlink:d"), Media: crawler.LinkLines},
		"/noindex": {Body: []byte(`<meta name=robots content=noindex>`)},
		"/header":  {Body: []byte("x"), Media: "text/plain", Header: http.Header{"Content-Type": {"image/png"}}},
	}
	want := map[string]string{
		"/": "stored ", "/moved": "redirected /target", "/target": "stored ", "/gone": "failed http-4xx",
		"/99": "failed protocol", "/-1": "failed protocol", "/999": "failed http-5xx",
		"/plain": "stored ", "/large": "stored ", "/end": "stored ", "/lines": "stored ", "/noindex": "stored ",
		"/header": "stored ", "/b%20c": "failed fetch", "/d": "failed fetch",
	}
	const site = "http://web.example"
	for _, noTree := range []bool{false, true} {
		var mu sync.Mutex
		got, bodies := map[string]string{}, map[string]int{}
		dir := t.TempDir()
		o := crawler.Options{
			Seeds: []string{site},
			Fetch: func(_ context.Context, url string) (crawler.Content, error) {
				c, ok := web[strings.TrimPrefix(url, site)]
				if !ok {
					return c, fs.ErrNotExist
				}
				return c, nil
			},
			OnPage: func(p crawler.Page) error {
				mu.Lock()
				defer mu.Unlock()
				bodies[strings.TrimPrefix(p.URL, site)] = len(p.Body)
				return nil
			},
			OnOutcome: func(out crawler.Outcome) {
				mu.Lock()
				defer mu.Unlock()
				got[strings.TrimPrefix(out.URL, site)] = fmt.Sprintf("%s %s", out.State, out.Reason+strings.TrimPrefix(out.Target, site))
			},
		}
		if noTree {
			o.NoTree = true
		} else {
			o.Tree, o.Output = filepath.Join(dir, "iut"), filepath.Join(dir, "res.txt")
		}
		if _, err := crawler.Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		for path, outcome := range want {
			if got[path] != outcome {
				t.Errorf("no tree %v: %s is %q, want %q", noTree, path, got[path], outcome)
			}
			if strings.HasPrefix(outcome, "stored") && bodies[path] != len(web[path].Body) {
				t.Errorf("no tree %v: OnPage had %d bytes of %s, want %d", noTree, bodies[path], path, len(web[path].Body))
			}
		}
		if len(got) != len(want) {
			t.Errorf("outcomes: %v", got)
		}
		if !noTree {
			requireChecked(t, dir) // the links of LinkLines are found again in their folder
		}
	}
}

// TestNoTreeLeavesNothing: not a file, while it runs or afterwards, but its depth is exact all the
// same.
func TestNoTreeLeavesNothing(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Chdir(t.TempDir())
	none := func() {
		for _, dir := range []string{temp, "."} {
			if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
				t.Errorf("%s has %v %v", dir, entries, err)
			}
		}
	}
	// The short way to near is found last: then its links count, and what they lead to.
	g := linkGraph{
		graphSite: {graphSite + "a", graphSite + "slow"}, graphSite + "a": {graphSite + "b"},
		graphSite + "b": {graphSite + "near"}, graphSite + "slow": {graphSite + "near"},
		graphSite + "near": {graphSite + "far"}, graphSite + "far": {graphSite + "beyond"},
	}
	known := make(chan struct{})
	var pages []string
	_, err := crawler.Run(t.Context(), crawler.Options{
		NoTree:    true,
		Seeds:     []string{graphSite},
		Bounds:    crawler.Bounds{MaxDepth: 3, Scope: scope.Host},
		Resources: crawler.Resources{Parsers: 1, FlushInterval: 10 * time.Millisecond},
		Started:   none,
		Fetch: func(_ context.Context, url string) (crawler.Content, error) {
			if url == graphSite+"slow" {
				<-known
			}
			return g.page(url)
		},
		OnPage: func(p crawler.Page) error {
			pages = append(pages, strings.TrimPrefix(p.URL, graphSite))
			if p.URL == graphSite+"near" {
				close(known)
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(pages)
	if want := []string{"", "a", "b", "far", "near", "slow"}; !slices.Equal(pages, want) {
		t.Errorf("pages %q, want %q", pages, want)
	}
	none()
}

// TestAllow: what is not allowed is not asked but held, and the next run asks Allow again.
func TestAllow(t *testing.T) {
	g := star(10)
	dir := t.TempDir()
	asked := map[string]int{}
	o := crawler.Options{
		Tree:      filepath.Join(dir, "iut"),
		Output:    filepath.Join(dir, "res.txt"),
		Seeds:     []string{graphSite},
		Resources: crawler.Resources{Crawlers: 1, Downloads: 1},
		Fetch:     func(_ context.Context, url string) (crawler.Content, error) { return g.page(url) },
		Allow: func(c crawler.Candidate) bool {
			asked[c.URL]++
			if want := (crawler.Candidate{URL: c.URL, Source: graphSite, Depth: 1}); c.URL != graphSite && c != want {
				t.Errorf("asked of %+v, want %+v", c, want)
			}
			return !strings.HasSuffix(c.URL, "leaf3")
		},
	}
	res, err := crawler.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if res.Total.Stored != 10 || res.Total.Held != 1 {
		t.Errorf("%d stored, %d held", res.Total.Stored, res.Total.Held)
	}
	for _, url := range g.urls() {
		if asked[url] != 1 {
			t.Errorf("Allow asked %d times of %s", asked[url], url)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "res2.txt")); err != nil || !bytes.Contains(b, []byte("leaf3\t"+graphSite+"\t1\t0\tnot-allowed")) {
		t.Errorf("res2.txt: %s %v", b, err)
	}
	requireChecked(t, dir)
	o.Allow = nil
	if _, err := crawler.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	requireSame(t, crawled(t, o.Output), g.urls())
}

// TestSeveralCrawls go on in one process at the same time, in every order, and none knows of the
// others.
func TestSeveralCrawls(t *testing.T) {
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			g := newLinkGraph(200, uint64(i))
			var w watcher
			o := crawler.Options{Seeds: []string{graphSite + "p0"}, Resources: crawler.Resources{QueueSize: 4}, Ordering: crawler.Ordering{Order: crawler.Orders[i%3]}}
			w.watch(g, &o)
			dir := t.TempDir()
			if i%2 == 0 {
				o.NoTree = true
			} else {
				o.Tree, o.Output = filepath.Join(dir, "iut"), filepath.Join(dir, "res.txt")
			}
			if _, err := crawler.Run(t.Context(), o); err != nil {
				t.Error(err)
				return
			}
			w.require(t, g)
		})
	}
	wg.Wait()
}
