package crawler_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"urltree/crawler"
	"urltree/crawler/scope"
	"urltree/internal/testweb"
	"urltree/iut"
)

// A hangingDisk stands still at one call, until it is let go.
type hangingDisk struct {
	iut.FS
	at    string       // "mkdir", "write", "sync", "body", "free", "opening" or "pages"
	after atomic.Int64 // so many such calls go through
	again chan struct{}
}

func (d *hangingDisk) call(name string) {
	if name == d.at && d.after.Add(-1) == -1 {
		<-d.again
	}
}

func (d *hangingDisk) Mkdir(name string) error {
	d.call("mkdir")
	return d.FS.Mkdir(name)
}

func (d *hangingDisk) SyncAll() error {
	d.call("sync")
	return d.FS.SyncAll()
}

func (d *hangingDisk) Free() (bytes, inodes uint64, err error) {
	d.call("free")
	return d.FS.Free()
}

func (d *hangingDisk) Open(name string, flag int) (iut.File, error) {
	switch {
	case name == "seeds.txt" && flag == os.O_RDONLY:
		d.call("opening")
	case strings.HasSuffix(name, "/content.html") && flag == os.O_RDONLY:
		d.call("pages")
	}
	f, err := d.FS.Open(name, flag)
	return &hangingFile{f, d, name}, err
}

type hangingFile struct {
	iut.File
	disk *hangingDisk
	name string
}

func (f *hangingFile) Write(b []byte) (int, error) {
	if strings.HasPrefix(f.name, "tmp/") {
		f.disk.call("body")
	} else {
		f.disk.call("write")
	}
	return f.File.Write(b)
}

// TestHangingDisk: where a call to the disk does not come back, it is reported with its stack, and
// a crawl that is stopped ends all the same, with an error that says so. The tree is whole, and
// once the disk is well the same options go on to the known answer.
func TestHangingDisk(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		at, what, stack string
		after           int64 // calls that go through
	}{
		{"mkdir", "make folder pr-http/", "iut.(*Tree).Store ", 5},
		{"write", "write pr-http/", "iut.(*Tree).Store ", 5},
		{"sync", "sync the tree", "iut.(*Committer).Run ", 1},
		{"body", "write tmp/", "fetch.(*Client).Get ", 5},
		{"free", "ask how much room ", "disk.(*room).look.func", 5},
		{"opening", "open seeds.txt", "iut.(*Tree).seedLines ", 0},
		{"pages", "open pr-http/", "repair.NewIndex ", 5},
		{"results", "open ", "cleaner.Clean ", 0},
	} {
		t.Run(tt.at, func(t *testing.T) {
			t.Parallel()
			web := serve(t, testweb.Options{Kind: testweb.Linked, Hosts: 4, Pages: sized(120, 40), Seed: 33, MinSize: 300, MaxSize: 100 << 10})
			dir := t.TempDir()
			opts := options(dir, web)
			opts.NoSync, opts.MemoryBodies = true, 64<<10
			opts.Buffers, opts.BufferSize = 2, 10
			switch tt.at {
			case "free":
				opts.MinFree = 1
			case "pages":
				if _, err := crawler.Run(t.Context(), opts); err != nil {
					t.Fatal(err)
				}
				if err := os.Remove(filepath.Join(opts.Tree, "index.db")); err != nil {
					t.Fatal(err)
				}
			}
			disk := openHanging(t, opts.Tree, tt.at, tt.after)
			opts.FS = disk
			opts.HurryWatchdog(5*time.Second, 0) // no call that goes through takes so long, on a busy machine either
			parts := []string{"what=" + tt.what, tt.stack}
			if tt.at == "results" {
				parts = append(parts, opts.Output+"\n")
			}
			requireStuck(t, opts, disk, parts...)
			if _, err := os.Stat(opts.Output); tt.at == "free" && err != nil {
				t.Errorf("no results, though all but the room can be told: %v", err)
			}
			requireNoFaults(t, opts.Tree)
			opts.FS, opts.Log = nil, nil
			if _, err := crawler.Run(t.Context(), opts); err != nil {
				t.Fatal(err)
			}
			requireSame(t, crawled(t, opts.Output), web.Answer().Stored)
			requireChecked(t, dir)
		})
	}
}

