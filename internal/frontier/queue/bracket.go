package queue

// A Bracket is the complete binary tree of a tournament, without the keys. Players have an id;
// their keys are kept elsewhere, by id.
//
// With n leaves the nodes are 1 to 2n-1. Node i < n has the children 2i and 2i+1 and holds the
// winner of the two players there; nodes from n on are leaves, one for each player.
//
// Invariant: Node[Leaf[id]] == id for each player, and each inner node holds one of the two
// players at its children. Which of them is the winner is decided by the owner, who replays the
// matches from a leaf to the root.
type Bracket struct {
	Node []int32 // the player at each node; Node[0] is not used
	Leaf []int32 // the leaf of each player; 0: the id is free
	free []int32 // free ids
}

// Size returns the number of leaves.
func (b *Bracket) Size() int { return len(b.Node) / 2 }

// Winner returns the player at the root of a bracket that is not empty.
func (b *Bracket) Winner() int32 { return b.Node[1] }

// Loser returns the last player of the last match: of the two last leaves the one that is not at
// their parent. The only player of a bracket is its loser, too.
func (b *Bracket) Loser() int32 {
	n := b.Size()
	if n == 1 || b.Node[2*n-1] != b.Node[n-1] {
		return b.Node[2*n-1]
	}
	return b.Node[2*n-2]
}

// Insert returns the id of a new player. The first leaf becomes a match between the player that was
// there, which counts as its winner, and the new one.
func (b *Bracket) Insert() int32 {
	id := int32(len(b.Leaf))
	if last := len(b.free) - 1; last >= 0 {
		id, b.free = b.free[last], b.free[:last]
	} else {
		b.Leaf = append(b.Leaf, 0)
	}
	n := b.Size()
	if n == 0 {
		b.Node = append(b.Node, 0, 0)
		b.put(id, 1)
		return id
	}
	b.Node = append(b.Node, 0, 0)
	b.put(b.Node[n], 2*n)
	b.put(id, 2*n+1)
	return id
}

// Remove removes a player. Of the last two leaves the winner moves up to their parent, and the
// loser to the leaf of the player that is removed. It returns the leaf from which matches have to
// be played again, 0 if none.
func (b *Bracket) Remove(id int32) (from int) {
	n, at := b.Size(), int(b.Leaf[id])
	b.Leaf[id] = 0
	b.free = append(b.free, id)
	if n == 1 {
		b.Node = b.Node[:0]
		return 0
	}
	win, lose := b.Node[n-1], b.Loser()
	b.Node = b.Node[:2*n-2]
	switch id {
	case lose:
		b.put(win, n-1)
		return 0
	case win:
		at = n - 1
	default:
		b.put(win, n-1)
	}
	b.put(lose, at)
	return at
}

func (b *Bracket) put(id int32, node int) {
	b.Node[node] = id
	b.Leaf[id] = int32(node)
}
