package crawler_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"urltree/crawler"
)

// TestMemoryOfHeaders has 512 hosts send response headers of tiny lines at once. All have sent as
// much of them as is read before one of them goes on, to 240 KiB and without an end.
func TestMemoryOfHeaders(t *testing.T) {
	cmd := buildCommand(t)
	const hosts = 512
	var (
		lines              strings.Builder
		begun, sent, ended atomic.Int64
		all                = make(chan struct{})
		enough             = make(chan time.Time)
		over               = sync.OnceFunc(func() { close(enough) })
	)
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789-_"
	for i := 0; lines.Len() < 240<<10; i++ {
		fmt.Fprintf(&lines, "%c%c%c%c:\n", letters[i%len(letters)], letters[i/len(letters)%len(letters)], letters[i/len(letters)/len(letters)%len(letters)], 'a'+i/1000%26)
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		const most = 63 << 10
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n"+lines.String()[:most])
		if begun.Add(1) == hosts {
			close(all)
		}
		select {
		case <-all:
		case <-time.After(noHang):
		}
		_, _ = io.WriteString(c, lines.String()[most:])
		if sent.Add(1) == hosts {
			time.AfterFunc(20*time.Second, over) // if the crawler goes on to read
		}
		_, _ = c.Read(make([]byte, 1))
		if ended.Add(1) == hosts {
			over()
		}
	})
	var addresses []string
	for n := range hosts {
		addresses = append(addresses, fmt.Sprintf("127.0.%d.%d", 40+n/250, 1+n%250))
	}
	port := listen(t, handler, addresses...)
	dir := t.TempDir()
	var seeds strings.Builder
	for _, address := range addresses {
		fmt.Fprintf(&seeds, "http://%s:%d/\n", address, port)
	}
	if err := os.WriteFile(filepath.Join(dir, "seed.txt"), []byte(seeds.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	peak := cmd.watch(t, dir, enough, "-input", "seed.txt", "-crawlers", "64", "-downloads", "8", "-sync", "none", "-timeout", "10m",
		"-memory-bodies", "1MiB", "-buffer-bytes", "1MiB", "-frontier-memory", "1MiB", "-seen-memory", "1MiB")
	requireMemory(t, peak, crawler.Options{
		Resources: crawler.Resources{Crawlers: 64, Downloads: 8, Buffers: 6, MemoryBodies: 1 << 20, BufferBytes: 1 << 20, FrontierBytes: 1 << 20, SeenBytes: 1 << 20},
	})
	if n := begun.Load(); n < hosts {
		t.Errorf("%d hosts were asked at once, want %d", n, hosts)
	}
}
