package crawler_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"urltree/crawler"
)

// TestLongLinksMeetNoFullDisk has pages in flight of which each adds a tenth of the room to the
// index, when the room becomes too little: transactions wait for more, and when there is some the
// crawl goes on to its end. A crawl that is to end does not wait.
func TestLongLinksMeetNoFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 16,000 long links: not with -short")
	}
	t.Parallel()
	const pages = 16
	for _, way := range []string{"room", "stop"} {
		t.Run(way, func(t *testing.T) {
			var asked sync.WaitGroup // no page is answered before all are asked for
			asked.Add(pages)
			var first atomic.Int64
			origin := hosts(t, 1, func(_ int, rw http.ResponseWriter, r *http.Request) {
				if first.Add(1) <= pages {
					asked.Done()
					asked.Wait()
				}
				fmt.Fprintf(rw, "<base href='%s%s/'>", r.URL.Path, strings.Repeat("/"+strings.Repeat("folder-", 25), 10))
				for i := range 1000 {
					fmt.Fprintf(rw, "<a href='%d'>", i)
				}
			})[0]
			dir := t.TempDir()
			disk := mountSmall(t, "size=80m") // what is to stay free is 74.6 MiB
			opts := crawler.Options{
				Tree:       filepath.Join(disk.path, "iut"),
				Output:     filepath.Join(dir, "res.txt"),
				Limits:     crawler.Limits{MaxPages: pages},
				Storage:    crawler.Storage{NoSync: true},
				Politeness: crawler.Politeness{Delay: -1, PerHost: pages},
				HTTP:       crawler.HTTP{AllowPrivate: true},
				Resources:  crawler.Resources{Crawlers: 4, Downloads: 4, Buffers: 1, BufferSize: 20, BufferBytes: 128 << 10, MemoryBodies: 2 << 20, SeenBytes: 1 << 20},
				Ordering:   crawler.Ordering{Pick: "single"},
			}
			for i := range pages {
				opts.Seeds = append(opts.Seeds, fmt.Sprintf("%s/%d", origin, i))
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			waited := false
			opts.Progress = func(p crawler.Progress) {
				switch {
				case waited || !strings.Contains(p.Waiting, "what was fetched waits for"):
					return
				case way == "room":
					disk.resize("size=2g")
				default:
					stop()
				}
				waited = true
			}
			result, err := crawler.Run(ctx, opts)
			if !waited {
				t.Fatalf("it never waited for room: %+v, %v", result, err)
			}
			if way == "stop" {
				if err != nil { // what was in the buffers needed more room than there was
					requireDiskError(t, err, syscall.ENOSPC)
				}
				requireNoFaults(t, opts.Tree)
				disk.resize("size=2g")
				opts.MaxPages = max(pages-result.Total.Stored, 1)
				result, err = crawler.Run(t.Context(), opts)
			}
			if err != nil || result.Total.Stored < pages {
				t.Errorf("%s, %d pages: %v", result.Ended, result.Total.Stored, err)
			}
		})
	}
}
