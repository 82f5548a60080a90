package crawler_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/andybalholm/brotli"

	"urltree/crawler"
	"urltree/internal/repair"
	"urltree/internal/warc"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// warcWeb is a web whose pages come in every way that a tree of segments has to keep.
func warcWeb(t *testing.T) *httptest.Server {
	t.Helper()
	large := strings.Repeat("<p>all that is large</p>\n", 100_000)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("X-Path", r.URL.Path)
		switch r.URL.Path {
		case "/":
			for _, path := range []string{"gzip", "br", "chunked", "moved", "large", "large-gzip", "same", "again", "empty", "missing"} {
				fmt.Fprintf(w, "<a href=/%s>%s</a>\n", path, path)
			}
		case "/gzip", "/large-gzip":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			fmt.Fprintf(z, "<a href=/>%s</a>", r.URL.Path)
			if r.URL.Path == "/large-gzip" {
				io.WriteString(z, large)
			}
			z.Close()
		case "/br":
			w.Header().Set("Content-Encoding", "br")
			z := brotli.NewWriter(w)
			io.WriteString(z, "<a href=/>brotli</a>")
			z.Close()
		case "/chunked":
			io.WriteString(w, "<p>one</p>")
			w.(http.Flusher).Flush()
			io.WriteString(w, "<p>two</p>")
		case "/moved":
			http.Redirect(w, r, "/target", http.StatusMovedPermanently)
		case "/large":
			io.WriteString(w, large)
		case "/same", "/again":
			io.WriteString(w, "<p>the same</p>")
		case "/target":
			io.WriteString(w, "<p>target</p>")
		case "/empty":
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// TestStoreWARC: a crawl keeps the same pages in WARC files as in folders, byte by byte, with what
// the server said; a redirect is kept, and a body that is there already is named. After that the
// index is made again from the files alone.
func TestStoreWARC(t *testing.T) {
	web := warcWeb(t)
	pages := map[string]map[string]record.Page{}
	for _, store := range iut.Stores {
		opts := crawler.Options{
			Tree:       filepath.Join(t.TempDir(), "iut"),
			Output:     filepath.Join(t.TempDir(), "res.txt"),
			Storage:    crawler.Storage{Store: crawler.Store(store)},
			Seeds:      []string{web.URL + "/"},
			Politeness: crawler.Politeness{Delay: -1},
			Resources:  crawler.Resources{MemoryBodies: 1 << 20},
		}
		if _, err := crawler.Run(t.Context(), opts); err != nil {
			t.Fatal(err)
		}
		pages[store] = requirePages(t, opts.Tree, store == iut.StoreWARC)
		if store == iut.StoreWARC {
			if err := os.Remove(filepath.Join(opts.Tree, "index.db")); err != nil {
				t.Fatal(err)
			}
			report, err := repair.Merge(t.Context(), repair.MergeOptions{
				Root: opts.Tree, Output: opts.Output, Parser: func(f iut.Format) (repair.Parser, error) { return crawler.NewLinker(f) },
			})
			if err != nil || report.Pages != len(pages[store]) {
				t.Fatalf("%+v, %v", report, err)
			}
			pages["merged"] = requirePages(t, opts.Tree, true)
		}
	}
	if len(pages[iut.StoreFolders]) != 10 {
		t.Errorf("%d pages, want 10", len(pages[iut.StoreFolders]))
	}
	for url, want := range pages[iut.StoreFolders] {
		for _, store := range []string{iut.StoreWARC, "merged"} {
			got := pages[store][url]
			got.Time, got.Extent = want.Time, record.Extent{}
			if got != want {
				t.Errorf("%s in %s: %+v, want %+v", url, store, got, want)
			}
		}
	}
}

// TestWARCAll: with All the files also have the answers that are no pages, with their bodies, and
// without it they have none of them but redirects. The index made of the files alone is the same.
func TestWARCAll(t *testing.T) {
	for _, all := range []bool{true, false} {
		t.Run(fmt.Sprint(all), func(t *testing.T) {
			t.Parallel()
			var busy atomic.Bool
			busy.Store(true)
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				switch r.URL.Path {
				case "/":
					io.WriteString(w, "<a href=missing></a><a href=busy></a><a href=moved></a><a href=hidden></a>")
				case "/robots.txt":
					io.WriteString(w, "User-agent: *\nDisallow: /none\n")
				case "/moved":
					w.Header().Set("Location", "/")
					w.WriteHeader(http.StatusFound)
					io.WriteString(w, "it is elsewhere")
				case "/hidden":
					w.Header().Set("X-Robots-Tag", "noindex")
					io.WriteString(w, "not to be kept")
				case "/busy":
					if busy.Swap(false) {
						w.WriteHeader(http.StatusInternalServerError)
						io.WriteString(w, strings.Repeat("come again ", 10_000))
						return
					}
					io.WriteString(w, "<p>here</p>")
				default:
					w.Header().Set("Content-Encoding", "gzip")
					w.WriteHeader(http.StatusNotFound)
					z := gzip.NewWriter(w)
					io.WriteString(z, "there is none")
					z.Close()
				}
			}))
			defer web.Close()
			opts := crawler.Options{
				Tree:       filepath.Join(t.TempDir(), "iut"),
				Output:     filepath.Join(t.TempDir(), "res.txt"),
				Storage:    crawler.Storage{Store: crawler.StoreWARC, WARC: crawler.WARC{All: all}},
				Seeds:      []string{web.URL + "/"},
				Politeness: crawler.Politeness{Delay: -1},
				Bounds:     crawler.Bounds{NoSitemaps: true},
			}
			if _, err := crawler.Run(t.Context(), opts); err != nil {
				t.Fatal(err)
			}
			want := []string{"/ 200", "/busy 200", "/moved 302"}
			if all {
				want = []string{"/ 200", "/busy 200", "/busy 500 110000", "/missing 404", "/moved 302 15", "/robots.txt 200"}
			}
			if got := answersIn(t, opts.Tree); len(got) != len(want) || !slices.EqualFunc(got, want, strings.HasPrefix) {
				t.Errorf("%q, want %q", got, want)
			}
			before := requirePages(t, opts.Tree, false)
			if err := os.Remove(filepath.Join(opts.Tree, "index.db")); err != nil {
				t.Fatal(err)
			}
			if _, err := repair.Merge(t.Context(), repair.MergeOptions{
				Root: opts.Tree, Output: opts.Output, Parser: func(f iut.Format) (repair.Parser, error) { return crawler.NewLinker(f) },
			}); err != nil {
				t.Fatal(err)
			}
			if after := requirePages(t, opts.Tree, false); !maps.Equal(before, after) {
				t.Errorf("%v, before %v", after, before)
			}
		})
	}
}

