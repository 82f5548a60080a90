package cluster

import (
	"context"
	"math"
	"slices"
	"strconv"

	"urltree/storage/record"
)

// A leave is partitions on their way out of a node, by steps in this order. Each step but the first
// is in the index before it counts, so that a node which is killed goes on where it was.
//
// Links that wait go first, then what is known besides, then a marker for each partition, each only
// once the other node has confirmed what went before. So whoever has the marker has all of it.
type leave struct {
	Parts []int  `json:"parts"`
	Step  int    `json:"step"`
	From  []byte `json:"from,omitempty"` // of a leg, where it goes on
	Last  uint64 `json:"last,omitempty"` // number of the last row that has to be confirmed before the next step
}

const (
	stepRest    = iota // requests end, and what came of them is committed
	stepWaiting        // URLs that wait, and sitemaps
	stepSitemaps
	stepConfirmed
	stepDone // URLs with an outcome, answers to requests for robots.txt, times of hosts
	stepRobots
	stepHosts
	stepAllConfirmed
	stepMarked // markers
	stepGone   // these are confirmed
)

// legs has what goes in a step.
var legs = map[int]record.Leg{
	stepWaiting: record.LegWaiting, stepSitemaps: record.LegSitemaps,
	stepDone: record.LegDone, stepRobots: record.LegRobots, stepHosts: record.LegHosts,
}

// handOver goes on with what leaves the node. It reports whether it has got on.
func (n *Node) handOver(ctx context.Context) (more bool, err error) {
	k, mail := n.keeps()
	if len(k.Leaves) == 0 {
		return false, nil
	}
	l := k.Leaves[0]
	switch l.Step {
	case stepRest:
		if !mail.Quiet() {
			return false, nil
		}
		return true, n.next(func(l *leave) { l.Step++ })
	case stepConfirmed, stepAllConfirmed, stepGone:
		if has, err := mail.Has(l.Parts, l.Last); has || err != nil {
			return false, err
		}
		return true, n.next(func(l *leave) { l.Step++ })
	case stepMarked:
		return true, n.mark(mail)
	}
	return true, n.moveOut(ctx, mail, legs[l.Step])
}

// next changes the leave that is under way, and drops it behind its last step.
func (n *Node) next(do func(l *leave)) error {
	return n.alter(func(k *kept) {
		if len(k.Leaves) == 0 {
			return
		}
		if do(&k.Leaves[0]); k.Leaves[0].Step > stepGone {
			k.Leaves = k.Leaves[1:]
		}
	})
}

// moveOut posts a part of a leg.
func (n *Node) moveOut(ctx context.Context, mail Mailbox, leg record.Leg) error {
	n.altering.Lock()
	defer n.altering.Unlock()
	k, _ := n.keeps()
	if len(k.Leaves) == 0 {
		return nil
	}
	l := &k.Leaves[0]
	leaves := make([]bool, Partitions)
	for _, p := range l.Parts {
		leaves[p] = true
	}
	_, err := mail.MoveOut(ctx, &record.Departure{
		Leg: leg, From: l.From,
		Leaves: func(host string) (uint16, bool) {
			part := Partition(host, Partitions)
			return part, leaves[part]
		},
		Kept: func(next []byte) []byte {
			if l.From = next; next == nil {
				l.Step++
			}
			l.Last = math.MaxUint64 // after a kill it is not known
			return text(k)
		},
	})
	if err != nil {
		return err
	}
	l.Last = mail.Last()
	n.put(k)
	return nil
}

// mark posts the markers of the leave that is under way, of the epochs in which the partitions have
// been moved.
func (n *Node) mark(mail Mailbox) error {
	n.altering.Lock()
	defer n.altering.Unlock()
	k, _ := n.keeps()
	if len(k.Leaves) == 0 {
		return nil
	}
	l := &k.Leaves[0]
	var list []record.Posted
	for _, p := range l.Parts {
		m := record.Moved{Kind: record.MovedMarker, Name: strconv.FormatUint(k.Assign.Moved[p], 10)}
		list = append(list, record.Posted{Part: uint16(p), Moved: m})
	}
	l.Step++
	l.Last = math.MaxUint64
	if err := mail.PostMarkers(list, text(k)); err != nil {
		return err
	}
	l.Last = mail.Last()
	n.put(k)
	return nil
}

// marked takes note of a marker.
func (n *Node) marked(p int, epoch uint64) error {
	k, _ := n.keeps()
	if k.Marked[p] >= epoch || epoch < k.Assign.Moved[p] {
		return nil // of an earlier move, or known
	}
	return n.alter(func(k *kept) {
		if k.Marked == nil {
			k.Marked = map[int]uint64{}
		}
		k.Marked[p] = max(k.Marked[p], epoch)
	})
}

// HandOver has what is known of some hosts go to the nodes that ask them.
func (n *Node) HandOver(hosts []string) error {
	return n.alter(func(k *kept) {
		var parts []int
		own := k.own()
		for _, host := range hosts {
			p := int(Partition(host, Partitions))
			leaves := slices.ContainsFunc(k.Leaves, func(l leave) bool { return slices.Contains(l.Parts, p) })
			if !own[p] && !leaves && !slices.Contains(parts, p) {
				parts = append(parts, p)
			}
		}
		if len(parts) > 0 {
			k.Leaves = append(k.Leaves, leave{Parts: parts, Step: stepWaiting})
		}
	})
}
