package iut_test

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"urltree/internal/faultfs"
	"urltree/internal/testseed"
	"urltree/iut"
)

// A kept is a page that was stored, with its facts as the tree returned them.
type kept struct {
	body []byte // decoded
	at   iut.Facts
}

// progress is what work was told to be done.
type progress struct {
	seeded        bool
	acked, synced []kept
}

// workKept is what work keeps in FORMAT before there is anything else.
var workKept = iut.Kept{Options: []string{"scope=host"}, Secrets: []string{"user"}}

// storesFor returns the stores that case i of a test has to do with: both, or with -short one in
// turn, by the random seed.
func storesFor(i int, seed uint64) []*iut.Identity {
	both := []*iut.Identity{&rules, &warcRules}
	if testing.Short() {
		return both[(uint64(i)+seed)%2:][:1]
	}
	return both
}

func storeName(store *iut.Identity) string { return cmp.Or(store.Store, iut.StoreFolders) }

// pageFor returns page n as a tree of the store gets it.
func pageFor(store *iut.Identity, n int) *iut.Page {
	if store.Store == iut.StoreWARC {
		return answered(n)
	}
	return page(n)
}

// work is what a run does with its disk: open, seeds, options, 20 pages of which some go
// through tmp/ and one comes twice, a sync every five pages.
func work(root string, store *iut.Identity, fsys iut.FS) (run progress, err error) {
	tree, err := iut.Open(root, iut.Options{Identity: store, FS: fsys, Segments: iut.SegmentOptions{Size: 6 << 10}})
	if err != nil {
		return run, err
	}
	defer tree.Close()
	if err := tree.Keep(workKept); err != nil {
		return run, err
	}
	if err := addSeeds(tree, []string{page(0).URL, page(1).URL}); err != nil {
		return run, err
	}
	run.seeded = true
	if err := tree.SetLinks(iut.LinkOptions{Scope: "host"}); err != nil {
		return run, err
	}
	if err := tree.Recover(iut.Committed{}); err != nil {
		return run, err
	}
	for n := range 20 {
		p := pageFor(store, n)
		q := *p
		if n%4 == 1 {
			if err := useTemp(tree, &q); err != nil {
				return run, err
			}
		}
		r, err := tree.Store(&q)
		if err != nil {
			return run, err
		}
		run.acked = append(run.acked, kept{page(n).Body, r.Facts})
		if n%7 == 3 && r.Facts.Extent.IsZero() { // in segments only the index knows of it by now
			if r, err := tree.Store(p); err != nil || !r.Adopted {
				return run, fmt.Errorf("second look: %+v, %w", r, err)
			}
		}
		if n%5 == 4 {
			if err := tree.Sync(); err != nil {
				if tree.Sync() == nil {
					return run, errors.New("a failed sync was forgotten")
				}
				return run, err
			}
			run.synced = run.acked
		}
	}
	return run, nil
}

// useTemp puts the body of a page into a file, as it comes.
func useTemp(tree *iut.Tree, p *iut.Page) error {
	f, err := tree.Temp(nil)
	if err != nil {
		return err
	}
	_, err1 := f.Write(p.Body)
	if err := errors.Join(err1, f.Close()); err != nil {
		return err
	}
	if p.Answer == nil {
		p.Bytes, p.Digest = int64(len(p.Body)), sha256.Sum256(p.Body)
	}
	p.Body, p.Temp = nil, f.Name()
	return nil
}

// endsOf returns how much of each segment is committed once these pages are.
func endsOf(pages []kept) map[uint32]int64 {
	ends := map[uint32]int64{}
	for _, p := range pages {
		if e := p.at.Extent; !e.IsZero() {
			ends[e.Segment] = max(ends[e.Segment], e.Offset+e.Length)
		}
	}
	return ends
}

// faults are the ways in which a disk fails.
var faults = []struct {
	name        string
	err         error
	once, short bool
}{
	{"disk is gone", syscall.EIO, false, false},
	{"full once, short writes", syscall.ENOSPC, true, true},
}

func TestFailAtEveryCall(t *testing.T) {
	seed := testseed.Draw(t)
	for i, tt := range faults {
		for _, store := range storesFor(i, seed) {
			t.Run(tt.name+" "+storeName(store), func(t *testing.T) {
				failAtEveryCall(t, store, tt.err, tt.once, tt.short, func() (string, iut.FS) { return "", faultfs.NewMem() })
			})
		}
	}
}

