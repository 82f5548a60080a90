package repair

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"urltree/internal/testsite"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

func TestMain(m *testing.M) {
	// Each random run makes trees on disk. More by -rapid.checks.
	if err := flag.Set("rapid.checks", "40"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// A plan is a random site: which pages exist, what they link to, and how each came to lie in its
// folder.
type plan struct {
	seeds []string
	pages []planned // in the order in which a crawl wrote them
}

type planned struct {
	url, source string
	depth       uint32
	links       []string
	state       string
}

// The states of a page in a plan.
const (
	stored  = "stored"  // folder and index
	unknown = "unknown" // whole folder; a kill came before the commit
	failed  = "failed"  // whole folder; the index has another outcome
	lost    = "lost"    // the index calls it stored; the folder is gone
	other   = "other"   // the index calls another body stored
	torn    = "torn "   // and how: not whole, and the index does not call it stored
)

var tornBy = map[string]func(s *testsite.Site, url string) error{
	"no source.txt": func(s *testsite.Site, url string) error { return os.Remove(s.File(url, "source.txt")) },
	"no content":    func(s *testsite.Site, url string) error { return os.Remove(s.File(url, "content.html")) },
	"half a line":   func(s *testsite.Site, url string) error { return os.Truncate(s.File(url, "source.txt"), 20) },
	"short content": func(s *testsite.Site, url string) error { return os.Truncate(s.File(url, "content.html"), 3) },
	"other content": func(s *testsite.Site, url string) error {
		name := s.File(url, "content.html")
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		return os.WriteFile(name, []byte(strings.Repeat("x", int(info.Size()))), 0o644)
	},
}

var universe = func() (urls []string) {
	for _, host := range []string{"a.org", "b.org", "c.org"} {
		for _, path := range []string{"/", "/x", "/x/", "/x/y", "/x?q"} {
			urls = append(urls, "http://"+host+path)
		}
	}
	return urls
}()

func drawPlan(t *rapid.T) plan {
	p := plan{seeds: rapid.SliceOfNDistinct(rapid.SampledFrom(universe), 1, 3, rapid.ID[string]).Draw(t, "seeds")}
	states := []string{stored, stored, stored, unknown, failed, lost, other}
	for _, how := range slices.Sorted(maps.Keys(tornBy)) {
		states = append(states, torn+how)
	}
	for _, url := range rapid.SliceOfNDistinct(rapid.SampledFrom(universe), 0, 8, rapid.ID[string]).Draw(t, "pages") {
		page := planned{
			url: url, source: universe[0], depth: uint32(rapid.IntRange(1, 4).Draw(t, "depth")),
			links: rapid.SliceOfN(rapid.SampledFrom(universe), 0, 5).Draw(t, "links"),
			state: rapid.SampledFrom(states).Draw(t, "state"),
		}
		if slices.Contains(p.seeds, url) || rapid.IntRange(0, 4).Draw(t, "target of a seed") == 0 {
			page.source, page.depth = record.Seed, 0
		}
		p.pages = append(p.pages, page)
	}
	return p
}

// make lets the plan come true, as a crawl with the parser p and some accidents would.
func (pl *plan) make(s *testsite.Site, p *testsite.Parser) {
	s.Seed(pl.seeds...)
	for _, url := range pl.seeds {
		p.AddSeed(url)
	}
	for _, page := range pl.pages {
		if page.source == record.Seed {
			p.AddSeed(page.url) // the redirect of its seed came before
		}
	}
	for _, page := range pl.pages {
		f := s.Write(page.url, page.source, page.depth, page.links...)
		parsed := p.Parse(f, testsite.BodyOf(page.url, page.links))
		o := &record.Outcome{
			Row:   record.Row{URL: page.url, Source: page.source, Depth: page.depth},
			State: record.Stored, Page: f.Page, Links: parsed.Links, Meta: parsed.Meta,
		}
		var err error
		switch page.state {
		case stored:
			s.Commit(o)
		case lost:
			s.Commit(o)
			err = errors.Join(os.Remove(s.File(page.url, "source.txt")), os.Remove(s.File(page.url, "content.html")))
		case other:
			o.Page.Digest[0] ^= 1
			s.Commit(o)
		case failed:
			o.State, o.Reason, o.Page, o.Links = record.Failed, "timeout", record.Page{}, nil
			s.Commit(o)
		case unknown:
		default:
			err = tornBy[strings.TrimPrefix(page.state, torn)](s, page.url)
		}
		if err != nil {
			s.T.Fatal(err)
		}
	}
}

func (pl *plan) complete() map[string]planned {
	whole := map[string]planned{}
	for _, page := range pl.pages {
		if page.state != lost && !strings.HasPrefix(page.state, torn) {
			whole[page.url] = page
		}
	}
	return whole
}

// pending returns, by the rule, the URLs without a page and their shortest depths.
func (pl *plan) pending(scoped bool) map[string]uint32 {
	whole := pl.complete()
	hosts := map[string]bool{}
	for _, url := range pl.seeds {
		hosts[record.Host(url)] = true
	}
	for url, page := range whole {
		if page.source == record.Seed {
			hosts[record.Host(url)] = true
		}
	}
	want := map[string]uint32{}
	for _, page := range whole {
		for _, url := range page.links {
			if scoped && !hosts[record.Host(url)] {
				continue
			}
			if d, ok := want[url]; !ok || page.depth+1 < d {
				want[url] = page.depth + 1
			}
		}
	}
	for _, url := range pl.seeds {
		want[url] = 0
	}
	for url := range whole {
		delete(want, url)
	}
	return want
}

// The rule of the whole package: from folders, seeds.txt and FORMAT alone, stored = complete
// pages, and pending = seeds and links of stored pages that have no complete page.
func TestTreeSuffices(t *testing.T) {
	t.Parallel()
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		root := filepath.Join(dir, fmt.Sprint(n))
		if err := os.Mkdir(root, 0o755); err != nil {
			t.Fatal(err)
		}
		s := testsite.New(t, filepath.Join(root, "iut"))
		defer s.Close()
		scoped := rapid.Bool().Draw(t, "scoped")
		newParser := func() *testsite.Parser {
			if scoped {
				return &testsite.Parser{Hosts: map[string]bool{}}
			}
			return &testsite.Parser{}
		}
		pl := drawPlan(t)
		pl.make(s, newParser())
		s.Close()
		if err := os.Remove(s.Path(indexName)); err != nil {
			t.Fatal(err)
		}
		opts := MergeOptions{
			Root: s.Root, Output: filepath.Join(root, "res.txt"), NoSync: true,
			Parser: func(iut.Format) (Parser, error) { return newParser(), nil },
		}
		report, err := Merge(context.Background(), opts)
		if err != nil {
			t.Fatal(err)
		}
		whole, pending := pl.complete(), pl.pending(scoped)
		if report.Pages != len(whole) || report.Adopted != len(whole) || report.Found != len(whole)+len(pending) {
			t.Fatalf("report %+v; want %d pages, %d pending", report, len(whole), len(pending))
		}
		s.OpenTree()
		s.OpenIndex()
		records := s.Records()
		for url, r := range records {
			page, isPage := whole[url]
			depth, isPending := pending[url]
			switch {
			case isPage:
				if r.State != record.Stored || r.Source != page.source || r.PageDepth != page.depth || r.Depth > page.depth {
					t.Fatalf("stored: %+v, want %+v", r, page)
				}
				if m, err := s.Index.Meta(url); err != nil || m == nil || m.Title != "page "+url {
					t.Fatalf("metadata of %s: %+v, %v", url, m, err)
				}
			case isPending:
				if r.State != record.Pending || r.Range != record.Now || r.Depth != depth || r.Tries != 0 {
					t.Fatalf("pending: %+v, want depth %d", r, depth)
				}
				from := whole[r.Source]
				if (r.Source == record.Seed) != slices.Contains(pl.seeds, url) ||
					r.Source != record.Seed && (from.depth+1 != depth || !slices.Contains(from.links, url)) {
					t.Fatalf("source of %+v does not link to it from depth %d", r, depth-1)
				}
			default:
				t.Fatalf("nobody names %+v", r)
			}
		}
		if len(records) != len(whole)+len(pending) {
			t.Fatalf("%d records; want %d pages and %d pending", len(records), len(whole), len(pending))
		}
		if run, unclean, _, err := s.Index.Runs().Begin(); err != nil || !unclean && len(whole) > 0 {
			t.Fatalf("the next start takes the stop for a clean one: %+v, %v", run, err)
		}
		noFaults(t, s, CheckOptions{Links: true, Output: opts.Output}, newParser())
	})
}

