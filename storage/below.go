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

// of returns the counts under a key, without those that the inbox has, and whether there is a row
// with them.
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
		if state, place, err := record.Peek(k, v); err == nil {
			sum.Count(&record.Record{State: state, Row: record.Row{Range: place}}, 1)
		}
	}
	return sum, false, nil
}

// flushCounts adds to counts. The records must be as they were before this change.
func (c *change) flushCounts(g *counting, diffs map[string]*record.Counts) error {
	var puts boltfile.Puts
	small := "\x00" // what begins so has no row and will have none
	for _, name := range slices.Sorted(maps.Keys(diffs)) {
		diff := diffs[name]
		if strings.HasPrefix(name, small) {
			continue
		}
		key := c.arena.Keep(func(b []byte) []byte { return append(b, name...) })
		if diff.Records() == 0 && c.values.Get(g.bucket, key) == nil {
			small = name + g.suffix
			continue
		}
		sum, row, err := g.of(&c.values, key)
		if err != nil {
			return err
		}
		if sum.Add(diff); !row && sum.Records() < record.CountedFrom {
			small = name + g.suffix
			continue
		}
		value := c.arena.Keep(func(b []byte) []byte { return record.Seal(sum.Append(b), key) })
		puts.Put(key, value)
	}
	return c.values.Write(g.bucket, puts)
}

// Counts returns the counts of all records strictly below a folder key ("" for the whole tree).
// Those of a folder need not have what was committed after the last Settle.
func (g Folders) Counts(key []byte) (c record.Counts, err error) {
	if len(key) == 0 {
		return g.x.Totals().Counts, nil
	}
	err = g.x.file.View(func(tx *bolt.Tx) error {
		c, err = g.x.below(&boltfile.Values{Tx: tx}, key)
		return err
	})
	return c, err
}

// below returns the counts of the records strictly below a folder.
func (x *Index) below(in *boltfile.Values, folder []byte) (record.Counts, error) {
	sum, _, err := folderCounts.of(in, folder)
	if err != nil {
		return sum, err
	}
	err = x.inbox.Below(folder, func(key, value []byte) {
		if state, where, err := record.Peek(key, value); err == nil {
			sum.Count(&record.Record{State: state, Row: record.Row{Range: where}}, 1)
		}
	})
	return sum, err
}

// pathQueries returns the counts of the records that share a path and have a query; path is their
// record key without it.
func (x *Index) pathQueries(path []byte) (record.Counts, error) { return x.moved(&queryCounts, path) }

// moved returns counts without those that the inbox has, which has none with a query.
func (x *Index) moved(g *counting, key []byte) (c record.Counts, err error) {
	err = x.file.View(func(tx *bolt.Tx) error {
		c, _, err = g.of(&boltfile.Values{Tx: tx}, key)
		return err
	})
	return c, err
}
