package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"urltree/storage"
	"urltree/storage/record"
)

// A recorder notes the requests that a server gets.
type recorder struct {
	page   http.HandlerFunc // nil: an empty page
	robots http.HandlerFunc // nil: there is none

	mu   sync.Mutex
	seen []*http.Request // guarded by mu
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.seen = append(r.seen, req)
	r.mu.Unlock()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	switch {
	case req.URL.Path == "/robots.txt" && r.robots == nil:
		http.NotFound(w, req)
	case req.URL.Path == "/robots.txt":
		r.robots(w, req)
	case r.page != nil:
		r.page(w, req)
	}
}

// requests returns those for a path.
func (r *recorder) requests(path string) []*http.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.seen), func(req *http.Request) bool { return req.URL.Path != path })
}

// A cookie goes as it stands in the file or in the answer, and a bad line of the file is told and
// left out.
func TestCookiesAreSentAsTheyAre(t *testing.T) {
	t.Parallel()
	site := &recorder{page: func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Cookie"), "seen") {
			w.Header().Set("Set-Cookie", `seen[at]={"a":"b,c d"}; Path=/`)
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		}
	}}
	server := httptest.NewServer(site)
	defer server.Close()
	dir := t.TempDir()
	file := "\ufeff127.0.0.1\tFALSE\t/\tFALSE\t4000000000.5\tpr:efs\t\"Köln, x\"\r\nno cookie\r\n"
	if err := os.WriteFile(filepath.Join(dir, "cookies.txt"), []byte(file), 0o666); err != nil {
		t.Fatal(err)
	}
	_, stderr, code := call(t, dir, "-delay", "1ms", "-cookies", "cookies.txt", server.URL+"/")
	if code != 0 || !strings.Contains(stderr, "skipped a line of the cookie file") || !strings.Contains(stderr, "line=2") {
		t.Errorf("exit %d, printed %s", code, stderr)
	}
	var got []string
	for _, r := range site.requests("/") {
		got = append(got, r.Header.Get("Cookie"))
	}
	want := []string{`pr:efs="Köln, x"`, `seen[at]={"a":"b,c d"}; pr:efs="Köln, x"`}
	if !slices.Equal(got, want) {
		t.Errorf("sent %q, want %q", got, want)
	}
}

// A robots.txt whose Content-Encoding names no coding is read.
func TestRobotsWithoutCoding(t *testing.T) {
	t.Parallel()
	encoding := func(w http.ResponseWriter) { w.Header().Set("Content-Encoding", "UTF-8") }
	site := &recorder{
		page: func(w http.ResponseWriter, r *http.Request) {
			encoding(w)
			fmt.Fprint(w, "<a href=/yes>y</a><a href=/no>n</a>")
		},
		robots: func(w http.ResponseWriter, r *http.Request) {
			encoding(w)
			fmt.Fprint(w, "User-agent: *\nDisallow: /no\n")
		},
	}
	server := httptest.NewServer(site)
	defer server.Close()
	must(t, t.TempDir(), "-quiet", "-delay", "1ms", server.URL+"/")
	if yes, no := len(site.requests("/yes")), len(site.requests("/no")); yes != 1 || no != 0 {
		t.Errorf("%d requests for what is allowed, %d for what is forbidden", yes, no)
	}
}

// A 206 is a page if it covers the whole body, and a failure else.
func TestPartialContent(t *testing.T) {
	t.Parallel()
	site := &recorder{page: func(w http.ResponseWriter, r *http.Request) {
		const body = "<a href=/whole>w</a><a href=/part>p</a>"
		switch r.URL.Path {
		case "/whole":
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", len(body)-1, len(body)))
			w.WriteHeader(http.StatusPartialContent)
		case "/part":
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", len(body)-1, len(body)+1))
			w.WriteHeader(http.StatusPartialContent)
		}
		fmt.Fprint(w, body)
	}}
	server := httptest.NewServer(site)
	defer server.Close()
	dir := t.TempDir()
	must(t, dir, "-quiet", "-delay", "1ms", server.URL+"/")
	got := urlsOf(t, filepath.Join(dir, "res.txt"))
	if want := []string{server.URL + "/", server.URL + "/whole"}; !slices.Equal(got, want) {
		t.Errorf("stored %q, want %q", got, want)
	}
}

