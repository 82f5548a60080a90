package testweb

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"urltree/storage/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// all are options with everything in them.
func all(kind Kind) Options {
	pages := 2000
	if testing.Short() {
		pages = 1200
	}
	return Options{
		Kind: kind, Hosts: 13, Pages: pages, Seed: 7, MinSize: 500, MaxSize: 3000,
		Redirects: .06, Errors: .06, Texts: .05, Images: .05, NoIndex: .05, Private: .05,
	}
}

func start(t testing.TB, opts Options) *Web {
	t.Helper()
	w := New(opts)
	if err := w.Start(0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

func client(t testing.TB) *http.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

var href = regexp.MustCompile(`href="([^"]*)"`)

// linksOf reads the links of a body as a browser would.
func linksOf(t testing.TB, base string, body []byte) []string {
	t.Helper()
	b, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	var links []string
	for _, m := range href.FindAllSubmatch(body, -1) {
		u, err := b.Parse(html.UnescapeString(string(m[1])))
		if err != nil {
			t.Fatal(err)
		}
		u.Fragment = ""
		links = append(links, u.String())
	}
	return links
}

// crawl is the simplest crawler there can be, one request after the other.
func crawl(t testing.TB, w *Web) (Answer, map[string]int) {
	t.Helper()
	a := Answer{Redirected: map[string]string{}, Failed: map[string]string{}, Refused: map[string]string{}}
	c := client(t)
	linked := map[string]int{}
	todo := w.Seeds()
	known := map[string]bool{}
	for _, u := range todo {
		known[u] = true
	}
	found := func(urls ...string) {
		for _, u := range urls {
			linked[u]++
			if !known[u] {
				known[u] = true
				todo = append(todo, u)
			}
		}
	}
	for len(todo) > 0 {
		u := todo[0]
		todo = todo[1:]
		if strings.Contains(u, "/private/") {
			a.Refused[u] = "robots"
			continue
		}
		res, err := c.Get(u)
		if err != nil {
			a.Failed[u] = "reset"
			continue
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		media, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
		switch {
		case res.StatusCode == 302:
			a.Redirected[u] = res.Header.Get("Location")
			found(a.Redirected[u])
			continue
		case res.StatusCode != 200:
			a.Failed[u] = fmt.Sprint(res.StatusCode)
			continue
		case !bytes.Equal(body, w.Body(u)):
			t.Errorf("%s: Body differs from the answer", u)
		}
		switch {
		case media == "image/png":
			a.Refused[u] = "type"
		case bytes.Contains(body, []byte("noindex")):
			a.Refused[u] = "noindex"
			found(linksOf(t, u, body)...)
		case media == "text/html":
			a.Stored = append(a.Stored, u)
			found(linksOf(t, u, body)...)
		default:
			a.Stored = append(a.Stored, u)
		}
	}
	slices.Sort(a.Stored)
	return a, linked
}

func TestCrawlFindsTheAnswer(t *testing.T) {
	for _, tt := range []struct {
		name string
		opts Options
	}{
		{"zero", Options{}},
		{"linked", all(Linked)},
		{"tree", all(Tree)},
		{"changing", all(Changing)},
		{"one page for each host", Options{Hosts: 40, Pages: 40}},
		{"all redirects", Options{Pages: 20, Redirects: 1}},
		{"half redirects", Options{Kind: Tree, Pages: 200, Redirects: .5}},
		{"links without text", Options{Pages: 300, MinSize: 1, MaxSize: 1, Images: .1, Texts: .1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := start(t, tt.opts)
			got, linked := crawl(t, w)
			want := w.Answer()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("a crawl gets something else (-answer +crawl):\n%s", diff)
			}
			if n := len(want.Stored) + len(want.Redirected) + len(want.Failed) + len(want.Refused); n != w.opts.Pages {
				t.Errorf("the answer has %d of %d pages", n, w.opts.Pages)
			}
			for u := range want.Redirected {
				if n := linked[want.Redirected[u]]; n != 1 {
					t.Errorf("the target of %s has %d ways to it", u, n)
				}
			}
			if tt.opts.Kind != Linked {
				for _, u := range w.Seeds() {
					linked[u]++
				}
				for u, n := range linked {
					if n != 1 {
						t.Errorf("%s has %d ways to it", u, n)
					}
				}
			}
			// The net/http client asks again by itself when a kept connection is reset.
			for u, n := range w.Requests() {
				if n != 1 && want.Failed[u] != "reset" || want.Refused[u] == "robots" {
					t.Errorf("%s was asked for %d times", u, n)
				}
			}
			if tt.name == "linked" || tt.name == "changing" {
				if len(want.Redirected) < 50 || len(want.Failed) < 50 || len(want.Refused) < 150 {
					t.Errorf("%d redirected, %d failed, %d refused: too few to test with", len(want.Redirected), len(want.Failed), len(want.Refused))
				}
			}
		})
	}
}

func TestLinkedFavoursFew(t *testing.T) {
	w := New(Options{Kind: Linked, Pages: 10_000})
	ways := make([]int, 10_000)
	all := 0
	for n := range ways {
		for _, m := range w.links(n) {
			ways[m]++
			all++
		}
	}
	tenth := 0
	for _, n := range ways[:1000] {
		tenth += n
	}
	if tenth*5 < 2*all || tenth*5 > 3*all {
		t.Errorf("%d of %d links go to the first tenth, want about half", tenth, all)
	}
}

func TestSameOptionsSameWeb(t *testing.T) {
	v, w := New(all(Linked)), New(all(Linked))
	if diff := cmp.Diff(v.Answer(), w.Answer()); diff != "" {
		t.Fatal(diff)
	}
	opts := all(Linked)
	opts.Seed++
	other := New(opts)
	same := 0
	for _, u := range v.Answer().Stored {
		if !bytes.Equal(v.Body(u), w.Body(u)) {
			t.Errorf("%s has another body", u)
		}
		if bytes.Equal(v.Body(u), other.Body(u)) {
			same++
		}
	}
	if same != 0 {
		t.Errorf("%d bodies do not depend on the seed", same)
	}
}

func TestURLsAreCanonicalAndFound(t *testing.T) {
	w := New(all(Linked))
	seen := map[string]bool{}
	for n := range w.opts.Pages {
		u := w.url(n)
		key, err := record.Key(u)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := record.URL(key); back != u || err != nil || seen[u] {
			t.Errorf("page %d: %s and key give %s, %v, seen before: %v", n, u, back, err, seen[u])
		}
		seen[u] = true
		rest := strings.TrimPrefix(u, "http://")
		host, path, _ := strings.Cut(rest, "/")
		if m, ok := w.find(host, "/"+path); m != n || !ok {
			t.Errorf("%s is page %d, found %d, %v", u, n, m, ok)
		}
	}
	for _, path := range []string{"", "/x", "/robots.txt", "/s00/t0/page-+5.html", "/page-99999999999999999999", "/s00/t0/page-5.htm", "/-"} {
		if n, ok := w.find("127.1.0.1", path); ok {
			t.Errorf("%q is page %d", path, n)
		}
	}
}

func TestChangingAnswersDifferAgain(t *testing.T) {
	w := start(t, all(Changing))
	c := client(t)
	get := func(u string) (int, []byte) {
		res, err := c.Get(u)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, body
	}
	var gone, lost, kept int
	for _, u := range w.Answer().Stored[:200] {
		_, one := get(u)
		status, two := get(u)
		if bytes.Equal(one, two) || !bytes.Equal(one, w.Body(u)) {
			t.Errorf("%s: both answers are the same, or the first is not the one foretold", u)
		}
		before, after := linksOf(t, u, one), linksOf(t, u, two)
		slices.Sort(before)
		slices.Sort(after)
		switch {
		case status == 404:
			gone++
		case len(before) == 0:
		case len(after) == 0:
			lost++
		case slices.Equal(before, after):
			kept++
		default:
			t.Errorf("%s: links %v became %v", u, before, after)
		}
		if again, three := get(u); again != status || !bytes.Equal(two, three) {
			t.Errorf("%s: the third answer is not the second", u)
		}
	}
	if gone < 20 || lost < 5 || kept < 5 {
		t.Errorf("%d gone, %d without links, %d with the same links", gone, lost, kept)
	}
	w.Reset()
	if n := len(w.Requests()); n != 0 {
		t.Errorf("%d URLs known after Reset", n)
	}
	u := w.Answer().Stored[0]
	if _, body := get(u); !bytes.Equal(body, w.Body(u)) {
		t.Error("not the first answer after Reset")
	}
}

func TestRobotsAndUnknownPaths(t *testing.T) {
	w := New(all(Tree))
	h := w.Handler("127.1.0.1")
	get := func(path string) *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest("GET", "http://127.1.0.1"+path, nil))
		return rec
	}
	if rec := get("/robots.txt"); rec.Code != 200 || !strings.Contains(rec.Body.String(), "Disallow: /private/\n") {
		t.Errorf("robots.txt: %d, %s", rec.Code, rec.Body)
	}
	if rec := get("/nothing?x=1"); rec.Code != 404 {
		t.Errorf("unknown path: %d", rec.Code)
	}
	if rec := get("/"); rec.Code != 200 {
		t.Errorf("root: %d", rec.Code)
	}
	want := map[string]int{"http://127.1.0.1/nothing?x=1": 1, "http://127.1.0.1/": 1}
	if got := w.Requests(); !maps.Equal(got, want) {
		t.Errorf("requests %v, want %v", got, want)
	}
	if got := w.Robots(); !maps.Equal(got, map[string]int{"http://127.1.0.1": 1}) {
		t.Errorf("robots.txt requests %v", got)
	}
	if len(New(Options{}).Answer().Refused) != 0 {
		t.Error("something is private without being asked for")
	}
}

