package storage

import (
	"context"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/record"
)

// pay moves what commits owe, and changes the roles of the lists when it is time. x.mu is held.
func (x *Index) pay() error {
	b := &x.inbox
	if b.left == 0 {
		if b.most == 0 || b.closed || !b.long(x.totals.Records(), x.totals.Seq) {
			return nil
		}
		b.turn(x.totals.Records())
	}
	for b.left > 0 && b.owed >= min(b.part, b.left) {
		if err := x.move(); err != nil {
			return err
		}
	}
	return nil
}

// Settle moves what the inbox holds, so that [Index.Folder] and [Index.Children] tell of all that
// was committed before. It takes time, some seconds for a long list while others commit: who asks
// for many folders settles once, before the first.
func (x *Index) Settle(ctx context.Context) error {
	if x.opts.ReadOnly {
		return nil // see overlay
	}
	x.mu.Lock()
	last, growth := x.totals.Seq, x.settleGrowth()
	x.mu.Unlock()
	if growth > 0 && x.opts.Room != nil {
		if err := x.opts.Room(ctx, growth); err != nil {
			return err
		}
	}
	for {
		x.mu.Lock()
		done, err := x.settlePart(last)
		x.mu.Unlock()
		if done || err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// settleGrowth returns the bytes by which the file may grow while all is moved, 0 if nothing is to
// be. x.mu is held.
func (x *Index) settleGrowth() int64 {
	a, b := &x.inbox.lists[0], &x.inbox.lists[1]
	if a.rows+b.rows == 0 {
		return 0
	}
	return allocated + x.inbox.growth(a.rows+b.rows, a.bytes+b.bytes)
}

// settlePart moves a part of what was there when the last number of discovery was that. x.mu is
// held.
func (x *Index) settlePart(last uint64) (done bool, err error) {
	b := &x.inbox
	if b.left == 0 {
		if l := b.filling(); l.rows == 0 || l.first > last {
			return true, nil
		}
		b.turn(x.totals.Records())
	}
	return false, x.move()
}

// makeWay takes hosts out of the inbox that have so many URLs that, with a set of outcomes, one of
// their folders may come to its budget: from then on the counts of their folders must be at hand.
// x.mu is held.
func (x *Index) makeWay(set []*record.Outcome) error {
	hosts, err := x.crowded(set)
	if err != nil || len(hosts) == 0 {
		return err
	}
	for _, name := range hosts {
		x.inbox.direct[name] = true
	}
	for done := false; !done && err == nil; {
		done, err = x.settlePart(x.totals.Seq)
	}
	return err
}

// crowded returns the hosts that makeWay is to take out of the inbox. x.mu is held.
func (x *Index) crowded(set []*record.Outcome) (crowded []string, err error) {
	most := x.opts.Limits.Prefix
	if x.inbox.most == 0 || most == 0 {
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
	err = x.view(func(tx *bolt.Tx) error {
		for name := range hosts {
			if x.inbox.direct[name] {
				continue
			}
			var h record.HostRow
			if v := tx.Bucket(bucketHost).Get([]byte(name)); v != nil {
				var err error
				if h, err = record.DecodeHost(name, v); err != nil {
					return err
				}
			}
			if h.Used()+coming > most {
				crowded = append(crowded, name)
			}
		}
		return nil
	})
	return crowded, err
}

// move moves a part of one list in a transaction, and empties it with the last. x.mu is held.
func (x *Index) move() error {
	b := &x.inbox
	name := bucketInbox[1-b.fill]
	if b.order.rows == nil {
		err := x.view(func(tx *bolt.Tx) (err error) {
			b.order, err = arrange(tx.Bucket(name), b.moving())
			return err
		})
		if err != nil {
			return err
		}
	}
	n := 0
	err := x.write(func(tx *bolt.Tx) error {
		c := &change{x: x, tx: tx, values: values{tx: tx}}
		var err error
		if n, err = c.move(name, b.order.next(b.part)); err != nil || n < len(b.order.rows) {
			return err
		}
		if err := tx.DeleteBucket(name); err != nil {
			return err
		}
		_, err = tx.CreateBucket(name)
		return err
	})
	if err != nil {
		return err
	}
	b.order.moved(n)
	if b.left, b.owed = len(b.order.rows), max(0, b.owed-n); b.left == 0 {
		b.tables.Lock()
		*b.moving() = list{}
		b.tables.Unlock()
		b.order = order{}
	}
	return nil
}

// move writes the first of some rows to where they belong, and tells how many. It puts them into
// the order in which they came, for so they are read fastest.
func (c *change) move(inbox []byte, rows []uint32) (n int, err error) {
	slices.Sort(rows)
	l := c.x.inbox.moving()
	urls := c.tx.Bucket(bucketURL)
	folders := map[string]*record.Counts{}
	var puts []put
	size := 0
	var place [8]byte
	for n < len(rows) && size < movedBytes {
		seq := l.first + uint64(rows[n])
		k := inboxKey(place[:0], seq)
		key, value, err := inboxRow(k, c.values.get(inbox, k))
		if err != nil {
			return n, err
		}
		n++
		if may := l.mayHave(seq); (may || c.x.opts.Strict) && urls.Get(key) != nil {
			if !may {
				return n, fmt.Errorf("move of a row would replace a record: %q", key)
			}
			continue // it has changed since
		}
		// A damaged value stays what it is: check names it.
		if state, where, err := record.Peek(key, value); err == nil {
			var diff record.Counts
			diff.Count(&record.Record{State: state, Row: record.Row{Range: where}}, 1)
			record.Parents(key, func(folder []byte) { addTo(folders, folder, &diff) })
		}
		puts = append(puts, put{
			c.arena.keep(func(b []byte) []byte { return append(b, key...) }),
			c.arena.keep(func(b []byte) []byte { return append(b, value...) }),
		})
		size += len(key) + len(value)
	}
	if err := c.flushCounts(&folderCounts, folders); err != nil {
		return n, err
	}
	return n, c.write(bucketURL, puts)
}
