package storage

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// A counting is one way to count the records whose keys begin with the same bytes.
type counting struct {
	bucket []byte
	suffix string // what follows a key of the bucket in the keys of the records it counts
}

var (
	folderCounts = counting{record.BucketFolder, ""}                  // strictly below a folder
	queryCounts  = counting{record.BucketQuery, string(record.Query)} // of a path, with a query
)

// of returns the counts under a key, without the inbox, and whether there is a row with them.
func (g *counting) of(in *boltfile.Values, key []byte) (sum record.Counts, row bool, err error) {
	if v := in.Get(g.bucket, key); v != nil {
		sum, err = record.DecodeCounts(key, v)
		if err != nil {
			err = fmt.Errorf("bucket %s: %q: %w", g.bucket, key, err)
		}
		return sum, true, err
	}
	prefix := append(bytes.Clone(key), g.suffix...)
	c := in.Cursor(record.BucketURL)
	k, v := c.Seek(prefix)
	if bytes.Equal(k, key) { // the page of a folder is not below it
		k, v = c.Next()
	}
	for n := 0; bytes.HasPrefix(k, prefix); k, v = c.Next() {
		if n++; n == 4*record.CountedFrom {
			return sum, false, fmt.Errorf("bucket %s: %q: %w: no counts of many records", g.bucket, key, record.ErrCorrupt)
		}
		sum.CountValue(k, v)
	}
	return sum, false, nil
}

// write adds to counts. The records must be as they were before this transaction.
func (g *counting) write(w *writer, diffs map[string]*record.Counts) {
	var puts boltfile.Puts
	small := "\x00" // what begins so has no row and will have none
	for _, name := range slices.Sorted(maps.Keys(diffs)) {
		diff := diffs[name]
		if strings.HasPrefix(name, small) {
			continue
		}
		key := w.arena.Keep(func(b []byte) []byte { return append(b, name...) })
		if diff.Records() == 0 && w.Get(g.bucket, key) == nil {
			small = name + g.suffix
			continue
		}
		sum, row, err := g.of(&w.Values, key)
		if err != nil {
			w.fail(err)
			return
		}
		switch sum = sum.Plus(*diff, 1); {
		case sum.Records() >= record.CountedFrom:
		case row: // records were removed; what is below may have rows as well
			puts.Delete(key)
			continue
		default:
			small = name + g.suffix
			continue
		}
		puts.Put(key, w.arena.Keep(func(b []byte) []byte { return record.Seal(sum.Append(b), key) }))
	}
	w.write(g.bucket, puts)
}

func addTo(sums map[string]*record.Counts, key []byte, diff *record.Counts) {
	f := sums[string(key)]
	if f == nil {
		f = &record.Counts{}
		sums[string(key)] = f
	}
	*f = f.Plus(*diff, 1)
}

// Counts returns the counts of all records strictly below a folder key ("" for the whole tree).
// Those of a folder need not have what was committed after the last Settle.
func (g Folders) Counts(key []byte) (c record.Counts, err error) {
	if len(key) == 0 {
		return g.x.Totals().Counts, nil
	}
	err = g.x.file.View(func(tx *bolt.Tx) error {
		c, err = g.below(&boltfile.Values{Tx: tx}, key)
		return err
	})
	return c, err
}

// below returns the counts of the records strictly below a folder.
func (g Folders) below(in *boltfile.Values, folder []byte) (record.Counts, error) {
	sum, _, err := folderCounts.of(in, folder)
	if err == nil {
		err = g.x.inbox.Below(folder, func(key, value []byte) { sum.CountValue(key, value) })
	}
	return sum, err
}

// Used returns how many URLs of a place count towards its budget.
func (g Folders) Used(p record.Place) (used int64, err error) {
	err = g.x.file.View(func(tx *bolt.Tx) error {
		in := &boltfile.Values{Tx: tx}
		var c record.Counts
		if p.Query {
			c, _, err = queryCounts.of(in, p.Key) // the inbox has none with a query
		} else {
			c, err = g.below(in, p.Key)
		}
		used = c.Used()
		return err
	})
	return used, err
}
