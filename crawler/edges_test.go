package crawler_test

import (
	"errors"
	"html"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"urltree/crawler"
	"urltree/internal/edges"
	"urltree/internal/rank"
	"urltree/internal/testweb"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

var link = regexp.MustCompile(`<a href="([^"]*)">([^<]*)</a>`)

// answerEdges returns the edges of a full crawl, worked out from the pages with nothing of ours: of
// each stored page in page order, and that of each redirect; pages sorted.
func answerEdges(t testing.TB, web *testweb.Web) []string {
	t.Helper()
	answer := web.Answer()
	var list []string
	for _, from := range answer.Stored {
		base, err := url.Parse(from)
		if err != nil {
			t.Fatal(err)
		}
		body := string(web.Body(from))
		if !strings.HasPrefix(body, "<") {
			continue // plain text
		}
		for _, m := range link.FindAllStringSubmatch(body, -1) {
			to, err := base.Parse(html.UnescapeString(m[1]))
			if err != nil {
				t.Fatal(err)
			}
			to.Fragment = ""
			list = append(list, strings.Join([]string{from, to.String(), "a", "", m[2]}, "\t"))
		}
	}
	for from, to := range answer.Redirected {
		list = append(list, strings.Join([]string{from, to, "redirect", "", ""}, "\t"))
	}
	slices.SortStableFunc(list, bySource)
	return list
}

func bySource(a, b string) int {
	a, _, _ = strings.Cut(a, "\t")
	b, _, _ = strings.Cut(b, "\t")
	return strings.Compare(a, b)
}

// edgesOf returns the edges of a graph as answerEdges does.
func edgesOf(t testing.TB, source rank.Source) (list []string) {
	t.Helper()
	pages := map[string]bool{}
	err := source(t.Context(), func(p edges.Page) error {
		if pages[p.URL] {
			t.Errorf("%s is twice in the graph", p.URL)
		}
		pages[p.URL] = true
		for _, e := range p.Edges {
			list = append(list, strings.Join([]string{p.URL, e.To, e.Element, e.Rel, e.Text}, "\t"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(list, bySource)
	return list
}

// graphOf returns the edges of a tree, and how many pages have theirs in the file.
func graphOf(t testing.TB, root string) (list []string, kept record.Edges) {
	t.Helper()
	withGraph(t, root, func(source rank.Source, index *storage.Index) {
		list = edgesOf(t, source)
		var err error
		if kept, _, err = index.Marks().Edges(); err != nil {
			t.Fatal(err)
		}
	})
	return list, kept
}

func withGraph(t testing.TB, root string, fn func(rank.Source, *storage.Index)) {
	t.Helper()
	tree, err := iut.Open(root, iut.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	index, err := storage.Open(filepath.Join(root, "index.db"), storage.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	graph, err := crawler.NewGraph(tree, index)
	if err != nil {
		t.Fatal(err)
	}
	fn(graph.Pages, index)
}

// requireEdges requires that the file has the edges of all pages of a finished crawl.
func requireEdges(t testing.TB, root string, web *testweb.Web) {
	t.Helper()
	got, kept := graphOf(t, root)
	if want := int64(len(web.Answer().Stored)); kept.Pages != want {
		t.Errorf("%d pages have their edges in the file, want %d", kept.Pages, want)
	}
	if want := answerEdges(t, web); !slices.Equal(got, want) {
		t.Errorf("%d edges, want %d: %s", len(got), len(want), cmp.Diff(want, got))
	}
}

// TestEdges: the edges of a crawl are those of its pages, by occurrence and in page order, whether
// they were kept from the beginning, for a part of it, or never.
func TestEdges(t *testing.T) {
	pages := sized(400, 160)
	first := int64(pages) * 3 / 8 // what all runs but the last store
	web := serve(t, testweb.Options{
		Kind: testweb.Linked, Hosts: 15, Pages: pages, Seed: 61, MinSize: 300, MaxSize: 3000,
		Redirects: .08, Errors: .01, Texts: .05, Images: .03, NoIndex: .05, Private: .02,
	})
	total := int64(len(web.Answer().Stored))
	want := answerEdges(t, web)
	for _, tt := range []struct {
		name string
		runs []bool // whether each run keeps edges
		kept int64
	}{
		{"always", []bool{true, true}, total},
		{"never", []bool{false}, 0},
		{"at first", []bool{true, false}, first},
		{"at last", []bool{false, true}, total},
		{"in between", []bool{false, true, false}, 2 * first},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for i, keeps := range tt.runs {
				opts := options(dir, web)
				opts.Retries, opts.Edges, opts.NoSync = -1, keeps, true
				if i < len(tt.runs)-1 {
					opts.MaxPages = first
				}
				if _, err := crawler.Run(t.Context(), opts); err != nil {
					t.Fatal(err)
				}
			}
			root := filepath.Join(dir, "iut")
			got, kept := graphOf(t, root)
			if !slices.Equal(got, want) {
				t.Errorf("%d edges, want %d: %s", len(got), len(want), cmp.Diff(want, got))
			}
			if kept.Pages != tt.kept {
				t.Errorf("%d pages have their edges in the file, want %d", kept.Pages, tt.kept)
			}
			if _, err := os.Stat(filepath.Join(root, "edges")); tt.kept == 0 && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("without edges there is a file of edges: %v", err)
			}
			requireChecked(t, dir)
		})
	}
}

// TestEdgesWithoutIndex: when the index is lost, the next run that keeps edges makes all again.
func TestEdgesWithoutIndex(t *testing.T) {
	t.Parallel()
	web := serve(t, testweb.Options{Kind: testweb.Tree, Hosts: 5, Pages: 150, Seed: 62, MinSize: 300, MaxSize: 3000})
	for name, again := range map[string]func(t *testing.T, dir string){
		"made by merge":    func(t *testing.T, dir string) { merge(t, dir) },
		"made by the next": func(*testing.T, string) {},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			opts := options(dir, web)
			opts.Edges, opts.MaxPages, opts.NoSync = true, 100, true
			if _, err := crawler.Run(t.Context(), opts); err != nil {
				t.Fatal(err)
			}
			remove(t, filepath.Join(opts.Tree, "index.db"))
			again(t, dir)
			opts.MaxPages = 0
			if _, err := crawler.Run(t.Context(), opts); err != nil {
				t.Fatal(err)
			}
			requireEdges(t, opts.Tree, web)
			requireChecked(t, dir)
		})
	}
}
