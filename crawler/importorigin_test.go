package crawler

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"urltree/internal/captures"
	"urltree/iut"
	"urltree/storage/record"
)

// TestOrigin: what archives say of where a URL comes from, in the forms of several programs.
func TestOrigin(t *testing.T) {
	const url, parent = "http://a.example/x", "http://a.example/"
	facts := iut.Facts{URL: url, Source: parent, Page: record.Page{Time: 7, PageDepth: 5}}.AppendLine(nil)
	line := string(facts[:len(facts)-1])
	for _, tt := range []struct {
		name    string
		about   map[string]string
		request string
		want    origin
		seed    bool
	}{
		{name: "nothing", want: origin{depth: -1}, seed: true},
		{name: "facts", about: map[string]string{"facts": line, "via": "http://b.example/"}, want: origin{source: parent, depth: 5, time: 7}},
		{name: "facts that are damaged", about: map[string]string{"facts": line[1:], "via": parent}, want: origin{source: parent, depth: -1}},
		{
			name:  "an export",
			about: map[string]string{"via": parent, "depth": "3", "redirected-from": "http://a.example/old", "time": "1970-01-01T00:01:00Z"},
			want:  origin{source: parent, via: "http://a.example/old", depth: 3, time: 60},
		},
		{name: "a seed of an export", about: map[string]string{"via": "seed", "depth": "0"}, want: origin{source: "seed"}, seed: true},
		{
			name:  "the target of a seed's redirect, in an export",
			about: map[string]string{"via": "seed", "depth": "0", "redirected-from": "http://a.example/old"},
			want:  origin{source: "seed", via: "http://a.example/old"},
		},
		{name: "Heritrix", about: map[string]string{"via": parent, "hopsfromseed": " LLEP"}, want: origin{source: parent, depth: 3}},
		{name: "Heritrix, far away", about: map[string]string{"via": parent, "hopsfromseed": "50+LL"}, want: origin{source: parent, depth: 52}},
		{
			name: "Heritrix, a redirect", about: map[string]string{"via": parent, "hopsfromseed": "LR"},
			want: origin{source: parent, via: parent, redirected: true, depth: 1},
		},
		{name: "a seed of Heritrix", about: map[string]string{"hopsfromseed": ""}, want: origin{depth: -1}, seed: true},
		{name: "Referer", request: "GET /x HTTP/1.1\r\nreferer: http://A.example\r\n\r\n", want: origin{source: parent, depth: -1}},
		{name: "Referer, the page itself", request: "GET /x HTTP/1.1\r\nReferer: " + url + "#top\r\n\r\n", want: origin{depth: -1}, seed: true},
		{name: "Referer, no URL of the web", request: "GET /x HTTP/1.1\r\nReferer: about:blank\r\n\r\n", want: origin{depth: -1}, seed: true},
		{name: "via before Referer", about: map[string]string{"via": parent}, request: "GET /x HTTP/1.1\r\nReferer: http://b.example/\r\n\r\n", want: origin{source: parent, depth: -1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := &importing{e: &engine{rules: rules{linker: new(Linker)}}}
			got := i.originOf(&captures.Capture{About: tt.about, Request: []byte(tt.request)}, url)
			if got != tt.want || got.isSeed() != tt.seed {
				t.Errorf("%+v, seed %v; want %+v, %v", got, got.isSeed(), tt.want, tt.seed)
			}
		})
	}
}

// TestArchivesAlone: an import fills a tree, from files that are there.
func TestArchivesAlone(t *testing.T) {
	for _, opts := range []Options{
		{Archives: []string{"a.warc"}, NoTree: true, Seeds: []string{"http://a.example/"}},
		{Archives: []string{"a.warc"}, Fetch: func(context.Context, string) (Content, error) { return Content{}, nil }},
		{Archives: []string{filepath.Join(t.TempDir(), "a.warc")}, Tree: filepath.Join(t.TempDir(), "iut")},
	} {
		if _, err := Run(t.Context(), opts); !errors.Is(err, ErrOptions) {
			t.Errorf("%v, want ErrOptions", err)
		}
		if _, err := os.Stat(opts.Tree); opts.Tree != "" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a tree was made: %v", err)
		}
	}
}
