package crawler

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"urltree/iut"
)

// standStill is to be found in a stack.
//
//go:noinline
func standStill(until <-chan struct{}) { <-until }

// TestWatchdog: a step that takes longer than it may is told of with the stack of its goroutine and
// of no other, and again when it has taken twice as long; it counts once. Resting and waiting for a
// limit of our own are no steps; once fetching is over the watchdog does not wait for a step for
// ever.
func TestWatchdog(t *testing.T) {
	const url = "http://a.example/"
	for _, tt := range []struct {
		name string
		do   func(p *post, until <-chan struct{})
		over bool
		told string // what the first line of the log has; "": nothing
		hung error
	}{
		{"in time", func(p *post, until <-chan struct{}) {
			for range 100 {
				p.step("ask for", url, time.Minute)
				time.Sleep(59 * time.Second)
			}
			p.rest()
			standStill(until)
		}, true, "", nil},
		{"late", func(p *post, until <-chan struct{}) {
			p.step("parse", url, time.Minute)
			standStill(until)
		}, false, `who="crawler 1" what="parse http://a.example/" for=1m5s stack="crawler.standStill watchdog_test.go:`, nil},
		{"late at the end", func(p *post, until <-chan struct{}) {
			p.step("parse", url, time.Minute)
			standStill(until)
		}, true, `what="parse `, ErrStuck},
		{"late disk at the end", func(p *post, until <-chan struct{}) {
			p.atDisk("store", url)
			standStill(until)
		}, true, `what="store `, iut.ErrDisk},
		{"waiting for a limit", func(p *post, until <-chan struct{}) {
			p.step("ask for", url, time.Minute)
			p.waits(true)
			standStill(until)
			p.waits(false)
		}, true, "", nil},
		{"late after waiting for a limit", func(p *post, until <-chan struct{}) {
			p.step("ask for", url, time.Minute)
			p.waits(true)
			time.Sleep(time.Hour)
			p.waits(false)
			standStill(until)
		}, false, `what="ask for http://a.example/" for=1m5s`, nil},
		{"long work that goes on", func(p *post, until <-chan struct{}) {
			p.atDisk("open", url)
			ctx := p.working(t.Context())
			for range 120 {
				time.Sleep(59 * time.Second)
				_ = context.Cause(ctx) // which asks as ctx.Err does
			}
			p.rest()
			standStill(until)
		}, true, "", nil},
		{"long work that stands still", func(p *post, until <-chan struct{}) {
			p.atDisk("open", url)
			ctx := p.working(t.Context())
			for range 60 {
				time.Sleep(59 * time.Second)
				_ = ctx.Err()
			}
			standStill(until)
		}, true, `what="open http://a.example/" for=1m5s`, iut.ErrDisk},
		{"late, and nobody waits for it", func(p *post, until <-chan struct{}) {
			p.spared.Store(true)
			p.atDisk("ask", url)
			standStill(until)
		}, true, `what="ask `, nil},
		{"between two steps", func(p *post, until <-chan struct{}) {
			p.atDisk("store", url)
			p.atDisk("", "")
			standStill(until)
		}, true, "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				d := newWatchdog(stepLimits{}, slog.New(slog.NewTextHandler(&log, nil)))
				until := make(chan struct{})
				if tt.over {
					d.ends()
				}
				go d.post("crawler 2").do(func() error { <-until; return nil })
				at := d.post("crawler 1")
				go at.do(func() error {
					child := make(chan struct{}) // has the label too
					go func() { <-until; close(child) }()
					tt.do(at, until)
					<-child
					return nil
				})
				ctx, cancel := context.WithCancel(t.Context())
				go d.run(ctx)
				time.Sleep(3 * time.Hour)
				cancel()
				close(until)
				synctest.Wait()
				first, more, _ := strings.Cut(log.String(), "\n")
				if (tt.told == "") != (first == "") || !strings.Contains(first, tt.told) {
					t.Errorf("it tells\n%s\nwant %s", first, tt.told)
				}
				// After 2, 4, 9, 18, 37 and 74 minutes, and 149 where there is time for it.
				if n := strings.Count(more, "\n"); tt.told != "" && n != 6 && n != 7 || tt.told == "" && n > 0 {
					t.Errorf("%d times more:\n%s", n, more)
				}
				if n := d.stuck.Load(); n > 1 || (n == 1) != (tt.told != "") {
					t.Errorf("%d steps counted", n)
				}
				select {
				case err := <-d.hung:
					if tt.hung == nil || !errors.Is(err, tt.hung) || !errors.Is(err, ErrStuck) {
						t.Errorf("hung: %v, want %v", err, tt.hung)
					}
				default:
					if tt.hung != nil {
						t.Errorf("it waits for ever, want %v", tt.hung)
					}
				}
			})
		})
	}
}

// TestWatchdogOfAStoppedProcess: when the process has been stopped for a while, by Ctrl-Z or with
// its machine, its steps begin anew.
func TestWatchdogOfAStoppedProcess(t *testing.T) {
	var log bytes.Buffer
	d := newWatchdog(stepLimits{}, slog.New(slog.NewTextHandler(&log, nil)))
	d.post("crawler 1").step("parse", "http://a.example/", time.Minute)
	now := time.Now().Add(time.Hour)
	for range 12 {
		d.look(now, true)
		now = now.Add(5 * time.Second)
	}
	if log.Len() > 0 || len(d.hung) > 0 {
		t.Errorf("told too early: %s", &log)
	}
	for range 20 {
		d.look(now, true)
		now = now.Add(5 * time.Second)
	}
	if !strings.Contains(log.String(), `for=1m5s stack="not there any more"`) || len(d.hung) == 0 {
		t.Errorf("told %s", &log)
	}
}
