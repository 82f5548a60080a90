package frontier

import (
	"fmt"
	"testing"

	"urltree/storage/record"
)

// A torn window lets another crawler in between looking at the first row and taking it out.
type torn struct {
	window
	between func()
}

func (w *torn) pop() record.Row {
	row := *w.first()
	w.between()
	w.window.pop()
	return row
}

// TestNoLock is source D's experiment: without mutual exclusion two crawlers take the same URL,
// and another URL is taken by none.
func TestNoLock(t *testing.T) {
	for _, lock := range []bool{true, false} {
		t.Run(fmt.Sprintf("lock %v", lock), func(t *testing.T) {
			const urls = 20
			f, err := New(Options{Store: newStore(), PerLoan: 1, PerHost: 2})
			if err != nil {
				t.Fatal(err)
			}
			var rows []record.Row
			for i := range uint64(urls) {
				rows = append(rows, row("a.example", 0, i))
			}
			f.Add(rows, 1)
			taken := map[uint64]int{}
			note := func(loans []*Loan) {
				for _, l := range loans {
					for _, r := range l.Rows {
						taken[r.Seq]++
					}
				}
			}
			inside := false
			h := f.hosts.byName["a.example"]
			h.win = &torn{h.win, func() {
				if inside {
					return // the other crawler
				}
				inside = true
				defer func() { inside = false }()
				if !lock { // what the lock would have prevented happens now
					f.mu.Unlock()
					defer f.mu.Lock()
				}
				loans, _ := f.TryTake(1)
				note(loans)
				for _, l := range loans {
					f.Return(l, nil)
				}
			}}
			for range urls {
				loans, ok := f.TryTake(1)
				if !ok {
					break
				}
				note(loans)
				for _, l := range loans {
					f.Return(l, nil)
				}
			}
			twice := 0
			for _, n := range taken {
				if n > 1 {
					twice++
				}
			}
			t.Logf("of %d URLs %d are taken twice, %d by none", urls, twice, urls-len(taken))
			if lock && (twice > 0 || len(taken) < urls) {
				t.Errorf("with the lock: %v", taken)
			}
			if !lock && (twice == 0 || len(taken) == urls) {
				t.Errorf("without the lock no URL was taken twice, and none missed: %v", taken)
			}
		})
	}
}

// A told window counts the rows that it is told of.
type told struct {
	window
	rows, most int
}

func (w *told) merge(rows []record.Row, left func(r *record.Row)) {
	w.rows += len(rows)
	w.most = max(w.most, len(rows))
	w.window.merge(rows, left)
}

// TestLockIsShort: however much there is, what is done under the lock at once has a bound, so
// the wait for it has one.
func TestLockIsShort(t *testing.T) {
	const hosts, rows, crawlers, free = 400, 8, 4, 8
	for _, o := range allOrders() {
		t.Run(o.name, func(t *testing.T) {
			s := newStore()
			f := start(t, s, o.options(Options{Crawlers: crawlers, PerLoan: 5}))
			var all []record.Row
			for i := range hosts * rows {
				all = append(all, row(fmt.Sprintf("h%d.example", i%hosts), 0, uint64(i)))
			}
			for i := range uint64(3 * maxRows / 2) {
				all = append(all, row("large.example", 0, hosts*rows+i))
			}
			h := f.hostLocked("large.example")
			large := &told{window: h.win}
			h.win = large
			f.Add(all, 1)
			h.win = large.window
			if large.rows != 3*maxRows/2 || large.most > maxRows {
				t.Errorf("%d rows of one host, up to %d at once; want %d, %d", large.rows, large.most, 3*maxRows/2, maxRows)
			}
			loans, ok := f.TryTake(free)
			lent := 0
			for _, l := range loans {
				lent += len(l.Rows) + len(l.Held)
			}
			if !ok || len(loans) > free+f.opts.Share || lent > len(loans)*5 {
				t.Errorf("one call lends %d rows of %d hosts", lent, len(loans))
			}
			for _, h := range f.hosts.byName {
				if h.win.len() > maxRows {
					t.Errorf("a window of %d rows", h.win.len())
				}
			}
		})
	}
}
