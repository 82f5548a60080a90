package inbox

import (
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// Limits of what one transaction moves.
const (
	movedRows  = 5_000
	movedBytes = 2 << 20
)

// turn lets the list that is filled be moved. The other is empty.
func (b *Inbox) turn(records int64) {
	b.fill = 1 - b.fill
	b.start(records)
}

// start begins to move a list, in at least eight parts, so that a kill meets some.
func (b *Inbox) start(records int64) {
	b.left, b.owed = b.moving().rows, 0
	f := b.filling()                                // has rows only when a file is opened
	rows := b.within((records - int64(f.rows)) / 3) // then it is a quarter of all
	b.goal = max(rows-f.rows, rows/4, 1)
	b.bytes = max(b.mostBytes()-f.bytes, b.mostBytes()/4)
	b.part = min(max(b.left/8, 1), movedRows)
}

// long reports whether the list that is filled has as many rows as make it worth moving, or most of
// the places that it may have, up to the last number of discovery.
func (b *Inbox) long(records int64, last uint64) bool {
	l := b.filling()
	return l.bytes >= b.mostBytes() || l.rows >= b.within(records/4) || l.rows > 0 && last-l.first > maxPlace/2
}

// within returns the length of a list that should have so many rows.
func (b *Inbox) within(rows int64) int { return int(min(max(rows, int64(b.least)), int64(b.most))) }

// Due reports whether a part is to be moved before the next commit, to an index with these totals.
func (b *Inbox) Due(t *record.Totals) bool {
	if b.left == 0 && b.most > 0 && b.least >= 0 && b.long(t.Records(), t.Seq) {
		b.turn(t.Records())
	}
	return b.left > 0 && b.owed >= min(b.part, b.left)
}

// Waits reports whether there are rows with numbers up to last; then the next Move moves some.
func (b *Inbox) Waits(t *record.Totals, last uint64) bool {
	if b.left > 0 {
		return true
	}
	if l := b.filling(); l.rows == 0 || l.first > last {
		return false
	}
	b.turn(t.Records())
	return true
}

// Rows returns how many rows wait in the list that is filled, and in the one that is being moved.
func (b *Inbox) Rows() (filling, moving int) {
	b.tables.RLock()
	defer b.tables.RUnlock()
	return b.filling().rows, b.left
}

// Holds reports whether records of a host may go into the inbox, or be there.
func (b *Inbox) Holds(host string) bool { return b.most > 0 && !b.direct[host] }

// Leave keeps new records of a host out of the inbox from now on. Those that are there must be
// moved before the next commit.
func (b *Inbox) Leave(host string) { b.direct[host] = true }

// A Moved is a record that is to be written to the bucket of records.
type Moved struct{ Key, Value []byte }

// Move moves a part of one list in a transaction of its own, and empties the list with the last
// part. place, called in it, writes the records.
func (b *Inbox) Move(place func(in *boltfile.Values, records []Moved) error) error {
	name := Buckets[1-b.fill]
	if b.order.rows == nil {
		err := b.file.View(func(tx *bolt.Tx) (err error) {
			b.order, err = arrange(tx.Bucket(name), b.moving())
			return err
		})
		if err != nil {
			return err
		}
	}
	n := 0
	err := b.file.Update(func(tx *bolt.Tx) error {
		in := &boltfile.Values{Tx: tx}
		var records []Moved
		var err error
		if records, n, err = b.take(in, name, b.order.next(b.part)); err != nil {
			return err
		}
		if err := place(in, records); err != nil || n < len(b.order.rows) {
			return err
		}
		return boltfile.Empty(tx, name)
	})
	if err != nil {
		return err
	}
	b.order.moved(n)
	if b.left, b.owed = len(b.order.rows), max(0, b.owed-n); b.left == 0 {
		b.tables.Lock()
		*b.moving() = list{}
		b.tables.Unlock()
		b.order = order{}
	}
	return nil
}

// take reads the first of some rows, and returns how many, and the records of those that count. It
// puts the rows into the order in which they came, in which they are read fastest.
func (b *Inbox) take(in *boltfile.Values, bucket []byte, rows []uint32) (records []Moved, n int, err error) {
	slices.Sort(rows)
	l := b.moving()
	records = make([]Moved, 0, len(rows))
	var arena boltfile.Arena
	keep := func(text []byte) []byte {
		return arena.Keep(func(b []byte) []byte { return append(b, text...) })
	}
	var place [8]byte
	for size := 0; n < len(rows) && size < movedBytes; n++ {
		seq := l.first + uint64(rows[n])
		k := rowKey(place[:0], seq)
		key, value, err := Row(k, in.Get(bucket, k))
		if err != nil {
			return nil, n, err
		}
		if may := l.mayHave(seq); (may || b.opts.Strict) && in.Get(b.opts.Records, key) != nil {
			if !may {
				return nil, n, fmt.Errorf("move of a row would replace a record: %q", key)
			}
			continue // it has changed since
		}
		records = append(records, Moved{keep(key), keep(value)})
		size += len(key) + len(value)
	}
	return records, n, nil
}
