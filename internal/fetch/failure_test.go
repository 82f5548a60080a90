package fetch

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/net/dns/dnsmessage"
)

// wantFailure checks what is true of every failure, besides its reason.
func wantFailure(t *testing.T, res *Response, err error, reason string, passing bool) {
	t.Helper()
	var e *Error
	if res != nil || !errors.As(err, &e) {
		t.Fatalf("got %v, %v; want a failure", res, err)
	}
	if e.Reason != reason || e.Passing != passing {
		t.Errorf("got %s, passing %v (%v); want %s, %v", e.Reason, e.Passing, err, reason, passing)
	}
	if errors.Is(err, ErrDisk) != (reason == Disk) {
		t.Errorf("errors.Is(%v, ErrDisk) = %v", err, errors.Is(err, ErrDisk))
	}
	text := err.Error()
	unsafe := func(r rune) bool { return !strconv.IsPrint(r) }
	if reason != Panic && (!utf8.ValidString(text) || strings.ContainsFunc(text, unsafe)) {
		t.Errorf("%q is not fit to be shown", text)
	}
	if len(text) > 5000 && reason != Panic {
		t.Errorf("a text of %d bytes", len(text))
	}
}

func TestFailures(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
	for _, tt := range []struct {
		name    string
		answer  func(net.Conn, string)
		reason  string
		passing bool
	}{
		{"closed without a byte", say(""), Reset, true},
		{"closed in the header", say("HTTP/1.1 200 OK\r\nX: y\r\n"), Reset, true},
		{"reset without a byte", sayAndReset(""), Reset, true},
		{"reset in the body", sayAndReset(ok + "Content-Length: 100000\r\n\r\nabc"), Reset, true},
		{"shorter than its length", say(ok + "Content-Length: 100\r\n\r\nabc"), Truncated, true},
		{"chunk cut", say(ok + "Transfer-Encoding: chunked\r\n\r\n10\r\nabc"), Truncated, true},
		{"last chunk missing", say(ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"), Truncated, true},
		{"gzip cut", say(ok + "Content-Encoding: gzip\r\n\r\n" + string(encode(t, "gzip", page(5000))[:50])), Truncated, true},
		{"silent", sayAndHold(""), Timeout, true},
		{"silent in the header", sayAndHold("HTTP/1.1 200 OK\r\nContent-T"), Timeout, true},
		{"silent in the body", sayAndHold(ok + "Content-Length: 100\r\n\r\nabc"), Timeout, true},
		{"header without end", drip("HTTP/1.1 200 OK\r\n", "x"), Timeout, true},
		{"body without end", drip(ok+"\r\n", "x"), Timeout, true},
		{"long header line", say("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n"), Header, false},
		{"header line of 80 KiB", say("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 80<<10) + "\r\n\r\n"), Header, false},
		{"1,001 header lines", say("HTTP/1.1 200 OK\r\n" + strings.Repeat("X:\n", 1001) + "\r\n"), Header, false},
		{"many header lines", say("HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 1<<17) + "\r\n"), Header, false},
		{"no status line", say("<html>old</html>"), Protocol, false},
		{"status is no number", say("HTTP/1.1 abc\r\n\r\n"), Protocol, false},
		{"two lengths", say(ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"), Protocol, false},
		{"negative length", say(ok + "Content-Length: -5\r\n\r\nab"), Protocol, false},
		{"too large by its header", sayAndHold(ok + "Content-Length: 100001\r\n\r\n"), TooLarge, false},
		{"too large by its bytes", say(ok + "\r\n" + strings.Repeat("x", 100001)), TooLarge, false},
		{"a coding of others", say(ok + "Content-Encoding: compress\r\n\r\n\x1f\x9d\x90"), Coding, false},
		{"four codings", say(ok + "Content-Encoding: br, br, br, br\r\n\r\nabc"), Coding, false},
		{"not gzip", say(ok + "Content-Encoding: gzip\r\n\r\n" + strings.Repeat("abc", 100)), Coding, false},
		{"not deflate", say(ok + "Content-Encoding: deflate\r\n\r\n\xff\xff\xff\xff"), Coding, false},
		{"not brotli", say(ok + "Content-Encoding: br\r\n\r\n" + strings.Repeat("\xff", 100)), Coding, false},
		{"escapes in the status", say("HTTP/1.1 2\x1b[1m0\xff \x1b]0;x\a\r\n\r\n"), Protocol, false},
		{"escapes in a header line", say("HTTP/1.1 200 OK\r\nbad \x1b[31m line\u202e\r\n\r\n"), Protocol, false},
		{"escapes in a length", say("HTTP/1.1 200 OK\r\nContent-Length: \x1b[31m\r\n\r\n"), Protocol, false},
		{"escapes in a transfer coding", say("HTTP/1.1 200 OK\r\nTransfer-Encoding: \x1b[31m\xff\r\n\r\n"), Protocol, false},
		// net/http reads no other transfer coding than one chunked.
		{"chunked twice", say(ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), Protocol, false},
		{"chunked twice in one line", say(ok + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"), Protocol, false},
		{"transfer coding identity", say(ok + "Transfer-Encoding: identity\r\n\r\nabc"), Protocol, false},
		{"transfer coding gzip", say(ok + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"), Protocol, false},
		{"long and without a colon", say("HTTP/1.1 200 OK\r\n" + strings.Repeat("\u202e", 20000) + "\r\n\r\n"), Protocol, false},
		{"not zstd", say(ok + "Content-Encoding: zstd\r\n\r\n" + strings.Repeat("abc", 100)), Coding, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, Options{Timeout: 5 * time.Second, MaxSize: 100000})
			if tt.reason == Timeout {
				c.limits.whole = 100 * time.Millisecond
			}
			res, err := c.Get(t.Context(), rawServe(t, tt.answer)+"/", Request{})
			wantFailure(t, res, err, tt.reason, tt.passing)
		})
	}
}

func TestFailuresOfConnecting(t *testing.T) {
	closed := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return l.Addr().String()
	}()
	plain := serve(t, func(http.ResponseWriter, *http.Request) {})
	https := httptest.NewUnstartedServer(http.NotFoundHandler())
	https.Config.ErrorLog = nolog
	https.StartTLS()
	t.Cleanup(https.Close)
	resolver := nameServer(t, map[string]dnsmessage.RCode{
		"gone.test.":  dnsmessage.RCodeNameError,
		"lame.test.":  dnsmessage.RCodeServerFailure,
		"local.test.": dnsmessage.RCodeSuccess,
	})
	for _, tt := range []struct {
		name, url string
		reason    string
		passing   bool
	}{
		{"nobody listens", "http://" + closed + "/", Connect, true},
		{"name does not exist", "http://gone.test/", DNS, false},
		{"name server fails", "http://lame.test/", DNS, true},
		{"certificate unknown", https.URL + "/", TLSSelfSigned, false},
		{"not TLS", strings.Replace(plain, "http:", "https:", 1) + "/", TLSPlainHTTP, false},
		{"not a URL", "a/b", Protocol, false},
		{"not the web", "ftp://127.0.0.1/", Protocol, false},
		{"no host", "http:///x", Protocol, false},
		{"bad port", "http://127.0.0.1:x/", Protocol, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, Options{Resolver: resolver})
			res, err := c.Get(t.Context(), tt.url, Request{})
			wantFailure(t, res, err, tt.reason, tt.passing)
		})
	}
}

// nameServer answers for names with a code, and for those that succeed with 127.0.0.1.
func nameServer(t *testing.T, names map[string]dnsmessage.RCode) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { conn.Close(); wg.Wait() })
	wg.Go(func() {
		buf := make([]byte, 2000)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			code, known := names[q.Name.String()]
			if !known {
				code = dnsmessage.RCodeNameError
			}
			answer := dnsmessage.Message{
				Header:    dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true, RCode: code},
				Questions: m.Questions,
			}
			if code == dnsmessage.RCodeSuccess && q.Type == dnsmessage.TypeA {
				answer.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 0},
					Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
				}}
			}
			packed, err := answer.Pack()
			if err != nil {
				t.Errorf("answer for %s: %v", q.Name, err)
				return
			}
			_, _ = conn.WriteTo(packed, from)
		}
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func TestEndOfContextIsNoFailure(t *testing.T) {
	arrived := make(chan struct{})
	url := rawServe(t, func(c net.Conn, request string) {
		close(arrived)
		sayAndHold("")(c, request)
	})
	c := newClient(t, Options{})
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-arrived
		cancel(stop)
	}()
	if res, err := c.Get(ctx, url+"/", Request{}); res != nil || err != stop {
		t.Errorf("got %v, %v; want the cause of the context", res, err)
	}
}

// badTemp fails at one of its methods.
type badTemp struct{ at string }

var errFull = errors.New("full")

func (b badTemp) Name() string { return "bad" }

func (b badTemp) Discard() error { return nil }

func (b badTemp) Write(p []byte) (int, error) {
	switch b.at {
	case "write":
		return 0, errFull
	case "panic":
		panic("defect")
	}
	return len(p), nil
}

func (b badTemp) Bytes() ([]byte, error) {
	if b.at == "map" {
		return nil, errFull
	}
	return []byte{}, nil
}

func TestFailuresOfLargeBodies(t *testing.T) {
	large := page(maxBuffer + 1)
	for _, coding := range []string{"", "gzip"} {
		body := encode(t, coding, large)
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Content-Encoding", coding)
			_, _ = w.Write(body)
		})
		for _, tt := range []struct {
			at, reason string
			passing    bool
		}{
			{"create", Disk, false},
			{"write", Disk, false},
			{"map", Disk, false},
			{"panic", Panic, false},
			{"nowhere", TooLarge, true},
		} {
			t.Run(coding+" "+tt.at, func(t *testing.T) {
				c := newClient(t, Options{})
				c.opts.Temp = func() (Temp, error) {
					if tt.at == "create" {
						return nil, errFull
					}
					return badTemp{tt.at}, nil
				}
				if tt.at == "nowhere" {
					c.opts.Temp = nil
				}
				for range cap(c.coders) + 1 { // no decoder may get lost
					res, err := c.Get(t.Context(), url+"/", Request{})
					wantFailure(t, res, err, tt.reason, tt.passing)
					if tt.reason == Disk && !errors.Is(err, errFull) {
						t.Errorf("%v does not tell its cause", err)
					}
				}
			})
		}
	}
}

