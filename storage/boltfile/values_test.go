package boltfile

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// TestValues: between puts and deletes of one transaction, which split and empty pages, a values
// reads what the transaction has at that time, and takes no memory for it.
func TestValues(t *testing.T) {
	db, err := bolt.Open(filepath.Join(t.TempDir(), "db"), 0o600, &bolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	names := [][]byte{[]byte("a"), []byte("b")}
	stored := [2]map[string]string{{}, {}}
	for round := range 20 {
		now := [2]map[string]string{maps.Clone(stored[0]), maps.Clone(stored[1])}
		err := db.Update(func(tx *bolt.Tx) error {
			for _, name := range names {
				if _, err := tx.CreateBucketIfNotExists(name); err != nil {
					return err
				}
			}
			in := Values{Tx: tx}
			for range 2000 {
				i := rng.IntN(2)
				key := fmt.Appendf(nil, "key %d", rng.IntN(3000))
				want, there := now[i][string(key)]
				if got := in.Get(names[i], key); there != (got != nil) || string(got) != want {
					t.Fatalf("round %d: %s of %s is %.20q, want %.20q", round, key, names[i], got, want)
				}
				if rng.IntN(20) < 9+round%3 {
					if err := in.Delete(names[i], key); err != nil {
						return err
					}
					delete(now[i], string(key))
					continue
				}
				value := bytes.Repeat([]byte{byte('a' + round)}, 1+rng.IntN(300))
				if err := tx.Bucket(names[i]).Put(key, value); err != nil {
					return err
				}
				now[i][string(key)] = string(value)
			}
			key := []byte("key 1500")
			if n := testing.AllocsPerRun(100, func() { in.Get(names[0], key) }); n > 0 {
				t.Errorf("%v allocations for a value", n)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		stored = now
	}
	if len(stored[0]) < 500 {
		t.Errorf("%d keys", len(stored[0]))
	}
}

// TestArena: what an arena has kept stays as it is until the next transaction, which has its memory
// again.
func TestArena(t *testing.T) {
	var a Arena
	rng := rand.New(rand.NewPCG(1, 2))
	for transaction := range 5 {
		before := len(a.blocks)
		var kept, want [][]byte
		for i := range 20_000 {
			size := rng.IntN(300)
			if i%1000 == 0 {
				size = 100 << 10 // more than a block
			}
			text := bytes.Repeat([]byte{byte(i)}, size)
			kept, want = append(kept, a.Keep(func(b []byte) []byte { return append(b, text...) })), append(want, text)
		}
		for i := range kept {
			if !bytes.Equal(kept[i], want[i]) {
				t.Fatalf("transaction %d: text %d has changed", transaction, i)
			}
		}
		if want := min(a.used, arenaBlocks); transaction > 0 && before != want {
			t.Errorf("transaction %d has %d blocks of the one before, want %d", transaction, before, want)
		}
		a = a.Spare()
	}
}
