package queue

import "math/rand/v2"

// A quickHeap is an array that is being sorted from its end, no further than it must be (Navarro
// and Paredes, On Sorting, Heaps, and Minimum Spanning Trees, Algorithmica 57, 2010).
//
// Invariant: the item at each pivot stands before all items in front of its place, and behind all
// items that follow it there: the best item of all is the last one once that is a pivot. What is
// between two pivots is a chunk; the items of a chunk have no order.
type quickHeap[V any] struct {
	items  []Item[V]
	pivots []int // their places, ascending
}

func (q *quickHeap[V]) Len() int { return len(q.items) }

// Insert puts an item into its chunk: each chunk that holds better ones moves up by a place, which
// takes two items of it.
func (q *quickHeap[V]) Insert(item Item[V]) {
	q.items = append(q.items, item)
	free := len(q.items) - 1
	for i := len(q.pivots) - 1; i >= 0; i-- {
		p := q.pivots[i]
		if item.Less(&q.items[p]) {
			break
		}
		q.items[free] = q.items[p+1]
		q.items[p+1] = q.items[p]
		q.pivots[i], free = p+1, p
	}
	q.items[free] = item
}

// First partitions the last chunk, until that is empty.
func (q *quickHeap[V]) First() (item Item[V], ok bool) {
	for {
		first, last := 0, len(q.items)-1
		if n := len(q.pivots); n > 0 {
			first = q.pivots[n-1] + 1
		}
		switch {
		case last < 0:
			return item, false
		case first > last:
			return q.items[last], true
		}
		q.pivots = append(q.pivots, first+partition(q.items[first:]))
	}
}

func (q *quickHeap[V]) Pop() Item[V] {
	item, _ := q.First()
	q.pivots = q.pivots[:len(q.pivots)-1]
	last := len(q.items) - 1
	q.items[last] = Item[V]{} // keeps no value alive
	q.items = q.items[:last]
	return item
}

// partition puts what is worse than a random item before it, and what is better behind it, and
// returns its place. Items that are all alike are divided in the middle.
func partition[V any](items []Item[V]) int {
	last := len(items) - 1
	chosen := rand.IntN(len(items))
	items[chosen], items[last] = items[last], items[chosen]
	pivot := items[last]
	i, j := 0, last-1
	for {
		for i <= j && pivot.Less(&items[i]) {
			i++
		}
		for i <= j && items[j].Less(&pivot) {
			j--
		}
		if i >= j {
			break
		}
		items[i], items[j] = items[j], items[i]
		i, j = i+1, j-1
	}
	items[i], items[last] = pivot, items[i]
	return i
}
