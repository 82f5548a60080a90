package serve

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"urltree/crawler/weburl"
	"urltree/internal/inspect"
	"urltree/internal/testsite"
	"urltree/iut"
	"urltree/storage/record"
)

// A site is a tree that is served.
type site struct {
	*testsite.Site
	t      *testing.T
	in     *inspect.Inspector
	asked  atomic.Int64 // questions
	server *httptest.Server
}

// serve serves what is below prefix of a tree with a URL in every state.
func serve(t *testing.T, prefix string) *site {
	t.Helper()
	s := &site{Site: testsite.New(t, filepath.Join(t.TempDir(), "iut")), t: t}
	t.Cleanup(s.Close)
	s.in = &inspect.Inspector{
		Index: s.Index, Tree: s.Tree, Canonical: weburl.SeedURL,
		Scope:  func(string) (reason, rule string) { return "", "any URL" },
		Form:   func(string) string { return "" },
		Robots: func(string) (ok bool, line string, known bool) { return false, "", false },
	}
	ask := func(ctx context.Context, q inspect.Question, w io.Writer) error {
		s.asked.Add(1)
		return s.in.Run(ctx, q, w)
	}
	s.server = httptest.NewServer(New(ask, prefix, "mirror.example"))
	t.Cleanup(s.server.Close)
	s.server.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return s
}

// put stores a page.
func (s *site) put(url, media, charset, body string) {
	s.t.Helper()
	page := record.Page{
		Time: 1_800_000_000, Status: 200, Bytes: int64(len(body)), Digest: sha256.Sum256([]byte(body)), Media: media, Charset: charset,
	}
	res, err := s.Tree.Store(&iut.Page{Body: []byte(body), Facts: iut.Facts{URL: url, Source: record.Seed, Page: page}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.Seed(url)
	s.Commit(&record.Outcome{Row: record.Row{URL: url, Source: record.Seed}, State: record.Stored, Page: res.Facts.Page})
}

// get asks the server with header fields, name and value in turn.
func (s *site) get(path string, header ...string) (*http.Response, string) {
	s.t.Helper()
	return s.do(http.MethodGet, path, header...)
}

func (s *site) do(method, path string, header ...string) (*http.Response, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.server.URL, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.URL.Opaque = path // as it is, uncleaned
	for k := 0; k < len(header); k += 2 {
		if r.Header.Set(header[k], header[k+1]); header[k] == "Host" {
			r.Host = header[k+1]
		}
	}
	res, err := s.server.Client().Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res, string(body)
}

func (s *site) want(res *http.Response, body string, status int, texts ...string) {
	s.t.Helper()
	if res.StatusCode != status {
		s.t.Errorf("%s: status %d, want %d: %s", res.Request.URL.Opaque, res.StatusCode, status, body)
	}
	for _, text := range texts {
		if !strings.Contains(body, text) {
			s.t.Errorf("%s: no %q in\n%s", res.Request.URL.Opaque, text, body)
		}
	}
}

// TestPages: a page comes with its references rewritten, its type and charset, and a policy.
func TestPages(t *testing.T) {
	s := serve(t, "")
	s.put("http://a.example/d/page?x=1", "text/html", "shift_jis", "<base href=/e/><a href='q?a&amp;b#f' target=_blank integrity=i>\x83\x5c</a><img src=//b.example/i><a href=mailto:x><a href=ftp://c.example/x>")
	s.put("http://a.example/s.css", "text/css", "", "a{b:url(i.png)}")
	s.put("http://a.example/i.png", "image/png", "", "0123456789")
	s.put("http://a.example/none", "", "", "x")
	s.put("http://a.example/j.js", "text/javascript", "", "'<a href=x>'")

	res, body := s.get("/page/http://a.example/d/page?x=1")
	s.want(res, body, 200)
	if want := "<base href=\"\"><a href='/page/http://a.example/e/q?a&amp;b#f' target=_self >\x83\x5c</a><img src=/page/http://b.example/i><a href=mailto:x><a href=/page/ftp:%2F%2Fc.example%2Fx>"; body != want {
		t.Errorf("body %q\nwant %q", body, want)
	}
	for path, want := range map[string][3]string{ // Content-Type, Cross-Origin-Resource-Policy, Access-Control-Allow-Origin for a font
		"/page/http://a.example/d/page?x=1": {"text/html; charset=shift_jis", "same-origin", ""},
		"/page/http://a.example/s.css":      {"text/css", "cross-origin", "*"},
		"/page/http://a.example/i.png":      {"image/png", "cross-origin", "*"},
		"/page/http://a.example/j.js":       {"text/javascript", "cross-origin", "*"},
		"/page/http://a.example/none":       {"application/octet-stream", "cross-origin", "*"},
		"/page/http://a.example/missing":    {"text/html; charset=utf-8", "same-origin", ""},
		"/":                                 {"text/html; charset=utf-8", "same-origin", ""},
	} {
		res, _ := s.get(path, "Sec-Fetch-Dest", "font")
		head := res.Header
		got := [3]string{head.Get("Content-Type"), head.Get("Cross-Origin-Resource-Policy"), head.Get("Access-Control-Allow-Origin")}
		if got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
		if head.Get("X-Content-Type-Options") != "nosniff" || head.Get("Referrer-Policy") != "no-referrer" || !strings.HasPrefix(head.Get("Connection-Allowlist"), "(response-origin);") {
			t.Errorf("%s: %v", path, head)
		}
		policy, isPage := head.Get("Content-Security-Policy"), res.StatusCode == 200 && path != "/"
		if strings.HasPrefix(policy, "sandbox allow-scripts allow-downloads; default-src 'none';") != isPage || strings.Contains(policy, "script-src") != isPage || strings.Contains(policy, "same-origin") {
			t.Errorf("%s: policy %q", path, policy)
		}
		if res, _ := s.get(path); res.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: a script may read it", path)
		}
	}
}

// TestRequests: methods but GET and HEAD, and hosts whose name might be made to lead here, are
// refused.
func TestRequests(t *testing.T) {
	s := serve(t, "")
	s.put("http://a.example/", "text/html", "utf-8", "<a href=x>")
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "CONNECT"} {
		if res, _ := s.do(method, "/page/http://a.example/"); res.StatusCode != 405 {
			t.Errorf("%s: status %d", method, res.StatusCode)
		}
	}
	if res, body := s.do("HEAD", "/page/http://a.example/"); res.StatusCode != 200 || body != "" || res.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("HEAD: %d, %q, %v", res.StatusCode, body, res.Header)
	}
	for host, want := range map[string]int{
		"127.0.0.1": 200, "127.0.0.1:99": 200, "localhost:8080": 200, "LOCALHOST": 200, "[::1]:8080": 200, "192.168.1.1:80": 200,
		"mirror.example": 200, "Mirror.Example:8080": 200, "evil.example": 421, "127.0.0.1.evil.example:8080": 421, "a.mirror.example": 421, "localhost.evil": 421,
	} {
		if res, body := s.get("/page/http://a.example/", "Host", host); res.StatusCode != want || want != 200 && strings.Contains(body, "href") {
			t.Errorf("Host %s: status %d, want %d", host, res.StatusCode, want)
		}
	}
}

