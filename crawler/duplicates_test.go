package crawler_test

import (
	"bytes"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"urltree/crawler"
	"urltree/internal/inspect"
	"urltree/storage"
	"urltree/storage/record"
)

// copies are the URLs of one page, whose link means another page under each of them.
var copies = []string{"/1/p", "/2/p", "/3/p", "/4/p"}

// duplicateSite serves copies, two long texts that differ in a word, two empty pages and an image
// twice.
func duplicateSite(t *testing.T) (origin string) {
	t.Helper()
	long := strings.Builder{}
	for n := range 2000 {
		fmt.Fprintf(&long, "word%d ", n*n%997)
	}
	pages := map[string]string{"/": "<a href=/near/1><a href=/near/2><a href=/empty/1><a href=/empty/2><a href=/image/1><a href=/image/2>"}
	for n, path := range copies {
		pages["/"] += "<a href=" + path + ">"
		pages[path] = "<p>the same<a href=leaf>"
		pages[path[:3]+"leaf"] = strings.Repeat("leaf", n+1)
	}
	for _, n := range []string{"1", "2"} {
		pages["/near/"+n] = "<title>t</title><p>" + long.String() + "<b>last" + n
		pages["/empty/"+n] = ""
		pages["/image/"+n] = "an image"
	}
	return hosts(t, 1, func(_ int, rw http.ResponseWriter, r *http.Request) {
		text, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(rw, r)
			return
		}
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		if strings.HasPrefix(r.URL.Path, "/image") {
			rw.Header().Set("Content-Type", "image/png")
		}
		fmt.Fprint(rw, text)
	}, "")[0]
}

func duplicateOptions(dir, origin string) crawler.Options {
	return crawler.Options{
		Tree:       filepath.Join(dir, "iut"),
		Output:     filepath.Join(dir, "res.txt"),
		Seeds:      []string{origin + "/"},
		Politeness: crawler.Politeness{Delay: -1, PerHost: 4},
		Bounds:     crawler.Bounds{Accept: []string{"*/*"}},
		Resources:  crawler.Resources{FlushInterval: 50 * time.Millisecond},
	}
}

