package stages

import (
	"io"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"urltree/crawler"
	"urltree/crawler/scope"
	"urltree/internal/inspect"
	"urltree/iut"
	"urltree/storage"
)

// mostOfExport is what a page of a handbook may cost an export to a WACZ file, without its body in
// the file. What was measured stands behind it.
var mostOfExport = []struct {
	store  crawler.Store
	text   string
	allocs float64
	bytes  float64 // of these
}{
	{crawler.StoreFolders, "", 222, 43_600},      // 215.4 and 42,290
	{crawler.StoreFolders, "plain", 254, 55_300}, // 246.1 and 53,640
	{crawler.StoreWARC, "", 325, 303_000},        // 315.9 and 294,020
	{crawler.StoreWARC, "plain", 395, 444_000},   // 383.8 and 431,290
}

// TestCostOfExport exports trees of either store.
func TestCostOfExport(t *testing.T) {
	skipRaced(t)
	const pages = 600
	h := serveHandbook(t, pages)
	roots := map[crawler.Store]string{}
	for _, tt := range mostOfExport {
		root := roots[tt.store]
		if root == "" {
			root = filepath.Join(t.TempDir(), "iut")
			roots[tt.store] = root
			_, err := crawler.Run(t.Context(), crawler.Options{
				Tree:       root,
				Output:     filepath.Join(filepath.Dir(root), "res.txt"),
				Seeds:      []string{h.url},
				Bounds:     crawler.Bounds{Scope: scope.Host},
				Politeness: crawler.Politeness{Delay: -1, PerHost: 5},
				Storage:    crawler.Storage{NoSync: true, Store: tt.store},
				Resources:  crawler.Resources{FlushInterval: time.Hour},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		allocs, bytes := exported(t, root, inspect.Question{Command: "export", What: "wacz", Text: tt.text})
		name := string(tt.store)
		if tt.text != "" {
			name += " with texts"
		}
		guard(t, name+": allocations of a page", allocs/pages, tt.allocs)
		guard(t, name+": bytes of these", bytes/pages, tt.bytes)
	}
}

// exported returns what an export allocates.
func exported(t *testing.T, root string, q inspect.Question) (allocs, bytes float64) {
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
	in, err := crawler.NewInspector(tree, index)
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := in.Run(t.Context(), q, io.Discard); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs - before.Mallocs), float64(after.TotalAlloc - before.TotalAlloc)
}
