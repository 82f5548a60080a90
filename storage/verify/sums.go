package verify

import (
	"bytes"

	"urltree/storage/record"
)

// Folders are summed on a stack, for records come folder by folder: each lies in the one before it.
type folders struct {
	open    []openFolder
	counted int // with counts of their own
}

type openFolder struct {
	key []byte
	sum record.Counts
}

// add counts a record in its folders; those that do not hold it have been closed.
func (f *folders) add(key []byte, rec *record.Record) {
	record.Parents(key, func(folder []byte) {
		if len(f.open) == 0 || len(folder) > len(f.open[len(f.open)-1].key) {
			f.open = append(f.open, openFolder{key: bytes.Clone(folder)})
		}
	})
	f.open[len(f.open)-1].sum.Count(rec, 1)
}

// to ends the folders that do not hold the next key, nil: all, and compares those with a row.
func (f *folders) to(next []byte, compare func(key []byte, sum *record.Counts)) {
	for n := len(f.open); n > 0; n-- {
		top := f.open[n-1]
		// A page that is a folder as well does not lie below itself.
		if next != nil && bytes.HasPrefix(next, top.key) && len(next) > len(top.key) {
			return
		}
		f.open = f.open[:n-1]
		if n > 1 {
			f.open[n-2].sum = f.open[n-2].sum.Plus(top.sum, 1)
		}
		if top.sum.Records() >= record.CountedFrom {
			f.counted++
			compare(top.key, &top.sum)
		}
	}
}

// A path sums the records of a path with queries, which come one after the other.
type path struct {
	key     []byte // nil: none
	sum     record.Counts
	counted int // paths with counts of their own
}

// to begins another path. It calls compare with the last one if that must have a row.
func (p *path) to(next []byte, compare func(key []byte, sum *record.Counts)) {
	if next != nil && bytes.Equal(next, p.key) {
		return
	}
	if p.sum.Records() >= record.CountedFrom {
		p.counted++
		compare(p.key, &p.sum)
	}
	p.key, p.sum = bytes.Clone(next), record.Counts{}
}

// Pending are the rows that pending records must have, of which many are looked up together.
type pending struct {
	rows int      // all of them
	keys [][]byte // those that are still to be looked up, and
	runs []uint32 // the runs that they name
}

// mostPending is how many pending keys are looked up together.
const mostPending = 10_000
