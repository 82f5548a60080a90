package crawler

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"urltree/internal/fetch"
	"urltree/storage/record"
)

// TestBrokenAnswersGiveHostUp: a page that takes too long, or of which the connection ends, is a
// fault of its host, which is given up after ten of them in a row.
func TestBrokenAnswersGiveHostUp(t *testing.T) {
	for _, reason := range []string{fetch.Timeout, fetch.Reset} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			s := sky{pages: 40, fails: func(_ string, at time.Duration) (int, error) {
				if at < time.Second {
					return 0, nil
				}
				asked++
				return 0, &fetch.Error{Reason: reason, Passing: true, Err: errors.New("broken")}
			}}
			outcomes, _ := s.crawl(t, Options{}, "a.test")
			waits := 0
			for _, outcome := range outcomes {
				if outcome == "pending host given up:"+reason {
					waits++
				}
			}
			if asked != 10 || waits < 20 || len(outcomes) != s.pages {
				t.Errorf("%s: %d requests that failed, want 10; %d of %d pages wait for the next run", reason, asked, waits, len(outcomes))
			}
		})
	}
}

// TestPaceOutlivesARun: the pace that a host's refusals have led to is that of the next run of the
// tree, from its first request on.
func TestPaceOutlivesARun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	opts := Options{Tree: filepath.Join(dir, "iut"), Output: filepath.Join(dir, "res.txt"), Storage: Storage{NoSync: true}, Politeness: Politeness{IgnoreRobots: true, Delay: -1}, Limits: Limits{MaxPages: 4}}
	asked := 0
	first := sky{pages: 8, fails: func(string, time.Duration) (int, error) {
		if asked++; asked == 2 {
			return http.StatusTooManyRequests, nil
		}
		return 0, nil
	}}
	first.crawl(t, opts, "a.test")
	opts.MaxPages = 0
	again := sky{pages: 8, fails: func(string, time.Duration) (int, error) { return 0, nil }}
	outcomes, _ := again.crawl(t, opts, "a.test")
	for i, g := range again.log {
		if i > 0 && g.at-again.log[i-1].at < 100*time.Millisecond {
			t.Errorf("request %d of the second run comes %v after the one before, the pace is lost", i+1, g.at-again.log[i-1].at)
		}
	}
	if len(first.log) != 5 || len(again.log) != 4 || len(outcomes) != 4 {
		t.Errorf("%d and %d requests, want 5 and 4; %d outcomes", len(first.log), len(again.log), len(outcomes))
	}
}

// TestRobotsRedirectsInARow: of the redirects of a robots.txt five in a row are followed (RFC 9309,
// 2.3.1.2), between two hosts as here, each at the turn of the host that it asks.
func TestRobotsRedirectsInARow(t *testing.T) {
	for redirects := 4; redirects <= 7; redirects++ {
		synctest.Test(t, func(t *testing.T) {
			s := sky{pages: 3, fails: func(string, time.Duration) (int, error) { return 0, nil }}
			s.moved = func(url string) string {
				n := 0
				if url != "http://a.test/robots.txt" {
					if _, err := fmt.Sscanf(url[strings.LastIndexByte(url, '/'):], "/hop%d", &n); err != nil {
						return ""
					}
				}
				if n == redirects {
					return ""
				}
				return fmt.Sprintf("http://%c.test/hop%d", "ab"[(n+1)/2%2], n+1)
			}
			outcomes, res := s.crawl(t, Options{Politeness: Politeness{Delay: 10 * time.Second}}, "a.test", "b.test")
			s.whole(t, outcomes, res, 2)
			hops, last := 0, map[string]time.Duration{}
			for _, g := range s.log {
				if strings.Contains(g.url, "/hop") {
					hops++
				}
				host := record.Host(g.url)
				if at, asked := last[host]; asked && g.at-at < 10*time.Second {
					t.Errorf("%s is asked %v after the last request of its host", g.url, g.at-at)
				}
				last[host] = g.at
			}
			if want := min(redirects, 5); hops != want || len(s.log) != want+2+2*s.pages {
				t.Errorf("%d redirects: %d are followed, want %d; %d requests", redirects, hops, want, len(s.log))
			}
		})
	}
}

// TestHTTP1AtTheNextTurn: what was refused over HTTP/2 is asked again when its host has its turn, a
// page and a robots.txt alike.
func TestHTTP1AtTheNextTurn(t *testing.T) {
	for _, ignore := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			refused := false
			s := sky{pages: 3, fails: func(string, time.Duration) (int, error) {
				if refused {
					return 0, nil
				}
				refused = true
				return 0, &fetch.Error{Reason: fetch.HTTP1, Passing: true, Err: errors.New("421 Misdirected Request")}
			}}
			outcomes, res := s.crawl(t, Options{Politeness: Politeness{Delay: 10 * time.Second, IgnoreRobots: ignore}, HTTP: HTTP{Retries: -1}}, "a.test")
			s.whole(t, outcomes, res, 1)
			if len(s.log) < 2 || s.log[0].url != s.log[1].url {
				t.Fatalf("asked %v, want the first URL twice", s.log)
			}
			for i, g := range s.log[1:] {
				if after := g.at - s.log[i].at; after < 10*time.Second {
					t.Errorf("%s is asked %v after the request before", g.url, after)
				}
			}
		})
	}
}
