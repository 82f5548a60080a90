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

// TestUniteFullDisk: a disk that becomes full ends a union with one line, the others are as they
// were, and with room the same command makes the tree.
func TestUniteFullDisk(t *testing.T) {
	disk, dir := mountLoop(t, 96), t.TempDir()
	tree := filepath.Join(dir, "iut")
	s := testsite.New(t, tree)
	s.Seed("http://a.org/")
	noise := rand.NewChaCha8([32]byte{1})
	for i := range 200 {
		body := make([]byte, 60<<10)
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
	urls, names, out := must(t, dir, "export"), treeNames(t, tree), filepath.Join(disk, "out")
	heavy := ballast(t, disk, 6)
	for _, store := range []string{"folders", "warc"} {
		stdout, stderr, code := call(t, dir, "unite", "-store", store, out, "iut")
		if code != exitDisk || stdout != "" || !strings.Contains(stderr, "no space left on device") || strings.Count(stderr, "\n") != 1 {
			t.Fatalf("to %s: exit %d: %s%s", store, code, stdout, stderr)
		}
		if must(t, dir, "export") != urls || treeNames(t, tree) != names {
			t.Fatal("the tree has changed")
		}
	}
	if err := os.Remove(heavy); err != nil {
		t.Fatal(err)
	}
	must(t, dir, "unite", out, "iut")
	must(t, dir, "check", "-tree", out)
	if must(t, dir, "export", "-tree", out) != urls {
		t.Error("the export is another one")
	}
}
