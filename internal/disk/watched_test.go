package disk

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A stuckFS answers no call until it is let go, but for Open unless stuck is set.
type stuckFS struct {
	FS
	until chan struct{}
	open  bool // Open answers
}

var errStuckFS = errors.New("stuck")

func (s *stuckFS) wait() error { <-s.until; return errStuckFS }

func (s *stuckFS) Mkdir(string) error               { return s.wait() }
func (s *stuckFS) Rename(_, _ string) error         { return s.wait() }
func (s *stuckFS) Remove(string) error              { return s.wait() }
func (s *stuckFS) List(string) ([]Entry, error)     { return make([]Entry, 1), s.wait() }
func (s *stuckFS) Stat(string) (Entry, error)       { return Entry{}, s.wait() }
func (s *stuckFS) SyncDir(string) error             { return s.wait() }
func (s *stuckFS) SyncAll() error                   { return s.wait() }
func (s *stuckFS) Free() (bytes, n uint64, _ error) { return 1, 2, s.wait() }

func (s *stuckFS) Open(string, int) (Handle, error) {
	if s.open {
		return stuckFile{s}, nil
	}
	return nil, s.wait()
}

type stuckFile struct{ *stuckFS }

func (f stuckFile) Read([]byte) (int, error)              { return 0, f.wait() }
func (f stuckFile) ReadAt([]byte, int64) (int, error)     { return 0, f.wait() }
func (f stuckFile) Write([]byte) (int, error)             { return 0, f.wait() }
func (f stuckFile) Close() error                          { return f.wait() }
func (f stuckFile) Sync() error                           { return f.wait() }
func (f stuckFile) Truncate(int64) error                  { return f.wait() }
func (f stuckFile) Map(int) ([]byte, func() error, error) { return nil, nil, nil }

// TestWatchedFS: whatever call the disk does not answer is reported, and its error comes through.
func TestWatchedFS(t *testing.T) {
	of := func(call func(Handle) error) func(FS) error {
		return func(fs FS) error {
			f, err := fs.Open("a", 0)
			if err != nil {
				return err
			}
			return call(f)
		}
	}
	for what, call := range map[string]func(FS) error{
		"make folder a":     func(fs FS) error { return fs.Mkdir("a") },
		"open a":            func(fs FS) error { _, err := fs.Open("a", 0); return err },
		"rename to b":       func(fs FS) error { return fs.Rename("a", "b") },
		"remove a":          func(fs FS) error { return fs.Remove("a") },
		"list a":            func(fs FS) error { _, err := fs.List("a"); return err },
		"look at a":         func(fs FS) error { _, err := fs.Stat("a"); return err },
		"sync folder a":     func(fs FS) error { return fs.SyncDir("a") },
		"sync the tree":     func(fs FS) error { return fs.SyncAll() },
		"ask how much room": func(fs FS) error { _, _, err := fs.Free(); return err },
		"read a":            of(func(f Handle) error { _, err := f.Read(nil); return err }),
		"read from a":       of(func(f Handle) error { _, err := f.ReadAt(nil, 0); return err }),
		"write a":           of(func(f Handle) error { _, err := f.Write(nil); return err }),
		"close a":           of(func(f Handle) error { return f.Close() }),
		"sync a":            of(func(f Handle) error { return f.Sync() }),
		"cut a":             of(func(f Handle) error { return f.Truncate(0) }),
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				w := NewWatch(t.Context(), Limits{}, Space{}, slog.New(slog.NewTextHandler(&log, nil)))
				fs := &stuckFS{until: make(chan struct{}), open: what != "open a"}
				ctx, stop := context.WithCancel(t.Context())
				go w.run(ctx)
				ended := make(chan error)
				go func() { ended <- call(watchedFS{fs, w}) }()
				time.Sleep(2 * time.Minute)
				stop()
				synctest.Wait()
				if text := log.String(); !strings.Contains(text, "what=\""+what) || !strings.Contains(text, "disk.(*stuckFS).wait ") {
					t.Errorf("it says %q", text)
				}
				close(fs.until)
				if err := <-ended; err != errStuckFS {
					t.Errorf("%v, want %v", err, errStuckFS)
				}
			})
		})
	}
}
