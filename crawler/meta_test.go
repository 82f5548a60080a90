package crawler_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"urltree/crawler"
	"urltree/storage"
	"urltree/storage/record"
)

// TestMetadata crawls pages that say something about themselves. From the folders come the same
// metadata, without what only a header said.
func TestMetadata(t *testing.T) {
	const noindex = `<title>N</title><meta name=robots content=noindex>`
	pages := map[string]string{
		"/": `<html lang=en><title>Caf` + "\xe9" + ` &amp; bar</title><meta name=description content="Best in
			town"><link rel=canonical href=/other><h1>Menu</h1><h2>Drinks <a href=/plain>all</a></h2>
			<script>"<h1>no</h1>"</script><a href=/header><a href=/noindex><a href=/missing>`,
		"/other": noindex, "/noindex": noindex, "/plain": "<title>no</title>", "/header": "<p>x",
	}
	origin := hosts(t, 1, func(_ int, rw http.ResponseWriter, r *http.Request) {
		text, ok := pages[r.URL.Path]
		rw.Header().Set("Content-Type", "text/html; charset=iso-8859-1")
		switch r.URL.Path {
		case "/plain":
			rw.Header().Set("Content-Type", "text/plain")
		case "/header":
			rw.Header().Set("Content-Language", "de")
			rw.Header()["X-Robots-Tag"] = []string{"noarchive", "googlebot: none"}
		}
		if !ok {
			rw.WriteHeader(http.StatusNotFound)
			text = "<title>no</title>"
		}
		fmt.Fprint(rw, text)
	}, "")[0]
	dir := t.TempDir()
	opts := crawler.Options{
		Tree:       filepath.Join(dir, "iut"),
		Output:     filepath.Join(dir, "res.txt"),
		Seeds:      []string{origin + "/"},
		Politeness: crawler.Politeness{Delay: -1},
	}
	if _, err := crawler.Run(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	want := map[string]*record.Meta{
		"/": {
			Title: "Café & bar", Description: "Best in town", Language: "en", Canonical: origin + "/other",
			Headings:  []record.Heading{{Level: 1, Text: "Menu"}, {Level: 2, Text: "Drinks all"}},
			LinkTexts: []string{"all"},
		},
		"/header": {Language: "de", RobotsHeader: "noarchive, googlebot: none"},
		"/plain":  nil, "/noindex": nil, "/other": nil, "/missing": nil,
	}
	require := func() {
		t.Helper()
		requireChecked(t, dir)
		index, err := storage.Open(filepath.Join(opts.Tree, "index.db"), storage.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer index.Close()
		for path, m := range want {
			got, err := index.Meta(origin + path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(m, got); diff != "" {
				t.Errorf("%s: %s", path, diff)
			}
		}
	}
	require()
	merge(t, dir)
	require()
	remove(t, filepath.Join(opts.Tree, "index.db"))
	merge(t, dir)
	want["/header"] = nil
	require()
}
