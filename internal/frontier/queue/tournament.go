package queue

import "iter"

// An ID names an item of a Tournament until it is removed. 0 names none.
type ID int32

// A Tournament is a Queue in memory whose items can be changed where they stand: each is a leaf
// of a complete binary tree, and each inner node holds the better of its two children. Every
// operation on one item plays the matches from one leaf towards the root. The zero Tournament is
// empty.
//
// The three arrays are the bracket's Node and Leaf, and prio.
type Tournament[V any] struct {
	bracket Bracket
	prio    []Item[V] // by player, who is the ID less one
}

// Len returns the number of items.
func (t *Tournament[V]) Len() int { return t.bracket.Size() }

// First implements Queue.
func (t *Tournament[V]) First() (item Item[V], ok bool) {
	if t.Len() == 0 {
		return item, false
	}
	return t.prio[t.bracket.Winner()], true
}

// UpTo returns the values of at most limit items whose keys are at most key, in no order. It looks
// at no more than two items for each of them.
func (t *Tournament[V]) UpTo(key uint64, limit int) iter.Seq[V] {
	return func(yield func(V) bool) {
		if left := limit; t.Len() > 0 {
			t.below(1, key, &left, yield)
		}
	}
}

// below yields what UpTo does below a node, and reports whether to go on.
func (t *Tournament[V]) below(node int, key uint64, left *int, yield func(V) bool) bool {
	item := &t.prio[t.bracket.Node[node]]
	switch {
	case *left <= 0:
		return false
	case item.Key > key:
		return true
	case node >= t.Len():
		*left--
		return yield(item.Value)
	}
	return t.below(2*node, key, left, yield) && t.below(2*node+1, key, left, yield)
}

// Add adds an item at a new last leaf.
func (t *Tournament[V]) Add(item Item[V]) ID {
	id := t.bracket.Insert()
	if int(id) == len(t.prio) {
		t.prio = append(t.prio, item)
	} else {
		t.prio[id] = item
	}
	t.replay(id)
	return ID(id + 1)
}

// Update replaces an item that is there.
func (t *Tournament[V]) Update(id ID, item Item[V]) {
	t.prio[id-1] = item
	t.replay(int32(id - 1))
}

// Remove removes and returns an item that is there.
func (t *Tournament[V]) Remove(id ID) Item[V] {
	item := t.prio[id-1]
	t.prio[id-1] = Item[V]{} // keeps no value alive
	if from := t.bracket.Remove(int32(id - 1)); from > 0 {
		t.replay(t.bracket.Node[from])
	}
	return item
}

// Insert implements Queue.
func (t *Tournament[V]) Insert(item Item[V]) { t.Add(item) }

// Pop implements Queue.
func (t *Tournament[V]) Pop() Item[V] { return t.Remove(ID(t.bracket.Winner() + 1)) }

// replay plays the matches of a player who has come or changed, from its leaf up to the root, or to
// one that another wins as before: further up the players are the same.
func (t *Tournament[V]) replay(player int32) {
	node := t.bracket.Node
	for i := t.bracket.Leaf[player] / 2; i >= 1; i /= 2 {
		winner, other := node[2*i], node[2*i+1]
		if t.prio[other].Less(&t.prio[winner]) {
			winner = other
		}
		if node[i] == winner && winner != player {
			return
		}
		node[i] = winner
	}
}
