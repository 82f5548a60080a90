package crawler_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"urltree/crawler"
	"urltree/internal/testweb"
	"urltree/iut"
	"urltree/storage"
)

// An unsyncedDisk fails to sync.
type unsyncedDisk struct{ iut.FS }

func (unsyncedDisk) SyncAll() error { return syscall.EIO }

// TestNoFiguresAfterFailure: once a sync of the tree has failed nothing more comes to the index,
// not even the figures of the hour.
func TestNoFiguresAfterFailure(t *testing.T) {
	for _, fails := range []bool{false, true} {
		web := serve(t, testweb.Options{Kind: testweb.Linked, Hosts: 2, Pages: 20, Seed: 4})
		opts := options(t.TempDir(), web)
		if err := os.MkdirAll(opts.Tree, 0o777); err != nil {
			t.Fatal(err)
		}
		real, err := iut.OpenDisk(opts.Tree, iut.SyncNone)
		if err != nil {
			t.Fatal(err)
		}
		defer real.Close()
		index := filepath.Join(opts.Tree, "index.db")
		opts.NoSync, opts.FS = true, real
		if fails {
			// The index is there: to make one, the tree is synced as well.
			opts.MaxPages = 1
			if _, err := crawler.Run(t.Context(), opts); err != nil {
				t.Fatal(err)
			}
			opts.MaxPages, opts.FS = 0, unsyncedDisk{real}
		}
		if _, err := crawler.Run(t.Context(), opts); errors.Is(err, syscall.EIO) != fails {
			t.Fatalf("Run: %v", err)
		}
		x, err := storage.Open(index, storage.Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		if hours, err := x.Runs().Hours(); err != nil || len(hours) != 1 {
			t.Errorf("fails %v: figures of %d hours, want 1: %v", fails, len(hours), err)
		}
	}
}
