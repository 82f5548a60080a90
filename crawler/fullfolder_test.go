package crawler_test

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"urltree/crawler"
	"urltree/internal/faultfs"
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
	t.Parallel()
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

// A pickyDisk takes no folder of the tree whose name begins with no.
type pickyDisk struct {
	iut.FS
	no string
}

func (d pickyDisk) Mkdir(name string) error {
	if strings.HasPrefix(path.Base(name), d.no) {
		return &fs.PathError{Op: "mkdir", Path: name, Err: syscall.ENAMETOOLONG}
	}
	return d.FS.Mkdir(name)
}

// TestMaxPagesOfTheTree: a page that the tree cannot hold does not count towards MaxPages.
func TestMaxPagesOfTheTree(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	links := "" // ten that the tree does not take, and behind them twenty that it does
	for i := range 30 {
		links += fmt.Sprintf("<a href=/%s%d>", map[bool]string{true: "no", false: "yes"}[i < 10], i)
	}
	origin := hosts(t, 1, func(_ int, rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			fmt.Fprint(rw, links)
		}
	})[0]
	for _, tt := range []struct {
		limit, stored, refused int64
		ended                  string
	}{
		{4, 4, 10, "page limit reached"}, // the first page and three behind those that are refused
		{6, 6, 10, "page limit reached"},
		{22, 21, 10, "nothing left"},
	} {
		disk := faultfs.NewMem()
		opts := crawler.Options{
			Tree:       filepath.Join(t.TempDir(), "iut"),
			Output:     filepath.Join(t.TempDir(), "res.txt"),
			Limits:     crawler.Limits{MaxPages: tt.limit},
			Seeds:      []string{origin + "/"},
			Politeness: crawler.Politeness{Delay: -1},
			HTTP:       crawler.HTTP{AllowPrivate: true},
			Resources: crawler.Resources{
				Crawlers:      1,
				Downloads:     1,
				FlushInterval: time.Hour, // nothing waits for that
			},
			Storage: crawler.Storage{NoSync: true, FS: pickyDisk{disk, "dr-no"}},
		}
		result, err := crawler.Run(ctx, opts)
		if err != nil {
			t.Fatal(err)
		}
		if refused := result.Run.Outcomes["failed tree"]; result.Run.Stored != tt.stored || refused != tt.refused || result.Ended != tt.ended {
			t.Errorf("-max-pages %d: %d stored, %d refused by the tree, %q; want %d, %d, %q",
				tt.limit, result.Run.Stored, refused, result.Ended, tt.stored, tt.refused, tt.ended)
		}
	}
}
