package disk

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// standStill is to be found in a stack.
//
//go:noinline
func standStill(until <-chan struct{}) error { <-until; return nil }

const url = "http://a.example/"

// spare is Disk for a call that is spared.
func spare(w *Watch, fn func() error) error {
	return w.begin("write", url, time.Minute, true, true).run(fn)
}

// ended is a context that has ended.
var ended = func() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}()

// TestWatch: a step that takes longer than it may is reported with the stack of its goroutine and
// of no other, and again when it has taken twice as long; it counts once. Between steps, and while
// a step waits for others, no time counts. Once the crawl is to end, a step is not waited for for
// ever.
func TestWatch(t *testing.T) {
	late := &Hang{"parse " + url, 0, false}
	lateDisk := &Hang{"write " + url, 0, true}
	for _, tt := range []struct {
		name string
		do   func(w *Watch, until <-chan struct{})
		over bool
		said string // what the first line of the log has; "": nothing
		hung *Hang
	}{
		{"in time", func(w *Watch, until <-chan struct{}) {
			for range 100 {
				w.Work("parse", url, 0, func(*Step) error { time.Sleep(59 * time.Second); return nil })
			}
			standStill(until)
		}, true, "", nil},
		{"late", func(w *Watch, until <-chan struct{}) {
			w.Work("parse", url, 0, func(*Step) error { return standStill(until) })
		}, false, `what="parse http://a.example/" for=1m5s stack="disk.standStill watch_test.go:`, nil},
		{"late at the end", func(w *Watch, until <-chan struct{}) {
			w.Work("parse", url, 0, func(*Step) error { return standStill(until) })
		}, true, `what="parse `, late},
		{"late disk at the end", func(w *Watch, until <-chan struct{}) {
			w.Disk("write", url, func() error { return standStill(until) })
		}, true, `what="write `, lateDisk},
		{"with more time", func(w *Watch, until <-chan struct{}) {
			w.Work("parse", url, time.Hour, func(*Step) error { return standStill(until) })
		}, false, `for=1h1m5s`, nil},
		{"waiting for others", func(w *Watch, until <-chan struct{}) {
			w.Work("parse", url, 0, func(at *Step) error {
				at.Wait(func() { standStill(until) })
				return nil
			})
		}, true, "", nil},
		{"late after waiting for others", func(w *Watch, until <-chan struct{}) {
			w.Work("parse", url, 0, func(at *Step) error {
				time.Sleep(59 * time.Second)
				at.Wait(func() {
					w.Disk("write", url, func() error { time.Sleep(59 * time.Second); return nil })
					time.Sleep(time.Hour)
				})
				return standStill(until)
			})
		}, true, `what="parse http://a.example/" for=1m5s stack="disk.standStill `, late},
		{"late behind a step inside", func(w *Watch, until <-chan struct{}) {
			w.Work("parse", url, 0, func(*Step) error {
				w.Disk("write", url, func() error { return nil })
				return standStill(until)
			})
		}, true, `what="parse http://a.example/" for=1m5s stack="disk.standStill `, late},
		{"spared", func(w *Watch, until <-chan struct{}) {
			spare(w, func() error { return standStill(until) })
		}, true, `what="write `, nil},
		{"spared until the very end", func(w *Watch, until <-chan struct{}) {
			w.close()
			spare(w, func() error { return standStill(until) })
		}, true, `what="write `, lateDisk},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				w := NewWatch(context.Background(), Limits{}, Space{}, slog.New(slog.NewTextHandler(&log, nil)))
				until := make(chan struct{})
				if tt.over {
					w.until = ended
				}
				go w.Work("parse", "", 1e6*time.Hour, func(*Step) error { <-until; return nil })
				var went atomic.Bool
				go func() {
					w.Work("parse", url, 0, func(*Step) error {
						go func() { <-until }() // has the label too
						return nil
					})
					tt.do(w, until)
					went.Store(true)
				}()
				ctx, cancel := context.WithCancel(t.Context())
				go w.run(ctx)
				time.Sleep(4 * time.Hour)
				cancel()
				synctest.Wait()
				if went.Load() {
					t.Error("it does not stand still")
				}
				close(until)
				synctest.Wait()
				first, more, _ := strings.Cut(log.String(), "\n")
				if (tt.said == "") != (first == "") || !strings.Contains(first, tt.said) {
					t.Errorf("it says\n%s\nwant %s", first, tt.said)
				}
				// After 2, 4, 9, 18, 37, 74 and 149 minutes; where it began later, fewer times.
				if n := strings.Count(more, "\n"); tt.said != "" && (n < 1 || n > 7) || tt.said == "" && n > 0 {
					t.Errorf("%d times more:\n%s", n, more)
				}
				if _, n := w.Figures(); n > 1 || (n == 1) != (tt.said != "") {
					t.Errorf("%d steps counted", n)
				}
				select {
				case h := <-w.hung:
					if tt.hung == nil || h.Step != tt.hung.Step || h.Disk != tt.hung.Disk || h.For <= 2*time.Minute {
						t.Errorf("hung: %+v, want %+v", h, tt.hung)
					}
				default:
					if tt.hung != nil {
						t.Errorf("it waits for ever, want %+v", tt.hung)
					}
				}
			})
		})
	}
}

