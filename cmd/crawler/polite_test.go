package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
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

// TestPoliteAcrossKills kills a crawl again and again, at random moments: no host is asked twice
// within its delay, whatever process asks, and the crawl still gets on.
func TestPoliteAcrossKills(t *testing.T) {
	t.Parallel()
	kills := 12
	switch {
	case os.Getenv("TEST_URLTREE_FULL") != "":
		kills = 70
	case testing.Short():
		kills = 5
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
	asked := func() int {
		v.mu.Lock()
		defer v.mu.Unlock()
		return v.pages
	}
	for kill := range kills {
		enough, early := asked()+1+rand.IntN(30), time.Hour
		switch {
		case kill == kills-1:
			enough = asked() + 60 // takes as long as some of its flush intervals
		case rand.IntN(6) == 0: // before its first request
			early = time.Duration(rand.IntN(500)) * time.Millisecond
		}
		p, err := start(child(dir, "-quiet", "-delay", "300ms", "-flush-interval", "200ms", "-allow-private", "-input", "seed.txt"))
		if err != nil {
			t.Fatal(err)
		}
		for begin := time.Now(); asked() < enough && time.Since(begin) < early; <-time.After(5 * time.Millisecond) { // of a process, so real time
			if time.Since(begin) > patience {
				t.Fatalf("no progress: %d pages asked for, want %d: %s", asked(), enough, p.printed.text)
			}
		}
		_ = p.cmd.Process.Kill()
		<-p.done
		if text := string(p.printed.text); text != "" {
			t.Errorf("it said: %s", text)
		}
	}
	stored := strings.Count(must(t, dir, "export", "-state", "stored"), "\n")
	if stored < 10 {
		t.Errorf("%d pages stored: no progress", stored)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, n := range v.near {
		t.Error("too soon:", n)
	}
	t.Logf("%d pages asked, %d stored", v.pages, stored)
}
