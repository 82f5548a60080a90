package storage

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	bolt "go.etcd.io/bbolt"

	"urltree/internal/seen"

	"urltree/storage/record"
)

// An inbox keeps the records of new URLs in the order of discovery, until so many have come that
// neighbours in the tree can be moved to the bucket of records together: each alone would change a
// page of the file, and of a large file the pages above it as well.
//
// It is two lists, each a bucket of number of discovery -> record key, record. New records go to
// one of them; when that is long enough the two change roles, and the long one is moved, a part
// with each commit, in the order of keys. A record that changes meanwhile goes to its place at
// once. So at any time:
//
//   - A URL has a record in the bucket of records, or in the inbox, or in both; then that in the
//     inbox is old and does not count.
//   - Pending rows, totals and hosts count a record wherever it is; folders only what has been
//     moved.
//
// The second makes those who ask by folder wait until all is moved, see [Index.Settle]. URLs with a
// query go to their place at once, for the budget of their path needs the count of those there are;
// so do those of hosts that may come to a budget of their folders, see [Index.makeWay].
type inbox struct {
	least, most int     // a list is moved when it has a quarter of all records, but within these, or mostBytes; 0: no inbox
	part        int     // rows of the other that one transaction moves
	lists       [2]list // written with Index.mu and tables held, read with either; what changed is Index.mu's alone
	fill        int     // the list that new records go to
	order       order   // what is still to be moved of the other, once that is worked out
	left, owed  int     // rows of the other that are still to be moved, and how many of them by now
	goal        int     // so many more rows, or bytes, make the list long that is filled, about
	goalBytes   int64

	closed bool            // nothing goes into the inbox any more
	direct map[string]bool // hosts of which nothing goes into the inbox any more, nor is there

	tables sync.RWMutex // see lists
}

// A list is what memory knows of one of the buckets.
type list struct {
	rows  int
	bytes int64  // of the values of its rows
	first uint64 // number of discovery of the first row
	table table

	// The rows of which the bucket of records may have a record, by number of discovery, a bit each;
	// those of a word stand under the 64th part. With all any row may be one: of what an earlier run
	// has left nobody knows.
	changed map[uint64]uint64
	all     bool
}

// bytesOfWord is what a word of list.changed takes, about. All may take a byte a row, and a little.
const bytesOfWord = 40

// changes takes note that a transaction may give a row a record in the bucket of records.
func (l *list) changes(seq uint64) {
	switch {
	case l.all:
	case bytesOfWord*len(l.changed) > l.rows+1<<16:
		l.changed, l.all = nil, true
	case l.changed == nil:
		l.changed = map[uint64]uint64{}
		fallthrough
	default:
		l.changed[seq/64] |= 1 << (seq % 64)
	}
}

// mayHave reports whether a row may have a record in the bucket of records.
func (l *list) mayHave(seq uint64) bool { return l.all || l.changed[seq/64]>>(seq%64)&1 != 0 }

// bytesOfInbox is the memory that a row of a full list may take: 4 bytes in the order, and as many
// in each of the tables of two lists, which have 17/12 of that in places. A quarter of
// Options.SeenMemory is for that.
const bytesOfInbox = 16

// bytesOfRow is what a row has in the file, on average, if a list is not to be moved for its bytes
// alone.
const bytesOfRow = 256

// moved bounds what one transaction moves.
const (
	movedRows  = 5_000
	movedBytes = 2 << 20
)

// growth returns the bytes by which the file may grow while so many rows are moved of lists that
// have so many bytes: each transaction changes two pages for a row, one of them an inner page if
// keys are long, and leaves them to the next one.
func (b *inbox) growth(rows int, bytes int64) int64 {
	return int64(min(rows, max(b.part, movedRows)))*(2*pageBytes) + spread(rows, bytes)
}

// spread returns the bytes of the pages that rows take where they belong: pages are little more
// than half full, and long keys, of which few fit into an inner page, need many of those.
func spread(rows int, bytes int64) int64 {
	if bytes > longRow*int64(rows) {
		return 4 * bytes
	}
	return 3 * bytes
}

const longRow = 300

// InboxGrowth returns the bytes by which the file may grow while all that the inbox holds is moved:
// the pages of a list are free for the other once it is moved.
func (x *Index) InboxGrowth() int64 {
	b := &x.inbox
	b.tables.RLock()
	defer b.tables.RUnlock()
	one, other := &b.lists[0], &b.lists[1]
	return spread(one.rows, one.bytes) + spread(other.rows, other.bytes) - min(one.bytes, other.bytes)
}

func (b *inbox) mostBytes() int64 { return bytesOfRow * int64(b.most) }

// open says how long the lists get, and gives the rest of the memory.
func (b *inbox) open(opts *Options) (rest int64) {
	memory := cmp.Or(opts.SeenMemory, seen.DefaultMemory)
	if opts.Inbox == 0 {
		return memory
	}
	b.direct = map[string]bool{}
	b.most = int(min(memory/4/bytesOfInbox, maxPlace/4))
	b.closed, b.least = opts.Inbox < 0, min(opts.Inbox, b.most)
	return memory - memory/4
}

// takes reports whether the record of a new URL goes into the inbox, behind others of the same
// transaction.
func (b *inbox) takes(host string, key []byte, seq uint64, others int) bool {
	if b.most == 0 || b.closed || record.PathOf(key) != nil || b.direct[host] {
		return false
	}
	l := b.filling()
	return l.rows+others < capacity(b.most) && (l.rows == 0 || seq-l.first <= maxPlace)
}

