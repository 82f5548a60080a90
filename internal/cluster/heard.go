package cluster

import (
	"context"
	"time"
)

// heard is what a node that leads knows of the others: when it saw their leases last. What it does
// not see when it begins to lead is silent from then on.
type heard struct {
	looked time.Time            // zero: it does not lead
	last   map[string]time.Time // by node, of the assignment
}

// hear looks, every third of TTL, which nodes have leases. Only the leader does.
func (n *Node) hear(ctx context.Context, leads bool) {
	n.mu.Lock()
	due := leads && time.Since(n.heard.looked) >= n.opts.TTL/3
	if !leads {
		n.heard = heard{}
	}
	n.mu.Unlock()
	if !due {
		return
	}
	here, err := n.present(ctx)
	if err != nil {
		return // it says nothing of any node
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	last := map[string]time.Time{}
	for node := range n.kept.Assign.Members {
		last[node] = now
		if before, known := n.heard.last[node]; known {
			last[node] = before
		}
	}
	for _, node := range here {
		last[node] = now
	}
	n.heard = heard{looked: now, last: last}
}

// silentLocked returns the nodes that had no lease when the leader looked last, with the
// milliseconds since they had one. The caller holds mu.
func (n *Node) silentLocked() map[string]int64 {
	silent := map[string]int64{}
	for node, last := range n.heard.last {
		if last.Before(n.heard.looked) {
			silent[node] = time.Since(last).Milliseconds()
		}
	}
	return silent
}
