package storage

import (
	"cmp"
	"context"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/boltfile"
	"urltree/storage/inbox"
	"urltree/storage/record"
)

// Settle moves what the inbox holds to where it belongs, so that [Folders] know all that was
// committed before. It takes time, some seconds for a long list while others commit: a caller that
// asks for many folders settles once, before the first.
func (x *Index) Settle(ctx context.Context) error {
	if x.opts.ReadOnly {
		return nil // see inbox.Walk
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	last := x.totals.Seq
	return x.moveWhile(ctx, func() bool { return x.inbox.Waits(&x.totals, last) })
}

// moveWhile moves parts of the inbox while more says so, until ctx ends. x.mu is held, but not
// while a part waits for room on the disk, nor between two parts: others want their turn, and
// Totals.
func (x *Index) moveWhile(ctx context.Context, more func() bool) error {
	for more() {
		x.mu.Unlock()
		err := x.WaitForRoom()
		x.mu.Lock()
		if err == nil && more() {
			err = x.move()
		}
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

// makeWay takes hosts out of the inbox that have so many URLs that, with a set of outcomes, one of
// their folders may come to its budget: from then on the counts of their folders must be at hand.
// x.mu is held, as moveWhile says.
func (x *Index) makeWay(set []*record.Outcome) error {
	for { // again after each move: others may have had their turn
		hosts, err := x.crowded(set)
		if err != nil || len(hosts) == 0 {
			return err
		}
		for _, name := range hosts {
			x.inbox.Leave(name)
		}
		err = x.moveWhile(context.Background(), func() bool { return x.inbox.Waits(&x.totals, x.totals.Seq) })
		if err != nil {
			return err
		}
	}
}

// crowded returns the hosts that makeWay is to take out of the inbox. x.mu is held.
func (x *Index) crowded(set []*record.Outcome) (crowded []string, err error) {
	most := x.opts.Limits.Prefix
	if x.opts.Inbox == 0 || most == 0 {
		return nil, nil
	}
	coming := comingOf(set)
	if x.totals.Used()+coming <= most {
		return nil, nil
	}
	hosts := map[string]bool{}
	for _, o := range set {
		hosts[record.Host(o.Row.URL)] = true
		for i := range o.Links {
			hosts[record.Host(o.Links[i].URL)] = true
		}
	}
	err = x.file.View(func(tx *bolt.Tx) error {
		in := &boltfile.Values{Tx: tx}
		for name := range hosts {
			if !x.inbox.Holds(name) {
				continue
			}
			h, err := hostRow(in, name)
			if err != nil {
				return err
			}
			if h.Used()+coming > most {
				crowded = append(crowded, name)
			}
		}
		return nil
	})
	return crowded, err
}

// move moves a part of the inbox in a transaction. x.mu is held.
func (x *Index) move() error {
	return x.inbox.Move(func(in *boltfile.Values, records []inbox.Moved) error {
		folders := map[string]*record.Counts{}
		puts := make(boltfile.Puts, 0, len(records))
		for _, r := range records {
			var diff record.Counts
			if diff.CountValue(r.Key, r.Value); diff != (record.Counts{}) { // a damaged value stays what it is
				record.Parents(r.Key, func(folder []byte) { addTo(folders, folder, &diff) })
			}
			puts.Put(r.Key, r.Value)
		}
		w := writer{Values: *in}
		folderCounts.write(&w, folders)
		w.write(record.BucketURL, puts)
		return w.err
	})
}
