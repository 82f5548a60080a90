package stages

import (
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"urltree/crawler"
	"urltree/crawler/scope"
	"urltree/internal/faultfs"
	"urltree/internal/seen"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

func mkdir(name string) error { return os.Mkdir(name, 0o755) }

const origin = "http://docs.example"

// inbox is what the crawler gives as Options.Inbox of the index.
const inbox = 50_000

// TestInbox: the crawler lets new URLs wait in an inbox, as all that is measured here has one. A
// crawl moves them to their places at its end, so this one breaks off: of so few URLs none has been
// moved by then.
func TestInbox(t *testing.T) {
	const pages = 1000
	tree := t.TempDir()
	disk, err := iut.OpenDisk(tree, iut.SyncNone)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	gone := errors.New("the disk is gone")
	_, err = crawler.Run(t.Context(), crawler.Options{
		Tree:       tree,
		Output:     filepath.Join(t.TempDir(), "res.txt"),
		Seeds:      []string{serveHandbook(t, pages).url},
		Bounds:     crawler.Bounds{Scope: scope.Host},
		Politeness: crawler.Politeness{Delay: -1, PerHost: 5},
		Storage:    crawler.Storage{NoSync: true, FS: faultfs.FailAfter(disk, 6*pages, gone)},
		Resources:  crawler.Resources{FlushInterval: time.Hour},
	})
	if !errors.Is(err, gone) {
		t.Fatalf("the crawl ends with %v, want %v", err, gone)
	}
	file := filepath.Join(tree, "index.db")
	index, err := storage.Open(file, storage.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	found := int(index.Totals().Records())
	if err := index.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(file, 0, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.View(func(tx *bolt.Tx) error {
		rows := 0
		for _, list := range []string{"inbox-a", "inbox-b"} {
			rows += tx.Bucket([]byte(list)).Stats().KeyN
		}
		if found < pages/2 || rows != found {
			t.Errorf("%d of %d URLs found are in the inbox of the index, want all, of %d pages", rows, found, pages)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// Commits are the index of a handbook without end, and its pages by sets in the order in which
// they are found.
type commits struct {
	index *storage.Index
	size  int          // pages of a set
	rows  []record.Row // found and not stored
	n     int          // pages stored
}

func newCommits(tb testing.TB, size int) *commits {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "index.db")
	if err := storage.Create(file); err != nil {
		tb.Fatal(err)
	}
	index, err := storage.Open(file, storage.Options{NoSync: true, Inbox: inbox})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { index.Close() })
	index.Filter().SetComplete()
	if _, _, _, err := index.Runs().Begin(); err != nil {
		tb.Fatal(err)
	}
	c := &commits{index: index, size: size}
	// As many as a set has are known from the start.
	var found []record.Link
	for n := range size {
		found = append(found, record.Link{URL: origin + path(n), Source: record.Seed})
	}
	c.commit(tb, []*record.Outcome{{Links: found}})
	return c
}

// fresh is how many of the links of a page nobody has named before, as linked has it. As many
// again the page before it has named, mostly one of the same set.
const fresh = 4

// set makes the outcomes of the next pages. Of the links of a page only those that the filter
// does not know come to the index; so it is in a crawl.
func (c *commits) set() (set []*record.Outcome) {
	filter := c.index.Filter()
	for range c.size {
		row := c.rows[0]
		c.rows = c.rows[1:]
		o := &record.Outcome{
			Row: row, State: record.Stored,
			Page: record.Page{
				Time: 1_800_000_000, Status: 200, Bytes: pageSize, Digest: sha256.Sum256([]byte(row.URL)),
				Media: "text/html", Charset: "utf-8", Flags: "-", PageDepth: row.Depth,
			},
			Meta: &record.Meta{Title: "Page " + row.URL, Language: "en"},
		}
		for m := c.size + fresh*(c.n-1); m < c.size+fresh*(c.n+1); m++ {
			if url := origin + path(m); filter.Lookup(filter.Fingerprint(url)) != seen.Known {
				o.Links = append(o.Links, record.Link{URL: url, Source: row.URL, Depth: row.Depth + 1})
			}
		}
		c.n++
		set = append(set, o)
	}
	return set
}

func (c *commits) commit(tb testing.TB, set []*record.Outcome) {
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