// TestHangingLook: so it is where nothing is left, and a page is parsed again for links that belong
// to the crawl only since a seed has led to another host.
func TestHangingLook(t *testing.T) {
	t.Parallel()
	var origins []string
	origins = hosts(t, 2, func(host int, rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			http.Redirect(rw, r, origins[1]+"/", http.StatusFound)
			return
		}
		fmt.Fprintf(rw, "<a href=%s/b>", origins[1])
	})
	dir := t.TempDir()
	opts := crawler.Options{
		Tree:       filepath.Join(dir, "iut"),
		Output:     filepath.Join(dir, "res.txt"),
		Bounds:     crawler.Bounds{Scope: scope.Host},
		Storage:    crawler.Storage{NoSync: true},
		Seeds:      []string{origins[0] + "/", origins[0] + "/moved"},
		Politeness: crawler.Politeness{Delay: -1},
		HTTP:       crawler.HTTP{AllowPrivate: true},
	}
	disk := openHanging(t, opts.Tree, "pages", 0)
	opts.FS = disk
	opts.HurryWatchdog(5*time.Second, 0)
	requireStuck(t, opts, disk, "what=open pr-http/", "iut.(*Tree).Load ", "crawler.(*engine).findMore ")
	opts.FS, opts.Log = nil, nil
	if _, err := crawler.Run(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	requireSame(t, crawled(t, opts.Output), []string{origins[0] + "/", origins[1] + "/", origins[1] + "/b"})
	requireChecked(t, dir)
}

// openHanging returns the disk of a tree that hangs at a call, after so many of them.
func openHanging(t *testing.T, root, at string, after int64) *hangingDisk {
	t.Helper()
	if err := os.MkdirAll(root, 0o777); err != nil {
		t.Fatal(err)
	}
	real, err := iut.OpenDisk(root, iut.SyncNone)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { real.Close() })
	disk := &hangingDisk{FS: real, at: at, again: make(chan struct{})}
	disk.after.Store(after)
	return disk
}

// requireStuck crawls until a step with all these parts is reported, then stops the
// crawl, and expects it to end with ErrStuck. Then the disk works again, and the rest of the crawl
// ends, which releases the tree.
func requireStuck(t *testing.T, opts crawler.Options, disk *hangingDisk, parts ...string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), noHang)
	defer stop()
	told := make(chan string, 1)
	opts.Log = slog.New(logTo{slog.DiscardHandler, func(r slog.Record) {
		var b strings.Builder
		r.Attrs(func(a slog.Attr) bool { b.WriteString(a.String() + "\n"); return true })
		if disk.at == "results" && strings.Contains(b.String(), "what=pending URLs to ") {
			// Whoever opens a pipe waits for somebody at its other end.
			if err := errors.Join(os.Remove(opts.Output), syscall.Mkfifo(opts.Output, 0o666)); err != nil {
				t.Error(err)
			}
		}
		for _, part := range parts {
			if !strings.Contains(b.String(), part) {
				return // of something else, on a busy machine
			}
		}
		select {
		case told <- b.String():
			stop()
		default:
		}
	}})
	begin := time.Now()
	_, err := crawler.Run(ctx, opts)
	if !errors.Is(err, crawler.ErrStuck) || !errors.Is(err, iut.ErrDisk) {
		t.Fatalf("Run: %v, want %v", err, crawler.ErrStuck)
	}
	t.Logf("ended after %s: %v", time.Since(begin), err)
	if len(told) == 0 {
		t.Error("it is not reported")
	}
	close(disk.again)
	if disk.at == "results" {
		f, err := os.OpenFile(opts.Output, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if err := os.Remove(opts.Output); err != nil { // the next crawl would wait there for a reader
			t.Fatal(err)
		}
	}
	lock, err := os.Open(filepath.Join(opts.Tree, "LOCK"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
}

// TestHangingCallbacks: a call-back that does not come back does not hold up the end of the crawl.
func TestHangingCallbacks(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Allow", "OnPage", "Edge", "OnOutcome", "Started", "Progress"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithTimeout(t.Context(), noHang)
			defer stop()
			again := make(chan struct{})
			defer close(again)
			hang := func() { stop(); <-again }
			opts := crawler.Options{
				NoTree: true, Seeds: []string{"http://a.test/"},
				Fetch: func(ctx context.Context, _ string) (crawler.Content, error) {
					if name == "Progress" {
						<-ctx.Done() // it is called each second
					}
					return crawler.Content{Media: "text/html", Body: []byte("<a href=/x>x</a>")}, ctx.Err()
				},
			}
			opts.HurryWatchdog(time.Second, time.Second)
			switch name {
			case "Allow":
				opts.Allow = func(crawler.Candidate) bool { hang(); return true }
			case "OnPage":
				opts.OnPage = func(crawler.Page) error { hang(); return nil }
			case "Edge":
				opts.Edge = func(string, string) { hang() }
			case "OnOutcome":
				opts.OnOutcome = func(crawler.Outcome) { hang() }
			case "Started":
				opts.Started = hang
			case "Progress":
				opts.Progress = func(crawler.Progress) { hang() }
			}
			if _, err := crawler.Run(ctx, opts); !errors.Is(err, crawler.ErrStuck) {
				t.Errorf("Run: %v, want %v", err, crawler.ErrStuck)
			}
		})
	}
}
