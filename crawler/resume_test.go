package crawler

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"urltree/cleaner"
	"urltree/storage/record"
)

// TestResumeReads: what is read of the index before the first URL is taken does not grow with the
// number of URLs that are known, waiting or held; the filter and what was held come while the crawl
// goes on.
func TestResumeReads(t *testing.T) {
	t.Parallel()
	const few, hosts = 700, 40
	// Rows that a killed run may leave in the inbox, of two lists whose length SeenBytes bounds.
	const inbox = 4400
	for _, order := range Orders {
		for _, unclean := range []bool{false, true} {
			if unclean && order == OrderPriority || testing.Short() && (unclean || order != OrderBreadth) {
				continue
			}
			t.Run(fmt.Sprintf("%s, unclean %v", order, unclean), func(t *testing.T) {
				var looked [2]int64
				for i, known := range []int{few, 10 * few} {
					opts := Options{
						Tree:       filepath.Join(t.TempDir(), "iut"),
						Seeds:      []string{"http://host-0.test/"},
						Ordering:   Ordering{Order: order},
						Resources:  Resources{FrontierBytes: 64 << 10, SeenBytes: 128 << 10},
						Politeness: Politeness{Delay: -1, IgnoreRobots: true},
						Storage:    Storage{NoSync: true},
					}
					givenUp := knowMany(t, opts, known, hosts, unclean)
					e := openEngine(t, opts)
					if e.store.index.Filter().Complete() {
						t.Error("the filter was made before the first URL is taken")
					}
					loans, err := e.frontier.Taker().Take(t.Context(), 3)
					if err != nil || len(loans) == 0 {
						t.Fatalf("Take: %d loans, %v", len(loans), err)
					}
					if n := e.store.index.Stats().Written; n > 30 {
						t.Errorf("%d pages of the index were written before the first URL is taken", n)
					}
					looked[i] = e.store.index.Stats().Looked
					// Of so small a filter a part may be full by chance, and does not count what it
					// takes then.
					if err := e.fillFilter(t.Context()); err != nil || !e.store.index.Filter().Complete() || e.store.index.Filter().Len() < known+1-known/50 {
						t.Errorf("filter: %v, %d URLs, want %d or little less", err, e.store.index.Filter().Len(), known+1)
					}
					before := e.frontier.Stats().Eligible
					if err := e.releaseHeld(t.Context()); err != nil {
						t.Fatal(err)
					}
					if got := e.frontier.Stats().Eligible - before; got != int64(givenUp) {
						t.Errorf("%d URLs came that had been held, want %d", got, givenUp)
					}
				}
				if grown := looked[1] - looked[0]; grown > 10+inbox || looked[1] > 20*hosts+inbox {
					t.Errorf("%d keys were looked at with %d URLs known, %d with %d", looked[0], few, looked[1], 10*few)
				}
			})
		}
	}
}

// openEngine opens a tree as Run does. What Run starts afterwards is not there.
func openEngine(t *testing.T, opts Options) *engine {
	t.Helper()
	opts, err := opts.defaults()
	if err != nil {
		t.Fatal(err)
	}
	e := newEngine(t.Context(), opts, cleaner.Files{})
	e.ends.fetching, e.ends.stop = context.WithCancelCause(t.Context())
	t.Cleanup(func() {
		e.ends.stop(nil)
		if err := e.close(); err != nil {
			t.Error(err)
		}
	})
	if err := e.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

// knowMany makes a tree with so many known URLs: of seven, two are held, one for its budget and one
// since its host was given up; it gives the number of the latter.
func knowMany(t *testing.T, opts Options, known, hosts int, unclean bool) (givenUp int) {
	t.Helper()
	if unclean {
		opts.Order = OrderBreadth // which leaves rows in the inbox
	}
	opts, err := opts.defaults()
	if err != nil {
		t.Fatal(err)
	}
	e := newEngine(t.Context(), opts, cleaner.Files{})
	if err := e.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	var links []record.Link
	for n := range known {
		l := record.Link{URL: fmt.Sprintf("http://host-%d.test/%d", n%hosts, n), Source: "http://host-0.test/", Depth: 1}
		if n/hosts%7 == 0 {
			l.Held = heldRepeat
		}
		links = append(links, l)
	}
	var fresh []record.Row
	for some := range slices.Chunk(links, 100) {
		done, err := e.store.index.Commit([]*record.Outcome{{Links: some}})
		if err != nil {
			t.Fatal(err)
		}
		fresh = append(fresh, done.Fresh...)
	}
	var set []*record.Outcome
	for i, row := range fresh {
		if i/hosts%6 == 0 {
			o := &record.Outcome{Row: row, State: record.Pending, Next: row}
			o.Next.Range, o.Next.Reason = record.Held, "host given up"
			set = append(set, o)
		}
	}
	if _, err := e.store.index.Commit(set); err != nil {
		t.Fatal(err)
	}
	if !unclean {
		if _, err := e.store.index.Runs().Finish(); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.close(); err != nil {
		t.Fatal(err)
	}
	return len(set)
}
