package queue

// A tree is a complete binary tree for tournaments, without the keys. Players have an id; what
// they play with is kept elsewhere, by id.
//
// With n leaves the nodes are 1 to 2n-1. Node i < n has the children 2i and 2i+1 and holds the
// winner of the two players there; nodes from n on are leaves, one for each player.
//
// Invariant: cbt[leaf[id]] == id for each player, and each inner node holds one of the two
// players at its children. Who wins is for the owner to keep right.
type tree struct {
	cbt  []int32 // the player at each node; cbt[0] is not used
	leaf []int32 // the leaf of each player; 0: the id is free
	free []int32 // free ids
}

// size is the number of leaves.
func (t *tree) size() int { return len(t.cbt) / 2 }

// winner is the player at the root of a tree that is not empty.
func (t *tree) winner() int32 { return t.cbt[1] }

// loser is the last player of the last match: of the two last leaves the one that is not at
// their parent. The only player of a tree is its loser, too.
func (t *tree) loser() int32 {
	n := t.size()
	if n == 1 || t.cbt[2*n-1] != t.cbt[n-1] {
		return t.cbt[2*n-1]
	}
	return t.cbt[2*n-2]
}

// insert makes a new player. The first leaf becomes a match between who was there, who counts
// as its winner, and the new one.
func (t *tree) insert() int32 {
	id := int32(len(t.leaf))
	if last := len(t.free) - 1; last >= 0 {
		id, t.free = t.free[last], t.free[:last]
	} else {
		t.leaf = append(t.leaf, 0)
	}
	n := t.size()
	if n == 0 {
		t.cbt = append(t.cbt, 0, 0)
		t.put(id, 1)
		return id
	}
	t.cbt = append(t.cbt, 0, 0)
	t.put(t.cbt[n], 2*n)
	t.put(id, 2*n+1)
	return id
}

// remove takes a player out. Of the last two leaves the winner moves up to their parent, and
// the loser into the place of who goes. It gives the leaf from which matches have to be played
// again, 0 if none.
func (t *tree) remove(id int32) (from int) {
	n, at := t.size(), int(t.leaf[id])
	t.leaf[id] = 0
	t.free = append(t.free, id)
	if n == 1 {
		t.cbt = t.cbt[:0]
		return 0
	}
	win, lose := t.cbt[n-1], t.loser()
	t.cbt = t.cbt[:2*n-2]
	switch id {
	case lose:
		t.put(win, n-1)
		return 0
	case win:
		at = n - 1
	default:
		t.put(win, n-1)
	}
	t.put(lose, at)
	return at
}

func (t *tree) put(id int32, node int) {
	t.cbt[node] = id
	t.leaf[id] = int32(node)
}
