package crawler_test

import (
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"testing"

	"urltree/crawler"
	"urltree/internal/testweb"
	"urltree/iut"
)

// A smallFolders is a disk whose folders take few names, as some file systems take 65,000; the
// root and tmp/ are not counted.
type smallFolders struct {
	iut.FS
	most int // 0: any number

	mu    sync.Mutex
	names map[string]map[string]bool // guarded by mu; by folder
	full  int                        // guarded by mu; names that were refused
}

func (d *smallFolders) add(op, name string, call func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	in := path.Dir(name)
	there := d.names[in]
	if !there[name] && len(there) >= d.most && d.most > 0 && strings.Contains(in, "/") {
		d.full++
		return &fs.PathError{Op: op, Path: name, Err: syscall.ENOSPC}
	}
	err := call()
	if err == nil {
		if there == nil {
			there = map[string]bool{}
			d.names[in] = there
		}
		there[name] = true
	}
	return err
}

func (d *smallFolders) Mkdir(name string) error {
	return d.add("mkdir", name, func() error { return d.FS.Mkdir(name) })
}

func (d *smallFolders) Rename(from, to string) error {
	return d.add("rename", to, func() error { return d.FS.Rename(from, to) })
}

func (d *smallFolders) Open(name string, flag int) (f iut.File, err error) {
	if flag&os.O_CREATE == 0 {
		return d.FS.Open(name, flag)
	}
	err = d.add("open", name, func() error { f, err = d.FS.Open(name, flag); return err })
	return f, err
}

// TestFullFolder: a page for which its folder, or one above it, has no place fails alone; the
// links of its answer count, and with room it is asked again.
func TestFullFolder(t *testing.T) {
	web := serve(t, testweb.Options{Kind: testweb.Linked, Hosts: 3, Pages: 150, Seed: 32, MinSize: 300, MaxSize: 90 << 10})
	dir := t.TempDir()
	opts := options(dir, web)
	if err := os.Mkdir(opts.Tree, 0o777); err != nil {
		t.Fatal(err)
	}
	real, err := iut.OpenDisk(opts.Tree, iut.SyncNone)
	if err != nil {
		t.Fatal(err)
	}
	defer real.Close()
	disk := &smallFolders{FS: real, most: 12, names: map[string]map[string]bool{}}
	opts.FS, opts.NoSync, opts.MemoryBodies = disk, true, 64<<10
	result, err := crawler.Run(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	failed, stored := result.Run.Outcomes["failed tree"], result.Run.Stored
	t.Logf("%d pages stored, %d failed, %d names refused", stored, failed, disk.full)
	if failed == 0 || stored == 0 || failed+stored != int64(len(web.Answer().Stored)) {
		t.Errorf("%d pages failed and %d are stored, want some of each of %d", failed, stored, len(web.Answer().Stored))
	}
	requireChecked(t, dir)

	disk.most = 0
	retry(t, opts.Tree)
	if _, err := crawler.Run(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	requireSame(t, crawled(t, opts.Output), web.Answer().Stored)
	requireChecked(t, dir)
}