func TestLatencyEndsWithTheClient(t *testing.T) {
	w := New(Options{Latency: time.Hour, Slow: .5})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rec := httptest.NewRecorder()
	w.Handler("127.1.0.1").ServeHTTP(rec, httptest.NewRequestWithContext(ctx, "GET", "http://127.1.0.1/", nil))
	if w.Requests()["http://127.1.0.1/"] != 1 {
		t.Error("not counted")
	}

	w = New(Options{Latency: 20 * time.Millisecond})
	begin := time.Now()
	w.Handler("127.1.0.1").ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "http://127.1.0.1/", nil))
	if took := time.Since(begin); took < 20*time.Millisecond {
		t.Errorf("took %v", took)
	}
}

func TestManyHosts(t *testing.T) {
	w := start(t, Options{Hosts: 300, Pages: 300})
	if err := w.Start(0); err == nil {
		t.Error("started twice")
	}
	c := client(t)
	for _, u := range w.Answer().Stored {
		res, err := c.Get(u)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
	if n := len(w.Requests()); n != 300 {
		t.Errorf("%d hosts were asked", n)
	}
}

func BenchmarkServe(b *testing.B) {
	w := start(b, Options{Hosts: 50, Pages: 20_000})
	urls := w.Answer().Stored
	c := client(b)
	b.ReportAllocs()
	var mu sync.Mutex
	next := 0
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			mu.Lock()
			u := urls[next%len(urls)]
			next += 7
			mu.Unlock()
			res, err := c.Get(u)
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
	})
}

