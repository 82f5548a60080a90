package queue

import (
	"cmp"
	"math/bits"
	"slices"
	"sort"

	"urltree/internal/frontier/queue"
)

// A cbt is a tournament whose players are sorted blocks of n items. Where the source of the
// idea asks for the greater of two blocks, less is better here.
//
// Invariants, between two calls:
//   - At each match every item of the winner stands before every item of the loser. So the
//     block of the root holds the first items of all.
//   - No block is empty. A block holds n items, but for the root's, from which extraction takes
//     until none is left, and the bracket's loser, which nothing stands behind.
type cbt[V any] struct {
	bracket     queue.Bracket
	n           int
	stride      int // positions from one block's slot to the next
	cells       cells[V]
	prio        []prio[V] // by id
	length      int
	comparisons int64
	x, y        []Item[V] // scratch for sorted sets on their way, of n items
	read        []Item[V] // scratch for a block
	merged      []Item[V] // scratch for two sets
}

// A prio describes what is in a block. Matches that first and last decide need not read it.
type prio[V any] struct {
	from, n     int // the items stand at from..from+n-1 in the block's slot
	first, last Item[V]
}

func newCBT[V any](store cells[V], n, stride int) *cbt[V] {
	return &cbt[V]{
		n: n, stride: stride, cells: store,
		x: make([]Item[V], 0, n), y: make([]Item[V], 0, n), read: make([]Item[V], 0, n), merged: make([]Item[V], 0, 2*n),
	}
}

func (c *cbt[V]) Len() int { return c.length }

func (c *cbt[V]) Comparisons() int64 { return c.comparisons }

func (c *cbt[V]) less(a, b *Item[V]) bool {
	c.comparisons++
	return a.Less(b)
}

// Insert fills up the bracket's loser first, so that only the last leaf stays short of n items,
// and then makes a new last leaf for each n items.
func (c *cbt[V]) Insert(items ...Item[V]) {
	c.length += len(items)
	if !slices.IsSortedFunc(items, c.compare) {
		items = slices.Clone(items)
		slices.SortFunc(items, c.compare)
	}
	for len(items) > 0 {
		room := 0
		if c.bracket.Size() > 0 {
			room = c.n - c.prio[c.bracket.Loser()].n
		}
		k := min(len(items), cmp.Or(room, c.n))
		set := append(c.x[:0], items[:k]...)
		items = items[k:]
		if room > 0 {
			c.fill(set)
		} else {
			c.grow(set)
		}
	}
}

func (c *cbt[V]) compare(a, b Item[V]) int {
	c.comparisons++
	return Compare(a, b)
}

// fill adds a sorted set to the bracket's loser, which has room for it.
func (c *cbt[V]) fill(set []Item[V]) {
	id := c.bracket.Loser()
	set = c.descend(set, int(c.bracket.Leaf[id])/2)
	c.divide(id, set, c.prio[id].n+len(set))
}

// grow puts a sorted set into a new leaf.
func (c *cbt[V]) grow(set []Item[V]) {
	// The new leaf's match is where the first leaf is now.
	set = c.descend(set, c.bracket.Size())
	id := c.bracket.Insert()
	if int(id) == len(c.prio) {
		c.prio = append(c.prio, prio[V]{})
		c.cells.Grow(len(c.prio) * c.stride)
	}
	c.write(id, set)
}

// descend carries a sorted set from the root down to a node. Each winner on the way takes what
// is better than its own, as many as it gives, so that the set ends behind all of them. No
// winner changes.
func (c *cbt[V]) descend(set []Item[V], node int) []Item[V] {
	last := int32(-1)
	for h := bits.Len(uint(node)) - 1; h >= 0; h-- {
		// A player wins at neighbouring nodes only.
		if id := c.bracket.Node[node>>h]; id != last {
			set = c.match(id, set)
			last = id
		}
	}
	return set
}

