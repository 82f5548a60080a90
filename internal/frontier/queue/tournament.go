package queue

// An ID names an item of a Tournament until it is removed.
type ID int32

// A Tournament is a Queue in memory whose items can be changed where they stand: each is a leaf
// of a complete binary tree, and each inner node holds the better of its two children. Every
// operation on one item plays the matches from one leaf to the root. The zero Tournament is empty.
//
// The three arrays are the bracket's Node and Leaf, and prio.
type Tournament[V any] struct {
	bracket     Bracket
	prio        []Item[V] // by id
	comparisons int64
}

// Len returns the number of items.
func (t *Tournament[V]) Len() int { return t.bracket.Size() }

// Comparisons returns the number of matches played.
func (t *Tournament[V]) Comparisons() int64 { return t.comparisons }

// First returns the best item; ok reports whether there is one.
func (t *Tournament[V]) First() (id ID, item Item[V], ok bool) {
	if t.Len() == 0 {
		return 0, item, false
	}
	w := t.bracket.Winner()
	return ID(w), t.prio[w], true
}

// Add adds an item at a new last leaf.
func (t *Tournament[V]) Add(item Item[V]) ID {
	id := t.bracket.Insert()
	if int(id) == len(t.prio) {
		t.prio = append(t.prio, item)
	} else {
		t.prio[id] = item
	}
	t.replay(int(t.bracket.Leaf[id]))
	return ID(id)
}

// Update replaces an item that is there.
func (t *Tournament[V]) Update(id ID, item Item[V]) {
	t.prio[id] = item
	t.replay(int(t.bracket.Leaf[id]))
}

// Remove removes and returns an item that is there.
func (t *Tournament[V]) Remove(id ID) Item[V] {
	item := t.prio[id]
	t.prio[id] = Item[V]{} // keeps no value alive
	t.replay(t.bracket.Remove(int32(id)))
	return item
}

// Insert adds items one after the other.
func (t *Tournament[V]) Insert(items ...Item[V]) {
	for _, item := range items {
		t.Add(item)
	}
}

// Extract removes the first r items and appends them to dst, here in order.
func (t *Tournament[V]) Extract(dst []Item[V], r int) []Item[V] {
	for ; r > 0 && t.Len() > 0; r-- {
		dst = append(dst, t.Remove(ID(t.bracket.Winner())))
	}
	return dst
}

// replay plays the matches from the parent of a leaf up to the root.
func (t *Tournament[V]) replay(leaf int) {
	node := t.bracket.Node
	for i := leaf / 2; i >= 1; i /= 2 {
		winner, other := node[2*i], node[2*i+1]
		t.comparisons++
		if t.prio[other].Less(&t.prio[winner]) {
			winner = other
		}
		node[i] = winner
	}
}
