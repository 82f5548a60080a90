package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
)

// State is what a node answers to a probe.
type State struct {
	Node    string `json:"node"`
	Boot    string `json:"boot"`
	Epoch   uint64 `json:"epoch"`
	Counter uint64 `json:"counter"` // goes up with all that the node does
	Idle    bool   `json:"idle"`    // it has nothing left, and nothing for others
	Outbox  int64  `json:"outbox"`  // links that other nodes have not confirmed
	Leading bool   `json:"leading"`
	Waits   []int  `json:"waits,omitempty"` // partitions that have still to be handed over to it
	Leaves  int    `json:"leaves"`          // partitions that are on their way out
	Taking  int    `json:"taking"`          // batches that have arrived and are not durable
	Hosts   bool   `json:"hosts"`           // the engine is in its process
	Frozen  bool   `json:"frozen"`          // it goes in supersteps: nodes neither come nor go
	Sent    int64  `json:"sent"`            // of Outbox, links that are on their way
	Lost    int    `json:"lost"`            // partitions for whose links it reads its pages again
	Figures
	// Silent are the nodes that this one, leading, does not hear: for how long, in milliseconds.
	Silent map[string]int64 `json:"silent,omitempty"`
}

func (n *Node) state() []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := State{
		Node: n.opts.Name, Boot: n.opts.Boot, Epoch: n.kept.Assign.Epoch, Counter: n.counter,
		Outbox: n.mail.Len(), Leading: n.leads(), Waits: n.kept.waiting(), Taking: n.taking, Hosts: n.opts.Hosts, Frozen: n.steps != nil,
		Sent: n.flying, Lost: len(n.kept.lost()), Figures: n.mail.Figures(), Silent: n.silentLocked(),
	}
	for _, l := range n.kept.Leaves {
		s.Leaves += len(l.Parts)
	}
	s.Idle = n.idle && s.Outbox == 0 && s.Taking == 0 && len(s.Waits) == 0 && s.Leaves == 0 && s.Lost == 0
	return text(s)
}

// stateOf asks a node for its state; ok is false if it does not answer.
func (n *Node) stateOf(ctx context.Context, node string) (s State, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, n.opts.TTL/3)
	defer cancel()
	return probe(ctx, n.opts.Bus, node)
}

// probe asks a node for its state; ok is false if it does not answer.
func probe(ctx context.Context, bus Bus, node string) (s State, ok bool) {
	answer, err := bus.Probe(ctx, node)
	ok = err == nil && json.Unmarshal(answer, &s) == nil
	return s, ok
}

// The key "state" is running, or finished with the processes that had nothing left.
const finishedState, runningState = "finished", "running"

// reopen writes that the crawl is going on, if this node has work: what other nodes have found out
// before does not count any more. A node without work that joins a crawl that is finished has
// nothing to wait for. That it is finished is written again, since what was read may be old.
func (n *Node) reopen(ctx context.Context, work bool) error {
	return n.persist(ctx, func() (done bool, err error) {
		e, err := n.opts.Bus.Get(ctx, Control, "state")
		if err != nil && !errors.Is(err, ErrNoKey) {
			return false, err
		}
		finished := !work && strings.HasPrefix(string(e.Value), finishedState)
		switch {
		case work:
			e.Value = []byte(runningState)
		case !finished:
			return true, nil
		}
		e.Key = "state"
		if _, err := n.opts.Bus.Put(ctx, Control, e); err != nil {
			return false, err
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		n.finished = finished
		n.changedLocked()
		return true, nil
	})
}

// learn takes note of a key of the engine. That a crawl is finished counts for the processes that
// were asked, whatever old states an engine comes back with.
func (n *Node) learn(e Entry) {
	if e.Key == assignKey {
		if err := n.see(e); err != nil {
			n.fail(err)
		}
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if words := strings.Fields(string(e.Value)); e.Key == "state" && slices.Contains(words, n.opts.Boot) {
		n.finished = true
		n.changedLocked()
	}
	n.learnStepLocked(e)
}

// lead keeps the assignment as it should be, and finds out whether the crawl is finished, while
// this node is the leader.
func (n *Node) lead(ctx context.Context) error {
	for round := 0; pause(ctx, askAgain); round++ {
		if err := n.failure(); err != nil {
			return err
		}
		leads := n.leads()
		n.hear(ctx, leads)
		if !leads {
			continue
		}
		if round%int(retry/askAgain) == 0 {
			if err := n.arrange(ctx); err != nil && ctx.Err() == nil {
				n.opts.Log.Debug("arrange", "err", err)
			}
		}
		if !n.hasEnded() {
			continue
		}
		if err := n.finish(ctx); err != nil && ctx.Err() == nil {
			n.opts.Log.Debug("finish", "err", err)
		}
	}
	return nil
}

// hasEnded reports whether this node has nothing left, without which no other one needs to be
// asked.
func (n *Node) hasEnded() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.idle && !n.finished && n.mail.Len() == 0
}

// finish asks all nodes twice whether they have nothing left. If they say so, and nothing has
// happened to any in between, the crawl is finished: a link on its way is in the outbox of its
// sender, which is not idle then, and a node wakes only by a transaction, which changes its
// counter. All nodes are those of the latest assignment, which this one may have written and not
// yet taken over: one that has come since has seeds of its own, or is waiting for hosts.
func (n *Node) finish(ctx context.Context) error {
	e, err := n.opts.Bus.Get(ctx, Control, "state")
	if err != nil && !errors.Is(err, ErrNoKey) {
		return err
	}
	n.mu.Lock()
	a, revision, latest := n.seen, n.revision, n.seen.Epoch == n.kept.Assign.Epoch
	n.mu.Unlock()
	if !latest {
		return nil
	}
	var waves [2][]State
	for i := range waves {
		for _, node := range slices.Sorted(maps.Keys(a.Members)) {
			s, ok := n.stateOf(ctx, node)
			if !ok || !s.Idle || s.Epoch != a.Epoch {
				return nil
			}
			waves[i] = append(waves[i], s)
		}
	}
	for i, s := range waves[0] {
		if s.Counter != waves[1][i].Counter || s.Boot != waves[1][i].Boot {
			return nil
		}
	}
	// What was seen of the assignment may be old: that it is the latest is known by writing it.
	assign := Entry{Key: assignKey, Value: text(a), Revision: revision}
	if assign.Revision, err = n.opts.Bus.Put(ctx, Control, assign); err != nil {
		return err
	}
	if err := n.see(assign); err != nil {
		return err
	}
	words := []string{finishedState}
	for _, s := range waves[0] {
		words = append(words, s.Boot)
	}
	_, err = n.opts.Bus.Put(ctx, Control, Entry{Key: "state", Value: []byte(strings.Join(words, " ")), Revision: e.Revision})
	return err
}
