package crawler

import (
	"time"

	"urltree/internal/frontier"
	"urltree/storage/record"
)

// An orderedStore is what the frontier reads of the index. *storage.Index is one.
type orderedStore interface {
	frontier.Store
	frontier.Tree
}

// readings is a store each reading of which is a step of its own at one of the posts: Take reads,
// and waits for hosts in between, which is no step.
type readings struct {
	of    orderedStore
	posts chan *post // free ones; whoever reads has one
}

// readings returns as many posts as there are crawlers, for none of them reads twice at once.
func (d *watchdog) readings(of orderedStore, crawlers int) *readings {
	r := &readings{of, make(chan *post, crawlers)}
	for i := range crawlers {
		r.posts <- d.post("frontier, reading %d", i+1)
	}
	return r
}

// read runs fn, which reads what there is of a host or a folder.
func (r *readings) read(about string, fn func()) {
	at := <-r.posts
	defer func() { r.posts <- at }()
	_ = at.do(func() error {
		at.atDisk("read the index:", about)
		fn()
		return nil
	})
}

func (r *readings) Refill(host string, now time.Time, n int, skip func(url string) bool) (rows []record.Row, err error) {
	r.read(host, func() { rows, err = r.of.Refill(host, now, n, skip) })
	return rows, err
}

func (r *readings) NextDue(host string, skip func(url string) bool) (due int64, err error) {
	r.read(host, func() { due, err = r.of.NextDue(host, skip) })
	return due, err
}

func (r *readings) NextHosts(after string, n int) (hosts []record.HostRow, tx uint64, err error) {
	r.read("hosts", func() { hosts, tx, err = r.of.NextHosts(after, n) })
	return hosts, tx, err
}

func (r *readings) HostAt(name string) (h record.HostRow, tx uint64, err error) {
	r.read(name, func() { h, tx, err = r.of.HostAt(name) })
	return h, tx, err
}

func (r *readings) Sitemaps(host string, now time.Time, n int, skip func(url string) bool) (list []record.Sitemap, due int64, err error) {
	r.read(host, func() { list, due, err = r.of.Sitemaps(host, now, n, skip) })
	return list, due, err
}

func (r *readings) OpenChildren(folder, after []byte, n int) (list []record.Child, next []byte, err error) {
	r.read("folders", func() { list, next, err = r.of.OpenChildren(folder, after, n) })
	return list, next, err
}

func (r *readings) OpenOf(keys [][]byte) (list []record.Child, err error) {
	r.read("folders", func() { list, err = r.of.OpenOf(keys) })
	return list, err
}
