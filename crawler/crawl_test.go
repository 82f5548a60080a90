package crawler_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"urltree/crawler"
	"urltree/crawler/scope"
	"urltree/internal/repair"
	"urltree/internal/testweb"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a web and stops it with the test.
func serve(t testing.TB, opts testweb.Options) *testweb.Web {
	t.Helper()
	web := testweb.New(opts)
	if err := web.Start(0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(web.Stop)
	return web
}

// options are those of a fast crawl of a web into a folder.
func options(dir string, web *testweb.Web) crawler.Options {
	return crawler.Options{
		Tree:       filepath.Join(dir, "iut"),
		Output:     filepath.Join(dir, "res.txt"),
		Seeds:      web.Seeds(),
		Politeness: crawler.Politeness{Delay: -1},
		HTTP:       crawler.HTTP{AllowPrivate: true},
		Resources:  crawler.Resources{FlushInterval: 200 * time.Millisecond},
	}
}

// crawled returns the first fields of the lines of a result file.
func crawled(t testing.TB, file string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var urls []string
	for line := range strings.Lines(string(b)) {
		url, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		urls = append(urls, url)
	}
	return urls
}

// requireSame compares a list of URLs with the sorted right one: no difference, no repeats.
func requireSame(t testing.TB, got, want []string) {
	t.Helper()
	got = slices.Sorted(slices.Values(got))
	if slices.Equal(got, want) {
		return
	}
	t.Errorf("%d URLs, want %d: %s", len(got), len(want), cmp.Diff(want, got))
}

// requireChecked lets check look at a finished crawl, parsing every page again.
func requireChecked(t testing.TB, dir string) {
	t.Helper()
	tree, err := iut.Open(filepath.Join(dir, "iut"), iut.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	index, err := storage.Open(filepath.Join(dir, "iut", "index.db"), storage.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	linker, err := crawler.NewLinker(tree.Format())
	if err != nil {
		t.Fatal(err)
	}
	_, err = repair.Check(t.Context(), tree, index, linker, repair.CheckOptions{
		Links: true, Output: filepath.Join(dir, "res.txt"),
	}, func(fault string) { t.Error("fault:", fault) })
	if err != nil {
		t.Fatal(err)
	}
	statistics, err := os.ReadFile(filepath.Join(dir, "statistics.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(statistics, []byte("holds")); n < 3 || bytes.Contains(statistics, []byte("NOT HOLD")) {
		t.Errorf("statistics.txt: accounting does not hold:\n%s", statistics)
	}
}

// TestKnownAnswer crawls a web whose right answer is known, with few and many crawlers.
func TestKnownAnswer(t *testing.T) {
	t.Parallel()
	for _, size := range []struct {
		buffers, crawlers, downloads, pages int
		order                               crawler.Order
	}{
		{1, 1, 4, 4000, ""},
		{3, 6, 4, 4000, ""},
		{6, 12, 4, 20_000, ""},
		{12, 48, 2, 4000, ""},
		{1, 1, 4, 2000, crawler.OrderTree},
		{6, 12, 4, 4000, crawler.OrderTree},
	} {
		switch {
		case os.Getenv("TEST_URLTREE_FULL") != "":
			size.pages = 20_000
		case testing.Short():
			size.pages = 150
		}
		t.Run(fmt.Sprintf("%d buffers %d crawlers %s", size.buffers, size.crawlers, size.order), func(t *testing.T) {
			t.Parallel()
			web := serve(t, testweb.Options{
				Kind: testweb.Linked, Hosts: 50, Pages: size.pages, Seed: 7, MinSize: 500, MaxSize: 3000,
				Redirects: .03, Errors: .002, Texts: .02, Images: .02, NoIndex: .02, Private: .02,
			})
			answer := web.Answer()
			dir := t.TempDir()
			opts := options(dir, web)
			opts.Order = size.order
			opts.Buffers, opts.Crawlers, opts.Downloads = size.buffers, size.crawlers, size.downloads
			result, err := crawler.Run(t.Context(), opts)
			if err != nil {
				t.Fatal(err)
			}
			requireSame(t, crawled(t, filepath.Join(dir, "res.txt")), answer.Stored)
			if result.Ended != "nothing left" {
				t.Errorf("ended: %s, want nothing left", result.Ended)
			}
			want := record.Counts{
				Stored: int64(len(answer.Stored)), Redirected: int64(len(answer.Redirected)),
				Failed: int64(len(answer.Failed)), Refused: int64(len(answer.Refused)),
			}
			if result.Total.Counts != want {
				t.Errorf("counts %+v, want %+v", result.Total.Counts, want)
			}
			for url, n := range web.Requests() {
				_, failed := answer.Failed[url]
				if n > 1 && !failed {
					t.Errorf("%s was asked %d times", url, n)
				}
			}
			requireChecked(t, dir)
		})
	}
}

// TestMaxPages stores exactly as many pages as asked for, and goes on from there.
func TestMaxPages(t *testing.T) {
	t.Parallel()
	limit := sized(1000, 150)
	web := serve(t, testweb.Options{
		Kind: testweb.Linked, Hosts: 20, Pages: 3 * limit, Seed: 3, MinSize: 500, MaxSize: 2000, Images: .1, Redirects: .05,
	})
	dir := t.TempDir()
	opts := options(dir, web)
	opts.MaxPages = int64(limit)
	for run := 1; run <= 2; run++ {
		result, err := crawler.Run(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		if result.Ended != "page limit reached" || result.Run.Stored != int64(limit) {
			t.Errorf("run %d: %s after %d pages, want %d", run, result.Ended, result.Run.Stored, limit)
		}
		if n := len(crawled(t, filepath.Join(dir, "res.txt"))); n != limit*run {
			t.Errorf("run %d: %d pages in res.txt", run, n)
		}
		requireChecked(t, dir)
	}
	opts.MaxPages = 0
	if _, err := crawler.Run(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	requireSame(t, crawled(t, filepath.Join(dir, "res.txt")), web.Answer().Stored)
}

// TestStop cancels the context: the run ends at once, cleanly, and the next one finishes the job.
func TestStop(t *testing.T) {
	t.Parallel()
	web := serve(t, testweb.Options{Kind: testweb.Tree, Hosts: 5, Pages: sized(600, 300), Seed: 4, Latency: 2 * time.Millisecond})
	dir := t.TempDir()
	opts := options(dir, web)
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		var seen atomic.Int64
		opts.Buffers, opts.Crawlers = 1, 2
		opts.OnOutcome = func(crawler.Outcome) {
			if seen.Add(1) == 50 {
				cancel()
			}
		}
		result, err := crawler.Run(ctx, opts)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		if result.Ended != "stopped" {
			t.Errorf("ended: %s, want stopped", result.Ended)
		}
		requireChecked(t, dir)
	}
	opts.OnOutcome = nil
	if _, err := crawler.Run(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	requireSame(t, crawled(t, filepath.Join(dir, "res.txt")), web.Answer().Stored)
	for url, n := range web.Requests() {
		if n > 1 {
			t.Errorf("%s was asked %d times, though every stop was clean", url, n)
		}
	}
}

// TestWiden crawls one host, then all: the second run finds what a fresh crawl would, though
// every page of the first is stored already; a third one holds what is outside again.
func TestWiden(t *testing.T) {
	t.Parallel()
	web := serve(t, testweb.Options{Kind: testweb.Linked, Hosts: 6, Pages: sized(400, 150), Seed: 5, MinSize: 300, MaxSize: 900})
	dir := t.TempDir()
	opts := options(dir, web)
	opts.Seeds, opts.Scope = web.Seeds()[:1], scope.Host
	narrow, err := crawler.Run(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	requireChecked(t, dir)
	fresh := options(t.TempDir(), web)
	fresh.Seeds = opts.Seeds
	want, err := crawler.Run(t.Context(), fresh)
	if err != nil {
		t.Fatal(err)
	}
	if narrow.Total.Stored == 0 || narrow.Total.Stored >= want.Total.Stored {
		t.Fatalf("%d pages on one host, %d on all: no test", narrow.Total.Stored, want.Total.Stored)
	}
	opts.Scope = scope.Any
	if _, err := crawler.Run(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	requireSame(t, crawled(t, opts.Output), slices.Sorted(slices.Values(crawled(t, fresh.Output))))
	requireChecked(t, dir)
}
