package crawler_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"urltree/crawler"
	"urltree/internal/testweb"
	"urltree/storage/record"
)

// startHostile serves 200 hosts that do harm until the test ends.
func startHostile(t testing.TB, pace time.Duration, decent int) *hostileWeb {
	t.Helper()
	h := &hostileWeb{Pace: pace, Decent: decent}
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

// TestGoodBesideHostile: of 200 hosts half hold every connection for as long as the test lasts, the
// others do harm of other kinds. The good hosts beside them, held up until that is so, are crawled
// to their end meanwhile, and at the end no goroutine and no open file is left.
func TestGoodBesideHostile(t *testing.T) {
	startHostile(t, 0, 0).Stop() // what the runtime opens for the first connection stays open
	leaks, files := goleak.IgnoreCurrent(), descriptors(t, "self")
	hostile := startHostile(t, time.Hour, 5)
	web := serve(t, testweb.Options{Kind: testweb.Linked, Hosts: 30, Pages: sized(300, 60), Seed: 5, MaxSize: 3000, Latency: time.Millisecond})
	dir := t.TempDir()
	opts := options(dir, web)
	opts.Seeds = append(hostile.Seeds(), opts.Seeds...)
	// 100 hosts hold one download each: more than one crawler has none left.
	opts.Crawlers, opts.Downloads, opts.NoSync = 40, 4, true
	opts.Timeout = 2 * noHang // whoever is held is held to the end
	ctx, cancel := context.WithTimeout(t.Context(), noHang)
	defer cancel()
	beside := func() bool {
		bad, held := hostile.Counts()
		return bad >= 200 && held >= 80
	}
	var good atomic.Int64
	want := int64(len(web.Answer().Stored))
	isGood := func(url string) bool { return !strings.HasPrefix(url, "http://127.90.") }
	opts.Allow = func(c crawler.Candidate) bool {
		for isGood(c.URL) && ctx.Err() == nil && !beside() {
			<-time.After(time.Millisecond) // of servers, so real time
		}
		return true
	}
	opts.OnOutcome = func(o crawler.Outcome) {
		if o.State != record.Stored || !isGood(o.URL) {
			return
		}
		if good.Add(1) == want {
			if bad, held := hostile.Counts(); !beside() {
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
		bad, held := hostile.Counts()
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

// TestNoHostWaitsBehindAHeldOne: what a crawler has on its stack while all its downloads are held
// goes to others, long before these end.
func TestNoHostWaitsBehindAHeldOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var seeds []string
		for i := range 40 {
			seeds = append(seeds, fmt.Sprintf("http://h%d.test/", i))
		}
		others := int64(2*len(seeds) - 1)
		var held, stored atomic.Int64
		start, took := time.Now(), time.Duration(0)
		_, err := crawler.Run(ctx, crawler.Options{
			NoTree:     true,
			Seeds:      seeds,
			Resources:  crawler.Resources{Crawlers: 2, Downloads: 1},
			Politeness: crawler.Politeness{Delay: time.Minute, IgnoreRobots: true},
			HTTP:       crawler.HTTP{Timeout: time.Hour},
			Fetch: func(ctx context.Context, url string) (crawler.Content, error) {
				// After a minute all hosts have their turn at once, and a crawler takes half of
				// them.
				if strings.HasSuffix(url, "/next") && held.Add(1) == 1 {
					<-ctx.Done()
				}
				return crawler.Content{Media: "text/html", Body: []byte("<a href=/next>next</a>")}, ctx.Err()
			},
			OnOutcome: func(o crawler.Outcome) {
				if o.State == record.Stored && stored.Add(1) == others {
					took = time.Since(start)
					cancel()
				}
			},
		})
		if err != nil || took < time.Minute || took > 2*time.Minute {
			t.Errorf("%d of %d other pages, after %v; %v", stored.Load(), others, took, err)
		}
	})
}

// TestStopsAfterTheGrace: a crawl whose downloads do not end by themselves ends when they have had
// their ten seconds, however it is stopped, and not a moment later.
func TestStopsAfterTheGrace(t *testing.T) {
	for _, way := range []string{"stopped", "time is up"} {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const after, grace = time.Minute, 10 * time.Second
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				opts := crawler.Options{
					NoTree:     true,
					Seeds:      []string{"http://a.test/", "http://b.test/"},
					Politeness: crawler.Politeness{IgnoreRobots: true},
					HTTP:       crawler.HTTP{Timeout: time.Hour},
					Fetch: func(ctx context.Context, _ string) (crawler.Content, error) {
						<-ctx.Done()
						return crawler.Content{}, ctx.Err()
					},
				}
				if way == "stopped" {
					time.AfterFunc(after, cancel)
				} else {
					opts.Time = after
				}
				start := time.Now()
				result, err := crawler.Run(ctx, opts)
				if took := time.Since(start); err != nil || result.Ended != way || took != after+grace {
					t.Errorf("ended after %v, want %v: %+v, %v", took, after+grace, result, err)
				}
			})
		})
	}
}

