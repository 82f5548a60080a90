package queue

// An ID names an item of a Tournament until it is removed.
type ID int32

// A Tournament is a Queue in memory whose items can be changed where they stand: each is a leaf
// of a complete binary tree, and each inner node holds the better of its two children. Every
// operation on one item plays the matches from one leaf to the root. The zero Tournament is empty.
//
// The three arrays are the tree's cbt, players at nodes; its leaf, nodes of players; and prio.
type Tournament[V any] struct {
	tree  tree
	prio  []Item[V] // by id
	count Count
}

// Len is the number of items.
func (t *Tournament[V]) Len() int { return t.tree.size() }

// Count gives the number of matches played.
func (t *Tournament[V]) Count() Count { return t.count }

// First gives the best item; ok tells whether there is one.
func (t *Tournament[V]) First() (id ID, item Item[V], ok bool) {
	if t.Len() == 0 {
		return 0, item, false
	}
	w := t.tree.winner()
	return ID(w), t.prio[w], true
}

// Add puts an item in at a new last leaf.
func (t *Tournament[V]) Add(item Item[V]) ID {
	id := t.tree.insert()
	if int(id) == len(t.prio) {
		t.prio = append(t.prio, item)
	} else {
		t.prio[id] = item
	}
	t.replay(int(t.tree.leaf[id]))
	return ID(id)
}

// Update replaces an item that is there.
func (t *Tournament[V]) Update(id ID, item Item[V]) {
	t.prio[id] = item
	t.replay(int(t.tree.leaf[id]))
}

// Remove takes out an item that is there.
func (t *Tournament[V]) Remove(id ID) Item[V] {
	item := t.prio[id]
	t.prio[id] = Item[V]{} // keeps no value alive
	t.replay(t.tree.remove(int32(id)))
	return item
}

// Insert adds items one after the other. The error is nil.
func (t *Tournament[V]) Insert(items ...Item[V]) error {
	for _, item := range items {
		t.Add(item)
	}
	return nil
}

// Extract takes out the first r items, here in order. The error is nil.
func (t *Tournament[V]) Extract(dst []Item[V], r int) ([]Item[V], error) {
	for ; r > 0 && t.Len() > 0; r-- {
		dst = append(dst, t.Remove(ID(t.tree.winner())))
	}
	return dst, nil
}

// replay plays the matches from the parent of a node up to the root.
func (t *Tournament[V]) replay(node int) {
	cbt := t.tree.cbt
	for i := node / 2; i >= 1; i /= 2 {
		winner, other := cbt[2*i], cbt[2*i+1]
		t.count.Comparisons++
		if t.prio[other].Less(&t.prio[winner]) {
			winner = other
		}
		cbt[i] = winner
	}
}
