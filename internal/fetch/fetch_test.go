package fetch

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var nolog = log.New(io.Discard, "", 0)

func TestStatuses(t *testing.T) {
	for _, tt := range []struct {
		status   int
		location string // that the client reports
		body     string
	}{
		{200, "", "x"},
		{203, "", "x"},
		{204, "", ""},
		{205, "", ""},
		{206, "", "x"},
		{299, "", "x"},
		{300, "", ""},
		{301, "/there#x", ""},
		{302, "/there#x", ""},
		{303, "/there#x", ""},
		{304, "", ""},
		{307, "/there#x", ""},
		{308, "/there#x", ""},
		{404, "", ""},
		{418, "", ""},
		{500, "", ""},
		{520, "", ""},
		{999, "", ""},
	} {
		t.Run(fmt.Sprint(tt.status), func(t *testing.T) {
			var asked []string
			addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
				asked = append(asked, r.URL.Path)
				w.Header().Set("Location", "/there#x")
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(tt.status)
				if tt.status != 204 && tt.status != 205 && tt.status != 304 {
					_, _ = io.WriteString(w, "x")
				}
			})
			c := newClient(t, Options{})
			res, err := c.Get(t.Context(), addr+"/here", Request{})
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Release()
			if res.Status != tt.status || res.Location != tt.location || string(res.Body.Bytes()) != tt.body {
				t.Errorf("got %d, %q, %q", res.Status, res.Location, res.Body.Bytes())
			}
			if res.RetryAfter != 7*time.Second {
				t.Errorf("retry after %v", res.RetryAfter)
			}
			if !slices.Equal(asked, []string{"/here"}) {
				t.Errorf("asked for %q; redirects are not followed", asked)
			}
		})
	}
}

// TestDroppedBodies checks that an answer whose body is dropped ends soon, whatever its body does.
func TestDroppedBodies(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer func(net.Conn, string)
	}{
		{"silent", sayAndHold("HTTP/1.1 404 Not Found\r\n\r\nabc")},
		{"cut", say("HTTP/1.1 404 Not Found\r\nContent-Length: 100\r\n\r\nabc")},
		{"large", sayAndHold("HTTP/1.1 404 Not Found\r\nContent-Length: 1000000000\r\n\r\nabc")},
		{"endless", drip("HTTP/1.1 404 Not Found\r\n\r\n", strings.Repeat("x", 16<<10))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, Options{Timeout: time.Minute})
			res, err := c.Get(t.Context(), rawServe(t, tt.answer)+"/", Request{})
			if err != nil || res.Status != 404 || res.Body.Len() != 0 {
				t.Errorf("got %+v, %v", res, err)
			}
		})
	}
}

func TestConnectionIsUsedAgain(t *testing.T) {
	var mu sync.Mutex
	conns := map[string]bool{}
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		conns[r.RemoteAddr] = true
		mu.Unlock()
		switch r.URL.Path {
		case "/404":
			w.WriteHeader(404)
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(encode(t, "gzip", page(1000)))
			return
		case "/image":
			w.Header().Set("Content-Type", "image/png")
		}
		_, _ = w.Write(page(20000))
	})
	c := newClient(t, Options{})
	wants := func(media string) bool { return media == "text/html" }
	for _, path := range []string{"/", "/404", "/gzip", "/image", "/"} {
		res, err := c.Get(t.Context(), addr+path, Request{Wants: wants})
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Release()
	}
	if len(conns) != 1 {
		t.Errorf("%d connections, want 1", len(conns))
	}
}

func TestHTTP2(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("asked by %s", r.Proto)
		}
		switch r.URL.Path {
		case "/cut":
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "x")
			panic(http.ErrAbortHandler)
		case "/header":
			w.Header().Set("X", strings.Repeat("x", 2*maxHeader))
			return
		}
		_, _ = w.Write(page(100_000))
	}))
	s.Config.ErrorLog = nolog
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	c := newClient(t, Options{Insecure: true})
	res, err := c.Get(t.Context(), s.URL+"/", Request{})
	if err != nil || string(res.Body.Bytes()) != string(page(100_000)) {
		t.Fatalf("got %+v, %v", res, err)
	}
	res.Body.Release()
	res, err = c.Get(t.Context(), s.URL+"/cut", Request{})
	wantFailure(t, res, err, Reset, true)
	res, err = c.Get(t.Context(), s.URL+"/header", Request{})
	wantFailure(t, res, err, Header, false)
}

