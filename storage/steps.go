package storage

import (
	"urltree/storage/boltfile"
	"urltree/storage/record"

	bolt "go.etcd.io/bbolt"
)

// Get returns the step as last committed.
func (g Steps) Get() record.Step {
	g.x.mu.Lock()
	defer g.x.mu.Unlock()
	return g.x.step
}

// Begun reports whether the index is that of a crawl in bulk.
func (g Steps) Begun() (bool, error) { return g.x.file.Has(record.BucketSys, record.KeyStep) }

// Set has fn change the step, and keeps the rows that are asked in it, by fingerprints.
func (g Steps) Set(members []uint64, fn func(*record.Step)) error {
	g.x.mu.Lock()
	defer g.x.mu.Unlock()
	next := g.x.step
	fn(&next)
	err := g.x.file.Update(func(tx *bolt.Tx) error {
		sys := tx.Bucket(record.BucketSys)
		if err := sys.Put(record.KeyMembers, record.AppendMembers(nil, members)); err != nil {
			return err
		}
		return sys.Put(record.KeyStep, next.Append(nil))
	})
	if err == nil {
		g.x.step = next
	}
	return err
}

// Members returns the rows that Set has kept last.
func (g Steps) Members() (members []uint64, err error) {
	members, _, err = boltfile.Read(g.x.file, record.BucketSys, record.KeyMembers, func(_, value []byte) ([]uint64, error) {
		return record.DecodeMembers(value)
	})
	return members, err
}

// trace takes note of a record that was of a stage and has come to something: an outcome, or that
// it is held.
func (c *change) trace(before stage, r *record.Record) {
	after := stageOf(r)
	if c.x.opts.Bulk && before != after && before <= heldBack && after != eligible && after != waiting {
		c.step.Trace.Add(c.step.Number, r)
	}
}

// writeStep writes the step, if that has changed.
func (c *change) writeStep() {
	if c.step != c.x.step {
		c.w.put(record.BucketSys, record.KeyStep, c.step.Append(nil))
	}
}
