package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"urltree/internal/testseed"
)

// TestRecrawlKilled kills runs that ask all pages again, each time after all of them have changed.
// Whatever is left has of each page one version that is whole, the one of before or the one of now;
// and in the end that of now.
func TestRecrawlKilled(t *testing.T) {
	t.Parallel()
	seed := testseed.Draw(t)
	for i, store := range []string{"folders", "warc"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			pages, rounds := 400, 10
			if testing.Short() {
				pages, rounds = 150, 3
			}
			var version atomic.Int64
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/html; charset=utf-8")
				switch r.URL.Path {
				case "/robots.txt":
					http.NotFound(w, r)
				case "/":
					for n := range pages {
						fmt.Fprintf(w, "<a href=/%d>", n)
					}
				default:
					v := version.Load()
					fmt.Fprintf(w, "<p>version %d of %s%s", v, r.URL.Path, strings.Repeat(".", int(v)*100))
				}
			}))
			defer web.Close()
			dir := t.TempDir()
			crawl := []string{"-quiet", "-delay", "0", "-per-host", "8", "-buffer-size", "40", "-flush-interval", "20ms"}
			must(t, dir, append(crawl, "-store", store, web.URL+"/")...)
			begin := time.Now()
			must(t, dir, append(crawl, "-recrawl", "0s")...)
			took := time.Since(begin)
			for range rounds {
				version.Add(1)
				commandStopped(t, dir, os.Kill, took/8+time.Duration(rng.Int64N(int64(took))), append(crawl, "-recrawl", "0s")...)
				must(t, dir, "check", "-links")
				requireVersion(t, dir, web.URL, pages, version.Load()-1, version.Load())
				must(t, dir, append(crawl, "-recrawl", "0s")...)
				requireVersion(t, dir, web.URL, pages, version.Load())
				must(t, dir, "check", "-links")
			}
			// No version is written twice.
			requireGroups(t, filepath.Join(dir, "iut"), func(facts []string) string {
				if len(facts) < 12 {
					return facts[0]
				}
				return facts[0] + " " + facts[10]
			})
			if err := os.Remove(filepath.Join(dir, "iut", "index.db")); err != nil {
				t.Fatal(err)
			}
			must(t, dir, "merge")
			requireVersion(t, dir, web.URL, pages, version.Load())
			if left, err := filepath.Glob(filepath.Join(dir, "iut", "tmp", "*")); err != nil || len(left) > 0 {
				t.Errorf("tmp/ has %v, %v", left, err)
			}
		})
	}
}

// requireVersion requires that each page is there once, in one of some versions.
func requireVersion(t *testing.T, dir, origin string, pages int, versions ...int64) {
	t.Helper()
	bodies := must(t, dir, "export", "-what", "pages", "-format", "jsonl", "-columns", "url,text")
	for n := range pages {
		found := 0
		for _, v := range versions {
			found += strings.Count(bodies, fmt.Sprintf(`{"url":"%s/%d","text":"version %d of /%d%s"}`, origin, n, v, n, strings.Repeat(".", int(v)*100)))
		}
		if found != 1 {
			t.Fatalf("page %d is there %d times in the versions %v: %.2000s", n, found, versions, bodies)
		}
	}
}
