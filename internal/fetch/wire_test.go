package fetch

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A rawServer answers requests of HTTP/1 with raw bytes and keeps what it was sent.
type rawServer struct {
	url string

	mu       sync.Mutex
	requests []string // guarded by mu
	conns    int      // guarded by mu
}

// serveRaw answers the request number n, from 0, with the text that answer returns, and closes the
// connection then unless more is true.
func serveRaw(t *testing.T, answer func(n int) (text string, more bool)) *rawServer {
	t.Helper()
	s := new(rawServer)
	s.url = serveConns(t, func(c net.Conn) {
		s.mu.Lock()
		s.conns++
		s.mu.Unlock()
		in := bufio.NewReader(c)
		for more := true; more; {
			request := ""
			for !strings.HasSuffix(request, "\r\n\r\n") {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				request += line
			}
			s.mu.Lock()
			n := len(s.requests)
			s.requests = append(s.requests, request)
			s.mu.Unlock()
			var text string
			text, more = answer(n)
			_, _ = io.WriteString(c, text)
		}
	})
	return s
}

// last returns the last request.
func (s *rawServer) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[len(s.requests)-1]
}

// heads are heads of answers with the bodies behind them, as sent and as kept.
var heads = []struct {
	name          string
	sent, sentEnd string // head and body
	kept, body    string // "" of kept: as sent
}{
	{name: "plain", sent: "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\n", sentEnd: "abc", body: "abc"},
	{name: "no reason", sent: "HTTP/1.1 200\r\ncontent-type: text/html\r\ncontent-length: 0\r\n\r\n"},
	{
		name: "spelling and spacing", sentEnd: "abc", body: "abc",
		sent: "HTTP/1.1 200   Fine,  thank you \r\nsErVeR:x\r\nX-A:\t a  b \t\r\nContent-type:text/html\r\nX_y:\r\nCONTENT-LENGTH:   3 \r\nZ: \xff\xe9\r\n\r\n",
	},
	{
		name: "folded, and more than once", sentEnd: "abc", body: "abc",
		sent: "HTTP/1.1 200 OK\r\nB: 1\r\nA: 2\r\nB: 3\r\nX: a\r\n\tb: c\r\n   \r\n  d\r\nLink: a=b\r\nLink: a=b\r\nContent-Length: 3\r\n\r\n",
	},
	{name: "LF alone", sent: "HTTP/1.1 200 OK\nA: b\r\nContent-Type: text/html\nContent-Length: 5\n\n", sentEnd: "a\r\n\r\n", body: "a\r\n\r\n"},
	{name: "HTTP/1.0", sent: "HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n", sentEnd: "abc", body: "abc"},
	{name: "no length", sent: "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n", sentEnd: "abc", body: "abc"},
	{name: "length twice", sent: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\ncontent-length: 3\r\n\r\n", sentEnd: "abc", body: "abc"},
	{
		name: "chunked", sentEnd: "1\r\na\r\n2;x=y\r\nbc\r\n0\r\nExpires: 0\r\nContent-Length: 9\r\n\r\n", body: "abc",
		sent: "HTTP/1.1 200 OK\r\nTrailer: Expires\r\ntransfer-encoding:  Chunked\r\nContent-Type: text/html\r\n\r\n",
		kept: "HTTP/1.1 200 OK\r\nTrailer: Expires\r\nX-Archive-Orig-transfer-encoding:  Chunked\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\n",
	},
	{
		name: "chunked, with lengths", sentEnd: "3\r\nabc\r\n0\r\n\r\n", body: "abc",
		sent: "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n",
		kept: "HTTP/1.1 200 OK\r\nX-Archive-Orig-Content-Length: 7\r\nX-Archive-Orig-Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
	},
	{
		name: "chunked, with the right length", sentEnd: "3\r\nabc\r\n0\r\n\r\n", body: "abc",
		sent: "HTTP/1.1 200 OK\nContent-Length: 3\nTransfer-Encoding: chunked\n\n",
		kept: "HTTP/1.1 200 OK\nContent-Length: 3\nX-Archive-Orig-Transfer-Encoding: chunked\n\n",
	},
	{
		name: "chunked by HTTP/1.0, which has no chunks", sentEnd: "3\r\nabc\r\n0\r\n\r\n", body: "3\r\nabc\r\n0\r\n\r\n",
		sent: "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
	},
	{
		name: "redirect", sentEnd: "moved",
		sent: "HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 5\r\n\r\n",
		kept: "HTTP/1.1 302 Found\r\nLocation: /x\r\nX-Archive-Orig-Content-Length: 5\r\nContent-Length: 0\r\n\r\n",
	},
	{name: "redirect without a body", sent: "HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n"},
	{
		name: "failure, chunked", sentEnd: "1\r\na\r\n0\r\n\r\n",
		sent: "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n",
		kept: "HTTP/1.1 404 Not Found\r\nX-Archive-Orig-Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n",
	},
	{
		name: "not wanted", sentEnd: "abc",
		sent: "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 3\r\n\r\n",
		kept: "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nX-Archive-Orig-Content-Length: 3\r\nContent-Length: 0\r\n\r\n",
	},
	{name: "not modified", sent: "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nEtag: x\r\n\r\n"},
	{name: "no content", sent: "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n"},
	{name: "status behind spaces", sent: "HTTP/1.1   200 OK\r\nb: c\r\nContent-Length: 0\r\n\r\n"},
	{
		name: "empty, with a coding", sentEnd: "0\r\n\r\n",
		sent: "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n",
		kept: "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nX-Archive-Orig-Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n",
	},
}

// interim are answers before the one that counts.
const interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103  Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102\nX: y\n\n"

// TestWireHeads asks for each answer twice, once with interim answers before it.
func TestWireHeads(t *testing.T) {
	t.Parallel()
	for _, tt := range heads {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := serveRaw(t, func(n int) (string, bool) { return strings.Repeat(interim, n) + tt.sent + tt.sentEnd, false })
			for range 2 {
				c := newClient(t, Options{Wire: true, UserAgent: "test"})
				before := time.Now()
				res, err := c.Get(t.Context(), s.url+"/a%2fb?c", Request{Wants: func(media string) bool { return media != "image/png" }})
				if err != nil {
					t.Fatal(err)
				}
				w := res.Wire
				if want := cmp.Or(tt.kept, tt.sent); string(w.Head) != want {
					t.Errorf("head\n%q, want\n%q", w.Head, want)
				}
				if string(w.Request) != s.last() {
					t.Errorf("request %q, want %q", w.Request, s.last())
				}
				if string(res.Body.Bytes()) != tt.body || w.Coded != nil {
					t.Errorf("body %q", res.Body.Bytes())
				}
				if want := "http/1." + tt.sent[len("HTTP/1."):][:1]; w.Protocol != want || w.Addr != netip.MustParseAddr("127.0.0.1") {
					t.Errorf("%s from %v", w.Protocol, w.Addr)
				}
				if w.Sent.Before(before) || w.Sent.After(time.Now()) {
					t.Errorf("sent at %v", w.Sent)
				}
				res.Body.Release()
			}
		})
	}
}

