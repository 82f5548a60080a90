package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/record"
)

// A read transaction keeps pages of the file from being used again: none lasts longer than this,
// nor is more copied out of one.
const (
	scanKeys  = 10_000
	scanBytes = 1 << 20
	scanTime  = 100 * time.Millisecond
)

// ErrNotFound says that the index has no such record.
var ErrNotFound = errors.New("not in the index")

// Record returns the record of a canonical URL.
func (x *Index) Record(url string) (rec record.Record, err error) {
	key, err := record.Key(url)
	if err != nil {
		return rec, err
	}
	find, err := x.finder()
	if err != nil {
		return rec, err
	}
	seqs := find(url)
	err = x.view(func(tx *bolt.Tx) error {
		v := valueOf(tx, key, seqs...)
		if v == nil {
			return fmt.Errorf("%s: %w", url, ErrNotFound)
		}
		rec, err = record.Decode(key, v)
		return err
	})
	return rec, err
}

// Has reports whether the index has a record of each URL, in one transaction.
func (x *Index) Has(urls []string) ([]bool, error) {
	has := make([]bool, len(urls))
	find, err := x.finder()
	if err != nil {
		return nil, err
	}
	seqs := make([][]uint64, len(urls))
	for i, url := range urls {
		seqs[i] = find(url)
	}
	err = x.view(func(tx *bolt.Tx) error {
		var key []byte
		for i, url := range urls {
			var err error
			if key, err = record.AppendKey(key[:0], url); err != nil {
				return fmt.Errorf("%w: %q", err, url)
			}
			has[i] = valueOf(tx, key, seqs[i]...) != nil
		}
		return nil
	})
	return has, err
}

// Host returns the row of a host, a zero one with its name if there is none.
func (x *Index) Host(name string) (record.HostRow, error) {
	h, _, err := x.HostAt(name)
	return h, err
}

// HostAt is Host, and returns the number of the last transaction that the row shows.
func (x *Index) HostAt(name string) (h record.HostRow, tx uint64, err error) {
	h.Name = name
	err = x.view(func(btx *bolt.Tx) error {
		tx = uint64(btx.ID())
		if v := btx.Bucket(bucketHost).Get([]byte(name)); v != nil {
			h, err = record.DecodeHost(name, v)
		}
		return err
	})
	return h, tx, err
}

// Hosts calls fn with each row of the host table, in the order of names.
func (x *Index) Hosts(ctx context.Context, fn func(record.HostRow) error) error {
	return x.scan(ctx, bucketHost, nil, func(k, v []byte) error {
		h, err := record.DecodeHost(string(k), v)
		if err != nil {
			return err
		}
		return fn(h)
	})
}

// NextHosts returns hosts behind a name, in the order of names, that have rows of range Now or
// Later or sitemaps to be read: at most n, all as of one transaction, whose number is tx. None:
// there are no others.
func (x *Index) NextHosts(after string, n int) (hosts []record.HostRow, tx uint64, err error) {
	from := []byte(after)
	for more := true; more && len(hosts) == 0 && err == nil; {
		err = x.view(func(btx *bolt.Tx) error {
			tx, more = uint64(btx.ID()), false
			start := time.Now()
			c := btx.Bucket(bucketHost).Cursor()
			k, v := c.Seek(from)
			if string(k) == after {
				k, v = c.Next()
			}
			looked := 1
			defer func() { x.looked.Add(int64(looked)) }()
			for ; k != nil && len(hosts) < n; k, v = c.Next() {
				if looked++; looked > scanKeys || looked%100 == 0 && time.Since(start) > scanTime {
					from, more = bytes.Clone(k), true
					return nil
				}
				h, err := record.DecodeHost(string(k), v)
				if err != nil {
					return err
				}
				if h.Now+h.Later+h.Sitemaps > 0 {
					hosts = append(hosts, h)
				}
			}
			return nil
		})
	}
	return hosts, tx, err
}

// Robots returns the stored robots.txt answer of an origin; ok is false where there is none.
func (x *Index) Robots(origin string) (r record.Robots, ok bool, err error) {
	err = x.view(func(tx *bolt.Tx) error {
		if v := tx.Bucket(bucketRobots).Get([]byte(origin)); v != nil {
			ok = true
			r, err = record.DecodeRobots(origin, v)
		}
		return err
	})
	return r, ok, err
}

