package crawler_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"urltree/crawler"
	"urltree/internal/testweb"
	"urltree/iut"
)

// noHang is how long a crawl of these tests may take on a busy machine.
const noHang = 3 * time.Minute

// full reports whether the long forms of tests are asked for.
func full() bool { return os.Getenv("TEST_URLTREE_FULL") != "" }

// sized returns a number of a test, or with -short another one.
func sized(usual, short int) int {
	if testing.Short() {
		return short
	}
	return usual
}

// listen serves addresses on one port, which it gives, until the test ends.
func listen(t testing.TB, handler http.Handler, addresses ...string) (port int) {
	t.Helper()
	server := &http.Server{Handler: handler}
	var serving sync.WaitGroup
	t.Cleanup(func() {
		_ = server.Close()
		serving.Wait()
	})
	for _, address := range addresses {
		l, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
		if err != nil {
			t.Fatal(err)
		}
		port = l.Addr().(*net.TCPAddr).Port
		serving.Go(func() { _ = server.Serve(l) })
	}
	return port
}

// A command is the crawl command as a process of its own: the race detector of the tests would
// take more memory than what is measured.
type command struct{ path string }

func buildCommand(t testing.TB) command {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the command and crawls for several seconds")
	}
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("no /proc to read the memory of a process from")
	}
	c := command{filepath.Join(t.TempDir(), "crawler")}
	build := exec.Command("go", "build", "-o", c.path, "urltree/cmd/crawler")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return c
}

// run crawls to the end and gives the most anonymous memory that was seen, in bytes.
func (c command) run(t testing.TB, dir string, args ...string) (peak int64) {
	t.Helper()
	return c.watch(t, dir, nil, args...)
}

// watch is run, but the crawl is killed when enough gives something.
func (c command) watch(t testing.TB, dir string, enough <-chan time.Time, args ...string) (peak int64) {
	t.Helper()
	return c.measure(t, dir, enough, append([]string{"-quiet", "-delay", "0", "-allow-private"}, args...)...)
}

// measure is watch for any command line.
func (c command) measure(t testing.TB, dir string, enough <-chan time.Time, args ...string) (peak int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), noHang)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.path, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil || ctx.Err() != nil {
				t.Fatalf("%v, %v\n%s", err, ctx.Err(), &stderr)
			}
			return peak
		case <-enough:
			_ = cmd.Process.Kill() // as safe as any other end, and the fastest
			<-ended
			return peak
		case <-tick.C:
			peak = max(peak, rssAnon(cmd.Process.Pid))
		}
	}
}

// rssAnon returns the anonymous memory of a process in bytes, 0 if there is none to be read.
func rssAnon(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, text, _ := strings.Cut(string(status), "RssAnon:")
	text, _, _ = strings.Cut(text, "kB")
	kib, _ := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return kib << 10
}

// requireMemory compares what a command took with the limit that its options give.
func requireMemory(t testing.TB, peak int64, opts crawler.Options) {
	t.Helper()
	limit := opts.Memory()
	t.Logf("peak %s, limit %s", crawler.Bytes(peak), crawler.Bytes(limit))
	if peak > limit {
		t.Errorf("%d bytes of own memory, the limit is %d", peak, limit)
	}
	if peak < 1<<20 {
		t.Errorf("%d bytes of own memory: not measured", peak)
	}
}

