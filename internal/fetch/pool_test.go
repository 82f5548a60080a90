package fetch

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
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

// A logServer reads requests from its connections, HTTP/1.1 or HTTP/2 by the first bytes, and
// counts them.
type logServer struct {
	url      string
	requests atomic.Int64
	conns    atomic.Int64
	// answer1 answers the request number n of a connection, from 1. It reports whether the connection
	// goes on.
	answer1 func(c net.Conn, n int, r *http.Request) bool
	// answer2 does the same for a stream.
	answer2 func(f *http2.Framer, n int, stream uint32) bool
	reason  string // of all failures; "": Reset
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
		"GOAWAY on the second": {reason: GoAway, answer2: func(f *http2.Framer, n int, stream uint32) bool {
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

// askTimes asks eight times, one after the other, and compares with what the server has logged
// since.
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
		if !errors.As(err, &e) || e.Reason != cmp.Or(s.reason, Reset) || !e.Passing {
			t.Fatalf("%v: want a passing %s; the server has logged %d requests", err, cmp.Or(s.reason, Reset), s.requests.Load()-before)
		}
		failed++
	}
	if n := s.requests.Load() - before; n != 8 {
		t.Errorf("%s: asked 8 times, %d failed, the server has logged %d requests", url, failed, n)
	}
}

// TestDeadConnectionIsNotUsed: a connection that the server has closed while it was idle costs no
// try.
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

// TestStreamsShareAConnection: requests at one time go over one connection of HTTP/2 once there is
// one, and each over one of its own by HTTP/1.1, which are used again.
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

// TestHTTP1IfHTTP2IsRefused: a host that refuses a request by HTTP/2 is asked by HTTP/1.1 the next
// time and from then on, and another one is not. By HTTP/1.1 a 421 is an answer.
func TestHTTP1IfHTTP2IsRefused(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(f *http2.Framer, stream uint32){
		"reset":        func(f *http2.Framer, stream uint32) { _ = f.WriteRSTStream(stream, http2.ErrCodeHTTP11Required) },
		"GOAWAY":       func(f *http2.Framer, _ uint32) { _ = f.WriteGoAway(0, http2.ErrCodeHTTP11Required, nil) },
		"misdirected":  func(f *http2.Framer, stream uint32) { ok2(f, stream, "421") },
		"only HTTP/2.": nil, // with Options.HTTP1
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var (
				mu sync.Mutex
				by []string
			)
			log := func(proto string) {
				mu.Lock()
				defer mu.Unlock()
				by = append(by, proto)
			}
			s := &logServer{
				answer1: func(c net.Conn, _ int, r *http.Request) bool {
					log(r.Proto)
					if r.URL.Path == "/421" {
						_, _ = io.WriteString(c, "HTTP/1.1 421 Misdirected Request\r\nContent-Length: 0\r\n\r\n")
						return true
					}
					ok1(c)
					return true
				},
				answer2: func(f *http2.Framer, _ int, stream uint32) bool {
					log("HTTP/2")
					refuse(f, stream)
					return true
				},
			}
			s.start(t, "h2", "http/1.1")
			c := newClient(t, Options{Insecure: true, HTTP1: refuse == nil})
			if refuse != nil {
				res, err := c.Get(t.Context(), s.url+"/", Request{})
				wantFailure(t, res, err, HTTP1, true)
			}
			for _, path := range []string{"/", "/", "/421", "/"} {
				res, err := c.Get(t.Context(), s.url+path, Request{})
				if err != nil {
					t.Fatal(err)
				}
				if want := map[bool]int{true: 421, false: 200}[path == "/421"]; res.Status != want {
					t.Errorf("%s: status %d, want %d", path, res.Status, want)
				}
				res.Body.Release()
			}
			mu.Lock()
			defer mu.Unlock()
			got, want := strings.Join(by, " "), "HTTP/2 HTTP/1.1 HTTP/1.1 HTTP/1.1 HTTP/1.1"
			if refuse == nil {
				want = strings.TrimPrefix(want, "HTTP/2 ")
			}
			if got != want {
				t.Errorf("asked by %s, want %s", got, want)
			}
			if len(c.pool.old) > 1 {
				t.Errorf("%d hosts are asked by HTTP/1.1 alone", len(c.pool.old))
			}
		})
	}
}

// TestHostsOfHTTP1AreBounded: no more than mostOld are remembered.
func TestHostsOfHTTP1AreBounded(t *testing.T) {
	c := newClient(t, Options{})
	for i := range mostOld + 10 {
		to := &route{url: &url.URL{Host: fmt.Sprint(i)}}
		_ = c.pool.downgrade(to, io.EOF)
		if !c.pool.isOld(to) {
			t.Fatalf("%s is not remembered", to.url.Host)
		}
	}
	if n := len(c.pool.old); n != mostOld {
		t.Errorf("%d hosts are remembered, want %d", n, mostOld)
	}
}

// TestInsecureTLS: only with Options.Insecure old versions and key exchanges are spoken.
func TestInsecureTLS(t *testing.T) {
	t.Parallel()
	for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS11, tls.VersionTLS12} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			t.Parallel()
			s := httptest.NewUnstartedServer(http.HandlerFunc(local))
			s.Config.ErrorLog = nolog
			s.TLS = &tls.Config{
				MinVersion: version, MaxVersion: version,
				CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_CBC_SHA}, Certificates: []tls.Certificate{rsaCertificate(t)},
			}
			s.StartTLS()
			t.Cleanup(s.Close)
			res, err := newClient(t, Options{Insecure: true}).Get(t.Context(), s.URL+"/", Request{})
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Release()
			strict := newClient(t, Options{})
			strict.pool.both.TLSClientConfig.InsecureSkipVerify = true // the certificate is none of the reasons
			res, err = strict.Get(t.Context(), s.URL+"/", Request{})
			wantFailure(t, res, err, TLS, false)
		})
	}
}

// rsaCertificate makes one of its own with an RSA key, without which there is no such key exchange.
func rsaCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
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

// TestIdleConnectionsEnd: each is closed when it was idle for 30 s, or a second before its server
// said that it would close it.
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
					Guard:  func(string, string, bool) bool { return true },
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
