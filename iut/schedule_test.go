package iut_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"urltree/internal/frontier"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// yieldingRows is an index that lets others run before and after it reads for the frontier.
type yieldingRows struct{ storage.Queues }

func (y yieldingRows) Refill(host string, now time.Time, pages, sitemaps int, skip func(id string) bool) ([]record.Row, int64, error) {
	yield()
	defer yield()
	return y.Queues.Refill(host, now, pages, sitemaps, skip)
}

// A small crawl, on 1 to 8 threads and with others let in between the steps: frontier, buffers that
// hold more than ever comes, builders, tree, committer, index. Only an idle frontier flushes. Every
// page is taken once, nobody hears of the end before all is done, and everybody does.
func TestCrawlSchedules(t *testing.T) {
	rounds := 1
	if os.Getenv("TEST_URLTREE_FULL") != "" {
		rounds = 50
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for threads := 1; threads <= 8; threads++ {
		runtime.GOMAXPROCS(threads)
		for round := range rounds {
			t.Run(fmt.Sprintf("%d threads, round %d", threads, round), crawlOnce)
		}
	}
}

func crawlOnce(t *testing.T) {
	const pages, crawlers = 40, 6
	// Page n names 2n+1, 2n+2 and the first page; three hosts share them.
	url := func(n int) string { return fmt.Sprintf("https://h%d.example/p%d", n%3, n) }
	number := map[string]int{}
	for n := range pages {
		number[url(n)] = n
	}
	root := t.TempDir()
	tree, index := open(t, root, onFS(yielding{disk(t, root, iut.SyncNone)})), newIndex(t)
	pending(t, index, seedLink(url(0)))
	var pl *pipeline
	f, err := frontier.New(frontier.Options{Store: yieldingRows{index.Queues()}, Live: 1, Crawlers: crawlers, PerLoan: 2, Idle: func() {
		for _, b := range pl.buffers {
			yield()
			b.Flush()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	pl = &pipeline{tree: tree, index: index, size: 1000, after: func(set []*iut.Item, c storage.Committed) {
		yield()
		f.Add(c.Fresh, c.Tx)
		var done []frontier.Done
		for i, it := range set {
			done = append(done, frontier.Done{Row: it.Row, Next: c.Next[i]})
		}
		yield()
		f.Done(done, nil)
	}}
	pl.start(2)

	var mu sync.Mutex
	var taken []int // guarded by mu
	ask := func(crawler int, row record.Row) {
		n := number[row.URL]
		mu.Lock()
		taken = append(taken, n)
		mu.Unlock()
		it := itemOf(&iut.Page{Facts: iut.Facts{URL: row.URL, Source: row.Source}, Body: fmt.Append(nil, n)})
		it.Row = row
		for _, to := range []int{2*n + 1, 2*n + 2, 0} {
			if to < pages {
				it.Links = append(it.Links, record.Link{URL: url(to), Source: row.URL, Depth: row.Depth + 1})
			}
		}
		if err := pl.add(crawler%2, it); err != nil {
			t.Errorf("add: %v", err)
		}
		if f.Starved() {
			pl.buffers[crawler%2].Flush()
		}
	}
	var crawling sync.WaitGroup
	for c := range crawlers {
		crawling.Go(func() {
			for {
				loans, err := f.Taker().Take(pl.ctx, 1)
				if err != nil {
					if left := index.Totals().Pending(); !errors.Is(err, io.EOF) || left > 0 {
						t.Errorf("crawler %d ends while %d pages are left: %v", c, left, err)
					}
					return
				}
				for _, l := range loans {
					rows := l.Rows
					if len(rows) > 1 && rows[0].Seq%2 == 0 {
						rows = rows[:1] // the rest goes back, and is taken again
					}
					for _, row := range rows {
						yield()
						ask(c, row)
					}
					f.Return(l, l.Rows[len(rows):])
				}
			}
		})
	}
	crawling.Wait()
	if err := pl.end(); err != nil {
		t.Error(err)
	}
	slices.Sort(taken)
	if len(taken) != pages || len(slices.Compact(taken)) != pages {
		t.Errorf("%d pages were taken: %v, want each of %d once", len(taken), taken, pages)
	}
	if n := index.Totals().Stored; n != pages {
		t.Errorf("%d pages are stored, want %d", n, pages)
	}
	requireSound(t, index)
}
