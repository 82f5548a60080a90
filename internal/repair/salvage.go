package repair

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"

	"urltree/storage"
	"urltree/storage/boltfile"
	"urltree/storage/inbox"
	"urltree/storage/pagefile"
	"urltree/storage/record"
)

// A salvaged is what was taken over from a damaged index.
type salvaged struct {
	records int // taken over
	// lost are the URLs of records that were left out, by their keys, which may be what is damaged.
	lost []string
	// nameless numbers the records that were left out and whose keys are no URLs.
	nameless int
	// named reports that more may be lost that is in no folder: a sitemap, the target of a seed's
	// redirect, or records without a trace, with a page of the file. It is so whenever the structure
	// is not sound: a page of an earlier time, put where another was, has counters that agree with it.
	named bool
}

// salvage copies what is whole in the damaged index at path to another one, which is empty: records
// with their metadata, hosts' times, robots.txt answers, sitemaps, targets outside, scope, runs.
// What follows from the records, pending rows and all counters, is worked out anew. A stored page
// whose metadata are damaged counts as lost, for its folder has them. Nothing may write to the file
// meanwhile.
//
// The error is [record.ErrDamaged] if nothing can be read, [storage.ErrDisk] or another error of
// the system if the file cannot be.
func salvage(ctx context.Context, path string, to *storage.Index) (salvaged, error) {
	info, err := boltfile.Stat(path)
	if err != nil {
		return salvaged{}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return salvaged{}, err
	}
	defer f.Close()
	from, err := pagefile.Collect(f, info.Size())
	if err != nil {
		return salvaged{}, boltfile.Damaged(err)
	}
	s := salvager{ctx: ctx, from: from, to: to}
	if err := s.sys(); err != nil {
		return salvaged{}, err
	}
	err = boltfile.Check(f, true)
	if errors.Is(err, storage.ErrDisk) {
		return salvaged{}, err
	}
	s.done.named = err != nil
	for _, step := range []func() error{s.metas, s.records, s.hosts, s.sitemaps, s.outside, s.shorter, s.looks, s.outbox, s.others} {
		if err := step(); err != nil {
			return s.done, fmt.Errorf("salvage: %w", err)
		}
	}
	return s.done, nil
}

const salvagedRows = 5_000

type salvager struct {
	ctx    context.Context
	from   *pagefile.Collector
	to     *storage.Index
	fill   *storage.Filler // of the transaction at hand, see each
	done   salvaged
	totals record.Totals
	noMeta map[string]bool // record keys of damaged metadata
}

// scan calls fn with the entries of a bucket.
func (s *salvager) scan(bucket []byte, fn func(k, value []byte) error) error {
	return s.from.Bucket(bucket, func(k, value []byte) error {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		return fn(k, value)
	})
}