// A chain of redirects that sets a cookie at any hop and comes back is followed there once more,
// and not again and again.
func TestCookieAtAnyHop(t *testing.T) {
	t.Parallel()
	chains := map[string]string{ // path: where it redirects to without its cookie
		"/first": "/first/1", "/first/1": "/first/2", "/first/2": "/first",
		"/middle": "/middle/set", "/middle/set": "/middle/2", "/middle/2": "/middle",
		"/none": "/none/1", "/none/1": "/none",
		"/always": "/always/1", "/always/1": "/always",
	}
	cookies := map[string]string{"/first": "first", "/middle/set": "middle", "/always": "always"}
	site := &recorder{page: func(w http.ResponseWriter, r *http.Request) {
		name := strings.Split(r.URL.Path, "/")[1]
		_, err := r.Cookie(name)
		switch {
		case r.URL.Path == "/":
			fmt.Fprint(w, "<a href=/first>f</a><a href=/middle>m</a><a href=/none>n</a><a href=/always>a</a>")
		case err == nil && name != "always" && r.URL.Path == "/"+name:
			fmt.Fprint(w, "a page")
		default:
			if name := cookies[r.URL.Path]; name != "" {
				http.SetCookie(w, &http.Cookie{Name: name, Value: "1", Path: "/"})
			}
			http.Redirect(w, r, chains[r.URL.Path], http.StatusFound)
		}
	}}
	server := httptest.NewServer(site)
	defer server.Close()
	dir := t.TempDir()
	must(t, dir, "-quiet", "-delay", "1ms", server.URL+"/")
	got := urlsOf(t, filepath.Join(dir, "res.txt"))
	slices.Sort(got)
	if want := []string{server.URL + "/", server.URL + "/first", server.URL + "/middle"}; !slices.Equal(got, want) {
		t.Errorf("stored %q, want %q", got, want)
	}
	for path, most := range map[string]int{"/first": 2, "/middle": 2, "/none": 1, "/always": 3} {
		if n := len(site.requests(path)); n == 0 || n > most {
			t.Errorf("%d requests for %s, at most %d are right", n, path, most)
		}
	}
}

// A page that sets a cookie and sends to a login at another host, which sends back, is asked there
// once more.
func TestCookieOverAnotherHost(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.9:0")
	if err != nil {
		t.Skip("only one loopback address here: ", err)
	}
	to := "http://" + l.Addr().String() + "/login"
	site := &recorder{page: func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/page" {
			http.NotFound(w, r) // a sitemap, whose way would lead to the page as well
		} else if _, err := r.Cookie("session"); err != nil {
			http.SetCookie(w, &http.Cookie{Name: "session", Value: "1", Path: "/"})
			http.Redirect(w, r, to, http.StatusFound)
		}
	}}
	server := httptest.NewServer(site)
	defer server.Close()
	page := server.URL + "/page"
	login := &httptest.Server{Listener: l, Config: &http.Server{Handler: &recorder{page: func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/login" {
			http.Redirect(w, r, page, http.StatusFound)
		} else {
			http.NotFound(w, r)
		}
	}}}}
	login.Start()
	defer login.Close()
	dir := t.TempDir()
	must(t, dir, "-quiet", "-delay", "1ms", "-allow-private", page)
	if got := urlsOf(t, filepath.Join(dir, "res.txt")); !slices.Equal(got, []string{page}) || len(site.requests("/page")) != 2 {
		t.Errorf("stored %q after %d requests for the page, want 2", got, len(site.requests("/page")))
	}
	if n := len(site.requests("/sitemap.xml")); n != 1 {
		t.Errorf("%d requests for a sitemap that is not there, want 1", n)
	}
}

