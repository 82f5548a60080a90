package stages

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"

	"urltree/internal/seen"
	"urltree/storage"
)

func mkdir(name string) error { return os.Mkdir(name, 0o755) }

const origin = "http://docs.example"

// Commits are the index of a handbook without end, and its pages by sets in the order in which
// they are found.
type commits struct {
	index *storage.Index
	size  int           // pages of a set
	rows  []storage.Row // found and not stored
	n     int           // pages stored
}

func newCommits(tb testing.TB, size int) *commits {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "index.db")
	if err := storage.Create(file); err != nil {
		tb.Fatal(err)
	}
	index, err := storage.Open(file, storage.Options{NoSync: true})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { index.Close() })
	index.Filter().SetComplete()
	if _, _, _, err := index.Begin(); err != nil {
		tb.Fatal(err)
	}
	c := &commits{index: index, size: size}
	// As many as a set has are known from the start.
	var found []storage.Link
	for n := range size {
		found = append(found, storage.Link{URL: origin + path(n), Source: storage.Seed})
	}
	c.commit(tb, []*storage.Outcome{{Links: found}})
	return c
}

// news is how many links of a page are not known when it is read; all but the last are named by
// a page before it as well, in the same set.
const news = 4

// set makes the outcomes of the next pages. Of the links of a page only those that the filter
// does not know come to the index; so it is in a crawl.
func (c *commits) set() (set []*storage.Outcome) {
	filter := c.index.Filter()
	for range c.size {
		row := c.rows[0]
		c.rows = c.rows[1:]
		o := &storage.Outcome{
			Row: row, State: storage.Stored,
			Page: storage.Page{
				Time: 1_800_000_000, Status: 200, Bytes: pageSize, Digest: sha256.Sum256([]byte(row.URL)),
				Media: "text/html", Charset: "utf-8", Flags: "-", PageDepth: row.Depth,
			},
			Meta: &storage.Meta{Title: "Page " + row.URL, Language: "en"},
		}
		for m := c.n + c.size - news + 1; m <= c.n+c.size; m++ {
			if url := origin + path(m); filter.Lookup(filter.Fingerprint(url)) != seen.Known {
				o.Links = append(o.Links, storage.Link{URL: url, Source: row.URL, Depth: row.Depth + 1})
			}
		}
		c.n++
		set = append(set, o)
	}
	return set
}

func (c *commits) commit(tb testing.TB, set []*storage.Outcome) {
	done, err := c.index.Commit(set)
	if err != nil {
		tb.Fatal(err)
	}
	c.rows = append(c.rows, done.Fresh...)
}

// next stores the next pages.
func (c *commits) next(tb testing.TB) {
	c.commit(tb, c.set())
	if len(c.rows) < c.size {
		tb.Fatalf("%d URLs are left, want %d", len(c.rows), c.size)
	}
}
