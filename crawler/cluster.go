package crawler

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"urltree/internal/cluster"
	"urltree/internal/repair"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// A Node is the part that a run has in one crawl of several processes, see Options.Cluster. It says
// which hosts are asked by others, sends them the links to those, and receives links from them.
// *cluster.Node is one.
type Node interface {
	// Join waits until this process has its hosts. before is what Join returned to the same tree, nil
	// for a new one.
	Join(ctx context.Context, before []byte) (keep []byte, err error)
	// Away returns the partition of a host, and whether another process asks it.
	Away(host string) (part uint16, away bool)
	// Asks reports whether a host is one that this process asks now.
	Asks(host string) bool
	// HandOver has what is known of hosts that others ask go to them.
	HandOver(hosts []string) error
	// MayAsk reports whether a request may begin now.
	MayAsk() bool
	// Exchange sends and receives until ctx ends.
	Exchange(ctx context.Context, mail cluster.Mailbox, work bool) error
	// Committed is called after each transaction; fresh says that the frontier has got rows.
	Committed(fresh bool)
	// Idle waits, when nothing is left, for rows or the end of the crawl.
	Idle(ctx context.Context) (more bool, err error)
	// Sync ends a superstep, see Options.Step: it returns once all links for others have arrived
	// there, and all others have come as far. busy says that this process had something in this
	// step; finished, that none had. next is the number of the step that follows.
	Sync(ctx context.Context, step uint64, busy bool) (next uint64, finished bool, err error)
	// Leave ends the part, when the tree is closed.
	Leave()
}

// checkCluster checks what a node cannot do.
func (o *Options) checkCluster() error {
	if o.Cluster == nil {
		return nil
	}
	if o.NoTree || len(o.Archives) > 0 || o.External {
		return fmt.Errorf("%w: a node of several asks the network and keeps a tree: NoTree, Archives and External must be unset", ErrOptions)
	}
	return nil
}

// joinCluster waits until this node has its hosts. A tree belongs to a node from its first run on.
func (e *engine) joinCluster(ctx context.Context) error {
	before, err := e.store.index.Marks().Cluster()
	node := e.opts.Cluster
	switch {
	case err != nil:
		return err
	case node == nil && before == nil:
		return nil
	case node == nil:
		return fmt.Errorf("%w: %s is the tree of a node of one crawl of several processes: start it with -cluster and -node-id", ErrOptions, e.opts.Tree)
	case before == nil && e.begun.earlier:
		return fmt.Errorf("%w: %s has a crawl of its own, so that it cannot become that of a node: choose another -tree", ErrOptions, e.opts.Tree)
	}
	keep, err := node.Join(ctx, before)
	if err != nil {
		if errors.Is(err, cluster.ErrOther) {
			return fmt.Errorf("%w: %w", ErrOptions, err)
		}
		return err
	}
	return iut.DiskError("cluster", e.store.index.Marks().SetCluster(keep))
}

// away reports whether the host of a URL is asked by another process.
func (o *Options) away(url string) bool {
	if o.Cluster == nil {
		return false
	}
	_, away := o.Cluster.Away(record.Host(url))
	return away
}

// exchange has the node send and receive while fetching goes on.
func (e *engine) exchange() error {
	box := mailbox{e.store.index.Outbox(), e}
	total := e.store.index.Totals()
	err := e.opts.Cluster.Exchange(e.ends.fetching, box, total.Now+total.Later+total.Revisits > 0 || box.Len() > 0)
	return e.unlessDrained(err)
}

// unlessDrained returns err, but ends fetching where that says that other processes have all hosts.
func (e *engine) unlessDrained(err error) error {
	if errors.Is(err, cluster.ErrDrained) {
		e.ends.stop(errDrained)
		return nil
	}
	return err
}

// idle waits, when nothing is left to ask, for links of other nodes or the end of the crawl. Hosts
// that rest for long are looked at again from time to time.
func (e *engine) idle(ctx context.Context) (more bool, err error) {
	if e.opts.Cluster == nil {
		return false, nil
	}
	// Rows may have come to wait here that are for others, as where links of stored pages count anew.
	strays, err := e.store.index.Outbox().Strays(mostStrays)
	if err == nil && len(strays) > 0 {
		err = e.opts.Cluster.HandOver(strays)
	}
	if err != nil {
		return false, err
	}
	waiting, cancel := ctx, context.CancelFunc(func() {})
	if e.frontier.Left() {
		waiting, cancel = context.WithTimeout(ctx, time.Minute)
	}
	defer cancel()
	more, err = e.opts.Cluster.Idle(waiting)
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		return true, nil
	}
	return more, e.unlessDrained(err)
}

