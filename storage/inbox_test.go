package storage

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/record"
)

// newInbox makes an index whose lists are moved from n rows on.
func newInbox(t *testing.T, n int) (x *Index, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "index.db")
	if err := Create(path); err != nil {
		t.Fatal(err)
	}
	return open(t, path, Options{NoSync: true, Strict: true, Inbox: n}), path
}

// scattered commits n new URLs that lie anywhere among 65,536 folders.
func scattered(t *testing.T, x *Index, rng *rand.Rand, n int) {
	t.Helper()
	for n > 0 {
		o := &record.Outcome{}
		for range min(n, 1000) {
			f := rng.IntN(1 << 16)
			o.Links = append(o.Links, record.Link{URL: fmt.Sprintf("http://a.org/s%02x/t%02x/page-%d.html", f>>8, f&0xff, rng.Uint64()), Source: "http://a.org/", Depth: 1})
		}
		if _, err := x.Commit([]*record.Outcome{o}); err != nil {
			t.Fatal(err)
		}
		n -= len(o.Links)
	}
}

// TestInboxWrites counts the pages of the file that a new URL takes, among others that lie
// anywhere: with an inbox a third at most.
func TestInboxWrites(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 120,000 URLs: not with -short")
	}
	cost := func(inbox int) float64 {
		x, _ := newInbox(t, inbox)
		x.Filter().SetComplete()
		rng := rand.New(rand.NewPCG(1, 1))
		scattered(t, x, rng, 40_000)
		before := x.Written()
		const n = 20_000
		scattered(t, x, rng, n)
		return float64(x.Written()-before) / n
	}
	with, without := cost(1000), cost(0)
	t.Logf("pages written for a new URL: %.2f, without an inbox %.2f", with, without)
	if with > without/3 {
		t.Error("too many")
	}
}

// TestInboxIsMoved: all lists are moved by commits alone, and none grows far beyond what begins
// that.
func TestInboxIsMoved(t *testing.T) {
	x, _ := newInbox(t, 100)
	rng := rand.New(rand.NewPCG(2, 2))
	turns, last := 0, 0
	for range 400 {
		scattered(t, x, rng, 50)
		b := &x.inbox
		if b.fill != last {
			turns, last = turns+1, b.fill
		}
		most := int(max(x.Totals().Records()/4, 100)) + 50
		if b.lists[0].rows > most || b.lists[1].rows > most {
			t.Fatalf("lists of %d and %d rows, want at most %d", b.lists[0].rows, b.lists[1].rows, most)
		}
	}
	if turns < 10 {
		t.Errorf("%d turns, want 10", turns)
	}
	if err := x.Settle(context.Background()); err != nil {
		t.Fatal(err)
	}
	sound(t, x, 20_000)
	if rows := x.inbox.lists[0].rows + x.inbox.lists[1].rows; rows != 0 {
		t.Errorf("%d rows are left after settle", rows)
	}
}

func sound(t *testing.T, x *Index, n int64) {
	t.Helper()
	sum, err := x.Verify(context.Background(), func(fault string) { t.Error("fault:", fault) })
	if err != nil || sum.Records() != n {
		t.Errorf("%d records, %v; want %d", sum.Records(), err, n)
	}
}

// TestInboxOfAnotherRun opens a file in whose inbox a killed run has left both lists: with an
// inbox, which goes on; without one; with one that takes nothing more; with a budget that needs the
// counts of folders.
func TestInboxOfAnotherRun(t *testing.T) {
	for name, opts := range map[string]Options{
		"inbox": {Inbox: 100}, "none": {}, "closed": {Inbox: -1}, "budget": {Inbox: 100, Limits: Limits{Prefix: 10}}, "reader": {ReadOnly: true},
	} {
		t.Run(name, func(t *testing.T) {
			x, path := newInbox(t, 100)
			rng := rand.New(rand.NewPCG(3, 3))
			for x.inbox.moving().rows == 0 || x.inbox.filling().rows == 0 {
				scattered(t, x, rng, 20)
			}
			n := x.Totals().Records()
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
			opts.NoSync = true
			x = open(t, path, opts)
			sound(t, x, n)
			if !opts.ReadOnly && opts.Inbox == 0 && x.inbox.lists[0].rows+x.inbox.lists[1].rows > 0 {
				t.Error("the inbox was not emptied")
			}
			if opts.Inbox < 0 {
				if x.inbox.moving().rows == 0 || x.Written() > 0 {
					t.Errorf("%d rows are left to be moved, after %d pages were written", x.inbox.moving().rows, x.Written())
				}
				rows := rowsOf(x)
				scattered(t, x, rng, 10)
				if now := rowsOf(x); now != rows {
					t.Errorf("%d rows in the inbox, then %d", rows, now)
				}
				n += 10
				sound(t, x, n)
			}
			if err := x.Settle(context.Background()); err != nil {
				t.Fatal(err)
			}
			below, err := x.Folder([]byte("http\x00dorg\x00")) // no such folder: labels come in the order of the URL
			if err != nil || below != (record.Counts{}) {
				t.Errorf("counts of a folder that is not there: %+v, %v", below, err)
			}
			if below, err = x.Folder([]byte("http\x00da\x00dorg\x00")); err != nil || below.Now != n {
				t.Errorf("counts %+v, %v; want %d now", below, err, n)
			}
			if opts.ReadOnly {
				return
			}
			scattered(t, x, rng, 1000)
			sound(t, x, n+1000)
		})
	}
}

