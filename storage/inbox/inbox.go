// Package inbox keeps the records of new URLs in the order of discovery, until so many have come
// that neighbours in the tree can be moved to the bucket of records together: each alone would
// change a page of the file, and of a large file the pages above it as well.
package inbox

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// Buckets are the names of the two lists: number of discovery -> text record key, record.
var Buckets = [2][]byte{[]byte("inbox-a"), []byte("inbox-b")}

// An Inbox is two lists, each a bucket. New records go to one of them. When that is long enough the
// two change roles, and the long one is moved, a part with each commit, in the order of keys. A
// record that changes meanwhile goes to its place at once. These always hold:
//
//   - A URL has a record in the bucket of records, or in the inbox, or in both; in the last case
//     that in the inbox is old and does not count.
//   - All records of the inbox are pending, and none has a query.
//   - Pending rows, totals and hosts count a record wherever it is; folders only what has been
//     moved.
//   - A row is in the file, or in none of the tables in memory: [Inbox.Arrived] adds it to them
//     once it is durable, and a move takes it out after its transaction.
//
// Because of the third, a reader of folders waits until all is moved. URLs with a query go to their
// place at once, since the budget of their path needs the count of those there are; so do those of
// hosts that [Inbox.Leave] names.
//
// Methods may be called from any goroutine, but Change, Arrived, Due, Waits, Leave, Move and those
// of Arrivals, which belong to the writer of the file, one at a time. Their errors are those of the
// file, and [record.ErrCorrupt] for a row that cannot be read.
type Inbox struct {
	file  *boltfile.File
	opts  Options
	most  int     // rows of a list; 0: no inbox
	least int     // a list is moved when it has a quarter of all records, but within least and most, or mostBytes
	part  int     // rows of the other that one transaction moves
	lists [2]list // written by the writer with tables held, read with either; but for list.changed
	fill  int     // the list that new records go to
	order order   // what is still to be moved of the other, once that is worked out
	left  int     // rows of the other that are still to be moved
	owed  int     // how many of them by now
	goal  int     // rows, and bytes, that make the list long that is filled, about
	bytes int64

	direct map[string]bool // hosts of which nothing goes into the inbox any more, nor is there

	tables sync.RWMutex // see lists
	over   overlay
}

// Options say how an inbox is opened.
type Options struct {
	// Least is the number of rows from which on a list is moved. 0: no inbox; what an earlier run has
	// left there should be moved. Negative: new records do not go there, what is there is found.
	Least int
	// Memory bounds the tables in bytes.
	Memory int64
	// ReadOnly says that nothing writes to the file.
	ReadOnly bool
	// Strict makes a move fail that would replace a record. For tests.
	Strict bool
	// Records is the name of the bucket of records.
	Records []byte
	// Fingerprint returns a hash of a URL.
	Fingerprint func(url string) uint64
}

// A list is what memory knows of one of the buckets.
type list struct {
	rows  int
	bytes int64  // of the values of its rows
	first uint64 // number of discovery of the first row
	table table

	// The rows of which the bucket of records may have a record, by number of discovery, a bit each;
	// those of a word stand under the 64th part. With all any row may be one: of what an earlier run
	// has left nothing is known.
	changed map[uint64]uint64
	all     bool
}

// bytesOfWord is what a word of list.changed takes, about. All may take a byte a row, and a little.
const bytesOfWord = 40

// changes notes that a transaction may give a row a record in the bucket of records.
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
// in each of the tables of two lists, which have 17/12 of that in places.
const bytesOfInbox = 16

// bytesOfRow is the average size of a row up to which a list is not moved for its bytes alone.
const bytesOfRow = 256

func (b *Inbox) mostBytes() int64 { return bytesOfRow * int64(b.most) }

// Open opens the inbox of a file that has so many records. whole is false if the rows that an
// earlier run has left cannot all be found: then they must be moved before anything else is done.
func Open(file *boltfile.File, opts Options, records int64) (b *Inbox, whole bool, err error) {
	b = &Inbox{file: file, opts: opts, direct: map[string]bool{}}
	if opts.ReadOnly {
		return b, true, nil
	}
	if opts.Least != 0 {
		b.most = int(min(opts.Memory/bytesOfInbox, maxPlace/4))
		b.least = min(opts.Least, b.most)
	}
	if whole, err = b.load(); err != nil {
		return nil, false, err
	}
	// The one with earlier rows is being moved.
	if b.lists[0].rows == 0 || b.lists[1].rows > 0 && b.lists[0].first < b.lists[1].first {
		b.fill = 1
	}
	b.start(records)
	return b, whole, nil
}

