package storage

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"urltree/storage/record"
)

// BenchmarkNewURLs is the index of a polite crawl: pages of many hosts in turn, each with 16 links
// to URLs that nobody knew, 13 of them on its own host. "Scattered" is a web without an end, whose
// links lie in any of 65,536 folders of a host; on "sites" those of a page to its own host lie in
// one folder, as those of a table of contents do. An op is a new URL, with its part of the
// outcomes.
//
// TEST_URLTREE_KNOWN (default 300,000) says how many URLs there are before it measures. Of one
// core, times are CPU time (µs/URL), since the disk is not waited for.
func BenchmarkNewURLs(b *testing.B) {
	known, _ := strconv.Atoi(os.Getenv("TEST_URLTREE_KNOWN"))
	if known == 0 {
		known = 300_000
	}
	for _, hosts := range []int{50, 10_000} {
		for _, kind := range []string{"scattered", "sites"} {
			for _, pages := range []int{20, 300} {
				b.Run(fmt.Sprintf("hosts=%d/%s/set=%d", hosts, kind, pages), func(b *testing.B) {
					w := newEndless(b, hosts, kind == "sites")
					for w.made < known {
						w.commit(b, 300)
					}
					w.made = 0
					start := cpuTime(b)
					b.ResetTimer()
					for w.made < b.N {
						w.commit(b, pages)
					}
					b.ReportMetric(float64(cpuTime(b)-start)/float64(time.Microsecond)/float64(w.made), "µs/URL")
				})
			}
		}
	}
}

// inboxOf returns the number in TEST_URLTREE_INBOX, by default 1,000.
func inboxOf() int {
	if n, err := strconv.Atoi(os.Getenv("TEST_URLTREE_INBOX")); err == nil {
		return n
	}
	return 1000
}

// cpuTime is what the process has used, user and system.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// An endless web, crawled in the order of discovery.
type endless struct {
	index *Index
	rng   *rand.Rand
	hosts int
	sites bool
	rows  []record.Row
	made  int // URLs
}

func newEndless(b *testing.B, hosts int, sites bool) *endless {
	path := filepath.Join(b.TempDir(), "index.db")
	if err := Create(path); err != nil {
		b.Fatal(err)
	}
	x, err := Open(path, Options{NoSync: true, Inbox: inboxOf()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { x.Close() })
	x.Filter().SetComplete() // nothing is in the index
	if _, _, _, err := x.Runs().Begin(); err != nil {
		b.Fatal(err)
	}
	w := &endless{index: x, rng: rand.New(rand.NewPCG(1, 2)), hosts: hosts, sites: sites}
	done, err := x.Commit([]*record.Outcome{{Links: []record.Link{{URL: w.url(0, 0), Source: record.Seed}}}})
	if err != nil {
		b.Fatal(err)
	}
	w.rows = done.Fresh
	return w
}

func (w *endless) url(host, folder int) string {
	return fmt.Sprintf("http://127.1.%d.%d:9000/s%02x/t%02x/page-%d.html", host/250, host%250+1, folder>>8, folder&0xff, w.rng.Uint32())
}

func (w *endless) commit(b *testing.B, pages int) {
	set := make([]*record.Outcome, 0, pages)
	for len(set) < pages && len(w.rows) > 0 {
		row := w.rows[0]
		w.rows = w.rows[1:]
		host, folder := w.rng.IntN(w.hosts), w.rng.IntN(1<<16)
		o := &record.Outcome{Row: row, State: record.Stored, Page: record.Page{
			Time: 1_700_000_000, Status: 200, Bytes: 2000, Digest: [32]byte{1}, Media: "text/html", Charset: "utf-8", Flags: "-",
		}}
		for i := range 16 {
			h, f := host, folder
			if i%5 == 0 {
				h = w.rng.IntN(w.hosts)
			}
			if i%5 == 0 || !w.sites {
				f = w.rng.IntN(1 << 16)
			}
			o.Links = append(o.Links, record.Link{URL: w.url(h, f), Source: row.URL, Depth: row.Depth + 1})
		}
		set = append(set, o)
	}
	done, err := w.index.Commit(set)
	if err != nil {
		b.Fatal(err)
	}
	if len(w.rows) < 1<<16 {
		w.rows = append(w.rows, done.Fresh...)
	}
	w.made += done.New
}