// The same on the real disk takes half a minute.
func TestFailAtEveryCallOnDisk(t *testing.T) {
	if os.Getenv("TEST_URLTREE_FULL") == "" {
		t.Skip("set TEST_URLTREE_FULL=1 to run it")
	}
	for _, tt := range faults {
		for _, store := range storesFor(0, 0) {
			t.Run(tt.name+" "+storeName(store), func(t *testing.T) {
				failAtEveryCall(t, store, tt.err, tt.once, tt.short, func() (string, iut.FS) {
					root := t.TempDir()
					return root, disk(t, root, iut.SyncNone)
				})
			})
		}
	}
}

// everyCall returns the step from one call that fails to the next: with -short most are left out.
func everyCall(t *testing.T) int {
	t.Helper()
	if testing.Short() {
		return 8
	}
	return 1
}

func failAtEveryCall(t *testing.T, store *iut.Identity, fail error, once, short bool, fresh func() (string, iut.FS)) {
	k, step := 0, everyCall(t)
	for done := false; !done; k += step {
		root, fsys := fresh()
		fault := faultfs.FailAfter(fsys, k, fail)
		fault.Once, fault.Short = once, short
		run, err := work(root, store, fault)
		switch calls := fault.Calls(); {
		case !fault.Failed():
			done = true
			if err != nil || len(run.acked) != 20 {
				t.Fatalf("without a fault %d pages are stored: %v", len(run.acked), err)
			}
		case err == nil && !strings.HasPrefix(calls[k], "close "): // of what was only read
			t.Fatalf("call %d, %s, failed, and nobody was told", k, calls[k])
		case err != nil && (!errors.Is(err, fail) || !errors.Is(err, iut.ErrDisk) && !errors.Is(err, iut.ErrPage)):
			t.Fatalf("call %d, %s: %v, want ErrDisk and %v", k, calls[k], err, fail)
		}
		checkRecovery(t, root, store, fsys, run.acked, endsOf(run.synced), true)
	}
	if k < 70 {
		t.Errorf("the work needs only %d calls: too few to have stored 20 pages", k)
	}
}

// TestPowerCutAtEveryCall: what a sync covered is there, and what is called complete is.
func TestPowerCutAtEveryCall(t *testing.T) {
	seed, step := testseed.Draw(t), everyCall(t)
	for i, byFile := range []bool{false, true} {
		for _, store := range storesFor(i, seed) {
			t.Run(fmt.Sprintf("%s file by file %v", storeName(store), byFile), func(t *testing.T) {
				for k := int(seed % uint64(step)); cutAtCall(t, store, k, seed, byFile); k += step {
				}
			})
		}
	}
}

// cutAtCall reports whether the work came to call k.
func cutAtCall(t *testing.T, store *iut.Identity, k int, seed uint64, byFile bool) bool {
	t.Helper()
	mem := faultfs.NewMem()
	mem.ByFile = byFile
	fault := faultfs.FailAfter(mem, k, syscall.EIO)
	fault.Short = true
	run, err := work("", store, fault)
	if !fault.Failed() && err != nil {
		t.Fatal(err)
	}
	for i := range uint64(2) {
		left := mem.Crash(rand.New(rand.NewPCG(seed+i, uint64(k))))
		if run.seeded {
			tree := openAs(t, "", store, left)
			if got := len(seeds(t, tree)); got != 2 {
				t.Fatalf("call %d: %d seeds are left of 2", k, got)
			}
			tree.Close()
		}
		checkRecovery(t, "", store, left, run.synced, endsOf(run.synced), false)
	}
	return fault.Failed()
}

// openAs opens a tree of a store.
func openAs(t *testing.T, root string, store *iut.Identity, fsys iut.FS) *iut.Tree {
	t.Helper()
	return open(t, root, onFS(fsys), func(o *iut.Options) { o.Identity = store })
}