// TestSpellings: a URL is found however it is typed, with the other scheme and slash; redirects are
// followed by redirects.
func TestSpellings(t *testing.T) {
	s := serve(t, "")
	s.put("https://a.example/x/", "text/html", "utf-8", "x")
	s.put("http://a.example/y?q=/", "text/html", "utf-8", "y")
	s.put("http://a.example/", "text/html", "utf-8", "root")
	s.Seed("http://a.example/old")
	s.Commit(&record.Outcome{Row: record.Row{URL: "http://a.example/old", Source: record.Seed}, State: record.Redirected, Page: record.Page{Status: 301, HeaderLinks: "https://a.example/x/"}})
	for spelt, want := range map[string]string{
		"https://a.example/x":          "https://a.example/x/",
		"http://a.example/x/":          "https://a.example/x/",
		"a.example/x":                  "https://a.example/x/",
		"http://A.example:80/z/../x":   "https://a.example/x/",
		"https://a.example/y/?q=/":     "http://a.example/y?q=/",
		"https://a.example":            "http://a.example/",
		"http://a.example/old":         "https://a.example/x/",
		"https://a.example/old/":       "http://a.example/old",
		"http://me:secret@a.example/":  "http://a.example/",
		"http://a.example/page/é?x{y":  "http://a.example/page/%C3%A9?x{y",
		"http://a.example/no/./where/": "http://a.example/no/where/",
	} {
		res, body := s.get("/page/" + spelt)
		if got := res.Header.Get("Location"); res.StatusCode != 302 || got != "/page/"+want {
			t.Errorf("%s: %d to %q, want %q: %s", spelt, res.StatusCode, got, want, body)
		}
		res, _ = s.get("/?url=" + strings.NewReplacer(":", "%3A", "?", "%3F", "&", "%26", "=", "%3D", " ", "+").Replace(spelt))
		if got := res.Header.Get("Location"); res.StatusCode != 302 || got != "/page/"+want && spelt != "http://a.example/old" {
			t.Errorf("%s, typed: %d to %q, want %q", spelt, res.StatusCode, got, want)
		}
	}
}

