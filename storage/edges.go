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

// An edgesChange is what a transaction changes of the file of edges. Where a page is stored no
// more, or a record was lost, it is not known any longer which entries of the file are of pages:
// then none are kept, until SetEdges says so again.
type edgesChange struct {
	end   int64 // of the file, if some edges came
	pages int64 // stored pages that came with edges
	lost  bool  // an entry of the file may be of a page no more
}

func (e *edgesChange) write(w *writer) {
	v := w.Get(record.BucketSys, record.KeyEdges)
	if v == nil || e.end == 0 && !e.lost {
		return
	}
	kept, err := record.DecodeEdges(record.KeyEdges, v)
	if err != nil || e.lost {
		w.fail(w.Delete(record.BucketSys, record.KeyEdges))
		return
	}
	kept.End, kept.Pages = e.end, kept.Pages+e.pages
	w.put(record.BucketSys, record.KeyEdges, kept.Append(nil, record.KeyEdges))
}
