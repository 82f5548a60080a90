package storage

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/record"
)

// Begin starts a run. Unclean tells that what went before it did not end cleanly (or was a
// merge): then rows of runs up to lastUnclean may have their pages in the tree already.
func (g Runs) Begin() (run record.Run, unclean bool, lastUnclean uint32, err error) {
	g.x.mu.Lock()
	defer g.x.mu.Unlock()
	err = g.x.file.Update(func(tx *bolt.Tx) error {
		sys := tx.Bucket(record.BucketSys)
		if v := sys.Get(record.KeyUnclean); v != nil {
			body, err := record.Unseal(v, record.KeyUnclean)
			if err != nil || len(body) != 5 {
				return fmt.Errorf("%w: mark of unclean stops", record.ErrDamaged)
			}
			lastUnclean, unclean = binary.BigEndian.Uint32(body), body[4] == 1
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
		if err := putUnclean(tx, lastUnclean, false); err != nil {
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
		last := uint32(0)
		if k, _ := tx.Bucket(record.BucketRun).Cursor().Last(); k != nil {
			last = binary.BigEndian.Uint32(k)
		}
		return putUnclean(tx, last, true)
	})
}

// Current returns the figures of the run that is going on, as last committed.
func (g Runs) Current() record.Run {
	g.x.mu.Lock()
	defer g.x.mu.Unlock()
	return g.x.run.Clone()
}

// All returns all runs in order.
func (g Runs) All() ([]record.Run, error) {
	var runs []record.Run
	err := g.x.file.View(func(tx *bolt.Tx) error {
		return tx.Bucket(record.BucketRun).ForEach(func(k, v []byte) error {
			r, err := record.DecodeRun(k, v)
			runs = append(runs, r)
			return err
		})
	})
	return runs, err
}

// PutHour keeps the figures of an hour of the run, replacing earlier ones of the same hour.
func (g Runs) PutHour(h record.Hour) error {
	v, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return g.x.write(func(tx *bolt.Tx) error {
		return tx.Bucket(record.BucketHour).Put(record.HourKey(h.Run, h.Hour), record.Seal(v, record.HourKey(h.Run, h.Hour)))
	})
}

// Hours returns the hourly figures of all runs in order.
func (g Runs) Hours() ([]record.Hour, error) {
	var hours []record.Hour
	err := g.x.file.View(func(tx *bolt.Tx) error {
		return tx.Bucket(record.BucketHour).ForEach(func(k, v []byte) error {
			h, err := record.DecodeHour(k, v)
			hours = append(hours, h)
			return err
		})
	})
	return hours, err
}

func putRun(tx *bolt.Tx, r *record.Run) error {
	v, err := json.Marshal(r)
	if err != nil {
		return err
	}
	key := binary.BigEndian.AppendUint32(nil, r.ID)
	return tx.Bucket(record.BucketRun).Put(key, record.Seal(v, key))
}

func putUnclean(tx *bolt.Tx, last uint32, merged bool) error {
	b := binary.BigEndian.AppendUint32(nil, last)
	if merged {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	return tx.Bucket(record.BucketSys).Put(record.KeyUnclean, record.Seal(b, record.KeyUnclean))
}
