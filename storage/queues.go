package storage

import (
	"bytes"
	"context"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// HostAt is [Hosts.Get], and returns the number of the last transaction that the row shows.
func (g Queues) HostAt(name string) (h record.HostRow, tx uint64, err error) {
	err = g.x.file.View(func(btx *bolt.Tx) error {
		tx = uint64(btx.ID())
		h, err = hostRow(&boltfile.Values{Tx: btx}, name)
		return err
	})
	return h, tx, err
}

// NextHosts returns the next hosts behind a name, in their order, that have rows of range Now or
// Later or sitemaps to be read: at most n, all as of one transaction, whose number is tx.
func (g Queues) NextHosts(after string, n int) (hosts []record.HostRow, tx uint64, err error) {
	return g.x.nextHosts(after, n, func(h *record.HostRow) bool { return h.Now+h.Later+h.Sitemaps+h.Revisits > 0 })
}

// nextHosts returns the next hosts behind a name for which want returns true.
func (x *Index) nextHosts(after string, n int, want func(*record.HostRow) bool) (hosts []record.HostRow, tx uint64, err error) {
	from := append([]byte(after), 0) // the first name behind it
	err = x.file.Walk(context.Background(), record.BucketHost, from, func(in *boltfile.Values, k, v []byte) ([]byte, error) {
		id := uint64(in.Tx.ID())
		if len(hosts) >= n || len(hosts) > 0 && id != tx {
			return nil, boltfile.ErrStop
		}
		tx = id
		h, err := record.DecodeHost(string(k), v)
		if err == nil && want(&h) {
			hosts = append(hosts, h)
		}
		return nil, err
	})
	return hosts, tx, err
}

// Refill reads what the frontier holds of a host in memory. Of pages these are the rows of Later
// that are due, then those of Now, in order from the first, then stored pages that are to be asked
// again, at most so many; then sitemaps that are
// due, at most so many; negative: sitemaps are left alone. Rows whose ID skip names are passed
// over. A row whose record is damaged has what its key says, a damaged sitemap is left out. due is
// the earliest time at which another row, or another sitemap, may be due, in Unix nanoseconds; 0:
// there is none.
func (g Queues) Refill(host string, now time.Time, pages, sitemaps int, skip func(id string) bool) (rows []record.Row, due int64, err error) {
	later := earliest(&due)
	queues := []queue{g.queue()}
	if g.x.revisits.Load() && !g.apart {
		queues = append(queues, g.revisits())
	}
	rows, err = refill(queues, host, now, pages, skip, later)
	if err != nil || sitemaps < 0 {
		return rows, due, err
	}
	most := len(rows) + sitemaps
	err = g.x.file.Scan(context.Background(), record.BucketSitemap, record.SitemapPrefix(host), func(k, v []byte) error {
		if !record.SitemapWaits(v) {
			return nil
		}
		r, err := record.DecodeSitemap(k, v)
		switch {
		case err != nil || skip(r.ID()): // damage costs one sitemap
		case r.Due > now.UnixNano() || len(rows) >= most:
			later(r.Due)
		default:
			rows = append(rows, r.Row)
		}
		return nil
	})
	return rows, due, err
}

// Apart returns the queues without the stored pages that are to be asked again: those are in Again.
func (g Queues) Apart() Queues { return Queues{g.x, true} }

// Again reads of a host the rows of stored pages that are to be asked again, as Refill reads those
// of pages.
func (g Queues) Again(host string, now time.Time, most int, skip func(id string) bool) (rows []record.Row, due int64, err error) {
	rows, err = refill([]queue{g.revisits()}, host, now, most, skip, earliest(&due))
	return rows, due, err
}

// HeldRows returns the host's held rows for which pick returns true, at most n, from the pending
// key `from` (nil: from the first) on; next is where to go on, nil at the end. Rows of a reason for
// which want returns false are passed over together.
func (g Queues) HeldRows(host string, from []byte, n int, want func(reason string) bool, pick func(*record.Row) bool) (found []record.Row, next []byte, err error) {
	err = g.queue().each(host, record.Held, from, func(k []byte, r *record.Row, full func() (bool, error)) ([]byte, error) {
		switch {
		case len(found) >= n:
			next = bytes.Clone(k)
			return nil, boltfile.ErrStop
		case !want(r.Reason):
			return append(append(record.RangePrefix(host, record.Held), r.Reason...), 1), nil
		}
		_, err := full()
		if err == nil && pick(r) {
			found = append(found, *r)
		}
		return nil, err
	})
	return found, next, err
}

// earliest returns a function that lowers due, the least time at which a row may be due; 0: never.
func earliest(due *int64) func(at int64) {
	return func(at int64) {
		if at = max(at, 1); *due == 0 || at < *due {
			*due = at
		}
	}
}

// A queue is a bucket of pending rows.
type queue struct {
	x      *Index
	bucket []byte
	kind   record.Kind // of the rows
	// fill adds to a row that DecodePending has read what its record says. It returns false for a row
	// that does not count.
	fill func(in *boltfile.Values, row *record.Row, key []byte) (bool, error)
}

func (g Queues) queue() queue {
	return queue{g.x, record.BucketPending, record.PageRow, func(in *boltfile.Values, row *record.Row, key []byte) (bool, error) {
		return true, fill(row, key, g.x.inbox.Record(in, key, row.Seq))
	}}
}

// refill reads the rows of a host that are due, of all queues, then those of Now, of one queue
// after the other, in order from the first, at most so many. It calls later with the times of those
// that are not among them.
func refill(queues []queue, host string, now time.Time, most int, skip func(id string) bool, later func(at int64)) (rows []record.Row, err error) {
	for i := range 2 * len(queues) {
		rg := []record.Range{record.Later, record.Now}[i/len(queues)]
		err = queues[i%len(queues)].each(host, rg, nil, func(_ []byte, r *record.Row, full func() (bool, error)) ([]byte, error) {
			switch {
			case skip(r.ID()):
				return nil, nil
			case r.Due > now.UnixNano() || len(rows) >= most:
				if rg == record.Later {
					later(r.Due)
				}
				return nil, boltfile.ErrStop
			}
			counts, err := full()
			if counts {
				rows = append(rows, *r)
			}
			return nil, err
		})
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// each calls fn with the pending rows of one range of a host, in order, from the pending key `from`
// (nil: from the first) on, as [boltfile.File.Walk] does. The row has what its key says; full adds
// the rest, from its record, and reports whether the row counts.
func (q queue) each(host string, rg record.Range, from []byte, fn func(k []byte, r *record.Row, full func() (bool, error)) (next []byte, err error)) error {
	prefix := record.RangePrefix(host, rg)
	if from == nil {
		from = prefix
	}
	return q.x.file.Walk(context.Background(), q.bucket, from, func(in *boltfile.Values, k, v []byte) ([]byte, error) {
		if !bytes.HasPrefix(k, prefix) {
			return nil, boltfile.ErrStop
		}
		row, key, err := record.DecodePending(k, v)
		if err != nil {
			return nil, err
		}
		row.Kind = q.kind
		return fn(k, &row, func() (bool, error) { return q.fill(in, &row, key) })
	})
}

// fill adds to a row that DecodePending has read what the value of its record says.
func fill(row *record.Row, key, value []byte) error {
	full, err := record.DecodeOf(row.URL, key, value)
	switch {
	case err != nil:
		// The record is lost, its row is not: what the row says has to do.
	case full.State != record.Pending:
		return fmt.Errorf("%w: %s has a pending row and an outcome", record.ErrDamaged, row.URL)
	default:
		*row = full.Row
	}
	return nil
}
