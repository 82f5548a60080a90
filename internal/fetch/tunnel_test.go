package fetch

import (
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// throughProxy runs a proxy that leads to target whatever it is asked for, of the scheme "http",
// "https" or "socks5", and returns its URL with user and password, which it wants.
func throughProxy(t *testing.T, scheme, target string) *url.URL {
	t.Helper()
	u := &url.URL{Scheme: scheme, User: url.UserPassword("me", "secret")}
	if scheme == "socks5" {
		u.Host = strings.TrimPrefix(serveConns(t, func(c net.Conn) {
			out, err := net.Dial("tcp", target)
			if err == nil && socksGreet(c) {
				joinConns(c, out)
			}
		}), "http://")
		return u
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", r.Header.Get("Proxy-Authorization"))
		if user, password, _ := r.BasicAuth(); user != "me" || password != "secret" || r.Proto != "HTTP/1.1" {
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		if r.Method != http.MethodConnect {
			if !r.URL.IsAbs() {
				t.Errorf("the proxy was asked for %q", r.RequestURI)
			}
			w.Header()["Content-Type"] = []string{"text/html"}
			w.Header()["Via"] = []string{"proxy"}
			_, _ = io.WriteString(w, "<p>"+r.Host)
			return
		}
		out, err := net.Dial("tcp", target)
		if err != nil {
			t.Error(err)
			return
		}
		in, _, _ := w.(http.Hijacker).Hijack()
		_, _ = io.WriteString(in, "HTTP/1.1 200 Connected\r\n\r\n")
		joinConns(in, out)
	}))
	s.EnableHTTP2 = true
	if scheme == "https" {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	u.Host = s.Listener.Addr().String()
	return u
}

// joinConns passes bytes both ways until one side ends.
func joinConns(a, b net.Conn) {
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(a, b); a.Close() })
	wg.Go(func() { _, _ = io.Copy(b, a); b.Close() })
	wg.Wait()
}

// socksGreet is the server's side of SOCKS 5 with user and password (RFC 1928 and 1929).
func socksGreet(c net.Conn) bool {
	b := make([]byte, 300)
	read := func(n int) bool {
		_, err := io.ReadFull(c, b[:n])
		return err == nil
	}
	if !read(2) || !read(int(b[1])) || !strings.Contains(string(b[:4]), "\x02") {
		return false
	}
	_, _ = io.WriteString(c, "\x05\x02")
	if !read(2) || !read(int(b[1])) || string(b[:2]) != "me" || !read(1) || !read(int(b[0])) || string(b[:6]) != "secret" {
		return false
	}
	_, _ = io.WriteString(c, "\x01\x00")
	if !read(5) || b[3] != 3 || !read(int(b[4])+2) { // a name, which the proxy resolves
		return false
	}
	_, _ = c.Write(binary.BigEndian.AppendUint16([]byte("\x05\x00\x00\x01\x7f\x00\x00\x01"), 80))
	return true
}

// serveConns serves connections on loopback by a function and returns its URL.
func serveConns(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { defer c.Close(); serve(c) })
		}
	})
	return "http://" + l.Addr().String()
}

// TestTunnels asks hosts by way of each kind of proxy, which wants a password.
func TestTunnels(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"http", "https", "socks5"} {
		for _, secure := range []bool{false, true} {
			for _, http1 := range []bool{false, true} {
				s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header()["Content-Type"] = []string{"text/html"}
					w.Header()["Via"] = []string{r.Proto}
					_, _ = io.WriteString(w, "<p>"+r.Host)
				}))
				s.EnableHTTP2 = true
				target, via := "http://a.test/", "HTTP/1.1"
				if secure {
					s.StartTLS()
					target = "https://a.test/"
					if !http1 {
						via = "HTTP/2.0"
					}
				} else {
					s.Start()
					if scheme != "socks5" {
						via = "proxy"
					}
				}
				t.Cleanup(s.Close)
				c := newClient(t, Options{Insecure: true, HTTP1: http1, Proxy: throughProxy(t, scheme, s.Listener.Addr().String())})
				for range 3 {
					res, err := c.Get(t.Context(), target, Request{})
					if err != nil {
						t.Fatalf("%s, %s, HTTP/1 %v: %v", scheme, target, http1, err)
					}
					if got := string(res.Body.Bytes()); got != "<p>a.test" || res.Header.Get("Via") != via {
						t.Errorf("%s, %s, HTTP/1 %v: %q by %s", scheme, target, http1, got, res.Header.Get("Via"))
					}
					res.Body.Release()
				}
			}
		}
		wrong := throughProxy(t, scheme, "127.0.0.1:1")
		wrong.User = url.UserPassword("me", "other")
		c := newClient(t, Options{Insecure: true, Proxy: wrong})
		for _, target := range []string{"http://a.test/", "https://a.test/"} {
			res, err := c.Get(t.Context(), target, Request{})
			if scheme == "socks5" {
				wantFailure(t, res, err, Connect, true) // the greeting breaks off
			} else {
				wantFailure(t, res, err, Proxy, true)
			}
		}
	}
}
