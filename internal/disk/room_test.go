package disk

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
// above it, each logged once.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mark, inodes = 800 << 20, 8000
		var log bytes.Buffer
		var disk struct { // the lock is for the race detector, which knows nothing of virtual time
			sync.Mutex
			bytes, inodes uint64
			err           error
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := newRoom(ctx, Space{Bytes: mark, Inodes: inodes}, func() (uint64, uint64, error) {
			disk.Lock()
			defer disk.Unlock()
			return disk.bytes, disk.inodes, disk.err
		}, slog.New(slog.NewTextHandler(&log, nil)))
		disk.bytes, disk.inodes = mark, inodes
		r.begin(ctx, make(chan struct{}))
		for i, step := range []struct {
			bytes, inodes uint64
			err           error
			low           bool
			why           string
			lines         int // of the log so far
		}{
			{mark, inodes, nil, false, "", 0},
			{mark - 1, inodes, nil, true, "838.9 MB free on the disk of the tree, 943.7 MB needed to go on (-min-free)", 1},
			{mark, inodes, nil, true, "838.9 MB free", 1},
			{0, inodes, errors.New("gone"), true, "838.9 MB free", 2},
			{0, inodes, errors.New("gone"), true, "838.9 MB free", 2},
			{mark + mark/8 - 1, 2 * inodes, nil, true, "943.7 MB free", 2},
			{mark + mark/8, 2 * inodes, nil, false, "", 3},
			{mark, inodes, nil, false, "", 3},
			{mark, inodes - 1, nil, true, "7999 inodes free on the disk of the tree, 9000 needed to go on (-min-free-inodes)", 4},
			{1 << 63, inodes + inodes/8, nil, false, "", 5},
		} {
			disk.Lock()
			disk.bytes, disk.inodes, disk.err = step.bytes, step.inodes, step.err
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
		if r.paused() != 2 || strings.Count(log.String(), "fetching pauses") != 2 || strings.Count(log.String(), "fetching goes on") != 2 {
			t.Errorf("%d pauses, want 2:\n%s", r.paused(), &log)
		}
	})
}

// TestAsk: before fetching begins, a transaction waits for the mark, but no longer than there is
// patience; then for as much as it may write, and once fetching is over for nothing.
func TestAsk(t *testing.T) {
	late, end := errors.New("late"), errors.New("end")
	for _, tt := range []struct {
		name   string
		begun  bool
		free   uint64 // at first
		then   func(free *atomic.Uint64, over, cancel func())
		waits  time.Duration
		want   error
		phrase string // of String while it waits
	}{
		{"room", false, 2000, nil, 0, nil, ""},
		{"too little", false, 999, func(free *atomic.Uint64, _, _ func()) { free.Store(2000) }, 10 * time.Second, nil, "999 B free"},
		{"late", false, 999, nil, time.Minute, late, "999 B free"},
		{"ended", false, 999, func(_ *atomic.Uint64, _, cancel func()) { cancel() }, 9 * time.Second, end, "999 B free"},
		{"enough for it", true, 400, nil, 0, nil, ""},
		{"too little for it", true, 399, func(free *atomic.Uint64, _, _ func()) { free.Store(400) }, 10 * time.Second, nil, "what was fetched waits for 400 B"},
		{"over", true, 399, func(_ *atomic.Uint64, over, _ func()) { over() }, 9 * time.Second, nil, "what was fetched waits for 400 B"},
		{"ended while fetching", true, 399, func(_ *atomic.Uint64, _, cancel func()) { cancel() }, 9 * time.Second, end, "what was fetched waits for 400 B"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var free atomic.Uint64
				free.Store(tt.free)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				over := make(chan struct{})
				r := newRoom(ctx, Space{Bytes: 1000, Transaction: 400, Patience: time.Minute, Late: late},
					func() (uint64, uint64, error) { return free.Load(), 0, nil }, slog.New(slog.DiscardHandler))
				if tt.begun {
					r.begin(ctx, over)
				}
				start, asked := time.Now(), make(chan error, 1)
				var took time.Duration
				go func() {
					err := r.ask()
					took = time.Since(start).Truncate(time.Second)
					asked <- err
				}()
				time.Sleep(9500 * time.Millisecond)
				if text := r.String(); len(asked) == 0 && (tt.phrase == "" || !strings.Contains(text, tt.phrase)) {
					t.Errorf("while it waits: %q, want %q", text, tt.phrase)
				}
				if tt.then != nil {
					tt.then(&free, func() { close(over) }, func() { cancel(end) })
				}
				err := <-asked
				// At the moment of a look it may miss what another look has just found.
				if !errors.Is(err, tt.want) || took != tt.waits && took != tt.waits+time.Second {
					t.Errorf("%v after %v, want %v after %v", err, took, tt.want, tt.waits)
				}
			})
		})
	}
}

// TestRoomHangs: a disk that does not tell how much room it has holds up the one who asks for five
// seconds, and nobody else but the end.
func TestRoomHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		r := newRoom(t.Context(), Space{Bytes: 1000, Transaction: 400}, func() (uint64, uint64, error) { <-hang; return 0, 0, nil }, slog.New(slog.DiscardHandler))
		start := time.Now()
		r.look()
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("it goes on after %v", took)
		}
		r.look() // returns at once, and asks nothing
		if err := r.ask(); err != nil || r.low() {
			t.Errorf("low before an answer came: %v", err)
		}
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("others wait for %v", took)
		}
		ended := make(chan struct{})
		go func() { r.close(); close(ended) }()
		close(hang)
		<-ended
		if !r.low() {
			t.Error("the answer does not count")
		}
	})
}
