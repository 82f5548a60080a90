package storage

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/boltfile"
	"urltree/storage/inbox"
	"urltree/storage/pagefile"
	"urltree/storage/record"
)

// Salvaged is what Salvage came to.
type Salvaged struct {
	Records int // taken over
	// Lost are the URLs of records that were left out, as their keys have them: it may be the key that
	// is damaged.
	Lost []string
	// Nameless numbers the records that were left out and whose keys are no URLs.
	Nameless int
	// Named reports that more may be lost that is in no folder: a sitemap, the target of a seed's
	// redirect, or records without a trace, with a page of the file. It is so whenever the structure
	// is not sound: a page of an earlier time, put where another was, has counters that agree with it.
	Named bool
}

// Salvage copies what is whole in the damaged index at path to another one, which is empty: records
// with their metadata, hosts' times, robots.txt answers, sitemaps, scope, runs. What follows from
// the records, pending rows and all counters, is worked out anew. A stored page whose metadata are
// damaged counts as lost, for its folder has them. Nobody may write to the file meanwhile.
//
// ErrDamaged says that there is nothing to be had, ErrDisk or another error of the system that it
// cannot be read.
func Salvage(ctx context.Context, path string, to *Index) (Salvaged, error) {
	if _, err := boltfile.Stat(path); err != nil {
		return Salvaged{}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return Salvaged{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Salvaged{}, err
	}
	from, err := pagefile.Collect(f, info.Size())
	if err != nil {
		return Salvaged{}, boltfile.Damaged(err)
	}
	s := salvage{ctx: ctx, from: from, to: to}
	if err := s.sys(); err != nil {
		return Salvaged{}, err
	}
	err = boltfile.Check(f, true)
	if errors.Is(err, ErrDisk) {
		return Salvaged{}, err
	}
	s.done.Named = err != nil
	for _, step := range []func() error{s.metas, s.records, s.hosts, s.sitemaps, s.shorter, s.others} {
		if err := step(); err != nil {
			return s.done, fmt.Errorf("salvage: %w", err)
		}
	}
	return s.done, nil
}

// salvagedRows is the number of rows that one transaction takes.
const salvagedRows = 5_000

type salvage struct {
	ctx     context.Context
	from    *pagefile.Collector
	to      *Index
	done    Salvaged
	totals  record.Totals
	noMeta  map[string]bool       // record keys of damaged metadata
	waiting []func(*change) error // of the next transaction
}

// each goes through a bucket, and commits what the calls have added.
func (s *salvage) each(bucket []byte, fn func(k, value []byte) error) error {
	err := s.from.Bucket(bucket, func(k, value []byte) error {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		return fn(k, value)
	})
	if err != nil {
		return err
	}
	return s.commit()
}

// add puts a change into the next transaction.
func (s *salvage) add(fn func(*change) error) error {
	if s.waiting = append(s.waiting, fn); len(s.waiting) < salvagedRows {
		return nil
	}
	return s.commit()
}

func (s *salvage) commit() error {
	s.to.mu.Lock()
	defer s.to.mu.Unlock()
	err := s.to.update(func(c *change) error {
		for _, fn := range s.waiting {
			if err := fn(c); err != nil {
				return err
			}
		}
		return nil
	})
	s.waiting = s.waiting[:0]
	return err
}

// sys requires values of this format, and takes over by which options links were judged, and that
// stored pages are to be parsed again: as they are if nobody knows those options any more.
func (s *salvage) sys() error {
	v, err := s.from.Get(record.BucketSys, record.KeySchema)
	if err != nil {
		return err
	}
	body, err := record.Unseal(v, nil)
	if err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	// A value of the schema before is one of this schema.
	if n, _ := binary.Uvarint(body); n != schema && n != schema-1 {
		return fmt.Errorf("%w: schema %d", record.ErrDamaged, n)
	}
	if v, err = s.from.Get(record.BucketSys, record.KeyTotals); err != nil {
		return err
	}
	if s.totals, err = record.DecodeTotals(record.KeyTotals, v); err != nil {
		s.totals = record.Totals{} // so that the number of records is not what it says
	}
	relink, err := s.from.Get(record.BucketSys, record.KeyRelink)
	if err != nil {
		return err
	}
	options, err := s.from.Get(record.BucketSys, record.KeyOptions)
	if err != nil {
		return err
	}
	_, damaged := record.Unseal(options, record.KeyOptions)
	s.to.mu.Lock()
	defer s.to.mu.Unlock()
	return s.to.file.Update(func(tx *bolt.Tx) error {
		sys := tx.Bucket(record.BucketSys)
		if options != nil && damaged == nil {
			if err := sys.Put(record.KeyOptions, options); err != nil {
				return err
			}
		}
		if relink == nil && (options == nil || damaged == nil) {
			return nil
		}
		return sys.Put(record.KeyRelink, record.Seal(nil, record.KeyRelink))
	})
}

// metas notes which records have lost their metadata.
func (s *salvage) metas() error {
	s.noMeta = map[string]bool{}
	return s.each(record.BucketMeta, func(k, value []byte) error {
		if _, err := record.DecodeMeta(k, value); err != nil {
			s.noMeta[string(k)] = true
		}
		return nil
	})
}

// eachRecord goes through all records; those of the inbox may be older than the others and come
// last.
func (s *salvage) eachRecord(fn func(k, value []byte) error) error {
	err := s.each(record.BucketURL, fn)
	for _, name := range inbox.Buckets {
		if err == nil {
			err = s.each(name, func(k, row []byte) error {
				key, value, err := inbox.Row(k, row)
				if err != nil {
					key, value = k, row // it counts as damaged
				}
				return fn(key, value)
			})
		}
	}
	return err
}

// record returns a record if it is to be taken over.
func (s *salvage) record(k, value []byte) (record.Record, bool) {
	r, err := record.Decode(k, value)
	return r, err == nil && !(r.State == record.Stored && s.noMeta[string(k)])
}

// has reports whether a record has been taken over and committed.
func (s *salvage) has(key []byte) (yes bool, err error) {
	err = s.to.file.View(func(tx *bolt.Tx) error {
		yes = tx.Bucket(record.BucketURL).Get(key) != nil
		return nil
	})
	return yes, err
}

// gaps returns the numbers of discovery that no record has, in order. The rest close up over them,
// so that the last number stays the number of records.
func (s *salvage) gaps() (list []uint64, err error) {
	var seen []uint64 // a bit for each number
	last := uint64(0)
	err = s.eachRecord(func(k, value []byte) error {
		r, ok := s.record(k, value)
		if !ok || r.Seq > mostRecords {
			return nil
		}
		if at := r.Seq / 64; at >= uint64(len(seen)) {
			seen = append(seen, make([]uint64, at+1-uint64(len(seen)))...)
		}
		seen[r.Seq/64] |= 1 << (r.Seq % 64)
		last = max(last, r.Seq)
		return nil
	})
	for n := uint64(1); n < last; n++ {
		if seen[n/64]&(1<<(n%64)) == 0 {
			list = append(list, n)
		}
	}
	return list, err
}

// mostRecords is more than an index that memory can map has.
const mostRecords = 1 << 32

func (s *salvage) records() error {
	gaps, err := s.gaps()
	if err != nil {
		return err
	}
	damaged := 0
	err = s.eachRecord(func(k, value []byte) error {
		rec, ok := s.record(k, value)
		if !ok {
			if has, err := s.has(k); err != nil || has {
				return err // a row of the inbox that did not count
			}
			damaged++
			url, err := record.URL(k)
			if again, kerr := record.Key(url); err == nil && kerr == nil && bytes.Equal(again, k) {
				s.done.Lost = append(s.done.Lost, url)
			} else { // of a key that is damaged nobody knows which URL it was
				s.done.Nameless++
			}
			return nil
		}
		below, _ := slices.BinarySearch(gaps, rec.Seq)
		rec.Seq -= uint64(below)
		if rec.State == record.Pending {
			rec.Run = 0 // its run may be lost: then a later one gets the number
		}
		key := bytes.Clone(k)
		return s.add(func(c *change) error {
			if e := c.entries[rec.URL]; e != nil || c.tx.Bucket(record.BucketURL).Get(key) != nil {
				return nil // it came twice
			}
			c.entries[rec.URL] = &entry{key: key, rec: &rec}
			c.fresh = append(c.fresh, c.x.filter.Fingerprint(rec.URL))
			c.totals.Seq = max(c.totals.Seq, rec.Seq)
			s.done.Records++
			return nil
		})
	})
	if err != nil {
		return err
	}
	if int64(s.done.Records+damaged) != s.totals.Records() {
		s.done.Named = true
	}
	return s.each(record.BucketMeta, func(k, value []byte) error {
		if _, err := record.DecodeMeta(k, value); err != nil {
			return nil
		}
		k, value = bytes.Clone(k), bytes.Clone(value)
		return s.add(func(c *change) error {
			if rec, err := record.Decode(k, c.tx.Bucket(record.BucketURL).Get(k)); err != nil || rec.State != record.Stored {
				return nil
			}
			return c.tx.Bucket(record.BucketMeta).Put(k, value)
		})
	})
}

// hosts takes over the times; the counts follow from records and sitemaps.
func (s *salvage) hosts() error {
	return s.each(record.BucketHost, func(k, value []byte) error {
		h, err := record.DecodeHost(string(k), value)
		if err != nil {
			return nil
		}
		return s.add(func(c *change) error {
			c.host(h.Name).times = &h.HostTimes
			return nil
		})
	})
}

func (s *salvage) sitemaps() error {
	before := s.from.Skipped()
	defer func() { s.done.Named = s.done.Named || s.from.Skipped() > before }()
	return s.each(record.BucketSitemap, func(k, value []byte) error {
		m, err := record.DecodeSitemap(k, value)
		if err != nil {
			s.done.Named = true
			return nil
		}
		return s.add(func(c *change) error {
			c.sitemap(m.URL).row = m
			return nil
		})
	})
}

// shorter takes over the URLs to which a shorter way was found. Where one is lost, all stored pages
// are parsed again by the next run, as after a change of scope.
func (s *salvage) shorter() error {
	return s.each(record.BucketShorter, func(k, value []byte) error {
		if _, err := record.Unseal(value, k); err != nil {
			return s.add(func(c *change) error {
				c.relink = true
				return nil
			})
		}
		k = bytes.Clone(k)
		return s.add(func(c *change) error {
			rec, err := record.Decode(k, c.tx.Bucket(record.BucketURL).Get(k))
			c.shorter[string(k)] = err == nil && rec.State != record.Pending
			return nil
		})
	})
}

// others copies buckets from which nothing follows. A run that cannot be read takes its hours with
// it, for the next one may get its number.
func (s *salvage) others() error {
	runs := map[string]bool{}
	for _, bucket := range [][]byte{record.BucketRobots, record.BucketScope, record.BucketRun, record.BucketHour} {
		before := s.from.Skipped()
		err := s.each(bucket, func(k, value []byte) error {
			if err := record.Check(bucket, k, value); err != nil {
				s.done.Named = s.done.Named || bytes.Equal(bucket, record.BucketScope)
				return nil
			}
			switch {
			case bytes.Equal(bucket, record.BucketRun):
				runs[string(k)] = true
			case bytes.Equal(bucket, record.BucketHour) && !runs[string(k[:4])]:
				return nil
			}
			k, value = bytes.Clone(k), bytes.Clone(value)
			return s.add(func(c *change) error { return c.tx.Bucket(bucket).Put(k, value) })
		})
		if err != nil {
			return err
		}
		s.done.Named = s.done.Named || bytes.Equal(bucket, record.BucketScope) && s.from.Skipped() > before
	}
	return nil
}
