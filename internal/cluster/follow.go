package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// assignKey is the key of the assignment in Control.
const assignKey = "assign"

// kept is what a node keeps in its index: with it the engine may lose all it has.
type kept struct {
	Name   string `json:"name"`
	Lives  uint32 `json:"lives"` // how often it has joined: batches are numbered anew in each
	Conf   conf   `json:"conf"`
	Assign Assign `json:"assign"`
	// Marked is, of partitions that this node has got, the epoch of the latest marker that has come.
	Marked map[int]uint64 `json:"marked,omitempty"`
	Leaves []leave        `json:"leaves,omitempty"` // the first one is under way
	// Read is the epoch up to which the pages were read again for what is lost, see Assign.Lost.
	Read uint64 `json:"read,omitempty"`
}

func (k *kept) clone() kept {
	c := *k
	c.Marked, c.Leaves = maps.Clone(k.Marked), nil
	for _, l := range k.Leaves {
		l.Parts = slices.Clone(l.Parts)
		c.Leaves = append(c.Leaves, l)
	}
	return c
}

// own returns the partitions of which the node takes what is for them: its own, and those that
// leave it as long as one of their hosts may be being asked.
func (k *kept) own() []bool {
	own := make([]bool, Partitions)
	for _, p := range k.Assign.of(k.Name) {
		own[p] = true
	}
	for _, l := range k.Leaves {
		for _, p := range l.Parts {
			own[p] = own[p] || l.Step == stepRest
		}
	}
	return own
}

// asks returns the partitions whose hosts the node asks: its own, once they have been handed over.
func (k *kept) asks() []bool {
	asks := make([]bool, Partitions)
	for _, p := range k.Assign.of(k.Name) {
		asks[p] = !k.waits(p)
	}
	return asks
}

// waits reports whether a partition of the node has still to be handed over: a marker counts from
// the epoch of the latest move on.
func (k *kept) waits(p int) bool {
	a := &k.Assign
	return a.Owner[p] == k.Name && a.From[p] != "" && k.Marked[p] < a.Moved[p]
}

// waiting returns the partitions that wait.
func (k *kept) waiting() (parts []int) {
	for p := range k.Assign.Owner {
		if k.waits(p) {
			parts = append(parts, p)
		}
	}
	return parts
}

// follow takes over an assignment. What the node has lost begins to leave; so does what another one
// than before is to get, from the beginning.
func (k *kept) follow(a Assign) {
	old := &k.Assign
	var lost []int
	for p, owner := range a.Owner {
		had := old.Epoch > 0 && old.Owner[p] == k.Name
		switch {
		case owner == k.Name:
			k.stay(p)
		case had, a.From[p] == k.Name && a.Moved[p] > old.Moved[p]:
			k.stay(p)
			lost = append(lost, p)
		}
	}
	if len(lost) > 0 {
		k.Leaves = append(k.Leaves, leave{Parts: lost})
	}
	maps.DeleteFunc(k.Marked, func(p int, epoch uint64) bool { return a.Owner[p] != k.Name || epoch < a.Moved[p] })
	if old.Epoch == 0 {
		k.Read = a.Epoch // there are no pages yet
	}
	k.Assign = a
}

// stay ends that a partition leaves.
func (k *kept) stay(p int) {
	for i := range k.Leaves {
		l := &k.Leaves[i]
		l.Parts = slices.DeleteFunc(l.Parts, func(q int) bool { return q == p })
	}
	k.Leaves = slices.DeleteFunc(k.Leaves, func(l leave) bool { return len(l.Parts) == 0 })
}

// alter changes what the node keeps, in the index first.
func (n *Node) alter(do func(k *kept)) error {
	n.altering.Lock()
	defer n.altering.Unlock()
	next, mail := n.keeps()
	do(&next)
	if mail != nil { // else the caller of Join keeps it
		if err := mail.Keep(text(next)); err != nil {
			return err
		}
	}
	n.put(next)
	return nil
}

// keeps returns a copy of what the node keeps.
func (n *Node) keeps() (k kept, mail Mailbox) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.kept.clone(), n.mail
}

