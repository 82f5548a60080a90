package crawler_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"urltree/crawler"
	"urltree/crawler/scope"
	"urltree/storage/record"
)

// TestWidened runs with narrow options and then, in the same tree, with wide ones: what is known
// and what became of it is what a fresh crawl with the wide ones gives, though the pages of
// the first run are not asked for again.
func TestWidened(t *testing.T) {
	t.Parallel()
	var origins []string
	origins = hosts(t, 2, func(host int, rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			fmt.Fprint(rw, `<a href=/a><a href=/d/e><img src=/picture><a href=/image><a rel=nofollow href=/single>
				<a href=/nofollow><a href=/noindex><a href=/private><link rel=stylesheet href=/style>
				<a href=/moved><a href=/list?1><a href=/list?2><a href=/list?3><a href=/x/x/x/>`)
		case "/a":
			fmt.Fprint(rw, `<a href=/a/b><a href=`, origins[1], `/other>`)
		case "/a/b":
			fmt.Fprint(rw, `<a href=/a/b/c><img src=/deep-picture>`)
		case "/d/e":
			fmt.Fprint(rw, `<a href=/d/f><img src=/picture>`)
		case "/nofollow":
			fmt.Fprint(rw, `<meta name=robots content=nofollow><a href=/from-nofollow>`)
		case "/noindex":
			fmt.Fprint(rw, `<meta name=robots content=noindex><a href=/from-noindex><img src=/from-noindex.png>`)
		case "/moved":
			http.Redirect(rw, r, "/moved/to", http.StatusFound)
		case "/moved/to":
			fmt.Fprint(rw, `<a href=/moved/on>`)
		case "/picture", "/image", "/deep-picture", "/from-noindex.png":
			rw.Header().Set("Content-Type", "image/png")
		case "/style":
			rw.Header().Set("Content-Type", "text/css")
		}
	}, "User-agent: *\nDisallow: /private\n")
	for _, tt := range []struct {
		name         string
		narrow, wide func(*crawler.Options)
	}{
		{"scope", func(o *crawler.Options) { o.Scope = scope.Prefix; o.Seeds = []string{origins[0] + "/d/e"} }, func(o *crawler.Options) { o.Seeds = []string{origins[0] + "/d/e", origins[0] + "/"} }},
		{"include", func(o *crawler.Options) { o.Include = []*regexp.Regexp{regexp.MustCompile("/(a|moved)$")} }, nil},
		{"exclude", func(o *crawler.Options) { o.Exclude = []*regexp.Regexp{regexp.MustCompile("/to|/a")} }, nil},
		{"depth", func(o *crawler.Options) { o.MaxDepth = 1 }, nil},
		{"deeper", func(o *crawler.Options) { o.MaxDepth = 1 }, func(o *crawler.Options) { o.MaxDepth = 2 }},
		{"seeds alone", func(o *crawler.Options) { o.SeedsOnly = true }, func(o *crawler.Options) { o.SeedsOnly, o.MaxDepth = false, 1 }},
		{"assets", nil, func(o *crawler.Options) { o.Assets = true }},
		{"types", nil, func(o *crawler.Options) { o.Accept = []string{"text/html", "image/*"} }},
		{"nofollow none", func(o *crawler.Options) { o.NoFollow = "all" }, func(o *crawler.Options) { o.NoFollow = "none" }},
		{"robots", nil, func(o *crawler.Options) { o.IgnoreRobots = true }},
		{"budgets", func(o *crawler.Options) { o.Budgets = crawler.Budgets{Query: 1, Repeat: 1, Depth: 2, MaxHeld: 2} }, nil},
		{"host", func(o *crawler.Options) { o.Budgets = crawler.Budgets{Host: 5, MaxHeld: 1} }, func(o *crawler.Options) { o.Budgets = crawler.Budgets{Host: 50} }},
		{"all at once", func(o *crawler.Options) { o.MaxDepth, o.Scope, o.NoFollow = 1, scope.Prefix, "all" }, func(o *crawler.Options) { o.Assets, o.NoFollow = true, "none" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, other := t.TempDir(), t.TempDir()
			run := func(dir string, set func(*crawler.Options)) map[string]record.Record {
				opts := crawler.Options{
					Tree:       filepath.Join(dir, "iut"),
					Output:     filepath.Join(dir, "res.txt"),
					Seeds:      []string{origins[0] + "/"},
					Politeness: crawler.Politeness{Delay: -1},
					HTTP:       crawler.HTTP{AllowPrivate: true},
				}
				if set != nil {
					set(&opts)
				}
				if _, err := crawler.Run(t.Context(), opts); err != nil {
					t.Fatal(err)
				}
				requireChecked(t, dir)
				return records(t, opts.Tree)
			}
			narrow := run(dir, tt.narrow)
			got, want := run(dir, tt.wide), run(other, tt.wide)
			requireSame(t, crawled(t, filepath.Join(dir, "res.txt")), sorted(crawled(t, filepath.Join(other, "res.txt"))))
			for url, w := range want {
				if g, ok := got[url]; !ok || g.State != w.State || g.Reason != w.Reason {
					t.Errorf("%s: %v %q, a fresh crawl gives %v %q", url, g.State, g.Reason, w.State, w.Reason)
				}
				if n := narrow[url]; n.State == record.Stored && n.Time != got[url].Time {
					t.Errorf("%s was asked for again", url)
				}
			}
			for url := range got {
				if _, ok := want[url]; !ok {
					t.Errorf("%s is known, a fresh crawl does not know it", url)
				}
			}
			if len(narrow) == len(want) && crawledSame(narrow, want) {
				t.Error("the wide options change nothing: no test")
			}
		})
	}
}

// crawledSame reports whether the states of two crawls are the same.
func crawledSame(a, b map[string]record.Record) bool {
	for url, r := range a {
		if b[url].State != r.State {
			return false
		}
	}
	return true
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }
