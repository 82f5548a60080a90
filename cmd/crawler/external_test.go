package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// An outsider is a host outside of a crawl, of one kind: what it does, and what is to come of the
// target /t on it.
type outsider struct {
	kind  string
	serve http.HandlerFunc // nil: nothing listens
	want  string           // state, reason, status and end of a broken link; "": it is not broken
	asks  []string         // the requests for anything but robots.txt, method and path
	host  string           // with port

	mu   sync.Mutex
	log  []string    // guarded by mu
	when []time.Time // guarded by mu
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// byMethod answers HEAD in one way and GET in another.
func byMethod(head, get http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			head(w, r)
		} else {
			get(w, r)
		}
	}
}

// inTurn answers the first request in one way and all others in another.
func inTurn(first, others http.HandlerFunc) http.HandlerFunc {
	var once sync.Once
	return func(w http.ResponseWriter, r *http.Request) {
		serve := others
		once.Do(func() { serve = first })
		serve(w, r)
	}
}

func later(code int, seconds string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", seconds)
		w.WriteHeader(code)
	}
}

func reset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}
}

func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// endless writes until nobody reads any more.
func endless(w http.ResponseWriter, _ *http.Request) {
	for {
		if _, err := io.WriteString(w, strings.Repeat("x", 1<<10)); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
	}
}

// paths answers by path; others are not found.
func paths(of map[string]http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if serve := of[r.URL.Path]; serve != nil {
			serve(w, r)
		} else {
			http.NotFound(w, r)
		}
	}
}

func to(path string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, path, http.StatusFound) }
}

// outsiders returns one host of each kind.
func outsiders() []*outsider {
	head, both := []string{"HEAD /t"}, []string{"HEAD /t", "GET /t"}
	ok := status(http.StatusOK)
	return []*outsider{
		{kind: "ok", serve: ok, asks: head},
		{kind: "404", serve: status(404), want: "failed http-4xx 404", asks: head},
		{kind: "410", serve: status(410), want: "failed http-4xx 410", asks: head},
		{kind: "HEAD 405", serve: byMethod(status(405), ok), asks: both},
		{kind: "HEAD 501", serve: byMethod(status(501), ok), asks: both},
		{kind: "HEAD 403", serve: byMethod(status(403), ok), asks: both},
		{kind: "HEAD 500", serve: byMethod(status(500), ok), asks: both},
		{kind: "403", serve: status(403), want: "failed http-4xx 403", asks: both},
		{kind: "500", serve: status(500), want: "failed http-5xx 500", asks: both},
		{kind: "429, then ok", serve: inTurn(later(429, "1"), ok), asks: both},
		{kind: "503 for an hour", serve: later(503, "3600"), asks: head},
		{kind: "hangs", serve: hang, want: "failed timeout", asks: both},
		{kind: "HEAD is reset", serve: byMethod(reset, ok), asks: both},
		{kind: "resets", serve: reset, want: "failed reset", asks: both},
		{kind: "refuses connections", want: "unreachable connect"},
		{kind: "endless", serve: byMethod(status(405), endless), asks: both},
		{kind: "redirect", serve: paths(map[string]http.HandlerFunc{"/t": to("/there"), "/there": ok}), asks: []string{"HEAD /t", "HEAD /there"}},
		{kind: "redirect to nothing", serve: paths(map[string]http.HandlerFunc{"/t": to("/there")}), want: "redirected http-4xx 404 /there", asks: []string{"HEAD /t", "HEAD /there"}},
		{kind: "redirect to itself", serve: to("/t"), want: "failed redirect-loop 302", asks: head},
		{kind: "redirects in a ring", serve: paths(map[string]http.HandlerFunc{"/t": to("/b"), "/b": to("/t")}), want: "redirected redirect-loop 302 /b", asks: []string{"HEAD /t", "HEAD /b"}},
		{kind: "forbidden"},
	}
}

func (o *outsider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	o.log = append(o.log, r.Method+" "+r.URL.Path)
	o.when = append(o.when, time.Now())
	o.mu.Unlock()
	switch {
	case r.URL.Path != "/robots.txt":
		o.serve(w, r)
	case o.kind == "forbidden":
		_, _ = io.WriteString(w, "User-agent: *\nDisallow: /\n")
	default:
		http.NotFound(w, r)
	}
}

// listen opens a host on an address of its own.
func (o *outsider) listen(t *testing.T, address string) {
	t.Helper()
	l, err := net.Listen("tcp", address+":0")
	if err != nil {
		t.Skip(err)
	}
	o.host = l.Addr().String()
	if o.serve == nil && o.kind != "forbidden" {
		_ = l.Close()
		return
	}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: o}}
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
}

