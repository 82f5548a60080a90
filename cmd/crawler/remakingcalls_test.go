package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"urltree/internal/testseed"
	"urltree/internal/testweb"
	"urltree/iut"
	"urltree/storage/record"
)

// A remaking is a command that makes a tree, or changes one, and what it is tried with.
type remaking struct {
	from string                     // the tree that it begins with; "": none
	args func(root string) []string // the command line for the tree root
	want string                     // what the tree has in the end
	rnd  *rand.Rand
}

// TestRemakingAtEverySystemCall records the system calls of a union, of forget and of compact, and
// lets each die between any two of them, by kill and by power cut: check finds no fault in a tree
// of that moment, and the same command goes on to what it comes to undisturbed. A union that was
// cut off is no tree.
func TestRemakingAtEverySystemCall(t *testing.T) {
	seed := testseed.Draw(t)
	web := testweb.New(testweb.Options{
		Kind: testweb.Linked, Hosts: 3, Pages: 16, Seed: 41, MinSize: 300, MaxSize: 2000, Redirects: .1, Texts: .3, Twins: .6, NoIndex: .1,
	})
	if err := web.Start(0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(web.Stop)
	dir, seeds := t.TempDir(), web.Seeds()
	writeSeeds(t, dir, seeds)
	for i, store := range iut.Stores {
		if testing.Short() && i != int(seed%uint64(len(iut.Stores))) {
			continue
		}
		root := func(name string) string { return filepath.Join(dir, store+name) }
		crawl := func(root string, more ...string) {
			requireExit(t, "crawl", 0, append([]string{
				"-quiet", "-delay", "0", "-allow-private", "-edges", "-warc-size", "4k", "-tree", root, "-output", filepath.Join(dir, "res.txt"), "-input", filepath.Join(dir, "seed.txt"),
			}, more...)...)
		}
		crawl(root("whole"), "-store", store)
		crawl(root("part"), "-store", iut.Stores[1-i], "-max-pages", "5")
		requireExit(t, "rank", 0, "rank", "-tree", root("whole"))
		forget := func(root string) []string { return []string{"forget", "-tree", root, "-host", record.Host(seeds[1])} }
		if err := os.CopyFS(root("less"), os.DirFS(root("whole"))); err != nil {
			t.Fatal(err)
		}
		requireExit(t, "forget", 0, forget(root("less"))...)
		for name, r := range map[string]remaking{
			"unite": {args: func(to string) []string {
				return []string{"unite", "-store", store, "-warc-size", "4k", to, root("part"), root("whole")}
			}},
			"forget":  {from: root("whole"), args: forget},
			"compact": {from: root("less"), args: func(root string) []string { return []string{"compact", "-tree", root} }},
		} {
			r.rnd = rand.New(rand.NewPCG(seed, uint64(i)))
			t.Run(store+" "+name, r.everyCall)
		}
	}
}

func (r *remaking) everyCall(t *testing.T) {
	step, cuts := 1, 1
	switch {
	case os.Getenv("TEST_URLTREE_FULL") != "":
		cuts = 3
	case testing.Short():
		step = 16
	}
	dir := t.TempDir()
	root := r.begin(t, dir)
	list := recordCalls(t, dir, root, r.args(root)...)
	if len(list) < 15 {
		t.Fatalf("%d changes: the record lacks something", len(list))
	}
	r.want = r.told(t, root)
	for k := r.rnd.IntN(step); k <= len(list); k += step {
		last := "nothing"
		if k > 0 {
			last = list[k-1].String()
		}
		r.probe(t, fmt.Sprintf("killed after call %d (%s) of %d", k, last, len(list)), list[:k])
		for range cuts {
			r.probe(t, fmt.Sprintf("power cut after call %d (%s) of %d", k, last, len(list)), lose(list[:k], r.rnd))
		}
	}
	t.Logf("%d changes", len(list))
}

// begin makes the tree that the command begins with, and returns its root.
func (r *remaking) begin(t *testing.T, dir string) string {
	t.Helper()
	root := filepath.Join(dir, "iut")
	if r.from != "" {
		if err := os.CopyFS(root, os.DirFS(r.from)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// told returns what is to be the same, however often the command was cut off.
func (r *remaking) told(t *testing.T, root string) string {
	t.Helper()
	var all strings.Builder
	for _, args := range [][]string{{"-columns", allColumns}, {"-what", "edges"}, {"-what", "pages", "-columns", "url,text", "-text", "plain"}} {
		var out, errs bytes.Buffer
		if code := run(append([]string{"crawler", "export", "-tree", root}, args...), strings.NewReader(""), &out, &errs); code != 0 {
			t.Fatalf("export %v: exit %d: %s", args, code, &errs)
		}
		all.WriteString(strings.Join(sortedLines(out.String()), "\n"))
	}
	return all.String()
}

// probe lets what is left of some changes go on.
func (r *remaking) probe(t *testing.T, what string, list []change) {
	t.Helper()
	dir := t.TempDir()
	root := r.begin(t, dir)
	for _, c := range list {
		// What was below a name that is lost is lost with it.
		if err := c.apply(root); err != nil && !os.IsNotExist(err) && !os.IsExist(err) {
			t.Fatalf("%s: %v: %v", what, c, err)
		}
	}
	format, err := iut.ReadFormat(root)
	isTree := err == nil
	if isTree && !format.Forgetting { // until then nothing but forget opens it
		requireExit(t, what, 0, "check", "-tree", root)
	}
	if r.from != "" || !isTree { // a union makes a new tree only
		requireExit(t, what, 0, r.args(root)...)
	}
	requireExit(t, what, 0, "check", "-links", "-tree", root)
	if is := r.told(t, root); is != r.want {
		t.Fatalf("%s: the tree is another one:\n%s\nwant\n%s", what, is, r.want)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
}
