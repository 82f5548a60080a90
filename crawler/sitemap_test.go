package crawler_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"urltree/crawler"
	"urltree/crawler/scope"
	"urltree/internal/testweb"
	"urltree/storage"
	"urltree/storage/record"
)

// A site serves texts by path and counts the requests. A text is the body; "301 /x" redirects; a
// number alone is a status. Each {S} in a text is the address of the site.
type site struct {
	t    *testing.T
	addr string // without the last slash

	mu    sync.Mutex
	texts map[string]string // guarded by mu
	asked map[string]int    // guarded by mu
}

func newSite(t *testing.T, texts map[string]string) *site { return newSiteAt(t, "127.0.0.1", texts) }

// newSiteAt makes a site on a host of its own.
func newSiteAt(t *testing.T, host string, texts map[string]string) *site {
	s := &site{t: t, texts: texts, asked: map[string]int{}}
	server := httptest.NewUnstartedServer(s)
	server.Listener.Close()
	var err error
	if server.Listener, err = net.Listen("tcp", net.JoinHostPort(host, "0")); err != nil {
		t.Fatal(err)
	}
	server.Start()
	t.Cleanup(server.Close)
	s.addr = server.URL
	return s
}

func (s *site) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked[r.URL.Path]++
	text, ok := s.texts[r.URL.Path]
	s.mu.Unlock()
	var status int
	var target string
	switch n, _ := fmt.Sscanf(text, "%d %s", &status, &target); {
	case !ok:
		http.NotFound(rw, r)
		return
	case n == 2:
		http.Redirect(rw, r, strings.ReplaceAll(target, "{S}", s.addr), status)
		return
	case n == 1:
		rw.WriteHeader(status)
		return
	}
	switch ext := filepath.Ext(r.URL.Path); ext {
	case ".xml":
		rw.Header().Set("Content-Type", "application/xml")
	case ".rss", ".atom":
		rw.Header().Set("Content-Type", "application/"+ext[1:]+"+xml")
	case ".json":
		rw.Header().Set("Content-Type", "application/feed+json")
	case ".txt":
		rw.Header().Set("Content-Type", "text/plain")
	default:
		rw.Header().Set("Content-Type", "text/html")
	}
	fmt.Fprint(rw, strings.ReplaceAll(text, "{S}", s.addr))
}

func (s *site) count(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[path]
}

func (s *site) set(path, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts[path] = text
}

// crawl runs a crawl of the site's root and gives the paths of its pages.
func (s *site) crawl(dir string, change func(*crawler.Options)) (pages []string, result crawler.Result) {
	s.t.Helper()
	opts := crawler.Options{
		Tree:       filepath.Join(dir, "iut"),
		Output:     filepath.Join(dir, "res.txt"),
		Seeds:      []string{s.addr + "/"},
		Politeness: crawler.Politeness{Delay: -1},
		HTTP:       crawler.HTTP{AllowPrivate: true},
		Storage:    crawler.Storage{NoSync: true},
		Resources:  crawler.Resources{FlushInterval: 50 * time.Millisecond, Buffers: 3, Crawlers: 3},
	}
	if change != nil {
		change(&opts)
	}
	result, err := crawler.Run(s.t.Context(), opts)
	if err != nil {
		s.t.Fatal(err)
	}
	if result.Ended != "nothing left" {
		s.t.Errorf("ended: %s", result.Ended)
	}
	for _, url := range crawled(s.t, opts.Output) {
		pages = append(pages, strings.TrimPrefix(url, s.addr))
	}
	slices.Sort(pages)
	return pages, result
}

