package crawler_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"urltree/crawler"
	"urltree/crawler/scope"
)

// TestOldIndex puts an index back that was made by other options than FORMAT has got since: what
// those held, and links of pages that they left out, count when the crawl goes on.
func TestOldIndex(t *testing.T) {
	const pages = 30
	fetch := func(_ context.Context, url string) (crawler.Content, error) {
		var b strings.Builder
		if strings.HasSuffix(url, "a.test/") {
			for i := range pages {
				fmt.Fprintf(&b, "<a href=http://a.test/%d><a href=http://b.test/%[1]d>", i)
			}
		}
		return crawler.Content{Body: []byte(b.String()), Media: "text/html"}, nil
	}
	dir := t.TempDir()
	opts := crawler.Options{
		Tree:    filepath.Join(dir, "iut"),
		Output:  filepath.Join(dir, "res.txt"),
		Seeds:   []string{"http://a.test/"},
		Fetch:   fetch,
		Storage: crawler.Storage{NoSync: true},
	}
	run := func(opts crawler.Options) int64 {
		t.Helper()
		result, err := crawler.Run(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		return result.Total.Stored
	}
	narrow := opts
	narrow.Scope, narrow.Budgets.Host = scope.Host, 5
	if n := run(narrow); n != 5 {
		t.Fatalf("%d pages, want 5", n)
	}
	index := filepath.Join(opts.Tree, "index.db")
	old, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	if n := run(opts); n != 2*pages+1 {
		t.Fatalf("%d pages, want %d", n, 2*pages+1)
	}
	if err := os.WriteFile(index, old, 0o644); err != nil {
		t.Fatal(err)
	}
	if n := run(opts); n != 2*pages+1 {
		t.Errorf("%d pages with the old index, want %d", n, 2*pages+1)
	}
}
