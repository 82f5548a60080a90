package score_test

import (
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"urltree/internal/frontier"
	"urltree/internal/frontier/queue"
	"urltree/internal/score"
	"urltree/storage"
	"urltree/storage/record"
)

// crawl asks for the pages of one host one by one, each after the commit of the one before, and
// gives them in that order. A page is a letter, and the web says which others it names.
func crawl(t *testing.T, web map[string]string, opts frontier.Options, kind score.Kind) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "index.db")
	if err := storage.Create(path); err != nil {
		t.Fatal(err)
	}
	index, err := storage.Open(path, storage.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	if _, _, _, err := index.Runs().Begin(); err != nil {
		t.Fatal(err)
	}
	index.Filter().SetComplete()
	const host = "http://a.example/"
	if _, err := index.Commit([]*record.Outcome{{Links: []record.Link{{URL: host + "s", Source: record.Seed}}}}); err != nil {
		t.Fatal(err)
	}
	scorer, err := score.New(kind, 1<<16, index.Filter().Fingerprint)
	if err != nil {
		t.Fatal(err)
	}
	opts.Store, opts.PerLoan, opts.Share = index.Queues(), 1, -1
	if opts.Queue != "" {
		opts.Rank = scorer.Rank
	}
	f, err := frontier.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	var order strings.Builder
	for {
		loans, err := f.Taker().Take(t.Context(), 1)
		if errors.Is(err, io.EOF) {
			return order.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		row := loans[0].Rows[0]
		page := strings.TrimPrefix(row.URL, host)
		order.WriteString(page)
		o := &record.Outcome{Row: row, State: record.Stored, Page: record.Page{Flags: "-"}}
		for _, name := range web[page] {
			o.Links = append(o.Links, record.Link{URL: host + string(name), Source: row.URL, Depth: row.Depth + 1})
		}
		scorer.Shares(&row, len(o.Links))(o.Links)
		c, err := index.Commit([]*record.Outcome{o})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range c.Known {
			scorer.Known(l.Fingerprint, l.Rank)
		}
		f.Add(c.Fresh, c.Tx)
		f.Return(loans[0], nil)
		f.Done([]frontier.Done{{Row: row, Next: c.Next[0]}}, nil)
	}
}

// TestOrder crawls small webs whose right order is worked out by hand.
func TestOrder(t *testing.T) {
	for _, tt := range []struct {
		name string
		web  map[string]string
		kind score.Kind
		want string
	}{
		{
			// a hands 1/8 to d, which has 3/8 then and goes before b and c; all of that is y's.
			// b hands 1/8 to x and z each: x has 1/4, as c, which was found before. c brings z to 3/8.
			"important pages first",
			map[string]string{"s": "abcd", "a": "xd", "d": "y", "b": "xz", "c": "z"},
			score.OPIC, "sadybczx",
		},
		{
			"named by many first",
			map[string]string{"s": "abcd", "a": "dx", "d": "c", "c": "x"},
			score.Inlinks, "sadcxb",
		},
		{
			// For opic the only link of b is worth more than the many of a, of which three name p.
			"one important link or many",
			map[string]string{"s": "ab", "a": "cdefgh", "b": "q", "c": "p", "d": "p", "e": "p"},
			score.OPIC, "sabqcdpefgh",
		},
	} {
		for _, kind := range []string{queue.CBT, queue.QuickHeap} {
			for _, memory := range []int64{0, 1} { // all in the window; nearly all on disk
				name := tt.name + "/" + kind
				if memory > 0 {
					name += ", little memory"
				}
				t.Run(name, func(t *testing.T) {
					got := crawl(t, tt.web, frontier.Options{Queue: kind, Memory: memory}, tt.kind)
					if got != tt.want {
						t.Errorf("order %s, want %s", got, tt.want)
					}
					requireAll(t, got, tt.web)
				})
			}
		}
		t.Run(tt.name+"/breadth", func(t *testing.T) {
			requireAll(t, crawl(t, tt.web, frontier.Options{}, tt.kind), tt.web)
		})
	}
}

// requireAll: an order is one of all pages, each once.
func requireAll(t *testing.T, got string, web map[string]string) {
	t.Helper()
	all := []byte("s")
	for _, names := range web {
		all = append(all, names...)
	}
	slices.Sort(all)
	sorted := []byte(got)
	slices.Sort(sorted)
	if !slices.Equal(sorted, slices.Compact(all)) {
		t.Errorf("asked for %s, want %s", sorted, slices.Compact(all))
	}
}