// TestMemoryOfLargePages fetches 60 pages of 16 MiB at once: none is ended before all are half
// fetched. A buffer takes less than any of them.
func TestMemoryOfLargePages(t *testing.T) {
	cmd := buildCommand(t)
	const hosts, size = 60, 16 << 20
	for _, tt := range []struct {
		name string
		unit int // bytes between two links
	}{
		{"text", 64 << 10},
		{"links", 4 << 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			words := strings.Repeat("words of a page ", tt.unit/16)
			page := []byte("<!DOCTYPE html><meta charset=utf-8>")
			links := 0
			for ; len(page)+tt.unit+100 < size; links++ {
				page = fmt.Appendf(page, "<p>%s<a href='/a/b/c/page-%d.html'>next</a>\n", words, links)
			}
			page = append(page, strings.Repeat(" ", size-len(page))...)
			var half sync.WaitGroup
			half.Add(hosts)
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/" {
					http.NotFound(w, r)
					return
				}
				w.Header().Set("Content-Type", "text/html")
				w.Header().Set("Content-Length", strconv.Itoa(size))
				_, _ = w.Write(page[:size/2])
				half.Done()
				half.Wait()
				_, _ = w.Write(page[size/2:])
			})
			var addresses []string
			for n := range hosts {
				addresses = append(addresses, fmt.Sprintf("127.0.1.%d", n+1))
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
			peak := cmd.run(t, dir, "-input", "seed.txt", "-max-depth", "0", "-crawlers", "15", "-downloads", "4", "-timeout", "2m",
				"-memory-bodies", "8MiB", "-buffer-bytes", "1KiB", "-frontier-memory", "1MiB", "-seen-memory", "16MiB", "-sync", "none")
			requireMemory(t, peak, crawler.Options{
				Resources: crawler.Resources{Buffers: 6, MemoryBodies: 8 << 20, BufferBytes: 1 << 10, FrontierBytes: 1 << 20, SeenBytes: 16 << 20},
			})
			if n := len(crawled(t, filepath.Join(dir, "res.txt"))); n != hosts {
				t.Errorf("%d pages stored, want %d", n, hosts)
			}
			if n := len(crawled(t, filepath.Join(dir, "res2.txt"))); n != 1+hosts*links {
				t.Errorf("%d lines in res2.txt, want %d", n, 1+hosts*links)
			}
		})
	}
}

// TestMemoryOfManyLinks fetches pages that are nothing but links, all of them different: the first
// of each page count, and the page says that there are more.
func TestMemoryOfManyLinks(t *testing.T) {
	cmd := buildCommand(t)
	var page []byte
	for n := 0; len(page) < 16<<20-100; n++ {
		page = fmt.Appendf(page, "<a href='%d'>x</a>", n)
	}
	port := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/robots.txt":
			http.NotFound(w, r)
		case r.URL.Path == "/":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<a href=/a/><a href=/b/>")
		default:
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write(page)
		}
	}), "127.0.1.1")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "seed.txt"), fmt.Appendf(nil, "http://127.0.1.1:%d/\n", port), 0o666); err != nil {
		t.Fatal(err)
	}
	peak := cmd.run(t, dir, "-input", "seed.txt", "-max-depth", "1", "-per-host", "2", "-sync", "none")
	requireMemory(t, peak, crawler.Options{
		Resources: crawler.Resources{Buffers: 6, BufferBytes: 16 << 20, MemoryBodies: 64 << 20, FrontierBytes: 64 << 20, SeenBytes: 256 << 20},
	})
	if n := len(crawled(t, filepath.Join(dir, "res.txt"))); n != 3 {
		t.Errorf("%d pages stored, want 3", n)
	}
	requireLine(t, filepath.Join(dir, "res.txt"), fmt.Sprintf("http://127.0.1.1:%d/a/", port), "\tc\t")
}

// TestMemoryOfManyHosts crawls 10,000 hosts, which a proxy plays.
func TestMemoryOfManyHosts(t *testing.T) {
	cmd := buildCommand(t)
	hosts, pages := 10_000, 1
	if full() {
		pages = 10
	}
	port := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch {
		case r.URL.Path == "/robots.txt":
			http.NotFound(w, r)
		case r.Host == "hub.test":
			for n := range hosts {
				fmt.Fprintf(w, "<a href='http://h%d.test/'>", n)
			}
		case r.URL.Path == "/":
			for n := range pages - 1 {
				fmt.Fprintf(w, "<a href='/page/%d'>", n)
			}
		}
	}), "127.0.0.1")
	dir := t.TempDir()
	peak := cmd.run(t, dir, "-proxy", fmt.Sprintf("http://127.0.0.1:%d", port),
		"-memory-bodies", "1MiB", "-buffer-bytes", "1MiB", "-frontier-memory", "1MiB", "-seen-memory", "8MiB", "-sync", "none",
		"http://hub.test/")
	requireMemory(t, peak, crawler.Options{
		Resources: crawler.Resources{Buffers: 6, MemoryBodies: 1 << 20, BufferBytes: 1 << 20, FrontierBytes: 1 << 20, SeenBytes: 8 << 20},
	})
	if n := len(crawled(t, filepath.Join(dir, "res.txt"))); n != 1+hosts*pages {
		t.Errorf("%d pages stored, want %d", n, 1+hosts*pages)
	}
}

