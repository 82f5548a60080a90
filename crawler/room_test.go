package crawler

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestRoom walks the free room down and up: fetching pauses below the mark and goes on an eighth
// above it, each told once. What the index owes is to be free above the mark.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mark, inodes = 800 << 20, 8000
		var log bytes.Buffer
		var disk struct { // the lock is for the race detector, which knows nothing of virtual time
			sync.Mutex
			bytes, inodes uint64
			owed          int64
			err           error
		}
		opts := Options{MinFree: mark, MinFreeInodes: inodes, Log: slog.New(slog.NewTextHandler(&log, nil))}
		r := opts.room(func() (uint64, uint64, error) {
			disk.Lock()
			defer disk.Unlock()
			return disk.bytes, disk.inodes, disk.err
		})
		r.owes(func() int64 {
			disk.Lock()
			defer disk.Unlock()
			return disk.owed
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.run(ctx)
		for i, step := range []struct {
			bytes, inodes uint64
			owed          int64
			err           error
			low           bool
			why           string
			lines         int // of the log so far
		}{
			{mark, inodes, 0, nil, false, "", 0},
			{mark - 1, inodes, 0, nil, true, "838.9 MB free on the disk of the tree, 943.7 MB needed to go on (-min-free)", 1},
			{mark, inodes, 0, nil, true, "838.9 MB free", 1},
			{0, inodes, 0, errors.New("gone"), true, "838.9 MB free", 2},
			{0, inodes, 0, errors.New("gone"), true, "838.9 MB free", 2},
			{mark + mark/8 - 1, 2 * inodes, 0, nil, true, "943.7 MB free", 2},
			{mark + mark/8, 2 * inodes, 0, nil, false, "", 3},
			{mark, inodes, 0, nil, false, "", 3},
			{mark, inodes - 1, 0, nil, true, "7999 inodes free on the disk of the tree, 9000 needed to go on (-min-free-inodes)", 4},
			{1 << 63, inodes + inodes/8, 0, nil, false, "", 5},
			{mark + 100<<20, inodes, 100 << 20, nil, false, "", 5},
			{mark + 100<<20 - 1, inodes, 100 << 20, nil, true, "943.7 MB free on the disk of the tree, 1.1 GB needed to go on (-min-free)", 6},
			{mark + 100<<20, 2 * inodes, 0, nil, false, "", 7},
		} {
			disk.Lock()
			disk.bytes, disk.inodes, disk.owed, disk.err = step.bytes, step.inodes, step.owed, step.err
			disk.Unlock()
			time.Sleep(lookForRoom)
			synctest.Wait()
			if r.low() != step.low || !strings.HasPrefix(r.String(), step.why) {
				t.Errorf("step %d: low %v, %q; want %v, %q", i, r.low(), r, step.low, step.why)
			}
			if n := strings.Count(log.String(), "\n"); n != step.lines {
				t.Errorf("step %d: %d lines, want %d:\n%s", i, n, step.lines, &log)
			}
		}
		if r.count() != 3 || strings.Count(log.String(), "fetching pauses") != 3 || strings.Count(log.String(), "fetching goes on") != 3 {
			t.Errorf("%d pauses, want 3:\n%s", r.count(), &log)
		}
	})
}

// TestRoomWait: whoever waits for room goes on when there is some, when nothing is left to fetch,
// or when fetching ends.
func TestRoomWait(t *testing.T) {
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
				opts := Options{MinFree: 1000, MinFreeInodes: -1, Log: slog.New(slog.DiscardHandler)}
				r := opts.room(func() (uint64, uint64, error) { return free.Load(), 0, nil })
				r.look()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go r.run(ctx)
				waited := make(chan bool)
				go func() { waited <- r.wait(ctx, left.Load) }()
				time.Sleep(time.Hour)
				select {
				case <-waited:
					t.Fatal("it did not wait")
				default:
				}
				tt.end(&free, &left, cancel)
				time.Sleep(lookForRoom)
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

// TestRoomForSeveral: fetching pauses for all that wait for room, and for the rest when one goes
// on.
func TestRoomForSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var free atomic.Uint64
		free.Store(1500)
		opts := Options{MinFree: 1000, MinFreeInodes: -1, Log: slog.New(slog.DiscardHandler)}
		r := opts.room(func() (uint64, uint64, error) { return free.Load(), 0, nil })
		r.look()
		var waiting atomic.Int32
		for _, bytes := range []int64{2000, 4000} {
			waiting.Add(1)
			go func() {
				defer waiting.Add(-1)
				if err := r.enough(t.Context(), bytes); err != nil {
					t.Error(err)
				}
			}()
			time.Sleep(lookForRoom / 3) // while one looks, others go by the last look
		}
		for _, step := range []struct {
			free    uint64
			waiting int32
			low     bool
		}{{1500, 2, true}, {3000, 1, true}, {4000, 0, false}} {
			free.Store(step.free)
			time.Sleep(lookForRoom)
			synctest.Wait()
			r.look()
			if waiting.Load() != step.waiting || r.low() != step.low {
				t.Errorf("%d bytes free: %d wait, low %v; want %d, %v", step.free, waiting.Load(), r.low(), step.waiting, step.low)
			}
		}
		if r.low() || r.needs != 0 {
			t.Errorf("low %v, %d bytes are needed, behind the last", r.low(), r.needs)
		}
	})
}

// TestRoomHangs: a disk that does not tell how much room it has holds up the one who asks for five
// seconds, and nobody else but the end.
func TestRoomHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		opts := Options{MinFree: 1000, Log: slog.New(slog.DiscardHandler)}
		r := opts.room(func() (uint64, uint64, error) { <-hang; return 0, 0, nil })
		start := time.Now()
		r.look()
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("it goes on after %v", took)
		}
		r.look() // returns at once, and asks nothing
		if err := r.enough(t.Context(), 1<<40); err != nil || r.low() || !r.wait(t.Context(), func() bool { return true }) {
			t.Errorf("low before an answer came: %v", err)
		}
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("others wait for %v", took)
		}
		ended := make(chan struct{})
		go func() { r.end(); close(ended) }()
		close(hang)
		<-ended
		if !r.low() {
			t.Error("the answer does not count")
		}
	})
}
