package crawler_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"urltree/crawler"
	"urltree/crawler/weburl"
)

// TestChoices crawls one small site with each option that decides what is stored.
func TestChoices(t *testing.T) {
	pages := map[string]string{
		"/": `<a href="/a?utm_x=1&id=2"><a href="/a?id=2"><a href=/private/x><a href=/plain.txt><a href=/image>
			<a href=/big><img src=/picture><a href=/noindex><a href=/nofollow><a rel=nofollow href=/single>`,
		"/a": "a", "/private/x": "x", "/plain.txt": "plain", "/image": "png", "/picture": "p", "/big": strings.Repeat("big ", 30_000),
		"/noindex":  `<meta name=robots content=noindex><a href=/from-noindex>`,
		"/nofollow": `<meta name=robots content=nofollow><a href=/from-nofollow>`,
		"/single":   "s", "/from-noindex": "n", "/from-nofollow": "f",
	}
	origin := hosts(t, 1, func(_ int, rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/image", "/picture":
			rw.Header().Set("Content-Type", "image/png")
		case "/plain.txt":
			rw.Header().Set("Content-Type", "text/plain")
		}
		if text, ok := pages[r.URL.Path]; ok {
			fmt.Fprint(rw, text)
		} else {
			http.NotFound(rw, r)
		}
	}, "User-agent: *\nDisallow: /private/\n")[0]
	usual := []string{"/", "/a?id=2", "/a?utm_x=1&id=2", "/from-noindex", "/nofollow", "/plain.txt", "/single"}
	for _, tt := range []struct {
		name   string
		set    func(*crawler.Options)
		less   []string
		more   []string
		reason map[string]int64 // outcomes of the run
	}{
		{"defaults", func(o *crawler.Options) {}, nil, nil, map[string]int64{
			"refused robots": 1, "refused type": 1, "refused too-large": 1, "refused noindex": 1, "stored": 7,
		}},
		{"strip", func(o *crawler.Options) { o.Strip = weburl.Strip{Params: []string{"utm_*"}} }, []string{"/a?utm_x=1&id=2"}, nil, nil},
		{"ignore robots", func(o *crawler.Options) { o.IgnoreRobots = true }, nil, []string{"/noindex", "/private/x"}, nil},
		{"nofollow of all", func(o *crawler.Options) { o.NoFollow = "all" }, []string{"/single"}, nil, nil},
		{"nofollow of none", func(o *crawler.Options) { o.NoFollow = "none" }, nil, []string{"/from-nofollow"}, nil},
		{"all types", func(o *crawler.Options) { o.Accept = []string{"*/*"} }, nil, []string{"/image"}, nil},
		{"assets", func(o *crawler.Options) { o.Assets = true }, nil, []string{"/image", "/picture"}, nil},
		{"HTML only", func(o *crawler.Options) { o.Accept = []string{"text/html"} }, []string{"/plain.txt"}, nil, nil},
		{"cut", func(o *crawler.Options) { o.CutLarge = true }, nil, []string{"/big"}, nil},
		{"short URLs", func(o *crawler.Options) { o.MaxURL = len(origin) + len("/from-noindex") }, []string{"/a?utm_x=1&id=2"}, nil, map[string]int64{
			"refused length": 1, "refused robots": 1, "refused type": 1, "refused too-large": 1, "refused noindex": 1, "stored": 6,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			opts := crawler.Options{
				Tree:       filepath.Join(dir, "iut"),
				Output:     filepath.Join(dir, "res.txt"),
				Seeds:      []string{origin + "/"},
				Politeness: crawler.Politeness{Delay: -1},
				Limits:     crawler.Limits{MaxSize: 100_000},
			}
			tt.set(&opts)
			result, err := crawler.Run(t.Context(), opts)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, path := range append(slices.Clone(usual), tt.more...) {
				if !slices.Contains(tt.less, path) {
					want = append(want, origin+path)
				}
			}
			slices.Sort(want)
			requireSame(t, crawled(t, opts.Output), want)
			requireChecked(t, dir)
			for name, n := range tt.reason {
				if result.Run.Outcomes[name] != n {
					t.Errorf("%d x %s, want %d", result.Run.Outcomes[name], name, n)
				}
			}
			if tt.name == "cut" {
				requireLine(t, opts.Output, origin+"/big", "\tt\t", "\t100000\t")
			}
			if tt.name == "strip" {
				opts.Strip, opts.Seeds = weburl.Strip{}, nil
				if _, err := crawler.Run(t.Context(), opts); err == nil {
					t.Error("other strip rules than the tree was made with are accepted")
				}
			}
		})
	}
}

// requireLine looks for parts in the line of a URL.
func requireLine(t *testing.T, file, url string, parts ...string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, url+"\t") {
			for _, p := range parts {
				if !strings.Contains(line, p) {
					t.Errorf("%q is not in %q", p, line)
				}
			}
			return
		}
	}
	t.Errorf("no line of %s", url)
}