// TestExternal asks 200 hosts of every kind. Each target gets its verdict, each host its robots.txt
// and the requests that it takes and no others, a delay apart; another run asks nothing.
func TestExternal(t *testing.T) {
	t.Parallel()
	const delay = 300 * time.Millisecond
	var hosts []*outsider
	for n := 0; len(hosts) < 200; n++ {
		for k, o := range outsiders() {
			o.listen(t, fmt.Sprintf("127.%d.%d.1", 10+k, n))
			hosts = append(hosts, o)
		}
	}
	long := "http://" + strings.Repeat("n", 64) + ".example/t" // no such name can be
	at, err := net.Listen("tcp", "127.9.0.1:0")
	if err != nil {
		t.Skip(err)
	}
	secure := &httptest.Server{Listener: at, Config: &http.Server{Handler: status(200), ErrorLog: log.New(io.Discard, "", 0)}}
	secure.StartTLS()
	defer secure.Close()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/":
			fmt.Fprintf(w, "<a href=/more>more</a><a href=%s>name</a><a href=%s/t>secure</a>", long, secure.URL)
		case "/more":
			for range 2 {
				for _, o := range hosts {
					fmt.Fprintf(w, "<a href=http://%s/t>%s</a>", o.host, o.kind)
				}
			}
		default:
			http.NotFound(w, r)
		}
	}))
	defer site.Close()
	dir := t.TempDir()
	must(t, dir, "-quiet", "-delay", "0", "-scope", "host", site.URL)
	ask := []string{"broken", "-external", "-format", "csv", "-allow-private", "-delay", delay.String(), "-retries", "0", "-first-byte", "10s", "-max-wait", "5s"}
	stdout, stderr, code := call(t, dir, ask...)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}

	want := []string{
		fmt.Sprintf("%s\tunreachable dns\t%s/", long, site.URL),
		fmt.Sprintf("%s/t\tunreachable tls-name\t%s/", secure.URL, site.URL),
	}
	for _, o := range hosts {
		if o.want == "" {
			continue
		}
		says := strings.Replace(o.want, " /", " http://"+o.host+"/", 1)
		for range 2 {
			want = append(want, fmt.Sprintf("http://%s/t\t%s\t%s/more", o.host, says, site.URL))
		}
	}
	slices.Sort(want)
	var got []string
	rows, err := csv.NewReader(strings.NewReader(stdout)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows[1:] {
		if r[9] != "yes" {
			t.Errorf("%q is not marked as external", r)
		}
		got = append(got, r[0]+"\t"+strings.Join(strings.Fields(strings.Join(r[1:5], " ")), " ")+"\t"+r[6])
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	compareLogs(t, hosts, delay)
	asked := func() (n int) {
		for _, o := range hosts {
			o.mu.Lock()
			n += len(o.log)
			o.mu.Unlock()
		}
		return n
	}
	before := asked()
	again, _, _ := call(t, dir, ask...)
	if again != stdout {
		t.Errorf("another run says something else: %s", cmp.Diff(stdout, again))
	}
	if after := asked(); after != before {
		t.Errorf("another run made %d requests", after-before)
	}
	if known := must(t, dir, "broken", "-format", "csv"); known != stdout {
		t.Errorf("broken without -external says something else: %s", cmp.Diff(stdout, known))
	}
	must(t, dir, "check")
}

// compareLogs compares what hosts were asked with what they are to be, and how fast.
func compareLogs(t *testing.T, hosts []*outsider, delay time.Duration) {
	t.Helper()
	for _, o := range hosts {
		o.mu.Lock()
		want := append([]string{"GET /robots.txt"}, o.asks...)
		if o.serve == nil && o.kind != "forbidden" {
			want = nil
		}
		if diff := cmp.Diff(want, slices.Clone(o.log)); diff != "" {
			t.Errorf("%s: %s", o.kind, diff)
		}
		for i := 1; i < len(o.when); i++ {
			if gap := o.when[i].Sub(o.when[i-1]); gap < delay/2 {
				t.Errorf("%s: %s after %v", o.kind, o.log[i], gap)
			}
		}
		o.mu.Unlock()
	}
}

// TestKillExternal kills the asking several times, and has it stopped by a signal once. What was
// answered is not asked again, but for what was on its way at a kill, and in the end all is known.
func TestKillExternal(t *testing.T) {
	t.Parallel()
	const targets, crawlers, downloads = 600, 2, 2
	var asked, kill atomic.Int64
	reached := make(chan struct{}, 1)
	var mu sync.Mutex
	log := map[string]int{}
	var hosts []string
	for n := range 12 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.50.0.%d:0", n+1))
		if err != nil {
			t.Skip(err)
		}
		server := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			log[r.Host+r.URL.Path]++
			mu.Unlock()
			if r.URL.Path != "/robots.txt" && asked.Add(1) == kill.Load() {
				reached <- struct{}{}
			}
			if strings.HasSuffix(r.URL.Path, "7") {
				http.NotFound(w, r)
			}
		})}}
		server.Start()
		defer server.Close()
		hosts = append(hosts, l.Addr().String())
	}
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		for n := range targets {
			fmt.Fprintf(w, "<a href=http://%s/%d>%d</a>", hosts[n%len(hosts)], n, n)
		}
	}))
	defer site.Close()
	dir := t.TempDir()
	must(t, dir, "-quiet", "-delay", "0", "-scope", "host", "-edges", site.URL)
	args := []string{
		"broken", "-external", "-format", "csv", "-allow-private", "-delay", "0", "-crawlers", strconv.Itoa(crawlers), "-downloads", strconv.Itoa(downloads),
		"-robots", "ignore",
	}
	const kills = 4
	for n := range kills {
		kill.Store(asked.Load() + targets/8)
		cmd := child(dir, args...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-reached
		if n < kills-1 {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			continue
		}
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("stopped by a signal: %v", err)
		}
	}
	report := must(t, dir, args...)
	if n := strings.Count(report, "failed,http-4xx,404,"); n != targets/10 {
		t.Errorf("%d of %d broken links: %s", n, targets/10, report)
	}
	mu.Lock()
	defer mu.Unlock()
	twice := 0
	for _, n := range log {
		twice += n - 1
	}
	if len(log) != targets {
		t.Errorf("%d of %d targets were asked", len(log), targets)
	}
	// What a kill loses is in a download or, answered, in the one buffer, which has as many places.
	if most := (kills - 1) * 2 * crawlers * downloads; twice > most {
		t.Errorf("%d targets were asked twice, at most %d may have been on their way", twice, most)
	}
	t.Logf("%d requests for %d targets, %d asked twice", asked.Load(), targets, twice)
	must(t, dir, "check")
}

// TestExternalKept: what is known of targets outside is asked again by -recheck alone, a crawl
// neither asks nor lists them, patterns and forget keep them out, and why and merge know of them.
func TestExternalKept(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	log := map[string]int{}
	var mended atomic.Bool
	at, err := net.Listen("tcp", "127.60.0.1:0")
	if err != nil {
		t.Skip(err)
	}
	outside := &httptest.Server{Listener: at, Config: &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		log[r.Method+" "+r.URL.Path]++
	})}}
	outside.Config.Handler = before(outside.Config.Handler, paths(map[string]http.HandlerFunc{
		"/a": status(200), "/gone": func(w http.ResponseWriter, r *http.Request) {
			if !mended.Load() {
				http.NotFound(w, r)
			}
		},
	}))
	outside.Start()
	defer outside.Close()
	site := httptest.NewServer(paths(map[string]http.HandlerFunc{
		"/": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, "<a href=%[1]s/a>a</a><a href=%[1]s/gone>gone</a><a href=%[1]s/x.pdf>pdf</a><a href=/go>go</a>", outside.URL)
		},
		"/go": to(outside.URL + "/away"),
	}))
	defer site.Close()
	dir := t.TempDir()
	requests := func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		defer clear(log)
		return maps.Clone(log)
	}
	crawl := []string{"-quiet", "-delay", "0", "-allow-private", "-scope", "host", "-exclude", "pdf$", site.URL}
	must(t, dir, crawl...)
	usage := func(want string, args ...string) {
		t.Helper()
		if _, stderr, code := call(t, dir, args...); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit %d: %s", args, code, stderr)
		}
	}
	usage("-delay is for -external", "broken", "-delay", "1s")
	usage("-recheck is for -external", "broken", "-recheck", "1h")
	if report := must(t, dir, "broken"); !strings.HasPrefix(report, "no broken links") || len(requests()) > 0 {
		t.Errorf("before it was asked: %s", report)
	}
	listed := urlsOf(t, filepath.Join(dir, "res2.txt"))

	asks := map[string]int{"GET /robots.txt": 1, "HEAD /a": 1, "HEAD /gone": 1, "HEAD /away": 1}
	report, stderr, code := call(t, dir, "broken", "-external", "-fail", "-delay", "0")
	if diff := cmp.Diff(asks, requests()); diff != "" || code != exitFailed {
		t.Errorf("exit %d, %s: %s", code, stderr, diff)
	}
	for _, want := range []string{
		"\n" + outside.URL + "/gone (external): http-4xx, status 404\n  on " + site.URL + "/ <a> \"gone\"\n",
		site.URL + "/go redirects to " + outside.URL + "/away: http-4xx, status 404\n",
		"2 broken URLs with 2 links, 1 of them outside of the crawl; the tree has 1 page\n",
	} {
		if !strings.Contains("\n"+report, want) {
			t.Errorf("%q is not in %s", want, report)
		}
	}
	if says := must(t, dir, "why", outside.URL+"/gone"); !strings.Contains(says, "no URL of this crawl: as a target outside it came to failed, http-4xx") {
		t.Error(says)
	}

	must(t, dir, crawl...)
	if diff := cmp.Diff(listed, urlsOf(t, filepath.Join(dir, "res2.txt"))); diff != "" {
		t.Errorf("the crawl lists others: %s", diff)
	}
	must(t, dir, "broken", "-external", "-recheck", "100h")
	must(t, dir, "merge")
	must(t, dir, "broken", "-external")
	if again := requests(); len(again) > 0 {
		t.Errorf("asked again: %v", again)
	}
	mended.Store(true)
	delete(asks, "GET /robots.txt")
	report = must(t, dir, "broken", "-external", "-recheck", "1ms", "-delay", "0")
	if diff := cmp.Diff(asks, requests()); diff != "" || strings.Contains(report, "external") {
		t.Errorf("%s: %s", report, diff)
	}

	mended.Store(false)
	for _, would := range []string{"would remove", "removed"} {
		args := []string{"forget", outside.URL + "/gone"}
		if would != "removed" {
			args = append(args, "-dry-run")
		}
		if says, want := must(t, dir, args...), would+": 0 pages of 0 B, 0 records, 0 sitemaps, 0 seeds, what is known of 1 target outside\n"; !strings.HasPrefix(says, want) {
			t.Errorf("%s, want %s", says, want)
		}
	}
	must(t, dir, "check")
	delete(asks, "HEAD /gone")
	report = must(t, dir, "broken", "-external", "-recheck", "1ms", "-delay", "0")
	if diff := cmp.Diff(asks, requests()); diff != "" || strings.Contains(report, "external") {
		t.Errorf("after forget: %s: %s", report, diff)
	}
	must(t, dir, "check")
}