func run(t *testing.T, opts crawler.Options) crawler.Result {
	t.Helper()
	result, err := crawler.Run(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// firsts returns, for each stored page that is not empty, the one that it repeats, or itself.
func firsts(t *testing.T, dir string) map[string]string {
	t.Helper()
	index, err := storage.Open(filepath.Join(dir, "iut", "index.db"), storage.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	got := map[string]string{}
	err = index.Records(t.Context(), nil, func(r record.Record, err error) error {
		if err != nil || r.State != record.Stored || r.Bytes == 0 {
			return err
		}
		first, err := index.First(t.Context(), r.Digest)
		got[r.URL] = first.URL
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestDuplicates: without SkipDuplicates all is stored, the marks are the same whether the index
// is the crawl's or made from the folders, and the list of duplicates agrees with them.
func TestDuplicates(t *testing.T) {
	t.Parallel()
	origin := duplicateSite(t)
	dir := t.TempDir()
	result := run(t, duplicateOptions(dir, origin))
	if result.Total.Stored != 15 || result.Total.Refused != 0 {
		t.Errorf("%d stored, %d refused, want 15 and none", result.Total.Stored, result.Total.Refused)
	}
	requireChecked(t, dir)
	marks := firsts(t, dir)
	groups := map[string]int{}
	for url, first := range marks {
		if marks[first] != first {
			t.Errorf("%s repeats %s, which repeats %s", url, first, marks[first])
		}
		groups[first]++
	}
	if n := groups[marks[origin+"/2/p"]]; n != len(copies) || len(groups) != 9 {
		t.Errorf("%d copies in %d groups, want %d in 9: %v", n, len(groups), len(copies), groups)
	}
	remove(t, filepath.Join(dir, "iut", "index.db"))
	merge(t, dir)
	if diff := cmp.Diff(marks, firsts(t, dir)); diff != "" {
		t.Errorf("marks after a merge: %s", diff)
	}

	var out, again bytes.Buffer
	var last string
	tell := func(what string, done, total int64) { last = fmt.Sprintf("%s %d of %d", what, done+1, total) }
	if err := inspect.Duplicates(t.Context(), filepath.Join(dir, "iut"), tell, &out); err != nil {
		t.Fatal(err)
	}
	_, pages, _ := strings.Cut(out.String(), "\npages ")
	pages, _, _ = strings.Cut(pages, ":")
	if want := "reading pages " + pages + " of " + pages; last != want {
		t.Errorf("it told %q last, want %q", last, want)
	}
	opts := duplicateOptions(dir, origin)
	opts.Started = func() { // while a crawl has the tree
		if err := inspect.Duplicates(t.Context(), opts.Tree, nil, &again); err != nil || again.String() != out.String() {
			t.Errorf("during a crawl: %v\n%s", err, again.String())
		}
	}
	run(t, opts)
	if again.Len() == 0 {
		t.Error("the second run did not start")
	}
	equal, near, _ := strings.Cut(out.String(), "\nnear duplicates")
	listed, first := map[string]string{}, ""
	for line := range strings.Lines(equal) {
		line = strings.TrimSuffix(line, "\n")
		if url, ok := strings.CutPrefix(line, "  = "); ok {
			listed[url] = first
		} else {
			first = line
		}
	}
	for url, first := range marks {
		if url == first {
			delete(marks, url)
		}
	}
	if diff := cmp.Diff(marks, listed); diff != "" {
		t.Errorf("list and marks: %s", diff)
	}
	want := regexp.QuoteMeta(origin+"/near/1\n") + "  [0-3] " + regexp.QuoteMeta(origin+"/near/2\n\npages 15: 4 repeat another, 1 are near another, ")
	if !regexp.MustCompile("differ\n" + want).MatchString(near) {
		t.Errorf("near duplicates:%s", near)
	}
}

// TestSkipDuplicates: one of equal pages is stored, the links of all count, in this run and in
// the next ones.
func TestSkipDuplicates(t *testing.T) {
	origin := duplicateSite(t)
	dir := t.TempDir()
	opts := duplicateOptions(dir, origin)
	opts.SkipDuplicates = true
	opts.Exclude = []*regexp.Regexp{regexp.MustCompile("leaf|/4/|image/2")}
	result := run(t, opts)
	want := map[string]int64{"stored": 7, "refused duplicate": 2}
	if diff := cmp.Diff(want, result.Run.Outcomes); diff != "" {
		t.Errorf("outcomes: %s", diff)
	}
	requireChecked(t, dir)

	// Links that count only now are found on pages that were not kept as well; what is stored is
	// known to the next run.
	opts.Exclude = nil
	result = run(t, opts)
	want = map[string]int64{"stored": 4, "refused duplicate": 4}
	if diff := cmp.Diff(want, result.Run.Outcomes); diff != "" {
		t.Errorf("outcomes of the second run: %s", diff)
	}
	requireChecked(t, dir)
	urls := crawled(t, opts.Output)
	for _, path := range copies {
		if leaf := origin + path[:3] + "leaf"; !slices.Contains(urls, leaf) {
			t.Errorf("%s is missing, a link of a page that may have been refused", leaf)
		}
	}
	for _, group := range [][]string{copies, {"/image/1", "/image/2"}, {"/near/1"}, {"/near/2"}, {"/empty/1"}, {"/empty/2"}} {
		n := 0
		for _, path := range group {
			if slices.Contains(urls, origin+path) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d of %q are stored, want 1", n, group)
		}
	}
	for url, first := range firsts(t, dir) {
		if url != first {
			t.Errorf("%s repeats %s", url, first)
		}
	}

	// What was refused is asked again after a merge, and refused again.
	merge(t, dir)
	result = run(t, opts)
	if result.Total.Stored != 11 || result.Total.Refused != 4 || result.Total.Pending() != 0 {
		t.Errorf("after a merge: %+v", result.Total.Counts)
	}

	// Without the option all of them are stored once they are opened again.
	index, err := storage.Open(filepath.Join(dir, "iut", "index.db"), storage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n, err := index.Reopen(t.Context(), nil, func(r *record.Record) bool { return r.Reason == record.Duplicate }, nil)
	if err != nil || n != 4 || index.Close() != nil {
		t.Fatal(n, err)
	}
	opts.SkipDuplicates = false
	if result = run(t, opts); result.Total.Stored != 15 {
		t.Errorf("%d stored without the option, want 15", result.Total.Stored)
	}
	requireChecked(t, dir)
}
