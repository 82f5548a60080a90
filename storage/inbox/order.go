package inbox

import (
	"bytes"
	"encoding/binary"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// An order is what is still to be moved of a list, so that neighbours in the tree stand together:
// by groups in the order of keys. Within a group the rows are in no order of keys, which would take
// several times the memory: those that move together are sorted then.
type order struct {
	rows []uint32 // by their places, see table
	ends []uint32 // of the groups that are not moved, counted in rows of the whole list
	done uint32   // rows that are moved
}

// groupRows is how many rows a group has, on average; the largest of a million some ten times that.
const groupRows = 256

// arrange returns the order of a list. Its rows are read once, for a long list is in no cache any
// more. Rows taken at even steps of the way from the first to the last end the groups, so that
// groups are small wherever many rows lie.
func arrange(inbox *bolt.Bucket, l *list) (order, error) {
	c := inbox.Cursor()
	k, v := c.Last()
	if k == nil {
		return order{}, nil
	}
	if _, _, err := Row(k, v); err != nil {
		return order{}, err
	}
	borders := make([][]byte, 0, l.rows/groupRows+1)
	step := (binary.BigEndian.Uint64(k) - l.first) / uint64(cap(borders))
	var place [8]byte
	for i := range cap(borders) {
		key, _, err := Row(c.Seek(rowKey(place[:0], l.first+uint64(i)*step)))
		if err != nil {
			return order{}, err
		}
		borders = append(borders, bytes.Clone(key)) // those of the file lie far apart
	}
	slices.SortFunc(borders, bytes.Compare)

	// Sorted by counting: how many rows each group has says where it begins.
	rows, groups := make([]uint32, 0, l.rows), make([]uint32, 0, l.rows)
	ends := make([]uint32, len(borders)+1)
	for k, v = c.First(); k != nil; k, v = c.Next() {
		key, _, err := Row(k, v)
		if err != nil {
			return order{}, err
		}
		group, _ := slices.BinarySearchFunc(borders, key, bytes.Compare)
		rows = append(rows, uint32(binary.BigEndian.Uint64(k)-l.first))
		groups = append(groups, uint32(group))
		ends[group]++
	}
	next := make([]uint32, len(ends))
	for i := 1; i < len(ends); i++ {
		next[i] = ends[i-1]
		ends[i] += ends[i-1]
	}
	for group, end := range ends { // the groups before have their rows
		for at := next[group]; at < end; {
			of := groups[at]
			to := next[of]
			next[of]++
			if to == at {
				at++
				continue
			}
			rows[at], rows[to] = rows[to], rows[at]
			groups[at], groups[to] = groups[to], of
		}
	}
	return order{rows: rows, ends: ends}, nil
}

// next returns the rows that should be moved together, at most n: whole groups, if one fits.
func (o *order) next(n int) []uint32 {
	if n >= len(o.rows) {
		return o.rows
	}
	if i, _ := slices.BinarySearch(o.ends, o.done+uint32(n)+1); i > 0 && o.ends[i-1] > o.done {
		n = int(o.ends[i-1] - o.done)
	}
	return o.rows[:n]
}

func (o *order) moved(n int) {
	o.rows = o.rows[n:]
	o.done += uint32(n)
	i, _ := slices.BinarySearch(o.ends, o.done+1)
	o.ends = o.ends[i:]
}
