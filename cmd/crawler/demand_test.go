package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestDemandOutlivesAKill: how long a host wants to be left alone is in the index at once, though
// buffers are emptied once an hour and the crawl has other things to do: after a kill the host is
// not asked.
func TestDemandOutlivesAKill(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		path   string // of what is answered so; "": of whatever is asked first, which is a page
		status int
		after  string // Retry-After
		why    string // what is said once it is committed
	}{
		{"busy", "", http.StatusServiceUnavailable, "600", "The host may be asked again at"},
		{"page", "", http.StatusOK, "600", "The host may be asked again at"},
		{"fault", "", http.StatusServiceUnavailable, "", "failed; its back-off"},
		{"robots.txt", "/robots.txt", http.StatusServiceUnavailable, "600", "The host may be asked again at"},
		{"no robots.txt", "/robots.txt", http.StatusNotFound, "600", "The host may be asked again at"},
		{"sitemap", "/sitemap.xml", http.StatusServiceUnavailable, "600", "The host may be asked again at"},
		{"no sitemap", "/sitemap.xml", http.StatusNotFound, "600", "The host may be asked again at"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64 // requests, from the one on which the host demands to be left alone
			first := make(chan struct{})
			busy := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				if asked.Load() == 0 && tt.path != "" && r.URL.Path != tt.path {
					http.NotFound(w, r)
					return
				}
				w.Header().Set("Retry-After", tt.after)
				w.WriteHeader(tt.status)
				if asked.Add(1) == 1 {
					close(first)
				}
			}))
			l, err := net.Listen("tcp", "127.0.8.1:0") // a host of its own
			if err != nil {
				t.Fatal(err)
			}
			busy.Listener.Close()
			busy.Listener = l
			busy.Start()
			defer busy.Close()
			s := newSite(t.TempDir())
			other := httptest.NewServer(s)
			defer other.Close()
			defer s.end()

			dir := t.TempDir()
			writeSeeds(t, dir, []string{busy.URL + "/1", busy.URL + "/2", other.URL + "/hang", other.URL + "/endless/1"})
			robots := "obey"
			switch tt.path {
			case "":
				robots = "ignore"
			case "/sitemap.xml": // robots.txt says that it is there, and is committed by a run that does not read it
				must(t, dir, "-quiet", "-sitemaps=false", "-delay", "0", "-allow-private", busy.URL+"/0", other.URL+"/")
			}
			begin := func(until <-chan struct{}, flags ...string) *process {
				// With a delay a crawler takes one URL of a host at a time: the others are left to
				// do.
				p, err := start(child(dir, append(flags, "-robots", robots, "-timeout", "10m", "-delay", "10ms", "-sitemaps", "-allow-private", "-input", "seed.txt")...))
				if err != nil {
					t.Fatal(err)
				}
				select {
				case <-until:
				case <-time.After(patience):
					_ = p.cmd.Process.Kill()
					<-p.done
					t.Fatalf("it does not come that far: %s", p.printed.text)
				}
				return p
			}
			p := begin(first, "-flush-interval", "1h")
			<-s.asked("/hang") // what is behind it keeps the crawl from being out of work
			var why string
			for late := time.Now().Add(patience / 3); !strings.Contains(why, tt.why); { // part of what a mutation has
				if time.Now().After(late) {
					t.Errorf("what the host demands is not committed: %s", why)
					break
				}
				<-time.After(50 * time.Millisecond) // of processes, so real time
				why, _, _ = call(t, dir, "why", busy.URL+"/2")
			}
			_ = p.cmd.Process.Kill()
			<-p.done

			p = begin(s.asked("/endless/20"), "-flush-interval", "10ms")
			if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
			<-p.done
			if p.err != nil {
				t.Errorf("%v: %s", p.err, p.printed.text)
			}
			if n := asked.Load(); n != 1 && tt.after != "" {
				t.Errorf("%d requests to a host that wants to be left alone for ten minutes", n)
			}
		})
	}
}
