package crawler_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"urltree/crawler"
	"urltree/crawler/tree"
	"urltree/internal/inspect"
	"urltree/internal/repair"
	"urltree/internal/warc"
	"urltree/iut"
	"urltree/storage"
)

// A history is a site whose pages have, by path, one content in each round.
type history struct {
	pages map[string][]string // the last one holds for all rounds that follow; "": not found
	round int
}

func (h *history) at(path string) string {
	list := h.pages[path]
	if len(list) == 0 {
		return ""
	}
	return list[min(h.round, len(list)-1)]
}

func (h *history) fetch(_ context.Context, url string) (crawler.Content, error) {
	body := h.at(pathOf(url))
	if body == "" {
		return crawler.Content{Status: http.StatusNotFound}, nil
	}
	return crawler.Content{Body: []byte(body), Media: "text/html"}, nil
}

// want returns the contents that are kept of each page after this round, the oldest first.
func (h *history) want(versions int) map[string][]string {
	want := map[string][]string{}
	for path, list := range h.pages {
		var kept []string
		for n := range h.round + 1 {
			body := list[min(n, len(list)-1)]
			if body != "" && (len(kept) == 0 || kept[len(kept)-1] != body) {
				kept = append(kept, body)
			}
		}
		if versions > 0 {
			kept = kept[max(len(kept)-versions, 0):]
		}
		want[path] = kept
	}
	return want
}

// versionsOf returns the contents that a tree keeps of each page, the oldest first.
func versionsOf(t *testing.T, dir string) map[string][]string {
	t.Helper()
	pages, err := tree.Open(filepath.Join(dir, "iut"))
	if err != nil {
		t.Fatal(err)
	}
	defer pages.Close()
	got := map[string][]string{}
	for page, err := range pages.Pages(t.Context(), tree.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		list, err := pages.Versions(t.Context(), page.URL)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range list {
			body, err := v.Body()
			if err != nil {
				t.Error(err)
			}
			got[pathOf(page.URL)] = append(got[pathOf(page.URL)], string(body))
		}
	}
	return got
}

var aHistory = map[string][]string{
	"/":       {"<a href=/often><a href=/seldom><a href=/back><a href=/gone><a href=/never>"},
	"/often":  {"<p>0", "<p>1", "<p>2", "<p>3", "<p>4", "<p>5"},
	"/seldom": {"<p>first", "<p>first", "<p>second", "<p>second", "<p>third"},
	"/back":   {"<p>this", "<p>that", "<p>this", "<p>this", "<p>that"},
	"/gone":   {"<p>here", "<p>still here", "", "", "<p>here"},
	"/never":  {"<p>the same"},
}

// TestVersions: with Versions the contents that a page had stay, each once, as many as are wanted,
// and are there in either store, after a merge without an index, a conversion there and back, and a
// compaction.
func TestVersions(t *testing.T) {
	for _, store := range crawler.Stores {
		for _, versions := range []int{1, 2, 3, crawler.AllVersions} {
			t.Run(fmt.Sprintf("%s %d", store, versions), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { keepsVersions(t, store, versions) })
			})
		}
	}
}

func keepsVersions(t *testing.T, store crawler.Store, versions int) {
	dir, web := t.TempDir(), &history{pages: aHistory}
	opts := crawler.Options{
		Tree: filepath.Join(dir, "iut"), Output: filepath.Join(dir, "res.txt"), Storage: crawler.Storage{Store: store, NoSync: true}, Seeds: []string{"http://a.test/"}, Fetch: web.fetch,
		Revisits:  crawler.Revisits{Versions: versions},
		Resources: crawler.Resources{FlushInterval: time.Millisecond},
	}
	require := func(when string) {
		t.Helper()
		if diff := cmp.Diff(web.want(versions), versionsOf(t, dir)); diff != "" {
			t.Errorf("round %d, %s: %s", web.round, when, diff)
		}
		requireChecked(t, dir)
	}
	for web.round = range 6 {
		run(t, opts)
		require("after the run")
		opts.Recrawl = crawler.RecrawlNow
		time.Sleep(24 * time.Hour)
	}
	if err := os.Remove(filepath.Join(opts.Tree, "index.db")); err != nil {
		t.Fatal(err)
	}
	merge(t, dir)
	require("after a merge without an index")
	merge(t, dir)
	require("after another merge")
	for _, to := range []string{iut.StoreWARC, iut.StoreFolders, iut.StoreWARC} {
		if _, err := repair.Convert(t.Context(), repair.ConvertOptions{Root: opts.Tree, Store: to}); err != nil {
			t.Fatal(err)
		}
		require("converted to " + to)
		if _, err := repair.Compact(t.Context(), repair.CompactOptions{Root: opts.Tree}); err != nil {
			t.Fatal(err)
		}
		require("compacted in " + to)
		if names := inFolders(t, opts.Tree); (len(names) > 0) != (to == iut.StoreFolders) {
			t.Errorf("in %s: files of pages %v", to, names)
		}
	}
	requireArchived(t, dir, web.want(versions))
}

