package crawler_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"urltree/crawler"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// dear makes a page of n references, each of which counts for as much work as one can.
func dear(n int) string { return strings.Repeat("<a href='//"+strings.Repeat("%", 8200)+"'>", n) }

// TestPoison: pages that ask for too much work, or make the parser panic, have failed with the
// reason, without links; the crawl goes on with the others.
func TestPoison(t *testing.T) {
	pages := map[string]string{
		"/":         `<a href=/budget><a href=/whole>`,
		"/budget":   `<a href=/no>` + dear(900) + `<a href=/no>`,
		"/whole":    dear(9) + `<a href=/leaf>`,
		"/leaf":     `<p>leaf`,
		"/together": `<p>x`,
	}
	for _, tt := range []struct {
		name    string
		include []*regexp.Regexp
		want    map[string]string
	}{
		{"budget", nil, map[string]string{
			"/": "stored", "/budget": "failed parse-budget", "/whole": "stored", "/leaf": "stored", "/together": "stored", "/no": "",
		}},
		// A pattern that was never compiled panics at the first link it is asked for.
		{"panic", []*regexp.Regexp{new(regexp.Regexp)}, map[string]string{
			"/": "failed panic", "/together": "stored", "/budget": "", "/whole": "",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			origin := hosts(t, 1, func(_ int, rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("Content-Type", "text/html; charset=utf-8")
				fmt.Fprint(rw, pages[r.URL.Path])
			}, "")[0]
			dir := t.TempDir()
			if _, err := crawler.Run(t.Context(), crawler.Options{
				Tree:       filepath.Join(dir, "iut"),
				Output:     filepath.Join(dir, "res.txt"),
				Seeds:      []string{origin + "/", origin + "/together"},
				Politeness: crawler.Politeness{Delay: -1},
				HTTP:       crawler.HTTP{Retries: -1},
				Bounds:     crawler.Bounds{Include: tt.include},
			}); err != nil {
				t.Fatal(err)
			}
			requireChecked(t, dir)
			index, err := storage.Open(filepath.Join(dir, "iut", "index.db"), storage.Options{ReadOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			defer index.Close()
			for path, want := range tt.want {
				r, err := index.Record(origin + path)
				got := strings.TrimSpace(r.State.String() + " " + r.Reason)
				if err != nil {
					got = ""
				}
				if got != want {
					t.Errorf("%s: %q, %v; want %q", path, got, err, want)
				}
			}
		})
	}
}

// TestPoisonInTree: a folder that makes the parser panic ends neither merge nor the start of a run.
func TestPoisonInTree(t *testing.T) {
	l := &crawler.Linker{} // without a scope: its first link panics
	f := iut.Facts{URL: "http://example.org/", Page: record.Page{Media: "text/html"}}
	if got := l.Parse(f, []byte("<title>x</title><a href=/y>")); got.Links != nil || got.Meta != nil || l.Rejections()["panic"] != 1 {
		t.Errorf("%+v, %v", got, l.Rejections())
	}
}
