package crawler_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"urltree/crawler"
	"urltree/internal/testweb"
	"urltree/storage/record"
)

// TestDamagedPendingRecord: a record that waits and is damaged, in its value or its key, costs
// nothing: the crawl goes on from its row, or merge finds the URL again.
func TestDamagedPendingRecord(t *testing.T) {
	for _, part := range []string{"value", "key"} {
		t.Run(part, func(t *testing.T) {
			web := serve(t, testweb.Options{Kind: testweb.Tree, Hosts: 1, Pages: 60, Seed: 41, MinSize: 300, MaxSize: 900})
			dir := t.TempDir()
			opts := options(dir, web)
			opts.MaxPages = 20
			if _, err := crawler.Run(t.Context(), opts); err != nil {
				t.Fatal(err)
			}
			db, err := bolt.Open(filepath.Join(opts.Tree, "index.db"), 0o644, nil)
			if err != nil {
				t.Fatal(err)
			}
			err = db.Update(func(tx *bolt.Tx) error {
				_, row := tx.Bucket([]byte("pending")).Cursor().First()
				if row == nil {
					return errors.New("nothing waits")
				}
				b := tx.Bucket([]byte("url"))
				c := b.Cursor()
				for k, v := c.First(); k != nil; k, v = c.Next() {
					if record.State(v[0]) != record.Pending {
						continue
					}
					k, v = bytes.Clone(k), bytes.Clone(v)
					if part == "value" {
						v[len(v)/2] ^= 8
						return b.Put(k, v)
					}
					if err := b.Delete(k); err != nil {
						return err
					}
					k[bytes.Index(k, []byte("d127"))+3] ^= 8 // 12?, which is no address
					return b.Put(k, v)
				}
				return errors.New("no record waits")
			})
			if err := errors.Join(err, db.Close()); err != nil {
				t.Fatal(err)
			}
			opts.MaxPages = 0
			for range 2 {
				if _, err := crawler.Run(t.Context(), opts); err != nil && !errors.Is(err, record.ErrDamaged) {
					t.Fatal(err)
				}
				merge(t, dir) // the sums are wrong by what was lost
			}
			requireSame(t, crawled(t, opts.Output), web.Answer().Stored)
			requireChecked(t, dir)
		})
	}
}

// TestToldOrPending: each page that is stored was told to OnOutcome, by the run that a call-back
// ended or by the next.
func TestToldOrPending(t *testing.T) {
	var links strings.Builder
	for i := range 300 {
		fmt.Fprintf(&links, "<a href=/%d>", i)
	}
	dir := t.TempDir()
	told := make(chan string, 1000)
	pages := make(chan struct{}, 99)
	opts := crawler.Options{
		Tree:      filepath.Join(dir, "iut"),
		Output:    filepath.Join(dir, "res.txt"),
		Seeds:     []string{"http://a.test/"},
		Resources: crawler.Resources{Crawlers: 4, Downloads: 8, Buffers: 1, BufferSize: 1},
		Storage:   crawler.Storage{NoSync: true},
		Fetch: func(_ context.Context, url string) (crawler.Content, error) {
			body := "x"
			if url == "http://a.test/" {
				body = links.String()
			}
			return crawler.Content{Media: "text/html", Body: []byte(body)}, nil
		},
		OnPage: func(crawler.Page) error {
			select {
			case pages <- struct{}{}:
				return nil
			default:
				return errors.New("that is enough")
			}
		},
		OnOutcome: func(o crawler.Outcome) { told <- o.URL },
	}
	var failed *crawler.CallbackError
	if _, err := crawler.Run(t.Context(), opts); !errors.As(err, &failed) {
		t.Fatalf("%v, want the error of OnPage", err)
	}
	opts.OnPage = nil
	if _, err := crawler.Run(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	close(told)
	seen := map[string]bool{}
	for url := range told {
		seen[url] = true
	}
	for _, url := range crawled(t, opts.Output) {
		if !seen[url] {
			t.Errorf("%s is stored, and nobody was told", url)
		}
	}
	if len(seen) != 301 {
		t.Errorf("%d pages were told, want 301", len(seen))
	}
}

// TestMergeOverMaxHeld: records are lost, and there is no room for them by the -max-held of the
// latest run. What merge leaves out for that the next run with more room takes up.
func TestMergeOverMaxHeld(t *testing.T) {
	t.Parallel()
	web := serve(t, testweb.Options{Kind: testweb.Tree, Hosts: 1, Pages: 80, Seed: 43, MinSize: 300, MaxSize: 900})
	dir := t.TempDir()
	opts := options(dir, web)
	for i, limit := range []crawler.Options{{Limits: crawler.Limits{MaxPages: 20}}, {Limits: crawler.Limits{MaxPages: 1, Budgets: crawler.Budgets{Host: 3, MaxHeld: 1}}}} {
		o := opts
		o.MaxPages, o.Budgets = limit.MaxPages, limit.Budgets
		if _, err := crawler.Run(t.Context(), o); err != nil {
			t.Fatalf("run %d: %v", i+1, err)
		}
	}
	db, err := bolt.Open(filepath.Join(opts.Tree, "index.db"), 0o644, nil)
	if err != nil {
		t.Fatal(err)
	}
	lost := 0
	err = db.Update(func(tx *bolt.Tx) error {
		var keys [][]byte
		b := tx.Bucket([]byte("url"))
		err := b.ForEach(func(k, v []byte) error {
			if record.State(v[0]) == record.Pending {
				keys = append(keys, bytes.Clone(k))
			}
			return nil
		})
		for _, k := range keys {
			err = errors.Join(err, b.Delete(k))
		}
		lost = len(keys)
		return err
	})
	if err := errors.Join(err, db.Close()); err != nil || lost < 5 {
		t.Fatalf("%d records were taken away: %v", lost, err)
	}
	merge(t, dir)
	requireChecked(t, dir)
	if _, err := crawler.Run(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	requireSame(t, crawled(t, opts.Output), web.Answer().Stored)
	requireChecked(t, dir)
}
