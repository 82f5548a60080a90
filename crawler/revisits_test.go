package crawler_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"urltree/crawler"
	"urltree/internal/faultfs"
	"urltree/internal/testseed"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// A plannedWeb is a site whose pages change by a plan.
type plannedWeb struct {
	origin string

	mu    sync.Mutex
	pages map[string]string // guarded by mu; by path: a body, or one of the words that ServeHTTP knows
	asked map[string]int    // guarded by mu; by path
}

func servePlan(t *testing.T, pages map[string]string) *plannedWeb {
	t.Helper()
	w := &plannedWeb{pages: pages, asked: map[string]int{}}
	w.origin = hosts(t, 1, w.answer)[0]
	return w
}

func (w *plannedWeb) answer(_ int, rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	body, ok := w.pages[r.URL.Path]
	w.asked[r.URL.Path]++
	w.mu.Unlock()
	switch {
	case !ok:
		http.NotFound(rw, r)
	case body == "gone":
		http.Error(rw, "it was here", http.StatusGone)
	case body == "broken":
		http.Error(rw, "not now", http.StatusInternalServerError)
	case body == "moved":
		http.Redirect(rw, r, "/new", http.StatusMovedPermanently)
	default:
		fmt.Fprint(rw, body)
	}
}

// round changes pages, and forgets what was asked.
func (w *plannedWeb) round(pages map[string]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.Copy(w.pages, pages)
	clear(w.asked)
}

func (w *plannedWeb) requests() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.asked)
}

func (w *plannedWeb) options(dir, store string) crawler.Options {
	return crawler.Options{
		Tree:       filepath.Join(dir, "iut"),
		Output:     filepath.Join(dir, "res.txt"),
		Storage:    crawler.Storage{Store: crawler.Store(store)},
		Seeds:      []string{w.origin + "/"},
		Politeness: crawler.Politeness{Delay: -1, PerHost: 4},
		Resources:  crawler.Resources{FlushInterval: 50 * time.Millisecond},
		HTTP:       crawler.HTTP{Retries: -1},
	}
}