// sitemaps returns what the index of a tree knows of each: state, a colon, the reason.
func (s *site) sitemaps(dir string) map[string]string {
	s.t.Helper()
	index := openIndex(s.t, dir)
	defer index.Close()
	got := map[string]string{}
	err := index.Sitemaps().Each(s.t.Context(), func(m *record.Record) error {
		got[strings.TrimPrefix(m.URL, s.addr)] = strings.TrimSuffix(m.State.String()+":"+m.Reason, ":")
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return got
}

func openIndex(t testing.TB, dir string) *storage.Index {
	t.Helper()
	index, err := storage.Open(filepath.Join(dir, "iut", "index.db"), storage.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func urlset(locs ...string) string {
	var b strings.Builder
	b.WriteString("<urlset>")
	for _, loc := range locs {
		b.WriteString("<url><loc>" + loc + "</loc></url>")
	}
	return b.String() + "</urlset>"
}

func mapIndex(locs ...string) string {
	return strings.NewReplacer("urlset", "sitemapindex", "<url>", "<sitemap>", "</url>", "</sitemap>").Replace(urlset(locs...))
}

// TestSitemapKnownAnswer crawls a web of which a part is named by sitemaps alone.
func TestSitemapKnownAnswer(t *testing.T) {
	t.Parallel()
	web := serve(t, testweb.Options{
		Kind: testweb.Linked, Hosts: 15, Pages: sized(300, 150), Seed: 11, MinSize: 300, MaxSize: 900,
		Redirects: .03, Texts: .02, Images: .02, NoIndex: .02, Private: .02, Hidden: .2,
	})
	dir := t.TempDir()
	opts := options(dir, web)
	opts.NoSync = true
	if _, err := crawler.Run(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	requireSame(t, crawled(t, opts.Output), web.Answer().Stored)
	requireChecked(t, dir)
	if n := len(web.Sitemaps()); n != 3*15 {
		t.Errorf("%d sitemaps asked, want 3 of each host", n)
	}
	for url, n := range web.Sitemaps() {
		if n != 1 {
			t.Errorf("%s was asked %d times", url, n)
		}
	}
	// All is known: a second run asks for nothing.
	if _, err := crawler.Run(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	for url, n := range web.Sitemaps() {
		if n != 1 {
			t.Errorf("%s was asked %d times by two runs", url, n)
		}
	}
	// From the folders alone: robots.txt is asked again, and with it the sitemaps.
	if err := os.WriteFile(filepath.Join(opts.Tree, "index.db"), []byte("not a database"), 0o644); err != nil {
		t.Fatal(err)
	}
	merge(t, dir)
	if _, err := crawler.Run(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	requireSame(t, crawled(t, opts.Output), web.Answer().Stored)
	requireChecked(t, dir)
	for url, n := range web.Sitemaps() {
		if n != 2 {
			t.Errorf("%s was asked %d times, want once more after merge", url, n)
		}
	}
}

// TestSitemaps: what is read, by what robots.txt and the sitemaps say.
func TestSitemaps(t *testing.T) {
	const home = "<p>home"
	for _, tt := range []struct {
		name   string
		texts  map[string]string
		change func(*crawler.Options)
		pages  string            // besides the home page
		maps   map[string]string // what is known of sitemaps
	}{
		{
			name:  "no robots.txt",
			texts: map[string]string{"/sitemap.xml": urlset("/a", "/a", "/missing")},
			pages: "/a", maps: map[string]string{"/sitemap.xml": "read"},
		},
		{
			name:  "nothing at all",
			texts: map[string]string{},
			maps:  map[string]string{"/sitemap.xml": "failed:http-4xx"},
		},
		{
			name:  "behind a login", // as good as missing
			texts: map[string]string{"/sitemap.xml": "401"},
			maps:  map[string]string{"/sitemap.xml": "failed:http-4xx"},
		},
		{
			name:  "a page in its place",
			texts: map[string]string{"/sitemap.xml": "<html><a href=/a>"},
			maps:  map[string]string{"/sitemap.xml": "failed:no-sitemap"},
		},
		{
			name: "text and feed",
			texts: map[string]string{
				"/robots.txt": "Sitemap: {S}/list.txt\nsitemap:/feed.rss\nSitemap: ftp://x/\nSitemap:",
				"/list.txt":   "{S}/a\n", "/feed.rss": "<rss><channel><item><link>/b</link></item></channel></rss>",
			},
			pages: "/a /b", maps: map[string]string{"/sitemap.xml": "failed:http-4xx", "/list.txt": "read", "/feed.rss": "read"},
		},
		{
			name: "forbidden",
			texts: map[string]string{
				"/robots.txt": "User-agent: *\nDisallow: /no\nDisallow: /sitemap.xml\nSitemap: /no.xml\nSitemap: /yes.xml",
				"/no.xml":     urlset("/a"), "/sitemap.xml": urlset("/b"), "/yes.xml": urlset("/c", "/no/d"),
			},
			pages: "/c", maps: map[string]string{"/sitemap.xml": "failed:robots", "/no.xml": "failed:robots", "/yes.xml": "read"},
		},
		{
			name: "endless nesting",
			texts: map[string]string{
				"/sitemap.xml": mapIndex("/2.xml", "/sitemap.xml"), "/2.xml": mapIndex("/3.xml"), "/3.xml": mapIndex("/4.xml"),
				"/4.xml": urlset("/a"),
			},
			maps: map[string]string{"/sitemap.xml": "read", "/2.xml": "read", "/3.xml": "read:nesting"},
		},
		{
			name: "as deep as it may be",
			texts: map[string]string{
				"/sitemap.xml": mapIndex("/2.xml"), "/2.xml": mapIndex("/3.xml"), "/3.xml": urlset("/a"),
			},
			pages: "/a", maps: map[string]string{"/sitemap.xml": "read", "/2.xml": "read", "/3.xml": "read"},
		},
		{
			name: "redirects",
			texts: map[string]string{
				"/sitemap.xml": "301 /x.xml", "/x.xml": "302 {S}/y.xml", "/y.xml": urlset("/a"),
				"/robots.txt": "Sitemap: /loop.xml\nSitemap: /nowhere.xml", "/loop.xml": "307 /loop.xml", "/nowhere.xml": "301 ftp://x/",
			},
			pages: "/a", maps: map[string]string{
				"/sitemap.xml": "read:redirect", "/x.xml": "read:redirect", "/y.xml": "read",
				"/loop.xml": "failed:redirect-loop", "/nowhere.xml": "failed:redirect-location",
			},
		},
		{
			name: "redirects without end",
			texts: map[string]string{
				"/sitemap.xml": "301 /1.xml", "/1.xml": "301 /2.xml", "/2.xml": "301 /3.xml", "/3.xml": "301 /4.xml",
				"/4.xml": "301 /5.xml", "/5.xml": "301 /6.xml", "/6.xml": urlset("/a"),
			},
			maps: map[string]string{
				"/sitemap.xml": "read:redirect", "/1.xml": "read:redirect", "/2.xml": "read:redirect", "/3.xml": "read:redirect",
				"/4.xml": "read:redirect", "/5.xml": "failed:redirect-loop",
			},
		},
		{
			name:  "damaged",
			texts: map[string]string{"/sitemap.xml": "<urlset><url><loc>/a?x&y</loc><url><loc>/b</loc></url><url><loc>/c"},
			pages: "/b", // /a?x&y is the page /a, which is missing
			maps:  map[string]string{"/sitemap.xml": "read:damaged"},
		},
		{
			name:   "depth",
			texts:  map[string]string{"/sitemap.xml": urlset("/a"), "/a": "<a href=/b>"},
			change: func(o *crawler.Options) { o.MaxDepth = 1 },
			pages:  "/a", maps: map[string]string{"/sitemap.xml": "read"},
		},
		{
			name:   "the seeds alone",
			texts:  map[string]string{"/sitemap.xml": urlset("/a")},
			change: func(o *crawler.Options) { o.SeedsOnly = true },
			maps:   map[string]string{"/sitemap.xml": "pending"},
		},
		{
			name:   "not wanted",
			texts:  map[string]string{"/sitemap.xml": urlset("/a")},
			change: func(o *crawler.Options) { o.NoSitemaps = true },
			maps:   map[string]string{"/sitemap.xml": "pending"},
		},
		{
			name:   "robots.txt ignored",
			texts:  map[string]string{"/sitemap.xml": urlset("/a")},
			change: func(o *crawler.Options) { o.IgnoreRobots = true },
			maps:   map[string]string{},
		},
		{
			name:   "patterns are for pages",
			texts:  map[string]string{"/sitemap.xml": mapIndex("/s.xml"), "/s.xml": urlset("/a", "/b")},
			change: func(o *crawler.Options) { o.Include = []*regexp.Regexp{regexp.MustCompile("/b$")} },
			pages:  "/b", maps: map[string]string{"/sitemap.xml": "read", "/s.xml": "read"},
		},
		{
			name:   "stripped parameters",
			texts:  map[string]string{"/sitemap.xml": urlset("/a?id=1&amp;s=2", "/a?s=3&amp;id=1"), "/a": "a"},
			change: func(o *crawler.Options) { o.Strip.Params = []string{"s"} },
			pages:  "/a?id=1", maps: map[string]string{"/sitemap.xml": "read"},
		},
		{
			name: "fails at first",
			texts: map[string]string{
				"/sitemap.xml": "500",
			},
			change: func(o *crawler.Options) { o.Retries = 1 },
			maps:   map[string]string{"/sitemap.xml": "failed:http-5xx"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.texts["/"] = home
			for _, page := range []string{"/a", "/b", "/c"} {
				if tt.texts[page] == "" && strings.Contains(strings.Join(strings.Fields(tt.pages), " ")+" ", page+" ") {
					tt.texts[page] = "page"
				}
			}
			s := newSite(t, tt.texts)
			dir := t.TempDir()
			pages, _ := s.crawl(dir, tt.change)
			want := append([]string{"/"}, strings.Fields(tt.pages)...)
			if !slices.Equal(pages, want) {
				t.Errorf("pages %q, want %q", pages, want)
			}
			if diff := cmp.Diff(tt.maps, s.sitemaps(dir)); diff != "" {
				t.Errorf("sitemaps (-want +got):\n%s", diff)
			}
			requireChecked(t, dir)
		})
	}
}

// TestSitemapRetries: a sitemap is asked as often as a page, and then once more after a day.
func TestSitemapRetries(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": "home", "/sitemap.xml": "500"})
	dir := t.TempDir()
	s.crawl(dir, func(o *crawler.Options) { o.Retries = 1 })
	if n := s.count("/sitemap.xml"); n != 2 {
		t.Errorf("asked %d times, want 2", n)
	}
	s.set("/sitemap.xml", urlset("/a"))
	s.set("/a", "a")
	if s.crawl(dir, nil); s.count("/sitemap.xml") != 2 {
		t.Error("asked again though robots.txt is not a day old")
	}
	index, err := storage.Open(filepath.Join(dir, "iut", "index.db"), storage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	row, _, err := index.Hosts().Robots(s.addr)
	if err != nil {
		t.Fatal(err)
	}
	failed, _, err := index.Sitemaps().Get(s.addr + "/sitemap.xml")
	if err != nil {
		t.Fatal(err)
	}
	row.Time -= 25 * 60 * 60
	failed.Time -= 25 * 60 * 60
	if _, err := index.Commit([]*record.Outcome{{Robots: &row}, {Row: failed.Row, State: failed.State, Reason: failed.Reason, Page: failed.Page}}); err != nil {
		t.Fatal(err)
	}
	if _, err := index.Reopen(t.Context(), nil, func(*record.Record) bool { return true }, nil); err != nil {
		t.Fatal(err)
	}
	if err := index.Close(); err != nil {
		t.Fatal(err)
	}
	if pages, _ := s.crawl(dir, nil); !slices.Contains(pages, "/a") {
		t.Errorf("pages %q after a day", pages)
	}
}

// TestSitemapScope: a sitemap on another host counts if a robots.txt of the crawl names it, and
// what it names is subject to scope; its own robots.txt is asked, but names no more sitemaps.
func TestSitemapScope(t *testing.T) {
	s := newSite(t, map[string]string{"/": "home", "/a": "a", "/b": "b"})
	other := newSiteAt(t, "127.0.0.2", map[string]string{
		"/robots.txt": "User-agent: *\nDisallow: /no\nSitemap: /more.xml",
		"/maps.xml":   urlset(s.addr+"/a", "/x"), "/no.xml": urlset(s.addr + "/b"), "/more.xml": urlset(s.addr + "/b"),
		"/child.xml": urlset(s.addr + "/b"), "/sitemap.xml": urlset(s.addr + "/b"),
	})
	elsewhere := other.addr
	s.set("/robots.txt", "Sitemap: "+elsewhere+"/maps.xml\nSitemap: "+elsewhere+"/no.xml")
	s.set("/sitemap.xml", mapIndex(elsewhere+"/child.xml"))
	dir := t.TempDir()
	pages, _ := s.crawl(dir, func(o *crawler.Options) { o.Scope = scope.Host })
	if want := []string{"/", "/a"}; !slices.Equal(pages, want) {
		t.Errorf("pages %q, want %q", pages, want)
	}
	want := map[string]string{
		elsewhere + "/maps.xml": "read", elsewhere + "/no.xml": "failed:robots", "/sitemap.xml": "read",
	}
	if diff := cmp.Diff(want, s.sitemaps(dir)); diff != "" {
		t.Errorf("sitemaps (-want +got):\n%s", diff)
	}
	// With a wider scope what they named before counts, and what they did not name yet.
	pages, _ = s.crawl(dir, nil)
	if want := []string{"/", "/a", "/b"}; !slices.Equal(pages, want) {
		t.Errorf("with a wider scope: pages %q, want %q", pages, want)
	}
	if got := s.sitemaps(dir); got[elsewhere+"/child.xml"] != "read" {
		t.Errorf("with a wider scope: %v", got)
	}
}

// TestSitemapSeedMoves: the sitemap names what belongs to the crawl only when the seed's redirect
// has widened its scope, in the same run.
func TestSitemapSeedMoves(t *testing.T) {
	moved := newSiteAt(t, "127.0.0.2", map[string]string{"/home": "home", "/a": "a"}).addr
	s := newSite(t, map[string]string{"/": "301 " + moved + "/home", "/sitemap.xml": urlset(moved + "/a")})
	pages, _ := s.crawl(t.TempDir(), func(o *crawler.Options) { o.Scope = scope.Host })
	if want := []string{moved + "/a", moved + "/home"}; !slices.Equal(pages, want) {
		t.Errorf("pages %q, want %q", pages, want)
	}
}

// TestSitemapLarge: one with more URLs than an outcome has is read whole, and what is held by depth
// counts as well; a run that is stopped leaves it to the next one, or has read it.
func TestSitemapLarge(t *testing.T) {
	t.Parallel()
	var locs []string
	large := sized(12_000, 1200)
	for i := range large {
		locs = append(locs, fmt.Sprintf("/%d", i))
	}
	s := newSite(t, map[string]string{"/": "home", "/robots.txt": "User-agent: *\nDisallow: /1\nDisallow: /2", "/sitemap.xml": urlset(locs...)})
	dir := t.TempDir()
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := crawler.Run(ctx, crawler.Options{
			Tree:       filepath.Join(dir, "iut"),
			Output:     filepath.Join(dir, "res.txt"),
			Seeds:      []string{s.addr + "/"},
			Politeness: crawler.Politeness{Delay: -1},
			HTTP:       crawler.HTTP{AllowPrivate: true, Retries: -1},
			Storage:    crawler.Storage{NoSync: true},
			Resources:  crawler.Resources{FlushInterval: 20 * time.Millisecond},
			OnOutcome: func(o crawler.Outcome) {
				if o.State == record.Refused {
					cancel()
				}
			},
		})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		requireChecked(t, dir)
	}
	s.crawl(dir, nil)
	index := openIndex(t, dir)
	defer index.Close()
	m, _, err := index.Sitemaps().Get(s.addr + "/sitemap.xml")
	if err != nil || m.State != record.Read || m.Bytes != int64(large) || m.Cut != 0 {
		t.Errorf("%+v, %v", m, err)
	}
	if n := index.Totals().Records(); n != int64(large)+1 {
		t.Errorf("%d records, want one for each URL", n)
	}
	if n := s.count("/sitemap.xml"); n > 3 {
		t.Errorf("asked %d times in three runs", n)
	}
}

// TestSitemapsNamedLate: the sitemaps of a host are read when no URL of it is left to ask for its
// robots.txt: after a run that did not ask it, one in which the host was out of scope, and with an
// index that was made again.
func TestSitemapsNamedLate(t *testing.T) {
	t.Parallel()
	var origins []string
	origins = hosts(t, 2, func(host int, rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			fmt.Fprintf(rw, "<a href=%s/>", origins[1])
		case "/map.txt":
			rw.Header().Set("Content-Type", "text/plain")
			fmt.Fprintf(rw, "%s/hidden\n", origins[host])
		case "/hidden":
		default:
			http.NotFound(rw, r)
		}
	}, "Sitemap: /map.txt\n", "Sitemap: /map.txt\n")
	for _, tt := range []struct {
		name  string
		first func(*crawler.Options)
		lose  bool // index.db
	}{
		{"robots ignored", func(o *crawler.Options) { o.IgnoreRobots = true }, false},
		{"no sitemaps and no index", func(o *crawler.Options) { o.NoSitemaps = true }, true},
		{"one page", func(o *crawler.Options) { o.MaxPages = 1 }, true},
		{"another scope", func(o *crawler.Options) { o.Scope = scope.Host }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			opts := crawler.Options{
				Tree:       filepath.Join(dir, "iut"),
				Output:     filepath.Join(dir, "res.txt"),
				Seeds:      []string{origins[0] + "/"},
				Politeness: crawler.Politeness{Delay: -1},
				HTTP:       crawler.HTTP{AllowPrivate: true},
			}
			first := opts
			tt.first(&first)
			if _, err := crawler.Run(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			if tt.lose {
				remove(t, filepath.Join(opts.Tree, "index.db"))
			}
			if _, err := crawler.Run(t.Context(), opts); err != nil {
				t.Fatal(err)
			}
			want := []string{origins[0] + "/", origins[0] + "/hidden", origins[1] + "/", origins[1] + "/hidden"}
			requireSame(t, crawled(t, opts.Output), want)
			requireChecked(t, dir)
		})
	}
}