// TestTargetIsSentAsSpelt covers what net/url would change or refuse.
func TestTargetIsSentAsSpelt(t *testing.T) {
	var line string
	direct := rawServe(t, func(c net.Conn, request string) {
		line = request
		say("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")(c, request)
	})
	host := strings.TrimPrefix(direct, "http://")
	proxy, _ := url.Parse(direct)
	plain := newClient(t, Options{})
	proxied := newClient(t, Options{Proxy: proxy})
	for _, tt := range []struct{ rest, want string }{
		{"", "/"},
		{"/", "/"},
		{"?x", "/?x"},
		{"/a/?", "/a/?"},
		{"/a?x=%zz&y=a?b|c", "/a?x=%zz&y=a?b|c"},
		{"/a#fragment", "/a"},
		{"/%zz", "/%zz"},
		{"/a%2fb/%C3%A9%20", "/a%2fb/%C3%A9%20"},
		{"/a|b[c]'d(e);f=g,h@i:j!k$l&m*n+o~p", "/a|b[c]'d(e);f=g,h@i:j!k$l&m*n+o~p"},
		{"//two/slashes", "//two/slashes"},
		{"/a//b/../c", "/a//b/../c"},
	} {
		for name, c := range map[string]*Client{"direct": plain, "by proxy": proxied} {
			if _, err := c.Get(t.Context(), direct+tt.rest, Request{}); err != nil {
				t.Errorf("%s %q: %v", name, tt.rest, err)
				continue
			}
			got := strings.TrimSuffix(strings.TrimPrefix(line, "GET "), " HTTP/1.1\r\n")
			absolute := "http://" + host + tt.want
			if got != absolute && (got != tt.want || name == "by proxy") {
				t.Errorf("%s %q: asked for %q", name, tt.rest, got)
			}
		}
	}
	// A path that could be taken for a host goes in the absolute form, which every server reads.
	for _, path := range []string{"//two/sla|shes"} {
		if _, err := plain.Get(t.Context(), direct+path, Request{}); err != nil {
			t.Fatal(err)
		}
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(line + "\r\n")))
		if err != nil || r.URL.Path != path || r.Host != host {
			t.Errorf("%q: sent as %q", path, line)
		}
	}
}

func TestSecretsGoToSeedsOnly(t *testing.T) {
	var got *http.Request
	answer := func(w http.ResponseWriter, r *http.Request) { got = r }
	seed := serve(t, answer)
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Skip("only one loopback address here")
	}
	other := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(answer)}}
	other.Start()
	t.Cleanup(other.Close)
	port, login := serve(t, answer), serve(t, answer)
	secure := httptest.NewTLSServer(http.HandlerFunc(answer))
	t.Cleanup(secure.Close)

	cookies, err := ParseCookies([]byte(strings.Join([]string{
		"# Netscape HTTP Cookie File",
		"127.0.0.1\tFALSE\t/\tFALSE\t0\tsid\tsecret",
		"#HttpOnly_127.0.0.1\tFALSE\t/\tFALSE\t99999999999\thidden\ttoo",
		"127.0.0.1\tFALSE\t/deep\tFALSE\t0\tdeep\t1",
		"127.0.0.1\tFALSE\t/\tFALSE\t1\texpired\t1",
		"127.0.0.2\tFALSE\t/\tFALSE\t0\tsid\tother",
	}, "\n")), noBad(t))
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, Options{
		UserAgent: "agent/1",
		Header:    http.Header{"X-Key": {"k"}},
		User:      "u", Password: "p",
		Cookies: cookies, Insecure: true,
		SeedHost:   func(host string) bool { return host == "127.0.0.1" },
		SeedOrigin: func(origin string) bool { return origin == seed },
		Logins:     map[string]*url.Userinfo{login: url.UserPassword("their", "own")},
	})
	for _, tt := range []struct {
		name, url string
		user      string
		cookies   string
	}{
		{"seed", seed + "/", "u", "hidden=too sid=secret"},
		{"deep", seed + "/deep/x", "u", "deep=1 hidden=too sid=secret"},
		{"other", other.URL + "/", "", ""},
		{"other port", port + "/", "", "hidden=too sid=secret"},
		{"other scheme", secure.URL + "/", "", "hidden=too sid=secret"},
		{"with a login of its own", login + "/", "their", "hidden=too sid=secret"},
		{"seed once more", seed + "/", "u", "hidden=too sid=secret"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := c.Get(t.Context(), tt.url, Request{Accept: "text/plain"}); err != nil {
				t.Fatal(err)
			}
			user, _, _ := got.BasicAuth()
			if user != tt.user || (got.Header.Get("X-Key") == "k") != (user == "u") {
				t.Errorf("sent %v", got.Header)
			}
			var names []string
			for _, c := range got.Cookies() {
				names = append(names, c.Name+"="+c.Value)
			}
			slices.Sort(names)
			if s := strings.Join(names, " "); s != tt.cookies {
				t.Errorf("cookies %q, want %q", s, tt.cookies)
			}
			if got.UserAgent() != "agent/1" || got.Header.Get("Accept") != "text/plain" {
				t.Errorf("sent %v", got.Header)
			}
		})
	}
}

