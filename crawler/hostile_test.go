package crawler_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"urltree/crawler"
	"urltree/internal/testweb"
	"urltree/storage"
)

// startHostile serves 200 hosts that do harm until the test ends.
func startHostile(t testing.TB, pace time.Duration, decent int) *testweb.Hostile {
	t.Helper()
	h := &testweb.Hostile{Pace: pace, Decent: decent}
	if err := h.Start(200); err != nil {
		t.Fatal(err)
	}
	return h
}

// descriptors counts the open files of a process.
func descriptors(t testing.TB, pid string) int {
	list, err := os.ReadDir(filepath.Join("/proc", pid, "fd"))
	if err != nil {
		t.Skip("no /proc to count open files in")
	}
	return len(list)
}

// TestGoodBesideHostile: of 200 hosts half hold every connection for as long as the test lasts, the others
// do harm of other kinds. The good hosts beside them are crawled to their end meanwhile, and at
// the end no goroutine and no open file is left.
func TestGoodBesideHostile(t *testing.T) {
	leaks, files := goleak.IgnoreCurrent(), descriptors(t, "self")
	hostile := startHostile(t, time.Hour, 5)
	web := serve(t, testweb.Options{Kind: testweb.Linked, Hosts: 30, Pages: 300, Seed: 5, MaxSize: 3000, Latency: time.Millisecond})
	dir := t.TempDir()
	opts := options(dir, web)
	opts.Seeds = append(hostile.Seeds(), opts.Seeds...)
	// 100 hosts hold one download each: more than one crawler has none left.
	opts.Crawlers, opts.Downloads, opts.NoSync = 40, 4, true
	opts.Timeout = 2 * noHang // whoever is held is held to the end
	ctx, cancel := context.WithTimeout(t.Context(), noHang)
	defer cancel()
	var good atomic.Int64
	want := int64(len(web.Answer().Stored))
	opts.OnOutcome = func(o crawler.Outcome) {
		if o.State != storage.Stored || strings.HasPrefix(o.URL, "http://127.90.") {
			return
		}
		if good.Add(1) == want {
			if bad, held, _ := hostile.Counts(); bad < 200 || held < 80 {
				t.Errorf("the good hosts were done after %d requests for bad pages, with %d of them held: not beside each other", bad, held)
			}
			go hostile.Stop() // so that nothing has to be waited for
			cancel()
		}
	}
	if _, err := crawler.Run(ctx, opts); err != nil {
		t.Fatal(err)
	}
	hostile.Stop()
	if good.Load() != want {
		bad, held, _ := hostile.Counts()
		t.Fatalf("%d of %d good pages stored; %d requests for bad ones, %d held", good.Load(), want, bad, held)
	}
	web.Stop()
	requireChecked(t, dir)
	if err := goleak.Find(leaks); err != nil {
		t.Error(err)
	}
	if n := descriptors(t, "self"); n > files {
		t.Errorf("%d open files before, %d at the end", files, n)
	}
}

// TestHostileLoad crawls 200 hosts that do harm and 40 good ones with 512 downloads at a time: memory stays
// within the limit, open files are no more than downloads, hosts and buffers ask for, and nothing is said. It
// ends when all good pages and 500 bad ones have been asked for. With URLTREE_LOAD=10m it takes
// that time, and tells how long the good hosts took, and how long without the others.
func TestHostileLoad(t *testing.T) {
	cmd := buildCommand(t)
	load, pages := time.Duration(0), 300
	if text := os.Getenv("URLTREE_LOAD"); text != "" {
		var err error
		if load, err = time.ParseDuration(text); err != nil {
			t.Fatalf("URLTREE_LOAD: %v", err)
		}
		pages = 20_000
	}
	web := serve(t, testweb.Options{Kind: testweb.Linked, Hosts: 40, Pages: pages, Seed: 6, MaxSize: 20_000, Latency: 10 * time.Millisecond})
	if load > 0 {
		alone := runLoad(t, cmd, t.TempDir(), web, nil, load)
		t.Logf("alone: %s", alone)
		web.Reset()
	}
	hostile := startHostile(t, 20*time.Millisecond, 0)
	defer hostile.Stop()
	dir := t.TempDir()
	beside := runLoad(t, cmd, dir, web, hostile, load)
	bad, _, most := hostile.Counts()
	t.Logf("beside %d requests for bad pages, at most %d held at once: %s", bad, most, beside)
	if beside.good < pages {
		t.Errorf("%d of %d good pages were asked for", beside.good, pages)
	}
	requireMemory(t, beside.memory, crawler.Options{
		Buffers: 6, BufferBytes: 16 << 20, MemoryBodies: 64 << 20, FrontierBytes: 64 << 20, SeenBytes: 256 << 20,
	})
	if most := 512 + 3*240 + 50; beside.files > most {
		t.Errorf("%d open files, at most %d were expected", beside.files, most)
	}
	requireNoFaults(t, filepath.Join(dir, "iut"))
}

// A loadRun is what was seen of one crawl.
type loadRun struct {
	memory int64    // most RssAnon, in bytes
	fifths [5]int64 // the same in each fifth of the time, if that is given
	files  int      // most at once
	good   int      // pages of the good web that were asked for
	took   time.Duration
}

func (r loadRun) String() string {
	return fmt.Sprintf("%d good pages in %s, at most %d MiB of memory (%d by fifths of the time) and %d open files",
		r.good, r.took.Round(100*time.Millisecond), r.memory>>20, r.fifths, r.files)
}

// runLoad crawls for a time and looks at the process meanwhile. Without a time, or without hostile
// hosts, it ends as soon as everything has been asked for.
func runLoad(t *testing.T, c command, dir string, web *testweb.Web, hostile *testweb.Hostile, load time.Duration) (r loadRun) {
	t.Helper()
	seeds, all := web.Seeds(), len(web.Answer().Stored)
	if hostile != nil {
		seeds = append(hostile.Seeds(), seeds...)
	}
	file := filepath.Join(dir, "seed.txt")
	if err := os.WriteFile(file, []byte(strings.Join(seeds, "\n")), 0o666); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), load+noHang)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.path, "-quiet", "-delay", "0", "-allow-private", "-input", file,
		"-crawlers", "64", "-downloads", "8", "-per-host", "3", "-timeout", "5s", "-time", max(load, noHang).String())
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	start, enough := time.Now(), false
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil && !enough || stderr.Len() > 0 {
				t.Fatalf("%v, %v; with -quiet it said\n%s", err, ctx.Err(), stderr.Bytes()[:min(stderr.Len(), 2000)])
			}
			return r
		case <-tick.C:
		}
		now := rssAnon(cmd.Process.Pid)
		r.memory = max(r.memory, now)
		if at := time.Since(start); at < load {
			fifth := &r.fifths[5*at/load]
			*fifth = max(*fifth, now>>20)
		}
		if list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", cmd.Process.Pid)); err == nil {
			r.files = max(r.files, len(list))
		}
		if n := web.Asked(); n > r.good {
			r.good, r.took = n, time.Since(start)
		}
		bad := int64(500)
		if hostile != nil {
			bad, _, _ = hostile.Counts()
		}
		if (load == 0 || hostile == nil) && r.good == all && bad >= 500 && !enough {
			enough = true
			_ = cmd.Process.Kill() // as safe as any other end, and the fastest
		}
	}
}