// TestLeastMemory crawls with each limit at its least value: slower, and to the same end.
func TestLeastMemory(t *testing.T) {
	t.Parallel()
	web := serve(t, testweb.Options{Kind: testweb.Linked, Hosts: 12, Pages: 300, Seed: 41, MinSize: 500, MaxSize: 100 << 10, Redirects: .05})
	for _, tt := range []struct {
		name string
		set  func(*crawler.Options)
	}{
		{"bytes of buffers", func(o *crawler.Options) { o.BufferBytes = 1 << 10 }},
		{"one byte", func(o *crawler.Options) { o.BufferBytes = 1 }},
		{"one item", func(o *crawler.Options) { o.BufferSize = 1 }},
		{"bodies", func(o *crawler.Options) { o.MemoryBodies = 64 << 10 }},
		{"frontier and filter", func(o *crawler.Options) { o.FrontierBytes, o.SeenBytes = 64<<10, 1<<20 }},
		{"all of them", func(o *crawler.Options) {
			o.BufferBytes, o.BufferSize, o.MemoryBodies, o.FrontierBytes, o.SeenBytes = 1, 1, 64<<10, 64<<10, 1<<20
		}},
	} {
		if testing.Short() && tt.name != "all of them" {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			opts := options(dir, web)
			opts.NoSync = true
			tt.set(&opts)
			ctx, cancel := context.WithTimeout(t.Context(), noHang)
			defer cancel()
			result, err := crawler.Run(ctx, opts)
			if err != nil {
				t.Fatal(err)
			}
			if result.Ended != "nothing left" {
				t.Errorf("ended: %s", result.Ended)
			}
			requireSame(t, crawled(t, opts.Output), web.Answer().Stored)
			requireChecked(t, dir)
		})
	}
}

// A slowDisk takes one file to be written, or one sync, at each tick.
type slowDisk struct {
	iut.FS
	tick    <-chan time.Time
	written atomic.Int64 // bytes of bodies
}

func (d *slowDisk) Open(name string, flag int) (iut.File, error) {
	f, err := d.FS.Open(name, flag)
	if err != nil || flag&os.O_CREATE == 0 {
		return f, err
	}
	<-d.tick
	return &slowFile{f, d, strings.HasSuffix(name, "/content.html")}, nil
}

func (d *slowDisk) SyncAll() error {
	<-d.tick
	return d.FS.SyncAll()
}

type slowFile struct {
	iut.File
	disk *slowDisk
	body bool
}

func (f *slowFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	if f.body {
		f.disk.written.Add(int64(n))
	}
	return n, err
}

