// Package verify compares an index with itself: everything in it that follows from something else.
package verify

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/boltfile"
	"urltree/storage/inbox"
	"urltree/storage/record"
)

// Index checks the structure of the file and all checksums, and compares pending rows and metadata
// with records, and the counters of hosts, folders and the whole, which are kept, with a scan of
// the records. It calls fault with each difference, in words. If values are damaged, it leaves out
// sums that differ: they follow from that. It returns the counts of the scan, the second side of
// the accounting. Nothing may be written meanwhile.
//
// The error is [record.ErrDamaged] if the structure is not sound: nothing in the file can be relied
// on.
func Index(ctx context.Context, file *boltfile.File, waiting *inbox.Inbox, kept record.Totals, fault func(string)) (record.Totals, error) {
	if err := file.Check(); err != nil {
		return record.Totals{}, err
	}
	v := verifier{
		file: file, waiting: waiting, report: report{fault: fault},
		hosts: map[string]record.Counts{}, domains: map[string]record.DomainRow{}, toRead: map[string]int64{}, toAsk: map[string]int64{}, again: map[string]int64{},
	}
	for _, step := range []func(context.Context) error{
		v.records, v.inbox, v.counted, v.shorter, v.pendingRows, v.meta, v.sitemaps, v.outside, v.revisitRows, v.hostRows, v.domainRows, v.outbox, v.others,
	} {
		if err := step(ctx); err != nil {
			return record.Totals{}, err
		}
	}
	v.totals.Seq, v.totals.Forgotten, v.totals.Named = kept.Seq, kept.Forgotten, kept.Named
	if kept != v.totals {
		v.sum("totals: counters %+v, records %+v", kept, v.totals)
	}
	if v.damaged == 0 { // else sums may differ for that
		for _, text := range v.sums {
			fault(text)
		}
	}
	return v.totals, nil
}

// A verifier adds up what the records say, and compares it with what the index keeps.
type verifier struct {
	report
	file     *boltfile.File
	waiting  *inbox.Inbox
	totals   record.Totals
	hosts    map[string]record.Counts // by name; those that the host table has are taken out
	domains  map[string]record.DomainRow
	toRead   map[string]int64 // sitemaps to be read, by host
	toAsk    map[string]int64 // targets outside to be asked, by host; those that the host table has are taken out
	again    map[string]int64 // stored pages to be asked again, by host
	revisits int              // rows that stored pages must have
	folders  folders
	path     path
	pending  pending
}

// A report calls fault with what is wrong. Sums that differ follow from damage, if there is any:
// they wait for the end.
type report struct {
	fault   func(string)
	damaged int      // values that fault was called with
	sums    []string // that differ, the first of them
}

// mostSums is how many differences are kept until it is known whether values are damaged.
const mostSums = 1_000

func (r *report) sum(format string, args ...any) {
	if len(r.sums) < mostSums {
		r.sums = append(r.sums, fmt.Sprintf(format, args...))
	}
}

func (r *report) damage(err error) {
	r.damaged++
	r.fault(err.Error())
}

func (v *verifier) records(ctx context.Context) error {
	err := v.file.Scan(ctx, record.BucketURL, nil, func(k, value []byte) error {
		rec, err := record.Decode(k, value)
		if err != nil {
			v.damage(err)
			return nil
		}
		// Written so by no version: two keys would be of one URL.
		if again, err := record.Key(rec.URL); err != nil || !bytes.Equal(again, k) {
			v.fault(fmt.Sprintf("record key %q is not that of %s", k, rec.URL))
			return nil
		}
		if err := v.count(k, &rec); err != nil {
			return err
		}
		if err := v.revisit(k, &rec); err != nil {
			return err
		}
		if path := record.PathOf(k); path != nil {
			v.path.to(path, v.comparePath)
			v.path.sum.Count(&rec, 1)
		}
		v.folders.to(k, v.compareFolder)
		v.folders.add(k, &rec)
		return nil
	})
	if err != nil {
		return err
	}
	v.folders.to(nil, v.compareFolder)
	v.path.to(nil, v.comparePath)
	return v.checkRows()
}

// inbox looks at the records that have not been moved to where they belong. Those of the other
// bucket count in their place.
func (v *verifier) inbox(ctx context.Context) error {
	err := v.waiting.Each(ctx, func(seq uint64, key, value []byte, err error) error {
		if err != nil {
			v.damage(err)
			return nil
		}
		// One that is damaged may have got the key of another record.
		rec, err := record.Decode(key, value)
		if err == nil && (rec.State != record.Pending || rec.Seq != seq) {
			err = fmt.Errorf("bucket inbox: row %d of %s: %w: number %d, %v", seq, rec.URL, record.ErrCorrupt, rec.Seq, rec.State)
		}
		if err != nil {
			v.damage(err)
			return nil
		}
		if newer, err := v.get(record.BucketURL, key); err != nil || newer != nil {
			return err
		}
		return v.count(key, &rec)
	})
	if err != nil {
		return err
	}
	return v.checkRows()
}

