package storage

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/record"
)

// TestOutbox: a link to a host of another process makes no record, and waits in the outbox with the
// transaction of its page until it is delivered; what came from another process is taken whole or
// not at all. An index of one process has no outbox.
func TestOutbox(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index.db")
	if err := Create(path); err != nil {
		t.Fatal(err)
	}
	away := func(host string) (uint16, bool) { return uint16(len(host)), strings.HasPrefix(host, "away") }
	open := func(opts Options) *Index {
		t.Helper()
		x, err := Open(path, opts)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	commit := func(x *Index, o *record.Outcome) Committed {
		t.Helper()
		done, err := x.Commit([]*record.Outcome{o})
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	links := func(urls ...string) (list []record.Link) {
		for _, url := range urls {
			list = append(list, record.Link{URL: url, Source: "http://here/", Depth: 1})
		}
		return list
	}
	has := func(x *Index, url string, want bool) {
		t.Helper()
		_, err := x.Record(url)
		if err != nil && !errors.Is(err, ErrNotFound) || (err == nil) != want {
			t.Errorf("%s: %v", url, err)
		}
	}

	alone := open(Options{NoSync: true})
	commit(alone, &record.Outcome{Links: links("http://here/", "http://awayfirst/")})
	err := alone.file.View(func(tx *bolt.Tx) error {
		if tx.Bucket(record.BucketOutbox) != nil || tx.Bucket(record.BucketSys).Get(record.KeyPosted) != nil {
			t.Error("an index of one process has an outbox")
		}
		return nil
	})
	if err := errors.Join(err, alone.Close()); err != nil {
		t.Fatal(err)
	}

	x := open(Options{NoSync: true, Away: away})
	if _, _, _, err := x.Runs().Begin(); err != nil {
		t.Fatal(err)
	}
	page := &record.Outcome{
		Row: record.Row{URL: "http://here/"}, State: record.Stored, Page: record.Page{Status: 200},
		Links: append(links("http://here/a", "http://away/1", "http://away/2", "http://away/1"), record.Link{Kind: record.SitemapRow, URL: "http://away/sitemap.xml", Depth: 1}),
	}
	if done := commit(x, page); done.Posted < 3 || done.New != 1 {
		t.Errorf("%d links were posted, %d records made", done.Posted, done.New)
	}
	has(x, "http://here/a", true)
	has(x, "http://away/1", false)
	posted := x.Outbox().Len()
	commit(x, &record.Outcome{Links: links("http://away/1", "http://away/2")})
	if n := x.Outbox().Len(); n != posted {
		t.Errorf("repeats were posted: %d rows, then %d", posted, n)
	}
	if done := commit(x, &record.Outcome{Links: links("http://here/b", "http://away/3"), Arrived: true}); !done.Refused[0] || done.New != 0 || x.Outbox().Len() != posted {
		t.Errorf("a batch for another process: %+v", done)
	}
	has(x, "http://here/b", false)
	if done := commit(x, &record.Outcome{Links: links("http://here/b"), Arrived: true}); done.Refused != nil || done.New != 1 {
		t.Errorf("a batch for this one: %+v", done)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}

	x = open(Options{NoSync: true, Away: away})
	rows, err := x.Outbox().Read(4, 0, 100)
	if err != nil || int64(len(rows)) != posted || x.Outbox().Len() != posted || rows[0].URL != "http://away/1" {
		t.Fatalf("after it was opened again: %+v, %v", rows, err)
	}
	if behind, err := x.Outbox().Read(4, rows[0].Seq, 1); err != nil || len(behind) != 1 || behind[0].Seq != rows[1].Seq {
		t.Errorf("behind the first: %+v, %v", behind, err)
	}
	first := record.Delivery{Part: 4, First: rows[0].Seq, Last: rows[0].Seq}
	for range 2 { // the second time it is gone already
		commit(x, &record.Outcome{Delivered: []record.Delivery{first}})
	}
	if n := x.Outbox().Len(); n != posted-1 {
		t.Errorf("%d rows of %d after one was delivered", n, posted)
	}
	if _, err := x.Verify(t.Context(), func(fault string) { t.Error(fault) }); err != nil {
		t.Error(err)
	}
	commit(x, &record.Outcome{Delivered: []record.Delivery{{Part: 4, First: 0, Last: rows[posted-1].Seq}}})
	if rows, err := x.Outbox().Read(4, 0, 100); err != nil || len(rows) != 0 || x.Outbox().Len() != 0 {
		t.Errorf("after all: %+v, %v", rows, err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
}