// TestExternalSitemaps: where each host may belong to the crawl, the next one reads no sitemap of a
// host that only targets outside are on.
func TestExternalSitemaps(t *testing.T) {
	t.Parallel()
	at, err := net.Listen("tcp", "127.61.0.1:0")
	if err != nil {
		t.Skip(err)
	}
	var mu sync.Mutex
	var log []string
	outside := &httptest.Server{Listener: at, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		log = append(log, r.Method+" "+r.URL.Path)
		if r.URL.Path == "/robots.txt" {
			fmt.Fprintf(w, "Sitemap: http://%s/named.xml\n", r.Host)
		}
	})}}
	outside.Start()
	defer outside.Close()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<a rel=nofollow href=%s/a>a</a>", outside.URL)
	}))
	defer site.Close()
	dir := t.TempDir()
	crawl := []string{"-quiet", "-delay", "0", "-allow-private", "-nofollow", "all", site.URL}
	must(t, dir, crawl...)
	must(t, dir, "broken", "-external", "-delay", "0")
	must(t, dir, append(crawl, site.URL+"/new")...)
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff([]string{"GET /robots.txt", "HEAD /a"}, log); diff != "" {
		t.Error(diff)
	}
}

// TestExternalAddress: a target with an internal address is asked only where that is allowed, then
// also if an earlier run has refused it.
func TestExternalAddress(t *testing.T) {
	t.Parallel()
	at, err := net.Listen("tcp", "127.62.0.1:0")
	if err != nil {
		t.Skip(err)
	}
	var asked atomic.Int64
	outside := &httptest.Server{Listener: at, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.NotFound(w, r)
	})}}
	outside.Start()
	defer outside.Close()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<a href=%s/gone>gone</a>", outside.URL)
	}))
	defer site.Close()
	dir := t.TempDir()
	must(t, dir, "-quiet", "-delay", "0", "-scope", "host", site.URL)
	_, stderr, code := call(t, dir, "broken", "-external", "-fail")
	if asked.Load() != 0 || code != 0 || !strings.Contains(stderr, "of 1 target outside, and so not in this report, not to be asked (robots.txt, internal addresses): 1\n") {
		t.Errorf("asked %d times, exit %d: %s", asked.Load(), code, stderr)
	}
	stdout, _, code := call(t, dir, "broken", "-external", "-fail", "-allow-private")
	if code != exitFailed || !strings.Contains(stdout, "/gone (external): http-4xx") {
		t.Errorf("exit %d: %s", code, stdout)
	}
}

// before calls two handlers, of which the second answers.
func before(first, second http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		first.ServeHTTP(w, r)
		second.ServeHTTP(w, r)
	}
}
