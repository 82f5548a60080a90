package storage

import (
	"slices"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// Release moves held rows to what may be asked, in one transaction; those that are held no more are
// left alone, and those for which a budget has no place stay held, with that reason. fresh, if not
// nil, is called with the rows that are free after that is durable, and before a later transaction
// can end any of them. It must not use the index.
func (x *Index) Release(rows []record.Row, fresh func(rows []record.Row, tx uint64)) error {
	if err := x.lock(); err != nil {
		return err
	}
	defer x.mu.Unlock()
	var set []*record.Outcome
	err := x.file.View(func(tx *bolt.Tx) error {
		for i := range rows {
			key, err := record.Key(rows[i].URL)
			if err != nil {
				return err
			}
			// A record that is damaged counts as its row says.
			if r, err := record.Decode(key, x.inbox.Record(&boltfile.Values{Tx: tx}, key, rows[i].Seq)); err == nil && r.Range != record.Held {
				continue
			}
			o := &record.Outcome{Row: rows[i], State: record.Pending, Next: rows[i]}
			o.Next.Range, o.Next.Reason = record.Now, ""
			set = append(set, o)
		}
		return nil
	})
	if err != nil || len(set) == 0 {
		return err
	}
	done, err := x.commit(set)
	if err != nil || fresh == nil {
		return err
	}
	fresh(slices.DeleteFunc(done.Next, func(r record.Row) bool { return r.Range != record.Now }), done.Tx)
	return nil
}
