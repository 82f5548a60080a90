package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"urltree/internal/words"
)

// Figures say how far the run of a node is.
type Figures struct {
	Stored    int64   `json:"stored"`     // pages, of all its runs
	Pending   int64   `json:"pending"`    // URLs that wait to be asked
	PerSecond float64 `json:"per_second"` // pages in the last second
}

// A Status is a crawl as it looks from outside: to a process that is no node of it.
type Status struct {
	State string       `json:"state"` // "waiting" for nodes, "running" or "finished"
	Epoch uint64       `json:"epoch"` // of the division of hosts; 0: there is none
	Nodes []NodeStatus `json:"nodes"` // by name
}

// A NodeStatus is what is known of a node. Without an answer, State has nothing but its name.
type NodeStatus struct {
	State
	Here       bool     `json:"here"`       // it has a lease
	Answers    bool     `json:"answers"`    // and says how far it is
	SilentMS   int64    `json:"silent_ms"`  // since it had one, as far as the leader knows; 0: unknown
	Partitions int      `json:"partitions"` // that are its own
	Reasons    []string `json:"reasons"`    // why the crawl does not end as far as it is concerned
}

// Look asks the engine, and each node, how the crawl is.
func Look(ctx context.Context, bus Bus) (s Status, err error) {
	a, err := dividedBy(ctx, bus)
	if err != nil {
		return s, err
	}
	s.State, s.Epoch = "waiting", a.Epoch
	e, err := bus.Get(ctx, Control, "state")
	switch {
	case errors.Is(err, ErrNoKey):
	case err != nil:
		return s, err
	case strings.HasPrefix(string(e.Value), finishedState):
		s.State = finishedState
	}
	if s.State != finishedState && s.Epoch > 0 {
		s.State = runningState
	}
	here, err := leased(ctx, bus)
	if err != nil {
		return s, err
	}
	names := slices.AppendSeq(slices.Clone(here), maps.Keys(a.Members))
	slices.Sort(names)
	names = slices.Compact(names)
	s.Nodes = make([]NodeStatus, len(names))
	var asking sync.WaitGroup
	for i, name := range names {
		n := &s.Nodes[i]
		n.Node, n.Here, n.Partitions = name, slices.Contains(here, name), len(a.of(name))
		asking.Go(func() {
			answer, err := bus.Probe(ctx, name)
			n.Answers = err == nil && json.Unmarshal(answer, &n.State) == nil && n.Node == name
			if !n.Answers {
				n.State = State{Node: name}
			}
		})
	}
	asking.Wait()
	for i := range s.Nodes {
		for name, ms := range s.Nodes[i].Silent {
			if at := slices.Index(names, name); at >= 0 && !s.Nodes[at].Here {
				s.Nodes[at].SilentMS = ms
			}
		}
		s.Nodes[i].Silent = nil
	}
	for i := range s.Nodes {
		s.Nodes[i].Reasons = s.Nodes[i].reasons(&s)
	}
	return s, nil
}

// reasons says what keeps the crawl from ending at this node. The list is not nil.
func (n *NodeStatus) reasons(s *Status) []string {
	list := []string{}
	add := func(is bool, format string, a ...any) {
		if is {
			list = append(list, fmt.Sprintf(format, a...))
		}
	}
	if s.State == finishedState {
		return list
	}
	switch {
	case !n.Here && n.Partitions > 0:
		add(true, "is silent%s: its hosts wait for it, and it may have links for others", n.since())
	case !n.Here:
		add(true, "is silent%s: it may have links for others", n.since())
	case !n.Answers:
		add(true, "has not begun, or ends, or does not answer")
	default:
		add(n.Epoch != s.Epoch, "does not know yet how hosts are divided now")
		add(len(n.Waits) > 0, "has still to be given %s of hosts", words.Count(len(n.Waits), "partition"))
		add(n.Leaves > 0, "gives away %s of hosts", words.Count(n.Leaves, "partition"))
		add(n.Lost > 0, "reads its pages again for links to hosts of a node that is gone")
		add(n.Pending > 0, "%s to be asked", words.Count(n.Pending, "URL"))
		add(n.Outbox > 0, "%s for others that they have not confirmed", words.Count(n.Outbox, "link"))
		add(n.Taking > 0, "writes what others have sent it")
		add(!n.Idle && len(list) == 0, "is busy with what it has taken last")
	}
	return list
}

// dividedBy returns how hosts are divided; Epoch 0: they are not.
func dividedBy(ctx context.Context, bus Bus) (a Assign, err error) {
	e, err := bus.Get(ctx, Control, assignKey)
	if errors.Is(err, ErrNoKey) {
		return a, nil
	}
	if err == nil {
		err = json.Unmarshal(e.Value, &a)
	}
	if err == nil {
		err = a.valid(Partitions)
	}
	return a, err
}

// leased returns the nodes that have a lease, sorted.
func leased(ctx context.Context, bus Bus) ([]string, error) {
	found, err := tenures(ctx, bus)
	return slices.Sorted(maps.Keys(found)), err
}

// since says for how long a node has been silent, if that is known.
func (n *NodeStatus) since() string {
	if n.SilentMS == 0 {
		return ""
	}
	return " for " + words.Span(time.Duration(n.SilentMS)*time.Millisecond)
}
