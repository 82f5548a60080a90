package iut_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"urltree/iut"
)

// The folder of the pages before is used without a walk to it until the next sync, and never to the
// harm of a page.
func TestKeptFolder(t *testing.T) {
	for _, walking := range []bool{false, true} {
		name := map[bool]string{false: "beneath", true: "walking"}[walking]
		start := func(t *testing.T) (tree *iut.Tree, root, parent string) {
			root = t.TempDir()
			d := disk(t, root, iut.SyncNone)
			if walking {
				d.WalkNames()
			}
			tree = open(t, root, onFS(d))
			store(t, tree, page(1))
			return tree, root, filepath.Dir(folder(t, tree, page(1).URL))
		}
		t.Run("moved "+name, func(t *testing.T) {
			tree, root, parent := start(t)
			moved := root + "/moved"
			if err := os.Rename(parent, moved); err != nil {
				t.Fatal(err)
			}
			store(t, tree, page(4))
			if got := names(t, moved); !strings.Contains(got, "/dr-p4/source.txt") {
				t.Errorf("the folder was not kept: what was moved holds %s", got)
			}
			if err := tree.Sync(); err != nil {
				t.Fatal(err)
			}
			store(t, tree, page(7))
			requirePage(t, tree, page(7))
		})
		t.Run("removed "+name, func(t *testing.T) {
			tree, _, parent := start(t)
			if err := os.RemoveAll(parent); err != nil {
				t.Fatal(err)
			}
			store(t, tree, page(4))
			requirePage(t, tree, page(4))
		})
		t.Run("page of a link "+name, func(t *testing.T) {
			tree, root, parent := start(t)
			outside := t.TempDir()
			before := snapshot(t, outside)
			if err := errors.Join(os.Symlink(outside, parent+"/dr-p4"), os.Symlink(outside, root+"/pr-https/do-example/do-org/dr-d2")); err != nil {
				t.Fatal(err)
			}
			for _, p := range []*iut.Page{page(4), page(2)} {
				if _, err := tree.Store(p); !errors.Is(err, iut.ErrPage) {
					t.Errorf("Store: %v, want ErrPage", err)
				}
			}
			if after := snapshot(t, outside); after != before {
				t.Errorf("outside is now %s", after)
			}
			store(t, tree, page(7))
			requirePage(t, tree, page(7))
		})
	}
}

// However many store pages, one folder is kept open at most, and none after Close.
func TestKeptFolderIsOne(t *testing.T) {
	root := t.TempDir()
	tree, err := iut.Open(root, iut.Options{Identity: &rules, Sync: iut.SyncNone})
	if err != nil {
		t.Fatal(err)
	}
	opened := func() (n int) {
		t.Helper()
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("open files are not listed here")
		}
		for _, fd := range fds {
			if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(to, root) {
				n++
			}
		}
		return n
	}
	before := opened()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 30 {
				if _, err := tree.Store(page(i*30 + n)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := opened() - before; n != 1 {
		t.Errorf("%d more files are open, want 1", n)
	}
	for n := range 240 {
		requirePage(t, tree, page(n))
	}
	if err := tree.Close(); err != nil {
		t.Fatal(err)
	}
	if n := opened(); n != 0 {
		t.Errorf("%d files are open after Close", n)
	}
}

// What is no name is none below the folder that is kept either.
func TestKeptFolderNames(t *testing.T) {
	root := t.TempDir()
	for _, walking := range []bool{false, true} {
		d := disk(t, root, iut.SyncNone)
		if walking {
			d.WalkNames()
		}
		put(t, root+"/k/x", "")
		for _, name := range []string{".", "..", "../x", "../y", "a/../../x", "/y", "", "n//b", "./y", "y/"} {
			for _, name := range []string{name, "k/" + name} {
				for what, try := range map[string]func() error{
					"Mkdir": func() error { return d.Mkdir(name) },
					"Open":  func() error { _, err := d.Open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL); return err },
				} {
					if err := errors.Join(d.Mkdir("k/n"), os.Remove(root+"/k/n")); err != nil { // keeps k
						t.Fatal(err)
					}
					if err := try(); err == nil {
						t.Errorf("%s(%q) makes something", what, name)
					}
				}
			}
		}
		if got := names(t, root); got != "\n/k\n/k/x\n" {
			t.Errorf("there is %s", got)
		}
	}
}
