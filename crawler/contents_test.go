package crawler

import (
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// TestContents: of those who bring a content at the same moment one is told that it is new, and
// what the index or a folder holds is known.
func TestContents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index.db")
	if err := storage.Create(path); err != nil {
		t.Fatal(err)
	}
	index, err := storage.Open(path, storage.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	item := func(url string, state record.State, n byte) *iut.Item {
		return &iut.Item{Outcome: record.Outcome{
			Row: record.Row{URL: url, Source: record.Seed}, State: state, Page: record.Page{Bytes: 1, Digest: [32]byte{n}},
		}}
	}
	stored, failed := item("http://a.org/1", record.Stored, 1), item("http://a.org/2", record.Failed, 2)
	if _, err := index.Commit([]*record.Outcome{&stored.Outcome, &failed.Outcome}); err != nil {
		t.Fatal(err)
	}
	c, err := loadContents(t.Context(), index)
	if err != nil {
		t.Fatal(err)
	}
	defer c.set.Close()
	c.learn([]*iut.Item{item("http://a.org/3", record.Stored, 3), item("http://a.org/4", record.Refused, 4)})
	for n, want := range map[byte]int64{1: 0, 2: 1, 3: 0, 4: 1, 5: 1} {
		var fresh atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if !c.known([32]byte{n}) {
					fresh.Add(1)
				}
			})
		}
		wg.Wait()
		if fresh.Load() != want {
			t.Errorf("content %d was new to %d, want %d", n, fresh.Load(), want)
		}
	}
	e := &engine{store: stores{contents: c}}
	for n, page := range []record.Page{{}, {}, {Bytes: 1}, {Bytes: 1}} {
		if got, want := e.store.skips(&page), n == 3; got != want {
			t.Errorf("page %d of %d bytes is skipped: %v, want %v", n, page.Bytes, got, want)
		}
	}
}
