package crawler_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"urltree/crawler"
)

// TestProgressLine checks what the line of the progress has, and that it leaves out what matters
// least where it is to be short.
func TestProgressLine(t *testing.T) {
	t.Parallel()
	p := crawler.Progress{
		Left: 9*time.Hour + 58*time.Minute + 59*time.Second, Pages: 1234, Bytes: 56e6, Failed: 12, Pending: 5678, Held: 3,
		Hosts: 7, PerSecond: 12.4, Mean: 9.5, Phase: "fetch", Waiting: "3 hosts resting, next in 2s",
	}
	all := "1234 pages, 12/s, 5678 waiting, 12 failed, 3 hosts resting, next in 2s, stops in 9h58m, 3 held, 7 hosts, 56.0 MB, mean 9.5/s"
	if got := p.Line(0); got != all {
		t.Errorf("%q, want %q", got, all)
	}
	for width, want := range map[int]string{
		200: all,
		80:  "1234 pages, 12/s, 5678 waiting, 12 failed, 3 hosts resting, next in 2s, 3 held",
		20:  "1234 pages, 12/s, 56",
	} {
		if got := p.Line(width); got != want {
			t.Errorf("%d: %q, want %q", width, got, want)
		}
	}
	p.Pages, p.Pending, p.Waiting = 1_234_567_890, 98_765_432, ""
	if got, want := p.String(), "1.23G pages, 12/s, 98.8M waiting, 12 failed, stops in 9h58m, 3 held, 7 hosts"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	p.Phase, p.Pages = "drain", 1
	if got, want := p.String(), "1 page, 12/s, 98.8M waiting, 12 failed, emptying the buffers, 3 held, 7 hosts"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestProgressOfAsking checks what the line of a run with External has.
func TestProgressOfAsking(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]crawler.Progress{
		"looking for what pages refer to: 25 of 100 pages":       {Phase: "scan", Read: 25, Size: 100},
		"0 of 30 targets asked, 0/s, 1 host resting, next in 2s": {Phase: "fetch", Pending: 30, Waiting: "1 host resting, next in 2s"},
		"10 of 30 targets asked, 12/s, 5s left":                  {Phase: "fetch", Pages: 10, Pending: 20, PerSecond: 12, Mean: 4},
		"30 of 30 targets asked, 0/s, emptying the buffers":      {Phase: "drain", Pages: 30, Mean: 4},
	} {
		p.External = true
		if got := p.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestProgressOfImport checks what the line of an import has.
func TestProgressOfImport(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]crawler.Progress{
		"looking through the archives, 25 % of 4.0 MB":         {Phase: "scan", Read: 1e6, Size: 4e6},
		"7 pages, 12/s, 0 % of 4.0 MB":                         {Phase: "fetch", Size: 4e6, Pages: 7, PerSecond: 12, Elapsed: time.Minute},
		"7 pages, 12/s, 25 % of 4.0 MB, 3m left":               {Phase: "fetch", Read: 1e6, Size: 4e6, Pages: 7, PerSecond: 12, Elapsed: time.Minute},
		"7 pages, 12/s, 100 % of 4.0 MB, emptying the buffers": {Phase: "drain", Read: 4e6, Size: 4e6, Pages: 7, PerSecond: 12, Elapsed: time.Minute},
	} {
		if got := p.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got := p.Line(9); got != want[:9] {
			t.Errorf("%q, want %q", got, want[:9])
		}
	}
}

// TestProgressHeld: held URLs are not among the pending ones of Progress.
func TestProgressHeld(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	told := make(chan struct{}) // closed once Progress has seen all that is held
	origins := hosts(t, 2, func(host int, rw http.ResponseWriter, r *http.Request) {
		if host == 0 {
			fmt.Fprint(rw, "<a href=/not/1><a href=/not/2><a href=/not/3>")
			return
		}
		select { // its URL is pending meanwhile
		case <-told:
		case <-ctx.Done():
		}
	})
	dir, seen := t.TempDir(), false
	opts := crawler.Options{
		Tree:       filepath.Join(dir, "iut"),
		Output:     filepath.Join(dir, "res.txt"),
		Storage:    crawler.Storage{NoSync: true},
		Seeds:      []string{origins[0] + "/", origins[1] + "/"},
		Politeness: crawler.Politeness{Delay: -1},
		HTTP:       crawler.HTTP{AllowPrivate: true},
		Resources:  crawler.Resources{FlushInterval: 10 * time.Millisecond},
		Allow:      func(c crawler.Candidate) bool { return !strings.Contains(c.URL, "/not/") },
		Progress: func(p crawler.Progress) {
			if p.Held < 3 || seen {
				return
			}
			seen = true
			close(told)
			if p.Held != 3 || p.Pending != 1 {
				t.Errorf("%d pending and %d held, want 1 and 3", p.Pending, p.Held)
			}
		},
	}
	if _, err := crawler.Run(ctx, opts); err != nil {
		t.Fatal(err)
	}
	if !seen {
		t.Error("Progress was not called while 3 URLs were held")
	}
}