// ForgetRobots drops all robots.txt answers: they are asked for again.
func (x *Index) ForgetRobots() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.write(func(tx *bolt.Tx) error {
		if err := tx.DeleteBucket(bucketRobots); err != nil {
			return err
		}
		_, err := tx.CreateBucket(bucketRobots)
		return err
	})
}

// ScopeSeeds calls fn with each URL that counts as a seed though its record may not say so: the
// targets of seeds' redirects, and seeds that are stored or were known before as links.
func (x *Index) ScopeSeeds(ctx context.Context, fn func(url string) error) error {
	return x.scan(ctx, bucketScope, nil, func(k, _ []byte) error { return fn(string(k)) })
}

// Shorter returns URLs that have their outcome and to which a shorter way was found since, at most
// n: their links are nearer too, and are to be looked at again, with Outcome.Again.
func (x *Index) Shorter(n int) ([]record.Record, error) {
	var list []record.Record
	err := x.view(func(tx *bolt.Tx) error {
		urls := tx.Bucket(bucketURL)
		c := tx.Bucket(bucketShorter).Cursor()
		for k, _ := c.First(); k != nil && len(list) < n; k, _ = c.Next() {
			rec, err := record.Decode(k, urls.Get(k))
			if err != nil {
				// Its links are lost with it; check names it.
				url, err := record.URL(k)
				if err != nil {
					return err
				}
				rec = record.Record{Row: record.Row{URL: url}}
			}
			list = append(list, rec)
		}
		return nil
	})
	return list, err
}

// Children returns at most n entries directly below a folder key, those after the key `after`
// (nil: from the first). With a damaged record the child's Record is nil. It need not know of what
// was committed after the last Settle.
func (x *Index) Children(folder, after []byte, n int) ([]record.Child, error) {
	late, err := x.late()
	if err != nil {
		return nil, err
	}
	var list []record.Child
	err = x.view(func(tx *bolt.Tx) error {
		c := tx.Bucket(bucketURL).Cursor()
		from := folder
		if after != nil {
			from = record.AfterFolder(after)
		}
		k, _, err := seek(c, from)
		waiting := late.from(from)
		for err == nil && len(list) < n {
			key := k // the lesser of two
			if len(waiting) > 0 && (key == nil || bytes.Compare(waiting[0].key, key) < 0) {
				key = waiting[0].key
			}
			if key == nil || !bytes.HasPrefix(key, folder) {
				return nil
			}
			at := folder // its own page is none of its children
			if len(key) > len(folder) {
				end := bytes.IndexByte(key[len(folder):], 0)
				if end <= 0 {
					return fmt.Errorf("%w: key %q", record.ErrCorrupt, key)
				}
				at = key[:len(folder)+end+1]
				child := record.Child{Key: bytes.Clone(at)}
				if rec, err := record.Decode(at, late.value(tx, at)); err == nil {
					child.Record = &rec
				}
				if child.Below, err = late.below(tx, at); err != nil {
					return err
				}
				list = append(list, child)
				at = record.AfterFolder(at)
			} else {
				at = append(bytes.Clone(at), 1)
			}
			k, _, err = seek(c, at)
			waiting = waiting.from(at)
		}
		return err
	})
	return list, err
}

// seek is Cursor.Seek for a file whose keys may be out of order: what goes on from where it was
// goes forward, and comes to an end.
func seek(c *bolt.Cursor, at []byte) (k, v []byte, err error) {
	if k, v = c.Seek(at); k != nil && bytes.Compare(k, at) < 0 {
		return nil, nil, fmt.Errorf("%w: the key %q is out of place", record.ErrCorrupt, k)
	}
	return k, v, nil
}

