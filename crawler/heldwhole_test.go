package crawler_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"urltree/crawler"
	"urltree/internal/faultfs"
	"urltree/internal/testweb"
	"urltree/iut"
)

// TestWholePageIsHeldBetween: a page that a broken crawl left whole, before its outcome was
// committed, is not asked for again, also where a run between, which ends well, holds its URL, and
// where a rebuild made its record.
func TestWholePageIsHeldBetween(t *testing.T) {
	t.Parallel()
	for name, rebuilt := range map[string]bool{"records of runs": false, "records of a rebuild": true} {
		t.Run(name, func(t *testing.T) { heldBetween(t, rebuilt) })
	}
}

func heldBetween(t *testing.T, rebuilt bool) {
	web := serve(t, testweb.Options{Kind: testweb.Tree, Hosts: 2, Pages: 400, Seed: 3, MinSize: 300, MaxSize: 900})
	dir := t.TempDir()
	opts := options(dir, web)
	opts.NoSync = true
	crawl := func() error {
		_, err := crawler.Run(t.Context(), opts)
		return err
	}
	opts.MaxPages = 30
	if err := crawl(); err != nil {
		t.Fatal(err)
	}
	opts.MaxPages = 0
	if rebuilt {
		if err := os.Remove(filepath.Join(opts.Tree, "index.db")); err != nil {
			t.Fatal(err)
		}
	}

	disk, err := iut.OpenDisk(opts.Tree, iut.SyncNone)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	gone := errors.New("the disk is gone")
	// The page whose source.txt is written, but fails to close, is whole and not committed.
	faulty := faultfs.FailAfter(disk, 120, gone)
	faulty.Only, faulty.Base = "close", "source.txt"
	opts.FS = faulty
	if err := crawl(); !errors.Is(err, gone) {
		t.Fatalf("the crawl ends with %v, want %v", err, gone)
	}
	opts.FS = nil
	whole := map[string]bool{}
	tree, err := iut.Open(opts.Tree, iut.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range web.Answer().Stored {
		if there, err := tree.Has(url); err != nil {
			t.Fatal(err)
		} else if there {
			whole[url] = true
		}
	}
	if err := tree.Close(); err != nil {
		t.Fatal(err)
	}

	web.Reset()
	opts.MaxDepth = 1
	if err := crawl(); err != nil {
		t.Fatal(err)
	}
	held := maps.Clone(whole)
	for _, url := range crawled(t, filepath.Join(dir, "res.txt")) {
		delete(held, url)
	}
	if len(held) == 0 {
		t.Fatalf("of %d whole pages the run between holds none", len(whole))
	}
	opts.MaxDepth = 0
	if err := crawl(); err != nil {
		t.Fatal(err)
	}
	requireSame(t, crawled(t, filepath.Join(dir, "res.txt")), web.Answer().Stored)
	for url, n := range web.Requests() {
		if whole[url] {
			t.Errorf("%s has a whole page and was asked %d times", url, n)
		}
	}
}
