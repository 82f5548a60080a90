package fetch

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestProxy(t *testing.T) {
	var asked []string
	p := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.RequestURI)
		switch {
		case r.Method == http.MethodConnect && strings.HasPrefix(r.Host, "busy"):
			w.WriteHeader(http.StatusBadGateway)
		case r.Method == http.MethodConnect && strings.HasPrefix(r.Host, "who"):
			w.WriteHeader(http.StatusProxyAuthRequired)
		case strings.HasPrefix(r.Host, "who"):
			w.WriteHeader(http.StatusProxyAuthRequired)
		case r.Method == http.MethodConnect:
			w.WriteHeader(http.StatusForbidden)
		}
	})
	proxy, _ := url.Parse(p)
	lookup := func(_ context.Context, host string) ([]netip.Addr, error) {
		switch host {
		case "inside.test", "seed.test":
			return []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("10.0.0.1")}, nil
		case "other-family.test":
			return []netip.Addr{netip.MustParseAddr("fd00::1")}, nil
		case "outside.test":
			return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil
		}
		return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
	}
	c := newClient(t, Options{Proxy: proxy, Lookup: lookup, Network: "tcp4", Guard: func(host, _ string, _ bool) bool { return host == "10.0.0.1" || host == "seed.test" }})
	for _, tt := range []struct {
		name, url, asked string
		reason           string
		passing          bool
	}{
		{"name", "http://a.test/x?y", "GET http://a.test/x?y", "", false},
		{"public address", "http://192.0.2.1:81/", "GET http://192.0.2.1:81/", "", false},
		{"exempt address", "http://10.0.0.1/", "GET http://10.0.0.1/", "", false},
		{"internal address", "http://10.0.0.2/", "", Address, false},
		{"the proxy itself", p + "/", "", Address, false},
		{"loopback by name", "http://x.localhost/", "", Address, false},
		{"public name", "http://outside.test/", "GET http://outside.test/", "", false},
		{"exempt name", "http://seed.test/", "GET http://seed.test/", "", false},
		{"name with an internal address", "http://inside.test/", "", Address, false},
		{"name with an internal address of another family", "http://other-family.test/", "", Address, false},
		{"name with an internal address, tunnel", "https://inside.test/", "", Address, false},
		{"name without a dot", "http://intranet/", "", Address, false},
		{"private top-level name", "https://metadata.google.internal/", "", Address, false},
		{"tunnel forbidden", "https://a.test/", "CONNECT a.test:443", Connect, true},
		{"tunnel wants a password", "https://who.test/", "CONNECT who.test:443", Proxy, true},
		{"page wants a password", "http://who.test/", "GET http://who.test/", Proxy, true},
		{"tunnel fails", "https://busy.test/", "CONNECT busy.test:443", Connect, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked = nil
			res, err := c.Get(t.Context(), tt.url, Request{})
			if tt.reason != "" {
				wantFailure(t, res, err, tt.reason, tt.passing)
			} else if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(asked, "; "); got != tt.asked {
				t.Errorf("the proxy was asked %q, want %q", got, tt.asked)
			}
		})
	}
}

// TestBrokenProxies: for a tunnel no answer of the proxy is one of the host.
func TestBrokenProxies(t *testing.T) {
	for _, tt := range []struct {
		name    string
		answer  func(net.Conn, string)
		reason  string
		passing bool
	}{
		{"silent", sayAndHold(""), Timeout, true},
		{"silent in the header", sayAndHold("HTTP/1.1 200 OK\r\nX"), Timeout, true},
		{"header without end", drip("HTTP/1.1 200 OK\r\n", "x"), Timeout, true},
		{"silent in the tunnel", func(c net.Conn, request string) {
			say("HTTP/1.1 200 OK\r\n\r\n")(c, request)
			_, _ = io.Copy(io.Discard, c)
		}, Timeout, true},
		{"closes", say(""), Proxy, true},
		{"closes the tunnel", say("HTTP/1.1 200 OK\r\n\r\n"), Reset, true},
		{"resets", sayAndReset(""), Proxy, true},
		{"no HTTP", say("\x1b[31mSSH-2.0\r\n\r\n"), Proxy, true},
		{"wants a password", say("HTTP/1.1 407 \x1b[31m\u202e\r\n\r\n"), Proxy, true},
		{"escapes in the reason", say("HTTP/1.1 403 \x1b[31m\u202e\r\n\r\n"), Connect, true},
		{"bad gateway", say("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 3\r\n\r\nbad"), Connect, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			proxy, _ := url.Parse(rawServe(t, tt.answer))
			timeout := time.Minute
			if tt.reason == Timeout {
				timeout = 100 * time.Millisecond
			}
			c := newClient(t, Options{Proxy: proxy, FirstByte: timeout, Timeout: 2 * time.Minute})
			res, err := c.Get(t.Context(), "https://a.test/", Request{})
			wantFailure(t, res, err, tt.reason, tt.passing)
		})
	}
}