// TestMissing: what is not there is explained as crawler why does, in a page without scripts.
func TestMissing(t *testing.T) {
	s := serve(t, "http://a.example/docs/")
	s.put("http://a.example/docs/", "text/html", "utf-8", "x")
	s.put("http://a.example/other", "text/html", "utf-8", "x")
	s.put("http://a.example/docs/torn", "text/html", "utf-8", "x")
	if _, err := s.Tree.RemoveTorn(iut.Facts{URL: "http://a.example/docs/torn"}, true); err != nil {
		t.Fatal(err)
	}
	s.Seed("http://a.example/docs/gone", "http://a.example/docs/waits")
	s.Fail("http://a.example/docs/gone", record.Failed, "http-4xx")
	for path, want := range map[string]string{
		"/page/http://a.example/docs/gone":               "http://a.example/docs/gone failed: http-4xx",
		"/page/http://a.example/docs/waits":              "http://a.example/docs/waits is open and waits for its turn.",
		"/page/http://a.example/docs/<script>alert(1)//": "",
		"/page/http://a.example/docs/%3Cscript%3E":       "http://a.example/docs/%3Cscript%3E is not known: it is no seed",
		"/page/http://a.example/other":                   "This server shows only what is below http://a.example/docs/.",
		"/page/http://b.example/":                        "This server shows only what is below http://a.example/docs/.",
		"/page/ftp:%2F%2Fc.example%2Fx":                  "This is not an http(s) URL",
		"/page/":                                         "This is not an http(s) URL",
		"/icon.png":                                      "This server has no /icon.png.",
		"/?below=http://a.example/none":                  "only what is below http://a.example/docs/",
		"/?below=http://a.example/docs/none":             "nothing",
	} {
		res, body := s.get(path)
		if want == "" {
			if res.StatusCode != 302 {
				t.Errorf("%s: %d", path, res.StatusCode)
			}
			continue
		}
		s.want(res, body, 404, want)
		if strings.Contains(body, "<script") || strings.Contains(res.Header.Get("Content-Security-Policy"), "script-src") {
			t.Errorf("%s has scripts: %v, %s", path, res.Header, body)
		}
	}
	if res, body := s.get("/?below=nothing%20at%20all&after=zz"); res.StatusCode != 400 {
		t.Errorf("%d: %s", res.StatusCode, body)
	}
}

// TestStart: the start page has seeds and hosts, those of a prefix what is below it, by parts of
// some size; all that the tree knows is found by following them.
func TestStart(t *testing.T) {
	s := serve(t, "")
	want := map[string]bool{}
	add := func(url string) {
		s.put(url, "text/html", "utf-8", "x")
		want[url] = true
	}
	var seeds []string
	for k := range 2*entries + 1 {
		seeds = append(seeds, fmt.Sprintf("http://h%03d.example/", k), fmt.Sprintf("http://many.example/%03d", k))
	}
	s.Seed(seeds...)
	for _, url := range seeds {
		want[url] = true
	}
	for _, url := range []string{
		"https://many.example/", "http://many.example:81/x", "http://sub.many.example/x/y", "http://many.example/?q", "http://many.example/a/b?q=1&r", "http://many.example/a/b/", "http://many.example/a/b/<",
	} {
		url, err := weburl.Canonical(url)
		if err != nil {
			t.Fatal(err)
		}
		add(url)
	}
	found, seen, queue := map[string]bool{}, map[string]bool{}, []string{"/"}
	for len(queue) > 0 {
		res, body := s.get(queue[0])
		queue = queue[1:]
		s.want(res, body, 200)
		if n := strings.Count(body, "<tr>"); n > entries+2 {
			t.Errorf("%d entries on a page", n)
		}
		for _, part := range strings.Split(body, `href="`)[1:] {
			link, _, _ := strings.Cut(part, `"`)
			link = strings.NewReplacer("&amp;", "&", "&#43;", "+").Replace(link)
			if url, ok := strings.CutPrefix(link, "/page/"); ok {
				found[url] = true
			} else if !seen[link] {
				seen[link] = true
				queue = append(queue, link)
			}
		}
	}
	for url := range want {
		if !found[url] {
			t.Errorf("%s is on no page", url)
		}
	}
	if len(found) != len(want) {
		t.Errorf("%d pages, want %d", len(found), len(want))
	}
}

