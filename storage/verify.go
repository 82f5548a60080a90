package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// Verify compares everything in the index that follows from something else: the structure of
// the file, pending rows and metadata with records, and the counters of hosts, folders and the
// whole with a scan of the records. Each difference is told to fault. It gives the counts of the scan, the
// second side of the accounting. Nothing may be written meanwhile.
func (x *Index) Verify(ctx context.Context, fault func(string)) (Totals, error) {
	if err := x.verifyFile(fault); err != nil {
		return Totals{}, err
	}
	v := verifier{fault: fault, hosts: map[string]*Counts{}}
	err := x.scan(ctx, bucketURL, nil, func(k, value []byte) error {
		rec, err := decodeRecord(k, value)
		if err != nil {
			fault(err.Error())
			return nil
		}
		// Values have checksums, keys do not.
		if again, err := Key(rec.URL); err != nil || !bytes.Equal(again, k) {
			fault(fmt.Sprintf("record key %q is not that of %s", k, rec.URL))
			return nil
		}
		return v.record(x, k, &rec)
	})
	if err != nil {
		return Totals{}, err
	}
	if err := v.close(x, nil); err != nil {
		return Totals{}, err
	}
	if err := v.checkRows(x); err != nil {
		return Totals{}, err
	}
	err = x.scan(ctx, bucketFolder, nil, func(k, _ []byte) error {
		v.folders--
		return nil
	})
	if v.folders != 0 {
		fault(fmt.Sprintf("folders: %d more in the index than the records have", -v.folders))
	}
	if err != nil {
		return Totals{}, err
	}
	v.closePath(x)
	err = x.scan(ctx, bucketQuery, nil, func(k, _ []byte) error {
		v.paths--
		return nil
	})
	if v.paths != 0 {
		fault(fmt.Sprintf("paths with queries: %d more in the index than the records have", -v.paths))
	}
	if err != nil {
		return Totals{}, err
	}
	err = x.scan(ctx, bucketShorter, nil, func(k, _ []byte) error {
		if url, err := URL(k); err != nil {
			fault(fmt.Sprintf("shorter way: key %q: %v", k, err))
		} else if rec, err := x.Record(url); errors.Is(err, ErrNotFound) || err == nil && rec.State == Pending {
			fault("shorter way to " + url + ", which has no outcome")
		}
		return nil
	})
	if err != nil {
		return Totals{}, err
	}
	err = x.scan(ctx, bucketPending, nil, func(k, _ []byte) error {
		v.rows--
		return nil
	})
	if v.rows != 0 {
		fault(fmt.Sprintf("pending rows: %d more than pending records", -v.rows))
	}
	if err != nil {
		return Totals{}, err
	}
	if err := x.verifyMeta(ctx, fault); err != nil {
		return Totals{}, err
	}
	sitemaps, err := x.verifySitemaps(ctx, fault)
	if err != nil {
		return Totals{}, err
	}
	err = x.Hosts(ctx, func(h HostRow) error {
		want := v.hosts[h.Name]
		if want == nil {
			want = &Counts{}
		}
		if h.Counts != *want {
			fault(fmt.Sprintf("host %s: counters %+v, records %+v", h.Name, h.Counts, *want))
		}
		if h.Sitemaps != sitemaps[h.Name] {
			fault(fmt.Sprintf("host %s: counts %d sitemaps to be read, has %d", h.Name, h.Sitemaps, sitemaps[h.Name]))
		}
		v.totals.Sitemaps += sitemaps[h.Name]
		delete(v.hosts, h.Name)
		return nil
	})
	if err != nil {
		fault(err.Error())
	}
	for name := range v.hosts {
		fault("host " + name + ": not in the host table")
	}
	kept := x.Totals()
	v.totals.Seq = kept.Seq
	if kept != v.totals {
		fault(fmt.Sprintf("totals: counters %+v, records %+v", kept, v.totals))
	}
	return v.totals, nil
}

// verifyMeta wants all metadata whole, and of stored pages. A page without is fine.
func (x *Index) verifyMeta(ctx context.Context, fault func(string)) error {
	return x.scan(ctx, bucketMeta, nil, func(k, v []byte) error {
		url, err := URL(k)
		if err != nil {
			fault(fmt.Sprintf("metadata under the key %q: %v", k, err))
			return nil
		}
		if _, err := decodeMeta(v); err != nil {
			fault(fmt.Sprintf("metadata of %s: %v", url, err))
		}
		rec, err := x.Record(url)
		switch {
		case errors.Is(err, ErrCorrupt): // named with the records
		case errors.Is(err, ErrNotFound):
			fault("metadata of " + url + ", which has no record")
		case err != nil:
			return err
		case rec.State != Stored:
			fault(fmt.Sprintf("metadata of %s, which is %v", url, rec.State))
		}
		return nil
	})
}