func (v *verifier) count(key []byte, rec *record.Record) error {
	v.totals.Count(rec, 1)
	name := record.Host(rec.URL)
	sum := v.hosts[name]
	sum.Count(rec, 1)
	v.hosts[name] = sum
	v.domain(name, 0, record.HeldByDomain(rec))
	if rec.State == record.Pending {
		p := &v.pending
		p.rows++
		p.keys, p.runs = append(p.keys, record.AppendPendingKey(nil, &rec.Row, key)), append(p.runs, rec.Run)
		if len(p.keys) >= mostPending {
			return v.checkRows()
		}
	}
	return nil
}

func (v *verifier) compareFolder(key []byte, sum *record.Counts) {
	v.compare(record.BucketFolder, "folder", key, sum)
}

func (v *verifier) comparePath(key []byte, sum *record.Counts) {
	v.compare(record.BucketQuery, "queries of", key, sum)
}

// compare compares counts of a bucket with those of the records; counts names what is missing.
func (v *verifier) compare(bucket []byte, what string, key []byte, want *record.Counts) {
	value, err := v.get(bucket, key)
	if kept, damaged := record.DecodeCounts(key, value); value != nil && err == nil && damaged == nil && kept != *want {
		v.sum("%s %q: counters %+v, records %+v", what, key, kept, *want)
	}
}

// get returns a copy of a value, nil if there is none.
func (v *verifier) get(bucket, key []byte) (value []byte, err error) {
	err = v.file.View(func(tx *bolt.Tx) error {
		value = bytes.Clone(tx.Bucket(bucket).Get(key))
		return nil
	})
	return value, err
}

// ofURL returns the record of a URL; ok is false if there is none.
func (v *verifier) ofURL(url string) (rec record.Record, ok bool, err error) {
	err = v.waiting.Read([]string{url}, func(_ int, key, value []byte) error {
		if ok = value != nil; ok {
			rec, err = record.Decode(key, value)
		}
		return err
	})
	return rec, ok, err
}

func (v *verifier) checkRows() error {
	err := v.file.View(func(tx *bolt.Tx) error {
		b := tx.Bucket(record.BucketPending)
		for i, k := range v.pending.keys {
			switch value := b.Get(k); {
			case value == nil:
				v.fault(fmt.Sprintf("pending row %q is missing", k))
			case len(value) != 4 || binary.BigEndian.Uint32(value) != v.pending.runs[i]:
				v.damage(fmt.Errorf("pending row %q: %w: run %x, the record says %d", k, record.ErrCorrupt, value, v.pending.runs[i]))
			}
		}
		return nil
	})
	v.pending.keys, v.pending.runs = v.pending.keys[:0], v.pending.runs[:0]
	return err
}

// counts checks that the counts of a bucket are whole, and as many as the records have.
func (v *verifier) counts(ctx context.Context, bucket []byte, what string, n int) error {
	err := v.file.Scan(ctx, bucket, nil, func(k, value []byte) error {
		n--
		if _, err := record.DecodeCounts(k, value); err != nil {
			v.damage(fmt.Errorf("%s %q: %w", what, k, err))
		}
		return nil
	})
	if n != 0 {
		v.sum("%s: %d more in the index than the records have", what, -n)
	}
	return err
}

func (v *verifier) counted(ctx context.Context) error {
	if err := v.counts(ctx, record.BucketFolder, "folder", v.folders.counted); err != nil {
		return err
	}
	return v.counts(ctx, record.BucketQuery, "path with queries", v.path.counted)
}

func (v *verifier) shorter(ctx context.Context) error {
	return v.file.Scan(ctx, record.BucketShorter, nil, func(k, value []byte) error {
		url, err := record.URL(k)
		if err == nil {
			_, err = record.Unseal(value, k)
		}
		if err != nil {
			v.damage(fmt.Errorf("shorter way: key %q: %w", k, err))
		} else if rec, ok, err := v.ofURL(url); err == nil && (!ok || rec.State == record.Pending) {
			v.fault("shorter way to " + url + ", which has no outcome")
		}
		return nil
	})
}

func (v *verifier) pendingRows(ctx context.Context) error {
	n := 0
	err := v.file.Scan(ctx, record.BucketPending, nil, func(_, _ []byte) error {
		n++
		return nil
	})
	if n != v.pending.rows {
		v.sum("pending rows: %d more than pending records", n-v.pending.rows)
	}
	return err
}

