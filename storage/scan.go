package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// ErrNotFound says that the index has no such record.
var ErrNotFound = errors.New("not in the index")

// Record returns the record of a canonical URL.
func (x *Index) Record(url string) (rec record.Record, err error) {
	key, err := record.Key(url)
	if err != nil {
		return rec, err
	}
	seqs, err := x.inbox.Find(url)
	if err != nil {
		return rec, err
	}
	err = x.file.View(func(tx *bolt.Tx) error {
		v := x.inbox.Record(&boltfile.Values{Tx: tx}, key, seqs...)
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
	seqs := make([][]uint64, len(urls))
	for i, url := range urls {
		var err error
		if seqs[i], err = x.inbox.Find(url); err != nil {
			return nil, err
		}
	}
	err := x.file.View(func(tx *bolt.Tx) error {
		in := boltfile.Values{Tx: tx}
		var key []byte
		for i, url := range urls {
			var err error
			if key, err = record.AppendKey(key[:0], url); err != nil {
				return fmt.Errorf("%w: %q", err, url)
			}
			has[i] = x.inbox.Record(&in, key, seqs[i]...) != nil
		}
		return nil
	})
	return has, err
}

// Get returns the row of a host, a zero one with its name if there is none.
func (g Hosts) Get(name string) (record.HostRow, error) {
	h, _, err := g.x.Queues().HostAt(name)
	return h, err
}

// Each calls fn with each row of the host table, in the order of names.
func (g Hosts) Each(ctx context.Context, fn func(record.HostRow) error) error {
	return g.x.file.Scan(ctx, record.BucketHost, nil, func(k, v []byte) error {
		h, err := record.DecodeHost(string(k), v)
		if err != nil {
			return err
		}
		return fn(h)
	})
}

// Robots returns the stored robots.txt answer of an origin; ok is false where there is none.
func (g Hosts) Robots(origin string) (r record.Robots, ok bool, err error) {
	return read(g.x, record.BucketRobots, []byte(origin), func(key, value []byte) (record.Robots, error) {
		return record.DecodeRobots(string(key), value)
	})
}

// ForgetRobots drops all robots.txt answers: they are asked for again.
func (g Hosts) ForgetRobots() error {
	return g.x.write(func(tx *bolt.Tx) error { return empty(tx, record.BucketRobots) })
}

// Meta returns the metadata of a stored page, nil if there is none. The error is
// [record.ErrCorrupt] if it is damaged.
func (x *Index) Meta(url string) (*record.Meta, error) {
	key, err := record.Key(url)
	if err != nil {
		return nil, err
	}
	meta, ok, err := read(x, record.BucketMeta, key, record.DecodeMeta)
	if err != nil || !ok {
		return nil, err
	}
	return &meta, nil
}

// EachOfScope calls fn with each URL that counts as a seed though its record may not say so: the
// targets of seeds' redirects, and seeds that are stored or were known before as links.
func (g Seeds) EachOfScope(ctx context.Context, fn func(url string) error) error {
	return g.x.file.Scan(ctx, record.BucketScope, nil, func(k, _ []byte) error { return fn(string(k)) })
}

// Shorter returns URLs that have their outcome and to which a shorter way was found since, at most
// n: their links are nearer too, and are to be looked at again, with Outcome.Again.
func (x *Index) Shorter(n int) ([]record.Record, error) {
	var list []record.Record
	err := x.file.View(func(tx *bolt.Tx) error {
		urls := tx.Bucket(record.BucketURL)
		c := tx.Bucket(record.BucketShorter).Cursor()
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
func (g Folders) Children(folder, after []byte, n int) ([]record.Child, error) {
	from := folder
	if after != nil {
		from = record.AfterFolder(after)
	}
	var list []record.Child
	err := g.x.inbox.Walk(context.Background(), from, func(in *boltfile.Values, k, v []byte) ([]byte, error) {
		if len(list) >= n || !bytes.HasPrefix(k, folder) {
			return nil, boltfile.ErrStop
		}
		if len(k) == len(folder) {
			return nil, nil // its own page is none of its children
		}
		end := bytes.IndexByte(k[len(folder):], 0)
		if end <= 0 {
			return nil, fmt.Errorf("%w: key %q", record.ErrCorrupt, k)
		}
		child := record.Child{Key: bytes.Clone(k[:len(folder)+end+1])}
		if len(child.Key) == len(k) { // a folder comes before what is below it
			if rec, err := record.Decode(k, v); err == nil {
				child.Record = &rec
			}
		}
		var err error
		child.Below, err = g.x.below(in, child.Key)
		list = append(list, child)
		return record.AfterFolder(child.Key), err
	})
	return list, err
}

// Records calls fn for each record whose key begins with prefix, in key order; a damaged one
// comes with its error. No transaction is open while fn runs, so fn may take its time and use
// the index; what is committed meanwhile may or may not be seen.
func (x *Index) Records(ctx context.Context, prefix []byte, fn func(record.Record, error) error) error {
	if err := x.Settle(ctx); err != nil {
		return err
	}
	return boltfile.Scan(prefix, func(k, v []byte) error { return fn(record.Decode(k, v)) },
		func(from []byte, fn boltfile.WalkFunc) error { return x.inbox.Walk(ctx, from, fn) })
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
	err := x.inbox.Each(ctx, func(_ uint64, key, _ []byte, err error) error {
		if err != nil {
			return err
		}
		return add(key)
	})
	if err == nil {
		err = x.file.Scan(ctx, record.BucketURL, nil, func(k, _ []byte) error { return add(k) })
	}
	if err == nil {
		x.filter.SetComplete()
	}
	return err
}

// Reopen turns records below a prefix back to pending, with no tries: those for which pick is
// true. It works in transactions of bounded size and gives the number reopened. fresh is told of
// the rows once they are durable; nil: nobody is.
func (x *Index) Reopen(ctx context.Context, prefix []byte, pick func(*record.Record) bool, fresh func(rows []record.Row, tx uint64)) (int, error) {
	open := func(c *change, url string) (*record.Row, error) {
		e, err := c.entry(url)
		if err != nil || e.rec == nil || e.rec.State == record.Pending {
			return nil, err
		}
		c.undo(e)
		e.rec.Reopen(c.run.ID)
		return &e.rec.Row, nil
	}
	return x.reopen(open, fresh, func(each func(*record.Record) error) error {
		return x.Records(ctx, prefix, func(r record.Record, err error) error {
			if err != nil || !pick(&r) {
				return nil // damage is for check to name
			}
			return each(&r)
		})
	})
}

// reopen calls open for each record that walk passes on, in transactions of bounded size. open
// returns the row of one that it has opened. It gives the number of rows, and fresh is told of them
// as by Reopen.
func (x *Index) reopen(open func(c *change, url string) (*record.Row, error), fresh func(rows []record.Row, tx uint64), walk func(each func(*record.Record) error) error) (int, error) {
	n := 0
	var urls []string
	flush := func() error {
		if len(urls) == 0 {
			return nil
		}
		if err := x.lock(); err != nil {
			return err
		}
		defer x.mu.Unlock()
		var rows []record.Row
		var tx uint64
		err := x.update(func(c *change) error {
			tx = uint64(c.tx.ID())
			for _, url := range urls {
				row, err := open(c, url)
				if err != nil {
					return err
				}
				if row != nil {
					rows = append(rows, *row)
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
	err := walk(func(r *record.Record) error {
		if urls = append(urls, r.URL); len(urls) >= reopenURLs {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	return n, err
}

// reopenURLs is the number of URLs that one transaction reopens.
const reopenURLs = 10_000