func TestKeepBroken(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
	text := page(5000)
	zipped := encode(t, "gzip", text)
	deflated, brotli, zstd := encode(t, "deflate", text), encode(t, "br", text), encode(t, "zstd", text)
	both := encode(t, "gzip", deflated)
	for _, tt := range []struct {
		name   string
		answer func(net.Conn, string)
		least  int // bytes that must be kept
	}{
		{"length", say(head + "Content-Length: 9999\r\n\r\n" + string(text)), len(text)},
		{"chunked", say(head + "Transfer-Encoding: chunked\r\n\r\n3\r\n" + string(text[:3]) + "\r\n"), 3},
		{"reset", sayAndReset(head + "Content-Length: 9999\r\n\r\n" + string(text)), 0},
		{"gzip without its end", say(head + "Content-Encoding: gzip\r\n\r\n" + string(zipped[:len(zipped)-8])), len(text)},
		{"gzip in its header", say(head + "Content-Encoding: gzip\r\n\r\n" + string(zipped[:5])), 0},
		{"gzip in the middle", say(head + "Content-Encoding: gzip\r\n\r\n" + string(zipped[:len(zipped)/2])), 1000},
		{"gzip in the middle, chunked", say(head + "Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n" + string(zipped[:1000])), 1000},
		{"deflate", say(head + "Content-Encoding: deflate\r\n\r\n" + string(deflated[:len(deflated)/2])), 1000},
		{"brotli", say(head + "Content-Encoding: br\r\n\r\n" + string(brotli[:len(brotli)/2])), 1000},
		{"zstd without its end", say(head + "Content-Encoding: zstd\r\n\r\n" + string(zstd[:len(zstd)-4])), 0},
		{"gzip over deflate", say(head + "Content-Encoding: deflate, gzip\r\n\r\n" + string(both[:len(both)/2])), 1000},
		{"gzip in its header over deflate", say(head + "Content-Encoding: deflate, gzip\r\n\r\n" + string(both[:5])), 0},
		{"gzip and length", say(head + "Content-Encoding: gzip\r\nContent-Length: 9999\r\n\r\n" + string(zipped[:len(zipped)-8])), len(text)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, Options{})
			res, err := c.Get(t.Context(), rawServe(t, tt.answer)+"/", Request{KeepBroken: true})
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Release()
			got := string(res.Body.Bytes())
			if !res.Truncated || len(got) < tt.least || !strings.HasPrefix(string(text), got) {
				t.Errorf("got %d bytes, truncated %v; want at least %d of the beginning", len(got), res.Truncated, tt.least)
			}
		})
	}
}

