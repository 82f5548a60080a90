package queue

import (
	"math/bits"
	"math/rand/v2"
)

// A quickheap is an array that is being sorted from its head, no further than extraction needs.
//
// Positions are counted on for ever; position p is the cell p mod cap. The items stand at
// idx..stack[0]-1. The stack holds positions of pivots, the least on top; stack[0], one behind
// the last item, is that of a pivot worse than all and is not in the array.
//
// Invariant: the item at each pivot stands behind all items before its position, and before all
// items behind it. What is between two pivots is a chunk; the items of a chunk have no order.
type quickHeap[V any] struct {
	cells       cells[V]
	cap         int // 0 or a power of two
	idx         int
	stack       []int
	rng         *rand.Rand
	comparisons int64

	chunk []int // scratch: the chunk of each new item, as the place in stack of the pivot behind it
	fresh []int // scratch: by chunk, number of new items; then where the next one goes
}

// newQuickHeap returns an empty quickheap that keeps its items in cells, which must be empty and
// are its own from now on. seed is of the random choice of pivots.
func newQuickHeap[V any](cells cells[V], seed uint64) *quickHeap[V] {
	return &quickHeap[V]{cells: cells, stack: []int{0}, rng: rand.New(rand.NewPCG(seed, 0))}
}

func (q *quickHeap[V]) Len() int { return q.stack[0] - q.idx }

func (q *quickHeap[V]) Comparisons() int64 { return q.comparisons }

func (q *quickHeap[V]) less(a, b *Item[V]) bool {
	q.comparisons++
	return a.Less(b)
}

func (q *quickHeap[V]) at(pos int) *Item[V]       { return q.cells.At(pos & (q.cap - 1)) }
func (q *quickHeap[V]) set(pos int, item Item[V]) { q.cells.Set(pos&(q.cap-1), item) }

// Insert puts each item at the end of its chunk. To make room, a chunk that k of the items stand
// before moves k items, or all if it has fewer, from its front behind its end.
func (q *quickHeap[V]) Insert(items ...Item[V]) {
	q.grow(q.Len() + len(items))
	q.chunk = q.chunk[:0]
	q.fresh = append(q.fresh[:0], make([]int, len(q.stack))...)
	for i := range items {
		j := 0 // most items belong to the last chunk, which is the longest
		for j+1 < len(q.stack) && q.less(&items[i], q.at(q.stack[j+1])) {
			j++
		}
		q.chunk = append(q.chunk, j)
		q.fresh[j]++
	}
	before := len(items) // new items before the end of chunk j
	for j := 0; j < len(q.stack) && before > 0; j++ {
		end, start := q.stack[j], q.idx
		if j > 0 {
			q.set(end+before, *q.at(end))
		}
		if j+1 < len(q.stack) {
			start = q.stack[j+1] + 1
		}
		q.stack[j] += before
		own := q.fresh[j]
		before -= own
		q.fresh[j] = end + before
		k := min(before, end-start)
		for i := range k {
			q.set(end+before-k+i, *q.at(start + i))
		}
	}
	for i := range items {
		next := &q.fresh[q.chunk[i]]
		q.set(*next, items[i])
		*next++
	}
}

// grow makes room for n items. A larger array is at least twice as large, so that an item moves
// once for each time it is inserted, on average.
func (q *quickHeap[V]) grow(n int) {
	if n <= q.cap {
		return
	}
	old := q.cap
	q.cap = 1 << bits.Len(uint(max(n, 16)-1))
	q.cells.Grow(q.cap)
	if old == 0 {
		return
	}
	// Count positions anew, with the head in the first round of the old array. Then only the
	// items of the second round stand elsewhere in the larger one.
	back := q.idx &^ (old - 1)
	q.idx -= back
	for j := range q.stack {
		q.stack[j] -= back
	}
	for pos := old; pos < q.stack[0]; pos++ {
		q.set(pos, *q.cells.At(pos - old))
	}
	if q.stack[0] > old {
		q.cells.Drop(0, q.stack[0]-old)
	}
}

// Extract looks for the item that is the r-th, by partitions that leave their pivots on the
// stack for later, and takes out all up to it.
func (q *quickHeap[V]) Extract(dst []Item[V], r int) []Item[V] {
	r = min(r, q.Len())
	if r <= 0 {
		return dst
	}
	final, first := q.idx+r-1, q.idx
	for q.top() <= final {
		first = q.top() + 1
		q.stack = q.stack[:len(q.stack)-1]
	}
	// All before first are among the r, and none behind last. Pivots among them are not kept.
	for last := q.top() - 1; first <= final && final < last; {
		if p := q.partition(first, last); p <= final {
			first = p + 1
		} else {
			q.stack = append(q.stack, p)
			last = p - 1
		}
	}
	for behind := q.idx + r; q.idx < behind; {
		at := q.idx & (q.cap - 1)
		n := min(behind-q.idx, q.cap-at)
		dst = append(dst, make([]Item[V], n)...)
		q.cells.Read(at, dst[len(dst)-n:])
		q.cells.Drop(at, at+n)
		q.idx += n
	}
	return dst
}

func (q *quickHeap[V]) top() int { return q.stack[len(q.stack)-1] }

// sample is the number of items of which the pivot of a long chunk is the middle one: with it a
// chunk is gone through log2 times until it fits, with one item 1.39 times as often. sampled is how
// long the chunk must be.
const (
	sample  = 15
	sampled = 64 * sample
)

// choose returns the position of the pivot: that of a random item, in a long chunk of the middle
// one of some that stand side by side, for these are in the same block or two.
func (q *quickHeap[V]) choose(first, last int) int {
	n := last - first + 1
	if n < sampled {
		return first + q.rng.IntN(n)
	}
	from := first + q.rng.IntN(n-sample)
	var list [sample]int // positions, the best item first
	for i := range list {
		at := from + i
		item := *q.at(at)
		j := i
		for ; j > 0 && q.less(&item, q.at(list[j-1])); j-- {
			list[j] = list[j-1]
		}
		list[j] = at
	}
	return list[sample/2]
}

// partition chooses a pivot among the items at first..last, puts what is better before it and
// what is worse behind it, and returns its position. It goes through the array once, from both
// ends to the pivot.
func (q *quickHeap[V]) partition(first, last int) int {
	chosen := q.choose(first, last)
	pivot := *q.at(chosen)
	q.set(chosen, *q.at(last)) // its place will be filled at the end
	i, j := first, last-1
	for {
		for i <= j && q.less(q.at(i), &pivot) {
			i++
		}
		for i <= j && q.less(&pivot, q.at(j)) {
			j--
		}
		if i >= j {
			break
		}
		item := *q.at(i)
		q.set(i, *q.at(j))
		q.set(j, item)
		i, j = i+1, j-1
	}
	q.set(last, *q.at(i))
	q.set(i, pivot)
	return i
}
