package storage

import (
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/record"
)

// TestRunAfterClockWasSetBack: a run begins not before the last one ended, and ends not before
// it began, whatever the clock of the machine says.
func TestRunAfterClockWasSetBack(t *testing.T) {
	x, _ := newIndex(t, 1)
	ahead := time.Now().Add(time.Hour).Unix()
	last := record.Run{ID: 7, Start: ahead - 60, End: ahead, Clean: true}
	if err := x.file.Update(func(tx *bolt.Tx) error { return putRun(tx, &last) }); err != nil {
		t.Fatal(err)
	}
	run, unclean, _, err := x.Runs().Begin()
	if err != nil || unclean || run.ID != 8 || run.Start != ahead || run.End != ahead {
		t.Fatalf("Begin: %+v, unclean %v, %v; want one from %d on", run, unclean, err, ahead)
	}
	run, err = x.Runs().Finish()
	if err != nil || run.End < ahead || run.End > ahead+60 {
		t.Errorf("Finish: %+v, %v; want an end soon after %d", run, err, ahead)
	}
}
