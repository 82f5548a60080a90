package storage

import (
	"bytes"
	"context"
	"errors"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// segmentEnds keeps how far the outcomes of a set reach into segments, and what they leave open. An
// answer that is looked at again is there already, or has been lost with the end of its segment.
func (c *change) segmentEnds(set []*record.Outcome) {
	ends := map[uint32]int64{}
	for _, o := range set {
		var puts boltfile.Puts
		for segment, at := range o.Open {
			if key := record.KeyOpen(segment); at >= 0 {
				puts.Put(key, record.AppendEnd(nil, at, key))
			} else {
				puts.Delete(key)
			}
		}
		c.w.write(record.BucketSys, puts)
		if p := &o.Page.Extent; !p.IsZero() && !o.Again {
			ends[p.Segment] = max(ends[p.Segment], p.Offset+p.Length)
		}
	}
	for segment, end := range ends {
		key := record.KeySegment(segment)
		if old := c.w.Get(record.BucketSys, key); old != nil {
			// One that is damaged is written anew.
			before, _ := record.DecodeEnd(key, old)
			end = max(end, before)
		}
		c.w.put(record.BucketSys, key, record.AppendEnd(nil, end, key))
	}
}

// SetSegmentEnd says where the last committed answer of a segment ends that has lost its end.
func (g Marks) SetSegmentEnd(segment uint32, end int64) error {
	key := record.KeySegment(segment)
	return g.put(key, record.AppendEnd(nil, end, key))
}

// SegmentEnds returns, for each segment of the tree that has a committed answer, where the last one
// ends.
func (g Marks) SegmentEnds(ctx context.Context) (map[uint32]int64, error) {
	return g.segments(ctx, record.SegmentKeys)
}

// SegmentsOpen returns where the first answer begins that is not committed, of segments in which a
// committed one may stand behind it.
func (g Marks) SegmentsOpen(ctx context.Context) (map[uint32]int64, error) {
	return g.segments(ctx, record.OpenKeys)
}

func (g Marks) segments(ctx context.Context, prefix []byte) (map[uint32]int64, error) {
	ends := map[uint32]int64{}
	err := g.x.file.Scan(ctx, record.BucketSys, prefix, func(key, value []byte) error {
		segment, ok := record.SegmentOf(key, prefix)
		if !ok {
			return nil
		}
		end, err := record.DecodeEnd(key, value)
		ends[segment] = end
		return err
	})
	return ends, err
}

// ForgetSegments drops what the index keeps of segments, but for the extents of records.
func (g Marks) ForgetSegments() error {
	return g.x.write(func(tx *bolt.Tx) error {
		c := tx.Bucket(record.BucketSys).Cursor()
		for _, prefix := range [][]byte{record.SegmentKeys, record.OpenKeys} {
			for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Seek(prefix) {
				if err := c.Delete(); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// ForgetSegment drops what the index keeps of a segment of which no record has an extent any more.
func (g Marks) ForgetSegment(segment uint32) error {
	return g.x.write(func(tx *bolt.Tx) error {
		sys := tx.Bucket(record.BucketSys)
		return errors.Join(sys.Delete(record.KeySegment(segment)), sys.Delete(record.KeyOpen(segment)))
	})
}

// SetExtents makes the extents of records those given, by URL, in one transaction. Of a record that
// has no answer in the tree it changes nothing.
func (g Marks) SetExtents(at map[string]record.Extent) error {
	if err := g.x.lock(); err != nil {
		return err
	}
	defer g.x.mu.Unlock()
	return g.x.update(func(c *change) error {
		set := make([]*record.Outcome, 0, len(at))
		for url, extent := range at {
			e, err := c.entry(url)
			if err != nil {
				return err
			}
			if e.rec != nil && (e.rec.State == record.Stored || e.rec.State == record.Redirected) {
				e.rec.Extent = extent
				set = append(set, &record.Outcome{Page: e.rec.Page})
			}
		}
		c.segmentEnds(set)
		return nil
	})
}

// Copied returns how far a conversion has copied the pages of segments, in the order of their
// extents: the last argument of SetCopied; zero if there was none.
func (g Marks) Copied() (upTo record.Extent, err error) {
	upTo, _, err = boltfile.Read(g.x.file, record.BucketSys, record.KeyCopied, record.DecodeCopied)
	return upTo, err
}

// SetCopied keeps how far a conversion has come, once the copies are durable; zero: forgets it.
func (g Marks) SetCopied(upTo record.Extent) error {
	if upTo.IsZero() {
		return g.remove(record.KeyCopied)
	}
	return g.put(record.KeyCopied, record.AppendCopied(nil, record.KeyCopied, upTo))
}
