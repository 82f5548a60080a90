package storage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/record"
)

// TestGrowth commits links of all shapes, as many as a transaction may have: the file grows by no
// more than room is kept for one.
func TestGrowth(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	word := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = 'a' + byte(r.IntN(26))
		}
		return string(b)
	}
	path := func(segments, size int) string {
		var b strings.Builder
		for range segments {
			b.WriteString("/" + word(size))
		}
		return b.String()
	}
	long := path(20, 90)
	for _, shape := range []struct {
		name string
		link func(i int) string
	}{
		{"short", func(int) string { return path(2, 8) }},
		{"long", func(int) string { return path(2, 900) }},
		{"deep", func(int) string { return path(20, 90) }},
		{"in one folder", func(i int) string { return fmt.Sprint(long, "/", i) }},
		{"query", func(int) string { return "/a?" + word(1800) }},
	} {
		for _, inbox := range []int{0, 1000} {
			for _, prefix := range []int64{0, 3000} {
				if testing.Short() && (inbox > 0) != (prefix > 0) {
					continue
				}
				t.Run(fmt.Sprint(shape.name, inbox, prefix), func(t *testing.T) {
					x, file := newIndex(t, 0)
					if err := x.Close(); err != nil {
						t.Fatal(err)
					}
					x = open(t, file, Options{NoSync: true, SeenMemory: 16 << 20, Inbox: inbox, Limits: Limits{Prefix: prefix}})
					x.Filter().SetComplete()
					size := func() int64 {
						info, err := os.Stat(file)
						if err != nil {
							t.Fatal(err)
						}
						return info.Size()
					}
					commits := 2
					if testing.Short() {
						commits = 1
					}
					for n := range commits {
						o := &record.Outcome{}
						for i, weight := 0, 0; weight < record.MostWeight; i++ {
							url := "http://a.org" + shape.link(n*100_000+i)
							o.Links = append(o.Links, record.Link{URL: url, Source: "http://a.org" + long, Depth: 1})
							weight += (&record.Outcome{Links: o.Links[i:]}).Weight()
						}
						before := size()
						if _, err := x.Commit([]*record.Outcome{o}); err != nil {
							t.Fatal(err)
						}
						if grown := size() - before; grown > MostWritten {
							t.Errorf("commit %d of %d links: grown by %d bytes, want at most %d", n, len(o.Links), grown, MostWritten)
						}
					}
				})
			}
		}
	}
}

// TestInboxBytes lets URLs come that are very long: a list is moved before it has more bytes than
// it may, and the file grows by no more with a transaction than room is kept for one.
func TestInboxBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 60 sets of very long URLs: not with -short")
	}
	for _, tt := range []struct{ memory, turns, parts int }{
		{1 << 20, 1, 100},
		{16 << 20, 0, 2},
		{16 << 20, 0, 100}, // all in one list
	} {
		t.Run(fmt.Sprintf("%d KiB, %d parts of a path", tt.memory>>10, tt.parts), func(t *testing.T) {
			inboxBytes(t, int64(tt.memory), tt.turns, tt.parts)
		})
	}
}

func inboxBytes(t *testing.T, memory int64, atLeast, parts int) {
	path := filepath.Join(t.TempDir(), "index.db")
	if err := Create(path); err != nil {
		t.Fatal(err)
	}
	opts := Options{NoSync: true, Strict: true, Inbox: 1 << 20, SeenMemory: memory}
	x := open(t, path, opts)
	most := 256 * memory / 4 / 16 // bytes of a list: its rows, with their average size
	rng := rand.New(rand.NewPCG(7, 7))
	long := strings.Repeat("/abcdefgh", parts)
	turns, last := 0, 0
	for range 60 {
		o := &record.Outcome{}
		for range 100 {
			o.Links = append(o.Links, record.Link{URL: fmt.Sprintf("http://a.org/%x%s", rng.Uint64(), long), Source: "http://a.org/", Depth: 1})
		}
		if _, err := x.Commit([]*record.Outcome{o}); err != nil {
			t.Fatal(err)
		}
		moving := movingRows(x)
		if moving > 0 && last == 0 {
			turns++
		}
		last = moving
		// Each of the two lists has rows of the same length.
		if n := int64(x.Stats().Waiting) * int64(len(long)); n > 2*(most+200<<10) {
			t.Fatalf("rows of %d bytes wait, want at most %d, of two lists", n, 2*(most+200<<10))
		}
	}
	if turns < atLeast {
		t.Errorf("%d turns, want some", turns)
	}
	size := func() (n int64) {
		t.Helper()
		err := x.file.View(func(tx *bolt.Tx) error {
			n = tx.Size()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before, grown := size(), int64(0)
	x.opts.Watch = asks(func() error {
		now := size()
		before, grown = now, max(grown, now-before)
		return nil
	})
	if err := x.Settle(context.Background()); err != nil {
		t.Fatal(err)
	}
	if grown > MostWritten {
		t.Errorf("the file has grown by %d bytes with a transaction, want at most %d", grown, MostWritten)
	}
	sound(t, x, 6000)
	if n := x.Stats().Waiting; n != 0 {
		t.Errorf("%d rows wait when all are moved", n)
	}
}
