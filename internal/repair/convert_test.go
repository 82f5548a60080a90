package repair

import (
	"context"
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

	"pgregory.net/rapid"

	"urltree/internal/testsite"
	"urltree/iut"
	"urltree/storage/record"
)

// put stores a page with any body, and commits it.
func put(s *testsite.Site, url, media string, body []byte) {
	s.T.(*testing.T).Helper()
	res, err := s.Tree.Store(&iut.Page{Body: body, Facts: iut.Facts{URL: url, Source: "http://a.org/", Page: record.Page{
		Time: 1_800_000_000, Status: 200, Media: media, PageDepth: 1,
	}}})
	if err != nil {
		s.T.Fatal(err)
	}
	s.Commit(&record.Outcome{Row: record.Row{URL: url, Source: "http://a.org/", Depth: 1}, State: record.Stored, Page: res.Facts.Page})
}

// noise returns bytes that no compression makes fewer.
func noise(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{7}).Read(b)
	return b
}

const overlongURL = "http://a.org/over/"

// mixed is a site with a URL in every state and pages of every kind: one with a long path, a query,
// an empty one, one that is too large for memory, one that the index does not know of, and what a
// kill leaves of another.
func mixed(t *testing.T) *testsite.Site {
	t.Helper()
	s := testsite.Small(t)
	put(s, overlongURL+strings.Repeat("long/", 200), "text/html", []byte("<p>far down"))
	put(s, "http://a.org/find?q=%2F&n=1", "text/plain", []byte("found"))
	put(s, "http://a.org/empty", "text/html", nil)
	put(s, "http://a.org/large", "application/pdf", noise(3<<20))
	put(s, "http://a.org/twin", "text/html", []byte("<p>the same"))
	put(s, "http://a.org/twin2", "text/html", []byte("<p>the same"))
	s.Write("http://a.org/later", "http://a.org/x", 2, "http://a.org/found-later")
	s.Write("http://c.org/", "http://a.org/", 1)
	if err := os.Remove(s.File("http://c.org/", "source.txt")); err != nil {
		t.Fatal(err)
	}
	return s
}

