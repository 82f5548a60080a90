package inspect

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"urltree/internal/edges"
	"urltree/iut"
	"urltree/storage/record"
)

// TestParts: each kind of export has the same part of a tree, by prefix and by time.
func TestParts(t *testing.T) {
	i := open(t)
	const a, b, c, old, gone, wait = "http://h.example/a/1", "http://h.example/a/2", "http://h.example/b", "http://h.example/a/old", "http://h.example/a/gone", "http://h.example/a/wait"
	outcome := func(url string, state record.State, page record.Page) *record.Outcome {
		return &record.Outcome{Row: record.Row{URL: url, Tries: 1}, State: state, Page: page}
	}
	commit(t, i, &record.Outcome{Links: links(0, a, record.Seed, b, record.Seed, c, record.Seed, old, record.Seed, gone, record.Seed, wait, record.Seed)})
	for at, url := range map[int64]string{100: a, 200: b, 300: c} {
		page := record.Page{Time: at, Status: 200, Bytes: 1, Media: "text/html", Charset: "utf-8", Flags: "-"}
		if _, err := i.Tree.Store(&iut.Page{Facts: iut.Facts{URL: url, Page: page}, Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		facts, ok, err := i.Tree.Complete(iut.Facts{URL: url}, true)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		commit(t, i, outcome(url, record.Stored, facts.Page))
	}
	commit(t, i, outcome(old, record.Redirected, record.Page{Time: 200, Status: 301, HeaderLinks: b}), outcome(gone, record.Failed, record.Page{Time: 300, Status: 404}))
	i.Edges = func(_ context.Context, fn func(edges.Page) error) error {
		for _, url := range []string{a, b, c, old, "http://h.example/a/unknown"} {
			if err := fn(edges.Page{URL: url, Edges: []edges.Edge{{To: "http://to.example/", Element: "a"}}}); err != nil {
				return err
			}
		}
		return nil
	}
	url := regexp.MustCompile(`http://h\.example/[a-z0-9/]+`)
	found := map[string]string{ // where a URL stands in each kind of export
		"urls": `(?m)^\S+`, "edges": `(?m)^\S+`, "warc": `(?m)^WARC-Target-URI: \S+`, "cdxj": `"url":"[^"]+`, "wacz": `"url":"[^"]+`,
	}
	for _, tt := range []struct {
		name         string
		prefix       string
		since, until int64
		pages, more  []string // more are those besides the pages that urls and edges have
	}{
		{"all", "", 0, 0, []string{a, b, c}, []string{old, gone, wait}},
		{"from", "", 200, 0, []string{b, c}, []string{old, gone}},
		{"to", "", 0, 200, []string{a}, nil},
		{"from and to", "", 200, 300, []string{b}, []string{old}},
		{"nothing", "", 301, 400, nil, nil},
		{"prefix", "http://h.example/a/", 0, 0, []string{a, b}, []string{old, gone, wait}},
		{"prefix and from", "http://h.example/a", 200, 0, []string{b}, []string{old, gone}},
		{"prefix of one page", "http://h.example/b", 0, 0, []string{c}, nil},
	} {
		for what, re := range found {
			want := slices.Clone(tt.pages)
			for _, url := range tt.more {
				if what == "urls" || what == "edges" && url == old {
					want = append(want, url)
				}
			}
			q := Question{Command: "export", What: what, URL: tt.prefix, Since: tt.since, Until: tt.until}
			if what == "warc" {
				q.Format = "plain"
			}
			var out strings.Builder
			if err := i.Run(t.Context(), q, &out); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, at := range regexp.MustCompile(re).FindAllString(out.String(), -1) {
				got = append(got, url.FindAllString(at, -1)...)
			}
			if what == "edges" && tt.since+tt.until == 0 {
				got = slices.DeleteFunc(got, func(url string) bool { return strings.HasSuffix(url, "unknown") })
			}
			slices.Sort(got)
			slices.Sort(want)
			if got = slices.Compact(got); !slices.Equal(got, want) {
				t.Errorf("%s: %s has %q, want %q", tt.name, what, got, want)
			}
		}
	}
	for _, q := range []Question{{What: "ranks", Since: 1}, {Since: 2, Until: 2}, {What: "warc", Since: 3, Until: 2}} {
		q.Command = "export"
		if err := i.Run(t.Context(), q, new(strings.Builder)); !errors.Is(err, ErrUsage) {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

// TestTell: an export of a local tree tells how far it is, of as many as its prefix has.
func TestTell(t *testing.T) {
	i := sample(t)
	i.Edges = func(_ context.Context, fn func(edges.Page) error) error {
		for range 4 { // three stored pages and a redirect
			if err := fn(edges.Page{URL: "https://example.org/"}); err != nil {
				return err
			}
		}
		return nil
	}
	for _, tt := range []struct {
		what, prefix string
		total        int64
	}{
		{"urls", "", i.Index.Totals().Records()},
		{"warc", "", i.Index.Totals().Records()},
		{"cdxj", "https://example.org/docs/", 5},
		{"wacz", "https://example.org/docs/", 5},
		{"edges", "", 4},
	} {
		var told []int64
		i.Tell = func(_ string, done, total int64) {
			if total != tt.total {
				t.Errorf("%s: %d of %d, want of %d", tt.what, done, total, tt.total)
			}
			told = append(told, done)
		}
		if err := i.Run(t.Context(), Question{Command: "export", What: tt.what, URL: tt.prefix}, new(strings.Builder)); err != nil {
			t.Fatal(err)
		}
		if len(told) == 0 || told[len(told)-1] < tt.total-1 {
			t.Errorf("%s: told %v of %d", tt.what, told, tt.total)
		}
	}
}
