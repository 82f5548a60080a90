package storage

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	bolt "go.etcd.io/bbolt"

	"urltree/internal/disk"
)

// TestHangingTransactions: a transaction that the disk holds up is reported with its stack, and the
// end of a crawl does not wait for it for ever.
func TestHangingTransactions(t *testing.T) {
	for name, begin := range map[string]func(x *Index, fn func(*bolt.Tx) error) error{
		"read":  func(x *Index, fn func(*bolt.Tx) error) error { return x.file.View(fn) },
		"write": func(x *Index, fn func(*bolt.Tx) error) error { return x.file.Update(fn) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				ctx, end := context.WithCancel(t.Context())
				watch := disk.NewWatch(ctx, disk.Limits{}, disk.Space{}, slog.New(slog.NewTextHandler(&log, nil)))
				path := filepath.Join(t.TempDir(), "index.db")
				if err := Create(path); err != nil {
					t.Fatal(err)
				}
				x := open(t, path, Options{NoSync: true, Watch: watch})
				until, ended := make(chan struct{}), make(chan error)
				end()
				hung := watch.Guard(func() { ended <- begin(x, func(*bolt.Tx) error { <-until; return nil }) }, func() {})
				if text := log.String(); !strings.Contains(text, "what=\""+name+" "+path) || !strings.Contains(text, "storage.TestHangingTransactions") {
					t.Errorf("it says %q", text)
				}
				if hung == nil || !hung.Disk {
					t.Errorf("it ended: %v", hung)
				}
				close(until)
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