// A merge makes an index that differs from its folders agree with them, keeps the rest of it,
// and changes nothing when done twice.
func TestMergeKeeps(t *testing.T) {
	t.Parallel()
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		root := filepath.Join(dir, fmt.Sprint(n))
		if err := os.Mkdir(root, 0o755); err != nil {
			t.Fatal(err)
		}
		s := testsite.New(t, filepath.Join(root, "iut"))
		defer s.Close()
		pl := drawPlan(t)
		pl.make(s, &testsite.Parser{})
		before := s.Records()
		s.Close()
		opts := MergeOptions{
			Root: s.Root, Output: filepath.Join(root, "res.txt"), NoSync: true,
			Parser: func(iut.Format) (Parser, error) { return &testsite.Parser{}, nil },
		}
		var first map[string]record.Record
		var files []string
		for again := range 2 {
			report, err := Merge(context.Background(), opts)
			if err != nil || report.Index != "kept" {
				t.Fatalf("%+v, %v", report, err)
			}
			s.OpenTree()
			s.OpenIndex()
			records := s.Records()
			check := noFaults(t, s, CheckOptions{Links: true, Output: opts.Output}, &testsite.Parser{})
			if !check.Results || check.Torn+check.Unknown+check.Temp > 0 {
				t.Fatalf("left over: %+v", check)
			}
			var texts []string
			f := filesIn(t, root)
			for _, name := range []string{f.Res, f.Res2, f.Statistics, f.Hourly} {
				texts = append(texts, testsite.Read(t, name))
			}
			s.Close()
			if again == 0 {
				first, files = records, texts
				continue
			}
			if report.Adopted+report.Torn+report.Reopened+report.Found > 0 {
				t.Errorf("the second merge did something: %+v", report)
			}
			if !maps.Equal(records, first) || !slices.Equal(texts, files) {
				t.Errorf("the second merge changed\n%v\n%v\ninto\n%v\n%v", first, files, records, texts)
			}
		}
		whole := pl.complete()
		for url, r := range first {
			if _, isPage := whole[url]; isPage != (r.State == record.Stored) {
				t.Errorf("complete: %v, record %+v", isPage, r)
			}
		}
		for url, old := range before {
			r, ok := first[url]
			if !ok {
				t.Errorf("lost: %+v", old)
			}
			if old.State == record.Failed && whole[url].url == "" && r != old {
				t.Errorf("%+v\nbecame\n%+v", old, r)
			}
		}
	})
}

