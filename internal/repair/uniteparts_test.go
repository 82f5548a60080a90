package repair

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"urltree/internal/groups"
	"urltree/internal/testsite"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// TestUniteStopped: what is left is no tree, and the next call begins anew, also with other trees
// and another store. What is not of this program stays.
func TestUniteStopped(t *testing.T) {
	whole := wholeCrawl(t)
	all := func(string) bool { return true }
	a, b := partOf(t, whole, iut.StoreFolders, all), partOf(t, whole, iut.StoreWARC, all)
	want := knownIn(t, a)
	out := filepath.Join(t.TempDir(), "out")
	for i, trees := range [][]string{{a}, {b}, {a, b}} {
		for _, at := range []int64{3, 20} {
			ctx, stop := context.WithCancel(t.Context())
			_, err := Unite(ctx, UniteOptions{Root: out, Trees: trees, most: 2, Tell: func(_ string, done, _ int64) {
				if done >= at {
					stop()
				}
			}})
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if _, err := iut.ReadFormat(out); !errors.Is(err, iut.ErrUniting) {
				t.Fatalf("what is left is %v", err)
			}
			if _, err := iut.Open(out, iut.Options{ReadOnly: true}); !errors.Is(err, iut.ErrUniting) {
				t.Fatalf("what is left is %v", err)
			}
		}
		if err := os.WriteFile(filepath.Join(out, fmt.Sprint("mine", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Unite(t.Context(), UniteOptions{Root: out, Trees: []string{a, b}}); err != nil {
		t.Fatal(err)
	}
	requireKnown(t, "in the end", knownIn(t, out), want)
	for i := range 3 {
		if _, err := os.Stat(filepath.Join(out, fmt.Sprint("mine", i))); err != nil {
			t.Error(err)
		}
	}
}

// TestUniteHoldsFew: of what the trees have, memory holds no more than one transaction does, and
// one entry of each.
func TestUniteHoldsFew(t *testing.T) {
	whole := wholeCrawl(t)
	root := partOf(t, whole, iut.StoreFolders, func(string) bool { return true })
	s := testsite.New(t, filepath.Join(t.TempDir(), "out"))
	defer s.Close()
	const n, most, parts = 1000, 7, 3
	u := &uniting{index: s.Index, tree: s.Tree, most: most, parts: make([]*part, parts), ends: map[uint32]int64{}}
	read, inTransaction, largest := 0, 0, 0
	last, err := s.Index.Transaction()
	if err != nil {
		t.Fatal(err)
	}
	of := func(*part) groups.Walk[int] {
		return func(each func(key []byte, value int) error) error {
			for i := range n {
				read++
				if err := each(fmt.Appendf(nil, "%04d", i), i); err != nil {
					return err
				}
			}
			return nil
		}
	}
	done := 0
	err = fill(t.Context(), u, of, func(_ *storage.Filler, list []groups.Item[int]) error {
		switch tx, err := s.Index.Transaction(); {
		case err != nil:
			return err
		case tx != last:
			last, inTransaction = tx, 0
		}
		inTransaction++
		largest = max(largest, inTransaction)
		if done += len(list); read-done > parts {
			t.Fatalf("%d entries are read, %d are done", read, done)
		}
		return nil
	})
	if err != nil || done != n*parts || largest != most {
		t.Errorf("%d entries of %d, %d in a transaction, %v", done, n*parts, largest, err)
	}
	_ = root
}

// TestUniteForgotten: what one of the trees keeps out stays out, though another one has it, and
// nothing names it.
func TestUniteForgotten(t *testing.T) {
	whole := wholeCrawl(t)
	all := func(string) bool { return true }
	for _, store := range []string{iut.StoreFolders, iut.StoreWARC} {
		a, b := partOf(t, whole, store, all), partOf(t, whole, store, all)
		list := []iut.ForgottenEntry{{Kind: iut.ForgottenHost, Text: "c.org"}, {Kind: iut.ForgottenURL, Text: "http://a.org/x"}}
		tree, err := iut.Open(a, iut.Options{Forgetting: true})
		if err != nil {
			t.Fatal(err)
		}
		index, err := storage.Open(filepath.Join(a, indexName), storage.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = (&Forget{Tree: tree, Index: index}).Run(t.Context(), func(yield func(iut.ForgottenEntry, error) bool) {
			for _, e := range list {
				if !yield(e, nil) {
					return
				}
			}
		})
		if err := errors.Join(err, index.Close(), tree.Close()); err != nil {
			t.Fatal(err)
		}
		want := knownIn(t, a)
		for _, trees := range [][]string{{a, b}, {b, a}} {
			out, _ := uniteIn(t, "", trees...)
			got := knownIn(t, out)
			requireKnown(t, "with what the other one keeps out", got, want)
			for name := range files(t, out, "warc") {
				if strings.Contains(testsite.Read(t, filepath.Join(out, name)), "WARC-Target-URI: http://c.org/") {
					t.Errorf("%s has a page that is kept out", name)
				}
			}
			f, err := iut.ReadFormat(out)
			if err != nil || f.Forgetting {
				t.Errorf("%+v, %v", f, err)
			}
		}
	}
}

// TestUniteMarks: what the next run goes by comes from all of the trees.
func TestUniteMarks(t *testing.T) {
	links := iut.LinkOptions{Scope: "host", MaxDepth: 5, NoFollow: "page", Robots: "obey"}
	make := func(edit func(s *testsite.Site)) string {
		s := testsite.New(t, filepath.Join(t.TempDir(), "tree"))
		defer s.Close()
		if err := s.Tree.SetLinks(links); err != nil {
			t.Fatal(err)
		}
		run, _, _, err := s.Index.Runs().Begin()
		if err != nil || run.ID != 1 {
			t.Fatal(err)
		}
		edit(s)
		return s.Root
	}
	end := func(s *testsite.Site) {
		if _, err := s.Index.Runs().Finish(); err != nil {
			t.Fatal(err)
		}
	}
	seeds := func(s *testsite.Site, areas []string, urls ...string) {
		if err := testsite.AddSeeds(s.Tree, urls); err != nil {
			t.Fatal(err)
		}
		o := &record.Outcome{Seeds: &record.Seeds{Scope: links.Scope}}
		for _, url := range urls {
			o.Links = append(o.Links, record.Link{URL: url, Source: record.Seed, Areas: areas})
		}
		err := s.Tree.Seeds(iut.SeedMark{}, func(_ string, m iut.SeedMark) error {
			o.Seeds.Bytes, o.Seeds.Sum = m.Bytes, m.Sum
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Commit(o)
	}
	a := make(func(s *testsite.Site) { // has both URLs as links, from far away
		seeds(s, []string{"a.org"}, "http://a.org/")
		s.Store("http://a.org/", record.Seed, 0, "http://b.org/", "http://a.org/far", "http://a.org/marked")
		s.Store("http://b.org/", "http://a.org/", 1)
		s.Store("http://a.org/far", "http://a.org/", 3)
		s.Store("http://a.org/marked", "http://a.org/", 1)
		key, err := record.Key("http://a.org/marked")
		err = errors.Join(err, s.Index.Fill(func(f *storage.Filler) error { return f.Put(record.BucketShorter, key, record.Seal(nil, key)) }),
			s.Index.Marks().Relinked(), s.Tree.Keep(iut.Kept{Options: []string{"scope=host"}, Secrets: []string{"password"}}))
		if err != nil {
			t.Fatal(err)
		}
		end(s)
	})
	b := make(func(s *testsite.Site) {
		seeds(s, []string{"b.org"}, "http://b.org/")
		s.Commit(&record.Outcome{Links: []record.Link{{URL: "http://a.org/far", Source: "http://b.org/", Depth: 1}}})
		if err := errors.Join(s.Index.Marks().SetLinkOptions([]byte("{}")), s.Tree.Keep(iut.Kept{Options: []string{"scope=host"}, Secrets: []string{"cookies"}})); err != nil {
			t.Fatal(err)
		}
	})
	links.MaxDepth = 7
	other := make(func(s *testsite.Site) {
		seeds(s, []string{"a.org"}, "http://a.org/")
		if err := s.Tree.Keep(iut.Kept{Options: []string{"max-depth=7"}}); err != nil {
			t.Fatal(err)
		}
		end(s)
	})

	for _, trees := range [][]string{{a, b}, {b, a}, {a}, {a, other}} {
		root, report := uniteIn(t, "", trees...)
		s := testsite.Open(t, root)
		runs, err := s.Index.Runs().All()
		if err != nil || len(runs) != 1 || runs[0].ID != 1 || runs[0].Found != report.URLs || runs[0].Stored != report.Pages || runs[0].Start == 0 || runs[0].End < runs[0].Start {
			t.Errorf("the runs are %+v, %v", runs, err)
		}
		both := slices.Contains(trees, b)
		unclean, err := s.Index.Runs().Unclean()
		relink, rerr := s.Index.Marks().NeedsRelink()
		review, verr := s.Index.Marks().NeedsReview()
		if err := errors.Join(err, rerr, verr); err != nil || unclean != both || relink != (len(trees) > 1) || !review {
			t.Errorf("%v: unclean %v, relink %v, review %v, %v", trees, unclean, relink, review, err)
		}
		known, err := s.Index.Seeds().Read()
		var mark iut.SeedMark
		serr := s.Tree.Seeds(mark, func(_ string, m iut.SeedMark) error { mark = m; return nil })
		if err := errors.Join(err, serr); err != nil || known != (record.Seeds{Scope: "host", Bytes: mark.Bytes, Sum: mark.Sum}) {
			t.Errorf("of the seeds %+v are in, %+v, %v", known, mark, err)
		}
		area, err := s.Index.Seeds().HasArea("a.org")
		origin, oerr := s.Index.Seeds().HasOrigin("http://a.org")
		isSeed, serr := s.Index.Seeds().Has("http://b.org/")
		if err := errors.Join(err, oerr, serr); err != nil || !area || !origin || isSeed != both {
			t.Errorf("area %v, origin %v, b.org is a seed %v, %v", area, origin, isSeed, err)
		}
		shorter, err := s.Index.Shorter(5)
		want := []string{"http://a.org/marked"}
		if both {
			want = append(want, "http://b.org/") // a seed there, and a link here
		}
		var got []string
		for _, r := range shorter {
			got = append(got, r.URL)
		}
		if !slices.Equal(got, want) || err != nil {
			t.Errorf("%v: shorter ways to %q, want %q, %v", trees, got, want, err)
		}
		format := s.Tree.Format()
		options, err := s.Index.Marks().LinkOptions()
		switch {
		case err != nil:
			t.Error(err)
		case both && (!slices.Equal(format.Kept.Secrets, []string{"cookies", "password"}) || format.Links.MaxDepth != 5 || len(report.Differ) != 0):
			t.Errorf("FORMAT says %+v, %q", format, report.Differ)
		case slices.Contains(trees, other):
			taken, left := "7", "not given"
			if format.Links.MaxDepth == 5 { // a ran last, by the clock
				taken, left = left, taken
			}
			if len(report.Differ) != 2 || !strings.Contains(report.Differ[0], "differ in -max-depth: "+left+" in ") || !strings.Contains(report.Differ[0], ", "+taken+" in ") {
				t.Errorf("%q", report.Differ)
			}
		}
		if ran := runs[0]; both && ran.ID == 1 && format.Kept.Options[0] == "scope=host" && options != nil && string(options) != "{}" {
			t.Errorf("the link options are %s", options)
		}
		s.Close()
	}
	one, _ := uniteIn(t, "", b)
	s := testsite.Open(t, one)
	defer s.Close()
	if options, err := s.Index.Marks().LinkOptions(); string(options) != "{}" || err != nil {
		t.Errorf("the link options are %q, %v", options, err)
	}
}

// TestUniteRevisits: answers of WARC files come with their heads, and a revisit with the body that
// it names, wherever that has come to.
func TestUniteRevisits(t *testing.T) {
	s := &testsite.Site{T: t, Root: filepath.Join(t.TempDir(), "tree")}
	var err error
	s.Tree, err = iut.Open(s.Root, iut.Options{Sync: iut.SyncNone, Identity: &iut.Identity{Canonical: "1", Store: iut.StoreWARC}})
	if err := errors.Join(err, storage.Create(s.Path(indexName))); err != nil {
		t.Fatal(err)
	}
	s.OpenIndex()
	s.Seed("http://a.org/")
	head := func(i int) []byte { return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nX-Number: %d\r\n\r\n", i) }
	const same, twice = "<p>the same on all pages", "<p>on two pages"
	bodies := []string{same, same, "another", string(noise(inMemoryAndMore)), same, twice, twice}
	names := []string{"5", "4", "3", "2", "1", "6", "7"} // of those with the same body the one that has it comes last, of those with the other one first
	for i, body := range bodies {
		url := "http://a.org/" + names[i]
		res, err := s.Tree.Store(&iut.Page{
			Body: []byte(body), Answer: &iut.Answer{Head: head(i), Request: []byte("GET / HTTP/1.1\r\n\r\n")}, Facts: iut.Facts{URL: url, Source: "http://a.org/", Page: record.Page{
				Status: 200, Bytes: int64(len(body)), Digest: sha256.Sum256([]byte(body)), Media: "text/html", PageDepth: 1,
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Commit(&record.Outcome{Row: record.Row{URL: url, Source: "http://a.org/", Depth: 1}, State: record.Stored, Page: res.Facts.Page})
	}
	at, err := s.Tree.KeepAnswer(&iut.Page{Facts: iut.Facts{URL: "http://a.org/", Source: record.Seed}, Answer: &iut.Answer{Head: head(77)}})
	if err != nil {
		t.Fatal(err)
	}
	s.Commit(&record.Outcome{Row: record.Row{URL: "http://a.org/", Source: record.Seed}, State: record.Redirected, Page: record.Page{Status: 301, HeaderLinks: "http://a.org/1", Extent: at}})
	s.Close()
	for _, tt := range []struct {
		store string
		plain bool
	}{{iut.StoreWARC, false}, {iut.StoreWARC, true}, {iut.StoreFolders, false}} {
		root := filepath.Join(t.TempDir(), "out")
		if _, err := Unite(t.Context(), UniteOptions{Root: root, Trees: []string{s.Root, s.Root}, Store: tt.store, Segments: iut.SegmentOptions{Plain: tt.plain}}); err != nil {
			t.Fatal(err)
		}
		out := testsite.Open(t, root)
		noFaults(t, out, CheckOptions{}, &testsite.Parser{})
		revisits, responses := 0, 0
		for name, text := range files(t, root, "warc") {
			if strings.HasSuffix(name, ".gz") == tt.plain {
				t.Errorf("%s, plain %v", name, tt.plain)
			}
			text = unpacked(t, text)
			revisits, responses = revisits+strings.Count(text, "WARC-Type: revisit"), responses+strings.Count(text, "WARC-Type: response")
		}
		if tt.store == iut.StoreWARC && (revisits != 3 || responses != 5) {
			t.Errorf("%+v: %d revisits, %d responses", tt, revisits, responses)
		}
		numbers := map[string]bool{}
		for url, r := range out.Records() {
			if r.State == record.Stored {
				if i := slices.Index(names, url[len(url)-1:]); r.Digest != sha256.Sum256([]byte(bodies[i])) {
					t.Errorf("%s has another body", url)
				}
			}
			if tt.store == iut.StoreWARC {
				body, answer, err := out.Tree.Answer(iut.FactsOf(&r))
				if err != nil || answer == nil {
					t.Fatalf("%s: %v", url, err)
				}
				numbers[string(answer.Head)] = true
				body.Close()
			}
		}
		if tt.store == iut.StoreWARC && (len(numbers) != len(bodies)+1 || !numbers[string(head(77))]) {
			t.Errorf("%+v: the heads are %q", tt, slices.Collect(maps.Keys(numbers)))
		}
		out.Close()
	}
}

// unpacked returns the text of a file of members of gzip, or of one that is none.
func unpacked(t *testing.T, text string) string {
	t.Helper()
	r, err := gzip.NewReader(strings.NewReader(text))
	if errors.Is(err, gzip.ErrHeader) {
		return text
	}
	b, rerr := io.ReadAll(r)
	if err := errors.Join(err, rerr); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestUniteManyEntries: what an index has besides records comes along, however much it is.
func TestUniteManyEntries(t *testing.T) {
	const n = 20_500 // twice what a walk through a bucket copies at a time
	var roots []string
	for part := range 2 {
		s := testsite.New(t, filepath.Join(t.TempDir(), "tree"))
		s.Seed("http://a.org/")
		err := s.Index.Fill(func(f *storage.Filler) error {
			var err error
			for i := range n {
				origin := fmt.Sprintf("http://h%06d.org", 2*i+part)
				r := record.Robots{Origin: origin, Time: int64(i), Status: 200, Text: origin}
				url := []byte(origin + "/")
				err = errors.Join(err, f.Put(record.BucketRobots, []byte(origin), r.Append(nil)), f.Put(record.BucketScope, url, record.Seal(nil, url)))
				f.Host(&record.HostTimes{Name: origin[len("http://"):], Next: int64(i)})
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		roots = append(roots, s.Root)
	}
	out := filepath.Join(t.TempDir(), "out")
	if _, err := Unite(t.Context(), UniteOptions{Root: out, Trees: roots}); err != nil {
		t.Fatal(err)
	}
	s := testsite.Open(t, out)
	defer s.Close()
	noFaults(t, s, CheckOptions{}, &testsite.Parser{})
	robots, scope, hosts := 0, 0, 0
	err := errors.Join(
		s.Index.Entries(t.Context(), record.BucketRobots, func(k, v []byte) error {
			r, err := record.DecodeRobots(string(k), v)
			if robots++; r.Text != string(k) {
				t.Errorf("the robots.txt of %s is that of %s", k, r.Text)
			}
			return err
		}),
		s.Index.Seeds().EachOfScope(t.Context(), func(string) error { scope++; return nil }),
		s.Index.Hosts().Each(t.Context(), func(h record.HostRow) error { hosts++; return nil }))
	if err != nil || robots != 2*n || scope != 2*n || hosts != 2*n+1 {
		t.Errorf("%d answers, %d of scope, %d hosts, %v", robots, scope, hosts, err)
	}
}
