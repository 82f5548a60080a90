package crawler_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"urltree/crawler"
	"urltree/crawler/scope"
)

// hosts serves several hosts, each at a loopback address of its own, as HTML unless the handler
// says otherwise. robots are the robots.txt of the first ones; the others have none.
func hosts(t *testing.T, n int, handler func(host int, rw http.ResponseWriter, r *http.Request), robots ...string) []string {
	t.Helper()
	var origins []string
	for i := range n {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.8.%d:0", i+1))
		if err != nil {
			t.Fatal(err)
		}
		server := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(
			func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/robots.txt" {
					if i < len(robots) {
						fmt.Fprint(rw, robots[i])
					} else {
						http.NotFound(rw, r)
					}
					return
				}
				rw.Header().Set("Content-Type", "text/html")
				handler(i, rw, r)
			})}}
		server.Start()
		t.Cleanup(server.Close)
		origins = append(origins, "http://"+l.Addr().String())
	}
	return origins
}

// TestScopeGrows has a seed redirect to another host, after pages that link to that host were
// stored: their links belong to the crawl then, in this run or, if it is stopped, the next. The
// same holds for a seed that a later run adds.
func TestScopeGrows(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"redirect", "redirect and stop", "new seed"} {
		t.Run(way, func(t *testing.T) {
			var origins []string
			moved := make(chan struct{}) // closed when the redirect may be answered
			origins = hosts(t, 3, func(host int, rw http.ResponseWriter, r *http.Request) {
				switch {
				case host == 0 && r.URL.Path == "/":
					fmt.Fprintf(rw, "<a href=%s/only-here>", origins[2])
				case host == 1:
					select {
					case <-moved:
					case <-time.After(10 * time.Second):
					}
					http.Redirect(rw, r, origins[2]+"/start", http.StatusFound)
				case host == 2 && r.URL.Path == "/only-here":
					fmt.Fprint(rw, "<a href=/deeper>")
				}
			})
			dir := t.TempDir()
			opts := crawler.Options{
				Tree:       filepath.Join(dir, "iut"),
				Output:     filepath.Join(dir, "res.txt"),
				Bounds:     crawler.Bounds{Scope: scope.Host},
				Seeds:      []string{origins[0] + "/", origins[1] + "/"},
				Politeness: crawler.Politeness{Delay: -1},
				HTTP:       crawler.HTTP{AllowPrivate: true},
				Resources:  crawler.Resources{FlushInterval: 10 * time.Millisecond, BufferSize: 1},
			}
			want := []string{origins[0] + "/", origins[2] + "/deeper", origins[2] + "/only-here", origins[2] + "/start"}
			stored := false
			opts.Progress = func(p crawler.Progress) {
				if p.Pages > 0 && !stored {
					stored = true
					close(moved)
				}
			}
			switch way {
			case "redirect and stop":
				opts.MaxPages = 2 // the page and the target of the redirect
			case "new seed":
				opts.Seeds = opts.Seeds[:1]
				want = slices.Delete(want, 3, 4)
			}
			if _, err := crawler.Run(t.Context(), opts); err != nil {
				t.Fatal(err)
			}
			requireChecked(t, dir)
			if way != "redirect" {
				opts.MaxPages, opts.Progress = 0, nil
				if way == "new seed" {
					opts.Seeds = []string{origins[2] + "/deeper"}
				}
				if _, err := crawler.Run(t.Context(), opts); err != nil {
					t.Fatal(err)
				}
				requireChecked(t, dir)
			}
			requireSame(t, crawled(t, opts.Output), want)
		})
	}
}

// TestScopeWidened: what a page without a folder named, or a redirect, and what did not count at
// first, is found once it counts: after another run has a wider scope or one more seed, and
// in the same run when a seed redirects to where it lies.
func TestScopeWidened(t *testing.T) {
	for _, way := range []string{"option", "only an unkept page", "new seed", "redirect"} {
		t.Run(way, func(t *testing.T) {
			var origins []string
			asked := make(chan struct{}) // closed once the page that is not kept has been asked for
			var once sync.Once
			origins = hosts(t, 3, func(host int, rw http.ResponseWriter, r *http.Request) {
				switch {
				case host == 0 && r.URL.Path == "/":
					fmt.Fprint(rw, "<a href=/moved><a href=/unkept>")
				case host == 0 && r.URL.Path == "/moved":
					http.Redirect(rw, r, origins[1]+"/target", http.StatusFound)
				case host == 0 && r.URL.Path == "/unkept":
					fmt.Fprintf(rw, "<meta name=robots content=noindex><a href=%s/linked>", origins[1])
					once.Do(func() { time.AfterFunc(time.Second/2, func() { close(asked) }) })
				case host == 2:
					select {
					case <-asked:
					case <-time.After(10 * time.Second):
					}
					http.Redirect(rw, r, origins[1]+"/start", http.StatusFound)
				}
			})
			dir := t.TempDir()
			opts := crawler.Options{
				Tree:       filepath.Join(dir, "iut"),
				Output:     filepath.Join(dir, "res.txt"),
				Bounds:     crawler.Bounds{Scope: scope.Host},
				Seeds:      []string{origins[0] + "/"},
				Politeness: crawler.Politeness{Delay: -1},
				HTTP:       crawler.HTTP{AllowPrivate: true},
				Resources:  crawler.Resources{FlushInterval: 10 * time.Millisecond, BufferSize: 1},
			}
			want := []string{origins[0] + "/", origins[1] + "/linked", origins[1] + "/target"}
			switch way {
			case "only an unkept page":
				opts.Seeds, want = []string{origins[0] + "/unkept"}, want[1:2]
			case "redirect":
				opts.Seeds = append(opts.Seeds, origins[2]+"/")
				want = append(want, origins[1]+"/start")
			}
			if _, err := crawler.Run(t.Context(), opts); err != nil {
				t.Fatal(err)
			}
			requireChecked(t, dir)
			if way != "redirect" {
				opts.Scope = scope.Any
				if way == "new seed" {
					opts.Scope, opts.Seeds = scope.Host, []string{origins[1] + "/new"}
					want = append(want, origins[1]+"/new")
				}
				if _, err := crawler.Run(t.Context(), opts); err != nil {
					t.Fatal(err)
				}
				requireChecked(t, dir)
			}
			slices.Sort(want)
			requireSame(t, crawled(t, opts.Output), want)
		})
	}
}