// A rebuild that is cut off leaves no index.db, or one that a merge completes, whatever page it
// had come to.
func TestRebuildCutOff(t *testing.T) {
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprintf("index there %v", keep), func(t *testing.T) {
			s := testsite.New(t, filepath.Join(t.TempDir(), "iut"))
			defer s.Close()
			s.Seed("http://a.org/")
			want := map[string]bool{"http://a.org/": true, "http://b.org/": true}
			for i := range 5 {
				url := fmt.Sprintf("http://a.org/%d", i)
				s.Write(url, "http://a.org/", 1, url+"/", "http://b.org/")
				want[url], want[url+"/"] = true, true
			}
			s.Close()
			if !keep {
				if err := os.Remove(s.Path(indexName)); err != nil {
					t.Fatal(err)
				}
			}
			cut := errors.New("cut off")
			for k := range 5 {
				ctx, stop := context.WithCancelCause(context.Background())
				pages := 0
				opts := MergeOptions{
					Root: s.Root, Output: filepath.Join(t.TempDir(), "res.txt"), NoSync: true,
					Parser: func(iut.Format) (Parser, error) {
						return &testsite.Parser{Read: func(string) {
							if pages++; pages > k {
								stop(cut)
							}
						}}, nil
					},
				}
				if _, err := Merge(ctx, opts); !errors.Is(err, cut) && !errors.Is(err, context.Canceled) {
					t.Fatalf("cut off at page %d: %v", k, err)
				}
				stop(nil)
				if there, err := storage.Exists(s.Path(indexName)); err != nil || there != keep {
					t.Fatalf("cut off at page %d: index there: %v, %v", k, there, err)
				}
			}
			opts := MergeOptions{
				Root: s.Root, Output: filepath.Join(t.TempDir(), "res.txt"), NoSync: true,
				Parser: func(iut.Format) (Parser, error) { return &testsite.Parser{}, nil },
			}
			if _, err := Merge(context.Background(), opts); err != nil {
				t.Fatal(err)
			}
			s.OpenTree()
			s.OpenIndex()
			got := map[string]bool{}
			for url := range s.Records() {
				got[url] = true
			}
			if !maps.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			noFaults(t, s, CheckOptions{Links: true, Output: opts.Output}, &testsite.Parser{})
		})
	}
}