// inFolders returns the names of the files of pages below the root of a tree.
func inFolders(t *testing.T, root string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if strings.HasPrefix(e.Name(), "content.html") || strings.HasPrefix(e.Name(), "source.txt") {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// requireArchived requires that an export has all versions, each in a record.
func requireArchived(t *testing.T, dir string, want map[string][]string) {
	t.Helper()
	got := map[string][]string{}
	var out bytes.Buffer
	err := crawler.Ask(t.Context(), filepath.Join(dir, "iut"), inspect.Question{Command: "export", What: "warc"}, nil, &out)
	if err != nil {
		t.Fatal(err)
	}
	for in := warc.NewReader(&out, 0); ; {
		rec, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if rec.Get(warc.FieldType) == warc.Resource {
			body, err := io.ReadAll(rec)
			if err != nil {
				t.Fatal(err)
			}
			got[pathOf(rec.Target())] = append(got[pathOf(rec.Target())], string(body))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("exported: %s", diff)
	}
}

// TestVersionLost: check names a version that is lost, one that is damaged and one that the index
// does not have; merge brings the index to what is there.
func TestVersionLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, web := t.TempDir(), &history{pages: aHistory}
		opts := crawler.Options{
			Tree: filepath.Join(dir, "iut"), Output: filepath.Join(dir, "res.txt"), Storage: crawler.Storage{NoSync: true}, Seeds: []string{"http://a.test/"}, Fetch: web.fetch,
			Revisits:  crawler.Revisits{Versions: crawler.AllVersions},
			Resources: crawler.Resources{FlushInterval: time.Millisecond},
		}
		for web.round = range 6 {
			run(t, opts)
			opts.Recrawl = crawler.RecrawlNow
			time.Sleep(24 * time.Hour)
		}
		folder := filepath.Join(opts.Tree, "pr-http", "do-a", "do-test")
		files := func(page, what string) []string {
			list, err := filepath.Glob(filepath.Join(folder, page, what+".2*"))
			if err != nil || len(list) == 0 {
				t.Fatal(list, err)
			}
			return list
		}
		for _, name := range append(files("dr-often", "content.html")[:1], files("dr-often", "source.txt")[:1]...) {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(files("dr-seldom", "content.html")[0], []byte("<p>First"), 0o666); err != nil {
			t.Fatal(err)
		}
		for _, name := range append(files("dr-back", "content.html")[:1], files("dr-back", "source.txt")[:1]...) {
			body, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(filepath.Base(name), "source") {
				facts, err := iut.ParseFacts(strings.TrimSuffix(string(body), "\n"))
				if err != nil {
					t.Fatal(err)
				}
				facts.Time += 23 * 3600
				body = facts.AppendLine(nil)
			}
			if err := os.WriteFile(strings.Replace(name, "T000000Z", "T230000Z", 1), body, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		faults := checked(t, dir)
		for _, want := range []string{"/often: the version of", "/seldom: the version of", "dr-back/source.txt."} {
			if !slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, want) }) {
				t.Errorf("no fault of %s in %q", want, faults)
			}
		}
		report := merge(t, dir)
		if report.LostVersions != 2 || report.Versions != 1 {
			t.Errorf("%+v", report)
		}
	})
}

// checked returns the faults that check finds.
func checked(t *testing.T, dir string) (faults []string) {
	t.Helper()
	pages, err := iut.Open(filepath.Join(dir, "iut"), iut.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer pages.Close()
	index, err := storage.Open(filepath.Join(dir, "iut", "index.db"), storage.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	linker, err := crawler.NewLinker(pages.Format())
	if err != nil {
		t.Fatal(err)
	}
	_, err = repair.Check(t.Context(), pages, index, linker, repair.CheckOptions{}, func(f string) { faults = append(faults, f) })
	if err != nil {
		t.Fatal(err)
	}
	return faults
}
