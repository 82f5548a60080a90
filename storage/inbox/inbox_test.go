package inbox

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/boltfile"
	"urltree/storage/record"
)

var records = []byte("url")

// newFile makes a file with empty buckets.
func newFile(t *testing.T) *boltfile.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	err := boltfile.Create(path, nil, func(tx *bolt.Tx) error {
		for _, name := range [][]byte{records, Buckets[0], Buckets[1]} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	file, err := boltfile.Open(path, boltfile.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
	return file
}

// open opens the inbox of a file without records, whose lists are moved from n rows on.
func open(t *testing.T, file *boltfile.File, n int) *Inbox {
	t.Helper()
	b, _, err := Open(file, Options{Least: n, Memory: 64 << 20, Strict: true, Records: records, Fingerprint: hash}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func hash(url string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(url))
	return h.Sum64()
}

// fill writes records of new URLs in one transaction.
func fill(t *testing.T, b *Inbox, urls []string) {
	t.Helper()
	batch := b.Arrivals(len(urls))
	err := b.file.Update(func(tx *bolt.Tx) error {
		var arena boltfile.Arena
		for i, url := range urls {
			key, err := record.Key(url)
			if err != nil {
				return err
			}
			r := record.Record{State: record.Pending, Row: record.Row{URL: url, Range: record.Now, Seq: uint64(i + 1)}}
			if !batch.Take(&r, key, &arena) {
				t.Errorf("%s is not taken", url)
			}
		}
		return batch.Write(&boltfile.Values{Tx: tx})
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Arrived(batch)
}

// TestArrange: every row of a list is there once, in groups that follow each other in the order of
// keys, and that are small although a third of the rows lie in one folder.
func TestArrange(t *testing.T) {
	file := newFile(t)
	b := open(t, file, 1<<20)
	rng := rand.New(rand.NewPCG(9, 9))
	const rows = 15 * 1500
	urls := make([]string, rows)
	for i := range urls {
		if rng.IntN(3) == 0 {
			urls[i] = fmt.Sprintf("http://a.org/s80/one/page-%d.html", rng.Uint64())
		} else {
			f := rng.IntN(1 << 16)
			urls[i] = fmt.Sprintf("http://a.org/s%02x/t%02x/page-%d.html", f>>8, f&0xff, rng.Uint64())
		}
	}
	fill(t, b, urls)
	l := b.filling()
	err := file.View(func(tx *bolt.Tx) error {
		b := tx.Bucket(Buckets[b.fill])
		order, err := arrange(b, l)
		if err != nil || len(order.rows) != rows || order.ends[len(order.ends)-1] != rows {
			t.Fatalf("%d rows, %d in groups, %v; want %d", len(order.rows), order.ends[len(order.ends)-1], err, rows)
		}
		met := map[uint64]bool{}
		var last []byte // the greatest key of all groups so far
		from := 0
		for _, end := range order.ends {
			to := from
			var least, most []byte
			for ; to < int(end); to++ {
				seq := l.first + uint64(order.rows[to])
				key, _, err := Row(rowKey(nil, seq), b.Get(rowKey(nil, seq)))
				if err != nil || met[seq] {
					t.Fatalf("row %d: %v, met before: %v", seq, err, met[seq])
				}
				met[seq] = true
				if least == nil || bytes.Compare(key, least) < 0 {
					least = key
				}
				if bytes.Compare(key, most) > 0 {
					most = key
				}
			}
			if bytes.Compare(least, last) < 0 {
				t.Fatalf("%q comes after %q", least, last)
			}
			if n := to - from; n > 12*groupRows {
				t.Errorf("a group of %d rows, want at most %d", n, 12*groupRows)
			}
			last, from = most, to
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestChanges: what has changed is known row by row, until that would take too much memory; from
// then on any row may have changed.
func TestChanges(t *testing.T) {
	l := list{rows: 10_000}
	for seq := uint64(1000); seq < 11_000; seq += 3 {
		l.changes(seq)
	}
	for seq := uint64(900); seq < 11_100; seq++ {
		if got, want := l.mayHave(seq), seq >= 1000 && seq < 11_000 && seq%3 == 1; got != want {
			t.Fatalf("row %d may have changed: %v, want %v", seq, got, want)
		}
	}
	for i := range uint64(10_000) { // far apart
		l.changes(i << 20)
	}
	if !l.all || l.changed != nil || !l.mayHave(5) {
		t.Errorf("%d words are kept for %d rows", len(l.changed), l.rows)
	}
}

// TestOrder: whole groups are moved together, if they fit, and no row twice.
func TestOrder(t *testing.T) {
	all := order{rows: []uint32{4, 9, 7, 1, 0, 3}, ends: []uint32{0, 2, 3, 3, 6}} // groups of 0, 2, 1, 0, 3 rows
	for n, want := range []int{0, 1, 2, 3, 3, 3, 6, 6} {
		if got := len(all.next(n)); got != want {
			t.Errorf("%d of at most %d, want %d", got, n, want)
		}
	}
	for _, tt := range []struct{ moved, n, want int }{{3, 2, 2}, {1, 1, 1}, {1, 2, 2}, {1, 3, 2}, {4, 1, 1}, {5, 4, 1}} {
		o := all
		o.moved(tt.moved)
		got := o.next(tt.n)
		if len(got) != tt.want || !slices.Equal(got, all.rows[tt.moved:][:tt.want]) {
			t.Errorf("after %d rows at most %d are %d, want %d", tt.moved, tt.n, got, tt.want)
		}
	}
}

// TestTableMemory: a full list stays within its part of the memory, beside one that is moved.
func TestTableMemory(t *testing.T) {
	const most = 1 << 20
	var tab table
	rng := rand.New(rand.NewPCG(10, 10))
	peak := 0
	for i := range uint64(capacity(most)) {
		grown := tab.few
		tab.add(rng.Uint64(), i, most)
		if tab.many == nil {
			grown = nil
		}
		peak = max(peak, 8*len(grown)+8*len(tab.few)+4*len(tab.many))
	}
	if bytes := peak + 4*len(tab.many) + 4*most; bytes > bytesOfInbox*most {
		t.Errorf("%d bytes for two tables and an order of %d rows, want at most %d", bytes, most, bytesOfInbox*most)
	}
	if 4*tab.n > 3*len(tab.many) {
		t.Errorf("%d rows in %d places", tab.n, len(tab.many))
	}
}

// TestTable: each row is found, and hardly any other, while there are few and when there are many.
func TestTable(t *testing.T) {
	const most, first = 40_000, 1<<40 - 500
	rng := rand.New(rand.NewPCG(6, 6))
	var tab table
	fps := make([]uint64, 0, capacity(most))
	look := func() {
		others := 0
		for i, fp := range fps {
			place := uint64(i ^ 1) // not in order
			if i == 1 {
				place = maxPlace
			}
			got := tab.find(nil, fp, first)
			if !slices.Contains(got, first+place) {
				t.Fatalf("of %d rows, that at %d is not found: %d", len(fps), place, got)
			}
			others += len(got) - 1 + len(tab.find(nil, rng.Uint64(), first))
		}
		if others > len(fps)/2 {
			t.Errorf("%d others are found for %d rows", others, len(fps))
		}
	}
	for i := range cap(fps) {
		fps = append(fps, rng.Uint64())
		place := uint64(i ^ 1)
		if i == 1 {
			place = maxPlace
		}
		tab.add(fps[i], place, most)
		if i == 1000 {
			look()
		}
	}
	if tab.many == nil {
		t.Fatal("few rows are kept like many")
	}
	look()
}

// TestWithoutTables: if no rows are looked up they take no time to be made findable.
func TestWithoutTables(t *testing.T) {
	file := newFile(t)
	urls := make([]string, 900)
	for i := range urls {
		urls[i] = fmt.Sprintf("http://a.org/%d", i)
	}
	fill(t, open(t, file, 1000), urls)
	b := open(t, file, 0)
	filling, moving := b.Rows()
	if n := b.lists[0].table.n + b.lists[1].table.n; filling+moving != 900 || n != 0 {
		t.Errorf("%d rows, %d of them in a table; want 900, none", filling+moving, n)
	}
}
