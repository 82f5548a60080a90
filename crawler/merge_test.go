package crawler_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"urltree/crawler"
	"urltree/crawler/scope"
	"urltree/internal/repair"
	"urltree/internal/testseed"
	"urltree/internal/testweb"
	"urltree/iut"
	"urltree/storage"
)

// A rule is what a tree comes to without its index: worked out from the folders and seeds.txt
// with nothing of ours.
type rule struct {
	stored  []string       // URLs of complete pages, sorted
	pending map[string]int // seeds and links of stored pages that have none, with the shortest depth
}

var href = regexp.MustCompile(`<a href="([^"]*)"`)

// computeRule reads the folders of a crawl of test pages.
func computeRule(t testing.TB, root string, admits func(url string) bool) rule {
	t.Helper()
	links := map[string]int{}
	named := func(url string, depth int) {
		if old, ok := links[url]; !ok || depth < old {
			links[url] = depth
		}
	}
	seeds, err := os.ReadFile(filepath.Join(root, "seeds.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for seed := range strings.Lines(string(seeds)) {
		named(strings.TrimSuffix(seed, "\n"), 0)
	}
	var r rule
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "source.txt" {
			return err
		}
		line, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		body, err := os.ReadFile(filepath.Join(filepath.Dir(path), "content.html"))
		if err != nil {
			return err
		}
		fields := strings.Split(strings.TrimSuffix(string(line), "\n"), "\t")
		depth, err := strconv.Atoi(fields[2])
		if err != nil {
			return err
		}
		r.stored = append(r.stored, fields[0])
		if fields[5] != "text/html" {
			return nil
		}
		base, err := url.Parse(fields[0])
		if err != nil {
			return err
		}
		for _, m := range href.FindAllSubmatch(body, -1) {
			link, err := base.Parse(html.UnescapeString(string(m[1])))
			if err != nil {
				return err
			}
			link.Fragment = ""
			if admits(link.String()) {
				named(link.String(), depth+1)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(r.stored)
	r.pending = maps.Clone(links)
	for _, url := range r.stored {
		delete(r.pending, url)
	}
	return r
}

func anything(string) bool { return true }

// requireRule compares result files with the rule.
func requireRule(t testing.TB, dir string, want rule) {
	t.Helper()
	requireSame(t, crawled(t, filepath.Join(dir, "res.txt")), want.stored)
	text, err := os.ReadFile(filepath.Join(dir, "res2.txt"))
	if err != nil {
		t.Fatal(err)
	}
	pending := map[string]int{}
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		fields := strings.Split(line, "\t")
		if i == 0 {
			continue // the title
		}
		depth, err := strconv.Atoi(fields[2])
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := pending[fields[0]]; twice {
			t.Errorf("%s stands twice in res2.txt", fields[0])
		}
		pending[fields[0]] = depth
	}
	if diff := cmp.Diff(want.pending, pending); diff != "" {
		t.Errorf("pending URLs and their depths: %s", diff)
	}
}

// requireKnown requires a record of each URL that the rule names, in whatever state.
func requireKnown(t testing.TB, path string, want rule) {
	t.Helper()
	index, err := storage.Open(path, storage.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	urls := slices.Sorted(maps.Keys(want.pending))
	has, err := index.Has(urls)
	if err != nil {
		t.Fatal(err)
	}
	for i, url := range urls {
		if !has[i] {
			t.Errorf("%s is lost", url)
		}
	}
}

func merge(t testing.TB, dir string) repair.Report {
	t.Helper()
	report, err := repair.Merge(t.Context(), repair.MergeOptions{
		Root: filepath.Join(dir, "iut"), Output: filepath.Join(dir, "res.txt"),
		Parser: func(f iut.Format) (repair.Parser, error) { return crawler.NewLinker(f) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// results reads all result files.
func results(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, name := range []string{"res.txt", "res2.txt", "statistics.txt", "hourly_statistics.txt"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(text)
	}
	return files
}

func remove(t testing.TB, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// inUse returns the part of an index before its last zeros, which are places not yet used.
func inUse(t testing.TB, path string) []byte {
	t.Helper()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.TrimRight(whole, "\x00")
}

// cutInHalf cuts off half of what is in use.
func cutInHalf(t testing.TB, path string) {
	t.Helper()
	if err := os.Truncate(path, int64(len(inUse(t, path))/2)); err != nil {
		t.Fatal(err)
	}
}

func empty(t testing.TB, path string) {
	t.Helper()
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
}

// overwrite damages one page of the index, the first from the middle on whose loss shows.
func overwrite(t testing.TB, path string) {
	t.Helper()
	const size = 4096
	whole := inUse(t, path)
	for at := len(whole) / 2 / size * size; at+size <= len(whole); at += size {
		damaged := slices.Concat(whole[:at], bytes.Repeat([]byte{0xa5}, size), whole[at+size:])
		if err := os.WriteFile(path, append(damaged, make([]byte, size)...), 0o666); err != nil {
			t.Fatal(err)
		}
		if indexFaults(t, path) {
			return
		}
	}
	t.Fatal("no page behind the middle of index.db holds anything")
}

func indexFaults(t testing.TB, path string) bool {
	t.Helper()
	index, err := storage.Open(path, storage.Options{ReadOnly: true})
	if err != nil {
		return true
	}
	defer index.Close()
	faults := 0
	_, err = index.Verify(t.Context(), func(string) { faults++ })
	return err != nil || faults > 0
}

// TestMergeWithoutIndex stops a crawl at a random point and takes its index away: merge makes
// pending what the rule says, and the crawl goes on to the same set of pages.
func TestMergeWithoutIndex(t *testing.T) {
	t.Parallel()
	random := testseed.Draw(t)
	rng := rand.New(rand.NewPCG(random, 0))
	for _, kind := range []struct {
		name string
		kind testweb.Kind
	}{{"linked", testweb.Linked}, {"tree", testweb.Tree}} {
		for _, tt := range []struct {
			name string
			lose func(t testing.TB, path string)
			kept bool // the damaged file is kept under another name
			over bool // records of it may be taken over
		}{
			{"deleted", remove, false, false},
			{"cut in half", cutInHalf, true, true}, // where the root of the records lies in the first half
			{"empty", empty, true, false},
			{"overwritten", overwrite, true, true},
		} {
			part := rng.Float64()
			if testing.Short() && kind.kind != testweb.Linked {
				continue
			}
			t.Run(kind.name+"/"+tt.name, func(t *testing.T) {
				t.Parallel() // hosts that have failed are waited for most of the time
				web := serve(t, testweb.Options{
					Kind: kind.kind, Hosts: 15, Pages: sized(700, 120), Seed: 31, MinSize: 300, MaxSize: 3000,
					Redirects: .08, Errors: .015, Texts: .03, Images: .03, NoIndex: .08, Private: .03,
				})
				answer := web.Answer()
				dir := t.TempDir()
				index := filepath.Join(dir, "iut", "index.db")
				opts := options(dir, web)
				opts.Retries = -1
				opts.MaxPages = 1 + int64(part*float64(len(answer.Stored)-1))
				t.Logf("stopped after %d of %d pages", opts.MaxPages, len(answer.Stored))
				if _, err := crawler.Run(t.Context(), opts); err != nil {
					t.Fatal(err)
				}
				want := computeRule(t, opts.Tree, anything)
				tt.lose(t, index)

				report := merge(t, dir)
				if report.Pages != len(want.stored) || int64(report.Pages) != opts.MaxPages {
					t.Errorf("%d pages, the folders have %d", report.Pages, len(want.stored))
				}
				switch {
				case tt.over && report.Salvaged > 0:
					requireSame(t, crawled(t, filepath.Join(dir, "res.txt")), want.stored)
					requireKnown(t, index, want)
				case report.Adopted != report.Pages:
					t.Errorf("%d pages adopted of %d", report.Adopted, report.Pages)
				default:
					requireRule(t, dir, want)
				}
				requireChecked(t, dir)
				kept, err := filepath.Glob(index + ".damaged-*")
				if err != nil || (len(kept) == 1) != tt.kept {
					t.Errorf("damaged files kept: %q, %v", kept, err)
				}
				once := results(t, dir)
				merge(t, dir)
				if diff := cmp.Diff(once, results(t, dir)); diff != "" {
					t.Errorf("a second merge changes the results: %s", diff)
				}

				opts.MaxPages = 0
				web.Reset()
				if _, err := crawler.Run(t.Context(), opts); err != nil {
					t.Fatal(err)
				}
				requireSame(t, crawled(t, opts.Output), answer.Stored)
				requireChecked(t, dir)
				for _, url := range want.stored {
					if n := web.Requests()[url]; n > 0 {
						t.Errorf("%s was there, and was asked %d times", url, n)
					}
				}
			})
		}
	}
}

// TestRunWithoutIndex: the crawl itself makes a missing index from the folders before it goes on.
func TestRunWithoutIndex(t *testing.T) {
	t.Parallel()
	web := serve(t, testweb.Options{Kind: testweb.Tree, Hosts: 6, Pages: sized(300, 120), Seed: 32, MinSize: 300, MaxSize: 3000, NoIndex: .05, Redirects: .05})
	dir := t.TempDir()
	opts := options(dir, web)
	opts.MaxPages = int64(sized(120, 50))
	if _, err := crawler.Run(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	want := computeRule(t, opts.Tree, anything)
	remove(t, filepath.Join(opts.Tree, "index.db"))
	// A run that is stopped before it asks anything shows what the index was made to be.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	opts.Started = cancel
	var log bytes.Buffer
	opts.Log = slog.New(slog.NewTextHandler(&log, nil))
	if _, err := crawler.Run(ctx, opts); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "index.db was missing") {
		t.Errorf("it does not say that the index was missing: %s", &log)
	}
	requireRule(t, dir, want)

	web.Reset()
	opts.MaxPages, opts.Started = 0, nil
	if _, err := crawler.Run(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	requireSame(t, crawled(t, opts.Output), web.Answer().Stored)
	requireChecked(t, dir)
	for _, url := range want.stored {
		if n := web.Requests()[url]; n > 0 {
			t.Errorf("%s was there, and was asked %d times", url, n)
		}
	}
}

// TestMergeKeepsRedirectedSeeds crawls with scope host from a seed that redirects to another
// host: that host counts as the seed's, also when only the folders are left to say so.
func TestMergeKeepsRedirectedSeeds(t *testing.T) {
	t.Parallel()
	const pages = 40
	port := 0
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.Host)
		switch {
		case r.URL.Path == "/robots.txt":
			http.NotFound(w, r)
		case host == "127.0.0.1":
			http.Redirect(w, r, fmt.Sprintf("http://127.0.0.2:%d/0", port), http.StatusMovedPermanently)
		default: // a page links to its two children, and to a host that scope leaves out
			var n int
			if _, err := fmt.Sscanf(r.URL.Path, "/%d", &n); err != nil || n >= pages {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "text/html")
			for _, to := range []int{2*n + 1, 2*n + 2} {
				if to < pages {
					fmt.Fprintf(w, `<a href="/%d">`, to)
				}
			}
			fmt.Fprintf(w, `<a href="http://127.0.0.3:%d/%d">`, port, n)
		}
	})
	port = listen(t, handler, "127.0.0.1", "127.0.0.2", "127.0.0.3")
	var all []string
	for n := range pages {
		all = append(all, fmt.Sprintf("http://127.0.0.2:%d/%d", port, n))
	}
	slices.Sort(all)
	inScope := func(url string) bool { return !strings.Contains(url, "127.0.0.3") }

	for _, n := range []int64{1, 2, 7, pages - 1} {
		t.Run(fmt.Sprintf("after %d pages", n), func(t *testing.T) {
			dir := t.TempDir()
			opts := crawler.Options{
				Tree:       filepath.Join(dir, "iut"),
				Output:     filepath.Join(dir, "res.txt"),
				Seeds:      []string{fmt.Sprintf("http://127.0.0.1:%d/", port)},
				Bounds:     crawler.Bounds{Scope: scope.Host},
				Politeness: crawler.Politeness{Delay: -1},
				HTTP:       crawler.HTTP{AllowPrivate: true},
				Limits:     crawler.Limits{MaxPages: n},
			}
			if _, err := crawler.Run(t.Context(), opts); err != nil {
				t.Fatal(err)
			}
			want := computeRule(t, opts.Tree, inScope)
			remove(t, filepath.Join(opts.Tree, "index.db"))
			merge(t, dir)
			requireRule(t, dir, want)
			requireChecked(t, dir)

			opts.MaxPages = 0
			if _, err := crawler.Run(t.Context(), opts); err != nil {
				t.Fatal(err)
			}
			requireSame(t, crawled(t, opts.Output), all)
			requireChecked(t, dir)
		})
	}
}

// TestMergeOfAnOlderIndex: a merge holds URLs back, and cuts links, as the latest run did. If its
// index had come back from a copy made before that run, the next one with the options of the copy
// lets them in all the same.
func TestMergeOfAnOlderIndex(t *testing.T) {
	t.Parallel()
	for name, budgets := range map[string]crawler.Budgets{"held": {Host: 8}, "cut": {Host: 8, MaxHeld: 1}} {
		t.Run(name, func(t *testing.T) {
			web := serve(t, testweb.Options{Kind: testweb.Linked, Hosts: 2, Pages: 60, Seed: 4, MinSize: 300, MaxSize: 1000})
			dir := t.TempDir()
			opts := options(dir, web)
			opts.NoSync, opts.MaxPages = true, 2
			if _, err := crawler.Run(t.Context(), opts); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(opts.Tree, "index.db")
			older, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			opts.MaxPages, opts.Budgets = 0, budgets
			if _, err := crawler.Run(t.Context(), opts); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, older, 0o666); err != nil {
				t.Fatal(err)
			}
			merge(t, dir)
			opts.Budgets = crawler.Budgets{}
			if _, err := crawler.Run(t.Context(), opts); err != nil {
				t.Fatal(err)
			}
			requireSame(t, crawled(t, opts.Output), web.Answer().Stored)
			requireChecked(t, dir)
		})
	}
}

// TestMergeOfNothing: a folder that is no tree is left alone.
func TestMergeOfNothing(t *testing.T) {
	dir := t.TempDir()
	_, err := repair.Merge(t.Context(), repair.MergeOptions{
		Root: filepath.Join(dir, "iut"), Output: filepath.Join(dir, "res.txt"),
		Parser: func(f iut.Format) (repair.Parser, error) { return crawler.NewLinker(f) },
	})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want %v", err, fs.ErrNotExist)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it has left %v, %v", left, err)
	}
}
