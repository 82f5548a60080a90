package crawler_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"urltree/crawler"
	"urltree/internal/testweb"
	"urltree/iut"
	"urltree/storage"
)

// A finiteDisk has the room that room says, and counts what is written: each folder, each file
// and each byte, in blocks.
type finiteDisk struct {
	iut.FS
	room   atomic.Int64 // bytes
	used   atomic.Int64 // bytes
	inodes atomic.Int64 // used
}

const block = 4 << 10

func (d *finiteDisk) Free() (bytes, inodes uint64, err error) {
	return uint64(max(d.room.Load()-d.used.Load(), 0)), uint64(1_000_000 - d.inodes.Load()), nil
}

func (d *finiteDisk) Mkdir(name string) error {
	err := d.FS.Mkdir(name)
	if err == nil {
		d.used.Add(block)
		d.inodes.Add(1)
	}
	return err
}

func (d *finiteDisk) Open(name string, flag int) (iut.File, error) {
	f, err := d.FS.Open(name, flag)
	if err == nil && flag&os.O_CREATE != 0 {
		d.used.Add(block)
		d.inodes.Add(1)
	}
	return &finiteFile{f, d}, err
}

type finiteFile struct {
	iut.File
	disk *finiteDisk
}

func (f *finiteFile) Write(b []byte) (int, error) {
	f.disk.used.Add(int64(len(b)))
	return f.File.Write(b)
}

// A logTo is a log that gives what it gets to a function.
type logTo struct {
	slog.Handler
	take func(slog.Record)
}

func (l logTo) Enabled(context.Context, slog.Level) bool { return true }

func (l logTo) Handle(_ context.Context, r slog.Record) error {
	l.take(r)
	return nil
}

// TestPausesForRoom crawls onto a disk that gets its room bit by bit: whenever there is too little
// nothing more is asked, what is in the buffers comes to the tree, in less room than is kept
// free for it, and with more room the crawl goes on, to the known answer.
func TestPausesForRoom(t *testing.T) {
	t.Parallel()
	web := serve(t, testweb.Options{
		Kind: testweb.Linked, Hosts: 6, Pages: 400, Seed: 31, MinSize: 500, MaxSize: 120 << 10, Redirects: .05, Texts: .05,
	})
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
	disk := &finiteDisk{FS: real}
	opts.FS, opts.NoSync = disk, true
	opts.Crawlers, opts.Downloads, opts.Buffers, opts.BufferSize = 4, 2, 2, 20
	const (
		bodies  = 2*(128<<10) + 128<<10
		items   = 4*2 + 2*20
		reserve = 4*bodies + items*(16<<10) + 64<<20 // as room.go has it, with little in the inbox
		step    = 3 << 20
	)
	opts.BufferBytes, opts.MemoryBodies = 128<<10, 128<<10 // large bodies go to files
	disk.room.Store(reserve - 1)

	paused := make(chan struct{}, 1)
	opts.Log = slog.New(logTo{slog.DiscardHandler, func(r slog.Record) {
		if strings.HasPrefix(r.Message, "fetching pauses") {
			paused <- struct{}{}
		}
	}})
	told := make(chan crawler.Progress)
	over := make(chan struct{})
	opts.Progress = func(p crawler.Progress) {
		select {
		case told <- p:
		case <-over:
		}
	}
	next := func() (p crawler.Progress) {
		select {
		case p = <-told:
		case <-over:
		}
		return p
	}
	var watching sync.WaitGroup
	pauses := 0
	watching.Go(func() {
		for {
			select {
			case <-paused:
			case <-told:
				continue
			case <-over:
				return
			}
			pauses++
			used, asked := disk.used.Load(), len(web.Requests())
			if pauses == 1 { // before there is an index, and so before anything else
				if there, err := storage.Exists(filepath.Join(opts.Tree, "index.db")); there || err != nil {
					t.Errorf("index.db is there before there was room: %v, %v", there, err)
				}
				disk.room.Store(used + reserve + reserve/8 + step)
				continue
			}
			next()
			p := next()
			if !strings.Contains(p.Waiting, "free on the disk of the tree") {
				t.Errorf("pause %d: waiting is %q", pauses, p.Waiting)
			}
			p = next()
			more := len(web.Requests()) - asked // of each download the request that was on its way
			if most := opts.Crawlers * opts.Downloads; pauses == 1 && asked+more != 0 || more > most {
				t.Errorf("pause %d: %d URLs asked, then %d more, at most %d may be on their way", pauses, asked, more, most)
			}
			if more := disk.used.Load() - used; more > 4*bodies+items*(16<<10) {
				t.Errorf("pause %d: %d bytes came to the disk, %d may", pauses, more, 4*bodies+items*(16<<10))
			}
			t.Logf("pause %d: %d URLs asked, %d pages, %d bytes came since", pauses, asked, p.Pages, disk.used.Load()-used)
			disk.room.Store(disk.used.Load() + reserve + reserve/8 + step)
		}
	})
	_, err = crawler.Run(t.Context(), opts)
	close(over)
	watching.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if pauses < 3 {
		t.Errorf("%d pauses: the test is too roomy", pauses)
	}
	requireSame(t, crawled(t, opts.Output), web.Answer().Stored)
	requireChecked(t, dir)
	b, err := os.ReadFile(filepath.Join(dir, "statistics.txt"))
	if err != nil || !strings.Contains(string(b), "pauses for the disk to have room") {
		t.Errorf("statistics.txt tells of no pause: %v", err)
	}
}

