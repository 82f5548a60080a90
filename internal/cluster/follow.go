package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
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
}

// own returns which partitions are those of the node.
func (k *kept) own() []bool {
	own := make([]bool, Partitions)
	for _, p := range k.Assign.of(k.Name) {
		own[p] = true
	}
	return own
}

// A tenure is what the value of a node's lease says: which life has it, and of which epoch the
// latest assignment was that the node knew when that life began.
type tenure struct {
	life  string
	epoch uint64
}

func (t tenure) String() string { return fmt.Sprintf("%s %d", t.life, t.epoch) }

func parseTenure(value []byte) (t tenure, ok bool) {
	life, epoch, ok := strings.Cut(string(value), " ")
	n, err := strconv.ParseUint(epoch, 10, 64)
	return tenure{life, n}, ok && err == nil
}

// tenures returns what the leases of all nodes say that have one.
func tenures(ctx context.Context, bus Bus) (map[string]tenure, error) {
	list, err := bus.List(ctx, Leases)
	if err != nil {
		return nil, err
	}
	found := map[string]tenure{}
	for _, e := range list {
		if node, ok := strings.CutPrefix(e.Key, leaseOf("")); ok {
			if t, ok := parseTenure(e.Value); ok {
				found[node] = t
			}
		}
	}
	return found, nil
}

// beginLifeLocked begins another life of the node, which asks nothing before the assignment names
// it.
func (n *Node) beginLifeLocked() {
	n.life++
	n.lease.become(n.tenureLocked().String())
	n.named.Store(false)
}

func (n *Node) tenureLocked() tenure {
	return tenure{fmt.Sprintf("%s.%d", n.opts.Boot, n.life), n.kept.Assign.Epoch}
}

// lapse takes note that the lease of the node has lapsed: other nodes may have been given its hosts
// since.
func (n *Node) lapse() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.beginLifeLocked()
	n.counter++
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

// follow takes over assignments as they come, until ctx ends, and brings back one that the engine
// has lost.
func (n *Node) follow(ctx context.Context) error {
	for {
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
		select {
		case <-changed:
		case <-time.After(retry):
		case <-ctx.Done():
			return nil
		}
	}
}

// adopt takes over the assignment that was seen last, if it is a later one. It reports whether the
// node's life is named by what it has then.
func (n *Node) adopt() (named bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen.Epoch > n.kept.Assign.Epoch {
		next, mail := n.kept, n.mail
		next.Assign = n.seen
		if mail != nil { // else the caller of Join keeps it
			n.mu.Unlock()
			err := mail.Keep(text(next))
			n.mu.Lock()
			if err != nil {
				return false, err
			}
		}
		n.kept = next // nobody else changes it meanwhile
		n.counter++
	}
	named = n.kept.Assign.Members[n.opts.Name] == n.tenureLocked().life
	n.named.Store(named)
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

// arrange changes the assignment where nodes have come or begun new lives. The caller leads.
func (n *Node) arrange(ctx context.Context) error {
	if err := n.look(ctx); err != nil {
		return err
	}
	n.mu.Lock()
	a, revision, behind := n.seen, n.revision, n.seen.Epoch < n.kept.Assign.Epoch
	n.mu.Unlock()
	if behind {
		return n.bringBack(ctx)
	}
	here, err := tenures(ctx, n.opts.Bus)
	if err != nil {
		return err
	}
	lives := map[string]string{}
	for node, t := range here {
		lives[node] = t.life
	}
	next, changed := a.next(lives)
	if !changed {
		return nil
	}
	// What the engine has may be older than what a node knows, which brings that back then.
	for node, t := range here {
		if s, ok := n.stateOf(ctx, node); max(t.epoch, s.Epoch) > a.Epoch && (ok || t.epoch > a.Epoch) {
			return nil
		}
	}
	e := Entry{Key: assignKey, Value: text(next), Revision: revision}
	if e.Revision, err = n.opts.Bus.Put(ctx, Control, e); err != nil {
		return err
	}
	return n.see(e)
}
