package storage

import (
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// Edges says how much of the file of edges counts, see package internal/edges. It changes with the
// records that it belongs to, so that a page which is stored and was kept with its edges has them
// there, once. The zero value: none are kept.
type Edges struct {
	End    int64 // bytes of the file
	Pages  int64 // stored pages that have their edges there
	Assets bool  // references to images, styles and the like are among them
}

func (e *Edges) append(b, key []byte) []byte {
	assets := byte(0)
	if e.Assets {
		assets = 1
	}
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(e.End)), uint64(e.Pages))
	return seal(append(b, assets), key)
}

func decodeEdges(key, v []byte) (Edges, error) {
	body, err := unseal(v, key)
	if err != nil {
		return Edges{}, fmt.Errorf("edges: %w", err)
	}
	d := decoder{b: body}
	e := Edges{End: int64(d.uint(63)), Pages: int64(d.uint(63)), Assets: d.byte() == 1}
	return e, d.end("edges")
}

// Edges returns what is kept of the link graph, and the number of stored pages at that moment.
// Those beyond Edges.Pages have no edges in the file.
func (x *Index) Edges() (kept Edges, stored int64, err error) {
	err = x.view(func(tx *bolt.Tx) error {
		totals, err := decodeTotals(keyTotals, tx.Bucket(bucketSys).Get(keyTotals))
		if err != nil {
			return err
		}
		stored = totals.Stored
		if v := tx.Bucket(bucketSys).Get(keyEdges); v != nil {
			kept, err = decodeEdges(keyEdges, v)
		}
		return err
	})
	return kept, stored, err
}

// SetEdges says how much of the file of edges counts, once that much is durable.
func (x *Index) SetEdges(e Edges) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.write(func(tx *bolt.Tx) error { return tx.Bucket(bucketSys).Put(keyEdges, e.append(nil, keyEdges)) })
}

// flushEdges counts the edges that came with this change. Where a page is stored no more, or a
// record was lost, nobody knows any longer which entries of the file are of pages: then none are
// kept, until SetEdges says so again.
func (c *change) flushEdges() error {
	if c.edgesEnd == 0 && !c.edgesLost {
		return nil
	}
	sys := c.tx.Bucket(bucketSys)
	v := sys.Get(keyEdges)
	if v == nil {
		return nil
	}
	kept, err := decodeEdges(keyEdges, v)
	if err != nil || c.edgesLost {
		return sys.Delete(keyEdges)
	}
	kept.End, kept.Pages = c.edgesEnd, kept.Pages+c.edgesPages
	return sys.Put(keyEdges, kept.append(nil, keyEdges))
}