// TestWireReuse asks over one connection again and again, for heads and bodies of all sizes.
func TestWireReuse(t *testing.T) {
	t.Parallel()
	answers := make([]string, 40) // the last one has a short head
	bodies := make([]string, len(answers))
	for i := range answers {
		head := "HTTP/1.1 200 OK\r\nX-Pad: " + strings.Repeat("x", (len(answers)-1-i)*rand.IntN(1500)) + "\r\nContent-Type: text/html\r\n"
		bodies[i] = strings.Repeat("HTTP/1.1 200 OK\r\n\r\n", rand.IntN(1000))
		if i == len(answers)-1 {
			bodies[i] = strings.Repeat("x", 2*maxTee) // too large to be kept by the way
		}
		if i%5 == 0 {
			head, bodies[i] = strings.Replace(head, "200 OK", "304 Not Modified", 1), ""
		}
		answers[i] = head + "Content-Length: " + strconv.Itoa(len(bodies[i])) + "\r\n\r\n"
	}
	s := serveRaw(t, func(n int) (string, bool) { return strings.Repeat(interim, n%3) + answers[n] + bodies[n], true })
	c := newClient(t, Options{Wire: true})
	var kept []*Wire
	for i := range answers {
		res, err := c.Get(t.Context(), s.url+"/"+strconv.Itoa(i), Request{})
		if err != nil {
			t.Fatal(err)
		}
		if string(res.Body.Bytes()) != bodies[i] {
			t.Errorf("%d: %d bytes, want %d", i, res.Body.Len(), len(bodies[i]))
		}
		res.Body.Release()
		kept = append(kept, res.Wire)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, w := range kept { // none has changed since
		if string(w.Head) != answers[i] || string(w.Request) != s.requests[i] {
			t.Errorf("%d: head of %d bytes, want %d; request %q", i, len(w.Head), len(answers[i]), w.Request)
		}
	}
	if s.conns != 1 {
		t.Errorf("%d connections", s.conns)
	}
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	if n := cap(c.pool.idle.Front().Value.(*pooled).tee.read); n == 0 || n > maxTee {
		t.Errorf("an idle connection holds %d bytes", n)
	}
}

// TestWireUnasked: an answer that comes before its request is not mixed up with the next one.
func TestWireUnasked(t *testing.T) {
	t.Parallel()
	const one, two = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nX: %d\r\n\r\n1", "HTTP/1.1 404 Unasked\r\nContent-Length: 1\r\n\r\n2"
	s := serveRaw(t, func(n int) (string, bool) { return fmt.Sprintf(one, n) + two, true })
	c := newClient(t, Options{Wire: true})
	for range 3 {
		res, err := c.Get(t.Context(), s.url+"/", Request{})
		if err != nil {
			continue // net/http has noticed
		}
		h, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(res.Wire.Head)), nil)
		if err != nil || h.StatusCode != res.Status || h.Header.Get("X") != res.Header.Get("X") {
			t.Errorf("head %q of a %d, %v", res.Wire.Head, res.Status, err)
		}
		res.Body.Release()
	}
}

