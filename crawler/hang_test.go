package crawler_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"urltree/crawler"
	"urltree/internal/testweb"
	"urltree/iut"
)

// A hangingDisk stands still at one call, until it is let go.
type hangingDisk struct {
	iut.FS
	at    string       // "mkdir", "write", "sync" or "body"
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

func (d *hangingDisk) Open(name string, flag int) (iut.File, error) {
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

// TestHangingDisk: where a call to the disk does not come back, the watchdog tells of it with its
// stack, and a crawl that is stopped ends all the same, with an error that says so. The tree is
// whole, and once the disk is well the same options go on to the known answer.
func TestHangingDisk(t *testing.T) {
	for _, tt := range []struct {
		at, who, what, stack string
		disk                 bool
	}{
		{"mkdir", "builder", "store http://", "iut.(*Tree).Store ", true},
		{"write", "builder", "store http://", "iut.(*Tree).Store ", true},
		{"sync", "committer", "sync what came of ", "iut.(*Tree).Sync ", true},
		{"body", "crawler", "ask for http://", "fetch.(*Client).Get ", false},
	} {
		t.Run(tt.at, func(t *testing.T) {
			t.Parallel()
			web := serve(t, testweb.Options{Kind: testweb.Linked, Hosts: 4, Pages: 120, Seed: 33, MinSize: 300, MaxSize: 100 << 10})
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
			disk := &hangingDisk{FS: real, at: tt.at, again: make(chan struct{})}
			disk.after.Store(5)
			if tt.at == "sync" {
				disk.after.Store(1)
			}
			opts.FS, opts.NoSync, opts.MemoryBodies = disk, true, 64<<10
			opts.Buffers, opts.BufferSize = 2, 10
			slack := time.Duration(0)
			if tt.at == "body" {
				slack = time.Second - 30*time.Second // the usual limit
			}
			opts.HurryWatchdog(time.Second, slack)
			ctx, stop := context.WithTimeout(t.Context(), noHang)
			defer stop()
			told := make(chan string, 1)
			opts.Log = slog.New(logTo{slog.DiscardHandler, func(r slog.Record) {
				var b strings.Builder
				r.Attrs(func(a slog.Attr) bool { b.WriteString(a.String() + "\n"); return true })
				for _, part := range []string{"who=" + tt.who, "what=" + tt.what, tt.stack} {
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
			_, err = crawler.Run(ctx, opts)
			if !errors.Is(err, crawler.ErrStuck) || errors.Is(err, iut.ErrDisk) != tt.disk {
				t.Fatalf("Run: %v, want %v", err, crawler.ErrStuck)
			}
			t.Logf("ended after %s: %v", time.Since(begin), err)
			if len(told) == 0 {
				t.Error("the watchdog does not tell of it")
			}

			// The disk is well again. What is left of the crawl ends and gives the tree back.
			close(disk.again)
			lock, err := os.Open(filepath.Join(opts.Tree, "LOCK"))
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Close()
			if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
				t.Fatal(err)
			}
			lock.Close()
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

// TestHangingCallbacks: a call-back that does not come back does not hold up the end of the crawl.
func TestHangingCallbacks(t *testing.T) {
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
			opts.HurryWatchdog(200*time.Millisecond, 0)
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
