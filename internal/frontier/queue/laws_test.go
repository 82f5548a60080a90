package queue

import (
	"cmp"
	"fmt"
)

// Compare compares like Less, for the functions of package slices.
func Compare[V any](a, b Item[V]) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Seq, b.Seq))
}

// check asserts the laws of a complete binary tree of players.
func (b *Bracket) check() error {
	n := b.Size()
	if n > 0 && len(b.Node) != 2*n {
		return fmt.Errorf("%d nodes for %d leaves", len(b.Node), n)
	}
	if len(b.Leaf) != n+len(b.free) {
		return fmt.Errorf("%d ids, %d leaves, %d free", len(b.Leaf), n, len(b.free))
	}
	for i := n; i < len(b.Node); i++ {
		if id := b.Node[i]; int(b.Leaf[id]) != i {
			return fmt.Errorf("leaf %d holds player %d, who is at %d", i, id, b.Leaf[id])
		}
	}
	for i := 1; i < n; i++ {
		if w := b.Node[i]; w != b.Node[2*i] && w != b.Node[2*i+1] {
			return fmt.Errorf("node %d holds %d, who did not play there", i, w)
		}
	}
	for _, id := range b.free {
		if b.Leaf[id] != 0 {
			return fmt.Errorf("free player %d is at %d", id, b.Leaf[id])
		}
	}
	return nil
}

// check asserts that each inner node holds the better of its children.
func (t *Tournament[V]) check() error {
	if err := t.bracket.check(); err != nil {
		return err
	}
	node := t.bracket.Node
	for i := 1; i < t.Len(); i++ {
		for _, child := range node[2*i : 2*i+2] {
			if t.prio[child].Less(&t.prio[node[i]]) {
				return fmt.Errorf("node %d holds %d, but %d is better", i, node[i], child)
			}
		}
	}
	return nil
}

// check asserts that pivots partition the array.
func (q *quickHeap[V]) check() error {
	for j, p := range q.pivots {
		if p >= len(q.items) || j > 0 && p <= q.pivots[j-1] {
			return fmt.Errorf("pivots %v of %d items", q.pivots, len(q.items))
		}
		for i := range q.items {
			if i < p && q.items[i].Less(&q.items[p]) || i > p && q.items[p].Less(&q.items[i]) {
				return fmt.Errorf("the item at %d is on the wrong side of the pivot at %d", i, p)
			}
		}
	}
	return nil
}

// check asserts the laws of each queue.
func (s several[V]) check() error {
	for i, q := range s {
		if err := checkQueue(q); err != nil {
			return fmt.Errorf("queue %d: %w", i, err)
		}
	}
	return nil
}

func checkQueue[V any](q Queue[V]) error { return q.(interface{ check() error }).check() }
