package iut_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"urltree/iut"
)

// A hooked disk calls a function ahead of a call to it.
type hooked struct {
	iut.FS
	before map[string]func() // by the call and a name
}

// hook has the disk of a tree call the functions.
func hook(t *testing.T, root string, before map[string]func()) func(*iut.Options) {
	t.Helper()
	disk, err := iut.OpenDisk(root, iut.SyncNone)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { disk.Close() })
	return onFS(hooked{disk, before})
}

func (h hooked) call(name string) {
	if fn := h.before[name]; fn != nil {
		fn()
	}
}

func (h hooked) Rename(from, to string) error {
	h.call("rename to " + to)
	return h.FS.Rename(from, to)
}

func (h hooked) List(name string) ([]iut.Entry, error) {
	h.call("list " + name)
	return h.FS.List(name)
}

func errorOf[T any](_ T, err error) error { return err }

// TestOpenWhileMade opens a tree while another has its LOCK and FORMAT is still to come: it is in
// use. Who looks makes and changes nothing. Once nobody has the LOCK there is no tree.
func TestOpenWhileMade(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	looks := map[string]func() error{
		"Open":         func() error { return errorOf(iut.Open(root, iut.Options{})) },
		"Open to read": func() error { return errorOf(iut.Open(root, iut.Options{ReadOnly: true})) },
		"Open to make": func() error { return errorOf(iut.Open(root, iut.Options{Identity: &rules})) },
		"ReadFormat":   func() error { return errorOf(iut.ReadFormat(root)) },
		"InUse":        func() error { return iut.InUse(root) },
	}
	looked := false
	open(t, root, hook(t, root, map[string]func(){"rename to FORMAT": func() {
		looked = true
		before, mine := contents(t, root), fmt.Sprintf("process %d has %s", os.Getpid(), root)
		for name, look := range looks {
			if err := look(); !errors.Is(err, iut.ErrBusy) || !strings.Contains(err.Error(), mine) {
				t.Errorf("%s before there is FORMAT: %v, want ErrBusy and %q", name, err, mine)
			}
		}
		if diff := cmp.Diff(before, contents(t, root)); diff != "" {
			t.Errorf("changed: %s", diff)
		}
	}})).Close()
	if !looked {
		t.Fatal("FORMAT was made otherwise: nobody has looked meanwhile")
	}
	if err := os.Remove(root + "/FORMAT"); err != nil { // as if it had been killed before
		t.Fatal(err)
	}
	for _, name := range []string{"Open", "Open to read", "ReadFormat"} {
		if err := looks[name](); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, iut.ErrBusy) {
			t.Errorf("%s after a kill before there is FORMAT: %v, want fs.ErrNotExist", name, err)
		}
	}
	if err := looks["InUse"](); err != nil {
		t.Error(err)
	}
}

// TestOpenBetweenTwoLooks opens a tree that another makes, and has crawled, between a look for
// FORMAT and one at the other files.
func TestOpenBetweenTwoLooks(t *testing.T) {
	t.Parallel()
	for _, readOnly := range []bool{false, true} {
		root := t.TempDir()
		makeTree := sync.OnceFunc(func() {
			tree := open(t, root)
			if err := errors.Join(addSeeds(tree, []string{"http://a/"}), tree.Close()); err != nil {
				t.Fatal(err)
			}
		})
		hooks := hook(t, root, map[string]func(){"list .": makeTree})
		tree := open(t, root, hooks, func(o *iut.Options) { o.ReadOnly = readOnly })
		if got := seeds(t, tree); len(got) != 1 {
			t.Errorf("read only %v: the seeds are %q, want one", readOnly, got)
		}
	}
}

// TestOpenLeavesForeignLockAlone: a folder of somebody else's is no tree that is in use, whoever
// has the LOCK in it.
func TestOpenLeavesForeignLockAlone(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	open(t, root, hook(t, root, map[string]func(){"rename to FORMAT": func() {
		put(t, root+"/readme", "mine\n")
		if _, err := iut.Open(root, iut.Options{ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v, want fs.ErrNotExist", err)
		}
	}})).Close()
}