// TestWireWays asks by each protocol, and by way of each kind of proxy.
func TestWireWays(t *testing.T) {
	t.Parallel()
	const agent = "User-Agent: test\r\n"
	const request = "GET /a?b HTTP/1.1\r\nHost: %s\r\n" + agent + "Accept: " + defaultAccept + "\r\nAccept-Encoding: gzip, br\r\n\r\n"
	const sorted = "HTTP/1.1 200 OK\r\nA: 1\r\nA: 3\r\nB: 2\r\nContent-Length: 3\r\nContent-Type: text/html\r\nDate: x\r\n\r\n"
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"], w.Header()["Content-Type"], w.Header()["B"] = []string{"x"}, []string{"text/html"}, []string{"2"}
		w.Header()["A"] = []string{"1", "3"}
		_, _ = io.WriteString(w, "abc")
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	odd := "HTTP/1.1 200 Fine\r\nb:2\r\nA: 1\r\nContent-LENGTH:3\r\n\r\n"
	raw := serveRaw(t, func(int) (string, bool) { return odd + "abc", true })
	overTLS := serveTLS(t, strings.TrimPrefix(raw.url, "http://"))
	for _, tt := range []struct {
		name, proxy, url, target, head, protocol string
		http1                                    bool
	}{
		{"h2", "", s.URL, "", sorted, "h2", false},
		{"HTTP/1.1 over TLS", "", "https://" + overTLS, "", odd, "http/1.1", false},
		{"HTTP/1.1 alone over TLS", "", "https://" + overTLS, "", odd, "http/1.1", true},
		{"h2 through CONNECT", "http", "https://a.test", s.Listener.Addr().String(), sorted, "h2", false},
		{"HTTP/1.1 through CONNECT", "http", "https://a.test", overTLS, odd, "http/1.1", false},
		{"HTTP/1.1 through CONNECT and TLS", "https", "https://a.test", overTLS, odd, "http/1.1", false},
		{"HTTP/1.1 through SOCKS", "socks5", "https://a.test", overTLS, odd, "http/1.1", false},
		{"http through SOCKS", "socks5", "http://a.test", strings.TrimPrefix(raw.url, "http://"), odd, "http/1.1", false},
		{"relay", "http", "http://a.test", "", "", "http/1.1", false},
		{"relay over TLS", "https", "http://a.test", "", "", "http/1.1", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			opts := Options{Wire: true, UserAgent: "test", Insecure: true, HTTP1: tt.http1}
			if tt.proxy != "" {
				opts.Proxy = throughProxy(t, tt.proxy, tt.target)
			}
			c := newClient(t, opts)
			for range 3 {
				res, err := c.Get(t.Context(), tt.url+"/a?b", Request{})
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Release()
				w := res.Wire
				host := tt.url[strings.Index(tt.url, "//")+2:]
				want := fmt.Sprintf(request, host)
				if tt.head == "" {
					want = strings.Replace(want, "/a?b", tt.url+"/a?b", 1)
					want = strings.TrimSuffix(want, "\r\n") + "Proxy-Authorization: -\r\n\r\n"
				}
				if string(w.Request) != want {
					t.Errorf("request %q, want %q", w.Request, want)
				}
				if tt.head == "" && !bytes.Contains(w.Head, []byte("\r\nVia: proxy\r\n")) || tt.head != "" && string(w.Head) != tt.head {
					t.Errorf("head %q, want %q", w.Head, tt.head)
				}
				if w.Protocol != tt.protocol || w.Addr.IsValid() != (tt.proxy == "") {
					t.Errorf("%s from %v", w.Protocol, w.Addr)
				}
			}
		})
	}
}

