package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"urltree/internal/testseed"
	"urltree/internal/testweb"
	"urltree/iut"
	"urltree/storage"
)

// allColumns are those of an export that say the same of a URL in both stores.
const allColumns = "url,state,reason,status,tries,source,via,depth,bytes,time,type,charset,sha256,target,found,title,description,language,canonical"

// sortedLines returns the lines of a text in the order of bytes.
func sortedLines(text string) []string {
	lines := strings.Split(text, "\n")
	slices.Sort(lines)
	return lines
}

// TestUniteKilled kills and stops unions of a crawl and a copy of its first part. What is left is
// no tree, the same command begins anew, and in the end the tree is the whole crawl, whatever
// stores the trees have and in whatever order they are given. The others stay as they are.
func TestUniteKilled(t *testing.T) {
	t.Parallel()
	pages, rounds := killSizes()
	rng := rand.New(rand.NewPCG(testseed.Draw(t), 1))
	web := startWeb(t, testweb.Options{
		Kind: testweb.Linked, Hosts: killHosts, Pages: pages, Seed: 7, MinSize: 300, MaxSize: 3000, Redirects: .05, Texts: .02, NoIndex: .03,
	})
	dir := t.TempDir()
	writeSeeds(t, dir, web.Seeds())
	crawl := append(killArgs("seed.txt", nil), "-edges")
	must(t, dir, append(crawl, "-max-pages", fmt.Sprint(pages/2))...)
	if err := os.CopyFS(filepath.Join(dir, "half"), os.DirFS(filepath.Join(dir, "iut"))); err != nil {
		t.Fatal(err)
	}
	must(t, dir, untilKept(dir, crawl)...)
	requireSame(t, urlsOf(t, filepath.Join(dir, "res.txt")), web.Answer().Stored)
	must(t, dir, "convert", "-tree", "half", "-store", "warc", "-warc-size", "64k")
	export := func(tree string) string { return must(t, dir, "export", "-tree", tree, "-columns", allColumns) }
	edges := func(tree string) []string {
		return sortedLines(must(t, dir, "export", "-tree", tree, "-what", "edges"))
	}
	half, whole, graph := export("half"), export("iut"), edges("iut")

	must(t, dir, "unite", "first", "iut", "half") // syncs also what the crawls have written
	begin := time.Now()
	must(t, dir, "unite", "second", "iut", "half")
	took, unfinished := time.Since(begin), 0
	for range 2 * rounds {
		args := []string{"unite", "-store", []string{"folders", "warc"}[rng.IntN(2)], "out", "half", "iut"}
		if rng.IntN(2) == 0 {
			slices.Reverse(args[4:])
		}
		stop := []os.Signal{os.Kill, os.Kill, os.Interrupt}[rng.IntN(3)]
		commandStopped(t, dir, stop, time.Duration(rng.Int64N(int64(took))), args...)
		switch _, err := iut.ReadFormat(filepath.Join(dir, "out")); {
		case err == nil:
			if export("out") != whole {
				t.Fatal("the union is another tree")
			}
			if err := os.RemoveAll(filepath.Join(dir, "out")); err != nil {
				t.Fatal(err)
			}
			continue
		case strings.Contains(err.Error(), iut.ErrUniting.Error()):
			unfinished++
			for _, args := range [][]string{crawl, {"merge"}, {"check"}, {"export"}, {"ls"}, {"convert", "-store", "warc"}} {
				stdout, stderr, code := call(t, dir, append(slices.Clip(args), "-tree", "out")...)
				if want := "crawler: unfinished union of trees in out; the same crawler unite begins anew\n"; code != exitTree || stdout != "" || stderr != want {
					t.Errorf("%v: exit %d: %s%s", args, code, stdout, stderr)
				}
			}
		}
	}
	t.Logf("%d of %d were unfinished", unfinished, 2*rounds)
	if unfinished == 0 {
		t.Error("no union was cut off")
	}
	for _, store := range []string{"folders", "warc"} {
		if err := os.RemoveAll(filepath.Join(dir, "out")); err != nil {
			t.Fatal(err)
		}
		must(t, dir, "unite", "-store", store, "out", "half", "iut")
		must(t, dir, "check", "-links", "-tree", "out")
		if export("out") != whole || !slices.Equal(edges("out"), graph) {
			t.Errorf("in the store %s the union is another tree", store)
		}
	}
	requireWholeSegments(t, filepath.Join(dir, "out"))
	index, err := storage.Open(filepath.Join(dir, "out", "index.db"), storage.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	kept, stored, err := index.Marks().Edges()
	if err = errors.Join(err, index.Close()); err != nil || kept.Pages != stored || stored == 0 {
		t.Errorf("the file of edges has %d pages of %d, %v", kept.Pages, stored, err)
	}
	if export("half") != half || export("iut") != whole {
		t.Error("a tree that was read has changed")
	}
}

// TestUniteGoesOn unites two crawls that were stopped, one of them in WARC files: the crawl goes on
// from there and finds all that there is.
func TestUniteGoesOn(t *testing.T) {
	t.Parallel()
	pages, _ := killSizes()
	web := startWeb(t, testweb.Options{Kind: testweb.Linked, Hosts: killHosts, Pages: pages, Seed: 8, MinSize: 300, MaxSize: 3000, Redirects: .05})
	dir := t.TempDir()
	writeSeeds(t, dir, web.Seeds())
	crawl := killArgs("seed.txt", nil)
	for i, more := range [][]string{{"-order", "breadth"}, {"-order", "tree", "-store", "warc"}} {
		must(t, dir, append(slices.Concat(crawl, more), "-tree", fmt.Sprint("part", i), "-max-pages", fmt.Sprint(pages/3*(i+1)))...)
	}
	_, stderr, code := call(t, dir, "unite", "iut", "part0", "part1")
	if want := "crawler: the trees differ in -order: breadth in part0, tree in part1; that of part1, which ran last, counts\n"; code != 0 || stderr != want {
		t.Errorf("exit %d: %s", code, stderr)
	}
	must(t, dir, "check", "-links")
	must(t, dir, untilKept(dir, crawl)...)
	must(t, dir, "check", "-links")
	requireSame(t, urlsOf(t, filepath.Join(dir, "res.txt")), web.Answer().Stored)
}
