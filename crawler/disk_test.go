package crawler_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"urltree/crawler"
	"urltree/internal/repair"
	"urltree/internal/testweb"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// A smallDisk is a file system in memory of a size that can be changed.
type smallDisk struct {
	t    *testing.T
	path string
}

// mountSmall mounts one with mount options such as "size=1m" and takes it down with the test.
func mountSmall(t *testing.T, limit string) *smallDisk {
	t.Helper()
	d := &smallDisk{t, t.TempDir()}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", limit, "tmpfs", d.path).CombinedOutput(); err != nil {
		t.Skipf("mount is not allowed here: %v: %s", err, out)
	}
	t.Cleanup(func() {
		// A file that is still open or mapped would keep it busy.
		if out, err := exec.Command("umount", d.path).CombinedOutput(); err != nil {
			t.Errorf("a run has left files open or mapped: %v: %s", err, out)
			_ = exec.Command("umount", "-l", d.path).Run()
		}
	})
	return d
}

func (d *smallDisk) resize(limit string) {
	d.t.Helper()
	if out, err := exec.Command("mount", "-o", "remount,"+limit, d.path).CombinedOutput(); err != nil {
		d.t.Fatalf("remount: %v: %s", err, out)
	}
}

// requireNoFaults lets check look at what a failed run has left. It must find nothing, and it
// must not need room on the disk.
func requireNoFaults(t testing.TB, root string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, "index.db")); errors.Is(err, fs.ErrNotExist) {
		return // the disk was full before the tree was made
	}
	tree, err := iut.Open(root, iut.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	index, err := storage.Open(filepath.Join(root, "index.db"), storage.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	linker, err := crawler.NewLinker(tree.Format())
	if err != nil {
		t.Fatal(err)
	}
	_, err = repair.Check(context.WithoutCancel(t.Context()), tree, index, linker, repair.CheckOptions{Links: true},
		func(fault string) { t.Error("fault:", fault) })
	if err != nil {
		t.Fatal(err)
	}
}

// requireDiskError requires the error of a full or broken disk, in one line.
func requireDiskError(t testing.TB, err error, number syscall.Errno) {
	t.Helper()
	if !errors.Is(err, iut.ErrDisk) || !errors.Is(err, number) {
		t.Fatalf("error %v, want %v and %v", err, iut.ErrDisk, number)
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	if !strings.Contains(first, number.Error()) {
		t.Errorf("the first line %q does not tell of: %v", first, number)
	}
}

// TestFullDisk crawls onto a file system that is too small, and makes it larger step by step:
// each run but the last ends with a disk error and a tree without faults, and the same options
// go on to the known answer.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	web := serve(t, testweb.Options{
		Kind: testweb.Linked, Hosts: 10, Pages: sized(400, 150), Seed: 21, MinSize: 500, MaxSize: 150 << 10,
		Redirects: .05, Texts: .05, Images: .05, NoIndex: .05,
	})
	for _, tt := range []struct {
		name   string
		limit  string
		steps  []int
		enough string
	}{
		{"bytes", "size=%dk", []int{8, 40, 60, 100, 500, 1500, 3000, 6000}, "size=1g"},
		{"inodes", "size=1g,nr_inodes=%d", []int{3, 5, 7, 9, 30, 100, 300, 500}, "size=1g,nr_inodes=100000"},
	} {
		if testing.Short() { // every other one
			tt.steps = []int{tt.steps[0], tt.steps[2], tt.steps[4], tt.steps[6]}
		}
		t.Run(tt.name, func(t *testing.T) {
			disk := mountSmall(t, fmt.Sprintf(tt.limit, tt.steps[0]))
			dir := t.TempDir()
			web.Reset()
			opts := options(dir, web)
			opts.Tree = filepath.Join(disk.path, "iut")
			opts.MemoryBodies = 256 << 10 // large bodies go to files
			opts.MinFree, opts.MinFreeInodes = -1, -1
			failed := 0
			for _, step := range tt.steps {
				disk.resize(fmt.Sprintf(tt.limit, step))
				if _, err := crawler.Run(t.Context(), opts); err != nil {
					failed++
					t.Logf("%d: %v", step, err)
					requireDiskError(t, err, syscall.ENOSPC)
				}
				requireNoFaults(t, opts.Tree)
			}
			if failed < len(tt.steps)-1 {
				t.Errorf("%d of %d runs met a full disk: the test is too roomy", failed, len(tt.steps))
			}
			disk.resize(tt.enough)
			if _, err := crawler.Run(t.Context(), opts); err != nil {
				t.Fatal(err)
			}
			requireNoFaults(t, opts.Tree)
			requireSame(t, crawled(t, opts.Output), web.Answer().Stored)
		})
	}
}

