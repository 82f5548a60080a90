package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"urltree/crawler"
	"urltree/crawler/weburl"
	"urltree/internal/fetch"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// A loop is the crawl that A's figure 9 compares with: one URL after the other, each of them
// durable in the tree and the index before the next is asked for. It does nothing about
// politeness or failures, which the webs of this package do not need.
type loop struct {
	client *fetch.Client
	tree   *iut.Tree
	index  *storage.Index
	linker *crawler.Linker
	todo   []record.Row
}

// sequential crawls in a loop for a time, and gives the number of new URLs in the tree.
func (o Options) sequential(ctx context.Context, seeds []string, limit time.Duration) (found int64, err error) {
	err = o.temp(func(dir string) (err error) {
		l := loop{client: fetch.New(fetch.Options{Guard: func(string, string, bool) bool { return true }})}
		defer l.client.Close()
		sync := iut.SyncFull
		if o.NoSync {
			sync = iut.SyncNone
		}
		l.tree, err = iut.Open(dir, iut.Options{Sync: sync, Identity: &iut.Identity{Canonical: strconv.Itoa(weburl.Version), Partition: "host"}})
		if err != nil {
			return err
		}
		defer l.tree.Close()
		format := l.tree.Format()
		format.Links.MaxDepth = -1
		if l.linker, err = crawler.NewLinker(format); err != nil {
			return err
		}
		path := filepath.Join(dir, "index.db")
		if err := storage.Create(path); err != nil {
			return err
		}
		if l.index, err = storage.Open(path, storage.Options{NoSync: o.NoSync}); err != nil {
			return err
		}
		defer l.index.Close()
		l.index.Filter().SetComplete()
		if _, _, _, err := l.index.Runs().Begin(); err != nil {
			return err
		}
		begin := &record.Outcome{}
		for _, url := range seeds {
			begin.Links = append(begin.Links, record.Link{URL: url, Source: record.Seed})
		}
		if err := l.commit(begin); err != nil {
			return err
		}
		timed, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		for len(l.todo) > 0 && err == nil {
			err = l.next(timed)
		}
		found = l.index.Runs().Current().NewURLs
		// A connection that is being made ends with the error of its own deadline.
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
			err = nil // the time is over
		}
		return errors.Join(err, ctx.Err())
	})
	return found, err
}

// next brings the oldest URL to its outcome.
func (l *loop) next(ctx context.Context) error {
	row := l.todo[0]
	res, err := l.client.Get(ctx, row.URL, fetch.Request{})
	if err != nil {
		return err
	}
	defer res.Body.Release()
	page := &iut.Page{Body: res.Body.Bytes(), Facts: iut.Facts{URL: row.URL, Source: row.Source, Page: record.Page{
		Time: time.Now().Unix(), Status: uint16(res.Status), Bytes: res.Body.Len(), Digest: res.Body.Digest(),
		Media: res.Media, Charset: res.Charset, Flags: "-", PageDepth: row.Depth,
	}}}
	parsed := l.linker.Parse(page.Facts, page.Body)
	stored, err := l.tree.Store(page)
	if err != nil {
		return err
	}
	if err := l.tree.Sync(); err != nil {
		return err
	}
	l.todo = l.todo[1:]
	return l.commit(&record.Outcome{
		Row: row, State: record.Stored, Page: stored.Facts.Page, Links: parsed.Links, Meta: parsed.Meta,
	})
}

// commit puts an outcome into the index, and what is new into the queue.
func (l *loop) commit(o *record.Outcome) error {
	c, err := l.index.Commit([]*record.Outcome{o})
	l.todo = append(l.todo, c.Fresh...)
	return err
}
