package repair

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"urltree/cleaner"
	"urltree/internal/testseed"
	"urltree/internal/testsite"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// wholeCrawl is a site with URLs of several hosts in every state, and all that an index keeps
// besides.
func wholeCrawl(t *testing.T) *testsite.Site {
	t.Helper()
	s := mixed(t)
	if _, _, _, err := s.Index.Runs().Begin(); err != nil {
		t.Fatal(err)
	}
	for i, host := range []string{"c.org", "d.org", "e.org"} {
		root := "http://" + host + "/"
		s.Seed(root)
		s.Store(root, record.Seed, 0, root+"p", root+"q", root+"next", "http://a.org/x", "http://b.org/new")
		s.Store(root+"p", root, 1)
		s.Commit(&record.Outcome{
			Row: record.Row{URL: root + "q", Source: root, Depth: 1, Tries: 2}, State: record.Pending,
			Next: record.Row{Range: record.Later, Due: int64(1e18) + int64(i), Tries: 2, Reason: "timeout"},
			Host: &record.HostTimes{Name: host, Next: int64(5 + i), Backoff: int64(i), Delay: 3, Seq: 4},
		}, &record.Outcome{
			Row:    record.Row{URL: root + "robots.txt", Kind: record.RobotsRow, Source: root},
			Robots: &record.Robots{Origin: "http://" + host, Time: int64(100 + i), Status: 200, Text: "Sitemap: x"},
			Links: []record.Link{
				{URL: root + "sitemap.xml", Kind: record.SitemapRow, Depth: 1, Source: root + "robots.txt"},
				{URL: root + "outside", Kind: record.OutsideRow, Source: root},
			},
		})
	}
	if err := s.Index.Marks().Relinked(); err != nil {
		t.Fatal(err)
	}
	return s
}

// partOf makes a tree of those URLs and hosts of a site for which pick returns true.
func partOf(t *testing.T, whole *testsite.Site, store string, pick func(url string) bool) string {
	t.Helper()
	s := &testsite.Site{T: t, Root: filepath.Join(t.TempDir(), "part")}
	var err error
	s.Tree, err = iut.Open(s.Root, iut.Options{Sync: iut.SyncNone, Identity: &iut.Identity{Canonical: "1", Store: store}})
	if err := errors.Join(err, storage.Create(s.Path(indexName))); err != nil {
		t.Fatal(err)
	}
	s.OpenIndex()
	defer s.Close()
	if _, _, _, err := s.Index.Runs().Begin(); err != nil {
		t.Fatal(err)
	}
	var seeds []string
	err = whole.Tree.Seeds(iut.SeedMark{}, func(url string, _ iut.SeedMark) error {
		if pick(url) {
			seeds = append(seeds, url)
		}
		return nil
	})
	if err := errors.Join(err, testsite.AddSeeds(s.Tree, seeds)); err != nil {
		t.Fatal(err)
	}
	ends := map[uint32]int64{}
	err = s.Index.Fill(func(f *storage.Filler) error {
		seq := uint64(0)
		err := whole.Index.Records(t.Context(), nil, func(r record.Record, err error) error {
			if err != nil || !pick(r.URL) {
				return err
			}
			key, err := record.Key(r.URL)
			if err == nil && r.State == record.Stored {
				var facts iut.Facts
				facts, err = s.Tree.CopyPage(whole.Tree, iut.FactsOf(&r), r.Via)
				if r.Extent = facts.Extent; store == iut.StoreWARC {
					ends[r.Extent.Segment] = r.Extent.Offset + r.Extent.Length
				}
			}
			seq++
			if r.Seq = seq; r.Run > 1 {
				r.Run = 1
			}
			f.Record(key, r)
			return err
		})
		copyOf := func(bucket []byte, take func(k []byte) bool) {
			err = errors.Join(err, whole.Index.Entries(t.Context(), bucket, func(k, v []byte) error {
				if !take(k) {
					return nil
				}
				return f.Put(bucket, k, v)
			}))
		}
		ofKey := func(k []byte) bool { url, _ := record.URL(k); return pick(url) }
		copyOf(record.BucketMeta, ofKey)
		copyOf(record.BucketShorter, ofKey)
		copyOf(record.BucketScope, func(k []byte) bool { return pick(string(k)) })
		copyOf(record.BucketRobots, func(k []byte) bool { return pick(string(k) + "/") })
		return errors.Join(err,
			whole.Index.Hosts().Each(t.Context(), func(h record.HostRow) error {
				if pick("http://" + h.Name + "/") {
					f.Host(&h.HostTimes)
				}
				return nil
			}),
			whole.Index.Sitemaps().Each(t.Context(), func(r *record.Record) error {
				if pick(r.URL) {
					f.Sitemap(*r)
				}
				return nil
			}),
			whole.Index.Outside().Each(t.Context(), func(r *record.Record) error {
				if r.Seq = 0; pick(r.URL) {
					return f.Outside(*r)
				}
				return nil
			}))
	})
	for segment, end := range ends {
		err = errors.Join(err, s.Index.Marks().SetSegmentEnd(segment, end))
	}
	if err != nil {
		t.Fatal(err)
	}
	noFaults(t, s, CheckOptions{}, &testsite.Parser{})
	return s.Root
}