// bodies returns, by path, the content of each stored page, its SHA-256 compared.
func bodies(t *testing.T, root string, disk iut.FS) map[string]string {
	t.Helper()
	tree, err := iut.Open(root, iut.Options{FS: disk, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	got := map[string]string{}
	withRecords(t, root, func(index *storage.Index, r record.Record) {
		if r.State != record.Stored {
			return
		}
		facts, body, err := tree.Load(iut.FactsOf(&r))
		if err != nil || !facts.Same(iut.FactsOf(&r)) {
			t.Errorf("%s: %v: the index says %+v, the page %+v", r.URL, err, iut.FactsOf(&r), facts)
		}
		got[pathOf(r.URL)] = string(body)
	})
	return got
}

func pathOf(url string) string {
	_, path, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	return "/" + path
}

func withRecords(t *testing.T, root string, fn func(*storage.Index, record.Record)) {
	t.Helper()
	index, err := storage.Open(filepath.Join(root, "index.db"), storage.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	err = index.Records(t.Context(), nil, func(r record.Record, err error) error {
		if err == nil {
			fn(index, r)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// looksOf returns, by path, what the last look at each stored page came to.
func looksOf(t *testing.T, root string) map[string]string {
	t.Helper()
	got := map[string]string{}
	withRecords(t, root, func(index *storage.Index, r record.Record) {
		l, ok, err := index.Revisits().Look(r.URL)
		if err != nil {
			t.Error(err)
		}
		if !ok {
			return
		}
		got[pathOf(r.URL)] = strings.TrimSpace(fmt.Sprintf("%d looks, %d changes, %v %s", l.Looks, l.Changes, l.State, l.Reason))
		if (l.Since != 0) != (l.State != record.Stored) || (l.Changed != 0) != (l.Changes > 0) {
			t.Errorf("%s: %+v", r.URL, l)
		}
	})
	return got
}

var firstPlan = map[string]string{
	"/":        "<a href=/same><a href=/changes><a href=/gone><a href=/broken><a href=/moved><a href=/missing>",
	"/same":    "<p>the same for ever",
	"/changes": "<p>the first text",
	"/gone":    "<p>soon gone",
	"/broken":  "<p>soon broken",
	"/moved":   "<p>soon moved",
}

var secondPlan = map[string]string{"/changes": "<p>another text <a href=/found>", "/found": "<p>found", "/gone": "gone", "/broken": "broken", "/moved": "moved", "/new": "<p>new"}

// TestRecrawl: with RecrawlNow each stored page is asked once more, and nothing else that has its
// outcome. A changed one replaces what is stored, and its new links belong to the crawl; one that
// is not found keeps what it had. All of them stay stored all the while.
func TestRecrawl(t *testing.T) {
	t.Parallel()
	for _, store := range iut.Stores {
		for _, order := range crawler.Orders {
			t.Run(store+" "+string(order), func(t *testing.T) {
				t.Parallel()
				web, dir := servePlan(t, maps.Clone(firstPlan)), t.TempDir()
				opts := web.options(dir, store)
				opts.Order, opts.Edges = order, true
				run(t, opts)
				want := bodies(t, opts.Tree, nil)

				web.round(secondPlan)
				opts.Recrawl = crawler.RecrawlNow
				result := run(t, opts)
				if diff := cmp.Diff(map[string]int{"/": 1, "/same": 1, "/changes": 1, "/gone": 1, "/broken": 1, "/moved": 1, "/found": 1, "/new": 1}, web.requests()); diff != "" {
					t.Errorf("requests: %s", diff)
				}
				if diff := cmp.Diff(map[string]int64{"same": 2, "changed": 1, "failed http-4xx": 1, "failed http-5xx": 1, "redirected": 1}, result.Run.Looks); diff != "" {
					t.Errorf("looks: %s", diff)
				}
				want["/changes"], want["/found"], want["/new"] = secondPlan["/changes"], secondPlan["/found"], secondPlan["/new"]
				if diff := cmp.Diff(want, bodies(t, opts.Tree, nil)); diff != "" {
					t.Errorf("bodies: %s", diff)
				}
				if diff := cmp.Diff(map[string]string{
					"/": "1 looks, 0 changes, stored", "/same": "1 looks, 0 changes, stored", "/changes": "1 looks, 1 changes, stored",
					"/gone": "1 looks, 0 changes, failed http-4xx", "/broken": "1 looks, 0 changes, failed http-5xx", "/moved": "1 looks, 0 changes, redirected moved",
				}, looksOf(t, opts.Tree)); diff != "" {
					t.Errorf("looks: %s", diff)
				}
				if result.Total.Stored != 8 || result.Total.Pending() != 0 || result.Total.Revisits != 0 {
					t.Errorf("%+v", result.Total)
				}
				requireChecked(t, dir)

				web.round(map[string]string{"/gone": "<p>back again"})
				run(t, opts)
				want["/gone"] = "<p>back again"
				if got := looksOf(t, opts.Tree)["/gone"]; got != "2 looks, 1 changes, stored" {
					t.Errorf("/gone: %s", got)
				}
				requireChecked(t, dir)

				web.round(nil)
				opts.Recrawl = 0
				run(t, opts)
				if n := len(web.requests()); n > 0 {
					t.Errorf("a run without Recrawl asks %v", web.requests())
				}
				if err := os.Remove(filepath.Join(opts.Tree, "index.db")); err != nil {
					t.Fatal(err)
				}
				merge(t, dir)
				if diff := cmp.Diff(want, bodies(t, opts.Tree, nil)); diff != "" {
					t.Errorf("bodies after a merge without an index: %s", diff)
				}
			})
		}
	}
}

// TestRecrawlFaults lets each call of the disk fail in a run that looks at pages again, or cuts the
// power there. Whatever is left of the tree, with its index or without, has of each page the
// version of before or that of now, whole; and the next run comes to those of now.
func TestRecrawlFaults(t *testing.T) {
	t.Parallel()
	seed := testseed.Draw(t)
	for i, store := range iut.Stores {
		for _, kind := range []string{"failed call", "power cut", "power cut, and index.db is lost"} {
			t.Run(store+", "+kind, func(t *testing.T) {
				t.Parallel()
				web := servePlan(t, map[string]string{})
				before, now := map[string]string{"/": "<a href=/1><a href=/2><a href=/3><a href=/large>"}, map[string]string{}
				for n, path := range []string{"/1", "/2", "/3", "/large"} {
					before[path] = fmt.Sprintf("<p>before %d <a href=/l%d>", n, n)
					now[path] = fmt.Sprintf("<p>now it has %d <a href=/m%d>", n, n)
				}
				before["/large"] += strings.Repeat("<p>before, and large", 1<<13)
				now["/large"] += strings.Repeat("<p>now, and large", 1<<13)
				web.round(before)
				after := maps.Clone(before)
				maps.Copy(after, now)
				rng := rand.New(rand.NewPCG(seed, uint64(i)))
				last := 0
				for k, missed := 0, 0; missed < 3; k += sized(5, 40) {
					web.round(before)
					if recrawlFault(t, web, store, kind, k, rng, before, after) {
						last, missed = k, 0
					} else {
						missed++
					}
					if t.Failed() {
						t.Fatalf("at call %d", k)
					}
				}
				if last < 20 {
					t.Errorf("call %d was the last", last)
				}
			})
		}
	}
}

// recrawlFault reports whether the run came to call k.
func recrawlFault(t *testing.T, web *plannedWeb, store, kind string, k int, rng *rand.Rand, before, now map[string]string) bool {
	t.Helper()
	dir, remove := faultDir(t)
	defer remove()
	disk := faultfs.NewMem()
	opts := web.options(dir, store)
	opts.FS, opts.NoSync, opts.MemoryBodies, opts.Buffers, opts.Crawlers, opts.FlushInterval = disk, true, 64<<10, 1, 2, 5*time.Millisecond
	opts.Keep = func(iut.Kept, []string) (iut.Kept, error) { return faultKept, nil }
	run(t, opts)

	web.round(now)
	fault := faultfs.FailAfter(disk, k, syscall.EIO)
	left := []*faultfs.Mem{disk}
	var index []byte
	var failed error
	path := filepath.Join(opts.Tree, "index.db")
	if kind != "failed call" {
		left = nil
		fault.Cut = func() {
			index, failed = os.ReadFile(path)
			for range 3 {
				left = append(left, disk.Crash(rng))
			}
		}
	}
	again := opts
	again.FS, again.Recrawl = fault, crawler.RecrawlNow
	_, err := crawler.Run(t.Context(), again)
	switch {
	case failed != nil && !errors.Is(failed, fs.ErrNotExist):
		t.Fatal(failed)
	case !fault.Failed() && err != nil:
		t.Fatal(err)
	case !fault.Failed():
		return false
	}
	call := fault.Calls()[k]
	for _, disk := range left {
		if index != nil {
			if err := os.WriteFile(path, index, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if kind == "power cut, and index.db is lost" {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
		requireVersions(t, web, opts, disk, call, before, now)
	}
	return true
}

// requireVersions crawls on with what a fault has left: first to no page, which completes what was
// begun, then by another look at all.
func requireVersions(t *testing.T, web *plannedWeb, opts crawler.Options, disk *faultfs.Mem, call string, before, now map[string]string) {
	t.Helper()
	opts.FS = disk
	none := opts
	none.Allow = func(crawler.Candidate) bool { return false }
	if _, err := crawler.Run(t.Context(), none); err != nil {
		t.Fatalf("%s: %v", call, err)
	}
	got := bodies(t, opts.Tree, disk)
	for path := range before {
		if body, ok := got[path]; !ok || body != before[path] && body != now[path] {
			t.Errorf("%s: %s has %.50q", call, path, body)
		}
	}
	checkOn(t, opts.Tree, disk, "", call)
	opts.Recrawl = crawler.RecrawlNow
	if _, err := crawler.Run(t.Context(), opts); err != nil {
		t.Fatalf("%s: %v", call, err)
	}
	got = bodies(t, opts.Tree, disk)
	for path := range before {
		if got[path] != now[path] {
			t.Errorf("%s: %s has %.50q after another look", call, path, got[path])
		}
	}
	checkOn(t, opts.Tree, disk, "", call)
	if names, err := disk.List("tmp"); err != nil || len(names) > 0 {
		t.Errorf("%s: tmp/ has %v, %v", call, names, err)
	}
	for url, n := range count(crawled(t, opts.Output)) {
		if n > 1 {
			t.Errorf("%s: %s is listed %d times", call, url, n)
		}
	}
}

func count(list []string) map[string]int {
	n := map[string]int{}
	for _, s := range list {
		n[s]++
	}
	return n
}

// TestConditional: what a server has said of an answer is sent back with the next look, and a 304
// then says that nothing has changed; one that nobody asked for is no page. What came in part is
// asked for in full.
func TestConditional(t *testing.T) {
	t.Parallel()
	for _, store := range iut.Stores {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			var (
				mu      sync.Mutex
				version = 1
				saw     = map[string][]string{} // by path: what came of each request
			)
			day := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
			origin := hosts(t, 1, func(_ int, rw http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				tag, modified := fmt.Sprintf(`"v%d"`, version), day.AddDate(0, 0, version).Format(http.TimeFormat)
				status := http.StatusOK
				switch path := r.URL.Path; {
				case path == "/tag" && r.Header.Get("If-None-Match") == tag, path == "/date" && r.Header.Get("If-Modified-Since") == modified,
					path == "/liar" && len(saw[path]) > 0:
					status = http.StatusNotModified
				case path == "/tag":
					rw.Header().Set("ETag", tag)
				case path == "/date":
					rw.Header().Set("Last-Modified", modified)
				case path == "/": // it may change once more within this second
					rw.Header().Set("Date", modified)
					rw.Header().Set("Last-Modified", modified)
				}
				conditions := r.Header.Get("If-None-Match") + r.Header.Get("If-Modified-Since")
				saw[r.URL.Path] = append(saw[r.URL.Path], strings.TrimSpace(fmt.Sprint(status, " ", conditions)))
				if status != http.StatusOK {
					rw.WriteHeader(status)
					return
				}
				fmt.Fprintf(rw, "<p>version %d of %s <a href=/tag><a href=/date><a href=/liar>", version, r.URL.Path)
			})[0]
			dir := t.TempDir()
			web := plannedWeb{origin: origin}
			opts := web.options(dir, store)
			opts.Recrawl = time.Hour
			run(t, opts)
			look := func(next int) map[string]int64 {
				t.Helper()
				mu.Lock()
				version = next
				mu.Unlock()
				opts.Recrawl = crawler.RecrawlNow
				return run(t, opts).Run.Looks
			}
			if diff := cmp.Diff(map[string]int64{"same": 3, "failed no-content": 1}, look(1)); diff != "" {
				t.Errorf("nothing has changed: %s", diff)
			}
			if diff := cmp.Diff(map[string]int64{"changed": 3, "failed no-content": 1}, look(2)); diff != "" {
				t.Errorf("all has changed: %s", diff)
			}
			if diff := cmp.Diff(map[string]int64{"same": 3, "failed no-content": 1}, look(2)); diff != "" {
				t.Errorf("nothing has changed since: %s", diff)
			}
			delete(saw, "/sitemap.xml")
			one, two := day.AddDate(0, 0, 1).Format(http.TimeFormat), day.AddDate(0, 0, 2).Format(http.TimeFormat)
			if diff := cmp.Diff(map[string][]string{
				"/": {"200", "200", "200", "200"}, "/liar": {"200", "304", "304", "304"},
				"/tag":  {"200", `304 "v1"`, `200 "v1"`, `304 "v2"`},
				"/date": {"200", "304 " + one, "200 " + one, "304 " + two},
			}, saw); diff != "" {
				t.Errorf("requests: %s", diff)
			}
			got := bodies(t, opts.Tree, nil)
			for _, path := range []string{"/", "/tag", "/date"} {
				if !strings.HasPrefix(got[path], "<p>version 2 of "+path) {
					t.Errorf("%s is %q", path, got[path])
				}
			}
			requireChecked(t, dir)
		})
	}
}

// TestNewBeforeAgain: URLs that were never asked go before stored pages of their host, whatever
// their depth and score.
func TestNewBeforeAgain(t *testing.T) {
	t.Parallel()
	for _, order := range []crawler.Order{crawler.OrderBreadth, crawler.OrderPriority} {
		t.Run(string(order), func(t *testing.T) {
			t.Parallel()
			const known, fresh = 30, 60
			var mu sync.Mutex
			var asked []string
			origin := hosts(t, 1, func(_ int, rw http.ResponseWriter, r *http.Request) {
				mu.Lock()
				asked = append(asked, r.URL.Path)
				mu.Unlock()
				if r.URL.Path == "/" {
					for n := range known {
						fmt.Fprintf(rw, "<a href=/known/%d>", n)
					}
				}
				if r.URL.Path == "/new/0" {
					for n := range fresh {
						fmt.Fprintf(rw, "<a href=/new/%d>", n)
					}
				}
				fmt.Fprint(rw, r.URL.Path)
			})[0]
			web := plannedWeb{origin: origin}
			opts := web.options(t.TempDir(), "")
			opts.Order, opts.PerHost, opts.NoSitemaps = order, 1, true
			run(t, opts)
			// The links of the first new page are known, and wait, before the run that asks again.
			opts.Seeds, opts.MaxPages = []string{origin + "/new/0"}, 1
			run(t, opts)
			mu.Lock()
			asked = nil
			mu.Unlock()
			opts.Seeds, opts.MaxPages, opts.Recrawl = nil, 0, crawler.RecrawlNow
			run(t, opts)
			last := slices.IndexFunc(asked, func(path string) bool { return !strings.HasPrefix(path, "/new/") || path == "/new/0" })
			if last != fresh-1 || len(asked) != fresh+known+1 {
				t.Errorf("%d requests, and the first page that was stored is asked again as number %d: %v", len(asked), last, asked)
			}
		})
	}
}

// TestRecrawlShare: while a host has URLs that were not asked yet, stored pages that are due get
// their share of its requests, and the order of requests says so at any moment; then the rest.
func TestRecrawlShare(t *testing.T) {
	t.Parallel()
	for _, order := range []crawler.Order{crawler.OrderBreadth, crawler.OrderPriority} {
		t.Run(string(order), func(t *testing.T) {
			t.Parallel()
			const known, fresh, share = 30, 60, 30
			var mu sync.Mutex
			var asked []string
			origin := hosts(t, 1, func(_ int, rw http.ResponseWriter, r *http.Request) {
				mu.Lock()
				asked = append(asked, r.URL.Path)
				mu.Unlock()
				for n := range known {
					fmt.Fprintf(rw, "<a href=/known/%d>", n)
				}
				if strings.HasPrefix(r.URL.Path, "/new") {
					for n := range fresh {
						fmt.Fprintf(rw, "<a href=/new/%d>", n)
					}
				}
			})[0]
			web := plannedWeb{origin: origin}
			opts := web.options(t.TempDir(), "")
			opts.Order, opts.PerHost, opts.NoSitemaps, opts.IgnoreRobots, opts.Pick = order, 1, true, true, "single"
			run(t, opts)
			opts.Seeds, opts.MaxPages = []string{origin + "/new"}, 1
			run(t, opts)
			mu.Lock()
			asked = nil
			mu.Unlock()
			opts.Seeds, opts.MaxPages, opts.Recrawl, opts.RecrawlShare = nil, 0, crawler.RecrawlNow, share
			run(t, opts)
			if len(asked) != fresh+known+2 {
				t.Fatalf("%d requests: %v", len(asked), asked)
			}
			news := 0
			for n, path := range asked {
				if strings.HasPrefix(path, "/new/") {
					news++
				}
				if off := 100*(n+1-news) - share*(n+1); news < fresh && (off <= -100 || off >= 100) {
					t.Fatalf("%d of the first %d requests are of new URLs: %v", news, n+1, asked)
				}
			}
		})
	}
}
