package boltfile

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// TestAllocs: bbolt's account of pages stays small, and a reader that reads meanwhile sees what was
// there when it began: a page that it may read must not be free for others, whether its entry is
// dropped or not.
func TestAllocs(t *testing.T) {
	name := []byte("a")
	path := filepath.Join(t.TempDir(), "db")
	err := Create(path, nil, func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket(name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(path, Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !f.allocs.entries.IsValid() {
		t.Fatal("bbolt has no account of pages any more, or has it elsewhere")
	}
	rng := rand.New(rand.NewPCG(11, 11))
	put := func(n int) {
		err := f.Update(func(tx *bolt.Tx) error {
			var puts Puts
			met := map[int]bool{}
			for range n {
				if i := rng.IntN(20_000); !met[i] {
					met[i] = true
					puts.Put(fmt.Appendf(nil, "%06d", i), bytes.Repeat([]byte{byte(rng.IntN(256))}, 100))
				}
			}
			return (&Values{Tx: tx}).Write(name, puts)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		put(500)
	}
	if f.allocs.entries.Len() == 0 {
		t.Fatal("no page was allocated from the free ones")
	}
	f.allocs.most = 10
	sum := func(tx *bolt.Tx) uint32 {
		sum := crc32.NewIEEE()
		err := tx.Bucket(name).ForEach(func(k, v []byte) error {
			sum.Write(k)
			sum.Write(v)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return sum.Sum32()
	}
	for i := range 30 {
		err := f.View(func(tx *bolt.Tx) error {
			before := sum(tx)
			put(100)
			put(100)
			if after := sum(tx); after != before {
				t.Errorf("round %d: a reader sees %x, then %x", i, before, after)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := f.allocs.entries.Len(); n > f.allocs.most {
			t.Fatalf("round %d: %d pages are in the account, want at most %d", i, n, f.allocs.most)
		}
	}
	if err := f.Check(); err != nil {
		t.Error(err)
	}
}
