package queue

import (
	"fmt"
	"slices"
)

// check asserts the laws of a complete binary tree of players.
func (t *tree) check() error {
	n := t.size()
	if n > 0 && len(t.cbt) != 2*n {
		return fmt.Errorf("%d nodes for %d leaves", len(t.cbt), n)
	}
	if len(t.leaf) != n+len(t.free) {
		return fmt.Errorf("%d ids, %d leaves, %d free", len(t.leaf), n, len(t.free))
	}
	for i := n; i < len(t.cbt); i++ {
		if id := t.cbt[i]; int(t.leaf[id]) != i {
			return fmt.Errorf("leaf %d holds player %d, who is at %d", i, id, t.leaf[id])
		}
	}
	for i := 1; i < n; i++ {
		if w := t.cbt[i]; w != t.cbt[2*i] && w != t.cbt[2*i+1] {
			return fmt.Errorf("node %d holds %d, who did not play there", i, w)
		}
	}
	for _, id := range t.free {
		if t.leaf[id] != 0 {
			return fmt.Errorf("free player %d is at %d", id, t.leaf[id])
		}
	}
	return nil
}

// check asserts that each inner node holds the better of its children.
func (t *Tournament[V]) check() error {
	if err := t.tree.check(); err != nil {
		return err
	}
	cbt := t.tree.cbt
	for i := 1; i < t.Len(); i++ {
		for _, child := range cbt[2*i : 2*i+2] {
			if t.prio[child].Less(&t.prio[cbt[i]]) {
				return fmt.Errorf("node %d holds %d, but %d is better", i, cbt[i], child)
			}
		}
	}
	return nil
}

// check asserts that blocks are sorted and as full as they must be, and that each winner's
// items stand before the loser's.
func (c *cbt[V]) check() error {
	if err := c.tree.check(); err != nil {
		return err
	}
	n, total := c.tree.size(), 0
	for i := n; i < 2*n; i++ {
		id := c.tree.cbt[i]
		p := &c.prio[id]
		total += p.n
		items := make([]Item[V], p.n)
		c.cells.Read(int(id)*c.stride+p.from, items)
		switch {
		case p.n == 0, p.n < c.n && id != c.tree.winner() && id != c.tree.loser():
			return fmt.Errorf("block %d of %d leaves has %d items of %d", id, n, p.n, c.n)
		case !slices.IsSortedFunc(items, Compare):
			return fmt.Errorf("block %d is not sorted", id)
		case Compare(items[0], p.first) != 0 || Compare(items[p.n-1], p.last) != 0:
			return fmt.Errorf("block %d has other ends than noted", id)
		}
	}
	for i := 1; i < n; i++ {
		win, lose := c.tree.cbt[2*i], c.tree.cbt[2*i+1]
		if win != c.tree.cbt[i] {
			win, lose = lose, win
		}
		if c.prio[lose].first.Less(&c.prio[win].last) {
			return fmt.Errorf("match %d: an item of the loser %d is better than one of %d", i, lose, win)
		}
	}
	if total != c.length {
		return fmt.Errorf("blocks hold %d items of %d", total, c.length)
	}
	return c.cells.Err()
}

// check asserts that pivots partition the array.
func (q *quickHeap[V]) check() error {
	if q.Len() < 0 || q.Len() > q.cap || q.cap&(q.cap-1) != 0 {
		return fmt.Errorf("%d items in %d cells", q.Len(), q.cap)
	}
	items := make([]Item[V], q.Len())
	for i := range items {
		items[i] = *q.at(q.idx + i)
	}
	for j := 1; j < len(q.stack); j++ {
		p := q.stack[j] - q.idx
		if p < 0 || q.stack[j] >= q.stack[j-1] {
			return fmt.Errorf("pivot at %d, the next at %d, head at %d", q.stack[j], q.stack[j-1], q.idx)
		}
		for i := range items {
			if i < p && items[p].Less(&items[i]) || i > p && items[i].Less(&items[p]) {
				return fmt.Errorf("the item at %d is on the wrong side of the pivot at %d", q.idx+i, q.idx+p)
			}
		}
	}
	return q.cells.Err()
}

// check asserts the laws of each queue.
func (m *Multi[V]) check() error {
	for i, q := range m.queues {
		if err := checkQueue(q); err != nil {
			return fmt.Errorf("queue %d: %w", i, err)
		}
	}
	return nil
}

func checkQueue[V any](q Queue[V]) error { return q.(interface{ check() error }).check() }