// load fills the lists from their buckets. Without an inbox they have no tables.
func (b *Inbox) load() (whole bool, err error) {
	whole = b.most > 0
	for i, name := range Buckets {
		rows := 0
		if b.most > 0 {
			err := b.file.View(func(tx *bolt.Tx) error { rows = tx.Bucket(name).Stats().KeyN; return nil })
			if err != nil {
				return false, err
			}
		}
		l := &b.lists[i]
		err := b.file.Scan(context.Background(), name, nil, func(k, v []byte) error {
			key, _, err := Row(k, v)
			if err != nil {
				return err
			}
			a := arrival{seq: binary.BigEndian.Uint64(k), bytes: len(v)}
			l.count(a)
			if whole = whole && a.seq-l.first <= maxPlace; !whole {
				return nil
			}
			url, err := record.URL(key)
			if err != nil {
				return nil // damaged: it is moved as it is, for check to name
			}
			a.fingerprint = b.opts.Fingerprint(url)
			l.add(a, max(b.most, rows))
			return nil
		})
		if err != nil {
			return false, err
		}
		l.all = l.rows > 0
	}
	return whole, nil
}

// filling and moving return the two lists by their roles.
func (b *Inbox) filling() *list { return &b.lists[b.fill] }
func (b *Inbox) moving() *list  { return &b.lists[1-b.fill] }

// Read calls fn with the record key of each URL and the value of its record, nil if there is none,
// in one transaction. It returns the error of fn, [record.ErrKey] if a URL has no key.
func (b *Inbox) Read(urls []string, fn func(i int, key, value []byte) error) error {
	seqs := make([][]uint64, len(urls))
	for i, url := range urls { // before the transaction begins
		var err error
		if seqs[i], err = b.find(url); err != nil {
			return err
		}
	}
	return b.file.View(func(tx *bolt.Tx) error {
		in := boltfile.Values{Tx: tx}
		for i, url := range urls {
			key, err := record.Key(url)
			if err != nil {
				return fmt.Errorf("%w: %q", err, url)
			}
			if err := fn(i, key, b.Record(&in, key, seqs[i]...)); err != nil {
				return err
			}
		}
		return nil
	})
}

// find returns the numbers of discovery that a URL may have in the inbox. A transaction that reads
// them must begin later.
func (b *Inbox) find(url string) ([]uint64, error) {
	if b.opts.ReadOnly {
		late, err := b.late()
		if err != nil {
			return nil, err
		}
		key, err := record.Key(url)
		if rows := late.from(key); err == nil && len(rows) > 0 && bytes.Equal(rows[0].key, key) {
			return []uint64{rows[0].seq}, nil
		}
		return nil, nil
	}
	if b.most == 0 {
		return nil, nil
	}
	return b.candidates(b.opts.Fingerprint(url)), nil
}

func (b *Inbox) candidates(fp uint64) (seqs []uint64) {
	b.tables.RLock()
	defer b.tables.RUnlock()
	for i := range b.lists {
		seqs = b.lists[i].table.find(seqs, fp, b.lists[i].first)
	}
	return seqs
}

// Record returns the value of the record under a key, wherever it is, nil if there is none. seqs
// are the numbers of discovery that it may have in the inbox.
func (b *Inbox) Record(in *boltfile.Values, key []byte, seqs ...uint64) []byte {
	if value := in.Get(b.opts.Records, key); value != nil || len(seqs) == 0 {
		return value
	}
	value, _, _ := b.waiting(in, key, seqs)
	return value
}

// waiting returns what the inbox has for a record key: value, list and number of discovery.
func (b *Inbox) waiting(in *boltfile.Values, key []byte, seqs []uint64) (value []byte, list int, seq uint64) {
	var place [8]byte
	for _, seq := range seqs {
		for i, name := range Buckets {
			k := rowKey(place[:0], seq)
			if row := in.Get(name, k); row != nil {
				if found, value, err := Row(k, row); err == nil && bytes.Equal(found, key) {
					return value, i, seq
				}
			}
		}
	}
	return nil, 0, 0
}

// Change is Record for a transaction that may write the record of a URL to the bucket of records.
// moved is false if the inbox has it.
func (b *Inbox) Change(in *boltfile.Values, url string, key []byte) (value []byte, moved bool) {
	if value = in.Get(b.opts.Records, key); value != nil || b.most == 0 {
		return value, true
	}
	value, list, seq := b.waiting(in, key, b.candidates(b.opts.Fingerprint(url)))
	if value == nil {
		return nil, true
	}
	b.lists[list].changes(seq)
	return value, false
}

type arrival struct {
	fingerprint, seq uint64
	bytes            int
}