// TestOpeningWaitsForRoom: edges and links of pages that were stored before, an index that is gone
// and records of many new seeds are not made on a disk that is nearly full.
func TestOpeningWaitsForRoom(t *testing.T) {
	t.Parallel()
	web := serve(t, testweb.Options{Kind: testweb.Linked, Hosts: 2, Pages: 40, Seed: 33, MinSize: 500, MaxSize: 3000})
	dir := t.TempDir()
	opts := options(dir, web)
	opts.NoSync = true
	if _, err := crawler.Run(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	real, err := iut.OpenDisk(opts.Tree, iut.SyncNone)
	if err != nil {
		t.Fatal(err)
	}
	defer real.Close()
	known := recordsIn(t, opts.Tree)
	for _, tt := range []struct {
		name string
		set  func(*crawler.Options)
	}{
		{"edges", func(o *crawler.Options) { o.Edges = true }},
		{"links", func(o *crawler.Options) { o.NoFollow = "none" }},
		{"index gone", func(o *crawler.Options) {
			if err := os.Remove(filepath.Join(o.Tree, "index.db")); err != nil {
				t.Error(err)
			}
		}},
		{"many seeds", func(o *crawler.Options) {
			for i := range sized(10_000, 2000) {
				o.Seeds = append(o.Seeds, fmt.Sprintf("http://seed-%d.test/", i))
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			opts := opts
			tt.set(&opts)
			disk := &finiteDisk{FS: real}
			opts.FS, opts.MinFree = disk, 1<<30
			var paused, began atomic.Bool
			edges := filepath.Join(opts.Tree, "edges")
			opts.Log = slog.New(logTo{slog.DiscardHandler, func(r slog.Record) {
				switch {
				case strings.HasPrefix(r.Message, "fetching pauses"):
					if info, err := os.Stat(edges); err == nil && info.Size() > 100 && tt.name == "edges" {
						t.Errorf("%d bytes in the file of edges, which is more than its header, on a full disk", info.Size())
					}
					if tt.name == "index gone" {
						if made, err := filepath.Glob(filepath.Join(opts.Tree, "index.db*")); len(made) > 0 || err != nil {
							t.Errorf("%v on a full disk: %v", made, err)
						}
					} else if n := recordsIn(t, opts.Tree); n != known {
						t.Errorf("%d records on a full disk, there were %d", n, known)
					}
					paused.Store(true)
					disk.room.Store(4 << 30)
				case r.Message == "stored pages read again" && !paused.Load():
					t.Error("pages were parsed for their links first")
				}
			}})
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			opts.Started = func() { began.Store(paused.Load()); stop() }
			if _, err := crawler.Run(ctx, opts); err != nil {
				t.Fatal(err)
			}
			if !began.Load() {
				t.Error("fetching began, and nothing had waited for room")
			}
			requireChecked(t, dir)
		})
	}
}

// recordsIn counts the records of an index to which nobody writes just now, though somebody may
// have it open.
func recordsIn(t *testing.T, root string) int64 {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "index.db")
	b, err := os.ReadFile(filepath.Join(root, "index.db"))
	if err == nil {
		err = os.WriteFile(copied, b, 0o666)
	}
	if err != nil {
		t.Error(err)
		return -1
	}
	index, err := storage.Open(copied, storage.Options{ReadOnly: true})
	if err != nil {
		t.Error(err)
		return -1
	}
	defer index.Close()
	return index.Totals().Records()
}