// TestSlowDisk has a disk that is much slower than the web: fetching slows down to its speed,
// and what is between the two stays within the limits.
func TestSlowDisk(t *testing.T) {
	t.Parallel()
	pages := sized(1200, 400)
	const (
		hosts, size       = 8, 16 << 10
		crawlers, bodies  = 8, 256 << 10
		buffers, buffered = 2, 128 << 10
		// What the server has sent and nobody has read is at most one page for each download.
		limit = bodies + buffers*buffered + crawlers*size
	)
	dir := t.TempDir()
	root := filepath.Join(dir, "iut")
	if err := os.Mkdir(root, 0o777); err != nil {
		t.Fatal(err)
	}
	real, err := iut.OpenDisk(root, iut.SyncNone)
	if err != nil {
		t.Fatal(err)
	}
	defer real.Close()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	disk := &slowDisk{FS: real, tick: ticker.C}

	var sent, most atomic.Int64
	body := bytes.Repeat([]byte("0123456789abcde\n"), size/16)
	var addresses []string
	for n := range hosts {
		addresses = append(addresses, fmt.Sprintf("127.0.2.%d", n+1))
	}
	port := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		between := sent.Add(size) - disk.written.Load()
		for old := most.Load(); between > old && !most.CompareAndSwap(old, between); old = most.Load() {
		}
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", strconv.Itoa(size))
		_, _ = w.Write(body)
	}), addresses...)
	opts := crawler.Options{
		Tree:       root,
		Output:     filepath.Join(dir, "res.txt"),
		Politeness: crawler.Politeness{Delay: -1},
		Storage:    crawler.Storage{FS: disk, NoSync: true},
		Resources:  crawler.Resources{Crawlers: crawlers, Downloads: 1, MemoryBodies: bodies, Buffers: buffers, BufferBytes: buffered},
	}
	for n := range pages {
		opts.Seeds = append(opts.Seeds, fmt.Sprintf("http://%s:%d/%d", addresses[n%hosts], port, n))
	}
	ctx, cancel := context.WithTimeout(t.Context(), noHang)
	defer cancel()
	if _, err := crawler.Run(ctx, opts); err != nil || ctx.Err() != nil {
		t.Fatal(errors.Join(err, ctx.Err()))
	}
	t.Logf("at most %d bytes between web and disk of %d in all", most.Load(), pages*size)
	if most.Load() > limit {
		t.Errorf("%d bytes were sent and not yet written, the limit is %d", most.Load(), limit)
	}
	if n := len(crawled(t, opts.Output)); n != pages || disk.written.Load() != int64(pages*size) {
		t.Errorf("%d pages stored and %d bytes written, want %d and %d", n, disk.written.Load(), pages, pages*size)
	}
}

// TestMemoryOfManySeeds takes 60 MB of seeds, and goes on without them. They would not fit beside
// what else has to be in memory.
func TestMemoryOfManySeeds(t *testing.T) {
	cmd := buildCommand(t)
	dir := t.TempDir()
	const seeds = 8_000
	var list bytes.Buffer
	for n := range seeds {
		fmt.Fprintf(&list, "http://127.0.0.%d:1/%d/%s\n", 1+n%50, n, strings.Repeat("x", 7500))
	}
	if err := os.WriteFile(filepath.Join(dir, "seed.txt"), list.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{
		"-time", "10ms", "-retries", "0", "-scope", "prefix", "-crawlers", "1", "-downloads", "1", "-buffers", "1", "-memory-bodies", "1MiB", "-buffer-bytes", "1MiB",
		"-frontier-memory", "1MiB", "-seen-memory", "1MiB", "-sync", "none",
	}
	limit := crawler.Options{Resources: crawler.Resources{Crawlers: 1, Downloads: 1, Buffers: 1, MemoryBodies: 1 << 20, BufferBytes: 1 << 20, FrontierBytes: 1 << 20, SeenBytes: 1 << 20}}
	requireMemory(t, cmd.run(t, dir, append(args, "-input", "seed.txt")...), limit)
	requireMemory(t, cmd.run(t, dir, args...), limit)
	if kept, err := os.ReadFile(filepath.Join(dir, "iut", "seeds.txt")); err != nil || !bytes.Equal(kept, list.Bytes()) {
		t.Errorf("seeds.txt has %d bytes, %v; the list has %d", len(kept), err, list.Len())
	}
	pending, err := os.ReadFile(filepath.Join(dir, "res2.txt"))
	if n := bytes.Count(pending, []byte("\n")) - 1; err != nil || n < seeds/2 {
		t.Errorf("%d URLs are pending, %v", n, err)
	}
}
