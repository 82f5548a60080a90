package faultfs_test

import (
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"urltree/internal/faultfs"
	"urltree/iut"
)

func write(t *testing.T, fsys iut.FS, name, text string, flag int) error {
	t.Helper()
	f, err := fsys.Open(name, os.O_WRONLY|flag)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(text))
	return errors.Join(err, f.Close())
}

func read(t *testing.T, fsys iut.FS, name string) string {
	t.Helper()
	f, err := fsys.Open(name, os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestFailAfter(t *testing.T) {
	for _, tt := range []struct {
		name        string
		once, short bool
		want        []bool // which of the calls fail
		text        string
	}{
		{"all after", false, false, []bool{false, true, true}, ""},
		{"once", true, false, []bool{false, true, false}, ""},
		{"short", true, true, []bool{false, true, false}, "ha"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mem := faultfs.NewMem()
			fault := faultfs.FailAfter(mem, 1, syscall.ENOSPC)
			fault.Once, fault.Short = tt.once, tt.short
			f, err := fault.Open("a", os.O_WRONLY|os.O_CREATE)
			if err != nil || fault.Failed() {
				t.Fatal(err)
			}
			_, err1 := f.Write([]byte("half"))
			err2 := f.Close()
			for i, err := range []error{err, err1, err2} {
				if (err != nil) != tt.want[i] || err != nil && !errors.Is(err, syscall.ENOSPC) {
					t.Errorf("call %d: %v", i, err)
				}
			}
			if got := read(t, mem, "a"); got != tt.text || !fault.Failed() {
				t.Errorf("%q is written, want %q", got, tt.text)
			}
			if diff := cmp.Diff([]string{"create a", "write a", "close a"}, fault.Calls()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Mem and the real disk do the same.
func TestMemIsLikeDisk(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		root, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		disk, err := iut.OpenDisk(root, iut.SyncNone)
		if err != nil {
			rt.Fatal(err)
		}
		defer disk.Close()
		mem := faultfs.NewMem()
		name := rapid.SampledFrom([]string{"a", "b", "a/a", "a/b", "b/a", "a/a/a", "b/b/b"})
		op := rapid.IntRange(0, 7)
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			n, to := name.Draw(rt, "name"), name.Draw(rt, "to")
			do := func(fsys iut.FS) (any, error) { return nil, fsys.Mkdir(n) }
			switch op.Draw(rt, "op") {
			case 1:
				do = func(fsys iut.FS) (any, error) { return nil, write(t, fsys, n, to, os.O_CREATE|os.O_EXCL) }
			case 2:
				do = func(fsys iut.FS) (any, error) { return nil, write(t, fsys, n, "long "+to, os.O_CREATE|os.O_APPEND) }
			case 3:
				do = func(fsys iut.FS) (any, error) { return nil, write(t, fsys, n, to, os.O_TRUNC) }
			case 4:
				if n == to { // to itself: nothing happens, in any case
					continue
				}
				do = func(fsys iut.FS) (any, error) {
					if e, err := fsys.Stat(n); err == nil && e.Type != 0 {
						return nil, nil // folders are not renamed
					}
					if err := fsys.Rename(n, to); err != nil {
						return nil, errors.New("which of two names is wrong is not agreed on")
					}
					return nil, nil
				}
			case 5:
				do = func(fsys iut.FS) (any, error) { return nil, fsys.Remove(n) }
			case 6:
				do = func(fsys iut.FS) (any, error) {
					e, err := fsys.Stat(n)
					if e.Type != 0 || err != nil {
						e = iut.Entry{Type: e.Type}
					}
					return e, err
				}
			case 7:
				do = func(fsys iut.FS) (any, error) {
					entries, err := fsys.List(n)
					for i := range entries {
						entries[i].Size = 0
					}
					return slices.Clip(entries), err
				}
			}
			got1, err1 := do(disk)
			got2, err2 := do(mem)
			if (err1 == nil) != (err2 == nil) || errors.Is(err1, os.ErrNotExist) != errors.Is(err2, os.ErrNotExist) ||
				errors.Is(err1, os.ErrExist) != errors.Is(err2, os.ErrExist) || err1 == nil && len(cmp.Diff(got1, got2)) > 0 && !bothEmpty(got1, got2) {
				rt.Fatalf("disk: %v, %v; memory: %v, %v", got1, err1, got2, err2)
			}
		}
	})
}

func bothEmpty(a, b any) bool {
	x, ok1 := a.([]iut.Entry)
	y, ok2 := b.([]iut.Entry)
	return ok1 && ok2 && len(x) == 0 && len(y) == 0
}

func TestCrashKeepsWhatIsSynced(t *testing.T) {
	lost, kept := 0, 0
	for i := range uint64(100) {
		mem := faultfs.NewMem()
		if err := errors.Join(mem.Mkdir("a"), write(t, mem, "a/b", "old", os.O_CREATE), mem.SyncAll()); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(write(t, mem, "a/b", " and new", os.O_APPEND), write(t, mem, "a/c", "new", os.O_CREATE)); err != nil {
			t.Fatal(err)
		}
		left := mem.Crash(rand.New(rand.NewPCG(1, i)))
		if e, err := left.Stat("a/b"); err != nil || e.Size > int64(len("old and new")) {
			t.Fatalf("%+v, %v", e, err)
		}
		if _, err := left.Stat("a/c"); err != nil {
			lost++
		} else {
			kept++
		}
		if read(t, mem, "a/b") != "old and new" {
			t.Fatal("the crash changed the file system it is a picture of")
		}
	}
	if lost == 0 || kept == 0 {
		t.Errorf("an unsynced file is lost %d times and kept %d times", lost, kept)
	}
}

// What is not synced comes apart: names from each other and from the contents, blocks of a file
// from one another.
func TestCrashLeavesAnyState(t *testing.T) {
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	long := strings.Repeat("x", 100) // two blocks
	for _, tt := range []struct {
		name string
		do   func(mem *faultfs.Mem)
		want []string // states, each the files and their contents; among all that are seen
		only bool     // there are no others
	}{
		{"rename over another", func(mem *faultfs.Mem) {
			must(write(t, mem, "a", "1", os.O_CREATE), write(t, mem, "b", "2", os.O_CREATE), mem.SyncAll())
			must(mem.Rename("a", "b"))
		}, []string{"a=1 b=2", "a=1 b=1", "b=1", "b=2"}, true},
		{"rename to a new name", func(mem *faultfs.Mem) {
			must(write(t, mem, "a", "1", os.O_CREATE), mem.SyncAll(), mem.Rename("a", "b"))
		}, []string{"a=1", "a=1 b=1", "b=1", ""}, true},
		{"made, renamed and made again", func(mem *faultfs.Mem) {
			must(write(t, mem, "a", "1", os.O_CREATE), mem.Rename("a", "b"), write(t, mem, "a", "2", os.O_CREATE))
		}, []string{"", "a=1", "a=2", "b=1", "a= b=1", "a=2 b=1", "a=1 b=1", "a=2 b="}, false},
		{"a synced file, its name not", func(mem *faultfs.Mem) {
			f, err := mem.Open("a", os.O_WRONLY|os.O_CREATE)
			must(err)
			_, err = f.Write([]byte("1"))
			must(err, f.Sync())
		}, []string{"", "a=1"}, true},
		{"a synced name, its file not", func(mem *faultfs.Mem) {
			must(write(t, mem, "a", "1", os.O_CREATE), mem.SyncDir("."))
		}, []string{"a=", "a=\x00", "a=1"}, true},
		{"blocks", func(mem *faultfs.Mem) {
			must(write(t, mem, "a", long, os.O_CREATE), mem.SyncAll(), write(t, mem, "a", strings.ToUpper(long), 0))
		}, []string{"a=" + long, "a=" + strings.ToUpper(long), "a=" + long[:64] + strings.ToUpper(long[64:])}, false},
		{"written anew", func(mem *faultfs.Mem) {
			must(write(t, mem, "a", "old", os.O_CREATE), mem.SyncAll(), write(t, mem, "a", "x", os.O_TRUNC))
		}, []string{"a=old", "a=", "a=x", "a=xld", "a=\x00"}, true},
		{"all synced", func(mem *faultfs.Mem) {
			must(write(t, mem, "a", "1", os.O_CREATE), mem.Rename("a", "b"), write(t, mem, "b", "2", os.O_APPEND), mem.SyncAll())
		}, []string{"b=12"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mem := faultfs.NewMem()
			tt.do(mem)
			seen := map[string]bool{}
			for i := range uint64(1000) {
				left := mem.Crash(rand.New(rand.NewPCG(2, i)))
				var files []string
				entries, err := left.List(".")
				must(err)
				for _, e := range entries {
					files = append(files, e.Name+"="+read(t, left, e.Name))
				}
				seen[strings.Join(files, " ")] = true
			}
			for _, state := range tt.want {
				if !seen[state] {
					t.Errorf("the state %q never came", state)
				}
				delete(seen, state)
			}
			if tt.only && len(seen) > 0 {
				t.Errorf("states that nothing can leave: %q", slices.Collect(maps.Keys(seen)))
			}
		})
	}
}

// Cut comes before its call, which has no effect.
func TestCut(t *testing.T) {
	mem := faultfs.NewMem()
	fault := faultfs.FailAfter(mem, 1, syscall.EIO)
	fault.Only = "mkdir"
	cuts := 0
	fault.Cut = func() { cuts++ }
	if err := errors.Join(fault.Mkdir("a"), write(t, fault, "a/x", "1", os.O_CREATE)); err != nil || cuts > 0 {
		t.Fatal(err, cuts)
	}
	if err := fault.Mkdir("b"); !errors.Is(err, syscall.EIO) || cuts != 1 {
		t.Errorf("%v, cut %d times", err, cuts)
	}
	if _, err := mem.Stat("b"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the call that failed had an effect: %v", err)
	}
	if diff := cmp.Diff([]string{"mkdir a", "mkdir b"}, fault.Calls()); diff != "" {
		t.Error(diff)
	}
}
