package fetch

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A logServer reads requests from its connections, HTTP/1.1 or HTTP/2 by the first bytes, and counts them.
type logServer struct {
	url      string
	requests atomic.Int64
	conns    atomic.Int64
	// answer1 answers the request number n of a connection, from 1. It reports whether the connection goes on.
	answer1 func(c net.Conn, n int, r *http.Request) bool
	// answer2 does the same for a stream.
	answer2 func(f *http2.Framer, n int, stream uint32) bool
}

// start serves on loopback, over TLS with protocols unless there are none.
func (s *logServer) start(t *testing.T, protocols ...string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.url = "http://" + l.Addr().String()
	if len(protocols) > 0 {
		s.url = "https://" + l.Addr().String()
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{certificate(t)}, NextProtos: protocols})
	}
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		conns []net.Conn
	)
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.conns.Add(1)
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			wg.Go(func() {
				defer c.Close()
				s.serve(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
}

// certificate returns that of net/http/httptest.
func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return s.TLS.Certificates[0]
}

func (s *logServer) serve(c net.Conn) {
	r := bufio.NewReader(c)
	first, err := r.Peek(len(http2.ClientPreface))
	if err != nil && len(first) == 0 {
		return
	}
	if !bytes.Equal(first, []byte(http2.ClientPreface)) {
		for n := 1; ; n++ {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			s.requests.Add(1)
			if !s.answer1(c, n, req) {
				return
			}
		}
	}
	_, _ = r.Discard(len(first))
	f := http2.NewFramer(c, r)
	_ = f.WriteSettings()
	for n := 0; ; {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				_ = f.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !frame.IsAck() {
				_ = f.WritePing(true, frame.Data)
			}
		case *http2.HeadersFrame:
			s.requests.Add(1)
			if n++; !s.answer2(f, n, frame.StreamID) {
				return
			}
		}
	}
}

// ok1 answers a request of HTTP/1.1.
func ok1(c net.Conn) {
	_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi")
}

// ok2 answers a stream.
func ok2(f *http2.Framer, stream uint32, status string) {
	var block bytes.Buffer
	h := hpack.NewEncoder(&block)
	_ = h.WriteField(hpack.HeaderField{Name: ":status", Value: status})
	_ = h.WriteField(hpack.HeaderField{Name: "content-type", Value: "text/html"})
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true})
	_ = f.WriteData(stream, true, []byte("hi"))
}

// unsafeServers end requests in the ways after which net/http's own pool sends them again.
func unsafeServers() map[string]*logServer {
	second := func(end func(net.Conn)) func(net.Conn, int, *http.Request) bool {
		return func(c net.Conn, n int, _ *http.Request) bool {
			if n == 1 {
				ok1(c)
				return true
			}
			end(c)
			return false
		}
	}
	return map[string]*logServer{
		"closed on its second request": {answer1: second(func(net.Conn) {})},
		"reset on its second request": {answer1: second(func(c net.Conn) {
			_ = c.(*net.TCPConn).SetLinger(0)
		})},
		"reset before the header": {answer1: func(c net.Conn, _ int, _ *http.Request) bool {
			_ = c.(*net.TCPConn).SetLinger(0)
			return false
		}},
		"408 on its second request": {answer1: second(func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		})},
		"GOAWAY for all": {answer2: func(f *http2.Framer, _ int, _ uint32) bool {
			_ = f.WriteGoAway(0, http2.ErrCodeNo, nil)
			return false
		}},
		"GOAWAY on the second": {answer2: func(f *http2.Framer, n int, stream uint32) bool {
			if n == 1 {
				ok2(f, stream, "200")
				return true
			}
			_ = f.WriteGoAway(1, http2.ErrCodeNo, nil)
			return false
		}},
		"GOAWAY and silence": {answer2: func(f *http2.Framer, _ int, _ uint32) bool {
			_ = f.WriteGoAway(0, http2.ErrCodeNo, nil)
			return true
		}},
		"REFUSED_STREAM": {answer2: func(f *http2.Framer, _ int, stream uint32) bool {
			return f.WriteRSTStream(stream, http2.ErrCodeRefusedStream) == nil
		}},
		"PROTOCOL_ERROR": {answer2: func(f *http2.Framer, _ int, stream uint32) bool {
			return f.WriteRSTStream(stream, http2.ErrCodeProtocol) == nil
		}},
		"closed by HTTP/2": {answer2: func(f *http2.Framer, n int, stream uint32) bool {
			if n == 1 {
				ok2(f, stream, "200")
			}
			return n == 1
		}},
	}
}