func TestKeepLarge(t *testing.T) {
	text := page(maxBuffer + 100_000)
	for _, coding := range []string{"", "gzip", "br"} {
		body := encode(t, coding, text)
		for _, limit := range []int64{1, firstBuffer, maxBuffer, maxBuffer + 1, int64(len(text)) - 1, int64(len(text))} {
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				w.Header().Set("Content-Encoding", coding)
				_, _ = w.Write(body)
			})
			c := newClient(t, Options{})
			res, err := c.Get(t.Context(), url+"/", Request{KeepLarge: true, MaxSize: limit})
			if err != nil {
				t.Fatalf("%q, limit %d: %v", coding, limit, err)
			}
			// What is coded may pass the limit already before it is decoded; then less is kept.
			got := res.Body.Bytes()
			if coding == "" && int64(len(got)) != limit || int64(len(got)) > limit || !strings.HasPrefix(string(text), string(got)) {
				t.Errorf("%q, limit %d: got %d bytes", coding, limit, len(got))
			}
			if res.Truncated != (len(got) < len(text)) {
				t.Errorf("%q, limit %d: truncated %v", coding, limit, res.Truncated)
			}
			res.Body.Release()
		}
	}
}

// TestCutBodyEndsItsConnection: what lies behind the limit is not read, however much it is.
func TestCutBodyEndsItsConnection(t *testing.T) {
	for _, coding := range []string{"", "gzip"} {
		t.Run(coding, func(t *testing.T) {
			ended := make(chan struct{}, 2)
			url := rawServe(t, func(c net.Conn, _ string) {
				_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1000000000000\r\nContent-Encoding: "+coding+"\r\n\r\n")
				block := encode(t, coding, page(64<<10))
				for err == nil {
					_, err = c.Write(block)
				}
				ended <- struct{}{}
			})
			c := newClient(t, Options{Timeout: time.Minute})
			for range 2 {
				res, err := c.Get(t.Context(), url+"/", Request{KeepLarge: true, MaxSize: 100_000})
				if err != nil {
					t.Fatal(err)
				}
				if !res.Truncated || res.Body.Len() != 100_000 {
					t.Errorf("got %d bytes, truncated %v", res.Body.Len(), res.Truncated)
				}
				res.Body.Release()
				receive(t, ended) // while the client is still open
			}
		})
	}
}

func TestUnwantedIsNotRead(t *testing.T) {
	endless := func(media string) func(net.Conn, string) {
		return func(c net.Conn, _ string) {
			_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n"+media+"\r\nID3\x03"+strings.Repeat("\x00", 600))
			block := make([]byte, 32<<10)
			for err == nil {
				_, err = c.Write(block)
			}
		}
	}
	for _, tt := range []struct{ name, header, media string }{
		{"by header", "Content-Type: audio/mpeg\r\n", "audio/mpeg"},
		{"by its bytes", "", "audio/mpeg"},
		{"by its bytes, header vague", "Content-Type: application/octet-stream\r\n", "audio/mpeg"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, Options{})
			wants := func(media string) bool { return media == "text/html" }
			res, err := c.Get(t.Context(), rawServe(t, endless(tt.header))+"/", Request{Wants: wants})
			if err != nil {
				t.Fatal(err)
			}
			if !res.Unwanted || res.Media != tt.media || res.Body.Len() != 0 {
				t.Errorf("got %q, unwanted %v, %d bytes", res.Media, res.Unwanted, res.Body.Len())
			}
			res.Body.Release()
		})
	}
}