// serveTLS serves TLS on loopback, for the server at target, and returns its address.
func serveTLS(t *testing.T, target string) string {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	t.Cleanup(s.Close)
	config := s.TLS.Clone()
	config.NextProtos = nil
	return strings.TrimPrefix(serveConns(t, func(c net.Conn) {
		out, err := net.Dial("tcp", target)
		if err == nil {
			joinConns(tls.Server(c, config), out)
		}
	}), "http://")
}

// TestWireCoded: bodies with a coding are kept as they came, in memory and in files.
func TestWireCoded(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 5000, 200_000, maxBuffer + 5000} {
		text := page(size)
		all := []string{"gzip", "", "br", "zstd", "x-gzip", "deflate", "raw", "br, gzip", "identity"}
		if size > 5000 {
			all = all[:2]
		}
		for _, codings := range all {
			body := text
			for name := range strings.SplitSeq(codings, ", ") {
				body = encode(t, name, body)
			}
			if size == 5000 && codings == "gzip" {
				body = append(body, "\x00something behind"...)
			}
			name := strings.Replace(codings, "raw", "deflate", 1)
			s := serveRaw(t, func(int) (string, bool) {
				return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nTransfer-Encoding: chunked\r\nContent-Type: text/html\r\n\r\n%x\r\n%s\r\n%s",
					name, len(body), body, strings.Repeat("0\r\n\r\n", min(len(body), 1))), true
			})
			for _, budget := range []int64{0, firstBuffer} {
				c := newClient(t, Options{Wire: true, Bodies: NewBudget(budget)})
				res, err := c.Get(t.Context(), s.url+"/", Request{MaxSize: 4 << 20})
				if err != nil {
					t.Fatalf("%d bytes, %s: %v", size, codings, err)
				}
				if !strings.Contains(s.last(), "\r\nAccept-Encoding: gzip, br\r\n") {
					t.Errorf("asked by %q", s.last())
				}
				kept := res.Body
				if len(body) > 0 && codings != "" && codings != "identity" {
					if kept = res.Wire.Coded; kept == nil {
						t.Fatalf("%d bytes, %s: not kept", size, codings)
					}
				} else if res.Wire.Coded != nil {
					t.Errorf("%d bytes, %q: kept twice", size, codings)
				}
				if !bytes.Equal(res.Body.Bytes(), text) || !bytes.Equal(kept.Bytes(), body) || kept.Len() != int64(len(body)) {
					t.Errorf("%d bytes, %s: %d kept, want %d", size, codings, kept.Len(), len(body))
				}
				if want := fmt.Sprintf("\r\nContent-Length: %d\r\n\r\n", len(body)); !strings.HasSuffix(string(res.Wire.Head), want) {
					t.Errorf("%d bytes, %s: head %q", size, codings, res.Wire.Head)
				}
				if size > maxBuffer && res.Body.Temp() == "" || size == 200_000 && budget > 0 && res.Body.Temp() == "" {
					t.Errorf("%d bytes, %s: in memory", size, codings)
				}
				if len(body) > maxBuffer && kept.Temp() == "" {
					t.Errorf("%d bytes, %s: kept in memory", size, codings)
				}
				if budget == 0 && kept.mem != nil && kept.held.Load() != bufferSize(kept.Len()) {
					t.Errorf("%d bytes, %s: %d in a buffer of %d", size, codings, kept.Len(), kept.held.Load())
				}
				used := c.opts.Bodies.used.Load()
				if res.Body.HandOver(); c.opts.Bodies.used.Load() != 0 || !bytes.Equal(kept.Bytes(), body) {
					t.Errorf("%d bytes, %s: %d of %d still used", size, codings, c.opts.Bodies.used.Load(), used)
				}
				res.Body.Release()
				res.Body.Release()
				if kept.Len() != 0 {
					t.Errorf("%d bytes, %s: %d not released", size, codings, kept.Len())
				}
			}
		}
	}
}

