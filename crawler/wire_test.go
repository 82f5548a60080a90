package crawler_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"urltree/crawler"
)

// A wireLog is what a server logs of requests.
type wireLog struct {
	mu    sync.Mutex
	used  map[string]bool // addresses of clients that had an answer
	asked []wireRequest
}

type wireRequest struct {
	path string
	at   time.Time
	ends bool // without an answer
}

// add logs a request, which ends without an answer if only the first one of a connection has one.
func (l *wireLog) add(path, client string, ends bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	ends = ends || l.used[client]
	l.used[client] = true
	l.asked = append(l.asked, wireRequest{path, time.Now(), ends})
	return ends
}

// wireServer starts a server that logs all requests. It answers each one of HTTP/2 by refuse; where
// that is nil it speaks HTTP/1.1, and closes each connection on its second request.
func wireServer(t *testing.T, refuse func(f *http2.Framer, stream uint32) (goesOn bool)) (*wireLog, string) {
	l := &wireLog{used: map[string]bool{}}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.add(r.URL.Path, r.RemoteAddr, false) {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<a href=/a>a</a> <a href=/b>b</a>")
	}))
	t.Cleanup(s.Close)
	s.Config.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			l.mu.Lock()
			delete(l.used, c.RemoteAddr().String())
			l.mu.Unlock()
		}
	}
	if refuse == nil {
		s.Start()
		return l, s.URL
	}
	s.TLS = &tls.Config{NextProtos: []string{"h2"}}
	s.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": func(_ *http.Server, c *tls.Conn, _ http.Handler) {
		defer c.Close()
		if _, err := io.CopyN(io.Discard, c, int64(len(http2.ClientPreface))); err != nil {
			return
		}
		f := http2.NewFramer(c, c)
		f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		_ = f.WriteSettings()
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			switch frame := frame.(type) {
			case *http2.SettingsFrame:
				if !frame.IsAck() {
					_ = f.WriteSettingsAck()
				}
			case *http2.MetaHeadersFrame:
				l.add(frame.PseudoValue("path"), c.RemoteAddr().String(), true)
				if !refuse(f, frame.StreamID) {
					return
				}
			}
		}
	}}
	s.StartTLS()
	return l, s.URL
}

// TestRequestsAreCounted: a request that a server ends without an answer costs a try of its URL,
// however that is done, and is a fault of the host. What the server logs is what the crawl tells,
// and each request comes after the host's rest.
func TestRequestsAreCounted(t *testing.T) {
	t.Parallel()
	const delay = 40 * time.Millisecond
	goAway := func(f *http2.Framer, _ uint32) bool {
		_ = f.WriteGoAway(0, http2.ErrCodeNo, nil)
		return false
	}
	refused := func(f *http2.Framer, stream uint32) bool {
		return f.WriteRSTStream(stream, http2.ErrCodeRefusedStream) == nil
	}
	for _, tt := range []struct {
		name     string
		refuse   func(*http2.Framer, uint32) bool
		seeds    []string
		retries  int
		stored   int64
		requests int // 0: any number
	}{
		{"closed on its second request", nil, []string{"/"}, 2, 3, 0},
		{"GOAWAY, one page twice", goAway, []string{"/"}, 1, 0, 2},
		{"GOAWAY, two pages", goAway, []string{"/", "/a"}, -1, 0, 2},
		{"REFUSED_STREAM, one page twice", refused, []string{"/"}, 1, 0, 2},
		{"REFUSED_STREAM, two pages", refused, []string{"/", "/a"}, -1, 0, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			log, site := wireServer(t, tt.refuse)
			told := map[string][]string{} // outcomes by path; guarded by log.mu
			opts := crawler.Options{
				NoTree:     true,
				Politeness: crawler.Politeness{IgnoreRobots: true, Delay: delay},
				HTTP:       crawler.HTTP{AllowPrivate: true, Insecure: true, Retries: tt.retries},
				OnOutcome: func(o crawler.Outcome) {
					log.mu.Lock()
					defer log.mu.Unlock()
					path := o.URL[len(site):]
					told[path] = append(told[path], strings.TrimSpace(o.State.String()+" "+o.Reason))
				},
			}
			for _, path := range tt.seeds {
				opts.Seeds = append(opts.Seeds, site+path)
			}
			result, err := crawler.Run(t.Context(), opts)
			if err != nil || result.Run.Stored != tt.stored {
				t.Fatalf("%d pages stored, want %d; %v", result.Run.Stored, tt.stored, err)
			}
			log.mu.Lock()
			defer log.mu.Unlock()
			want, ends := map[string][]string{}, 0
			for i, r := range log.asked {
				state := "stored"
				if r.ends {
					ends++
					state = "failed reset"
					if len(want[r.path]) < tt.retries {
						state = "pending reset"
					}
				}
				want[r.path] = append(want[r.path], state)
				if i == 0 {
					continue
				}
				rest := delay
				if log.asked[i-1].ends {
					rest = time.Second // the first back-off
				}
				if after := r.at.Sub(log.asked[i-1].at); after < rest {
					t.Errorf("request %d, of %s, comes %v after the one before, want %v", i+1, r.path, after, rest)
				}
			}
			if !maps.EqualFunc(told, want, slices.Equal) {
				t.Errorf("the crawl tells %q, the server %q", told, want)
			}
			if ends == 0 || tt.requests > 0 && len(log.asked) != tt.requests {
				t.Errorf("%d requests, %d without an answer, want %d", len(log.asked), ends, tt.requests)
			}
		})
	}
}

// TestGoAwayCostsNoTry: of a server that answers one request of each connection by HTTP/2, and ends
// it in order with the next one, all pages come although none is tried twice.
func TestGoAwayCostsNoTry(t *testing.T) {
	t.Parallel()
	var block bytes.Buffer
	h := hpack.NewEncoder(&block)
	_ = h.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
	_ = h.WriteField(hpack.HeaderField{Name: "content-type", Value: "text/html"})
	log, site := wireServer(t, func(f *http2.Framer, stream uint32) bool {
		if stream > 1 {
			_ = f.WriteGoAway(1, http2.ErrCodeNo, nil)
			return false
		}
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true})
		return f.WriteData(stream, true, []byte("<a href=/a>a</a> <a href=/b>b</a>")) == nil
	})
	result, err := crawler.Run(t.Context(), crawler.Options{
		NoTree:     true,
		Politeness: crawler.Politeness{IgnoreRobots: true, Delay: -1, PerHost: 1},
		HTTP:       crawler.HTTP{AllowPrivate: true, Insecure: true, Retries: -1},
		Seeds:      []string{site + "/"},
	})
	if err != nil || result.Run.Stored != 3 {
		t.Fatalf("%d pages stored, want 3; %v", result.Run.Stored, err)
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	if len(log.asked) != 5 { // two of them twice
		t.Errorf("%d requests, want 5", len(log.asked))
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
			Tree:       filepath.Join(dir, "iut"),
			Output:     filepath.Join(dir, "res.txt"),
			Seeds:      []string{s.URL + "/"},
			Storage:    crawler.Storage{NoSync: true},
			Politeness: crawler.Politeness{Delay: -1, IgnoreRobots: ignore},
			HTTP:       crawler.HTTP{Retries: -1, Insecure: true},
			Bounds:     crawler.Bounds{NoSitemaps: true},
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