// Records calls fn for each record whose key begins with prefix, in key order; a damaged one
// comes with its error. No transaction is open while fn runs, so fn may take its time and use
// the index; what is committed meanwhile may or may not be seen.
func (x *Index) Records(ctx context.Context, prefix []byte, fn func(record.Record, error) error) error {
	if err := x.Settle(ctx); err != nil {
		return err
	}
	late, err := x.late()
	if err != nil {
		return err
	}
	waiting := late.from(prefix)
	until := func(k []byte) error { // those before a key, or all
		for len(waiting) > 0 && bytes.HasPrefix(waiting[0].key, prefix) && (k == nil || bytes.Compare(waiting[0].key, k) < 0) {
			rec, err := waiting[0].record()
			waiting = waiting[1:]
			if err := fn(rec, err); err != nil {
				return err
			}
		}
		return nil
	}
	err = x.scan(ctx, bucketURL, prefix, func(k, v []byte) error {
		if err := until(k); err != nil {
			return err
		}
		return fn(record.Decode(k, v))
	})
	if err != nil {
		return err
	}
	return until(nil)
}

// scan copies runs of keys out of short transactions and calls fn outside them.
func (x *Index) scan(ctx context.Context, bucket, prefix []byte, fn func(k, v []byte) error) error {
	type pair struct{ k, v []byte }
	var (
		pairs []pair
		arena []byte
		next  = prefix
		more  = true
	)
	for more {
		if err := ctx.Err(); err != nil {
			return err
		}
		pairs, arena, more = pairs[:0], arena[:0], false
		err := x.view(func(tx *bolt.Tx) error {
			start := time.Now()
			c := tx.Bucket(bucket).Cursor()
			k, v, err := seek(c, next)
			for ; k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
				if len(pairs) >= scanKeys || len(arena) > scanBytes || len(pairs)%100 == 99 && time.Since(start) > scanTime {
					next, more = bytes.Clone(k), true
					break
				}
				at := len(arena)
				arena = append(append(arena, k...), v...)
				pairs = append(pairs, pair{arena[at : at+len(k)], arena[at+len(k):]})
			}
			return err
		})
		x.looked.Add(int64(len(pairs)))
		if err != nil {
			return err
		}
		for _, p := range pairs {
			if err := fn(p.k, p.v); err != nil {
				return err
			}
		}
	}
	return nil
}

// Refill reads pending rows of one host for the frontier's window: those of Later that are due,
// then Now, in order from the first row, leaving out those that skip names; at most n.
func (x *Index) Refill(host string, now time.Time, n int, skip func(url string) bool) ([]record.Row, error) {
	rows, err := x.rows(host, record.Later, n, func(r *record.Row) (take, more bool) {
		return r.Due <= now.UnixNano() && !skip(r.URL), r.Due <= now.UnixNano()
	})
	if err != nil || len(rows) >= n {
		return rows, err
	}
	rest, err := x.rows(host, record.Now, n-len(rows), func(r *record.Row) (take, more bool) { return !skip(r.URL), true })
	return append(rows, rest...), err
}

// NextDue returns the earliest time at which a Later row of the host is due, leaving out those
// that skip names; 0 if there is none.
func (x *Index) NextDue(host string, skip func(url string) bool) (int64, error) {
	rows, err := x.rows(host, record.Later, 1, func(r *record.Row) (take, more bool) { return !skip(r.URL), true })
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	return rows[0].Due, nil
}

// HeldRows returns the host's held rows that pick lets go, at most n, from the pending key `from`
// (nil: from the first) on; next is where to go on, nil at the end. Rows of a reason that want
// does not name are passed over together.
func (x *Index) HeldRows(host string, from []byte, n int, want func(reason string) bool, pick func(*record.Row) bool) (found []record.Row, next []byte, err error) {
	prefix := record.RangePrefix(host, record.Held)
	if next = from; next == nil {
		next = prefix
	}
	for next != nil && len(found) < n && err == nil {
		err = x.view(func(tx *bolt.Tx) error {
			start := time.Now()
			records := values{tx: tx}
			c := tx.Bucket(bucketPending).Cursor()
			k, v, err := seek(c, next)
			looked := 1
			defer func() { x.looked.Add(int64(looked)) }()
			for ; err == nil && k != nil && bytes.HasPrefix(k, prefix); looked++ {
				if len(found) >= n || looked > scanKeys || looked%100 == 0 && time.Since(start) > scanTime {
					next = bytes.Clone(k)
					return nil
				}
				var row record.Row
				var key []byte
				if row, key, err = record.DecodePending(k, v); err != nil {
					return err
				}
				if !want(row.Reason) {
					k, v, err = seek(c, append(append(bytes.Clone(prefix), row.Reason...), 1))
					continue
				}
				if row, err = fullRow(row, key, records.record(key, row.Seq)); err != nil {
					return err
				}
				if pick(&row) {
					found = append(found, row)
				}
				k, v = c.Next()
			}
			next = nil
			return err
		})
	}
	return found, next, err
}

