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

	"urltree/storage/record"
)

// A hangingStore does not come back until it is let go.
type hangingStore struct {
	until chan struct{}
}

var errRead = errors.New("read")

func (s hangingStore) Refill(string, time.Time, int, func(string) bool) ([]record.Row, error) {
	standStill(s.until)
	return make([]record.Row, 1), errRead
}

func (s hangingStore) NextDue(string, func(string) bool) (int64, error) {
	standStill(s.until)
	return 1, errRead
}

func (s hangingStore) NextHosts(string, int) ([]record.HostRow, uint64, error) {
	standStill(s.until)
	return make([]record.HostRow, 1), 1, errRead
}

func (s hangingStore) HostAt(string) (record.HostRow, uint64, error) {
	standStill(s.until)
	return record.HostRow{Run: 1}, 1, errRead
}

func (s hangingStore) Sitemaps(string, time.Time, int, func(string) bool) ([]record.Sitemap, int64, error) {
	standStill(s.until)
	return make([]record.Sitemap, 1), 1, errRead
}

func (s hangingStore) OpenChildren(_, _ []byte, _ int) ([]record.Child, []byte, error) {
	standStill(s.until)
	return make([]record.Child, 1), []byte{1}, errRead
}

func (s hangingStore) OpenOf([][]byte) ([]record.Child, error) {
	standStill(s.until)
	return make([]record.Child, 1), errRead
}

// TestReadings: whatever the frontier reads, a disk that holds it up is told of, and the end of the
// crawl does not wait for it for ever. What was read comes through.
func TestReadings(t *testing.T) {
	for name, read := range map[string]func(r *readings) (int, error){
		"Refill": func(r *readings) (int, error) {
			rows, err := r.Refill("a.test", time.Now(), 1, nil)
			return len(rows), err
		},
		"NextDue": func(r *readings) (int, error) {
			due, err := r.NextDue("a.test", nil)
			return int(due), err
		},
		"NextHosts": func(r *readings) (int, error) {
			hosts, tx, err := r.NextHosts("", 1)
			return len(hosts) * int(tx), err
		},
		"HostAt": func(r *readings) (int, error) {
			h, tx, err := r.HostAt("a.test")
			return int(h.Run) * int(tx), err
		},
		"Sitemaps": func(r *readings) (int, error) {
			list, due, err := r.Sitemaps("a.test", time.Now(), 1, nil)
			return len(list) * int(due), err
		},
		"OpenChildren": func(r *readings) (int, error) {
			list, next, err := r.OpenChildren(nil, nil, 1)
			return len(list) * len(next), err
		},
		"OpenOf": func(r *readings) (int, error) {
			list, err := r.OpenOf(nil)
			return len(list), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				d := newWatchdog(stepLimits{}, slog.New(slog.NewTextHandler(&log, nil)))
				r := d.readings(hangingStore{make(chan struct{})}, 1)
				done := make(chan struct{})
				var n int
				var err error
				go func() {
					n, err = read(r)
					close(done)
				}()
				synctest.Wait()
				d.ends()
				ctx, stop := context.WithCancel(t.Context())
				go d.run(ctx)
				time.Sleep(3 * time.Minute)
				stop()
				synctest.Wait()
				if text := log.String(); !strings.Contains(text, `who="frontier, reading 1" what="read the index: `) || !strings.Contains(text, "crawler.standStill ") {
					t.Errorf("told %q", text)
				}
				if len(d.hung) == 0 {
					t.Error("it waits for ever")
				}
				close(r.of.(hangingStore).until)
				<-done
				if n != 1 || err != errRead {
					t.Errorf("read %d, %v", n, err)
				}
			})
		})
	}
}