// uniteIn unites trees into a new folder, in small steps.
func uniteIn(t *testing.T, store string, trees ...string) (string, UniteReport) {
	t.Helper()
	root := filepath.Join(t.TempDir(), "out")
	report, err := Unite(t.Context(), UniteOptions{Root: root, Trees: trees, Store: store, most: 3, Segments: iut.SegmentOptions{Size: 8 << 10}})
	if err != nil {
		t.Fatal(err)
	}
	return root, report
}

// A known is all that matters of a tree, whatever its store is.
type known struct {
	Res, Res2 string
	Records   map[string]record.Record
	Bodies    map[string]string
	Hosts     map[string]record.HostRow
	Entries   map[string]string // of buckets whose values are the same in all trees
	Seeds     []string
	Sitemaps  map[string]record.Record
	Outside   map[string]record.Record
}

// knownIn requires that a tree has no faults, and returns what is in it. Numbers of runs and of
// discovery are of each index.
func knownIn(t *testing.T, root string) (k known) {
	t.Helper()
	s := testsite.Open(t, root)
	defer s.Close()
	noFaults(t, s, CheckOptions{Links: s.Tree.Forgotten().Empty()}, &testsite.Parser{}) // that parser knows of no list
	k = known{Records: s.Records(), Bodies: map[string]string{}, Hosts: map[string]record.HostRow{}, Entries: map[string]string{}, Sitemaps: map[string]record.Record{}, Outside: map[string]record.Record{}}
	seq, outside := map[uint64]bool{}, map[uint64]bool{}
	for url, r := range k.Records {
		if r.State == record.Stored {
			f, body, err := s.Tree.Load(iut.FactsOf(&r))
			if err != nil {
				t.Fatal(err)
			}
			k.Bodies[url] = string(f.AppendLine(nil)) + string(body)
		}
		seq[r.Seq] = true
		r.Extent, r.Seq, r.Run = record.Extent{}, 0, 0
		k.Records[url] = r
	}
	if total := s.Index.Totals(); len(seq) != len(k.Records) || total.Discovered() != total.Records() || total.Records() != int64(len(seq)) {
		t.Errorf("%d numbers of discovery of %d records, the totals are %+v", len(seq), len(k.Records), total)
	}
	err := s.Index.Hosts().Each(t.Context(), func(h record.HostRow) error {
		h.Seq, h.Run = 0, 0
		k.Hosts[h.Name] = h
		return nil
	})
	for _, bucket := range [][]byte{record.BucketMeta, record.BucketScope, record.BucketRobots, record.BucketShorter, record.BucketFolder, record.BucketQuery, record.BucketDomain} {
		err = errors.Join(err, s.Index.Entries(t.Context(), bucket, func(key, v []byte) error {
			k.Entries[fmt.Sprintf("%s %q", bucket, key)] = string(v)
			return nil
		}))
	}
	err = errors.Join(err,
		s.Index.Sitemaps().Each(t.Context(), func(r *record.Record) error { k.Sitemaps[r.URL] = *r; return nil }),
		s.Index.Outside().Each(t.Context(), func(r *record.Record) error {
			outside[r.Seq] = true
			r.Seq, r.Run = 0, 0
			k.Outside[r.URL] = *r
			return nil
		}),
		s.Tree.Seeds(iut.SeedMark{}, func(url string, _ iut.SeedMark) error { k.Seeds = append(k.Seeds, url); return nil }))
	res := filepath.Join(t.TempDir(), "res.txt")
	files, ferr := cleaner.FilesFor(root, res)
	if err = errors.Join(err, ferr, cleaner.Clean(t.Context(), cleaner.Steps{Index: s.Index, Files: files, Root: root})); err != nil {
		t.Fatal(err)
	}
	if len(outside) != len(k.Outside) {
		t.Errorf("%d numbers of discovery of %d targets outside", len(outside), len(k.Outside))
	}
	slices.Sort(k.Seeds)
	k.Res, k.Res2 = testsite.Read(t, res), testsite.Read(t, filepath.Join(filepath.Dir(res), "res2.txt"))
	return k
}