// User name, password and headers go to the origin of the seed alone, cookies to its host by their
// own rules, whatever else of it is in scope.
func TestSecretsStayWithTheSeed(t *testing.T) {
	t.Parallel()
	other := httptest.NewUnstartedServer(&recorder{})
	var err error
	if other.Listener, err = net.Listen("tcp", "127.0.0.9:0"); err != nil {
		t.Skip("only one loopback address here: ", err)
	}
	other.Start()
	defer other.Close()
	port, secure := httptest.NewServer(&recorder{}), httptest.NewTLSServer(&recorder{})
	defer port.Close()
	defer secure.Close()
	seed := httptest.NewServer(&recorder{page: func(w http.ResponseWriter, r *http.Request) {
		for _, to := range []string{other.URL, port.URL, secure.URL, "/2"} {
			fmt.Fprintf(w, "<a href=%s>to</a>", to)
		}
	}})
	defer seed.Close()
	dir := t.TempDir()
	file := "127.0.0.1\tFALSE\t/\tFALSE\t0\tany\t1\n127.0.0.1\tFALSE\t/\tTRUE\t0\tsecure\t1\n127.0.0.9\tFALSE\t/\tFALSE\t0\tother\t1\n"
	if err := os.WriteFile(filepath.Join(dir, "cookies.txt"), []byte(file), 0o666); err != nil {
		t.Fatal(err)
	}
	must(t, dir, "-quiet", "-delay", "1ms", "-allow-private", "-insecure", "-cookies", "cookies.txt",
		"-user", "me", "-password", "secret", "-header", "X-Secret: s3", seed.URL+"/")
	for _, tt := range []struct {
		server  *httptest.Server
		pages   []string
		secrets bool
		cookies string
	}{
		{seed, []string{"/robots.txt", "/", "/2"}, true, "any=1"},
		{port, []string{"/robots.txt", "/"}, false, "any=1"},
		{secure, []string{"/robots.txt", "/"}, false, "any=1; secure=1"},
		{other, []string{"/robots.txt", "/"}, false, ""},
	} {
		for _, page := range tt.pages {
			requests := tt.server.Config.Handler.(*recorder).requests(page)
			if len(requests) != 1 {
				t.Fatalf("%d requests for %s%s", len(requests), tt.server.URL, page)
			}
			r := requests[0]
			_, _, login := r.BasicAuth()
			if login != tt.secrets || (r.Header.Get("X-Secret") != "") != tt.secrets || r.Header.Get("Cookie") != tt.cookies {
				t.Errorf("%s%s was sent %v; secrets %v and cookies %q are right", tt.server.URL, page, r.Header, tt.secrets, tt.cookies)
			}
		}
	}
}

// The guard refuses what no seed names by host and port.
func TestGuardOfCrawl(t *testing.T) {
	t.Parallel()
	asked := &recorder{}
	other := httptest.NewServer(asked)
	defer other.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(other.URL, "http://"), ":")
	refused := []string{
		other.URL + "/", "http://localhost:" + port + "/", "http://127.0.0.8:" + port + "/", "http://[::1]:" + port + "/",
		"http://printer.local/", "http://intranet/", "http://10.0.0.1/",
	}
	seed := httptest.NewServer(&recorder{page: func(w http.ResponseWriter, r *http.Request) {
		for _, to := range append(refused, "/2") {
			fmt.Fprintf(w, "<a href=%s>to</a>", to)
		}
	}})
	defer seed.Close()
	dir := t.TempDir()
	must(t, dir, "-quiet", "-delay", "1ms", seed.URL+"/")
	var got []string
	for line := range strings.Lines(must(t, dir, "export", "-state", "refused")) {
		if strings.Contains(line, "\taddress\t") {
			got = append(got, firstFields(line)...)
		}
	}
	slices.Sort(got)
	slices.Sort(refused)
	if !slices.Equal(got, refused) {
		t.Errorf("refused %q, want %q", got, refused)
	}
	if stored := urlsOf(t, filepath.Join(dir, "res.txt")); len(stored) != 2 || len(asked.requests("/")) != 0 {
		t.Errorf("stored %q; %d requests elsewhere", stored, len(asked.requests("/")))
	}
}

// The kind of address that a seed's name had at first is kept in the index, and counts in the next
// run.
func TestSeedThatWasPublic(t *testing.T) {
	t.Parallel()
	site := &recorder{page: func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "<a href=/2>2</a>") }}
	seed := httptest.NewServer(site)
	defer seed.Close()
	dir := t.TempDir()
	must(t, dir, "-quiet", "-delay", "1ms", "-max-pages", "1", seed.URL+"/")
	index, err := storage.Open(filepath.Join(dir, "iut", "index.db"), storage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	host, err := index.Hosts().Get("127.0.0.1")
	if err != nil || host.Kind != record.KindPrivate {
		t.Errorf("kept as %+v, %v", host.HostTimes, err)
	}
	host.Kind = record.KindPublic // as if the address were another one
	_, err = index.Commit([]*record.Outcome{{Host: &host.HostTimes}})
	if err := errors.Join(err, index.Close()); err != nil {
		t.Fatal(err)
	}
	must(t, dir, "-quiet", "-delay", "1ms")
	if why := must(t, dir, "why", seed.URL+"/2"); !strings.Contains(why, "refused: address") || len(site.requests("/2")) != 0 {
		t.Errorf("%d requests; %s", len(site.requests("/2")), why)
	}
}

