package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"urltree/crawler"
)

// TestRetry turns the errors of a subtree back to open: the next run, in any order, does exactly
// those, and the states of the folders tell of it all the way.
func TestRetry(t *testing.T) {
	for _, order := range names(crawler.Orders) {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			testRetry(t, order)
		})
	}
}

func testRetry(t *testing.T, order string) {
	pages := []string{"/", "/bad/1", "/bad/4", "/bad/x/2", "/bad/x/3", "/badly/6", "/ok/1", "/other/5"}
	var mu sync.Mutex
	var asked []string // guarded by mu, as is healed
	healed := false
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.URL.Path)
		fails := slices.Contains([]string{"/bad/4", "/bad/x/3", "/badly/6", "/other/5"}, r.URL.Path)
		if !slices.Contains(pages, r.URL.Path) || fails && !healed {
			http.NotFound(rw, r)
			return
		}
		rw.Header().Set("Content-Type", "text/html")
		for _, p := range pages {
			fmt.Fprintf(rw, "<a href=%s>", p)
		}
	}))
	defer server.Close()
	dir := t.TempDir()
	writeSeeds(t, dir, []string{server.URL + "/"})
	crawl := func() []string {
		mu.Lock()
		asked = nil
		mu.Unlock()
		must(t, dir, "-quiet", "-delay", "0", "-input", "seed.txt", "-order", order)
		mu.Lock()
		defer mu.Unlock()
		return slices.DeleteFunc(slices.Sorted(slices.Values(asked)), func(p string) bool { return !slices.Contains(pages, p) })
	}
	folders := []string{"/bad", "/x", "/badly", "/ok", "/other"}
	states := func() string {
		var words []string
		for line := range strings.Lines(must(t, dir, "ls", "-r", server.URL+"/")) {
			f := strings.Fields(line)
			if name := f[len(f)-1]; slices.Contains(folders, name) {
				words = append(words, fmt.Sprint(name, " ", f[0], " ", f[1], f[5])) // with the counts of what waits and what has failed
			}
		}
		return strings.Join(words, ", ")
	}

	requireSame(t, crawl(), pages)
	if got, want := states(), "/bad partly -2, /x partly -1, /badly failed -1, /ok done --, /other failed -1"; got != want {
		t.Errorf("after the crawl %s, want %s", got, want)
	}
	if out := must(t, dir, "retry", server.URL+"/bad"); !strings.HasPrefix(out, "2 URLs pending again") {
		t.Errorf("retry: %s", out)
	}
	if got, want := states(), "/bad partly 2-, /x partly 1-, /badly failed -1, /ok done --, /other failed -1"; got != want {
		t.Errorf("after the retry %s, want %s", got, want)
	}
	mu.Lock()
	healed = true
	mu.Unlock()
	requireSame(t, crawl(), []string{"/bad/4", "/bad/x/3"})
	if got, want := states(), "/bad done --, /x done --, /badly failed -1, /ok done --, /other failed -1"; got != want {
		t.Errorf("after the second crawl %s, want %s", got, want)
	}
	must(t, dir, "check", "-links")
}

// TestRetryPrefix: a prefix of retry names what it names for ls.
func TestRetryPrefix(t *testing.T) {
	t.Parallel()
	links := []string{"/a?x/", "//b", "/c", "/c/d", "/map/gone.xml"}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" || r.URL.RawQuery != "" {
			http.NotFound(rw, r)
			return
		}
		rw.Header().Set("Content-Type", "text/html")
		for _, l := range links {
			fmt.Fprintf(rw, "<a href='http://%s%s'>", r.Host, l)
		}
	}))
	defer server.Close()
	dir := t.TempDir()
	writeSeeds(t, dir, []string{server.URL + "/"})
	for _, tt := range []struct {
		prefix string
		want   string
	}{
		{server.URL + "//", "1 URL "},
		{server.URL + "/a?x/", "1 URL "},
		{server.URL + "/c", "2 URLs "},
		{server.URL + "/c/", "2 URLs "},
		{strings.TrimPrefix(server.URL, "http://"), "5 URLs "},
		{"", "5 URLs "},
		{"http://", "5 URLs "},
	} {
		must(t, dir, "-quiet", "-delay", "0", "-input", "seed.txt")
		args := []string{"retry"}
		if tt.prefix != "" {
			args = append(args, tt.prefix)
		}
		if out := must(t, dir, args...); !strings.HasPrefix(out, tt.want) {
			t.Errorf("retry %s: %s, want %s", tt.prefix, out, tt.want)
		}
	}
	requireExit(t, "the host without its port is another one", exitOther, "retry", "-tree", dir+"/iut", "http://127.0.0.1/")
	requireExit(t, "no URL", exitUsage, "retry", "-tree", dir+"/iut", "mailto:a@b.example")
}
