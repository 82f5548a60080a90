package crawler_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"urltree/crawler"
	"urltree/internal/testseed"
	"urltree/internal/testweb"
)

// filterFigure returns a figure of the seen filter from statistics.txt; 0 if it has none.
func filterFigure(t testing.TB, dir, name string) float64 {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "statistics.txt"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(b), "\nSeen filter\n")
	if !ok {
		t.Fatalf("statistics.txt says nothing of the filter:\n%s", b)
	}
	for line := range strings.Lines(section) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	return 0
}

// TestSeenMemory crawls webs that the seen filter has no room for, in two runs, the second with
// what the first saved of the filter: the answer is the right one all the same, nothing is asked
// twice, and for a page the index is read a few times.
func TestSeenMemory(t *testing.T) {
	for _, tt := range []struct {
		pages   int
		memory  int64
		private float64 // known, and not asked for: that is faster
	}{{2400, 32 << 10, .75}, {20_000, 128 << 10, .02}, {60_000, 1 << 20, .5}} {
		if tt.pages > 2400 && !full() {
			continue
		}
		t.Run(fmt.Sprintf("%d pages %d KiB", tt.pages, tt.memory>>10), func(t *testing.T) {
			web := serve(t, testweb.Options{
				Kind: testweb.Linked, Hosts: 50, Pages: tt.pages, Seed: 51, MinSize: 500, MaxSize: 3000,
				Redirects: .03, NoIndex: .02, Private: tt.private,
			})
			answer := web.Answer().Stored
			dir := t.TempDir()
			opts := options(dir, web)
			opts.SeenBytes, opts.NoSync, opts.MaxPages = tt.memory, true, int64(len(answer))*3/4
			for _, ended := range []string{"page limit reached", "nothing left"} {
				result, err := crawler.Run(t.Context(), opts)
				if err != nil {
					t.Fatal(err)
				}
				if result.Ended != ended {
					t.Errorf("ended: %s, want %s", result.Ended, ended)
				}
				turned, reads, hits := filterFigure(t, dir, "parts beyond their memory, of 256"),
					filterFigure(t, dir, "for each page stored"), filterFigure(t, dir, "for a hit of a Bloom filter")
				t.Logf("%s: %v parts turned, %v reads of the index per page; %v Bloom hits, %v of them false", ended, turned, reads, hits,
					filterFigure(t, dir, "for a false positive of one"))
				if turned == 0 || hits == 0 || reads >= 10 {
					t.Errorf("%s: %v parts turned, %v reads of the index per page, %v Bloom hits", ended, turned, reads, hits)
				}
				opts.MaxPages = 0
			}
			requireChecked(t, dir)
			requireSame(t, crawled(t, opts.Output), answer)
			for url, n := range web.Requests() {
				if n > 1 {
					t.Errorf("%s was asked %d times", url, n)
				}
			}
		})
	}
}

// TestSeenMemoryUnderKill kills such a crawl now and then: each time the filter is made anew by a
// scan, with too little room again, while the crawl goes on.
func TestSeenMemoryUnderKill(t *testing.T) {
	cmd := buildCommand(t)
	pages, kills, memory := 2400, 3, "32KiB"
	if full() {
		pages, kills, memory = 20_000, 20, "128KiB"
	}
	web := serve(t, testweb.Options{Kind: testweb.Linked, Hosts: 20, Pages: pages, Seed: 52, MinSize: 500, MaxSize: 1500, Redirects: .03, Private: .5})
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "seed.txt"), []byte(strings.Join(web.Seeds(), "\n")), 0o666); err != nil {
		t.Fatal(err)
	}
	seed := testseed.Draw(t)
	r := rand.New(rand.NewPCG(seed, 0))
	run := func(life time.Duration) {
		ctx, cancel := context.WithTimeout(t.Context(), life)
		defer cancel()
		c := exec.CommandContext(ctx, cmd.path, "-quiet", "-delay", "0", "-allow-private", "-input", "seed.txt",
			"-seen-memory", memory, "-flush-interval", "50ms", "-buffer-size", "20", "-sync", "none")
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for range kills {
		run(time.Duration(200+r.IntN(400)) * time.Millisecond)
	}
	if _, err := os.Stat(filepath.Join(dir, "res.txt")); err == nil {
		t.Log("the last kill came after the end")
	}
	run(noHang)
	requireSame(t, crawled(t, filepath.Join(dir, "res.txt")), web.Answer().Stored)
	requireChecked(t, dir)
	if turned := filterFigure(t, dir, "parts beyond their memory, of 256"); turned == 0 {
		t.Error("the filter had room for all")
	}
}