// verifyFile checks the pages of the file. bbolt's own check runs on another goroutine, where a
// fault of memory would end the process; so each key is read and searched for before, here,
// which touches whatever that check will read.
func (x *Index) verifyFile(fault func(string)) error {
	return x.view(func(tx *bolt.Tx) error {
		// A page that claims to go on behind the end would be a fault for each page it lacks.
		pages := int(tx.Size()) / tx.DB().Info().PageSize
		for id := 0; id < pages; id++ {
			page, err := tx.Page(id)
			if err != nil {
				return err
			}
			if page.Type == "free" {
				continue
			}
			if page.OverflowCount >= pages-id {
				return fmt.Errorf("%w: page %d", ErrDamaged, id)
			}
			id += page.OverflowCount
		}
		for _, name := range buckets {
			var last []byte
			found := tx.Bucket(name).Cursor()
			err := tx.Bucket(name).ForEach(func(k, _ []byte) error {
				if at, _ := found.Seek(k); !bytes.Equal(at, k) || last != nil && bytes.Compare(last, k) >= 0 {
					return fmt.Errorf("%w: bucket %s: a key is out of place", ErrDamaged, name)
				}
				last = k
				return nil
			})
			if err != nil {
				return err
			}
		}
		for err := range tx.Check() {
			fault("index.db: " + err.Error())
		}
		return nil
	})
}

// A verifier adds up what the records say. Folders are summed on a stack, since the records of
// a folder come one after the other.
type verifier struct {
	fault   func(string)
	totals  Totals
	hosts   map[string]*Counts
	folders int // folders with counts of their own
	rows    int // pending records
	stack   []openFolder
	path    []byte   // with queries, of the last record; its records come one after the other
	queries Counts   // of path
	paths   int      // with counts of their own
	pending [][]byte // pending keys to look up
}

type openFolder struct {
	key []byte
	sum Counts
}

func (v *verifier) record(x *Index, key []byte, rec *Record) error {
	v.totals.count(rec, 1)
	name := Host(rec.URL)
	if v.hosts[name] == nil {
		v.hosts[name] = &Counts{}
	}
	v.hosts[name].count(rec, 1)
	if rec.State == Pending {
		v.rows++
		v.pending = append(v.pending, appendPendingKey(nil, &rec.Row, key))
		if len(v.pending) >= scanKeys {
			if err := v.checkRows(x); err != nil {
				return err
			}
		}
	}
	if path := pathOf(key); path != nil {
		if !bytes.Equal(path, v.path) {
			v.closePath(x)
			v.path = bytes.Clone(path)
		}
		v.queries.count(rec, 1)
	}
	if err := v.close(x, key); err != nil {
		return err
	}
	Parents(key, func(folder []byte) {
		if len(v.stack) == 0 || len(folder) > len(v.stack[len(v.stack)-1].key) {
			v.stack = append(v.stack, openFolder{key: bytes.Clone(folder)})
		}
	})
	v.stack[len(v.stack)-1].sum.count(rec, 1)
	return nil
}

// close compares and takes away the folders that do not hold the next key; nil: all.
func (v *verifier) close(x *Index, next []byte) error {
	for n := len(v.stack); n > 0; n-- {
		top := v.stack[n-1]
		// A page that is a folder as well does not lie below itself.
		if next != nil && bytes.HasPrefix(next, top.key) && len(next) > len(top.key) {
			return nil
		}
		v.stack = v.stack[:n-1]
		if n > 1 {
			v.stack[n-2].sum.add(&top.sum)
		}
		if top.sum.Records() < countedFrom {
			continue // it has no row
		}
		v.folders++
		kept, err := x.Folder(top.key)
		if err != nil {
			v.fault(fmt.Sprintf("folder %q: %v", top.key, err))
		} else if kept != top.sum {
			v.fault(fmt.Sprintf("folder %q: counters %+v, records %+v", top.key, kept, top.sum))
		}
	}
	return nil
}

// closePath compares the counts of the last path with queries.
func (v *verifier) closePath(x *Index) {
	if v.path == nil {
		return
	}
	if v.queries.Records() >= countedFrom {
		v.paths++
		if kept, err := x.PathQueries(v.path); err != nil || kept != v.queries {
			v.fault(fmt.Sprintf("queries of %q: counters %+v, records %+v (%v)", v.path, kept, v.queries, err))
		}
	}
	v.path, v.queries = nil, Counts{}
}

func (v *verifier) checkRows(x *Index) error {
	err := x.view(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketPending)
		for _, k := range v.pending {
			if b.Get(k) == nil {
				v.fault(fmt.Sprintf("pending row %q is missing", k))
			}
		}
		return nil
	})
	v.pending = v.pending[:0]
	return err
}