func (v *verifier) hostRows(ctx context.Context) error {
	err := v.file.Scan(ctx, record.BucketHost, nil, func(k, value []byte) error {
		name := string(k)
		v.totals.Sitemaps += v.toRead[name]
		want := v.hosts[name]
		asks := v.toAsk[name]
		delete(v.hosts, name)
		delete(v.toAsk, name)
		h, err := record.DecodeHost(name, value)
		if err != nil {
			v.damage(err)
			return nil
		}
		if h.Counts != want {
			v.sum("host %s: counters %+v, records %+v", name, h.Counts, want)
		}
		if _, ok := record.Registrable(name); ok && h.Counted == 0 && h.Used() > 0 {
			v.sum("host %s: is not counted for its domain", name)
		}
		v.domain(name, h.Counted, 0)
		if h.Sitemaps != v.toRead[name] {
			v.sum("host %s: counts %d sitemaps to be read, has %d", name, h.Sitemaps, v.toRead[name])
		}
		if h.Revisits != v.again[name] {
			v.sum("host %s: counts %d revisits, has %d", name, h.Revisits, v.again[name])
		}
		if h.Outside != asks {
			v.sum("host %s: counts %d targets outside to be asked, has %d", name, h.Outside, asks)
		}
		return nil
	})
	for name := range v.hosts {
		v.sum("host %s: not in the host table", name)
	}
	for name := range v.toAsk {
		v.sum("host %s of targets outside: not in the host table", name)
	}
	return err
}

// domain adds what the row of a host, and a record of it, say of its domain.
func (v *verifier) domain(host string, hosts, held int64) {
	if hosts != 0 || held != 0 {
		name := record.Domain(host)
		d := v.domains[name]
		v.domains[name] = record.DomainRow{Hosts: d.Hosts + hosts, Held: d.Held + held}
	}
}

func (v *verifier) domainRows(ctx context.Context) error {
	err := v.file.Scan(ctx, record.BucketDomain, nil, func(k, value []byte) error {
		d, err := record.DecodeDomain(k, value)
		if err != nil {
			v.damage(err)
			return nil
		}
		want := v.domains[string(k)]
		delete(v.domains, string(k))
		if d != want {
			v.sum("domain %s: counters %+v, hosts and records %+v", k, d, want)
		}
		return nil
	})
	for name := range v.domains {
		v.sum("domain %s: not in the table of domains", name)
	}
	return err
}

// outbox checks that the rows of the outbox, if there is one, are whole and as many as are counted.
func (v *verifier) outbox(ctx context.Context) error {
	there, rows := false, int64(0)
	err := v.file.View(func(tx *bolt.Tx) error {
		there = tx.Bucket(record.BucketOutbox) != nil
		return nil
	})
	if err == nil && there {
		err = v.file.Scan(ctx, record.BucketOutbox, nil, func(k, value []byte) error {
			if rows++; record.Check(record.BucketOutbox, k, value) != nil {
				v.damage(record.Check(record.BucketOutbox, k, value))
			}
			return nil
		})
	}
	if err != nil {
		return err
	}
	value, err := v.get(record.BucketSys, record.KeyPosted)
	if err != nil {
		return err
	}
	if kept, err := record.DecodeOutbox(value); err == nil && kept.Rows != rows { // damage is for others to name
		v.sum("outbox: counter %d, rows %d", kept.Rows, rows)
	}
	return nil
}

// others checks that the values from which nothing else follows are whole.
func (v *verifier) others(ctx context.Context) error {
	for _, bucket := range [][]byte{record.BucketRobots, record.BucketScope, record.BucketSeed, record.BucketRun, record.BucketHour, record.BucketSys} {
		err := v.file.Scan(ctx, bucket, nil, func(k, value []byte) error {
			if err := record.Check(bucket, k, value); err != nil {
				v.damage(err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// meta checks that all metadata is whole, and of stored pages. A page without is fine.
func (v *verifier) meta(ctx context.Context) error {
	return v.file.Scan(ctx, record.BucketMeta, nil, func(k, value []byte) error {
		url, err := record.URL(k)
		if err != nil {
			v.damage(fmt.Errorf("metadata under the key %q: %w", k, err))
			return nil
		}
		if _, err := record.DecodeMeta(k, value); err != nil {
			v.damage(fmt.Errorf("%s: %w", url, err))
		}
		rec, ok, err := v.ofURL(url)
		switch {
		case errors.Is(err, record.ErrCorrupt): // named with the records
		case err != nil:
			return err
		case !ok:
			v.fault("metadata of " + url + ", which has no record")
		case rec.State != record.Stored:
			v.fault(fmt.Sprintf("metadata of %s, which is %v", url, rec.State))
		}
		return nil
	})
}

// sitemaps checks rows and their keys, and counts the sitemaps to be read by host.
func (v *verifier) sitemaps(ctx context.Context) error {
	return v.file.Scan(ctx, record.BucketSitemap, nil, func(k, value []byte) error {
		r, err := record.DecodeSitemap(k, value)
		if err != nil {
			v.damage(err)
		} else if _, err := record.Key(r.URL); err != nil || !bytes.Equal(record.SitemapKey(r.URL), k) {
			v.fault(fmt.Sprintf("sitemap under the key %q", k))
		} else if r.State == record.Pending {
			v.toRead[record.Host(r.URL)]++
		}
		return nil
	})
}