// files returns what the files below the root hold whose names begin with a prefix, by name.
func files(t *testing.T, root, prefix string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(root, path); err == nil && !e.IsDir() && strings.HasPrefix(rel, prefix) {
			all[rel] = testsite.Read(t, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// knownOf returns all records without their places in segments.
func knownOf(s *testsite.Site) map[string]record.Record {
	all := s.Records()
	for url, r := range all {
		r.Extent = record.Extent{}
		all[url] = r
	}
	return all
}

func convertSite(t *testing.T, s *testsite.Site, store string) ConvertReport {
	t.Helper()
	s.Close()
	report, err := Convert(t.Context(), ConvertOptions{Root: s.Root, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	s.OpenTree()
	s.OpenIndex()
	return report
}

// requireStore requires that a tree has nothing but its store, and that index and pages agree.
func requireStore(t *testing.T, s *testsite.Site, store string) {
	t.Helper()
	f := s.Tree.Format()
	if f.StoreName() != store || f.Converting != "" {
		t.Fatalf("FORMAT says the store %s, converting %q", f.StoreName(), f.Converting)
	}
	gone := "pr-"
	if store == iut.StoreFolders {
		gone = "warc"
	}
	entries, err := os.ReadDir(s.Root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), gone) {
			t.Errorf("%s is left beside the store %s", e.Name(), store)
		}
	}
	report := noFaults(t, s, CheckOptions{Links: true}, &testsite.Parser{})
	if report.Torn != 0 {
		t.Errorf("%d torn pages", report.Torn)
	}
	ends, err := s.Index.Marks().SegmentEnds(t.Context())
	if err != nil || (len(ends) > 0) != (store == iut.StoreWARC) {
		t.Errorf("the index knows the ends of segments %v, %v", ends, err)
	}
	for _, r := range s.Records() {
		if want := store == iut.StoreWARC && r.State == record.Stored; r.Extent.IsZero() == want {
			t.Errorf("%s, %v, has the extent %+v in the store %s", r.URL, r.State, r.Extent, store)
		}
	}
}

// Pages, records and all that the index says but where pages are is the same in the other store,
// and the folders, made anew, are byte by byte those from which the segments came.
func TestConvert(t *testing.T) {
	s := mixed(t)
	folders, known := files(t, s.Root, "pr-"), knownOf(s)
	torn, err := filepath.Rel(s.Root, s.File("http://c.org/", "content.html"))
	if err != nil {
		t.Fatal(err)
	}
	delete(folders, torn)
	for _, store := range []string{iut.StoreWARC, iut.StoreWARC, iut.StoreFolders, iut.StoreWARC, iut.StoreFolders} {
		has := s.Tree.Format().StoreName()
		report := convertSite(t, s, store)
		want := ConvertReport{Pages: 9, Unknown: 1}
		if has == store {
			want = ConvertReport{Already: true}
		}
		if report != want {
			t.Fatalf("from %s to %s: %+v, want %+v", has, store, report, want)
		}
		requireStore(t, s, store)
		if got := knownOf(s); !maps.Equal(got, known) {
			t.Fatalf("in the store %s the index knows %+v, want %+v", store, got, known)
		}
		if store == iut.StoreFolders {
			if got := files(t, s.Root, "pr-"); !maps.Equal(got, folders) {
				t.Fatalf("folders %q, want %q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(folders)))
			}
			continue
		}
		for _, url := range []string{"http://a.org/large", "http://a.org/empty"} {
			r, err := s.Index.Record(url)
			if err != nil {
				t.Fatal(err)
			}
			if _, body, err := s.Tree.Load(iut.FactsOf(&r)); err != nil || sha256.Sum256(body) != r.Digest {
				t.Errorf("%s: %d bytes, %v", url, len(body), err)
			}
		}
	}
	// The next run finds the page that the index does not know of.
	convertSite(t, s, iut.StoreWARC)
	ends, err := s.Index.Marks().SegmentEnds(t.Context())
	if err := errors.Join(err, s.Tree.Recover(iut.Committed{Ends: ends})); err != nil {
		t.Fatal(err)
	}
	if _, body, err := s.Tree.Adopt(iut.Facts{URL: "http://a.org/later"}); err != nil || !strings.Contains(string(body), "found-later") {
		t.Errorf("the page that the index does not know: %q, %v", body, err)
	}
}

// TestConvertPlans converts random sites that a kill or damage has left, once or there and back. Of
// each page that was whole the other store has the body; stored is what was so in index and folder;
// and the new store suffices to make the index again.
func TestConvertPlans(t *testing.T) {
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
		s.Close()
		stores := []string{iut.StoreWARC, iut.StoreFolders}[:rapid.IntRange(1, 2).Draw(t, "conversions")]
		for _, store := range stores {
			o := ConvertOptions{Root: s.Root, Store: store, most: rapid.IntRange(1, 4).Draw(t, "pages a commit")}
			if _, err := Convert(context.Background(), o); err != nil {
				t.Fatal(err)
			}
			s.OpenTree()
			s.OpenIndex()
			for _, page := range pl.pages {
				r, err := s.Index.Record(page.url)
				if (err == nil && r.State == record.Stored) != (page.state == stored) {
					t.Fatalf("in the store %s a page that is %s has the record %+v, %v", store, page.state, r, err)
				}
			}
			noFaults(t, s, CheckOptions{Links: true}, &testsite.Parser{})
			s.Close()
		}
		if err := os.Remove(s.Path(indexName)); err != nil {
			t.Fatal(err)
		}
		if _, err := Merge(context.Background(), mergeOptions(s, filepath.Join(root, "res.txt"))); err != nil {
			t.Fatal(err)
		}
		s.OpenTree()
		s.OpenIndex()
		whole := pl.complete()
		for url, r := range s.Records() {
			page, isPage := whole[url]
			if (r.State == record.Stored) != isPage {
				t.Fatalf("made again from the store, %s is %v", url, r.State)
			}
			if !isPage {
				continue
			}
			if _, body, err := s.Tree.Load(iut.FactsOf(&r)); err != nil || string(body) != string(testsite.BodyOf(url, page.links)) {
				t.Fatalf("%s has the body %q, %v", url, body, err)
			}
			delete(whole, url)
		}
		if len(whole) > 0 {
			t.Fatalf("lost: %v", whole)
		}
	})
}
