package frontier

// A cbt is a tournament over hosts in a complete binary tree: the host with the earliest key
// wins. A host that is not in the tree has leaf 0.
//
// With n hosts the nodes are 1 to 2n-1: node i < n holds the winner of its children 2i and
// 2i+1, the others are the leaves. So the tree is complete at every n: inserting splits the
// first leaf in two, removing joins the last two leaves, and each operation replays the
// matches on the way from a leaf to the root, O(log n).
//
// A node has the key beside the host, so that a match looks at two neighbours in memory and at
// no host.
type cbt struct {
	node []player // node[0] is unused
}

// A player is a host with the key that it had when it last came in or was updated.
type player struct {
	key int64
	h   *host
}

// len is the number of hosts in the tree.
func (t *cbt) len() int { return len(t.node) / 2 }

// first is the host with the earliest key, or nil.
func (t *cbt) first() *host {
	if len(t.node) == 0 {
		return nil
	}
	return t.node[1].h
}

// insert adds a host that is not in the tree.
func (t *cbt) insert(h *host) {
	n := t.len()
	if n == 0 {
		t.node = append(t.node[:0], player{}, player{})
		t.set(1, player{h.key, h})
		return
	}
	t.node = append(t.node, player{}, player{})
	t.set(2*n, t.node[n])
	t.set(2*n+1, player{h.key, h})
	t.replay(n)
}

// remove takes out a host that is in the tree.
func (t *cbt) remove(h *host) {
	n, at := t.len(), int(h.leaf)
	h.leaf = 0
	if n == 1 {
		t.node[1] = player{}
		t.node = t.node[:0]
		return
	}
	left, right := t.node[2*n-2], t.node[2*n-1]
	t.node[2*n-2], t.node[2*n-1] = player{}, player{}
	t.node = t.node[:2*n-2]
	// The last two leaves become one, in the place of their parent; the other of the two
	// takes the place of the host that goes, unless that is itself one of them.
	switch at {
	case 2*n - 1:
		t.set(n-1, left)
	case 2*n - 2:
		t.set(n-1, right)
	default:
		t.set(n-1, left)
		t.set(at, right)
		t.replay(at / 2)
	}
	t.replay((n - 1) / 2)
}

// update moves a host in the tree whose key has changed.
func (t *cbt) update(h *host) {
	t.node[h.leaf].key = h.key
	t.replay(int(h.leaf) / 2)
}

// count is the number of hosts whose key is at most key, counted up to limit.
func (t *cbt) count(key int64, limit int) int {
	if t.len() == 0 {
		return 0
	}
	return t.countBelow(1, key, limit)
}

// upTo returns hosts whose key is at most key, at most limit.
func (t *cbt) upTo(key int64, limit int) []*host {
	var list []*host
	var below func(i int)
	below = func(i int) {
		switch {
		case len(list) >= limit || t.node[i].key > key:
		case i >= t.len():
			list = append(list, t.node[i].h)
		default:
			below(2 * i)
			below(2*i + 1)
		}
	}
	if t.len() > 0 {
		below(1)
	}
	return list
}

func (t *cbt) countBelow(i int, key int64, limit int) int {
	switch {
	case limit <= 0 || t.node[i].key > key:
		return 0
	case i >= t.len():
		return 1
	}
	left := t.countBelow(2*i, key, limit)
	return left + t.countBelow(2*i+1, key, limit-left)
}

func (t *cbt) set(i int, p player) {
	t.node[i] = p
	p.h.leaf = int32(i)
}

// replay plays the matches from node i up to the root, or to one that ends as before.
func (t *cbt) replay(i int) {
	for ; i >= 1; i /= 2 {
		winner := t.node[2*i]
		if right := t.node[2*i+1]; right.key < winner.key {
			winner = right
		}
		if t.node[i] == winner {
			return
		}
		t.node[i] = winner
	}
}
