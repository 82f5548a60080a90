package storage

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// BenchmarkNewURLs is the index of a polite crawl of a web without an end: pages of many hosts in
// turn, each with 16 links to URLs that nobody knew, spread over 65,536 folders a host. An op is a
// new URL, with its part of the outcomes. URLTREE_KNOWN (default 300,000) says how many it makes
// before it measures.
func BenchmarkNewURLs(b *testing.B) {
	known, _ := strconv.Atoi(os.Getenv("URLTREE_KNOWN"))
	if known == 0 {
		known = 300_000
	}
	for _, hosts := range []int{50, 10_000} {
		for _, pages := range []int{20, 300} {
			b.Run(fmt.Sprintf("hosts=%d/set=%d", hosts, pages), func(b *testing.B) {
				path := filepath.Join(b.TempDir(), "index.db")
				if err := Create(path); err != nil {
					b.Fatal(err)
				}
				x, err := Open(path, Options{NoSync: true})
				if err != nil {
					b.Fatal(err)
				}
				defer x.Close()
				if _, _, _, err := x.Begin(); err != nil {
					b.Fatal(err)
				}
				w := &endless{rng: rand.New(rand.NewPCG(1, 2)), hosts: hosts}
				done, err := x.Commit([]*Outcome{{Links: []Link{{URL: w.url(0), Source: Seed}}}})
				if err != nil {
					b.Fatal(err)
				}
				w.rows = done.Fresh
				for w.made < known {
					w.commit(b, x, 300)
				}
				w.made = 0
				b.ResetTimer()
				for w.made < b.N {
					w.commit(b, x, pages)
				}
			})
		}
	}
}

// An endless web, crawled in the order of discovery.
type endless struct {
	rng   *rand.Rand
	hosts int
	rows  []Row
	made  int
}

func (w *endless) url(host int) string {
	return fmt.Sprintf("http://127.1.%d.%d:9000/s%02x/t%02x/page-%d.html", host/250, host%250+1, w.rng.IntN(256), w.rng.IntN(256), w.rng.Uint32())
}

func (w *endless) commit(b *testing.B, x *Index, pages int) {
	set := make([]*Outcome, 0, pages)
	for len(set) < pages && len(w.rows) > 0 {
		row := w.rows[0]
		w.rows = w.rows[1:]
		host := w.rng.IntN(w.hosts)
		o := &Outcome{Row: row, State: Stored, Page: Page{Time: 1_700_000_000, Status: 200, Bytes: 2000, Digest: [32]byte{1}, Media: "text/html", Charset: "utf-8", Flags: "-"}}
		for i := range 16 {
			h := host
			if i%5 == 0 {
				h = w.rng.IntN(w.hosts)
			}
			o.Links = append(o.Links, Link{URL: w.url(h), Source: row.URL, Depth: row.Depth + 1})
		}
		set = append(set, o)
	}
	done, err := x.Commit(set)
	if err != nil {
		b.Fatal(err)
	}
	if len(w.rows) < 1<<16 {
		w.rows = append(w.rows, done.Fresh...)
	}
	w.made += done.New
}
