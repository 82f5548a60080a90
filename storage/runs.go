package storage

import (
	"encoding/binary"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// Begin starts a run. If unclean, what went before it did not end cleanly, or was a merge. Rows of
// runs up to lastUnclean may have their pages in the tree already; 0: none of a run.
func (g Runs) Begin() (run record.Run, unclean bool, lastUnclean uint32, err error) {
	g.x.mu.Lock()
	defer g.x.mu.Unlock()
	err = g.x.file.Update(func(tx *bolt.Tx) error {
		sys := tx.Bucket(record.BucketSys)
		if v := sys.Get(record.KeyUnclean); v != nil {
			mark, err := record.DecodeUnclean(record.KeyUnclean, v)
			if err != nil {
				return err
			}
			lastUnclean, unclean = mark.Last, mark.Merged
		}
		var last record.Run
		if k, v := tx.Bucket(record.BucketRun).Cursor().Last(); k != nil {
			var err error
			if last, err = record.DecodeRun(k, v); err != nil {
				return err
			}
			if !last.Clean {
				lastUnclean, unclean = last.ID, true
			}
		}
		// Where the clock has been set back since, this run begins when the last one ended.
		g.x.began = time.Now()
		now := max(g.x.began.Unix(), last.End)
		found := int64(0)
		if last.ID == 0 { // the seeds have come into the index before
			totals, err := record.DecodeTotals(record.KeyTotals, sys.Get(record.KeyTotals))
			if err != nil {
				return err
			}
			found = totals.Pending() - totals.NewPending
		}
		run = record.Run{ID: last.ID + 1, Start: now, End: now, Found: found, Outcomes: map[string]int64{}, Statuses: map[string]int64{}}
		if err := putUnclean(tx, record.Unclean{Last: lastUnclean}); err != nil {
			return err
		}
		return putRun(tx, &run)
	})
	if err != nil {
		return run, false, 0, fmt.Errorf("begin run: %w", err)
	}
	g.x.run = run
	return run.Clone(), unclean, lastUnclean, nil
}

// Finish marks the run that is going on as ended cleanly.
func (g Runs) Finish() (record.Run, error) {
	g.x.mu.Lock()
	defer g.x.mu.Unlock()
	err := g.x.update(func(c *change) error {
		c.run.Clean = true
		return nil
	})
	return g.x.run.Clone(), err
}

// MarkUnclean makes the next start treat all rows that are there as of an unclean stop: merge
// does so, since host times may be lost and pages may lie in the tree.
func (g Runs) MarkUnclean() error {
	return g.x.write(func(tx *bolt.Tx) error {
		mark := record.Unclean{Merged: true}
		if k, _ := tx.Bucket(record.BucketRun).Cursor().Last(); k != nil {
			mark.Last = binary.BigEndian.Uint32(k)
		}
		return putUnclean(tx, mark)
	})
}

// Unclean reports whether the latest run did not end cleanly, or the index was merged since.
func (g Runs) Unclean() (unclean bool, err error) {
	mark, _, err := boltfile.Read(g.x.file, record.BucketSys, record.KeyUnclean, record.DecodeUnclean)
	if err != nil || mark.Merged {
		return mark.Merged, err
	}
	err = g.x.file.View(func(tx *bolt.Tx) error {
		k, v := tx.Bucket(record.BucketRun).Cursor().Last()
		if k == nil {
			return nil
		}
		last, err := record.DecodeRun(k, v)
		unclean = !last.Clean
		return err
	})
	return unclean, err
}

// Current returns the figures of the run that is going on, as last committed.
func (g Runs) Current() record.Run {
	g.x.mu.Lock()
	defer g.x.mu.Unlock()
	return g.x.run.Clone()
}

// All returns all runs in order.
func (g Runs) All() ([]record.Run, error) { return all(g.x.file, record.BucketRun, record.DecodeRun) }

// PutHour keeps the figures of an hour of the run, replacing earlier ones of the same hour.
func (g Runs) PutHour(h record.Hour) error {
	key, value, err := h.Encode()
	if err != nil {
		return err
	}
	return g.x.write(func(tx *bolt.Tx) error { return tx.Bucket(record.BucketHour).Put(key, value) })
}

// Hours returns the hourly figures of all runs in order.
func (g Runs) Hours() ([]record.Hour, error) {
	return all(g.x.file, record.BucketHour, record.DecodeHour)
}

func all[T any](file *boltfile.File, bucket []byte, decode func(k, v []byte) (T, error)) (list []T, err error) {
	err = file.View(func(tx *bolt.Tx) error {
		return tx.Bucket(bucket).ForEach(func(k, v []byte) error {
			value, err := decode(k, v)
			list = append(list, value)
			return err
		})
	})
	return list, err
}

func putRun(tx *bolt.Tx, r *record.Run) error {
	key, value, err := r.Encode()
	if err != nil {
		return err
	}
	return tx.Bucket(record.BucketRun).Put(key, value)
}

func putUnclean(tx *bolt.Tx, mark record.Unclean) error {
	return tx.Bucket(record.BucketSys).Put(record.KeyUnclean, mark.Append(nil, record.KeyUnclean))
}