func requireKnown(t *testing.T, what string, got, want known) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s: %s", what, d)
	}
}

// TestUnite: two parts of a crawl are the whole again, apart or with overlap, in either order and
// given twice, from and into each store.
func TestUnite(t *testing.T) {
	whole := wholeCrawl(t)
	left := func(url string) bool { return record.Host(url) < "c.org" }
	right := func(url string) bool { return !left(url) }
	both := func(url string) bool { return len(url)%3 != 0 }
	want := knownIn(t, partOf(t, whole, iut.StoreFolders, func(string) bool { return true }))
	if len(want.Records) < 25 || len(want.Sitemaps) != 3 || len(want.Outside) != 3 || len(want.Bodies) < 15 {
		t.Fatalf("the crawl is too small: %+v", want)
	}
	for _, tt := range []struct{ a, b, out string }{
		{iut.StoreFolders, iut.StoreFolders, ""},
		{iut.StoreWARC, iut.StoreWARC, ""},
		{iut.StoreFolders, iut.StoreWARC, ""},
		{iut.StoreWARC, iut.StoreFolders, ""},
		{iut.StoreFolders, iut.StoreFolders, iut.StoreWARC},
	} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			a, b := partOf(t, whole, tt.a, left), partOf(t, whole, tt.b, right)
			for _, list := range [][]string{{a, b}, {b, a}, {a, b, a}} {
				out, report := uniteIn(t, tt.out, list...)
				requireKnown(t, "halves", knownIn(t, out), want)
				if report.URLs != int64(len(want.Records)) || report.Pages != int64(len(want.Bodies)) || report.Conflicts+report.Damaged != 0 {
					t.Errorf("%+v", report)
				}
				s := testsite.Open(t, out)
				store := tt.out
				if first, err := iut.ReadFormat(list[0]); err != nil {
					t.Fatal(err)
				} else if store == "" {
					store = first.StoreName()
				}
				requireStore(t, s, store)
				s.Close()
			}
			b = partOf(t, whole, tt.b, func(url string) bool { return right(url) || both(url) })
			out, _ := uniteIn(t, tt.out, a, b)
			requireKnown(t, "overlapping parts", knownIn(t, out), want)
			again, _ := uniteIn(t, tt.out, out, b)
			requireKnown(t, "a part once more", knownIn(t, again), want)
			twice, _ := uniteIn(t, tt.out, out, out)
			requireKnown(t, "twice", knownIn(t, twice), want)
		})
	}
}