// mostStrays is how many hosts are handed over at once that are not asked here.
const mostStrays = 1000

// A mailbox is where the node has its outcomes committed, with those of crawlers.
type mailbox struct {
	storage.Outbox
	e *engine
}

// Keep implements [cluster.Mailbox].
func (m mailbox) Keep(kept []byte) error {
	return iut.DiskError("cluster", m.e.store.index.Marks().SetCluster(kept))
}

// Exclusive implements [cluster.Mailbox].
func (m mailbox) Exclusive(fn func()) { m.e.store.index.Exclusive(fn) }

// Reconsider implements [cluster.Mailbox].
func (m mailbox) Reconsider() {
	total := m.e.store.index.Totals()
	m.e.frontier.Rebar(total.Now + total.Later + total.Sitemaps + total.Revisits)
}

// Quiet implements [cluster.Mailbox].
func (m mailbox) Quiet() bool {
	if m.e.frontier.Barred() > 0 {
		m.e.flushAll()
		return false
	}
	return true
}

// ReadAgain implements [cluster.Mailbox].
func (m mailbox) ReadAgain(ctx context.Context, lost func(host string) bool) error {
	e := m.e
	e.opts.Log.Info("a node is gone for good: reading stored pages again for links to its hosts", "pages", e.store.index.Totals().Stored)
	return repair.Repost(ctx, e.store.tree, e.store.index, e.rules.linker, lost, func(rows []record.Row, tx uint64) {
		e.frontier.Add(rows, tx)
		e.opts.Cluster.Committed(len(rows) > 0)
	})
}

// Figures implements [cluster.Mailbox].
func (m mailbox) Figures() cluster.Figures {
	total := m.e.store.index.Totals()
	return cluster.Figures{
		Stored: total.Stored, Pending: total.Now + total.Later, PerSecond: math.Float64frombits(m.e.measured.perSecond.Load()),
	}
}

// MoveOut implements [cluster.Mailbox]. A page that a run which was killed has left in the tree
// becomes one of the index first: it must not be asked anywhere else.
func (m mailbox) MoveOut(ctx context.Context, d *record.Departure) (next []byte, err error) {
	var here []record.Row
	if last := m.e.begun.lastUnclean; last > 0 {
		d.Stays = func(row *record.Row) (bool, error) {
			if row.Run > last {
				return false, nil
			}
			there, err := m.e.store.tree.Has(row.URL)
			if there {
				here = append(here, *row)
			}
			return there, err
		}
	}
	if next, err = m.Outbox.MoveOut(ctx, d); err != nil {
		return nil, err
	}
	adopted := make(chan struct{}, len(here))
	for _, row := range here {
		item := &iut.Item{Outcome: record.Outcome{Row: row, State: record.Stored}, Adopt: true, Then: func(bool) { adopted <- struct{}{} }}
		if err := m.e.buffers[0].Add(ctx, item); err != nil {
			return nil, err
		}
		m.e.buffers[0].Flush()
	}
	for range here {
		select {
		case <-adopted:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return next, nil
}

// Put implements [cluster.Mailbox]. In a superstep what arrives waits for its end, see steps.
func (m mailbox) Put(ctx context.Context, o record.Outcome, then func(refused bool)) error {
	o.Arrived = o.Arrived && m.e.steps == nil
	return m.put(ctx, o, then)
}

func (m mailbox) put(ctx context.Context, o record.Outcome, then func(refused bool)) error {
	linker := m.e.rules.linker
	for i := range o.Links {
		l := &o.Links[i]
		if l.Kind == record.PageRow {
			l.Held = linker.budgets.form(l.URL)
		}
		if l.Source == record.Seed {
			l.Areas = linker.Areas(l.URL)
		}
	}
	buf := m.e.buffers[0]
	if err := buf.Add(ctx, &iut.Item{Outcome: o, Then: then}); err != nil {
		return err
	}
	if !m.e.frontier.Left() || m.e.frontier.Starved() {
		buf.Flush() // nothing else is left to do before this is committed
	}
	return nil
}
