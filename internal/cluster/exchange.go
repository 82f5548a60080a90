package cluster

import (
	"context"
	"math"
	"time"

	"golang.org/x/sync/errgroup"

	"urltree/internal/cluster/batch"
	"urltree/storage/record"
)

const (
	resendAfter = 30 * time.Second // without a confirmation
	mostSent    = 2000             // batches that are not confirmed
	takeAtOnce  = 64               // batches, which one transaction merges
	notOurs     = 5 * time.Second  // until a batch is delivered again that is for another node
	unreadable  = time.Minute      // and one that another version of the program has to read
	retry       = time.Second      // after the engine failed
)

// A sending is a batch that is not confirmed. Its rows are in the outbox.
type sending struct {
	part        uint16
	first, last uint64 // numbers of rows
	rows        int64
	try         int
	at          time.Time // of the last try
	confirmed   bool      // its rows are about to leave the outbox
}

// Exchange sends and receives links, and finds out when the crawl is finished, until ctx ends.
// work says that this node has something to do: a crawl that was finished goes on then.
func (n *Node) Exchange(ctx context.Context, mail Mailbox, work bool) error {
	if err := n.reopen(ctx, work); err != nil {
		return n.unless(ctx, err)
	}
	n.mu.Lock()
	n.mail = mail
	n.mu.Unlock()
	return n.unless(ctx, n.exchange(ctx))
}

// exchange is Exchange once the node has its mail.
func (n *Node) exchange(ctx context.Context) error {
	acks := newAcks(n.opts.Bus)
	group, ctx := errgroup.WithContext(ctx)
	again := make(chan struct{}, 1) // all that is not confirmed is to be sent again
	group.Go(func() error { return n.send(ctx, again) })
	group.Go(func() error { return n.receive(ctx, acks) })
	group.Go(func() error { return n.lead(ctx) })
	group.Go(func() error { return n.follow(ctx) })
	group.Go(func() error { acks.run(ctx); return nil })
	bus, name := n.opts.Bus, n.opts.Name
	for _, listen := range []func() error{
		func() error { return bus.Confirmed(ctx, name, func(list []uint64) { n.confirmed(ctx, list) }) },
		func() error { return bus.Answer(ctx, name, n.state) },
		func() error { return bus.Watch(ctx, Control, n.learn) },
		func() error {
			bus.Reconnected(ctx, func() {
				select {
				case again <- struct{}{}:
				default:
				}
			})
			return nil
		},
	} {
		group.Go(func() error { n.keepOn(ctx, listen); return nil })
	}
	return group.Wait()
}

// unless returns err, but nil if ctx has ended.
func (n *Node) unless(ctx context.Context, err error) error {
	if ctx.Err() != nil && n.failure() == nil {
		return nil
	}
	return err
}

// keepOn calls fn again and again until ctx ends.
func (n *Node) keepOn(ctx context.Context, fn func() error) {
	for ctx.Err() == nil {
		if err := fn(); err != nil && ctx.Err() == nil {
			n.opts.Log.Debug("engine", "err", err)
		}
		pause(ctx, retry)
	}
}

// send publishes rows of the outbox as they come, and again what is not confirmed in time.
func (n *Node) send(ctx context.Context, again <-chan struct{}) error {
	tick := time.NewTicker(n.opts.Flush)
	defer tick.Stop()
	next := make([]uint64, Partitions) // of each partition, the last number that is in a batch
	n.mu.Lock()
	number := uint64(n.kept.Lives) << 32
	n.mu.Unlock()
	for {
		all := false
		select {
		case <-tick.C:
		case <-again:
			all = true
		case <-n.steps.sending():
		case <-ctx.Done():
			return nil
		}
		if err := n.failure(); err != nil {
			return err
		}
		if err := n.resend(ctx, all); err != nil {
			return err
		}
		if err := n.sendNew(ctx, next, &number); err != nil {
			return err
		}
	}
}

// sendNew makes batches of the rows that are in none.
func (n *Node) sendNew(ctx context.Context, next []uint64, number *uint64) error {
	for part := range next {
		for n.mayPost(part) && n.hasNew() {
			rows, err := n.mail.Read(uint16(part), next[part], batch.MaxRecords)
			if err != nil {
				return err
			}
			if len(rows) == 0 {
				break
			}
			body, took, err := pack(rows)
			if err != nil {
				return err
			}
			*number++
			s := &sending{part: uint16(part), first: rows[0].Seq, last: rows[took-1].Seq, rows: int64(took), at: time.Now()}
			n.mu.Lock()
			n.sent[*number] = s
			n.flying += s.rows
			n.mu.Unlock()
			next[part] = s.last
			if !n.publish(ctx, *number, s, body) {
				return nil // the engine fails, or has no room: it comes again
			}
		}
	}
	return nil
}

// hasNew reports whether there are rows that are in no batch, and one more batch may be sent.
func (n *Node) hasNew() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mail.Len() > n.flying && len(n.sent) < mostSent
}

// resend publishes again the batches that have waited too long for their confirmation, or all.
func (n *Node) resend(ctx context.Context, all bool) error {
	late := map[uint64]*sending{}
	n.mu.Lock()
	for number, s := range n.sent {
		if !s.confirmed && (all || time.Since(s.at) >= resendAfter) {
			late[number] = s
		}
	}
	n.mu.Unlock()
	for number, s := range late {
		rows, err := n.mail.Read(s.part, s.first-1, int(s.rows))
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			continue // confirmed meanwhile
		}
		body, _, err := pack(rows)
		if err != nil {
			return err
		}
		s.try, s.at = s.try+1, time.Now() // only this goroutine looks at them
		if !n.publish(ctx, number, s, body) {
			return nil
		}
	}
	return nil
}