// A redirect whose answer was lost with the end of its segment is asked again after a merge, as a
// page is, and what stands before it is not.
func TestRedirectLostWithItsSegment(t *testing.T) {
	var asked atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Path", r.URL.Path)
		switch r.URL.Path {
		case "/":
			io.WriteString(w, "<a href=moved></a>")
		case "/moved":
			asked.Add(1)
			http.Redirect(w, r, "/", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	defer web.Close()
	dir := t.TempDir()
	opts := crawler.Options{
		Tree:       filepath.Join(dir, "iut"),
		Output:     filepath.Join(dir, "res.txt"),
		Storage:    crawler.Storage{Store: crawler.StoreWARC},
		Seeds:      []string{web.URL + "/"},
		Politeness: crawler.Politeness{Delay: -1},
		Bounds:     crawler.Bounds{NoSitemaps: true},
	}
	if _, err := crawler.Run(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	segments, err := filepath.Glob(filepath.Join(opts.Tree, "warc", "*.warc.gz"))
	if err != nil || len(segments) != 1 {
		t.Fatalf("%q, %v", segments, err)
	}
	index, err := storage.Open(filepath.Join(opts.Tree, "index.db"), storage.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	r, err := index.Record(web.URL + "/moved")
	if err := errors.Join(err, index.Close(), os.Truncate(segments[0], r.Extent.Offset+r.Extent.Length-1)); err != nil {
		t.Fatal(err)
	}
	if report := merge(t, dir); report.Reopened != 1 || report.Totals.Stored != 1 || report.Totals.Now != 1 {
		t.Errorf("%+v", report)
	}
	if report := merge(t, dir); report.Reopened != 0 {
		t.Errorf("again: %+v", report)
	}
	if _, err := crawler.Run(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	if requirePages(t, opts.Tree, true); asked.Load() != 2 {
		t.Errorf("asked %d times", asked.Load())
	}
}

// answersIn returns the answers that the WARC files of a tree have: path, status and bytes of the
// body, in order.
func answersIn(t *testing.T, root string) (answers []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "warc", "*.warc.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		for in := warc.NewReader(file, 0); ; {
			rec, err := in.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if rec.Get(warc.FieldType) != warc.Response {
				continue
			}
			res, err := http.ReadResponse(bufio.NewReader(rec), nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			if err != nil || int64(len(body)) != res.ContentLength {
				t.Errorf("%s: %d bytes of %d, %v", rec.Target(), len(body), res.ContentLength, err)
			}
			u, err := url.Parse(rec.Target())
			if err != nil {
				t.Fatal(err)
			}
			answers = append(answers, fmt.Sprintf("%s %d %d", u.Path, res.StatusCode, len(body)))
		}
	}
	slices.Sort(answers)
	return answers
}

// requirePages reads each stored page of a tree, and returns what the index says of them.
func requirePages(t *testing.T, root string, wire bool) map[string]record.Page {
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
	pages := map[string]record.Page{}
	err = index.Records(t.Context(), nil, func(r record.Record, err error) error {
		if err != nil || r.State != record.Stored && r.State != record.Redirected {
			return err
		}
		if r.State == record.Redirected {
			if wire && !r.Extent.IsZero() {
				requireAnswer(t, tree, &r)
			}
			return nil
		}
		if _, body, err := tree.Load(iut.FactsOf(&r)); err != nil || sha256.Sum256(body) != r.Digest {
			t.Errorf("%s: %d bytes, %v", r.URL, len(body), err)
		}
		if wire {
			requireAnswer(t, tree, &r)
		}
		pages[r.URL] = r.Page
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// requireAnswer checks that the answer of the server and the request are there.
func requireAnswer(t *testing.T, tree *iut.Tree, r *record.Record) {
	t.Helper()
	body, a, err := tree.Answer(iut.FactsOf(r))
	if err != nil || a == nil {
		t.Fatalf("%s: %v, %v", r.URL, a, err)
	}
	defer body.Close()
	n, err := io.Copy(io.Discard, body)
	path := r.URL[strings.LastIndexByte(r.URL, '/'):]
	if err != nil || !bytes.HasPrefix(a.Head, fmt.Appendf(nil, "HTTP/1.1 %d ", r.Status)) || !bytes.Contains(a.Head, []byte("X-Path: "+path+"\r\n")) ||
		!bytes.HasPrefix(a.Request, []byte("GET "+path+" HTTP/1.1\r\n")) || a.Peer.String() != "127.0.0.1" || a.Time.Unix() > r.Time {
		t.Errorf("%s: %v, %q, %q, %v, %v", r.URL, err, a.Head, a.Request, a.Peer, a.Time)
	}
	if r.State == record.Stored && !bytes.Contains(a.Head, fmt.Appendf(nil, "Content-Length: %d\r\n", n)) {
		t.Errorf("%s: %d bytes behind %q", r.URL, n, a.Head)
	}
}
