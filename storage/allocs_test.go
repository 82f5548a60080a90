package storage

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// TestAllocs: bbolt's account of pages stays small, and a reader that reads meanwhile sees what was
// there when he began: a page that he may read must not be free for others, whether its entry is
// dropped or not.
func TestAllocs(t *testing.T) {
	x, _ := newInbox(t, 1<<20)
	if !x.allocs.entries.IsValid() {
		t.Fatal("bbolt has no account of pages any more, or has it elsewhere")
	}
	rng := rand.New(rand.NewPCG(11, 11))
	for range 20 {
		scattered(t, x, rng, 500)
	}
	if x.allocs.entries.Len() == 0 {
		t.Fatal("no page was allocated from the free ones")
	}
	x.allocs.most = 10
	rounds := 30
	if testing.Short() {
		rounds = 6
	}
	for i := range rounds {
		err := x.view(func(tx *bolt.Tx) error {
			before := sumOf(t, tx)
			scattered(t, x, rng, 100)
			scattered(t, x, rng, 100)
			if after := sumOf(t, tx); after != before {
				t.Errorf("round %d: a reader sees %x, then %x", i, before, after)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := x.allocs.entries.Len(); n > x.allocs.most {
			t.Fatalf("round %d: %d pages are in the account, want at most %d", i, n, x.allocs.most)
		}
	}
	sound(t, x, int64(20*500+rounds*200))
}

// sumOf returns the checksum of all that is in an index.
func sumOf(t *testing.T, tx *bolt.Tx) uint32 {
	t.Helper()
	sum := crc32.NewIEEE()
	for _, name := range buckets {
		err := tx.Bucket(name).ForEach(func(k, v []byte) error {
			sum.Write(k)
			sum.Write(v)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return sum.Sum32()
}
