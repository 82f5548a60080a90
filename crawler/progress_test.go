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
		Tree: filepath.Join(dir, "iut"), Output: filepath.Join(dir, "res.txt"), NoSync: true,
		Seeds: []string{origins[0] + "/", origins[1] + "/"}, Delay: -1, AllowPrivate: true, FlushInterval: 10 * time.Millisecond,
		Allow: func(c crawler.Candidate) bool { return !strings.Contains(c.URL, "/not/") },
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