// checkRecovery opens a tree after a fault: what must be there is whole, nothing half is
// called complete, and everything can be stored again. After a power cut only the SHA-256
// tells whether a page that no sync covered is whole.
func checkRecovery(t *testing.T, root string, store *iut.Identity, fsys iut.FS, must []kept, ends map[uint32]int64, byLength bool) {
	t.Helper()
	tree := openAs(t, root, store, fsys)
	defer tree.Close()
	if len(seeds(t, tree)) > 0 && !tree.Format().Kept.Equal(workKept) {
		t.Fatalf("there are seeds, and FORMAT keeps %+v", tree.Format().Kept)
	}
	if err := tree.Recover(iut.Committed{Ends: ends}); err != nil {
		t.Fatal(err)
	}
	for _, p := range must {
		requireStored(t, tree, p.at, p.body)
	}
	err := tree.Walk(func(_, rel string, st iut.PageStatus, at iut.Facts) error {
		switch {
		case st.Kind == iut.PageDefect || st.Kind == iut.PageForeign, st.Kind == iut.PageTorn && store == &warcRules:
			return fmt.Errorf("%s: %v: %w", rel, st.Kind, st.Err)
		case st.Kind == iut.PageComplete && byLength:
			if _, ok, err := tree.Complete(at, true); !ok || err != nil {
				return fmt.Errorf("%s is called complete: %v, %w", rel, ok, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := addSeeds(tree, []string{page(0).URL, page(1).URL}); err != nil {
		t.Fatal(err)
	}
	if got := seeds(t, tree); len(got) != 2 || !slices.Contains(got, page(0).URL) || !slices.Contains(got, page(1).URL) {
		t.Fatalf("seeds after a fault: %q", got)
	}
	for n := range 20 {
		p := pageFor(store, n)
		r, err := tree.Store(p)
		if err != nil {
			t.Fatal(err)
		}
		if n < len(must) {
			e := must[n].at.Extent
			if committed := !e.IsZero() && e.Offset < ends[e.Segment]; !committed && !r.Adopted {
				t.Fatalf("page %d was there and is written again", n)
			}
		}
		requireStored(t, tree, r.Facts, page(n).Body)
	}
}

// The kill that no fault can play: files that were begun and not ended, for every prefix of
// the two files of a page.
func TestEveryPrefixOfAPage(t *testing.T) {
	tree := open(t, t.TempDir())
	p := page(1)
	store(t, tree, p)
	dir := folder(t, tree, p.URL)
	content, source := read(t, dir+"/content.html"), read(t, dir+"/source.txt")
	for n := range len(content) + len(source) {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		put(t, dir+"/content.html", content[:min(n, len(content))])
		if n >= len(content) {
			put(t, dir+"/source.txt", source[:n-len(content)])
		}
		if _, ok, err := tree.Complete(iut.Facts{URL: p.URL}, false); ok || err != nil {
			t.Fatalf("after %d bytes the page is complete: %v, %v", n, ok, err)
		}
		if r := store(t, tree, p); r.Adopted {
			t.Fatalf("after %d bytes the page is adopted", n)
		}
		requirePage(t, tree, p)
	}
}

// While a torn page is replaced, the facts that are there must never vouch for another body.
func TestReplacingNeverLies(t *testing.T) {
	for _, tt := range []struct {
		name string
		tear func(dir string) error
	}{
		{"the body is gone and the line is whole", func(dir string) error { return os.Truncate(dir+"/content.html", 0) }},
		{"there is no line, and the body is as long as the new one", func(dir string) error { return os.Remove(dir + "/source.txt") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for k := 0; replaceTorn(t, tt.tear, k); k++ {
			}
		})
	}
}

// replaceTorn reports whether the replacing came to call k, which fails.
func replaceTorn(t *testing.T, tear func(dir string) error, k int) bool {
	t.Helper()
	old, p := page(1), page(1)
	old.Body = []byte("<a href=9>")
	root := t.TempDir()
	tree := open(t, root)
	store(t, tree, old)
	dir := folder(t, tree, p.URL)
	if err := tear(dir); err != nil {
		t.Fatal(err)
	}
	tree.Close()

	fault := faultfs.FailAfter(disk(t, root, iut.SyncNone), k, syscall.EIO)
	fault.Short = true
	tree, err := iut.Open(root, iut.Options{FS: fault})
	if err == nil {
		_, err = tree.Store(p)
		tree.Close()
	}
	if !fault.Failed() && err != nil {
		t.Fatal(err)
	}
	tree = open(t, root)
	defer tree.Close()
	if _, ok, _ := tree.Complete(iut.Facts{URL: p.URL}, false); ok {
		if _, ok, err := tree.Complete(iut.Facts{URL: p.URL}, true); !ok || err != nil {
			t.Fatalf("after call %d (%v) the length is right and the SHA-256 is not", k, fault.Calls()[k])
		}
	}
	if store(t, tree, p); read(t, dir+"/content.html") != string(p.Body) {
		t.Fatalf("after call %d the page is %q", k, read(t, dir+"/content.html"))
	}
	return fault.Failed()
}
