package crawler_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"urltree/crawler"
	"urltree/internal/ctl"
	"urltree/internal/inspect"
	"urltree/internal/testweb"
)

// TestLiveRate: stats beside a crawl shows the rate that Progress is called with.
func TestLiveRate(t *testing.T) {
	t.Parallel()
	web := serve(t, testweb.Options{Kind: testweb.Linked, Hosts: 4, Pages: 20_000, Seed: 41, MinSize: 300, MaxSize: 600, Latency: 20 * time.Millisecond})
	opts := options(t.TempDir(), web)
	opts.NoSync = true
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
	defer stop()
	var same atomic.Bool
	opts.Progress = func(p crawler.Progress) {
		if p.PerSecond == 0 || p.Phase != "fetch" || same.Load() {
			return
		}
		var answer strings.Builder
		if err := ctl.Call(ctx, opts.Tree, inspect.Question{Command: "stats"}, &answer); err != nil {
			t.Error(err)
		}
		_, want, _ := strings.Cut(p.String(), ", ") // without the pages
		want, _, _ = strings.Cut(want, "/s")
		if _, got, _ := strings.Cut(answer.String(), "\n\n"); !strings.Contains(got, ", "+want+"/s, ") {
			t.Errorf("stats lack %q: %s", want, answer.String())
		}
		same.Store(true)
		stop()
	}
	if _, err := crawler.Run(ctx, opts); err != nil {
		t.Fatal(err)
	}
	if !same.Load() {
		t.Error("no page was stored in a second")
	}
}
