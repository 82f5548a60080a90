package fetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestFirstByte(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
	late := func(c net.Conn, request string) {
		say(ok+"\r\nabc")(c, request)
		<-time.After(300 * time.Millisecond)
		say("def")(c, request)
	}
	for _, tt := range []struct {
		name         string
		first, whole time.Duration
		answer       func(net.Conn, string)
		failure      string // its text, or ""
	}{
		{"silent", 100 * time.Millisecond, time.Minute, sayAndHold(""), "no first byte in 100ms"},
		{"half a header", 100 * time.Millisecond, time.Minute, sayAndHold("HTTP/1.1 200 OK\r\n"), "no first byte in 100ms"},
		{"the body may be later", 150 * time.Millisecond, time.Minute, late, ""},
		{"but not later than all", 50 * time.Millisecond, 150 * time.Millisecond, late, "no complete answer in 150ms"},
		{"longer than all", time.Hour, 100 * time.Millisecond, sayAndHold(""), "no complete answer in 100ms"},
		{"none", 0, 100 * time.Millisecond, sayAndHold(""), "no complete answer in 100ms"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t, Options{FirstByte: tt.first, Timeout: tt.whole})
				res, err := c.Get(t.Context(), inMemory(t, c, tt.answer)+"/", Request{})
				if tt.failure == "" {
					if err != nil || string(res.Body.Bytes()) != "abcdef" {
						t.Fatalf("got %+v, %v", res, err)
					}
					res.Body.Release()
					return
				}
				wantFailure(t, res, err, Timeout, true)
				if !strings.Contains(err.Error(), tt.failure) {
					t.Errorf("got %v, want %s", err, tt.failure)
				}
			})
		})
	}
}

func TestSlowBodies(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
	burst := func(c net.Conn, request string) { sayAndHold(ok+"\r\n"+strings.Repeat("x", 50_000))(c, request) }
	for _, tt := range []struct {
		name    string
		minRate int64
		answer  func(net.Conn, string)
		reason  string
	}{
		{"drips", 1000, drip(ok+"\r\n", "x"), Timeout},
		{"silent", 1000, sayAndHold(ok + "\r\n"), Timeout},
		{"silent after a good beginning", 1000, burst, Timeout},
		{"fast without end", 1000, drip(ok+"\r\n", strings.Repeat("x", 60_000)), TooLarge},
		{"small and at once", 1 << 62, say(ok + "\r\nx"), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t, Options{MinRate: tt.minRate, Timeout: time.Hour, MaxSize: 100_000})
				if c.limits.least < tt.minRate || c.limits.window != 10*time.Second {
					t.Errorf("limits %+v", c.limits)
				}
				res, err := c.Get(t.Context(), inMemory(t, c, tt.answer)+"/", Request{KeepBroken: true})
				if tt.reason == "" {
					if err != nil {
						t.Fatal(err)
					}
					res.Body.Release()
					return
				}
				wantFailure(t, res, err, tt.reason, tt.reason == Timeout)
			})
		})
	}
}

// TestOurRateIsNotTheHosts: what our own limit slows down is neither too slow nor late, and the
// host is not charged for it.
func TestOurRateIsNotTheHosts(t *testing.T) {
	const size, limit = 160 << 10, 2 << 10
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, Options{LimitRate: limit, MinRate: 1 << 20})
		start := time.Now()
		head := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n", size)
		res, err := c.Get(t.Context(), inMemory(t, c, say(head+string(page(size))))+"/", Request{})
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Release()
		took := time.Since(start)
		if least := time.Second * (size - rateBurst) / limit; took < least || least < 3*c.limits.window {
			t.Errorf("%d bytes took %v, want at least %v, which are three windows of %v", size, took, least, c.limits.window)
		}
		if res.Total > 0 {
			t.Errorf("the host is charged %v of %v", res.Total, took)
		}
	})
}

// TestWatch tests the limits exactly, on a clock that nothing disturbs.
func TestWatch(t *testing.T) {
	const s = time.Second
	limit := limits{whole: 60 * s, first: 5 * s, least: 100, window: 10 * s}
	type step struct {
		wait  time.Duration
		bytes int           // that come then
		pause time.Duration // for a limit of ours, after them
	}
	for _, tt := range []struct {
		name   string
		header time.Duration // when it comes
		steps  []step
		ends   time.Duration // when the request is given up, pauses included
	}{
		{"no header", 10 * s, nil, 5 * s},
		{"no byte", 4 * s, nil, 14 * s},
		{"enough in each window", 4 * s, []step{{9 * s, 100, 0}, {9 * s, 100, 0}, {9 * s, 100, 0}, {9 * s, 100, 0}, {9 * s, 100, 0}}, 60 * s},
		{"one byte too few", 0, []step{{9 * s, 100, 0}, {9 * s, 99, 0}}, 20 * s},
		{"in two parts", 0, []step{{1 * s, 50, 0}, {8 * s, 50, 0}}, 20 * s},
		{"much does not count twice", 0, []step{{1 * s, 100_000, 0}}, 20 * s},
		{"in the next window only", 0, []step{{1 * s, 100, 0}, {10 * s, 100, 0}}, 30 * s},
		{"pauses do not count", 0, []step{{1 * s, 50, 100 * s}, {8 * s, 50, 50 * s}}, 170 * s},
		{"nor a pause that passes all", 4 * s, []step{{1 * s, 1, 1000 * s}}, 1014 * s},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWatch(t.Context(), limit)
				defer w.stop()
				start := time.Now()
				sleep := func(d time.Duration) bool {
					select {
					case <-time.After(d):
						return true
					case <-w.ctx.Done():
						return false
					}
				}
				if sleep(tt.header) {
					w.read()
					for _, st := range tt.steps {
						if !sleep(st.wait) {
							break
						}
						w.count(st.bytes)
						if st.pause > 0 {
							_ = w.pause(func(context.Context) error { time.Sleep(st.pause); return nil })
						}
					}
				}
				<-w.ctx.Done()
				if took := time.Since(start); took != tt.ends {
					t.Errorf("ends after %v, want %v", took, tt.ends)
				}
				wantFailure(t, nil, w.fail(errors.New("canceled")), Timeout, true)
			})
		})
	}
}

// TestSetLimitRate: another limit counts at once, also for a body that waits for the one before.
func TestSetLimitRate(t *testing.T) {
	const size = 512 << 10
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, Options{LimitRate: 1}) // 18 hours for each 64 KiB but the first
		start := time.Now()
		time.AfterFunc(time.Hour, func() { c.SetLimitRate(1 << 10) })
		time.AfterFunc(time.Hour+time.Minute, func() { c.SetLimitRate(0) })
		head := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n", size)
		res, err := c.Get(t.Context(), inMemory(t, c, say(head+string(page(size))))+"/", Request{})
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Release()
		if took, want := time.Since(start), time.Hour+time.Minute; took != want {
			t.Errorf("the body took %v, want %v", took, want)
		}
		if res.Total > 0 {
			t.Errorf("the host is charged %v", res.Total)
		}
		c.SetLimitRate(1 << 10)
		start = time.Now()
		if res, err = c.Get(t.Context(), inMemory(t, c, say(head+string(page(size))))+"/", Request{}); err != nil {
			t.Fatal(err)
		}
		res.Body.Release()
		if took, least := time.Since(start), time.Second*(size-rateBurst)>>10; took < least {
			t.Errorf("the next one took %v, want at least %v", took, least)
		}
	})
}