// TestRequestsGoOutOnce: what a server logs is what was asked for, however it ends requests.
func TestRequestsGoOutOnce(t *testing.T) {
	t.Parallel()
	for name, s := range unsafeServers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if s.answer2 != nil {
				s.start(t, "h2")
			} else {
				s.start(t)
			}
			opts := Options{Insecure: true, Timeout: 20 * time.Second}
			if s.answer2 == nil {
				proxied := newClient(t, opts)
				proxied.opts.Proxy, _ = url.Parse(s.url)
				proxied.proxy = func(*url.URL) (*url.URL, error) { return proxied.opts.Proxy, nil }
				askTimes(t, s, proxied, "http://elsewhere.test/")
			}
			askTimes(t, s, newClient(t, opts), s.url+"/")
		})
	}
}

// askTimes asks eight times, one after the other, and compares with what the server has logged since.
func askTimes(t *testing.T, s *logServer, c *Client, url string) {
	t.Helper()
	before, failed := s.requests.Load(), 0
	for range 8 {
		res, err := c.Get(t.Context(), url, Request{})
		if err == nil {
			res.Body.Release()
			continue
		}
		var e *Error
		if !errors.As(err, &e) || e.Reason != Reset || !e.Passing {
			t.Fatalf("%v: want a passing %s; the server has logged %d requests", err, Reset, s.requests.Load()-before)
		}
		failed++
	}
	if n := s.requests.Load() - before; n != 8 {
		t.Errorf("%s: asked 8 times, %d failed, the server has logged %d requests", url, failed, n)
	}
}

// TestDeadConnectionIsNotUsed: a connection that the server has closed while it was idle costs no try.
func TestDeadConnectionIsNotUsed(t *testing.T) {
	t.Parallel()
	for _, protocols := range [][]string{nil, {"h2"}} {
		closed := make(chan struct{})
		s := &logServer{
			answer1: func(c net.Conn, _ int, _ *http.Request) bool { ok1(c); <-closed; return false },
			answer2: func(f *http2.Framer, _ int, stream uint32) bool { ok2(f, stream, "200"); <-closed; return false },
		}
		s.start(t, protocols...)
		c := newClient(t, Options{Insecure: true})
		for range 5 {
			res, err := c.Get(t.Context(), s.url+"/", Request{})
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Release()
			c.pool.mu.Lock()
			kept := c.pool.idle.Front().Value.(*pooled)
			c.pool.mu.Unlock()
			closed <- struct{}{}
			waitFor(t, func() bool { return kept.Err() != nil })
		}
		if n := s.conns.Load(); n != 5 {
			t.Errorf("%q: %d connections, want 5", protocols, n)
		}
	}
}

// waitFor waits for a condition that other goroutines bring about.
func waitFor(t *testing.T, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a minute has passed")
		}
	}
}

