package storage

import (
	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// What makes the file grow.
const (
	pageBytes = 4 << 10

	// Of what a set weighs, a transaction of an index without an inbox has added up to 11 times as
	// much where each of its short links was new on a page of its own and no page was free; up to 3
	// times with an inbox, or with links of 1.8 KB; in the mean of many transactions 0.1 to 1.2 times.
	growthOfWeight = 12
	// A record, its pending row, its metadata and the counts of its host change a page each.
	growthOfOutcome = 4 * pageBytes
)

// Growth returns the bytes by which the file may grow while a set is committed, with what is to be
// moved of the inbox before.
func (x *Index) Growth(set []*record.Outcome) (bytes int64, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	bytes = boltfile.AllocSize
	for _, o := range set {
		bytes += growthOfOutcome + growthOfWeight*int64(o.Weight())
	}
	crowded, err := x.crowded(set)
	if err != nil {
		return 0, err
	}
	if len(crowded) > 0 {
		return bytes + x.settleGrowth(), nil
	}
	return bytes + x.inbox.Growth(false), nil
}

// InboxGrowth returns the bytes by which the file may grow while all that the inbox holds is moved.
func (x *Index) InboxGrowth() int64 { return x.inbox.Owed() }