// fullRow returns the row of the record that a pending row is of.
func fullRow(row record.Row, key, value []byte) (record.Row, error) {
	full, err := record.DecodeOf(row.URL, key, value)
	switch {
	case err != nil:
		// The record is lost, its row is not: what the row says has to do.
		row.Source = ""
	case full.State != record.Pending:
		return row, fmt.Errorf("%w: %s has a pending row and an outcome", record.ErrDamaged, row.URL)
	default:
		row = full.Row
	}
	return row, nil
}

// rows reads rows of Now or Later in order, over as many transactions as that takes. pick says
// whether a row is wanted, and whether to look further.
func (x *Index) rows(host string, rg record.Range, n int, pick func(*record.Row) (take, more bool)) ([]record.Row, error) {
	var (
		rows   []record.Row
		prefix = record.RangePrefix(host, rg)
		next   = prefix
		again  = true
	)
	for again {
		again = false
		err := x.view(func(tx *bolt.Tx) error {
			start, seen := time.Now(), 0
			defer func() { x.looked.Add(int64(seen)) }()
			records := values{tx: tx}
			c := tx.Bucket(bucketPending).Cursor()
			k, v, err := seek(c, next)
			for ; k != nil && bytes.HasPrefix(k, prefix) && len(rows) < n; k, v = c.Next() {
				if seen++; seen > scanKeys || seen%100 == 0 && time.Since(start) > scanTime {
					next, again = bytes.Clone(k), true
					return nil
				}
				row, key, err := record.DecodePending(k, v)
				if err != nil {
					return err
				}
				take, more := pick(&row)
				if !more {
					return nil
				}
				if !take {
					continue
				}
				if row, err = fullRow(row, key, records.record(key, row.Seq)); err != nil {
					return err
				}
				rows = append(rows, row)
			}
			return err
		})
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// LoadFilter makes the seen filter complete from the records of the index. Commits may go on
// meanwhile: they add what they make, and ask the index until the filter is complete.
func (x *Index) LoadFilter(ctx context.Context) error {
	add := func(key []byte) error {
		url, err := record.URL(key)
		if err != nil {
			return fmt.Errorf("%w: key %q", record.ErrDamaged, key)
		}
		x.filter.Add(x.filter.Fingerprint(url))
		return nil
	}
	// The inbox first: what is moved meanwhile is met there or here.
	for _, name := range bucketInbox {
		err := x.scan(ctx, name, nil, func(k, v []byte) error {
			key, _, err := inboxRow(k, v)
			if err != nil {
				return err
			}
			return add(key)
		})
		if err != nil {
			return err
		}
	}
	err := x.scan(ctx, bucketURL, nil, func(k, _ []byte) error { return add(k) })
	if err == nil {
		x.filter.SetComplete()
	}
	return err
}

// Reopen turns records below a prefix back to pending, with no tries: those for which pick is
// true. It works in transactions of bounded size and gives the number reopened. fresh is told of
// the rows once they are durable; nil: nobody is.
func (x *Index) Reopen(ctx context.Context, prefix []byte, pick func(*record.Record) bool, fresh func(rows []record.Row, tx uint64)) (int, error) {
	n := 0
	var urls []string
	flush := func() error {
		x.mu.Lock()
		defer x.mu.Unlock()
		var rows []record.Row
		var tx uint64
		err := x.update(func(c *change) error {
			tx = uint64(c.tx.ID())
			for _, url := range urls {
				e, err := c.entry(url)
				if err != nil {
					return err
				}
				if r := e.rec; r != nil && r.State != record.Pending {
					c.reopen(e)
					rows = append(rows, r.Row)
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("reopen: %w", err)
		}
		if fresh != nil {
			fresh(rows, tx)
		}
		n, urls = n+len(rows), urls[:0]
		return nil
	}
	err := x.Records(ctx, prefix, func(r record.Record, err error) error {
		if err != nil || !pick(&r) {
			return nil // damage is for check to name
		}
		if urls = append(urls, r.URL); len(urls) >= scanKeys {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	return n, err
}
