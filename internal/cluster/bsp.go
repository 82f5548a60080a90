package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A crawl in supersteps goes so: nodes ask their URLs of a step; once all nodes have, each sends
// its links, until their receivers have confirmed them; once all nodes have, each merges what it
// has got. So a link needs no number of its step: it arrives after its receiver has merged those of
// the step before, and before it merges those of this one. Nor is anything counted: what is
// confirmed is durable at its receiver.
//
// Each node says under a key of its own how far it is. That a node is in a later step says that it
// has come as far. Nodes that are away hold the others up until they are back.

// stepOf returns the key of a node.
func stepOf(node string) string { return "bsp." + node }

// An arrival says how far a node is in a step of which it has asked all its URLs.
type arrival struct {
	Step uint64 `json:"step"`
	Sent bool   `json:"sent"` // its links are with their receivers
	Busy bool   `json:"busy"` // it had URLs or links in this step
}

// reaches reports whether a node has come as far as another arrival says.
func (a arrival) reaches(b arrival) bool {
	return a.Step > b.Step || a.Step == b.Step && (a.Sent || !b.Sent)
}

// steps are what a node knows of the supersteps; nil: there are none.
type steps struct {
	send chan struct{}       // has a value when links are to be sent
	open bool                // guarded by Node.mu; links are sent
	at   map[string]*arrival // guarded by Node.mu; by node
}

func newSteps() *steps { return &steps{send: make(chan struct{}, 1), at: map[string]*arrival{}} }

// sending returns a channel that has a value when links are to be sent at once.
func (s *steps) sending() <-chan struct{} {
	if s == nil {
		return nil
	}
	return s.send
}

// mayPost reports whether rows of a partition are sent now.
func (n *Node) mayPost(part int) bool {
	if n.steps == nil {
		return true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.steps.open && !n.owns()[part]
}

// learnStepLocked takes note of a key of the engine.
func (n *Node) learnStepLocked(e Entry) {
	name, ok := strings.CutPrefix(e.Key, stepOf(""))
	var a arrival
	if n.steps == nil || !ok || json.Unmarshal(e.Value, &a) != nil {
		return
	}
	if old := n.steps.at[name]; old == nil || a.reaches(*old) {
		n.steps.at[name] = &a
		n.changedLocked()
	}
}

// Sync ends a step of which this node has asked all its URLs. It returns once all links of all
// nodes have arrived. busy says that this node had URLs or links in this step; finished, that none
// had. next is the number of the step that follows.
//
// A node that has nothing and comes back to a crawl that is finished waits for nobody, and its step
// stays the next one.
func (n *Node) Sync(ctx context.Context, step uint64, busy bool) (next uint64, finished bool, err error) {
	if !busy && n.hasFinished(ctx, step) {
		return step, true, nil
	}
	for _, sent := range []bool{false, true} {
		if sent {
			if err := n.sendAll(ctx); err != nil {
				return step, false, err
			}
		}
		own := arrival{step, sent, busy}
		if err := n.arrive(ctx, own); err != nil {
			return step, false, err
		}
		if finished, err = n.meet(ctx, own); err != nil {
			return step, false, err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.finished = finished
	return step + 1, finished, nil
}

// sendAll returns once every link to others is confirmed.
func (n *Node) sendAll(ctx context.Context) error {
	set := func(open bool) {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.steps.open = open
	}
	set(true)
	defer set(false)
	select {
	case n.steps.send <- struct{}{}:
	default:
	}
	return n.until(ctx, func() (bool, error) {
		n.mu.Lock()
		mail := n.mail
		n.mu.Unlock()
		for part, own := range n.owns() {
			if mail == nil {
				return false, nil // Exchange is about to begin
			}
			if own {
				continue
			}
			if rows, err := mail.Read(uint16(part), 0, 1); err != nil || len(rows) > 0 {
				return false, err
			}
		}
		return true, nil
	})
}

// arrive says how far this node is. What it has said of this step before stays: others may go by
// it.
func (n *Node) arrive(ctx context.Context, own arrival) error {
	return n.persist(ctx, func() (done bool, err error) {
		e, err := n.opts.Bus.Get(ctx, Control, stepOf(n.opts.Name))
		var was arrival
		switch {
		case errors.Is(err, ErrNoKey):
		case err != nil:
			return false, err
		case json.Unmarshal(e.Value, &was) != nil:
			return true, fmt.Errorf("%w: its key %s cannot be read", ErrOther, e.Key)
		case was.Step > own.Step:
			return true, fmt.Errorf("%w: node %s has been at step %d, its tree is at step %d: the engine has another crawl of this name", ErrOther, n.opts.Name, was.Step, own.Step)
		case was.reaches(own):
			return true, nil
		case was.Step == own.Step:
			own.Busy = was.Busy
		}
		e.Key, e.Value = stepOf(n.opts.Name), text(own)
		_, err = n.opts.Bus.Put(ctx, Control, e)
		return err == nil, err
	})
}

// meet returns once all nodes have come as far as this one, and whether none of them is busy. What
// the engine loses meanwhile is said again.
func (n *Node) meet(ctx context.Context, own arrival) (idle bool, err error) {
	said := time.Now()
	err = n.until(ctx, func() (all bool, err error) {
		if time.Since(said) > n.opts.TTL {
			said = time.Now()
			if err := n.arrive(ctx, own); err != nil {
				return false, err
			}
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		idle = true
		for node := range n.kept.Assign.Members {
			a := n.steps.at[node]
			if a == nil || !a.reaches(own) {
				return false, nil
			}
			if a.Step > own.Step+1 {
				return true, fmt.Errorf("%w: node %s is at step %d, this one at step %d", ErrOther, node, a.Step, own.Step)
			}
			idle = idle && a.Step == own.Step && !a.Busy
		}
		return true, nil
	})
	return idle, err
}

// hasFinished reports whether no node was busy in the step before, and none has begun another one.
func (n *Node) hasFinished(ctx context.Context, step uint64) bool {
	for node := range n.assigned().Members {
		e, err := n.opts.Bus.Get(ctx, Control, stepOf(node))
		var a arrival
		if err != nil || json.Unmarshal(e.Value, &a) != nil || a.Step+1 != step || !a.Sent || a.Busy {
			return false
		}
	}
	return true
}

// until calls fn again and again until it returns true: when something has changed, and from time
// to time.
func (n *Node) until(ctx context.Context, fn func() (bool, error)) error {
	for {
		n.mu.Lock()
		changed, lost := n.changed, n.lost
		n.mu.Unlock()
		if lost != nil {
			return lost
		}
		if done, err := fn(); done || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-time.After(askAgain):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
