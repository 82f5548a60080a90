package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// visits records when a host was asked and answered.
type visits struct {
	mu    sync.Mutex
	host  map[string]*visit // guarded by mu
	pages int               // guarded by mu
	near  []string          // guarded by mu; requests that came too soon
	delay time.Duration
}

type visit struct {
	busy bool
	end  time.Time // of the last answer
}

// endless serves pages that always lead on, to each other and to the other hosts.
func (v *visits) endless(hosts []string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		v.mu.Lock()
		h := v.host[r.Host]
		if h == nil {
			h = &visit{}
			v.host[r.Host] = h
		}
		switch gap := begin.Sub(h.end); {
		case h.busy:
			v.near = append(v.near, fmt.Sprintf("%s%s: while another request was answered", r.Host, r.URL.Path))
		case !h.end.IsZero() && gap < v.delay:
			v.near = append(v.near, fmt.Sprintf("%s%s: after %s", r.Host, r.URL.Path, gap))
		}
		h.busy = true
		v.mu.Unlock()
		if r.URL.Path == "/robots.txt" {
			http.NotFound(rw, r)
		} else {
			rw.Header().Set("Content-Type", "text/html")
			var b strings.Builder
			for i := range 3 {
				fmt.Fprintf(&b, "<a href=%s%d/>down</a><a href=http://%s%s>other</a>", r.URL.Path, i, hosts[rand.IntN(len(hosts))], r.URL.Path)
			}
			fmt.Fprint(rw, b.String())
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		if r.URL.Path != "/robots.txt" {
			v.pages++
		}
		h.busy, h.end = false, time.Now()
	}
}

// TestPoliteAcrossKills kills a crawl again and again, after 0.2 to 3 s: no host is asked twice
// within its delay, whatever process asks, and the crawl still gets on.
func TestPoliteAcrossKills(t *testing.T) {
	t.Parallel()
	total, window := 20*time.Second, 20*time.Second
	if os.Getenv("URLTREE_FULL") != "" {
		total = 2 * time.Minute
	}
	v := &visits{host: map[string]*visit{}, delay: 300 * time.Millisecond}
	var hosts []string
	for i := range 6 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.7.%d:0", i+1))
		if err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, l.Addr().String())
		server := &httptest.Server{Listener: l, Config: &http.Server{}}
		server.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { v.endless(hosts)(rw, r) })
		server.Start()
		defer server.Close()
	}
	dir := t.TempDir()
	writeSeeds(t, dir, []string{"http://" + hosts[0] + "/"})
	begin, checked, before := time.Now(), time.Now(), 0
	for time.Since(begin) < total {
		cmd := child(dir, "-quiet", "-delay", "300ms", "-allow-private", "-input", "seed.txt")
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		life := time.NewTimer(time.Duration(200+rand.IntN(2800)) * time.Millisecond)
		<-life.C
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if time.Since(checked) >= window || time.Since(begin) >= total {
			stored := 0
			if _, err := os.Stat(filepath.Join(dir, "iut", "index.db")); err == nil {
				stored = strings.Count(must(t, dir, "export", "-state", "stored"), "\n")
			}
			if stored <= before {
				t.Errorf("%d pages after %s, %d before: no progress", stored, time.Since(begin), before)
			}
			checked, before = time.Now(), stored
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, n := range v.near {
		t.Error("too soon:", n)
	}
	t.Logf("%d pages asked, %d stored", v.pages, before)
}