// TestWireCodedDropped: a coded body that is not wanted, or cannot be decoded, is not kept.
func TestWireCodedDropped(t *testing.T) {
	t.Parallel()
	text := page(5000)
	for _, tt := range []struct{ media, body string }{
		{"", string(encode(t, "gzip", text))}, // by its first bytes
		{"text/plain", string(encode(t, "gzip", text))},
		{"text/html", "this is no gzip"},
	} {
		s := serveRaw(t, func(int) (string, bool) {
			return "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Type: " + tt.media + "\r\n\r\n" + tt.body, false
		})
		c := newClient(t, Options{Wire: true})
		res, err := c.Get(t.Context(), s.url+"/", Request{Wants: func(media string) bool { return tt.media == "text/html" }})
		if tt.media == "text/html" {
			wantFailure(t, res, err, Coding, false)
			continue
		}
		if err != nil || !res.Unwanted || res.Body.Len() > 0 || res.Wire.Coded != nil {
			t.Errorf("%q: %+v, %v", tt.media, res, err)
		}
	}
}

// TestWireBroken: of a body that breaks off, or is too large, what came is kept, and the head has
// its length.
func TestWireBroken(t *testing.T) {
	t.Parallel()
	text := page(50_000)
	zip := encode(t, "gzip", text)
	half := string(zip[:len(zip)/2])
	const start = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
	for _, tt := range []struct {
		name, head, body string
		kept             string // of the head; %d is the length
		length           int    // of the body as kept
		coded            bool
		limit            int64
	}{
		{"plain", "Content-Length: 5\r\n", "abc", "X-Archive-Orig-Content-Length: 5\r\nContent-Length: %d\r\n", 3, false, 0},
		{"chunked", "Transfer-Encoding: chunked\r\n", "5\r\nabc", "X-Archive-Orig-Transfer-Encoding: chunked\r\nContent-Length: %d\r\n", 3, false, 0},
		{
			"gzip", "Content-Encoding: gzip\r\nContent-Length: 99999\r\n", half,
			"Content-Encoding: gzip\r\nX-Archive-Orig-Content-Length: 99999\r\nContent-Length: %d\r\n", len(half), true, 0,
		},
		{
			"gzip, the end missing", "Content-Encoding: gzip\r\nContent-Length: " + strconv.Itoa(len(half)) + "\r\n", half,
			"Content-Encoding: gzip\r\nContent-Length: %d\r\n", len(half), true, 0,
		},
		{
			"too large", "Content-Length: 50000\r\n", string(text),
			"X-Archive-Orig-Content-Length: 50000\r\nContent-Length: %d\r\n", 1000, false, 1000,
		},
		{
			"too large when decoded", "Content-Encoding: gzip\r\nContent-Length: " + strconv.Itoa(len(zip)) + "\r\n", string(zip),
			"Content-Encoding: gzip\r\nContent-Length: %d\r\n", len(zip), true, 1000,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := serveRaw(t, func(int) (string, bool) { return start + tt.head + "\r\n" + tt.body, false })
			c := newClient(t, Options{Wire: true})
			res, err := c.Get(t.Context(), s.url+"/", Request{KeepBroken: true, KeepLarge: true, MaxSize: tt.limit})
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Release()
			kept := res.Body
			if tt.coded {
				kept = res.Wire.Coded
			}
			if want := start + fmt.Sprintf(tt.kept, tt.length) + "\r\n"; string(res.Wire.Head) != want {
				t.Errorf("head %q, want %q", res.Wire.Head, want)
			}
			if !res.Truncated || kept.Len() != int64(tt.length) || !bytes.HasSuffix([]byte(tt.body), kept.Bytes()) && !bytes.HasPrefix([]byte(tt.body), kept.Bytes()) {
				t.Errorf("%d bytes, truncated %v", kept.Len(), res.Truncated)
			}
			if tt.coded && !bytes.HasPrefix(text, res.Body.Bytes()) {
				t.Errorf("%d bytes decoded", res.Body.Len())
			}
		})
	}
}