// TestStreamsShareAConnection: requests at one time go over one connection of HTTP/2 once there is one, and each over one
// of its own by HTTP/1.1, which are used again.
func TestStreamsShareAConnection(t *testing.T) {
	t.Parallel()
	for _, h2 := range []bool{true, false} {
		var conns atomic.Int64
		k := newCrowd()
		s := httptest.NewUnstartedServer(http.HandlerFunc(k.handle))
		s.EnableHTTP2 = h2
		s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				conns.Add(1)
			}
		}
		s.StartTLS()
		t.Cleanup(s.Close)
		c := newClient(t, Options{Insecure: true})
		get := func(n int) {
			var wg sync.WaitGroup
			for range n {
				wg.Go(func() {
					res, err := c.Get(t.Context(), s.URL+"/", Request{})
					if err != nil {
						t.Error(err)
						return
					}
					res.Body.Release()
				})
			}
			for range n {
				receive(t, k.arrived)
			}
			for range n {
				k.leave <- struct{}{}
			}
			wg.Wait()
		}
		get(1)
		for range 3 {
			get(10)
		}
		if want := map[bool]int64{true: 1, false: 10}[h2]; conns.Load() != want {
			t.Errorf("HTTP/2 %v: %d connections, want %d", h2, conns.Load(), want)
		}
		if n := c.pool.idle.Len(); int64(n) != conns.Load() {
			t.Errorf("HTTP/2 %v: %d connections are idle, %d were made", h2, n, conns.Load())
		}
	}
}

// TestIdleConnectionsAreFew: no more than Options.IdleConns are kept, those used last.
func TestIdleConnectionsAreFew(t *testing.T) {
	t.Parallel()
	var conns atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(local))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	c := newClient(t, Options{IdleConns: 3, Lookup: (&hosts{known: map[string]string{
		"a.test": "127.0.0.1", "b.test": "127.0.0.1", "c.test": "127.0.0.1", "d.test": "127.0.0.1",
	}}).lookup})
	for _, step := range []struct {
		name string
		made int64 // connections so far
	}{{"a", 1}, {"b", 2}, {"c", 3}, {"a", 3}, {"d", 4}, {"a", 4}, {"c", 4}, {"b", 5}} {
		res, err := c.Get(t.Context(), "http://"+step.name+".test:"+port+"/", Request{})
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Release()
		if conns.Load() != step.made {
			t.Errorf("%s: %d connections were made, want %d", step.name, conns.Load(), step.made)
		}
	}
	if c.pool.idle.Len() != 3 {
		t.Errorf("%d connections are idle, want 3", c.pool.idle.Len())
	}
}

// TestIdleConnectionsEnd: each is closed when it was idle for 30 s, or a second before its server said that it
// would close it.
func TestIdleConnectionsEnd(t *testing.T) {
	for _, tt := range []struct {
		header string
		life   time.Duration
	}{
		{"", idleTimeout},
		{"Keep-Alive: timeout=5, max=100\r\n", 4 * time.Second},
		{"Keep-Alive: max=7,Timeout=20\r\n", 19 * time.Second},
		{"Keep-Alive: timeout=600\r\n", idleTimeout},
		{"Keep-Alive: timeout=1\r\n", 0},
		{"Keep-Alive: timeout=x\r\n", idleTimeout},
	} {
		t.Run(strings.TrimSpace(tt.header), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ended atomic.Value // of the connection that ended last
				c := New(Options{
					Guard:  func(string, string) bool { return true },
					Lookup: (&hosts{known: map[string]string{"a.test": "192.0.2.1"}}).lookup,
				})
				defer c.Close()
				dial := func(context.Context, string, string) (net.Conn, error) {
					ours, theirs := net.Pipe()
					go func() {
						r := bufio.NewReader(theirs)
						for {
							if _, err := http.ReadRequest(r); err != nil {
								ended.Store(time.Now())
								return
							}
							fmt.Fprintf(theirs, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n%s\r\n", tt.header)
						}
					}()
					return ours, nil
				}
				c.pool.both.DialContext = dial
				for range 3 { // the last one counts
					res, err := c.Get(t.Context(), "http://a.test/", Request{})
					if err != nil {
						t.Fatal(err)
					}
					res.Body.Release()
					time.Sleep(min(tt.life, 3*time.Second))
				}
				start := time.Now().Add(-min(tt.life, 3*time.Second))
				time.Sleep(time.Minute)
				synctest.Wait()
				if got := ended.Load().(time.Time).Sub(start); got != tt.life {
					t.Errorf("closed after %v, want %v", got, tt.life)
				}
				if len(c.pool.conns) != 0 || c.pool.idle.Len() != 0 {
					t.Errorf("%d places, %d connections are left", len(c.pool.conns), c.pool.idle.Len())
				}
			})
		})
	}
}