func BenchmarkBody(b *testing.B) {
	w := New(Options{Hosts: 50, Pages: 20_000})
	var buf []byte
	n := 0
	for b.Loop() {
		buf = w.body(buf[:0], n%20_000, first)
		n++
	}
}

// TestLinks: a page of Linked has as many links as are asked for, beside those to its children.
func TestLinks(t *testing.T) {
	w := New(Options{Pages: 200, Links: 90, MinSize: 24 << 10, MaxSize: 24 << 10})
	for n := range 200 {
		if got := len(w.links(n)) - len(w.children[n]); got != 90 {
			t.Fatalf("page %d has %d links, want 90", n, got)
		}
		if size := len(w.body(nil, n, first)); size < 20<<10 || size > 26<<10 {
			t.Fatalf("page %d has %d bytes", n, size)
		}
	}
}

// TestFlakyAndDrips takes every page twice: flaky ones give their answer the second time, and a
// body that comes in pieces is the same body.
func TestFlakyAndDrips(t *testing.T) {
	w := start(t, Options{Pages: 60, Seed: 3, Flaky: .3, Drips: .5, Hidden: .1})
	c := client(t)
	c.Transport.(*http.Transport).DisableKeepAlives = true // or it would try again by itself
	flaky, pieces := 0, 0
	for _, u := range w.Answer().Stored {
		res, err := c.Get(u)
		if err != nil {
			flaky++
			if res, err = c.Get(u); err != nil {
				t.Fatal(err)
			}
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || !bytes.Equal(body, w.Body(u)) {
			t.Errorf("%s: another body, %v", u, err)
		}
		if n, _ := w.find(strings.TrimPrefix(w.origin(0), "http://"), strings.TrimPrefix(u, w.origin(0))); w.in(w.opts.Drips, n, 'd') {
			pieces++
		}
	}
	if flaky < 10 || flaky > 30 || pieces < 20 || pieces > 40 {
		t.Errorf("of 60 pages %d were flaky, %d came in pieces", flaky, pieces)
	}
}