// TestRange: parts of a large page are served by questions for pieces.
func TestRange(t *testing.T) {
	s := serve(t, "")
	body := strings.Repeat("0123456789abcde\n", 3*piece/16) + "end"
	s.put("http://a.example/v.mp4", "video/mp4", "", body)
	s.put("http://a.example/empty", "video/mp4", "", "")
	s.put("http://a.example/v.html", "text/html", "utf-8", body)
	before := s.asked.Load()
	if res, got := s.get("/page/http://a.example/v.mp4"); res.StatusCode != 200 || got != body || res.ContentLength != int64(len(body)) {
		t.Errorf("%d, %d bytes, want %d", res.StatusCode, len(got), len(body))
	}
	if n := s.asked.Load() - before; n != 3 { // of 1, 1 and 2 MiB
		t.Errorf("%d questions, want 3", n)
	}
	if res, got := s.get("/page/http://a.example/v.html"); res.StatusCode != 200 || got != body {
		t.Errorf("%d, %d bytes, want %d", res.StatusCode, len(got), len(body))
	}
	if res, got := s.get("/page/http://a.example/empty"); res.StatusCode != 200 || got != "" {
		t.Errorf("%d, %q", res.StatusCode, got)
	}
	for r, want := range map[string]string{
		"bytes=5-9":             body[5:10],
		"bytes=-3":              "end",
		"bytes=1048570-1048590": body[1048570:1048591],
		"bytes=2500000-":        body[2500000:],
	} {
		if res, got := s.get("/page/http://a.example/v.mp4", "Range", r); res.StatusCode != 206 || got != want {
			t.Errorf("%s: %d, %d bytes, want %d", r, res.StatusCode, len(got), len(want))
		}
	}
	res, _ := s.get("/page/http://a.example/v.mp4", "Range", "bytes=99999999-")
	if res.StatusCode != 416 {
		t.Errorf("beyond the end: %d", res.StatusCode)
	}
	res, _ = s.do("HEAD", "/page/http://a.example/v.mp4")
	if res, _ := s.get("/page/http://a.example/v.mp4", "If-None-Match", res.Header.Get("ETag")); res.StatusCode != 304 {
		t.Errorf("the same again: %d", res.StatusCode)
	}
}

// TestFailures: a tree that is busy or cannot be read is told of, and a page that is cut is no
// whole one.
func TestFailures(t *testing.T) {
	s := serve(t, "")
	s.put("http://a.example/x.html", "text/html", "utf-8", strings.Repeat("x", 2*piece))
	s.put("http://a.example/x.png", "image/png", "", strings.Repeat("x", 2*piece))
	var fail atomic.Pointer[error]
	var after atomic.Int64
	real := s.server.Config.Handler.(*Handler).Ask
	s.server.Config.Handler.(*Handler).Ask = func(ctx context.Context, q inspect.Question, w io.Writer) error {
		if err := fail.Load(); err != nil && after.Add(-1) < 0 {
			return *err
		}
		return real(ctx, q, w)
	}
	for _, tt := range []struct {
		err    error
		status int
	}{{iut.ErrBusy, 503}, {errors.New("the disk is broken"), 500}, {record.ErrCorrupt, 500}} {
		fail.Store(&tt.err)
		for _, path := range []string{"/", "/page/http://a.example/", "/?url=a.example"} {
			after.Store(0)
			res, body := s.get(path)
			s.want(res, body, tt.status, tt.err.Error())
		}
		for _, path := range []string{"x.html", "x.png"} {
			after.Store(1)
			r, err := s.server.Client().Get(s.server.URL + "/page/http://a.example/" + path)
			if err != nil {
				continue
			}
			if _, err := io.ReadAll(r.Body); err == nil {
				t.Errorf("%s: half a page came as a whole one", path)
			}
			r.Body.Close()
		}
	}
}