// turn lets the list that is filled be moved. The other is empty.
func (b *inbox) turn(records int64) {
	b.fill = 1 - b.fill
	b.start(records)
}

// start begins to move a list, in at least eight parts, so that a kill meets some.
func (b *inbox) start(records int64) {
	b.left, b.owed = b.moving().rows, 0
	f := b.filling()                                // has rows only when a file is opened
	rows := b.within((records - int64(f.rows)) / 3) // then it is a quarter of all
	b.goal = max(rows-f.rows, rows/4, 1)
	b.goalBytes = max(b.mostBytes()-f.bytes, b.mostBytes()/4)
	b.part = min(max(b.left/8, 1), movedRows)
}

// filling and moving give the two lists by their roles.
func (b *inbox) filling() *list { return &b.lists[b.fill] }
func (b *inbox) moving() *list  { return &b.lists[1-b.fill] }

// long reports whether the list that is filled has as many rows as make it worth moving, or most of
// the places that it may have, up to the last number of discovery.
func (b *inbox) long(records int64, last uint64) bool {
	l := b.filling()
	return l.bytes >= b.mostBytes() || l.rows >= b.within(records/4) || l.rows > 0 && last-l.first > maxPlace/2
}

// within returns the length of a list that should have so many rows.
func (b *inbox) within(rows int64) int { return int(min(max(rows, int64(b.least)), int64(b.most))) }

// An arrival is a row that a transaction has written.
type arrival struct {
	fingerprint, seq uint64
	bytes            int
}

// arrived takes note of rows that are durable.
func (b *inbox) arrived(rows []arrival) {
	if len(rows) == 0 {
		return
	}
	b.tables.Lock()
	defer b.tables.Unlock()
	bytes := int64(0)
	for _, a := range rows {
		b.filling().count(a)
		bytes += int64(a.bytes)
	}
	for _, a := range rows {
		b.filling().add(a, b.most) // now that the first is known
	}
	if m := b.moving(); m.rows > 0 {
		// By what share of its way this list has come nearer to being long, an eighth more of the other
		// is to be moved: so all commits cost the same, and it is done in time.
		share := max(float64(len(rows))/float64(b.goal), float64(bytes)/float64(b.goalBytes))
		b.owed += int(math.Ceil(9. / 8 * share * float64(m.rows)))
	}
}

// add makes a row that has been counted findable.
func (l *list) add(a arrival, most int) { l.table.add(a.fingerprint, a.seq-l.first, most) }

// count takes note of a row. Only of those that become durable together a later one may be the
// first.
func (l *list) count(a arrival) {
	if l.rows == 0 || a.seq < l.first {
		l.first = a.seq
	}
	l.rows++
	l.bytes += int64(a.bytes)
}

// candidates returns the numbers of rows whose URL may have a fingerprint.
func (b *inbox) candidates(fp uint64) (seqs []uint64) {
	if b.most == 0 {
		return nil
	}
	b.tables.RLock()
	defer b.tables.RUnlock()
	for i := range b.lists {
		seqs = b.lists[i].table.find(seqs, fp, b.lists[i].first)
	}
	return seqs
}

// loadInbox takes over what an earlier run has left in the inbox, or moves it if this one has none,
// or no way to find all of it.
func (x *Index) loadInbox() error {
	b := &x.inbox
	found, err := x.readInbox()
	if err != nil {
		return err
	}
	// The one with earlier rows is being moved.
	if b.lists[0].rows == 0 || b.lists[1].rows > 0 && b.lists[0].first < b.lists[1].first {
		b.fill = 1
	}
	b.start(x.totals.Records())
	if !found {
		return x.Settle(context.Background())
	}
	return nil
}

// readInbox makes the lists of their buckets, and tells whether all rows can be found. Without an
// inbox nobody looks for any, and they have no tables.
func (x *Index) readInbox() (found bool, err error) {
	b := &x.inbox
	found = b.most > 0
	for i, name := range bucketInbox {
		rows := 0
		if b.most > 0 {
			if err := x.view(func(tx *bolt.Tx) error { rows = tx.Bucket(name).Stats().KeyN; return nil }); err != nil {
				return false, err
			}
		}
		l := &b.lists[i]
		err := x.scan(context.Background(), name, nil, func(k, v []byte) error {
			key, _, err := inboxRow(k, v)
			if err != nil {
				return err
			}
			a := arrival{seq: binary.BigEndian.Uint64(k), bytes: len(v)}
			l.count(a)
			if found = found && a.seq-l.first <= maxPlace; !found {
				return nil
			}
			url, err := record.URL(key)
			if err != nil {
				return nil // damaged: it is moved as it is, for check to name
			}
			a.fingerprint = x.filter.Fingerprint(url)
			l.add(a, max(b.most, rows))
			return nil
		})
		if err != nil {
			return false, err
		}
		l.all = l.rows > 0
	}
	return found, nil
}

// inboxRow returns what a row of the inbox holds, the value as it is to stand under the record key.
func inboxRow(k, v []byte) (key, value []byte, err error) {
	n, size := binary.Uvarint(v)
	if len(k) != 8 || size <= 0 || n == 0 || n > uint64(len(v)-size) {
		return nil, nil, fmt.Errorf("bucket inbox: row %x: %w", k, record.ErrCorrupt)
	}
	return v[size:][:n], v[size:][n:], nil
}

func appendInboxRow(b, key []byte, r *record.Record) []byte {
	b = append(binary.AppendUvarint(b, uint64(len(key))), key...)
	at := len(b)
	return append(b[:at], r.Append(b[at:at], key)...)
}

func inboxKey(b []byte, seq uint64) []byte { return binary.BigEndian.AppendUint64(b, seq) }
