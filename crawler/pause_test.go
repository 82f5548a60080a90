package crawler

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"urltree/internal/disk"
)

// A smallDisk says how much room it has, and does nothing else.
type smallDisk struct {
	disk.FS
	free *atomic.Uint64
}

func (d smallDisk) Free() (bytes, inodes uint64, err error) { return d.free.Load(), 0, nil }

// TestPauseForRoom: a crawler that waits for room on the disk goes on when there is some, when
// nothing is left to fetch, or when fetching ends.
func TestPauseForRoom(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(free *atomic.Uint64, left *atomic.Bool, cancel func())
		want bool
	}{
		{"room", func(free *atomic.Uint64, _ *atomic.Bool, _ func()) { free.Store(2000) }, true},
		{"nothing left", func(_ *atomic.Uint64, left *atomic.Bool, _ func()) { left.Store(false) }, true},
		{"end", func(_ *atomic.Uint64, _ *atomic.Bool, cancel func()) { cancel() }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var free atomic.Uint64
				var left atomic.Bool
				free.Store(500)
				left.Store(true)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				watch := disk.NewWatch(ctx, disk.Limits{}, disk.Space{Bytes: 1000}, slog.New(slog.DiscardHandler))
				if _, err := watch.FS("", func() (disk.FS, error) { return smallDisk{free: &free}, nil }); err != nil {
					t.Fatal(err)
				}
				watch.Begin(ctx, ctx)
				p := newPause(watch, slog.New(slog.DiscardHandler), time.Hour, nil)
				waited := make(chan bool)
				go func() { waited <- p.wait(ctx, left.Load) }()
				time.Sleep(time.Hour)
				select {
				case <-waited:
					t.Fatal("it did not wait")
				default:
				}
				tt.end(&free, &left, cancel)
				time.Sleep(2 * time.Second) // the disk is looked at each second, and so is what it said
				synctest.Wait()
				select {
				case ok := <-waited:
					if ok != tt.want {
						t.Errorf("wait: %v, want %v", ok, tt.want)
					}
				default:
					t.Fatal("it waits still")
				}
			})
		})
	}
}
