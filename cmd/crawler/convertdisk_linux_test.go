package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"urltree/internal/testsite"
	"urltree/iut"
	"urltree/storage/record"
)

// TestConvertFullDisk: with too little room nothing is changed, and a disk that becomes full in the
// middle leaves what the same command goes on from.
func TestConvertFullDisk(t *testing.T) {
	disk, dir := mountLoop(t, 96), t.TempDir()
	tree := filepath.Join(disk, "iut")
	s := testsite.New(t, tree)
	s.Seed("http://a.org/")
	noise := rand.NewChaCha8([32]byte{1})
	for i := range 200 {
		body := make([]byte, 60<<10) // it says that it is text, and cannot be made smaller
		noise.Read(body)
		res, err := s.Tree.Store(&iut.Page{Body: body, Facts: iut.Facts{
			URL: fmt.Sprintf("http://a.org/%d", i), Source: record.Seed, Page: record.Page{Status: 200, Media: "text/html"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		s.Commit(&record.Outcome{Row: record.Row{URL: res.Facts.URL, Source: record.Seed}, State: record.Stored, Page: res.Facts.Page})
	}
	s.Close()
	urls, folders := must(t, dir, "export", "-tree", tree), treeNames(t, tree)
	full := func(left int64, to, said string) {
		t.Helper()
		heavy := ballast(t, disk, left)
		_, stderr, code := call(t, dir, "convert", "-tree", tree, "-store", to)
		if code != exitDisk || !strings.Contains(stderr, said) || strings.Count(stderr, "\n") != 1 {
			t.Fatalf("exit %d: %s", code, stderr)
		}
		if must(t, dir, "export", "-tree", tree) != urls {
			t.Fatal("the export is another one")
		}
		if err := os.Remove(heavy); err != nil {
			t.Fatal(err)
		}
	}
	full(4, "warc", "crawler: convert needs about 6.4 MB besides what the tree has, the disk has 4.2 MB free: no space left on device")
	if after := treeNames(t, tree); after != folders {
		t.Errorf("the tree was %s, and is %s", folders, after)
	}
	full(9, "warc", "no space left on device")
	requireRefused(t, dir, "warc", "merge", "-tree", tree)
	must(t, dir, "convert", "-tree", tree, "-store", "warc")
	must(t, dir, "check", "-tree", tree)
	full(4, "folders", "crawler: convert needs about 13.9 MB besides")
	must(t, dir, "convert", "-tree", tree, "-store", "folders")
	must(t, dir, "check", "-tree", tree)
	if must(t, dir, "export", "-tree", tree) != urls {
		t.Error("the export is another one")
	}
}

// treeNames returns FORMAT of a tree and the names in its root.
func treeNames(t *testing.T, root string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "FORMAT"))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text = fmt.Appendf(text, " %s", e.Name())
	}
	return string(text)
}
