package crawler_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"urltree/crawler"
	"urltree/crawler/scope"
	"urltree/internal/walk"
)

// TestRealPages crawls documentation that people have written, and compares what is stored with
// an exhaustive walk over the links that shares no code with the crawler. TEST_URLTREE_CORPUS names
// the document root; make test-real fills one.
func TestRealPages(t *testing.T) {
	root := os.Getenv("TEST_URLTREE_CORPUS")
	if root == "" {
		t.Skip("TEST_URLTREE_CORPUS names no folder of real pages; see make test-real")
	}
	if _, err := os.Stat(filepath.Join(root, "index.html")); err != nil {
		t.Fatal(err)
	}
	// An address that no page names by chance.
	const host = "127.10.20.30"
	seed := fmt.Sprintf("http://%s:%d/", host, listen(t, http.FileServer(http.Dir(root)), host))
	want, err := walk.Host(t.Context(), seed)
	if err != nil {
		t.Fatal(err)
	}
	if len(want.Pages) < 10 {
		t.Errorf("the walk has met %d pages only", len(want.Pages))
	}

	dir := t.TempDir()
	result, err := crawler.Run(t.Context(), crawler.Options{
		Tree:       filepath.Join(dir, "iut"),
		Output:     filepath.Join(dir, "res.txt"),
		Seeds:      []string{seed},
		Bounds:     crawler.Bounds{Scope: scope.Host},
		Politeness: crawler.Politeness{Delay: -1, PerHost: 4},
		HTTP:       crawler.HTTP{Retries: -1},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d pages stored, %d URLs in all; the walk knows %d", result.Total.Stored, result.Total.Records(), want.URLs)
	requireSame(t, crawled(t, filepath.Join(dir, "res.txt")), want.Pages)
	if result.Total.Records() != int64(want.URLs) {
		t.Errorf("%d URLs in the index, the walk knows %d", result.Total.Records(), want.URLs)
	}
	requireChecked(t, dir)
}
