package repair

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"urltree/internal/testsite"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// A stored page of folders that is not whole is pending again in the other store, and what there is
// of it is kept, as is what is not of this program.
func TestConvertDamaged(t *testing.T) {
	s := mixed(t)
	name := func(url, base string) string {
		rel, err := filepath.Rel(s.Root, s.File(url, base))
		if err != nil {
			t.Fatal(err)
		}
		return rel
	}
	body := testsite.Read(t, s.File("http://a.org/x", "content.html"))
	large := bytes.Repeat([]byte("x"), 3<<20)
	overlong := overlongURL + strings.Repeat("long/", 200)
	if err := errors.Join(
		os.WriteFile(s.File("http://a.org/x", "content.html"), []byte(strings.Replace(body, "page", "PAGE", 1)), 0o644),
		os.WriteFile(s.File("http://a.org/large", "content.html"), large, 0o644),
		os.Remove(s.File(overlong, "content.html")),
		os.RemoveAll(filepath.Dir(s.File("http://a.org/twin", "content.html"))),
		os.WriteFile(s.File("http://a.org/empty", "notes"), []byte("mine"), 0o644),
		os.Symlink("/", s.File("http://a.org/empty", "dr-root")),
		os.MkdirAll(s.Path("pr-http/do-a/mine"), 0o755),
		os.WriteFile(s.Path("pr-http/do-a/mine/content.html"), []byte("mine too"), 0o644),
	); err != nil {
		t.Fatal(err)
	}
	whole := knownOf(s)
	kept := map[string]string{
		name("http://a.org/x", "content.html.damaged"):     strings.Replace(body, "page", "PAGE", 1),
		name("http://a.org/x", "source.txt.damaged"):       testsite.Read(t, s.File("http://a.org/x", "source.txt")),
		name("http://a.org/large", "content.html.damaged"): string(large),
		name("http://a.org/large", "source.txt.damaged"):   testsite.Read(t, s.File("http://a.org/large", "source.txt")),
		name(overlong, "source.txt.damaged"):               testsite.Read(t, s.File(overlong, "source.txt")),
		name("http://a.org/empty", "notes"):                "mine",
		"pr-http/do-a/mine/content.html":                   "mine too",
	}
	report := convertSite(t, s, iut.StoreWARC)
	if want := (ConvertReport{Pages: 5, Unknown: 1, Damaged: 4}); report != want {
		t.Errorf("%+v, want %+v", report, want)
	}
	known := knownOf(s)
	for _, url := range []string{"http://a.org/x", "http://a.org/large", overlong, "http://a.org/twin"} {
		if r := known[url]; r.State != record.Pending || r.Range != record.Now {
			t.Errorf("%s is %v", url, r.State)
		}
		known[url] = whole[url]
	}
	if !maps.Equal(known, whole) {
		t.Errorf("the index knows %+v, want %+v", known, whole)
	}
	if _, err := os.Readlink(s.File("http://a.org/empty", "dr-root")); err != nil {
		t.Error(err)
	}
	if err := os.Remove(s.File("http://a.org/empty", "dr-root")); err != nil {
		t.Fatal(err)
	}
	if got := files(t, s.Root, "pr-"); !maps.Equal(got, kept) {
		t.Errorf("there are %q, want %q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(kept)))
	}
	noFaults(t, s, CheckOptions{Links: true}, &testsite.Parser{})
	// They are still there on the way back.
	convertSite(t, s, iut.StoreFolders)
	got := files(t, s.Root, "pr-")
	for name, want := range kept {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}

// So it is with segments: one that has a stored page which is not whole is kept under another name.
func TestConvertDamagedSegment(t *testing.T) {
	s := mixed(t)
	convertSite(t, s, iut.StoreWARC)
	r, err := s.Index.Record("http://a.org/large")
	if err != nil {
		t.Fatal(err)
	}
	where, err := s.Tree.Where(iut.FactsOf(&r))
	if err != nil {
		t.Fatal(err)
	}
	segment, _, _ := strings.Cut(where, " ")
	data := []byte(testsite.Read(t, s.Path(segment)))
	data[r.Extent.Offset+r.Extent.Length/2] ^= 1
	if err := os.WriteFile(s.Path(segment), data, 0o644); err != nil {
		t.Fatal(err)
	}
	report := convertSite(t, s, iut.StoreFolders)
	if want := (ConvertReport{Pages: 8, Unknown: 1, Damaged: 1}); report != want {
		t.Errorf("%+v, want %+v", report, want)
	}
	if got := s.Records()["http://a.org/large"]; got.State != record.Pending {
		t.Errorf("the damaged page is %v", got.State)
	}
	got := files(t, s.Root, "warc")
	if len(got) != 1 || got[segment+".damaged"] != string(data) {
		t.Errorf("of the segments there are %q", slices.Sorted(maps.Keys(got)))
	}
	noFaults(t, s, CheckOptions{Links: true}, &testsite.Parser{})
}

// Pages as they came become files of their own, decoded: one that is large, and some whose body
// stands in the record of another.
func TestConvertAnswers(t *testing.T) {
	s := &testsite.Site{T: t, Root: filepath.Join(t.TempDir(), "iut")}
	var err error
	s.Tree, err = iut.Open(s.Root, iut.Options{
		Sync: iut.SyncNone, Identity: &iut.Identity{Canonical: "1", Store: iut.StoreWARC}, Segments: iut.SegmentOptions{Plain: true},
	})
	if err := errors.Join(err, storage.Create(s.Path(indexName))); err != nil {
		t.Fatal(err)
	}
	s.OpenIndex()
	t.Cleanup(s.Close)
	s.Seed("http://a.org/")
	same, large := []byte("<p>the same on all pages"), noise(3<<20)
	for i, body := range [][]byte{same, same, same, large} {
		var coded bytes.Buffer
		w := gzip.NewWriter(&coded)
		if _, err := w.Write(body); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		res, err := s.Tree.Store(&iut.Page{
			Body: coded.Bytes(), Answer: &iut.Answer{Head: []byte("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n")},
			Facts: iut.Facts{URL: fmt.Sprintf("http://a.org/%d", i), Source: "http://a.org/", Page: record.Page{
				Status: 200, Bytes: int64(len(body)), Digest: sha256.Sum256(body), Media: "text/html", PageDepth: 1,
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Commit(&record.Outcome{Row: record.Row{URL: res.Facts.URL, Source: "http://a.org/", Depth: 1}, State: record.Stored, Page: res.Facts.Page})
	}
	for name, text := range files(t, s.Root, "warc") {
		if strings.Count(text, "WARC-Type: revisit") != 2 {
			t.Fatalf("%s has no revisits", name)
		}
	}
	for _, store := range []string{iut.StoreFolders, iut.StoreWARC, iut.StoreFolders} {
		if report := convertSite(t, s, store); report.Pages != 4 || report.Damaged != 0 {
			t.Fatalf("to %s: %+v", store, report)
		}
		requireStore(t, s, store)
	}
	for i, want := range [][]byte{same, same, same, large} {
		if got := testsite.Read(t, s.File(fmt.Sprintf("http://a.org/%d", i), "content.html")); got != string(want) {
			t.Errorf("page %d has %d bytes, want %d", i, len(got), len(want))
		}
	}
}

// A conversion that is stopped keeps what it has done, and the next call does the rest.
func TestConvertStopped(t *testing.T) {
	for _, store := range []string{iut.StoreWARC, iut.StoreFolders} {
		t.Run("to "+store, func(t *testing.T) {
			s := mixed(t)
			if store == iut.StoreFolders {
				convertSite(t, s, iut.StoreWARC)
			}
			known := knownOf(s)
			s.Close()
			ctx, stop := context.WithCancel(t.Context())
			o := ConvertOptions{Root: s.Root, Store: store, Progress: func(_ string, done, _ int) {
				if done == 4 {
					stop()
				}
			}}
			first, err := Convert(ctx, o)
			if !errors.Is(err, context.Canceled) || first.Pages != 4 {
				t.Fatalf("%+v, %v", first, err)
			}
			o.Progress = nil
			if second, err := Convert(t.Context(), o); err != nil || second.Pages != 5 {
				t.Fatalf("%+v, %v", second, err)
			}
			s.OpenTree()
			s.OpenIndex()
			requireStore(t, s, store)
			if got := knownOf(s); !maps.Equal(got, known) {
				t.Errorf("the index knows %+v, want %+v", got, known)
			}
		})
	}
}

// Copies that somebody has taken away in the middle are made again.
func TestConvertLostCopies(t *testing.T) {
	s := mixed(t)
	s.Close()
	ctx, stop := context.WithCancel(t.Context())
	o := ConvertOptions{Root: s.Root, Store: iut.StoreWARC, Progress: func(_ string, done, _ int) {
		if done == 4 {
			stop()
		}
	}}
	if _, err := Convert(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := os.RemoveAll(s.Path("warc")); err != nil {
		t.Fatal(err)
	}
	o.Progress = nil
	if report, err := Convert(t.Context(), o); err != nil || report.Pages != 9 {
		t.Fatalf("%+v, %v", report, err)
	}
	s.OpenTree()
	s.OpenIndex()
	requireStore(t, s, iut.StoreWARC)
}

// A page that somebody has put where a copy is to come is not taken for it.
func TestConvertMeetsAnotherPage(t *testing.T) {
	s := mixed(t)
	folder := filepath.Dir(s.File("http://a.org/twin", "content.html"))
	rel, err := filepath.Rel(s.Root, folder)
	if err != nil {
		t.Fatal(err)
	}
	convertSite(t, s, iut.StoreWARC)
	line := iut.Facts{URL: "http://a.org/twin", Source: record.Seed, Page: record.Page{Bytes: 5, Digest: sha256.Sum256([]byte("other"))}}.AppendLine(nil)
	if err := errors.Join(
		os.MkdirAll(folder, 0o755),
		os.WriteFile(filepath.Join(folder, "content.html"), []byte("other"), 0o644),
		os.WriteFile(filepath.Join(folder, "source.txt"), line, 0o644),
	); err != nil {
		t.Fatal(err)
	}
	s.Close()
	_, err = Convert(t.Context(), ConvertOptions{Root: s.Root, Store: iut.StoreFolders})
	if !errors.Is(err, iut.ErrTree) || !strings.Contains(err.Error(), rel+" holds another page of http://a.org/twin; move it away") {
		t.Fatal(err)
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if report := convertSite(t, s, iut.StoreFolders); report.Damaged != 0 {
		t.Errorf("%+v", report)
	}
	requireStore(t, s, iut.StoreFolders)
}
