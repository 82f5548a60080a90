package crawler_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"urltree/crawler"
	"urltree/storage/record"
)

// A lockedBuffer is a log that many goroutines write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// byProxy are the options of a crawl of two hosts by way of a proxy. hosts may not be resolved
// here.
func byProxy(dir, proxy string, log *lockedBuffer) crawler.Options {
	u, _ := url.Parse(proxy)
	return crawler.Options{
		Tree:       filepath.Join(dir, "iut"),
		Output:     filepath.Join(dir, "res.txt"),
		Storage:    crawler.Storage{NoSync: true},
		Politeness: crawler.Politeness{Delay: -1},
		Bounds:     crawler.Bounds{NoSitemaps: true},
		Seeds:      []string{"http://192.0.2.1/", "http://192.0.2.2/"},
		HTTP:       crawler.HTTP{Proxy: u, Retries: -1},
		Log:        slog.New(slog.NewTextHandler(log, nil)),
	}
}

// proxied plays both hosts: robots.txt forbids /no.
func proxied(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	if r.URL.Path == "/robots.txt" {
		fmt.Fprint(w, "User-agent: *\nDisallow: /no\n")
		return
	}
	fmt.Fprint(w, "<a href=/no>no</a> <a href=/yes>yes</a>")
}

// TestProxyFailsForAWhile: a proxy that wants a password, or cannot be connected to, for a while
// costs no page and no robots.txt, not even without retries, and is told of once.
func TestProxyFailsForAWhile(t *testing.T) {
	t.Parallel()
	for _, asks := range []bool{true, false} {
		t.Run(fmt.Sprintf("password %v", asks), func(t *testing.T) {
			t.Parallel()
			var refused atomic.Int64
			var forbidden atomic.Bool
			proxy := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if asks && refused.Add(1) <= 3 {
					w.WriteHeader(http.StatusProxyAuthRequired)
					return
				}
				if r.URL.Path == "/no" {
					forbidden.Store(true)
				}
				proxied(w, r)
			}))
			address := proxy.Listener.Addr().String()
			if asks {
				proxy.Start()
			} else {
				proxy.Listener.Close()
			}
			log := &lockedBuffer{}
			opts := byProxy(t.TempDir(), "http://me:secret@"+address, log)
			var once sync.Once
			opts.Log = slog.New(slog.NewTextHandler(writerFunc(func(p []byte) {
				if !asks && bytes.Contains(p, []byte("the proxy fails")) {
					once.Do(func() {
						var err error
						if proxy.Listener, err = net.Listen("tcp", address); err != nil {
							t.Error(err)
							return
						}
						proxy.Start()
					})
				}
				_, _ = log.Write(p)
			}), nil))
			result, err := crawler.Run(t.Context(), opts)
			t.Cleanup(proxy.Close)
			if err != nil || result.Run.Stored != 4 || result.Run.Outcomes["refused robots"] != 2 {
				t.Errorf("%d pages stored, want 4; %v, %v", result.Run.Stored, result.Run.Outcomes, err)
			}
			if forbidden.Load() {
				t.Error("a forbidden page was asked for")
			}
			text := log.String()
			if n := strings.Count(text, "the proxy fails"); n < 1 || n > 2 || strings.Contains(text, "secret") {
				t.Errorf("the log tells of the failure %d times: %s", n, text)
			}
		})
	}
}

// TestProxyFailsForEver: a run that can reach nothing by its proxy ends and says so; -time and a
// stop end it before. The next run asks for all that this one could not.
func TestProxyFailsForEver(t *testing.T) {
	t.Parallel()
	var works atomic.Bool
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !works.Load() {
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		proxied(w, r)
	}))
	t.Cleanup(proxy.Close)
	log := &lockedBuffer{}
	dir := t.TempDir()
	for _, tt := range []struct {
		name  string
		set   func(*crawler.Options)
		ended string
	}{
		{"patience", func(o *crawler.Options) { o.MaxWait = time.Second }, "nothing reachable: fetch: proxy: "},
		{"time", func(o *crawler.Options) { o.Time = 500 * time.Millisecond }, "time is up"},
		{"stopped", func(*crawler.Options) {}, "stopped"},
	} {
		opts := byProxy(dir, proxy.URL, log)
		tt.set(&opts)
		ctx, cancel := context.WithCancel(t.Context())
		if tt.name == "stopped" {
			opts.Log = slog.New(slog.NewTextHandler(writerFunc(func(p []byte) {
				if bytes.Contains(p, []byte("the proxy fails")) {
					cancel()
				}
			}), nil))
		}
		result, err := crawler.Run(ctx, opts)
		cancel()
		if err != nil || !strings.HasPrefix(result.Ended, tt.ended) || result.Total.Pending() != 2 || result.Total.Held != 0 {
			t.Errorf("%s: ended %q, %d pending, %d held, %v", tt.name, result.Ended, result.Total.Pending(), result.Total.Held, err)
		}
		if want := tt.name != "stopped"; result.SeedsFailed != want || want && result.Failures.Unreached != 2 {
			t.Errorf("%s: seeds failed %v, want %v; %d unreached", tt.name, result.SeedsFailed, want, result.Failures.Unreached)
		}
	}
	works.Store(true)
	result, err := crawler.Run(t.Context(), byProxy(dir, proxy.URL, log))
	if err != nil || result.Total.Stored != 4 {
		t.Errorf("%d pages stored, want 4; %v", result.Total.Stored, err)
	}
}

// TestSiteSays407: where the proxy works, a 407 for one URL may be the site's: the URL waits for
// the next run after three requests, and the others of its host go on.
func TestSiteSays407(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/yes" {
			asked.Add(1)
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		proxied(w, r)
	}))
	t.Cleanup(proxy.Close)
	opts := byProxy(t.TempDir(), proxy.URL, &lockedBuffer{})
	opts.Retries = -1
	var mu sync.Mutex
	held := 0
	opts.OnOutcome = func(o crawler.Outcome) {
		mu.Lock()
		defer mu.Unlock()
		if o.State == record.Pending && o.Reason == "refused:proxy" {
			held++
		}
	}
	result, err := crawler.Run(t.Context(), opts)
	if err != nil || result.Run.Stored != 2 || held != 2 || asked.Load() != 6 || result.Run.Outcomes["refused robots"] != 2 {
		t.Errorf("%d pages, %d held, %d requests got 407: %v, %v", result.Run.Stored, held, asked.Load(), result.Run.Outcomes, err)
	}
}
