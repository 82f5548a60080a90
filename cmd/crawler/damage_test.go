package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"urltree/internal/testseed"
	"urltree/internal/testweb"
)

// TestDamagedIndex spoils index.db at random and runs every command on it, each as a process of its
// own. None crashes: it does its work, or exits with 3 and one line that names merge. After merge
// all is well, and the crawl goes on to the known answer.
func TestDamagedIndex(t *testing.T) {
	t.Parallel()
	rounds := 5
	switch {
	case os.Getenv("TEST_URLTREE_FULL") != "":
		rounds = 300
	case testing.Short():
		rounds = 1
	}
	rnd := rand.New(rand.NewPCG(testseed.Draw(t), 0))
	web := testweb.New(testweb.Options{Kind: testweb.Linked, Hosts: 6, Pages: 150, Seed: 43, MinSize: 200, MaxSize: 800, Redirects: .05, NoIndex: .05, Images: .05})
	if err := web.Start(0); err != nil {
		t.Fatal(err)
	}
	defer web.Stop()
	dir := t.TempDir()
	writeSeeds(t, dir, web.Seeds())
	crawl := []string{"-quiet", "-delay", "0", "-allow-private", "-input", "seed.txt"}
	must(t, dir, append(slices.Clone(crawl), "-max-pages", "60")...)
	must(t, dir, "merge") // so that most pages of the file are in use
	path := filepath.Join(dir, "iut", "index.db")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	whole = whole[:(len(bytes.TrimRight(whole, "\x00"))+page-1)/page*page]
	page1 := web.Seeds()[0]
	outcomes := map[string]int{}
	var last []byte
	defer func() {
		if t.Failed() {
			name := filepath.Join(os.TempDir(), fmt.Sprintf("damaged-%d.db", os.Getpid()))
			t.Logf("see %s: %v", name, os.WriteFile(name, last, 0o644))
		}
	}()
	for round := range rounds {
		bad := slices.Clone(whole)
		at := rnd.IntN(len(bad)/page) * page
		what := ""
		switch rnd.IntN(4) {
		case 0:
			what = "a page of zeros"
			clear(bad[at : at+page])
		case 1:
			what = "a bit of a header or an element"
			bad[at+rnd.IntN(160)] ^= 1 << rnd.IntN(8)
		case 2:
			what = "another page"
			copy(bad[at:at+page], whole[rnd.IntN(len(whole)/page)*page:])
		default:
			what = "a bit"
			bad[at+rnd.IntN(page)] ^= 1 << rnd.IntN(8)
		}
		tree := filepath.Join(t.TempDir(), "iut")
		last = bad
		if err := os.CopyFS(tree, os.DirFS(filepath.Join(dir, "iut"))); err != nil {
			t.Fatal(err)
		}
		spoil := func() {
			if err := os.WriteFile(filepath.Join(tree, "index.db"), bad, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		on := []string{"-tree", tree}
		results := []string{"-tree", tree, "-output", filepath.Join(filepath.Dir(tree), "res.txt")}
		for _, args := range [][]string{
			append([]string{"check", "-links"}, results...),
			append([]string{"ls", "-r"}, on...),
			append(append([]string{"why"}, on...), page1),
			append(append([]string{"show"}, on...), page1),
			append([]string{"stats"}, on...),
			append([]string{"export"}, on...),
			append([]string{"retry"}, on...),
			append(append(slices.Clone(crawl), "-max-pages", "5"), results...),
		} {
			spoil()
			_, stderr, code := call(t, dir, args...)
			told := strings.Count(stderr, "\n")
			ok := code == 1 && told == 1 && strings.Contains(stderr, "crawler: not found: ") || // its key is another one now
				code == 0 && told == 0 || code == 3 && (told == 1 && strings.Contains(stderr, "crawler merge") || args[0] == "check" && told == 0)
			if !ok || strings.Contains(stderr, "goroutine ") {
				t.Errorf("round %d, %s at %d: crawler %s: exit %d\n%.2000s", round, what, at, strings.Join(args, " "), code, stderr)
			}
			outcomes[fmt.Sprintf("%-8s exit %d", args[0], code)]++
		}
		t.Logf("round %d: %s at %d", round, what, at)
		must(t, dir, append([]string{"merge"}, results...)...) // after what a crawl has done to it
		must(t, dir, append([]string{"check", "-links"}, results...)...)
		spoil()
		must(t, dir, append([]string{"merge"}, results...)...)
		must(t, dir, append([]string{"check", "-links"}, results...)...)
		if round%5 == 0 {
			must(t, dir, append(slices.Clone(crawl), results...)...)
			must(t, dir, append([]string{"check", "-links"}, results...)...)
			requireSame(t, urlsOf(t, filepath.Join(filepath.Dir(tree), "res.txt")), web.Answer().Stored)
		}
		if t.Failed() {
			return
		}
		if err := os.RemoveAll(filepath.Dir(tree)); err != nil {
			t.Fatal(err)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(outcomes)) {
		t.Logf("%s: %d", what, outcomes[what])
	}
}

// TestDamagedRecord goes on with a crawl whose index has one record that cannot be read: it says
// so, and is not taken for one that has ended well.
func TestDamagedRecord(t *testing.T) {
	t.Parallel()
	web := testweb.New(testweb.Options{Pages: 20, Seed: 44})
	if err := web.Start(0); err != nil {
		t.Fatal(err)
	}
	defer web.Stop()
	dir := t.TempDir()
	writeSeeds(t, dir, web.Seeds())
	crawl := []string{"-quiet", "-delay", "0", "-allow-private", "-input", "seed.txt"}
	must(t, dir, crawl...)
	spoilRecord(t, filepath.Join(dir, "iut", "index.db"))
	_, stderr, code := call(t, dir, crawl...)
	want := regexp.MustCompile(`^crawler: index\.db is damaged: 1 of \d+ records cannot be read .*crawler check.*; crawler merge -tree iut .*\n$`)
	if code != exitTree || !want.MatchString(stderr) {
		t.Errorf("exit %d: %s", code, stderr)
	}
	must(t, dir, "merge")
	must(t, dir, crawl...)
	requireSame(t, urlsOf(t, filepath.Join(dir, "res.txt")), web.Answer().Stored)
}

// spoilRecord damages one record of an index.
func spoilRecord(t *testing.T, path string) {
	t.Helper()
	db, err := bolt.Open(path, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		k, _ := tx.Bucket([]byte("url")).Cursor().Last()
		return tx.Bucket([]byte("url")).Put(k, []byte("x"))
	})
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}