// Arrivals are the rows that one transaction writes.
type Arrivals struct {
	inbox    *Inbox
	arrivals []arrival
	rows     boltfile.Puts
}

// Arrivals returns a list for about n rows.
func (b *Inbox) Arrivals(n int) *Arrivals {
	if b.most == 0 || b.least < 0 {
		n = 0
	}
	return &Arrivals{inbox: b, arrivals: make([]arrival, 0, n), rows: make(boltfile.Puts, 0, n)}
}

// Take adds the record of a new URL, unless it has to go to the bucket of records at once.
func (t *Arrivals) Take(r *record.Record, key []byte, arena *boltfile.Arena) bool {
	b := t.inbox
	if b.most == 0 || b.least < 0 || record.PathOf(key) != nil || b.direct[record.Host(r.URL)] {
		return false
	}
	l := b.filling()
	if l.rows+len(t.arrivals) >= capacity(b.most) || l.rows > 0 && r.Seq-l.first > maxPlace {
		return false
	}
	row := arena.Keep(func(b []byte) []byte { return appendRow(b, key, r) })
	t.rows.Put(arena.Keep(func(b []byte) []byte { return rowKey(b, r.Seq) }), row)
	t.arrivals = append(t.arrivals, arrival{b.opts.Fingerprint(r.URL), r.Seq, len(row)})
	return true
}

// Write writes the rows.
func (t *Arrivals) Write(in *boltfile.Values) error {
	name := Buckets[t.inbox.fill]
	in.Tx.Bucket(name).FillPercent = 1 // nothing comes between its rows
	return in.Write(name, t.rows)
}

// Arrived makes the rows known, once they are durable.
func (b *Inbox) Arrived(t *Arrivals) {
	if len(t.arrivals) == 0 {
		return
	}
	b.tables.Lock()
	defer b.tables.Unlock()
	bytes := int64(0)
	for _, a := range t.arrivals {
		b.filling().count(a)
		bytes += int64(a.bytes)
	}
	for _, a := range t.arrivals {
		b.filling().add(a, b.most) // now that the first is known
	}
	if m := b.moving(); m.rows > 0 {
		// By what share of its way this list has come nearer to being long, an eighth more of the other
		// is to be moved: so all commits cost the same, and it is done in time.
		share := max(float64(len(t.arrivals))/float64(b.goal), float64(bytes)/float64(b.bytes))
		b.owed += int(math.Ceil(9. / 8 * share * float64(m.rows)))
	}
}

// add makes a row that has been counted findable.
func (l *list) add(a arrival, most int) { l.table.add(a.fingerprint, a.seq-l.first, most) }

// count counts a row. Only of those that become durable together a later one may be the first.
func (l *list) count(a arrival) {
	if l.rows == 0 || a.seq < l.first {
		l.first = a.seq
	}
	l.rows++
	l.bytes += int64(a.bytes)
}

// Each calls fn with the key and the value of each record in the inbox, also of those that do not
// count, and with its number of discovery; err says that the row is damaged.
func (b *Inbox) Each(ctx context.Context, fn func(seq uint64, key, value []byte, err error) error) error {
	for _, name := range Buckets {
		err := b.file.Scan(ctx, name, nil, func(k, v []byte) error {
			key, value, err := Row(k, v)
			if err != nil {
				return fn(0, nil, nil, err)
			}
			return fn(binary.BigEndian.Uint64(k), key, value, nil)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Keys calls fn with the key of each record, for some twice. It misses none that is moved
// meanwhile; those that come meanwhile it may miss.
func (b *Inbox) Keys(ctx context.Context, fn func(key []byte) error) error {
	err := b.Each(ctx, func(_ uint64, key, _ []byte, err error) error {
		if err != nil {
			return err
		}
		return fn(key)
	})
	if err != nil {
		return err
	}
	return b.file.Scan(ctx, b.opts.Records, nil, func(k, _ []byte) error { return fn(k) })
}

// Row returns what a row of the Buckets holds: a record key, and the value that belongs under it.
func Row(k, v []byte) (key, value []byte, err error) {
	n, size := binary.Uvarint(v)
	if len(k) != 8 || size <= 0 || n == 0 || n > uint64(len(v)-size) {
		return nil, nil, fmt.Errorf("bucket inbox: row %x: %w", k, record.ErrCorrupt)
	}
	return v[size:][:n], v[size:][n:], nil
}

func appendRow(b, key []byte, r *record.Record) []byte {
	b = append(binary.AppendUvarint(b, uint64(len(key))), key...)
	at := len(b)
	return append(b[:at], r.Append(b[at:at], key)...)
}

func rowKey(b []byte, seq uint64) []byte { return binary.BigEndian.AppendUint64(b, seq) }