// Extract takes items from the root, whose block is replaced once it is empty.
func (c *cbt[V]) Extract(dst []Item[V], r int) []Item[V] {
	for r > 0 && c.length > 0 {
		id := c.bracket.Winner()
		p := &c.prio[id]
		k := min(r, p.n)
		at := int(id)*c.stride + p.from
		dst = append(dst, make([]Item[V], k)...)
		c.cells.Read(at, dst[len(dst)-k:])
		c.cells.Drop(at, at+k)
		p.from, p.n = p.from+k, p.n-k
		r, c.length = r-k, c.length-k
		if p.n == 0 {
			c.refill(id)
		} else {
			p.first = *c.cells.At(at + k)
		}
	}
	return dst
}

// refill moves the last items of the bracket to the empty block of the root, removes leaves that
// become empty, and plays the matches of that block again.
func (c *cbt[V]) refill(id int32) {
	set := c.x[:0]
	for len(set) < c.n && c.bracket.Size() > 1 {
		from := c.bracket.Loser()
		p := &c.prio[from]
		k := min(c.n-len(set), p.n)
		p.n -= k
		at := int(from)*c.stride + p.from + p.n
		taken := c.y[:k]
		c.cells.Read(at, taken)
		c.cells.Drop(at, at+k)
		set = append(set[:0], c.merge(set, taken)...)
		if p.n == 0 {
			c.remove(from)
		} else {
			p.last = *c.cells.At(at - 1)
		}
	}
	if len(set) == 0 {
		c.remove(id)
		return
	}
	c.write(id, set)
	c.climb(int(c.bracket.Leaf[id]))
}

// remove removes an empty block from the bracket.
func (c *cbt[V]) remove(id int32) {
	c.bracket.Remove(id)
	c.prio[id] = prio[V]{}
}

// climb plays the matches from the parent of a node up to the root. The block whose last item
// is better wins, for then the other's last item stays where it is, and so before all that the
// other has beaten. A block that lacks items counts as if its last one were the worst of all.
func (c *cbt[V]) climb(node int) {
	for i := node / 2; i >= 1; i /= 2 {
		a, b := c.bracket.Node[2*i], c.bracket.Node[2*i+1]
		if c.prio[a].n < c.n || c.prio[b].n == c.n && c.less(&c.prio[b].last, &c.prio[a].last) {
			a, b = b, a
		}
		c.bracket.Node[i] = a
		if c.less(&c.prio[b].first, &c.prio[a].last) {
			set := c.y[:c.prio[b].n]
			c.cells.Read(int(b)*c.stride+c.prio[b].from, set)
			c.write(b, c.divide(a, set, c.prio[a].n))
		}
	}
}

// match divides a block and a sorted set unless the block is better as a whole.
func (c *cbt[V]) match(id int32, set []Item[V]) []Item[V] {
	if p := &c.prio[id]; c.less(&set[0], &p.last) {
		return c.divide(id, set, p.n)
	}
	return set
}

// divide leaves to a block the best keep items of its own and of a sorted set, and returns the
// others, in the place of the set.
func (c *cbt[V]) divide(id int32, set []Item[V], keep int) []Item[V] {
	p := &c.prio[id]
	own := c.read[:p.n]
	c.cells.Read(int(id)*c.stride+p.from, own)
	merged := c.merge(own, set)
	c.write(id, merged[:keep])
	return append(set[:0], merged[keep:]...)
}

// write replaces a block by a sorted set that is not empty.
func (c *cbt[V]) write(id int32, set []Item[V]) {
	c.prio[id] = prio[V]{n: len(set), first: set[0], last: set[len(set)-1]}
	at := int(id) * c.stride
	c.cells.Drop(at, at+c.stride) // what it replaces need not be read
	c.cells.Write(at, set)
}

// merge makes one sorted set of two, good until the next call.
func (c *cbt[V]) merge(a, b []Item[V]) []Item[V] {
	out := c.merged[:0]
	if len(a) > 0 && len(b) > 0 {
		// A short set costs little more than a search for its first item.
		skip := sort.Search(len(a), func(i int) bool { return c.less(&b[0], &a[i]) })
		out, a = append(append(out, a[:skip]...), b[0]), a[skip:]
		b = b[1:]
	}
	for len(a) > 0 && len(b) > 0 {
		if c.less(&a[0], &b[0]) {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}