// TestWatchOfAStoppedProcess: the time for which the process has been stopped, by Ctrl-Z or with
// its machine, does not count.
func TestWatchOfAStoppedProcess(t *testing.T) {
	var log bytes.Buffer
	w := NewWatch(context.Background(), Limits{}, Space{}, slog.New(slog.NewTextHandler(&log, nil)))
	w.until = ended
	w.begin("parse", "http://a.example/", time.Minute, false, false)
	now := time.Now().Add(time.Hour)
	for range 12 {
		w.look(now)
		now = now.Add(5 * time.Second)
	}
	if log.Len() > 0 || len(w.hung) > 0 {
		t.Errorf("reported too early: %s", &log)
	}
	for range 20 {
		w.look(now)
		now = now.Add(5 * time.Second)
	}
	if !strings.Contains(log.String(), `for=1m5s stack="not there any more"`) || len(w.hung) == 0 {
		t.Errorf("it says %s", &log)
	}
}

// TestWatchedFile: whatever a file of a Watch does is a step.
func TestWatchedFile(t *testing.T) {
	w := NewWatch(context.Background(), Limits{}, Space{}, slog.New(slog.DiscardHandler))
	steps := func() (n int) {
		for _, s := range w.steps {
			n += s.number
		}
		return n
	}
	name := filepath.Join(t.TempDir(), "a")
	var f *File
	var r io.ReadCloser
	for i, do := range []func() error{
		func() (err error) { f, err = w.Create(name); return err },
		func() error { _, err := io.WriteString(f, "text"); return err },
		func() error { return f.Sync() },
		func() error { return f.Commit() },
		func() (err error) { r, err = f.Open(); return err },
		func() error { _, err := r.Read(make([]byte, 10)); return err },
	} {
		if err := do(); err != nil || steps() != i+1 {
			t.Errorf("%d steps, want %d: %v", steps(), i+1, err)
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Open(); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestWatchAllocatesNothing: steps are for calls that each page makes several times.
func TestWatchAllocatesNothing(t *testing.T) {
	w := NewWatch(context.Background(), Limits{}, Space{}, slog.New(slog.DiscardHandler))
	n := 0
	if allocs := testing.AllocsPerRun(100, func() {
		_ = w.Disk("write", "name", func() error { n++; return nil })
	}); allocs > 0 {
		t.Errorf("%v allocations of a step", allocs)
	}
}

// TestGuard: Guard returns when what it calls has returned, or a step that hangs once its context
// has ended, in whose place that of fetching comes with Begin.
func TestGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWatch(context.Background(), Limits{}, Space{}, slog.New(slog.DiscardHandler))
		var calls string
		if hung := w.Guard(func() { calls += "run " }, func() { calls += "end" }); hung != nil || calls != "run end" {
			t.Errorf("%q was called: %v", calls, hung)
		}
		for _, begun := range []bool{false, true} {
			ctx, end := context.WithCancel(t.Context())
			w := NewWatch(ctx, Limits{}, Space{}, slog.New(slog.DiscardHandler))
			fetching, endFetching := context.WithCancel(t.Context())
			until, over := make(chan struct{}), make(chan struct{})
			returned := make(chan *Hang)
			go func() {
				returned <- w.Guard(func() {
					if begun {
						w.Begin(t.Context(), fetching)
					}
					_ = w.Disk("write", url, func() error { return standStill(until) })
				}, func() { close(over) })
			}()
			last := endFetching
			if begun {
				end()
			} else {
				endFetching()
				last = end
			}
			time.Sleep(time.Hour)
			select {
			case hung := <-returned:
				t.Errorf("begun %v: it did not wait for the end of the crawl: %v", begun, hung)
			default:
			}
			last()
			if hung := <-returned; hung == nil || hung.Step != "write "+url || !hung.Disk {
				t.Errorf("begun %v: %v", begun, hung)
			}
			end()
			endFetching()
			close(until)
			<-over
		}
	})
}
