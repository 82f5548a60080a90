package crawler_test

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/encoding/unicode"

	"urltree/crawler"
	"urltree/internal/faultfs"
)

// TestSeedEncodings: a seed file may be in any encoding whose byte order mark it begins with, as
// Windows programs write it, and packed with gzip. Without a mark it is UTF-8.
func TestSeedEncodings(t *testing.T) {
	const text = "http://a.test/one\r\n# no\r\n\r\nhttp://a.test/zwei-\u00e4\r\nmailto:x\r\n"
	want := []string{"http://a.test/one", "http://a.test/zwei-%C3%A4"}
	for name, encode := range map[string]func(string) (string, error){
		"UTF-8":                func(s string) (string, error) { return s, nil },
		"UTF-8 with a mark":    unicode.UTF8BOM.NewEncoder().String,
		"UTF-16, little first": unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String,
		"UTF-16, big first":    unicode.UTF16(unicode.BigEndian, unicode.UseBOM).NewEncoder().String,
		"gzip":                 func(s string) (string, error) { return packed(s), nil },
	} {
		file, err := encode(text)
		if err != nil {
			t.Fatal(err)
		}
		bad := 0
		got, err := crawler.ReadSeeds(strings.NewReader(file), func(line int, text string, _ error) {
			if bad = line; text != "mailto:x" {
				t.Errorf("%s: line %d left out: %q", name, line, text)
			}
		})
		if err != nil || !slices.Equal(got, want) || bad != 5 {
			t.Errorf("%s: %q, line %d left out, %v; want %q", name, got, bad, err, want)
		}
	}
}

func packed(text string) string {
	var b strings.Builder
	w := gzip.NewWriter(&b)
	io.WriteString(w, text)
	w.Close()
	return b.String()
}

// TestCutGzipSeeds: a packed seed file that is cut off is an error behind the seeds that are whole.
func TestCutGzipSeeds(t *testing.T) {
	file := packed(strings.Repeat("http://a.test/one\n", 10_000))
	for _, cut := range []int{3, len(file) - 4} {
		var err error
		for _, e := range crawler.ScanSeeds(strings.NewReader(file[:cut]), func(int, string, error) {}) {
			err = e
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
			t.Errorf("cut after %d bytes: %v", cut, err)
		}
	}
}

// TestHeapWhileSeedsAreRead: the limit of the heap leaves the filter of known URLs its place, which
// grows outside the heap as seeds come in. Not parallel: the limit is the process's.
func TestHeapWhileSeedsAreRead(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	dir := t.TempDir()
	opts := crawler.Options{
		Tree:       filepath.Join(dir, "iut"),
		Output:     filepath.Join(dir, "res.txt"),
		Storage:    crawler.Storage{FS: faultfs.NewMem(), NoSync: true},
		Limits:     crawler.Limits{Time: time.Millisecond},
		HTTP:       crawler.HTTP{Retries: -1, AllowPrivate: true},
		Politeness: crawler.Politeness{Delay: -1},
		Resources:  crawler.Resources{LimitHeap: true, SeenBytes: 64 << 20},
	}
	limit := int64(0)
	opts.MoreSeeds = func(yield func(string, error) bool) {
		limit = debug.SetMemoryLimit(-1)
		yield("http://127.0.0.1:1/", nil)
	}
	if _, err := crawler.Run(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	if most := opts.Memory() - opts.SeenBytes; limit <= 0 || limit >= most {
		t.Errorf("while seeds are read the heap may take %d bytes, not less than %d", limit, most)
	}
	if after := debug.SetMemoryLimit(-1); after != before {
		t.Errorf("after the run the limit is %d, not %d", after, before)
	}
}

// TestMoreSeedsAgain: seeds.txt is opened as often for a list of several parts as for one seed, and
// the list is in it once however often it is given, also with other Seeds before it.
func TestMoreSeedsAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 10 MB of seeds several times: not with -short")
	}
	t.Parallel()
	disk := faultfs.NewMem()
	dir := t.TempDir()
	seed := func(n int) string { return fmt.Sprintf("http://127.0.0.1:1/%d/%s", n, strings.Repeat("x", 7900)) }
	run := func(seeds int, first ...string) (opens int, kept string) {
		t.Helper()
		counted := faultfs.Count(disk)
		counted.Only = "open"
		_, err := crawler.Run(t.Context(), crawler.Options{
			Tree:       filepath.Join(dir, "iut"),
			Output:     filepath.Join(dir, "res.txt"),
			Storage:    crawler.Storage{FS: counted, NoSync: true},
			Limits:     crawler.Limits{Time: time.Millisecond},
			HTTP:       crawler.HTTP{Retries: -1, AllowPrivate: true},
			Politeness: crawler.Politeness{Delay: -1},
			Seeds:      first,
			MoreSeeds: func(yield func(string, error) bool) {
				for n := range seeds {
					if !yield(seed(n), nil) {
						return
					}
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range counted.Calls() {
			if call == "open seeds.txt" {
				opens++
			}
		}
		f, err := disk.Open("seeds.txt", os.O_RDONLY)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		text, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		return opens, string(text)
	}
	const many = 1300 // two parts
	var want strings.Builder
	for n := range many {
		want.WriteString(seed(n) + "\n")
	}
	run(1) // makes the index
	few, _ := run(1)
	for range 2 {
		if opens, kept := run(many); opens != few || kept != want.String() {
			t.Errorf("seeds.txt is opened %d times, for one seed %d times, and has %d bytes, want %d", opens, few, len(kept), want.Len())
		}
	}
	want.WriteString("http://127.0.0.1:1/\n")
	if _, kept := run(many, "http://127.0.0.1:1/"); kept != want.String() {
		t.Errorf("with another seed before the list seeds.txt has %d bytes, want %d", len(kept), want.Len())
	}
}

// TestSeedsGivenAgain checks that a run names the seeds that it does not ask for again, also where
// they redirect to, and not those that it asks for.
func TestSeedsGivenAgain(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/gone", http.StatusFound)
		case "/page":
			w.Header().Set("Content-Type", "text/html")
		case "/binary":
			w.Header().Set("Content-Type", "application/x-binary")
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	dir := t.TempDir()
	run := func(seeds ...string) (closed []string) {
		for i := range seeds {
			seeds[i] = server.URL + seeds[i]
		}
		result, err := crawler.Run(t.Context(), crawler.Options{
			Tree:       filepath.Join(dir, "iut"),
			Output:     filepath.Join(dir, "res.txt"),
			Storage:    crawler.Storage{NoSync: true},
			Politeness: crawler.Politeness{Delay: -1, IgnoreRobots: true},
			Bounds:     crawler.Bounds{NoSitemaps: true},
			Seeds:      seeds[:1],
			MoreSeeds: func(yield func(string, error) bool) {
				for _, seed := range seeds[1:] {
					if !yield(seed, nil) {
						return
					}
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, record := range result.Closed {
			closed = append(closed, strings.TrimPrefix(record.URL, server.URL)+" "+record.Reason)
		}
		return closed
	}
	if closed := run("/page", "/moved", "/binary"); len(closed) > 0 {
		t.Errorf("the first run names %q", closed)
	}
	before := len(asked)
	want := []string{"/gone http-4xx", "/binary type"}
	if closed := run("/page", "/moved", "/binary"); !slices.Equal(closed, want) || len(asked) != before {
		t.Errorf("the second run names %q, want %q, and asks for %d URLs", closed, want, len(asked)-before)
	}
	if closed := run("/page", "/new"); len(closed) > 0 || len(asked) != before+1 {
		t.Errorf("a run with other seeds names %q", closed)
	}
}