// TestHostileLoad crawls 200 hosts that do harm and 40 good ones, with 512 downloads at a time,
// until all good pages and 500 bad ones have been asked for: memory stays within the limit, open
// files are no more than downloads, hosts and buffers need, and nothing is said. With
// TEST_URLTREE_LOAD=10m the good hosts may also take no more than twice the time that they take
// without the others, and it then crawls for that time with more requests to a host than there are
// downloads for.
func TestHostileLoad(t *testing.T) {
	cmd := buildCommand(t)
	load, pages, latency := time.Duration(0), 300, 10*time.Millisecond
	if text := os.Getenv("TEST_URLTREE_LOAD"); text != "" {
		var err error
		if load, err = time.ParseDuration(text); err != nil {
			t.Fatalf("TEST_URLTREE_LOAD: %v", err)
		}
		// The latency, and not the processor, says how long the good hosts take: the servers share
		// it.
		pages, latency = 20_000, 100*time.Millisecond
	}
	web := serve(t, testweb.Options{Kind: testweb.Linked, Hosts: 40, Pages: pages, Seed: 6, MaxSize: 20_000, Latency: latency})
	var alone loadRun
	if load > 0 {
		alone = runLoad(t, cmd, web, nil, 3, 0)
		t.Logf("alone: %s", alone)
		web.Reset()
	}
	hostile := startHostile(t, 20*time.Millisecond, 0)
	defer hostile.Stop()
	beside := runLoad(t, cmd, web, hostile, 3, 0)
	t.Logf("beside: %s", beside)
	if beside.good < pages {
		t.Errorf("%d of %d good pages were asked for", beside.good, pages)
	}
	if load > 0 {
		if beside.took > 2*alone.took {
			t.Errorf("the good hosts took %v beside the others, %v alone", beside.took, alone.took)
		}
		web.Reset()
		t.Logf("for %s: %s", load, runLoad(t, cmd, web, hostile, 8, load))
	}
}

// A loadRun is what was seen of one crawl.
type loadRun struct {
	memory int64         // most RssAnon, in bytes
	fifths [5]int64      // the same in MiB, in each fifth of the time, if that is given
	files  int           // most at once
	good   int           // pages of the good web that were asked for
	took   time.Duration // for those
	bad    int64         // requests for bad pages
	held   int64         // most of them at once that had no end
}

func (r loadRun) String() string {
	return fmt.Sprintf("%d good pages in %s, %d requests for bad ones, of which %d were held at once, %d open files, %d MiB of memory %d",
		r.good, r.took.Round(100*time.Millisecond), r.bad, r.held, r.files, r.memory>>20, r.fifths)
}

// runLoad crawls with so many requests to a host at a time, for a time or, if that is 0, until
// everything has been asked for, and looks at the process meanwhile.
func runLoad(t *testing.T, c command, web *testweb.Web, hostile *hostileWeb, perHost int, load time.Duration) (r loadRun) {
	t.Helper()
	dir := t.TempDir()
	seeds, all, before := web.Seeds(), len(web.Answer().Stored), int64(0)
	if hostile != nil {
		seeds = append(hostile.Seeds(), seeds...)
		before, _ = hostile.Counts()
	}
	file := filepath.Join(dir, "seed.txt")
	if err := os.WriteFile(file, []byte(strings.Join(seeds, "\n")), 0o666); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), load+noHang)
	defer cancel()
	args := []string{"-quiet", "-allow-private", "-input", file, "-per-host", strconv.Itoa(perHost), "-crawlers", "64", "-downloads", "8"}
	if load > 0 {
		// With a delay a crawler takes one URL of a host at a time, so that all downloads are held.
		args = append(args, "-delay", "1ms", "-time", load.String())
	} else {
		args = append(args, "-delay", "0", "-timeout", "5s")
	}
	cmd := exec.CommandContext(ctx, c.path, args...)
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
			requireMemory(t, r.memory, crawler.Options{
				Resources: crawler.Resources{Buffers: 6, BufferBytes: 16 << 20, MemoryBodies: 64 << 20, FrontierBytes: 64 << 20, SeenBytes: 256 << 20},
			})
			if most := 512 + perHost*240 + 50; r.files > most {
				t.Errorf("%d open files, at most %d were expected", r.files, most)
			}
			requireNoFaults(t, filepath.Join(dir, "iut"))
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
		if hostile != nil {
			bad, held := hostile.Counts()
			r.bad, r.held = bad-before, max(r.held, held)
		}
		if load == 0 && r.good == all && (hostile == nil || r.bad >= 500) && !enough {
			enough = true
			_ = cmd.Process.Kill() // as safe as any other end, and the fastest
		}
	}
}
