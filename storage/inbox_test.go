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
	"testing"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/inbox"
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
		before := x.Stats().Written
		const n = 20_000
		scattered(t, x, rng, n)
		return float64(x.Stats().Written-before) / n
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
		filling, moving := x.inbox.Rows()
		if moving > 0 && last == 0 {
			turns++
		}
		last = moving
		most := int(max(x.Totals().Records()/4, 100)) + 50
		if filling > most || moving > most {
			t.Fatalf("lists of %d and %d rows, want at most %d", filling, moving, most)
		}
	}
	if turns < 10 {
		t.Errorf("%d turns, want 10", turns)
	}
	if err := x.Settle(context.Background()); err != nil {
		t.Fatal(err)
	}
	sound(t, x, 20_000)
	if rows := rowsOf(x); rows != 0 {
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
			for filling, moving := x.inbox.Rows(); filling == 0 || moving == 0; filling, moving = x.inbox.Rows() {
				scattered(t, x, rng, 20)
			}
			n := x.Totals().Records()
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
			opts.NoSync = true
			x = open(t, path, opts)
			sound(t, x, n)
			if !opts.ReadOnly && opts.Inbox == 0 && rowsOf(x) > 0 {
				t.Error("the inbox was not emptied")
			}
			if opts.Inbox < 0 {
				if movingRows(x) == 0 || x.Stats().Written > 0 {
					t.Errorf("%d rows are left to be moved, after %d pages were written", movingRows(x), x.Stats().Written)
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
			below, err := x.Folders().Counts([]byte("http\x00dorg\x00")) // no such folder: labels come in the order of the URL
			if err != nil || below != (record.Counts{}) {
				t.Errorf("counts of a folder that is not there: %+v, %v", below, err)
			}
			if below, err = x.Folders().Counts([]byte("http\x00da\x00dorg\x00")); err != nil || below.Now != n {
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
		err := x.file.Update(func(tx *bolt.Tx) error {
			b, k, row := inboxRow(tx, at)
			return b.Put(k, fn(row))
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
	if rowsOf(x) != 3 {
		t.Fatalf("%d rows in the inbox, want 3", rowsOf(x))
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

func rowsOf(x *Index) int {
	filling, moving := x.inbox.Rows()
	return filling + moving
}

// movingRows returns the number of rows that are being moved.
func movingRows(x *Index) int {
	_, moving := x.inbox.Rows()
	return moving
}

// inboxRow returns a row of the inbox by its number of discovery, and its bucket.
func inboxRow(tx *bolt.Tx, seq uint64) (b *bolt.Bucket, key, row []byte) {
	key = binary.BigEndian.AppendUint64(nil, seq)
	for _, name := range inbox.Buckets {
		if b = tx.Bucket(name); b.Get(key) != nil {
			break
		}
	}
	return b, key, bytes.Clone(b.Get(key))
}

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
			full, asked, rows := errors.New("full"), 0, size()
			opts.NoSync, opts.Watch = true, asks(func() error {
				asked++
				return full
			})
			x, err := Open(path, opts)
			if err == nil {
				err = x.Settle(t.Context())
				if n := rowsOf(x); n != 90 || x.Stats().Written > 0 {
					t.Errorf("%d rows are left, %d pages were written", n, x.Stats().Written)
				}
				if err := x.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if !errors.Is(err, full) || asked == 0 || size() != rows {
				t.Errorf("%v after it asked %d times; the file had %d and has %d", err, asked, rows, size())
			}
			opts.Watch = nil
			x = open(t, path, opts)
			if err := x.Settle(t.Context()); err != nil || rowsOf(x) > 0 {
				t.Errorf("with room: %v, %d rows are left", err, rowsOf(x))
			}
			sound(t, x, 90)
		})
	}
}

// TestTotalsWhileMovesWait: while a part of the inbox waits for room on the disk, the totals can be
// had, which the progress of a crawl shows each second.
func TestTotalsWhileMovesWait(t *testing.T) {
	x, path := newInbox(t, 100)
	scattered(t, x, rand.New(rand.NewPCG(4, 4)), 90)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	asked := 0
	x = open(t, path, Options{Inbox: 100, Watch: asks(func() error {
		asked++
		if !x.mu.TryLock() {
			return errors.New("no totals while a move waits")
		}
		x.mu.Unlock()
		return nil
	})})
	if err := x.Settle(t.Context()); err != nil || rowsOf(x) > 0 || asked == 0 {
		t.Errorf("%v, %d rows are left, asked %d times", err, rowsOf(x), asked)
	}
}