// each does what scan does, in transactions of so many entries.
func (s *salvager) each(bucket []byte, fn func(k, value []byte) error) error {
	var failed error
	next, stop := iter.Pull2(func(yield func(k, value []byte) bool) {
		failed = s.scan(bucket, func(k, value []byte) error {
			if !yield(k, value) {
				return boltfile.ErrStop
			}
			return nil
		})
	})
	defer stop()
	for more := true; more; {
		err := s.to.Fill(func(f *storage.Filler) error {
			s.fill = f
			for range salvagedRows {
				var k, value []byte
				if k, value, more = next(); !more {
					return failed
				}
				if err := fn(k, value); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sys requires values of this format, and takes over by which options links were judged, and that
// stored pages are to be parsed again: as they are if nobody knows those options any more.
func (s *salvager) sys() error {
	sys := map[string][]byte{}
	err := s.from.Bucket(record.BucketSys, func(k, value []byte) error {
		sys[string(k)] = bytes.Clone(value)
		return nil
	})
	if err != nil {
		return err
	}
	body, err := record.Unseal(sys[string(record.KeySchema)], nil)
	if err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	// A value of the schema before is one of this schema.
	if n, _ := binary.Uvarint(body); n != storage.Schema && n != storage.Schema-1 {
		return fmt.Errorf("%w: schema %d", record.ErrDamaged, n)
	}
	if s.totals, err = record.DecodeTotals(record.KeyTotals, sys[string(record.KeyTotals)]); err != nil {
		s.totals = record.Totals{} // so that the number of records is not what it says
	}
	relink, options := sys[string(record.KeyRelink)], sys[string(record.KeyOptions)]
	_, damaged := record.Unseal(options, record.KeyOptions)
	member := sys[string(record.KeyCluster)]
	return s.to.Fill(func(f *storage.Filler) error {
		if _, err := record.Unseal(member, record.KeyCluster); err == nil {
			if err := f.Put(record.BucketSys, record.KeyCluster, member); err != nil {
				return err
			}
		}
		if options != nil && damaged == nil {
			if err := f.Put(record.BucketSys, record.KeyOptions, options); err != nil {
				return err
			}
		}
		if relink == nil && (options == nil || damaged == nil) {
			return nil
		}
		return putRelink(f)
	})
}

// putRelink has all stored pages parsed again by the next run, as after a change of scope.
func putRelink(f *storage.Filler) error {
	return f.Put(record.BucketSys, record.KeyRelink, record.Seal(nil, record.KeyRelink))
}

// metas notes which records have lost their metadata.
func (s *salvager) metas() error {
	s.noMeta = map[string]bool{}
	return s.scan(record.BucketMeta, func(k, value []byte) error {
		if _, err := record.DecodeMeta(k, value); err != nil {
			s.noMeta[string(k)] = true
		}
		return nil
	})
}

// eachRecord goes through all records by scan or each; those of the inbox, maybe older, come last.
func (s *salvager) eachRecord(each func(bucket []byte, fn func(k, value []byte) error) error, fn func(k, value []byte) error) error {
	err := each(record.BucketURL, fn)
	for _, name := range inbox.Buckets {
		if err == nil {
			err = each(name, func(k, row []byte) error {
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
func (s *salvager) record(k, value []byte) (record.Record, bool) {
	r, err := record.Decode(k, value)
	return r, err == nil && !(r.State == record.Stored && s.noMeta[string(k)])
}

// gaps returns the numbers of discovery that no record has, in order. The rest close up over them,
// so that the last number stays the number of records.
func (s *salvager) gaps() (list []uint64, err error) {
	var seen []uint64 // a bit for each number
	last := uint64(0)
	err = s.eachRecord(s.scan, func(k, value []byte) error {
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

func (s *salvager) records() error {
	gaps, err := s.gaps()
	if err != nil {
		return err
	}
	damaged := 0
	err = s.eachRecord(s.each, func(k, value []byte) error {
		rec, ok := s.record(k, value)
		if !ok {
			if s.fill.Get(record.BucketURL, k) == nil { // else a row of the inbox that did not count
				damaged++
				s.lose(k)
			}
			return nil
		}
		below, _ := slices.BinarySearch(gaps, rec.Seq)
		rec.Seq -= uint64(below)
		if rec.State == record.Pending {
			rec.Run = 0 // its run may be lost: then a later one gets the number
		}
		if s.fill.Record(k, rec) {
			s.done.records++
		}
		return nil
	})
	if err != nil {
		return err
	}
	if int64(s.done.records+damaged) != s.totals.Records() {
		s.done.named = true
	}
	return s.each(record.BucketMeta, func(k, value []byte) error {
		if _, err := record.DecodeMeta(k, value); err != nil {
			return nil
		}
		if rec, err := record.Decode(k, s.fill.Get(record.BucketURL, k)); err != nil || rec.State != record.Stored {
			return nil
		}
		return s.fill.Put(record.BucketMeta, k, value)
	})
}

// lose notes a record that is left out.
func (s *salvager) lose(key []byte) {
	url, err := record.URL(key)
	if again, kerr := record.Key(url); err == nil && kerr == nil && bytes.Equal(again, key) {
		s.done.lost = append(s.done.lost, url)
	} else { // the URL of a damaged key is not known
		s.done.nameless++
	}
}

// hosts takes over the times; the counts follow from records and sitemaps.
func (s *salvager) hosts() error {
	return s.each(record.BucketHost, func(k, value []byte) error {
		if h, err := record.DecodeHost(string(k), value); err == nil {
			s.fill.Host(&h.HostTimes)
		}
		return nil
	})
}

func (s *salvager) sitemaps() error {
	before := s.from.Skipped()
	defer func() { s.done.named = s.done.named || s.from.Skipped() > before }()
	return s.each(record.BucketSitemap, func(k, value []byte) error {
		if m, err := record.DecodeSitemap(k, value); err == nil {
			s.fill.Sitemap(m)
		} else {
			s.done.named = true
		}
		return nil
	})
}

// outside takes over targets outside. One that is lost is found again, and asked.
func (s *salvager) outside() error {
	return s.each(record.BucketOutside, func(k, value []byte) error {
		r, err := record.DecodeOutside(k, value)
		if err != nil {
			return nil
		}
		return s.fill.Outside(r)
	})
}

// shorter takes over URLs with a shorter way. If one is lost, all stored pages are parsed again.
func (s *salvager) shorter() error {
	return s.each(record.BucketShorter, func(k, value []byte) error {
		if _, err := record.Unseal(value, k); err != nil {
			return putRelink(s.fill)
		}
		rec, err := record.Decode(k, s.fill.Get(record.BucketURL, k))
		if err != nil || rec.State == record.Pending {
			return nil
		}
		return s.fill.Put(record.BucketShorter, k, record.Seal(nil, k))
	})
}

// looks takes over what looks at stored pages came to.
func (s *salvager) looks() error {
	return s.each(record.BucketLook, func(k, value []byte) error {
		if _, err := record.DecodeLook(k, value); err != nil {
			return nil
		}
		rec, err := record.Decode(k, s.fill.Get(record.BucketURL, k))
		if err != nil || rec.State != record.Stored {
			return nil
		}
		return s.fill.Put(record.BucketLook, k, value)
	})
}

// outbox copies what waits for other processes of the crawl.
func (s *salvager) outbox() error {
	return s.each(record.BucketOutbox, func(k, value []byte) error {
		if record.Check(record.BucketOutbox, k, value) != nil {
			return nil
		}
		return s.fill.Posted(k, value)
	})
}

// others copies buckets from which nothing follows. A run that cannot be read takes its hours with
// it, for the next one may get its number.
func (s *salvager) others() error {
	runs := map[string]bool{}
	for _, bucket := range [][]byte{record.BucketRobots, record.BucketScope, record.BucketRun, record.BucketHour} {
		before := s.from.Skipped()
		err := s.each(bucket, func(k, value []byte) error {
			if err := record.Check(bucket, k, value); err != nil {
				s.done.named = s.done.named || bytes.Equal(bucket, record.BucketScope)
				return nil
			}
			switch {
			case bytes.Equal(bucket, record.BucketRun):
				runs[string(k)] = true
			case bytes.Equal(bucket, record.BucketHour) && !runs[string(k[:4])]:
				return nil
			}
			return s.fill.Put(bucket, k, value)
		})
		if err != nil {
			return err
		}
		s.done.named = s.done.named || bytes.Equal(bucket, record.BucketScope) && s.from.Skipped() > before
	}
	return nil
}