// publish reports whether the engine has taken a batch.
func (n *Node) publish(ctx context.Context, number uint64, s *sending, body []byte) bool {
	err := n.opts.Bus.Publish(ctx, Batch{
		Sender: n.opts.Name, Number: number, Boot: n.opts.Boot, Try: s.try, Partition: int(s.part), Body: body,
	})
	if err != nil {
		s.at = time.Now().Add(retry - resendAfter)
		n.opts.Log.Debug("publish", "batch", number, "err", err)
	}
	return err == nil
}

// pack makes the body of a batch of rows of one partition, and returns how many of them are in it.
// Of rows of one URL the nearest and best counts, as it does where they are merged.
func pack(rows []record.Posted) (body []byte, took int, err error) {
	type id struct {
		kind record.Kind
		url  string
	}
	places := make(map[id]int, len(rows))
	list := make([]batch.Record, 0, len(rows))
	for i := range rows {
		r := &rows[i]
		at, there := places[id{r.Kind, r.URL}]
		if there {
			list[at].Depth, list[at].Priority = min(list[at].Depth, r.Depth), min(list[at].Priority, r.Rank)
			list[at].Cookie = list[at].Cookie || r.Cookie
			continue
		}
		places[id{r.Kind, r.URL}] = len(list)
		kind := batch.Queued
		if r.Kind == record.SitemapRow {
			kind = batch.Sitemap
		}
		list = append(list, batch.Record{
			Kind: kind, URL: r.URL, Source: r.Source, Via: r.Via, Depth: r.Depth, Hops: r.Hops, Cookie: r.Cookie, Priority: r.Rank,
		})
	}
	body, packed, err := batch.Pack(list, batch.Zstd)
	if err != nil {
		return nil, 0, err
	}
	for took < len(rows) && places[id{rows[took].Kind, rows[took].URL}] < packed {
		took++
	}
	return body, took, nil
}

// unpack returns the links of a batch.
func unpack(b Batch) ([]record.Link, error) {
	list, err := b.Records()
	if err != nil {
		return nil, err
	}
	links := make([]record.Link, len(list))
	for i := range list {
		r := &list[i]
		links[i] = record.Link{URL: r.URL, Source: r.Source, Via: r.Via, Depth: r.Depth, Hops: r.Hops, Cookie: r.Cookie, Rank: r.Priority}
		switch r.Kind {
		case batch.Queued:
		case batch.Sitemap:
			links[i].Kind = record.SitemapRow
		default:
			return nil, batch.ErrUnknown
		}
	}
	return links, nil
}

// confirmed has the rows of batches leave the outbox.
func (n *Node) confirmed(ctx context.Context, numbers []uint64) {
	var o record.Outcome
	var done []uint64
	n.mu.Lock()
	for _, number := range numbers {
		if s := n.sent[number]; s != nil && !s.confirmed {
			s.confirmed = true
			o.Delivered = append(o.Delivered, record.Delivery{Part: s.part, First: s.first, Last: s.last})
			done = append(done, number)
		}
	}
	n.mu.Unlock()
	if len(done) == 0 {
		return
	}
	_ = n.mail.Put(ctx, o, func(bool) { // after an error they are sent again
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, number := range done {
			n.flying -= n.sent[number].rows
			delete(n.sent, number)
		}
	})
}

// receive merges the batches of this node's partitions, as long as there is one life of it.
func (n *Node) receive(ctx context.Context, acks *acks) error {
	a := n.assigned()
	by := Subscriber{Node: n.opts.Name, Boot: n.opts.Boot, Epoch: a.Epoch}
	for ctx.Err() == nil {
		// Whatever an earlier life of this node has subscribed to is over: its lease is ours.
		err := n.opts.Bus.Fence(ctx, n.opts.Name, math.MaxUint64)
		var sub Subscription
		if err == nil {
			sub, err = n.opts.Bus.Subscribe(ctx, by, a.of(n.opts.Name))
		}
		for err == nil {
			var list []Delivery
			if list, err = sub.Next(ctx, takeAtOnce); err == nil {
				err = n.take(ctx, list, acks)
			}
		}
		if sub != nil {
			_ = sub.Close() // what it has goes to the next one
		}
		if ctx.Err() == nil {
			n.opts.Log.Debug("receive", "err", err)
		}
		pause(ctx, retry)
	}
	return nil
}

// take has batches merged, and acknowledged once they are durable. Those of partitions that this
// node does not own are left to others.
func (n *Node) take(ctx context.Context, list []Delivery, acks *acks) error {
	for _, d := range list {
		b := d.Batch()
		if b.Partition < 0 || b.Partition >= len(n.own) || !n.own[b.Partition] {
			if err := d.Nak(ctx, notOurs); err != nil {
				return err
			}
			continue
		}
		links, err := unpack(b)
		if err != nil {
			n.opts.Log.Warn("a batch of another node cannot be read; it stays with the engine", "node", b.Sender, "batch", b.Number, "err", err)
			if err := d.Nak(ctx, unreadable); err != nil {
				return err
			}
			continue
		}
		n.mu.Lock()
		n.taking++
		n.mu.Unlock()
		done := func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.taking--
		}
		err = n.mail.Put(ctx, record.Outcome{Links: links, Arrived: true}, func(refused bool) {
			done()
			acks.add(d, refused)
		})
		if err != nil {
			done()
			return err
		}
	}
	return nil
}
