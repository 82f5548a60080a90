package storage

import (
	bolt "go.etcd.io/bbolt"

	"urltree/storage/record"
)

// Edges returns what is kept of the link graph, and the number of stored pages at that moment.
// Those beyond Edges.Pages have no edges in the file.
func (g Marks) Edges() (kept record.Edges, stored int64, err error) {
	err = g.x.file.View(func(tx *bolt.Tx) error {
		totals, err := record.DecodeTotals(record.KeyTotals, tx.Bucket(record.BucketSys).Get(record.KeyTotals))
		if err != nil {
			return err
		}
		stored = totals.Stored
		if v := tx.Bucket(record.BucketSys).Get(record.KeyEdges); v != nil {
			kept, err = record.DecodeEdges(record.KeyEdges, v)
		}
		return err
	})
	return kept, stored, err
}

// SetEdges says how much of the file of edges counts, once that much is durable.
func (g Marks) SetEdges(e record.Edges) error {
	return g.put(record.KeyEdges, e.Append(nil, record.KeyEdges))
}

// flushEdges counts the edges that came with this change. Where a page is stored no more, or a
// record was lost, nobody knows any longer which entries of the file are of pages: then none are
// kept, until SetEdges says so again.
func (c *change) flushEdges() error {
	if c.edgesEnd == 0 && !c.edgesLost {
		return nil
	}
	sys := c.tx.Bucket(record.BucketSys)
	v := sys.Get(record.KeyEdges)
	if v == nil {
		return nil
	}
	kept, err := record.DecodeEdges(record.KeyEdges, v)
	if err != nil || c.edgesLost {
		return sys.Delete(record.KeyEdges)
	}
	kept.End, kept.Pages = c.edgesEnd, kept.Pages+c.edgesPages
	return sys.Put(record.KeyEdges, kept.Append(nil, record.KeyEdges))
}