// What one request gets by itself, such as cookies, comes into no other one.
func TestHeadersAreApart(t *testing.T) {
	var mu sync.Mutex
	sent := map[string]string{} // by path
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		sent[r.URL.Path] = r.Header.Get("Accept") + " | " + r.Header.Get("X-Key") + " | " + r.Header.Get("Cookie")
		mu.Unlock()
		http.SetCookie(w, &http.Cookie{Name: "of", Value: r.URL.Path[1:], Path: r.URL.Path})
	})
	c := newClient(t, Options{Header: http.Header{"X-Key": {"k"}}, SeedOrigin: func(origin string) bool { return strings.HasPrefix(origin, "http://127.0.0.1:") }})
	for range 3 { // from the second time on with a cookie
		var wg sync.WaitGroup
		for _, path := range []string{"/a", "/b", "/c"} {
			wg.Go(func() {
				if _, err := c.Get(t.Context(), addr+path, Request{}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	for _, name := range []string{"a", "b", "c"} {
		if got, want := sent["/"+name], defaultAccept+" | k | of="+name; got != want {
			t.Errorf("sent %q, want %q", got, want)
		}
	}
}

func TestPartial(t *testing.T) {
	for _, tt := range []struct {
		status int
		ranges string
		want   bool
	}{
		{200, "bytes 5-9/10", false},
		{206, "bytes 0-9/10", false},
		{206, "Bytes 0-0/1", false},
		{206, "bytes 0-9/10 ", false},
		{206, "bytes 0-8/10", true},
		{206, "bytes 1-9/10", true},
		{206, "bytes 0-9/*", true},
		{206, "bytes */10", true},
		{206, "bytes 0--1/0", true},
		{206, "bytes 0-9223372036854775807/-9223372036854775808", true},
		{206, "lines 0-9/10", true},
		{206, "", true},
	} {
		res := Response{Status: tt.status, Header: http.Header{"Content-Range": {tt.ranges}}}
		if got := res.Partial(); got != tt.want {
			t.Errorf("%d with %q: %v, want %v", tt.status, tt.ranges, got, tt.want)
		}
	}
}

func TestMediaType(t *testing.T) {
	for _, tt := range []struct {
		header, body   string
		media, charset string
	}{
		{"text/html", "x", "text/html", ""},
		{"Text/HTML; Charset=\"UTF-8\"", "x", "text/html", "utf-8"},
		{"text/html;;charset='latin1' ; q", "x", "text/html", "latin1"},
		{"text/html, text/html", "x", "text/html", ""},
		{"text/html", "\x89PNG\x0d\x0a\x1a\x0a", "text/html", ""},
		{"text/plain", "<html>", "text/plain", ""},
		{"", "<!doctype html>x", "text/html", ""},
		{"", "  \n<!-- c --><HTML>", "text/html", ""},
		{"", "plain", "text/plain", ""},
		{"html", "<html>", "text/html", ""},
		{"text/", "<html>", "text/html", ""},
		{"te xt/html; charset=x", "<html>", "text/html", "x"},
		{"application/octet-stream", "<html>", "text/html", ""},
		{"application/octet-stream", "\x00\x01", "application/octet-stream", ""},
		{"", "\x89PNG\x0d\x0a\x1a\x0a", "image/png", ""},
		{"", "", "text/plain", ""},
	} {
		for _, coding := range []string{"", "gzip"} {
			t.Run(tt.header+" "+tt.body+" "+coding, func(t *testing.T) {
				body := encode(t, coding, []byte(tt.body))
				addr := rawServe(t, say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s",
					tt.header, coding, len(body), body)))
				c := newClient(t, Options{})
				res, err := c.Get(t.Context(), addr+"/", Request{})
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Release()
				if res.Media != tt.media || res.Charset != tt.charset || string(res.Body.Bytes()) != tt.body {
					t.Errorf("got %q, %q, body %q", res.Media, res.Charset, res.Body.Bytes())
				}
			})
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		value string
		want  time.Duration
	}{
		{"", 0},
		{"0", 0},
		{" 120 ", 2 * time.Minute},
		{"-5", 0},
		{"1.5", 0},
		{"soon", 0},
		{"9223372036854775807", 365 * 24 * time.Hour},
		{"99999999999999999999999", 0},
		{"Fri, 02 Jan 2026 03:05:05 GMT", time.Minute},
		{"Friday, 02-Jan-26 03:05:05 GMT", time.Minute},
		{"Fri, 02 Jan 2026 03:00:00 GMT", 0},
		{"Fri, 02 Jan 2099 03:00:00 GMT", 365 * 24 * time.Hour},
	} {
		if got := retryAfter(tt.value, now); got != tt.want {
			t.Errorf("retryAfter(%q) = %v, want %v", tt.value, got, tt.want)
		}
	}
}
