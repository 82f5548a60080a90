package storage

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
)

// A Run is one start of the crawl command on this tree, with what it has come to so far. Its
// row is part of every transaction, so the figures are those of the records.
type Run struct {
	ID       uint32           `json:"id"`    // 1, 2, ...
	Start    int64            `json:"start"` // Unix seconds
	End      int64            `json:"end"`   // of the last transaction, Unix seconds
	Clean    bool             `json:"clean"` // ended by itself, all buffers drained
	Found    int64            `json:"found"` // records made
	Stored   int64            `json:"stored"`
	NewURLs  int64            `json:"new"`      // stored pages whose source is no seed
	Bytes    int64            `json:"bytes"`    // of stored bodies
	Outcomes map[string]int64 `json:"outcomes"` // "state reason" -> number
	Statuses map[string]int64 `json:"statuses"` // "2xx" ... -> number of outcomes
	NoFollow int64            `json:"nofollow"` // pages that say nofollow, stored or not
}

// An Hour is the state of a run at the end of one of its hours. The figures are sums since the
// run's start, except Stored.
type Hour struct {
	Run, Hour uint32              // hour 1 is the first; the key as well
	Time      int64               `json:"time"`   // Unix seconds
	Stored    int64               `json:"stored"` // new URLs in the tree within this hour
	Rows      map[string][2]int64 `json:"rows"`   // queue ("crawler 1", "frontier", "buffer 1") -> added, removed
}

func (r *Run) clone() Run {
	c := *r
	c.Outcomes, c.Statuses = maps.Clone(r.Outcomes), maps.Clone(r.Statuses)
	return c
}

// count adds an outcome. A run that has not begun counts nothing.
func (r *Run) count(rec *Record) { r.add(rec, 1) }

// uncount takes back the outcome of a record that is asked again, if it was one of this run: what
// becomes of a URL counts once.
func (r *Run) uncount(rec *Record) {
	if rec.State != Pending && rec.Run == r.ID {
		r.add(rec, -1)
	}
}

func (r *Run) add(rec *Record, n int64) {
	if r.ID == 0 {
		return
	}
	name := rec.State.String()
	if rec.Reason != "" {
		name += " " + rec.Reason
	}
	increase(r.Outcomes, name, n)
	if rec.Status != 0 {
		increase(r.Statuses, fmt.Sprintf("%dxx", rec.Status/100), n)
	}
	if strings.Contains(rec.Flags, "n") {
		r.NoFollow += n
	}
	if rec.State == Stored {
		r.Stored += n
		r.Bytes += n * rec.Bytes
		if rec.Source != Seed {
			r.NewURLs += n
		}
	}
}

// increase adds n to a counter, and drops one that is 0.
func increase(counters map[string]int64, name string, n int64) {
	if counters[name] += n; counters[name] == 0 {
		delete(counters, name)
	}
}

// Begin starts a run. Unclean tells that what went before it did not end cleanly (or was a
// merge): then rows of runs up to lastUnclean may have their pages in the tree already.
func (x *Index) Begin() (run Run, unclean bool, lastUnclean uint32, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	err = x.write(func(tx *bolt.Tx) error {
		sys := tx.Bucket(bucketSys)
		if v := sys.Get(keyUnclean); v != nil {
			body, err := unseal(v, keyUnclean)
			if err != nil || len(body) != 5 {
				return fmt.Errorf("%w: mark of unclean stops", ErrDamaged)
			}
			lastUnclean, unclean = binary.BigEndian.Uint32(body), body[4] == 1
		}
		var last Run
		if k, v := tx.Bucket(bucketRun).Cursor().Last(); k != nil {
			var err error
			if last, err = decodeRun(k, v); err != nil {
				return err
			}
			if !last.Clean {
				lastUnclean, unclean = last.ID, true
			}
		}
		// Where the clock has been set back since, this run begins when the last one ended.
		x.began = time.Now()
		now := max(x.began.Unix(), last.End)
		found := int64(0)
		if last.ID == 0 { // the seeds have come into the index before
			totals, err := decodeTotals(keyTotals, sys.Get(keyTotals))
			if err != nil {
				return err
			}
			found = totals.Pending() - totals.NewPending
		}
		run = Run{ID: last.ID + 1, Start: now, End: now, Found: found, Outcomes: map[string]int64{}, Statuses: map[string]int64{}}
		if err := putUnclean(tx, lastUnclean, false); err != nil {
			return err
		}
		return putRun(tx, &run)
	})
	if err != nil {
		return run, false, 0, fmt.Errorf("begin run: %w", err)
	}
	x.run = run
	return run.clone(), unclean, lastUnclean, nil
}

