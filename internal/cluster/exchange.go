package cluster

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
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
	group.Go(func() error { return n.readAgain(ctx) })
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
		kind batch.Kind
		url  string
	}
	places := make(map[id]int, len(rows))
	list := make([]batch.Record, 0, len(rows))
	for i := range rows {
		r := recordOf(&rows[i])
		at, there := places[id{r.Kind, r.URL}]
		if there && r.Kind >= batch.Moved {
			rows = rows[:i] // both count, in batches of their own
			break
		}
		if there {
			list[at].Depth, list[at].Priority = min(list[at].Depth, r.Depth), min(list[at].Priority, r.Priority)
			list[at].Cookie = list[at].Cookie || r.Cookie
			continue
		}
		places[id{r.Kind, r.URL}] = len(list)
		list = append(list, r)
	}
	body, packed, err := batch.Pack(list, batch.Zstd)
	if err != nil {
		return nil, 0, err
	}
	for took < len(rows) {
		r := recordOf(&rows[took])
		if places[id{r.Kind, r.URL}] >= packed {
			break
		}
		took++
	}
	return body, took, nil
}

// recordOf returns a row of the outbox as it is sent.
func recordOf(p *record.Posted) batch.Record {
	if m := &p.Moved; m.Kind != 0 {
		return batch.Record{Kind: batch.Moved + batch.Kind(m.Kind), URL: m.Name, Value: m.Value}
	}
	kind := batch.Queued
	if p.Kind == record.SitemapRow {
		kind = batch.Sitemap
	}
	return batch.Record{
		Kind: kind, URL: p.URL, Source: p.Source, Via: p.Via, Depth: p.Depth, Hops: p.Hops, Cookie: p.Cookie, Priority: p.Rank,
	}
}

// unpack returns what a batch brings, and the epoch of the marker in it; 0: it has none.
func unpack(b Batch) (o record.Outcome, marker uint64, err error) {
	list, err := b.Records()
	if err != nil {
		return o, 0, err
	}
	o.Arrived = true
	for i := range list {
		r := &list[i]
		if r.Kind > batch.Moved {
			m := record.Moved{Kind: record.MovedKind(r.Kind - batch.Moved), Name: r.URL, Value: r.Value}
			if err := m.Check(); err != nil {
				return o, 0, fmt.Errorf("%w: %w", batch.ErrDamaged, err)
			}
			if m.Kind != record.MovedMarker {
				o.Moved = append(o.Moved, m)
			} else if marker, err = strconv.ParseUint(m.Name, 10, 64); err != nil {
				return o, 0, fmt.Errorf("%w: marker: %w", batch.ErrDamaged, err)
			}
			continue
		}
		l := record.Link{URL: r.URL, Source: r.Source, Via: r.Via, Depth: r.Depth, Hops: r.Hops, Cookie: r.Cookie, Rank: r.Priority}
		if r.Kind == batch.Sitemap {
			l.Kind = record.SitemapRow
		}
		o.Links = append(o.Links, l)
	}
	return o, marker, nil
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

// receive merges the batches of this node's partitions, as these change.
func (n *Node) receive(ctx context.Context, acks *acks) error {
	for ctx.Err() == nil {
		n.mu.Lock()
		a, changed := n.kept.Assign, n.changed
		receiving, stop := context.WithCancel(ctx)
		n.receiving = stop
		n.mu.Unlock()
		if parts := a.of(n.opts.Name); len(parts) > 0 {
			err := n.receiveOf(receiving, &a, parts, acks)
			if receiving.Err() == nil {
				n.opts.Log.Debug("receive", "err", err)
				pause(ctx, retry)
			}
		} else {
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
		stop()
	}
	return nil
}

// receiveOf merges the batches of some partitions until that fails or ctx ends.
func (n *Node) receiveOf(ctx context.Context, a *Assign, parts []int, acks *acks) error {
	// Whatever this node has subscribed to before is over: its lease is ours.
	if err := n.opts.Bus.Fence(ctx, n.opts.Name, math.MaxUint64); err != nil {
		return err
	}
	sub, err := n.opts.Bus.Subscribe(ctx, Subscriber{Node: n.opts.Name, Boot: n.opts.Boot, Epoch: a.Epoch}, parts)
	if errors.Is(err, ErrOwned) {
		n.fence(ctx, a)
	}
	if err != nil {
		return err
	}
	defer func() { _ = sub.Close() }() // what it has goes to the next one
	for {
		list, err := sub.Next(ctx, takeAtOnce)
		if err == nil {
			err = n.take(ctx, list, acks)
		}
		if err != nil {
			return err
		}
	}
}

// fence ends the subscriptions of other nodes that are for assignments before this one: they may
// have partitions that are of this node now. Who is fenced subscribes again.
func (n *Node) fence(ctx context.Context, a *Assign) {
	fence := func(node string, before uint64) {
		if err := n.opts.Bus.Fence(ctx, node, before); err != nil && ctx.Err() == nil {
			n.opts.Log.Debug("fence", "node", node, "err", err)
		}
	}
	for node := range a.Members {
		if node != n.opts.Name {
			fence(node, a.Epoch)
		}
	}
	for node := range a.Gone {
		fence(node, math.MaxUint64)
	}
}

// take has batches merged, and acknowledged once they are durable. Those of partitions that this
// node does not own are left to others.
func (n *Node) take(ctx context.Context, list []Delivery, acks *acks) error {
	for _, d := range list {
		b := d.Batch()
		if own := n.owns(); b.Partition < 0 || b.Partition >= len(own) || !own[b.Partition] {
			if err := d.Nak(ctx, notOurs); err != nil {
				return err
			}
			continue
		}
		o, marker, err := unpack(b)
		if err != nil {
			n.opts.Log.Warn("a batch of another node cannot be read; it stays with the engine", "node", b.Sender, "batch", b.Number, "err", err)
			if err := d.Nak(ctx, unreadable); err != nil {
				return err
			}
			continue
		}
		if marker > 0 {
			if err := n.marked(b.Partition, marker); err != nil {
				return err
			}
		}
		n.mu.Lock()
		n.taking++
		n.mu.Unlock()
		done := func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.taking--
		}
		err = n.mail.Put(ctx, o, func(refused bool) {
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