func TestProxyFromEnvironment(t *testing.T) {
	var asked string
	p := serve(t, func(w http.ResponseWriter, r *http.Request) { asked = r.RequestURI })
	t.Setenv("http_proxy", p)
	t.Setenv("no_proxy", "")
	lookup := func(_ context.Context, host string) ([]netip.Addr, error) {
		if host == "inside.test" {
			return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
		}
		return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
	}
	c := newClient(t, Options{Lookup: lookup, Guard: func(string, string, bool) bool { return false }})
	if _, err := c.Get(t.Context(), "http://a.test/", Request{}); err != nil || asked != "http://a.test/" {
		t.Errorf("asked %q, %v", asked, err)
	}
	asked = ""
	for _, private := range []string{"http://inside.test/", "http://intranet/", "http://metadata.google.internal/", "http://10.0.0.2/"} {
		res, err := c.Get(t.Context(), private, Request{})
		wantFailure(t, res, err, Address, false)
	}
	if asked != "" {
		t.Errorf("the proxy was asked for %q", asked)
	}
	// Loopback is never asked by way of it, so the guard decides.
	res, err := c.Get(t.Context(), p+"/", Request{})
	wantFailure(t, res, err, Address, false)
}

// A proxy does not wait for a look-up that takes long, and what the look-up says counts from then
// on.
func TestProxyAndSlowLookup(t *testing.T) {
	asked := make(chan string, 2)
	p := serve(t, func(w http.ResponseWriter, r *http.Request) { asked <- r.RequestURI })
	proxy, _ := url.Parse(p)
	answer := make(chan struct{})
	guard := func(string, string, bool) bool { return false }
	c := newClient(t, Options{Proxy: proxy, Guard: guard, Lookup: func(ctx context.Context, _ string) ([]netip.Addr, error) {
		select {
		case <-answer:
			return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}})
	c.limits.ahead = time.Millisecond
	if _, err := c.Get(t.Context(), "http://slow.test/", Request{}); err != nil || <-asked != "http://slow.test/" {
		t.Fatal(err)
	}
	close(answer)
	if _, private, err := c.names.addresses(t.Context(), "slow.test"); err != nil || !private {
		t.Fatalf("looked up: private %v, %v", private, err)
	}
	res, err := c.Get(t.Context(), "http://slow.test/", Request{})
	wantFailure(t, res, err, Address, false)
}

// TestProxyWithoutNames: where no look-up ends in time, only the first requests wait for one.
func TestProxyWithoutNames(t *testing.T) {
	t.Parallel()
	p := serve(t, func(http.ResponseWriter, *http.Request) {})
	proxy, _ := url.Parse(p)
	var looked atomic.Int64
	c := newClient(t, Options{Proxy: proxy, Lookup: func(ctx context.Context, _ string) ([]netip.Addr, error) {
		looked.Add(1)
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	c.limits.ahead = time.Millisecond
	for i := range 2 * mostLate {
		if _, err := c.Get(t.Context(), fmt.Sprintf("http://h%d.test/", i), Request{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := looked.Load(); n != mostLate {
		t.Errorf("%d names were looked up, want %d", n, mostLate)
	}
}

// TestSOCKS: what a SOCKS proxy says of the host is told from what it says of us.
func TestSOCKS(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		answers []string // to the greeting and to the request
		reason  string
	}{
		{"wants a password", []string{"\x05\xff"}, Proxy},
		{"host unreachable", []string{"\x05\x00", "\x05\x04\x00\x01\x00\x00\x00\x00\x00\x00"}, Connect},
		{"closes after", []string{"\x05\x00", "\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00"}, Reset},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
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
					for _, answer := range tt.answers {
						_, _ = c.Read(make([]byte, 300))
						_, _ = io.WriteString(c, answer)
					}
					_, _ = c.Read(make([]byte, 1000))
					c.Close()
				}
			})
			for _, scheme := range []string{"http", "https"} {
				c := newClient(t, Options{Proxy: &url.URL{Scheme: "socks5", Host: l.Addr().String()}})
				res, err := c.Get(t.Context(), scheme+"://192.0.2.1/", Request{})
				wantFailure(t, res, err, tt.reason, true)
			}
		})
	}
}