// TestWireSecrets: of what is sent to seeds and by cookies only the names are kept.
func TestWireSecrets(t *testing.T) {
	t.Parallel()
	s := serveRaw(t, func(int) (string, bool) {
		return "HTTP/1.1 200 OK\r\nSet-Cookie: session=secret3\r\nContent-Length: 0\r\n\r\n", true
	})
	h2 := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" || r.Header.Get("X-Token") != "secret1" || r.Proto != "HTTP/2.0" {
			t.Errorf("asked by %s with %v", r.Proto, r.Header)
		}
		w.Header().Set("Set-Cookie", "session=secret3")
	}))
	h2.EnableHTTP2 = true
	h2.StartTLS()
	t.Cleanup(h2.Close)
	seed := true
	c := newClient(t, Options{
		Wire: true, UserAgent: "test", User: "secret4", Password: "secret5", Insecure: true,
		Header:     http.Header{"x-token": {"secret1", "secret1"}, "User-Agent": {"secret6"}, "Accept-Encoding": {"magic"}},
		Cookies:    []*http.Cookie{{Name: "login", Value: "secret2", Domain: "127.0.0.1", Path: "/"}},
		SeedOrigin: func(string) bool { return seed }, SeedHost: func(string) bool { return true },
		Logins: map[string]*url.Userinfo{s.url: url.UserPassword("me", "secret7")},
	})
	want := "GET / HTTP/1.1\r\nHost: %s\r\nUser-Agent: -\r\nAccept: " + defaultAccept +
		"\r\nAccept-Encoding: gzip, br\r\nAuthorization: -\r\nCookie: -\r\nX-Token: -\r\nX-Token: -\r\n\r\n"
	for _, u := range []string{s.url, s.url, h2.URL, h2.URL} {
		res, err := c.Get(t.Context(), u+"/", Request{})
		if err != nil {
			t.Fatal(err)
		}
		host := u[strings.Index(u, "//")+2:]
		if got := string(res.Wire.Request); got != fmt.Sprintf(want, host) {
			t.Errorf("request %q, want %q", got, fmt.Sprintf(want, host))
		}
	}
	if n := strings.Count(s.last(), "secret"); n != 5 {
		t.Errorf("%d secrets in %q", n, s.last())
	}
	seed = false // the cookies and the login go there all the same
	res, err := c.Get(t.Context(), s.url+"/", Request{})
	if err != nil || strings.Contains(string(res.Wire.Request), "secret") || !strings.Contains(string(res.Wire.Request), "User-Agent: test\r\n") {
		t.Errorf("request %q, %v", res.Wire.Request, err)
	}

	// Without cookies and logins requests share their headers.
	plain := newClient(t, Options{Wire: true, Header: http.Header{"X-Token": {"secret1"}}, SeedOrigin: func(string) bool { return true }})
	for range 2 {
		if _, err := plain.Get(t.Context(), s.url+"/", Request{}); err != nil || !strings.Contains(s.last(), "X-Token: secret1\r\n") {
			t.Errorf("sent %q, %v", s.last(), err)
		}
	}
}

