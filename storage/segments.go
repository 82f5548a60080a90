package storage

import (
	"context"

	"urltree/storage/record"
)

// segmentEnds keeps how far the outcomes of a set reach into segments.
func (c *change) segmentEnds(set []*record.Outcome) {
	ends := map[uint32]int64{}
	for _, o := range set {
		if p := &o.Page.Extent; !p.IsZero() {
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
	ends := map[uint32]int64{}
	err := g.x.file.Scan(ctx, record.BucketSys, record.SegmentKeys, func(key, value []byte) error {
		segment, ok := record.SegmentOf(key)
		if !ok {
			return nil
		}
		end, err := record.DecodeEnd(key, value)
		ends[segment] = end
		return err
	})
	return ends, err
}
