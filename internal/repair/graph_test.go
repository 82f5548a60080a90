package repair

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"urltree/internal/edges"
	"urltree/internal/testsite"
	"urltree/internal/words"
	"urltree/iut"
	"urltree/storage/record"
)

// A graphSite is a site whose link graph is looked at. The edges of a page are its lines "link:
// URL"; with assets there is one more.
type graphSite struct {
	*testsite.Site
	graph  *Graph
	parsed []string // URLs of the pages whose folders were read for their edges
	want   map[string][]string
}

func newGraphSite(t *testing.T) *graphSite {
	g := &graphSite{Site: testsite.New(t, filepath.Join(t.TempDir(), "iut")), want: map[string][]string{}}
	t.Cleanup(g.Close)
	g.graph = &Graph{Tree: g.Tree, Index: g.Index, Parse: func(f iut.Facts, body []byte, assets bool) (list []edges.Edge) {
		g.parsed = append(g.parsed, f.URL)
		for _, l := range (&testsite.Parser{}).Parse(f, body).Links {
			list = append(list, edges.Edge{To: l.URL, Element: "a"})
		}
		if assets {
			list = append(list, edges.Edge{To: f.URL + ".png", Element: "img"})
		}
		return list
	}}
	return g
}

// page stores a page, with its edges if w is not nil.
func (g *graphSite) page(t *testing.T, w *edges.Writer, url string, links ...string) {
	t.Helper()
	f := g.Write(url, record.Seed, 0, links...)
	o := &record.Outcome{Row: record.Row{URL: url, Source: record.Seed}, State: record.Stored, Page: f.Page}
	if w != nil {
		p := edges.Page{URL: url}
		for _, to := range links {
			p.Edges = append(p.Edges, edges.Edge{To: to, Element: "a"})
		}
		if err := w.Append(edges.AppendPage(nil, p)); err != nil {
			t.Fatal(err)
		}
		var err error
		if o.EdgesEnd, err = w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	g.Commit(o)
	g.want[url] = links
}

// pages stores n pages, from a number on.
func (g *graphSite) pages(t *testing.T, w *edges.Writer, from, n int) {
	for i := from; i < from+n; i++ {
		g.page(t, w, fmt.Sprintf("http://a.org/%d", i), "http://a.org/0", fmt.Sprintf("http://b.org/%d", i), "http://a.org/0")
	}
}

func (g *graphSite) keep(t *testing.T, assets bool) *edges.Writer {
	t.Helper()
	w, err := g.graph.Keep(t.Context(), assets)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// require checks that each page is in the graph once, with its edges, and that so many were read
// from their folders.
func (g *graphSite) require(t *testing.T, fromFolders int) {
	t.Helper()
	g.parsed = nil
	got := map[string][]string{}
	err := g.graph.Pages(t.Context(), func(p edges.Page) error {
		if _, twice := got[p.URL]; twice {
			t.Errorf("%s comes twice", p.URL)
		}
		got[p.URL] = nil
		for _, e := range p.Edges {
			got[p.URL] = append(got[p.URL], e.To)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(g.want, got); diff != "" {
		t.Errorf("edges: %s", diff)
	}
	if len(g.parsed) != fromFolders {
		t.Errorf("%d pages are read from their folders, want %d", len(g.parsed), fromFolders)
	}
}

func (g *graphSite) kept(t *testing.T) record.Edges {
	t.Helper()
	kept, _, err := g.Index.Marks().Edges()
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

// TestGraphPartly: edges come from the file as far as it has them, and Keep makes what it lacks.
func TestGraphPartly(t *testing.T) {
	g := newGraphSite(t)
	g.require(t, 0)
	g.pages(t, nil, 0, 5)
	g.require(t, 5)
	w := g.keep(t, false)
	g.require(t, 0)
	g.pages(t, w, 5, 4)
	g.require(t, 0)
	w.Close()
	g.pages(t, nil, 9, 2)
	g.require(t, 2)
	g.graph.most = 2 // several passes give the same
	g.require(t, 2)
	g.parsed = nil
	w = g.keep(t, false)
	slices.Sort(g.parsed)
	if want := []string{"http://a.org/10", "http://a.org/9"}; !slices.Equal(g.parsed, want) {
		t.Errorf("read from their folders are %q, want %q", g.parsed, want)
	}
	g.pages(t, w, 11, 1)
	g.require(t, 0)
	if kept := g.kept(t); kept.Pages != 12 {
		t.Errorf("%d pages are kept, want 12", kept.Pages)
	}
	g.redirect(t, "http://a.org/0", "http://c.org/", "http://c.org/there")
	g.require(t, 0)
	noFaults(t, g.Site, CheckOptions{}, &testsite.Parser{})
}

// redirect makes a URL that a page names redirect.
func (g *graphSite) redirect(t *testing.T, source, url, target string) {
	t.Helper()
	g.Commit(&record.Outcome{Links: []record.Link{{URL: url, Source: source, Depth: 1}}})
	r, err := g.Index.Record(url)
	if err != nil {
		t.Fatal(err)
	}
	g.Commit(&record.Outcome{Row: r.Row, State: record.Redirected, Page: record.Page{Time: 1, Status: 301, HeaderLinks: target}})
	g.want[url] = []string{target}
}

// TestGraphAssets: with assets there are other edges, and all are made anew.
func TestGraphAssets(t *testing.T) {
	g := newGraphSite(t)
	g.pages(t, nil, 0, 3)
	g.keep(t, false).Close()
	g.keep(t, true).Close()
	for url, links := range g.want {
		g.want[url] = append(links, url+".png")
	}
	g.require(t, 0)
	// A page that comes without its edges has those to assets as well.
	g.pages(t, nil, 3, 1)
	g.want["http://a.org/3"] = append(g.want["http://a.org/3"], "http://a.org/3.png")
	g.require(t, 1)
}

// TestGraphCut cuts the file off, or turns a bit, at every eleventh byte: only the pages from there
// on are read again, by who reads and by the next run that keeps edges.
func TestGraphCut(t *testing.T) {
	g := newGraphSite(t)
	g.pages(t, g.keep(t, false), 0, 6)
	path := filepath.Join(g.Root, "edges")
	whole := testsite.Read(t, path)
	var ends []int
	_, _, err := g.Tree.ReadEdges(int64(len(whole)), func(edges.Page) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	kept := g.kept(t)
	for end := 16; end < len(whole); { // one page in each frame
		end += 12 + int(whole[end]) + int(whole[end+1])<<8
		ends = append(ends, end)
	}
	if len(ends) != 6 || ends[5] != len(whole) || kept != (record.Edges{End: int64(len(whole)), Pages: 6}) {
		t.Fatalf("frames end at %d of %d bytes, kept are %+v", ends, len(whole), kept)
	}
	for at := 0; at < len(whole); at += 11 {
		lost := 0
		for _, end := range ends {
			if at < end {
				lost++
			}
		}
		turned := whole[:at] + string(whole[at]^1) + whole[at+1:]
		for name, text := range map[string]string{"cut": whole[:at], "turned": turned} {
			if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
			if err := g.Index.Marks().SetEdges(kept); err != nil {
				t.Fatal(err)
			}
			g.require(t, lost)
			var faults []string
			report, err := Check(t.Context(), g.Tree, g.Index, &testsite.Parser{}, CheckOptions{}, func(f string) { faults = append(faults, f) })
			if err != nil {
				t.Fatal(err)
			}
			switch name { // a file that is too short is what a crash leaves, other damage is not
			case "cut":
				if len(faults) > 0 || report.Edges != int64(lost) || !strings.Contains(report.String(), "no fault: the file of edges is cut off, those of "+words.Count(lost, "page")+" are in") {
					t.Fatalf("cut at byte %d: check finds %q and\n%s", at, faults, report.String())
				}
			case "turned":
				if len(faults) != 1 || !strings.Contains(faults[0], "edges") {
					t.Fatalf("turned at byte %d: check finds %q", at, faults)
				}
			}
			if name == "turned" { // what no crawl leaves is for merge
				if err := g.graph.Mend(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			g.parsed = nil
			w, err := g.graph.Keep(t.Context(), false)
			if err != nil {
				t.Fatal(err)
			}
			w.Close()
			if len(g.parsed) != lost {
				t.Fatalf("%s at byte %d: %d pages are read again, want %d", name, at, len(g.parsed), lost)
			}
			g.require(t, 0)
			noFaults(t, g.Site, CheckOptions{}, &testsite.Parser{})
		}
		if t.Failed() {
			t.Fatalf("byte %d", at)
		}
	}
}

// TestGraphUncommitted: what was written and not committed does not count, and the page comes
// again.
func TestGraphUncommitted(t *testing.T) {
	g := newGraphSite(t)
	w := g.keep(t, false)
	g.pages(t, w, 0, 2)
	if err := w.Append(edges.AppendPage(nil, edges.Page{URL: "http://a.org/2", Edges: []edges.Edge{{To: "http://other.org/"}}})); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	g.require(t, 0)
	g.pages(t, g.keep(t, false), 2, 1)
	g.require(t, 0)
}

// TestGraphReopened: when a stored page is stored no more, nobody knows which entries count: all
// edges come from the folders, until a run keeps them again.
func TestGraphReopened(t *testing.T) {
	for name, again := range map[string]func(t *testing.T, g *graphSite){
		"gone": func(t *testing.T, g *graphSite) {
			delete(g.want, "http://a.org/1")
		},
		"there again": func(t *testing.T, g *graphSite) {
			g.page(t, nil, "http://a.org/1", "http://new.org/")
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGraphSite(t)
			g.pages(t, g.keep(t, false), 0, 3)
			if err := os.RemoveAll(filepath.Dir(g.File("http://a.org/1", "source.txt"))); err != nil {
				t.Fatal(err)
			}
			if r, err := newRebuild(g.Tree, g.Index, &testsite.Parser{}, nil).run(t.Context()); err != nil || r.Reopened != 1 {
				t.Fatalf("%d reopened, %v", r.Reopened, err)
			}
			again(t, g)
			g.require(t, len(g.want))
			g.keep(t, false)
			g.require(t, 0)
			noFaults(t, g.Site, CheckOptions{}, &testsite.Parser{})
		})
	}
}

// TestGraphCommittedTwice: a page whose edges are in the file twice makes nothing count twice.
func TestGraphCommittedTwice(t *testing.T) {
	g := newGraphSite(t)
	w := g.keep(t, false)
	g.pages(t, w, 0, 2)
	g.pages(t, w, 1, 1)
	g.require(t, 2)
	g.pages(t, w, 2, 1) // the run goes on, and still nothing counts
	g.require(t, 3)
	w.Close()
	g.keep(t, false)
	g.require(t, 0)
}

// TestGraphCutOff stops Keep at each page: what is done stays, and done again it ends with all,
// once.
func TestGraphCutOff(t *testing.T) {
	g := newGraphSite(t)
	g.pages(t, nil, 0, 5)
	parse := g.graph.Parse
	for stop := 1; stop <= 5; stop++ {
		if err := g.Index.Marks().SetEdges(record.Edges{}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		g.graph.Parse = func(f iut.Facts, body []byte, assets bool) []edges.Edge {
			if n++; n == stop {
				g.failNext(t)
			}
			return parse(f, body, assets)
		}
		_, err := g.graph.Keep(ctx, false)
		cancel()
		if err == nil && stop < 5 {
			t.Fatalf("page %d cannot be read, and no error", stop)
		}
		g.graph.Parse = parse
		g.restore(t)
		g.keep(t, false).Close()
		g.require(t, 0)
	}
}

// failNext takes away a page that Keep has not come to, the last in order.
func (g *graphSite) failNext(t *testing.T) {
	name := g.File("http://a.org/4", "source.txt")
	if err := os.Rename(name, name+".away"); err != nil {
		t.Fatal(err)
	}
}

func (g *graphSite) restore(t *testing.T) {
	name := g.File("http://a.org/4", "source.txt")
	if err := os.Rename(name+".away", name); err != nil {
		t.Fatal(err)
	}
}

// TestGraphErrors: the errors of who is told, of the context and of a page that is gone come back.
func TestGraphErrors(t *testing.T) {
	g := newGraphSite(t)
	g.pages(t, g.keep(t, false), 0, 2)
	g.pages(t, nil, 2, 1)
	mine := errors.New("mine")
	for _, at := range slices.Sorted(maps.Keys(g.want)) {
		err := g.graph.Pages(t.Context(), func(p edges.Page) error {
			if p.URL == at {
				return mine
			}
			return nil
		})
		if err != mine {
			t.Errorf("at %s: %v", at, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.graph.Pages(ctx, func(edges.Page) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := os.Remove(g.File("http://a.org/2", "source.txt")); err != nil {
		t.Fatal(err)
	}
	if err := g.graph.Pages(t.Context(), func(edges.Page) error { return nil }); !errors.Is(err, record.ErrDamaged) {
		t.Errorf("a stored page is gone: %v", err)
	}
}
