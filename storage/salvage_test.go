package storage

import (
	"errors"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// TestSalvagedRows: where the last runs are lost, their numbers come again. What waits since then is looked for in
// its folder all the same once such a run is killed.
func TestSalvagedRows(t *testing.T) {
	const url = "http://a.org/"
	x, path := newIndex(t, 1)
	begin := func(x *Index) (id, lastUnclean uint32) {
		run, _, lastUnclean, err := x.Begin()
		if err != nil {
			t.Fatal(err)
		}
		return run.ID, lastUnclean
	}
	begin(x)
	begin(x)
	last, _ := begin(x)
	if _, err := x.Commit([]*Outcome{{Links: []Link{{URL: url, Source: Seed}}}}); err != nil {
		t.Fatal(err)
	}
	spoil := x.db.Update(func(tx *bolt.Tx) error {
		for k, _ := tx.Bucket(bucketRun).Cursor().First(); k != nil; k, _ = tx.Bucket(bucketRun).Cursor().First() {
			if err := tx.Bucket(bucketRun).Delete(k); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(spoil, x.Close()); err != nil {
		t.Fatal(err)
	}

	to, _ := newIndex(t, 0)
	if _, err := Salvage(t.Context(), path, to); err != nil {
		t.Fatal(err)
	}
	if err := to.MarkUnclean(); err != nil {
		t.Fatal(err)
	}
	if id, _ := begin(to); id >= last { // killed
		t.Fatalf("run %d comes after the loss of %d", id, last)
	}
	_, unclean := begin(to)
	rows, err := to.Refill("a.org", to.began, 1, func(string) bool { return false })
	if err != nil || len(rows) != 1 || rows[0].URL != url {
		t.Fatal(rows, err)
	}
	if rows[0].Run > unclean {
		t.Errorf("the row is of run %d, those up to %d are looked up", rows[0].Run, unclean)
	}
}
