package storage

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/record"
)

// A file cut off at any page is told as damaged, not met later as a fault of memory.
func TestTruncated(t *testing.T) {
	x, path := newIndex(t, 2000)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	used := 0
	db, err := bolt.Open(path, 0o644, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.View(func(tx *bolt.Tx) error { used = int(tx.Size()); return nil })
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{false, true} {
		for size := 0; size < used; size += os.Getpagesize() * (1 + size/os.Getpagesize()/4) {
			if err := os.WriteFile(path, whole[:size], 0o644); err != nil {
				t.Fatal(err)
			}
			if x, err := Open(path, Options{ReadOnly: readOnly, NoSync: true}); err == nil {
				x.Close()
				t.Errorf("%d of %d bytes opened", size, used)
			} else if !errors.Is(err, record.ErrDamaged) {
				t.Errorf("%d of %d bytes: %v", size, used, err)
			}
		}
	}
	if err := os.WriteFile(path, whole[:used], 0o644); err != nil {
		t.Fatal(err)
	}
	if faults := faultsOf(t, open(t, path, Options{NoSync: true})); len(faults) > 0 {
		t.Errorf("cut behind its last page: %v", faults)
	}
}

// Whatever is wrong in the file, opening and verifying it gives an error or a fault, or the
// place was not in use; it never ends the process.
func TestScrambled(t *testing.T) {
	x, path := newIndex(t, 500)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	noticed := 0
	for range 60 {
		bad := slices.Clone(whole)
		page := rnd.IntN(60) * os.Getpagesize()
		for range rnd.IntN(40) + 1 {
			bad[page+rnd.IntN(64)] = byte(rnd.Uint32()) // headers and elements stand at the front
		}
		if err := os.WriteFile(path, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		x, err := Open(path, Options{ReadOnly: true})
		if err != nil {
			noticed++
			continue
		}
		faults := 0
		_, err = x.Verify(context.Background(), func(string) { faults++ })
		if err != nil || faults > 0 {
			noticed++
		}
		x.Close()
	}
	if noticed < 10 {
		t.Errorf("%d of 60 scrambled files noticed", noticed)
	}
}

func TestOpenErrors(t *testing.T) {
	x, path := newIndex(t, 1)
	if _, err := Open(path+"x", Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	if _, err := Open(path, Options{}); err == nil || errors.Is(err, record.ErrDamaged) {
		t.Errorf("open elsewhere: %v", err)
	}
	x.Close()
	for _, other := range []byte{Schema - 1, Schema + 1} {
		db, err := bolt.Open(path, 0o644, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = db.Update(func(tx *bolt.Tx) error {
			return tx.Bucket(record.BucketSys).Put(record.KeySchema, record.Seal([]byte{other}, nil))
		})
		if err = errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
		for _, readOnly := range []bool{false, true} {
			if x, err := Open(path, Options{ReadOnly: readOnly}); err == nil {
				x.Close()
				t.Errorf("format %d, which is not %d, opened", other, Schema)
			} else if want := map[bool]error{true: ErrOlder, false: ErrSchema}[other < Schema]; !errors.Is(err, want) || errors.Is(err, record.ErrDamaged) {
				t.Errorf("format %d, which is not %d: %v", other, Schema, err)
			}
		}
	}
	if err := os.WriteFile(path, []byte("something else"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{}); !errors.Is(err, record.ErrDamaged) {
		t.Errorf("another file: %v", err)
	}
}

// Damage inside one value costs one record, and Verify names it.
func TestDamagedValue(t *testing.T) {
	x, _ := newIndex(t, 10)
	const url = "http://host3.org/3"
	key, err := record.Key(url)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.file.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket(record.BucketURL)
		v := slices.Clone(b.Get(key))
		v[len(v)/2] ^= 1
		return b.Put(key, v)
	}); err != nil {
		t.Fatal(err)
	}
	good, bad := 0, 0
	err = x.Records(context.Background(), nil, func(r record.Record, err error) error {
		if err == nil {
			good++
		} else if bad++; !errors.Is(err, record.ErrCorrupt) {
			t.Error(err)
		}
		return nil
	})
	if err != nil || good != 19 || bad != 1 {
		t.Errorf("%d good, %d bad, %v", good, bad, err)
	}
	if _, err := x.Record(url); !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("record: %v", err)
	}
	if len(faultsOf(t, x)) == 0 {
		t.Error("no fault")
	}
	if _, err := x.Commit([]*record.Outcome{{Row: record.Row{URL: url, Source: record.Seed}, State: record.Failed, Reason: "timeout"}}); err != nil {
		t.Error(err)
	}
	if r, err := x.Record(url); err != nil || r.State != record.Failed {
		t.Errorf("made anew: %+v, %v", r, err)
	}
	if m, err := x.Meta(url); m != nil || err != nil {
		t.Errorf("metadata of what is no page any more: %+v, %v", m, err)
	}
}

// Every way in which counters, rows and records can disagree is a fault.
func TestVerifyFaults(t *testing.T) {
	key, err := record.Key("http://host0.org/0/")
	if err != nil {
		t.Fatal(err)
	}
	first := func(b *bolt.Bucket) ([]byte, []byte) { return b.Cursor().First() }
	for _, tt := range []struct {
		name  string
		spoil func(tx *bolt.Tx) error
	}{
		{"pending row gone", func(tx *bolt.Tx) error {
			k, _ := first(tx.Bucket(record.BucketPending))
			return tx.Bucket(record.BucketPending).Delete(k)
		}},
		{"pending row too many", func(tx *bolt.Tx) error {
			return tx.Bucket(record.BucketPending).Put(record.AppendPendingKey(nil, &record.Row{URL: "http://a.org/", Range: record.Now}, key), make([]byte, 4))
		}},
		{"record gone", func(tx *bolt.Tx) error { return tx.Bucket(record.BucketURL).Delete(key) }},
		{"record under another key", func(tx *bolt.Tx) error {
			b := tx.Bucket(record.BucketURL)
			return errors.Join(b.Put([]byte("http\x00dhost0.org\x00r0\x00r\x00"), slices.Clone(b.Get(key))), b.Delete(key))
		}},
		{"folder counter", func(tx *bolt.Tx) error {
			k, _ := first(tx.Bucket(record.BucketFolder))
			return tx.Bucket(record.BucketFolder).Put(k, record.Seal((&record.Counts{Now: 1}).Append(nil), k))
		}},
		{"folder gone", func(tx *bolt.Tx) error {
			k, _ := first(tx.Bucket(record.BucketFolder))
			return tx.Bucket(record.BucketFolder).Delete(k)
		}},
		{"folder too many", func(tx *bolt.Tx) error {
			return tx.Bucket(record.BucketFolder).Put([]byte("http\x00dx\x00"), record.Seal((&record.Counts{}).Append(nil), []byte("http\x00dx\x00")))
		}},
		{"host counter", func(tx *bolt.Tx) error {
			k, _ := first(tx.Bucket(record.BucketHost))
			return tx.Bucket(record.BucketHost).Put(k, (&record.HostRow{HostTimes: record.HostTimes{Name: string(k)}}).Append(nil))
		}},
		{"host gone", func(tx *bolt.Tx) error {
			k, _ := first(tx.Bucket(record.BucketHost))
			return tx.Bucket(record.BucketHost).Delete(k)
		}},
		{"metadata of a pending URL", func(tx *bolt.Tx) error {
			return tx.Bucket(record.BucketMeta).Put(key, (&record.Meta{}).Append(nil, key))
		}},
		{"metadata without a record", func(tx *bolt.Tx) error {
			key := []byte("http\x00da\x00r\x00")
			return tx.Bucket(record.BucketMeta).Put(key, (&record.Meta{}).Append(nil, key))
		}},
		{"metadata under no key", func(tx *bolt.Tx) error {
			return tx.Bucket(record.BucketMeta).Put([]byte("x"), (&record.Meta{}).Append(nil, []byte("x")))
		}},
		{"metadata damaged", func(tx *bolt.Tx) error {
			k, _ := first(tx.Bucket(record.BucketMeta))
			return tx.Bucket(record.BucketMeta).Put(k, record.Seal([]byte{9}, k))
		}},
		{"totals", func(tx *bolt.Tx) error {
			return tx.Bucket(record.BucketSys).Put(record.KeyTotals, (&record.Totals{Bytes: 1}).Append(nil, record.KeyTotals))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x, path := newIndex(t, 20)
			if faults := faultsOf(t, x); len(faults) > 0 {
				t.Fatalf("before: %v", faults)
			}
			if err := x.file.Update(tt.spoil); err != nil {
				t.Fatal(err)
			}
			x.Close()
			if len(faultsOf(t, open(t, path, Options{ReadOnly: true}))) == 0 {
				t.Error("no fault")
			}
		})
	}
}