// TestInboxDamage spoils rows: check names them, and what else there is stays.
func TestInboxDamage(t *testing.T) {
	x, _ := newInbox(t, 100)
	scattered(t, x, rand.New(rand.NewPCG(4, 4)), 50)
	spoil := func(at uint64, fn func(v []byte) []byte) {
		t.Helper()
		err := x.db.Update(func(tx *bolt.Tx) error {
			b := tx.Bucket(bucketInbox[x.inbox.fill])
			k := inboxKey(nil, at)
			return b.Put(k, fn(bytes.Clone(b.Get(k))))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	faults := func() (list []string) {
		t.Helper()
		if _, err := x.Verify(context.Background(), func(f string) { list = append(list, f) }); err != nil {
			t.Fatal(err)
		}
		return list
	}
	spoil(7, func(v []byte) []byte { v[len(v)-6]++; return v })
	if got := faults(); len(got) != 1 {
		t.Errorf("faults %q, want the damaged value", got)
	}
	// It is moved as it is.
	if err := x.Settle(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := faults(); len(got) != 1 {
		t.Errorf("faults %q, want the damaged value", got)
	}
	n, bad := 0, 0
	err := x.Records(context.Background(), nil, func(_ record.Record, err error) error {
		n++
		if err != nil {
			bad++
		}
		return nil
	})
	if err != nil || n != 50 || bad != 1 {
		t.Errorf("%d records, %d damaged, %v; want 50, 1", n, bad, err)
	}
	// A row of which nobody knows where it belongs must not get lost.
	scattered(t, x, rand.New(rand.NewPCG(5, 5)), 50)
	spoil(60, func([]byte) []byte { return []byte{0xff} })
	if got := faults(); len(got) != 2 {
		t.Errorf("faults %q, want two", got)
	}
	if err := x.Settle(context.Background()); !errors.Is(err, record.ErrDamaged) {
		t.Errorf("settle: %v, want %v", err, record.ErrDamaged)
	}
}

// TestInboxOldDamage spoils a row that counts no more, and one that gets the key of a record, so
// that it seems to count no more: check names both, and nothing is missing but the record of the
// second.
func TestInboxOldDamage(t *testing.T) {
	for name, other := range map[string]bool{"old": false, "of another": true} {
		t.Run(name, func(t *testing.T) {
			x, path := newInbox(t, 100)
			scattered(t, x, rand.New(rand.NewPCG(8, 8)), 50)
			rows, err := x.Refill("a.org", time.Now(), 2, func(string) bool { return false })
			if err != nil || len(rows) != 2 {
				t.Fatal(rows, err)
			}
			commitOutcome(t, x, rows[0], record.Failed)
			at := rows[0].Seq
			if other {
				at = rows[1].Seq
			}
			err = x.db.Update(func(tx *bolt.Tx) error {
				b := tx.Bucket(bucketInbox[x.inbox.fill])
				_, value, err := inboxRow(inboxKey(nil, at), b.Get(inboxKey(nil, at)))
				if err != nil {
					return err
				}
				key, err := record.Key(rows[0].URL)
				if err != nil {
					return err
				}
				row := append(binary.AppendUvarint(nil, uint64(len(key))), key...)
				row = append(row, value...)
				if !other {
					row[len(row)-6]++
				}
				return b.Put(inboxKey(nil, at), row)
			})
			if err != nil {
				t.Fatal(err)
			}
			var faults []string
			if _, err := x.Verify(t.Context(), func(f string) { faults = append(faults, f) }); err != nil {
				t.Fatal(err)
			}
			if len(faults) == 0 || !strings.Contains(faults[0], rows[0].URL) {
				t.Errorf("faults %q, want the row", faults)
			}
			if err := errors.Join(x.SetLinkOptions([]byte("made by")), x.Close()); err != nil {
				t.Fatal(err)
			}
			to, _ := newInbox(t, 0)
			got, err := Salvage(t.Context(), path, to)
			if err != nil || len(got.Lost) > 0 || got.Nameless > 0 || got.Named != other {
				t.Errorf("%+v, %v; want nothing lost but a record without a trace: %v", got, err, other)
			}
			if options, err := to.LinkOptions(); err != nil || string(options) != "made by" {
				t.Errorf("link options %q, %v", options, err)
			}
			n := int64(50)
			if other {
				n--
			}
			sound(t, to, n)
		})
	}
}

// TestArrange: every row of a list is there once, in groups that follow each other in the order of
// keys, and that are small although a third of the rows lie in one folder.
func TestArrange(t *testing.T) {
	x, _ := newInbox(t, 1<<20)
	rng := rand.New(rand.NewPCG(9, 9))
	for range 15 {
		scattered(t, x, rng, 1000)
		o := &record.Outcome{}
		for range 500 {
			o.Links = append(o.Links, record.Link{URL: fmt.Sprintf("http://a.org/s80/one/page-%d.html", rng.Uint64()), Source: record.Seed})
		}
		if _, err := x.Commit([]*record.Outcome{o}); err != nil {
			t.Fatal(err)
		}
	}
	const rows = 15 * 1500
	l := x.inbox.filling()
	err := x.view(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketInbox[x.inbox.fill])
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
				key, _, err := inboxRow(inboxKey(nil, seq), b.Get(inboxKey(nil, seq)))
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

// TestInboxHidden commits outcomes of URLs while their first records are in the inbox: these must
// never come back.
func TestInboxHidden(t *testing.T) {
	for name, again := range map[string]bool{"opened again": true, "moved at once": false} {
		t.Run(name, func(t *testing.T) { inboxHidden(t, again) })
	}
}

func inboxHidden(t *testing.T, again bool) {
	x, path := newInbox(t, 100)
	urls := []string{"http://a.org/", "http://a.org/x", "http://b.org/y/z"}
	o := &record.Outcome{}
	for _, url := range urls {
		o.Links = append(o.Links, record.Link{URL: url, Source: record.Seed})
	}
	done, err := x.Commit([]*record.Outcome{o})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range done.Fresh {
		if _, err := x.Commit([]*record.Outcome{{Row: row, State: record.Failed, Reason: "timeout"}}); err != nil {
			t.Fatal(err)
		}
	}
	failed := func(when string) {
		t.Helper()
		for _, url := range urls {
			if rec, err := x.Record(url); err != nil || rec.State != record.Failed {
				t.Errorf("%s: %s is %v, %v", when, url, rec.State, err)
			}
		}
		sound(t, x, 3)
	}
	if x.inbox.filling().rows != 3 {
		t.Fatalf("%d rows in the inbox, want 3", x.inbox.filling().rows)
	}
	failed("in the inbox")
	if again {
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		x = open(t, path, Options{ReadOnly: true})
		failed("for a reader")
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		x = open(t, path, Options{NoSync: true, Strict: true, Inbox: 100})
		failed("after it was opened again")
	}
	if err := x.Settle(context.Background()); err != nil {
		t.Fatal(err)
	}
	failed("moved")
}

func rowsOf(x *Index) int { return x.inbox.lists[0].rows + x.inbox.lists[1].rows }

// TestInboxAsksForRoom: what is in the inbox is moved once there is room for it, and not at all if
// there is none: with that, nothing has been written.
func TestInboxAsksForRoom(t *testing.T) {
	for name, opts := range map[string]Options{"none": {}, "closed": {Inbox: -1}} {
		t.Run(name, func(t *testing.T) {
			x, path := newInbox(t, 100)
			scattered(t, x, rand.New(rand.NewPCG(4, 4)), 90)
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
			size := func() int64 {
				info, err := os.Stat(path)
				if err != nil {
					t.Fatal(err)
				}
				return info.Size()
			}
			full, asked, rows := errors.New("full"), int64(0), size()
			opts.NoSync, opts.Room = true, func(_ context.Context, bytes int64) error {
				asked = bytes
				return full
			}
			x, err := Open(path, opts)
			if err == nil {
				err = x.Settle(t.Context())
				if n := rowsOf(x); n != 90 || x.Written() > 0 {
					t.Errorf("%d rows are left, %d pages were written", n, x.Written())
				}
				if err := x.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if !errors.Is(err, full) || asked == 0 || size() != rows {
				t.Errorf("%v after it asked for %d bytes; the file had %d and has %d", err, asked, rows, size())
			}
			opts.Room = func(context.Context, int64) error { return nil }
			x = open(t, path, opts)
			if err := x.Settle(t.Context()); err != nil || rowsOf(x) > 0 {
				t.Errorf("with room: %v, %d rows are left", err, rowsOf(x))
			}
			sound(t, x, 90)
		})
	}
}

// TestInboxWithoutTables: where nobody looks for rows in the inbox they take no time to be made
// findable.
func TestInboxWithoutTables(t *testing.T) {
	x, _ := newInbox(t, 1000)
	scattered(t, x, rand.New(rand.NewPCG(5, 5)), 900)
	x.inbox = inbox{}
	if _, err := x.readInbox(); err != nil {
		t.Fatal(err)
	}
	if n := x.inbox.lists[0].table.n + x.inbox.lists[1].table.n; rowsOf(x) != 900 || n != 0 {
		t.Errorf("%d rows, %d of them in a table; want 900, none", rowsOf(x), n)
	}
}
