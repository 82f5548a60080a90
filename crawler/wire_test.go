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

	"urltree/crawler"
)

// TestRequestsAreCounted: a kept connection that is closed on its second request costs a try of
// that URL. What the server logs is what the crawl tells.
func TestRequestsAreCounted(t *testing.T) {
	t.Parallel()
	var (
		mu   sync.Mutex
		used = map[string]bool{}     // addresses of clients that had an answer
		log  = map[string]int{}      // requests by path
		told = map[string][]string{} // outcomes by path
	)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		second := used[r.RemoteAddr]
		used[r.RemoteAddr] = true
		log[r.URL.Path]++
		mu.Unlock()
		if second {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<a href=/a>a</a> <a href=/b>b</a>")
	}))
	s.Config.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			mu.Lock()
			delete(used, c.RemoteAddr().String())
			mu.Unlock()
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	dir := t.TempDir()
	result, err := crawler.Run(t.Context(), crawler.Options{
		Tree: filepath.Join(dir, "iut"), Output: filepath.Join(dir, "res.txt"), Seeds: []string{s.URL + "/"}, NoSync: true,
		IgnoreRobots: true, Delay: -1, Crawlers: 1, Downloads: 1,
		OnOutcome: func(o crawler.Outcome) {
			mu.Lock()
			defer mu.Unlock()
			path := o.URL[len(s.URL):]
			told[path] = append(told[path], o.State.String()+" "+o.Reason)
		},
	})
	if err != nil || result.Run.Stored != 3 {
		t.Fatalf("%d pages stored, want 3; %v", result.Run.Stored, err)
	}
	again := 0
	for path, n := range log {
		if len(told[path]) != n {
			t.Errorf("%s: %d requests, outcomes %q", path, n, told[path])
		}
		again += n - 1
	}
	if again == 0 {
		t.Error("no connection was used for a second request")
	}
}

// TestHTTP1IfHTTP2IsRefused: a host that answers each request of HTTP/2 with 421 is asked by
// HTTP/1.1, robots.txt and pages alike, after one request and without a try of what was asked for.
func TestHTTP1IfHTTP2IsRefused(t *testing.T) {
	t.Parallel()
	var (
		mu  sync.Mutex
		log []string
	)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		log = append(log, r.Proto+" "+r.URL.Path)
		mu.Unlock()
		switch {
		case r.ProtoMajor == 2:
			w.WriteHeader(http.StatusMisdirectedRequest)
		case r.URL.Path != "/":
			http.NotFound(w, r)
		default:
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "text")
		}
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	for _, ignore := range []bool{false, true} {
		log = nil
		dir := t.TempDir()
		result, err := crawler.Run(t.Context(), crawler.Options{
			Tree: filepath.Join(dir, "iut"), Output: filepath.Join(dir, "res.txt"), Seeds: []string{s.URL + "/"}, NoSync: true,
			Delay: -1, Retries: -1, Insecure: true, IgnoreRobots: ignore, NoSitemaps: true,
		})
		if err != nil || result.Run.Stored != 1 {
			t.Fatalf("%d pages stored, want 1; %v; asked %q", result.Run.Stored, err, log)
		}
		want := []string{"HTTP/2.0 /robots.txt", "HTTP/1.1 /robots.txt", "HTTP/1.1 /"}
		if ignore {
			want = []string{"HTTP/2.0 /", "HTTP/1.1 /"}
		}
		if !slices.Equal(log, want) {
			t.Errorf("asked %q, want %q", log, want)
		}
	}
}