// Pages come in the order of the tree, and the depth of what they name is the shortest all the
// same.
func TestRebuildDepth(t *testing.T) {
	s := testsite.New(t, filepath.Join(t.TempDir(), "iut"))
	defer s.Close()
	const far, near, farthest, named = "http://a.org/1", "http://a.org/2", "http://a.org/3", "http://b.org/"
	s.Write(far, near, 7, named)
	s.Write(near, farthest, 2, named, farthest)
	s.Write(farthest, near, 9, named)
	if _, err := newRebuild(s.Tree, s.Index, &testsite.Parser{}, nil).run(context.Background()); err != nil {
		t.Fatal(err)
	}
	records := s.Records()
	if r := records[named]; r.Depth != 3 || r.Rank != 3 || r.Source != near {
		t.Errorf("got %+v, want depth 3 by %s", r, near)
	}
	if r := records[farthest]; r.Depth != 3 || r.PageDepth != 9 || r.Source != near {
		t.Errorf("a stored page that is nearer than it says: %+v", r)
	}
	noFaults(t, s, CheckOptions{Links: true}, &testsite.Parser{})
}

// A syncFS remembers which adopted pages no sync has covered yet.
type syncFS struct {
	iut.FS
	open   map[string]bool
	synced func(pages map[string]bool)
}

func (f *syncFS) Adopt(name string) {
	f.open[name] = true
	f.FS.Adopt(name)
}

func (f *syncFS) SyncAll() error {
	f.synced(f.open)
	clear(f.open)
	return f.FS.SyncAll()
}

// A page is synced before the transaction that calls it stored, for its files may be of a
// process that was killed before it could.
func TestRebuildSyncs(t *testing.T) {
	s := testsite.New(t, filepath.Join(t.TempDir(), "iut"))
	defer s.Close()
	for i := range 5 {
		s.Write(fmt.Sprintf("http://a.org/%d", i), record.Seed, 0)
	}
	if err := s.Tree.Close(); err != nil {
		t.Fatal(err)
	}
	disk, err := iut.OpenDisk(s.Root, iut.SyncNone)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	covered := 0
	fs := &syncFS{FS: disk, open: map[string]bool{}}
	if s.Tree, err = iut.Open(s.Root, iut.Options{FS: fs}); err != nil {
		t.Fatal(err)
	}
	fs.synced = func(pages map[string]bool) {
		for rel := range pages {
			url, err := s.Tree.URLOf(rel)
			if err != nil {
				t.Fatal(err)
			}
			if has, err := s.Index.Has([]string{url}); err != nil || has[0] {
				t.Errorf("%s is in the index before its sync: %v", url, err)
			}
			covered++
		}
	}
	report, err := newRebuild(s.Tree, s.Index, &testsite.Parser{}, nil).run(context.Background())
	if err != nil || report.Adopted != 5 || covered != 5 || len(fs.open) > 0 {
		t.Fatalf("%+v, %v: %d pages synced, %d not", report, err, covered, len(fs.open))
	}
}