// TestFullOutput has room for the tree, but not for the results: what was written before stays
// as it was, and the next run only has to write them.
func TestFullOutput(t *testing.T) {
	t.Parallel()
	web := serve(t, testweb.Options{Kind: testweb.Tree, Hosts: 4, Pages: sized(500, 300), Seed: 22, MinSize: 300, MaxSize: 1000})
	disk := mountSmall(t, "size=1m")
	opts := options(t.TempDir(), web)
	opts.Output = filepath.Join(disk.path, "res.txt")
	opts.MaxPages = 20
	if _, err := crawler.Run(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	before := crawled(t, opts.Output)
	opts.MaxPages = 0
	disk.resize("size=40k")
	_, err := crawler.Run(t.Context(), opts)
	requireDiskError(t, err, syscall.ENOSPC)
	if !slices.Equal(crawled(t, opts.Output), before) {
		t.Error("res.txt is not as it was")
	}
	if left, err := filepath.Glob(filepath.Join(disk.path, "*.new")); err != nil || len(left) > 0 {
		t.Errorf("unfinished files are left: %q, %v", left, err)
	}
	requireNoFaults(t, opts.Tree)

	disk.resize("size=10m")
	if _, err := crawler.Run(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	requireSame(t, crawled(t, opts.Output), web.Answer().Stored)
	for url, n := range web.Requests() {
		if n != 1 {
			t.Errorf("%s was asked %d times", url, n)
		}
	}
}

// TestOutputThatCannotBeWritten stands for all other ways in which writing results fails.
func TestOutputThatCannotBeWritten(t *testing.T) {
	web := serve(t, testweb.Options{Pages: 5, Seed: 23})
	dir := t.TempDir()
	opts := options(dir, web)
	opts.Output = filepath.Join(dir, "gone", "res.txt")
	if err := os.Mkdir(filepath.Dir(opts.Output), 0o777); err != nil {
		t.Fatal(err)
	}
	opts.Started = func() {
		if err := os.Remove(filepath.Dir(opts.Output)); err != nil {
			t.Error(err)
		}
	}
	_, err := crawler.Run(t.Context(), opts)
	requireDiskError(t, err, syscall.ENOENT)
	requireNoFaults(t, opts.Tree)
	opts = options(dir, web)
	if _, err := crawler.Run(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	requireSame(t, crawled(t, opts.Output), web.Answer().Stored)
	requireChecked(t, dir)
}

// onlyRead reports whether a file that was opened last in calls was not changed since.
func onlyRead(calls []string, name string) bool {
	for _, call := range slices.Backward(calls) {
		switch call {
		case "open " + name:
			return true
		case "create " + name, "write " + name, "truncate " + name:
			return false
		}
	}
	return false
}

// retry turns the pages that the tree could not take back to pending.
func retry(t *testing.T, root string) {
	t.Helper()
	path := filepath.Join(root, "index.db")
	if there, err := storage.Exists(path); err != nil || !there {
		return
	}
	index, err := storage.Open(path, storage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	if _, err := index.Reopen(t.Context(), nil, func(r *record.Record) bool { return r.Reason == "tree" }, nil); err != nil {
		t.Fatal(err)
	}
}