// randomTree makes a tree with outcomes drawn at random for some of a few URLs.
func randomTree(t *testing.T, rng *rand.Rand, store string) string {
	t.Helper()
	s := &testsite.Site{T: t, Root: filepath.Join(t.TempDir(), "tree")}
	var err error
	s.Tree, err = iut.Open(s.Root, iut.Options{Sync: iut.SyncNone, Identity: &iut.Identity{Canonical: "1", Store: store}})
	if err := errors.Join(err, storage.Create(s.Path(indexName))); err != nil {
		t.Fatal(err)
	}
	s.OpenIndex()
	defer s.Close()
	if _, _, _, err := s.Index.Runs().Begin(); err != nil {
		t.Fatal(err)
	}
	s.Seed("http://a.org/0")
	for i := range 8 {
		url := fmt.Sprintf("http://a.org/%d", i)
		source, depth := "http://a.org/0", uint32(rng.IntN(3))
		if rng.IntN(4) == 0 {
			continue
		}
		s.Commit(&record.Outcome{Links: []record.Link{{URL: url, Source: source, Depth: depth}}})
		r, err := s.Index.Record(url)
		if err != nil {
			t.Fatal(err)
		}
		o := &record.Outcome{Row: r.Row, Page: record.Page{Time: int64(1000 + rng.IntN(3)), Status: 404}}
		switch rng.IntN(6) {
		case 0:
			continue
		case 1:
			o.State, o.Reason = record.Failed, []string{"timeout", "http-4xx"}[rng.IntN(2)]
		case 2:
			o.State, o.Page.HeaderLinks = record.Redirected, "http://a.org/0"
		case 3:
			o.State = record.Pending
			o.Next = record.Row{Range: record.Later, Due: int64(rng.IntN(3)), Tries: uint16(rng.IntN(3)), Reason: "timeout"}
		default:
			body := []byte(fmt.Sprintf("page %d\n", rng.IntN(3)))
			o.State = record.Stored
			res, err := s.Tree.Store(&iut.Page{Body: body, Facts: iut.Facts{URL: url, Source: r.Source, Page: record.Page{
				Time: o.Page.Time, Status: 200, Media: "text/html", PageDepth: r.Depth, Digest: sha256.Sum256(body),
			}}})
			if err != nil {
				t.Fatal(err)
			}
			o.Page, o.Meta = res.Facts.Page, &record.Meta{Title: strings.TrimSpace(string(body))}
		}
		s.Commit(o)
		if rng.IntN(4) == 0 {
			if _, err := s.Index.ReopenURLs([]string{url}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s.Root
}

// TestUniteLaws: whatever the trees know, neither the order in which they are united nor how often
// one of them is matters.
func TestUniteLaws(t *testing.T) {
	rng := rand.New(rand.NewPCG(testseed.Draw(t), 1))
	conflicts := int64(0)
	for range 4 {
		stores := []string{iut.StoreFolders, iut.StoreWARC}
		a, b, c := randomTree(t, rng, stores[rng.IntN(2)]), randomTree(t, rng, stores[rng.IntN(2)]), randomTree(t, rng, stores[rng.IntN(2)])
		found := map[string]record.Record{}
		same := func(what, x, y string) {
			t.Helper()
			k, want := knownIn(t, x), knownIn(t, y)
			if d := cmp.Diff(want, k); d != "" {
				t.Errorf("%s: %s", what, d)
			}
			maps.Copy(found, k.Records)
		}
		all, report := uniteIn(t, "", a, b, c)
		conflicts += report.Conflicts
		back, _ := uniteIn(t, "", c, b, a)
		ab, _ := uniteIn(t, "", a, b)
		bc, _ := uniteIn(t, "", b, c)
		first, _ := uniteIn(t, "", ab, c)
		last, _ := uniteIn(t, "", a, bc)
		more, _ := uniteIn(t, "", all, b)
		same("the other order", back, all)
		same("the first two first", first, all)
		same("the last two first", last, all)
		same("one of them again", more, all)
		one, _ := uniteIn(t, "", a, a)
		same("with itself", one, a)
	}
	if conflicts == 0 {
		t.Error("there was no conflict")
	}
}

// TestUniteConflicts: the later page counts, and each outcome is named.
func TestUniteConflicts(t *testing.T) {
	var roots []string
	for i, text := range []string{"old", "new", ""} {
		s := testsite.New(t, filepath.Join(t.TempDir(), "tree"))
		s.Seed("http://a.org/", "http://a.org/same")
		s.Store("http://a.org/same", record.Seed, 0)
		r, err := s.Index.Record("http://a.org/")
		if err != nil {
			t.Fatal(err)
		}
		o := &record.Outcome{Row: r.Row, State: record.Failed, Reason: "timeout", Page: record.Page{Time: 5000}}
		if text != "" {
			res, err := s.Tree.Store(&iut.Page{Body: []byte(text), Facts: iut.Facts{URL: r.URL, Source: record.Seed, Page: record.Page{Time: int64(1000 * i), Status: 200}}})
			if err != nil {
				t.Fatal(err)
			}
			o.State, o.Reason, o.Page = record.Stored, "", res.Facts.Page
		}
		s.Commit(o)
		s.Close()
		roots = append(roots, s.Root)
	}
	var list strings.Builder
	out := filepath.Join(t.TempDir(), "out")
	report, err := Unite(t.Context(), UniteOptions{Root: out, Trees: roots, Conflicts: &list})
	if err != nil || report.Conflicts != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	want := fmt.Sprintf("http://a.org/\t%s\tstored\t-\t200\t1970-01-01T00:00:00Z\t%x\nhttp://a.org/\t%s\tstored\t-\t200\t1970-01-01T00:16:40Z\t%x\nhttp://a.org/\t%s\tfailed\ttimeout\t0\t1970-01-01T01:23:20Z\t-\n",
		roots[0], sha256.Sum256([]byte("old")), roots[1], sha256.Sum256([]byte("new")), roots[2])
	if list.String() != want {
		t.Errorf("the conflicts are\n%swant\n%s", list.String(), want)
	}
	s := testsite.Open(t, out)
	defer s.Close()
	if got := testsite.Read(t, s.File("http://a.org/", "content.html")); got != "new" {
		t.Errorf("the page is %q", got)
	}
}

// TestUniteDamaged: a page that is not whole comes from another tree, or its URL is pending.
func TestUniteDamaged(t *testing.T) {
	whole := wholeCrawl(t)
	all := func(string) bool { return true }
	a, b := partOf(t, whole, iut.StoreFolders, all), partOf(t, whole, iut.StoreFolders, all)
	want := knownIn(t, a)
	for _, url := range []string{"http://a.org/x", "http://c.org/"} {
		rel, err := whole.Tree.Path(url)
		if err == nil {
			err = os.WriteFile(filepath.Join(a, rel, "content.html"), []byte("?"), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, list := range [][]string{{a, b}, {b, a}} {
		out, _ := uniteIn(t, "", list...)
		requireKnown(t, "with a whole one", knownIn(t, out), want)
	}
	out, report := uniteIn(t, "", a)
	if report.Damaged != 2 || report.Pages != int64(len(want.Bodies))-2 {
		t.Errorf("%+v", report)
	}
	got := knownIn(t, out)
	if r := got.Records["http://a.org/x"]; r.State != record.Pending || r.Range != record.Now || len(got.Bodies) != len(want.Bodies)-2 {
		t.Errorf("%+v", r)
	}
}

// TestUniteRefuses: a union makes a new tree, of trees that go together, and changes none of them.
func TestUniteRefuses(t *testing.T) {
	a, b := testsite.New(t, filepath.Join(t.TempDir(), "a")), filepath.Join(t.TempDir(), "b")
	a.Seed("http://a.org/")
	a.Close()
	other, err := iut.Open(b, iut.Options{Identity: &iut.Identity{Canonical: "1", Strip: "www."}})
	if err == nil {
		err = errors.Join(other.Close(), storage.Create(filepath.Join(b, indexName)))
	}
	foreign := t.TempDir()
	if err = errors.Join(err, os.WriteFile(filepath.Join(foreign, "mine"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	before := files(t, a.Root, "")
	fresh := filepath.Join(t.TempDir(), "out")
	for _, tt := range []struct {
		name, out string
		trees     []string
		want      error
		at        string
	}{
		{"a tree", a.Root, []string{a.Root}, fs.ErrExist, ""},
		{"a folder with something in it", foreign, []string{a.Root}, fs.ErrExist, ""},
		{"a folder in a tree", filepath.Join(a.Root, "out"), []string{a.Root}, fs.ErrExist, ""},
		{"no tree", fresh, []string{a.Root, foreign}, fs.ErrNotExist, foreign},
		{"other rules", fresh, []string{a.Root, b}, iut.ErrIdentity, ""},
	} {
		report, err := Unite(t.Context(), UniteOptions{Root: tt.out, Trees: tt.trees})
		if !errors.Is(err, tt.want) || report.At != tt.at {
			t.Errorf("%s: %v, at %q", tt.name, err, report.At)
		}
	}
	writer, err := iut.Open(a.Root, iut.Options{})
	if err != nil {
		t.Fatal(err)
	}
	report, err := Unite(t.Context(), UniteOptions{Root: fresh, Trees: []string{b, a.Root}})
	if !errors.Is(err, iut.ErrBusy) || report.At != a.Root {
		t.Errorf("of a tree in use: %v, at %q", err, report.At)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(fresh); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it has begun a tree: %v", err)
	}
	if _, err := Unite(t.Context(), UniteOptions{Root: fresh, Trees: []string{a.Root}}); err != nil {
		t.Fatal(err)
	}
	if after := files(t, a.Root, ""); !maps.Equal(before, after) {
		t.Error("the tree has changed")
	}
}