// Finish marks the run that is going on as ended cleanly.
func (x *Index) Finish() (Run, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	err := x.update(func(c *change) error {
		c.run.Clean = true
		return nil
	})
	return x.run.clone(), err
}

// MarkUnclean makes the next start treat all rows that are there as of an unclean stop: merge
// does so, since host times may be lost and pages may lie in the tree.
func (x *Index) MarkUnclean() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.write(func(tx *bolt.Tx) error {
		last := uint32(0)
		if k, _ := tx.Bucket(bucketRun).Cursor().Last(); k != nil {
			last = binary.BigEndian.Uint32(k)
		}
		return putUnclean(tx, last, true)
	})
}

// Run returns the figures of the run that is going on, as last committed.
func (x *Index) Run() Run {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.run.clone()
}

// Runs returns all runs in order.
func (x *Index) Runs() ([]Run, error) {
	var runs []Run
	err := x.view(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketRun).ForEach(func(k, v []byte) error {
			r, err := decodeRun(k, v)
			runs = append(runs, r)
			return err
		})
	})
	return runs, err
}

// PutHour keeps the figures of an hour of the run, replacing earlier ones of the same hour.
func (x *Index) PutHour(h Hour) error {
	v, err := json.Marshal(h)
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.write(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketHour).Put(hourKey(h.Run, h.Hour), seal(v, hourKey(h.Run, h.Hour)))
	})
}

// Hours returns the hourly figures of all runs in order.
func (x *Index) Hours() ([]Hour, error) {
	var hours []Hour
	err := x.view(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketHour).ForEach(func(k, v []byte) error {
			h, err := decodeHour(k, v)
			hours = append(hours, h)
			return err
		})
	})
	return hours, err
}

func hourKey(run, hour uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, run), hour)
}

func decodeHour(k, v []byte) (h Hour, err error) {
	body, err := unseal(v, k)
	if err == nil && len(k) == 8 {
		err = json.Unmarshal(body, &h)
	}
	if err != nil || len(k) != 8 {
		return h, fmt.Errorf("hour %x: %w: %v", k, ErrCorrupt, err)
	}
	h.Run, h.Hour = binary.BigEndian.Uint32(k), binary.BigEndian.Uint32(k[4:])
	return h, nil
}

func putRun(tx *bolt.Tx, r *Run) error {
	v, err := json.Marshal(r)
	if err != nil {
		return err
	}
	key := binary.BigEndian.AppendUint32(nil, r.ID)
	return tx.Bucket(bucketRun).Put(key, seal(v, key))
}

func decodeRun(k, v []byte) (Run, error) {
	var r Run
	body, err := unseal(v, k)
	if err == nil {
		err = json.Unmarshal(body, &r)
	}
	if err != nil {
		return r, fmt.Errorf("run %x: %w: %v", k, ErrCorrupt, err)
	}
	return r, nil
}

func putUnclean(tx *bolt.Tx, last uint32, merged bool) error {
	b := binary.BigEndian.AppendUint32(nil, last)
	if merged {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	return tx.Bucket(bucketSys).Put(keyUnclean, seal(b, keyUnclean))
}