// With -per-ip 1 two hosts with one address are asked one after the other.
func TestPerIP(t *testing.T) {
	t.Parallel()
	if addrs, err := net.LookupHost("localhost"); err != nil || !slices.Contains(addrs, "127.0.0.1") {
		t.Skip("localhost is not 127.0.0.1 here: ", addrs, err)
	}
	var under, most atomic.Int64
	second := make(chan struct{})
	server := httptest.NewServer(&recorder{page: func(w http.ResponseWriter, r *http.Request) {
		defer under.Add(-1)
		if n := under.Add(1); n > 1 {
			most.Store(n)
			close(second)
		}
		select {
		case <-second:
		case <-time.After(300 * time.Millisecond): // a second one does not come as long as this one is here
		}
	}})
	defer server.Close()
	dir := t.TempDir()
	must(t, dir, "-quiet", "-4", "-robots", "ignore", "-per-ip", "1", server.URL+"/", strings.Replace(server.URL, "127.0.0.1", "localhost", 1)+"/")
	if n := len(urlsOf(t, filepath.Join(dir, "res.txt"))); n != 2 || most.Load() > 1 {
		t.Errorf("%d pages, %d requests at a time", n, most.Load())
	}
}

// A Crawl-delay beyond -max-crawl-delay does not count: with it the run would end before the second
// page.
func TestMaxCrawlDelay(t *testing.T) {
	t.Parallel()
	site := &recorder{
		page:   func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "<a href=/2>2</a>") },
		robots: func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "User-agent: *\nCrawl-delay: 3600\n") },
	}
	server := httptest.NewServer(site)
	defer server.Close()
	for most, pages := range map[string]int{"1ms": 2, "1h": 0} {
		dir := t.TempDir()
		must(t, dir, "-quiet", "-delay", "1ms", "-max-wait", "2s", "-max-crawl-delay", most, server.URL+"/")
		if n := len(urlsOf(t, filepath.Join(dir, "res.txt"))); n != pages {
			t.Errorf("-max-crawl-delay %s: %d pages, want %d", most, n, pages)
		}
	}
}

// User name and password of a seed, of an argument or of -input, go to its origin and nowhere else,
// and are not kept.
func TestSeedWithLogin(t *testing.T) {
	t.Parallel()
	page := func(to ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if user, password, _ := r.BasicAuth(); user != "me" || password != "s3cret" {
				http.Error(w, "login", http.StatusUnauthorized)
				return
			}
			for _, link := range to {
				fmt.Fprintf(w, "<a href=%s>to</a>", link)
			}
		}
	}
	other := httptest.NewServer(&recorder{page: page()})
	defer other.Close()
	argument, input := httptest.NewServer(&recorder{page: page("/in", other.URL)}), httptest.NewServer(&recorder{page: page("/in")})
	defer argument.Close()
	defer input.Close()
	dir := t.TempDir()
	login := func(server *httptest.Server) string {
		return strings.Replace(server.URL, "//", "//me:s3cret@", 1) + "/"
	}
	writeSeeds(t, dir, []string{login(input)})
	stdout, stderr, code := call(t, dir, "-delay", "1ms", "-allow-private", "-max-wait", "2s", "-input", "seed.txt", login(argument))
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	got := urlsOf(t, filepath.Join(dir, "res.txt"))
	slices.Sort(got)
	want := []string{argument.URL + "/", argument.URL + "/in", input.URL + "/", input.URL + "/in"}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("stored %q, want %q", got, want)
	}
	requests := other.Config.Handler.(*recorder).requests("/")
	if len(requests) != 1 || requests[0].Header.Get("Authorization") != "" {
		t.Errorf("%d requests elsewhere: %v", len(requests), requests)
	}
	kept := stdout + stderr
	for _, name := range []string{"res.txt", "res2.txt", "statistics.txt", "iut/seeds.txt", "iut/index.db", "iut/FORMAT"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		kept += string(b)
	}
	if strings.Contains(kept, "s3cret") {
		t.Error("the password is printed or kept")
	}
}
