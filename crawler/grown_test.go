package crawler_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"urltree/crawler"
	"urltree/crawler/scope"
)

// TestScopeThatDoesNotGrow: a seed that redirects within its host, and a further seed of it, change
// nothing about what is in scope, so no answer is asked for again. TestScopeThatGrows is the other
// case.
func TestScopeThatDoesNotGrow(t *testing.T) {
	t.Parallel()
	site := newGrowing(t)
	opts := site.options(scope.Host)
	opts.Seeds = []string{site.at("127.0.0.1", "/within"), site.at("127.0.0.1", "/first")}
	result := site.run(t, opts)
	want := map[string]int64{"stored": 3, "redirected": 1, "refused noindex": 1, "refused type": 1}
	if !maps.Equal(result.Run.Outcomes, want) {
		t.Errorf("outcomes %v, want %v", result.Run.Outcomes, want)
	}
	opts.Seeds = []string{site.at("127.0.0.1", "/late")}
	result = site.run(t, opts)
	if want := map[string]int64{"stored": 1}; !maps.Equal(result.Run.Outcomes, want) {
		t.Errorf("outcomes with another seed %v, want %v", result.Run.Outcomes, want)
	}
	for path, n := range site.requests() {
		if n != 1 && path != "127.0.0.1/robots.txt" {
			t.Errorf("%d requests for %s, want 1", n, path)
		}
	}
}

// TestScopeThatGrows: a seed's redirect to another host brings that into scope. What had links that
// count only now, and is in no folder, is asked again, and counts once in the run.
func TestScopeThatGrows(t *testing.T) {
	t.Parallel()
	site := newGrowing(t)
	opts := site.options(scope.Host)
	opts.Seeds = []string{site.at("127.0.0.1", "/first"), site.at("127.0.0.1", "/out")}
	result := site.run(t, opts)
	// Both hosts have what /first leads to, and /home.
	want := map[string]int64{"stored": 6, "redirected": 1, "refused noindex": 2, "refused type": 2}
	if !maps.Equal(result.Run.Outcomes, want) {
		t.Errorf("outcomes %v, want %v", result.Run.Outcomes, want)
	}
	got := site.requests()
	for _, path := range []string{"/first", "/leaf", "/home", "/plain.png"} {
		if got["127.0.0.1"+path] != 1 || got["localhost"+path] != 1 {
			t.Errorf("%s: %d and %d requests, want 1 each", path, got["127.0.0.1"+path], got["localhost"+path])
		}
	}
	if n := got["127.0.0.1/noindex"]; n != 2 {
		t.Errorf("%d requests for a page whose links count only now, want 2", n)
	}
	if result.Run.Found != result.Total.Records() {
		t.Errorf("%d URLs discovered in the only run, %d known", result.Run.Found, result.Total.Records())
	}
}

// A growing is a site at two host names. It counts requests by host name and path.
type growing struct {
	*httptest.Server
	dir     string
	noindex chan struct{} // closed once /noindex was asked for

	mu    sync.Mutex
	asked map[string]int
}

func newGrowing(t *testing.T) *growing {
	g := &growing{dir: t.TempDir(), noindex: make(chan struct{}), asked: map[string]int{}}
	g.Server = httptest.NewServer(g)
	t.Cleanup(g.Close)
	return g
}

func (g *growing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, _ := strings.Cut(r.Host, ":")
	g.mu.Lock()
	if g.asked[host+r.URL.Path]++; r.URL.Path == "/noindex" && g.asked["127.0.0.1/noindex"]+g.asked["localhost/noindex"] == 1 {
		close(g.noindex)
	}
	g.mu.Unlock()
	w.Header().Set("Content-Type", "text/html")
	switch r.URL.Path {
	case "/within":
		http.Redirect(w, r, "/home", http.StatusFound)
	case "/out":
		<-g.noindex // by then the links of some pages were judged
		http.Redirect(w, r, g.at("localhost", "/home"), http.StatusFound)
	case "/first":
		for _, host := range []string{"127.0.0.1", "localhost"} {
			fmt.Fprintf(w, "<a href=%s>1</a> <a href=%s>2</a>", g.at(host, "/noindex"), g.at(host, "/plain.png"))
		}
	case "/noindex":
		for _, host := range []string{"127.0.0.1", "localhost"} {
			for _, path := range []string{"/leaf", "/home", "/first"} {
				fmt.Fprintf(w, "<meta name=robots content=noindex><a href=%s>1</a>", g.at(host, path))
			}
		}
	case "/plain.png":
		w.Header().Set("Content-Type", "image/png")
	case "/home", "/leaf", "/late":
		fmt.Fprintf(w, "<title>%s</title>", r.URL.Path)
	default:
		http.NotFound(w, r)
	}
}

func (g *growing) at(host, path string) string {
	return "http://" + host + g.URL[strings.LastIndexByte(g.URL, ':'):] + path
}

func (g *growing) requests() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.asked)
}

func (g *growing) options(mode scope.Mode) crawler.Options {
	return crawler.Options{
		Tree:       filepath.Join(g.dir, "iut"),
		Output:     filepath.Join(g.dir, "res.txt"),
		Bounds:     crawler.Bounds{Scope: mode, NoSitemaps: true},
		Politeness: crawler.Politeness{Delay: -1, PerHost: 2},
		HTTP:       crawler.HTTP{AllowPrivate: true},
		Storage:    crawler.Storage{NoSync: true},
	}
}

func (g *growing) run(t *testing.T, opts crawler.Options) crawler.Result {
	t.Helper()
	result, err := crawler.Run(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return result
}