// put takes over what is kept from now on: nothing begins to be asked or is received of what the
// node has lost. n.altering is held.
func (n *Node) put(next kept) {
	own, asks := next.own(), next.asks()
	_, mail := n.keeps()
	switch before := n.own.Load(); {
	case mail == nil:
		n.own.Store(&own)
	case !slices.Equal(*before, own):
		mail.Exclusive(func() { n.own.Store(&own) })
	}
	before := n.asks.Load()
	others := before == nil || !slices.Equal(*before, asks)
	n.asks.Store(&asks)
	n.mu.Lock()
	moved := !slices.Equal(n.kept.Assign.of(next.Name), next.Assign.of(next.Name))
	n.kept = next
	n.counter++
	if moved && n.receiving != nil {
		n.receiving()
	}
	if others {
		n.wakeLocked()
	}
	n.mu.Unlock()
	if mail != nil && others {
		mail.Reconsider()
	}
}

// see takes note of an assignment that the engine has, or of none.
func (n *Node) see(e Entry) error {
	var a Assign
	if e.Revision != 0 {
		if err := json.Unmarshal(e.Value, &a); err != nil {
			return fmt.Errorf("%w: its assignment: %w", ErrOther, err)
		}
		if err := a.valid(Partitions); err != nil {
			return fmt.Errorf("%w: %w", ErrOther, err)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if old := &n.kept.Assign; old.Epoch > 0 && e.Revision != 0 && a.Crawl != old.Crawl {
		return fmt.Errorf("%w: the engine has another crawl of this name", ErrOther)
	}
	n.seen, n.revision = a, e.Revision
	n.changedLocked()
	return nil
}

// follow takes over assignments as they come, has what the node has lost leave it, and brings back
// an assignment that the engine has lost, until ctx ends.
func (n *Node) follow(ctx context.Context) error {
	for ctx.Err() == nil {
		n.mu.Lock()
		changed := n.changed
		n.mu.Unlock()
		if err := n.failure(); err != nil {
			return err
		}
		if _, err := n.adopt(); err != nil {
			return err
		}
		if n.isBehind() {
			if err := n.bringBack(ctx); err != nil && ctx.Err() == nil {
				n.opts.Log.Debug("bring back", "err", err)
			}
		}
		more, err := n.handOver(ctx)
		if err != nil {
			return err
		}
		if more {
			continue
		}
		select {
		case <-changed:
		case <-time.After(askAgain):
		case <-ctx.Done():
		}
	}
	return nil
}

// adopt takes over the assignment that was seen last, if it is a later one. It reports whether that
// names the node's life. A node that has left is in it no more.
func (n *Node) adopt() (named bool, err error) {
	n.mu.Lock()
	seen, epoch, life := n.seen, n.kept.Assign.Epoch, n.tenureLocked().life
	n.mu.Unlock()
	if seen.Epoch > epoch {
		if err := n.alter(func(k *kept) { k.follow(seen.clone()) }); err != nil {
			return false, err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	a := &n.kept.Assign
	named = a.Members[n.opts.Name] == n.tenureLocked().life
	n.named.Store(named)
	if n.lost == nil && a.Left[n.opts.Name] == life {
		n.lost = ErrDrained
		n.changedLocked()
	}
	if n.lost == nil && a.Gone[n.opts.Name] > 0 {
		n.lost = fmt.Errorf("%w: node %s was given up, and others have its hosts: what its tree has goes to theirs by crawler unite; for a node here choose another -node-id and -tree", ErrOther, n.opts.Name)
		n.changedLocked()
	}
	return named, nil
}

// assigned returns what the node has taken over last.
func (n *Node) assigned() Assign {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.kept.Assign
}

// isBehind reports whether the engine has an older assignment than this node, or none: it has lost
// some of what it had.
func (n *Node) isBehind() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen.Epoch < n.kept.Assign.Epoch
}

// bringBack writes the assignment that this node has in place of an older one.
func (n *Node) bringBack(ctx context.Context) error {
	n.mu.Lock()
	e := Entry{Key: assignKey, Value: text(n.kept.Assign), Revision: n.revision}
	n.mu.Unlock()
	revision, err := n.opts.Bus.Put(ctx, Control, e)
	if errors.Is(err, ErrRevision) {
		return n.look(ctx)
	}
	if err != nil {
		return err
	}
	e.Revision = revision
	return n.see(e)
}

// look reads the assignment that the engine has.
func (n *Node) look(ctx context.Context) error {
	e, err := n.opts.Bus.Get(ctx, Control, assignKey)
	if err != nil && !errors.Is(err, ErrNoKey) {
		return err
	}
	return n.see(e)
}