// TestWireAgent: without a name of ours, the one of net/http is kept, which is another by HTTP/2.
func TestWireAgent(t *testing.T) {
	t.Parallel()
	for _, http1 := range []bool{false, true} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Via", r.UserAgent())
		}))
		s.EnableHTTP2 = true
		s.StartTLS()
		t.Cleanup(s.Close)
		c := newClient(t, Options{Wire: true, Insecure: true, HTTP1: http1})
		res, err := c.Get(t.Context(), s.URL+"/", Request{})
		if err != nil {
			t.Fatal(err)
		}
		if want := "\r\nUser-Agent: " + res.Header.Get("Via") + "\r\n"; !strings.Contains(string(res.Wire.Request), want) {
			t.Errorf("request %q, want %q", res.Wire.Request, want)
		}
	}
}

// TestWireSource: what Options.Source answers is written down.
func TestWireSource(t *testing.T) {
	t.Parallel()
	zip := encode(t, "gzip", page(5000))
	c := newClient(t, Options{Wire: true, Source: func(context.Context, string) (*http.Response, error) {
		return &http.Response{
			StatusCode: 200, ContentLength: -1, Body: io.NopCloser(bytes.NewReader(zip)),
			Header: http.Header{"X": {"a\r\nb"}, "Content-Encoding": {"gzip"}, "Content-Length": {"7"}, "Content-Type": {"text/html"}},
		}, nil
	}})
	before := time.Now()
	res, err := c.Get(t.Context(), "http://a.test/", Request{})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Release()
	w := res.Wire
	want := "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nX-Archive-Orig-Content-Length: 7\r\nContent-Type: text/html\r\nX: a  b\r\nContent-Length: " +
		strconv.Itoa(len(zip)) + "\r\n\r\n"
	if string(w.Head) != want || w.Request != nil || w.Protocol != "" || w.Addr.IsValid() || w.Sent.Before(before) || !bytes.Equal(w.Coded.Bytes(), zip) {
		t.Errorf("got %q, want %q: %+v", w.Head, want, w)
	}
}

// TestNoWire: nothing is kept unless asked for.
func TestNoWire(t *testing.T) {
	s := serveRaw(t, func(int) (string, bool) {
		return "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + string(encode(t, "gzip", page(5000))), false
	})
	c := newClient(t, Options{})
	res, err := c.Get(t.Context(), s.url+"/", Request{})
	if err != nil || res.Wire != nil || res.Body.coded != nil {
		t.Errorf("%+v, %v", res, err)
	}
	res.Body.Release()
}
