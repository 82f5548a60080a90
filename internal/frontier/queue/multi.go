package queue

import (
	"slices"
	"sync"
)

// parallelFrom is the number of items for each queue from which a goroutine pays.
const parallelFrom = 256

// A Multi is a Queue of several, which share the items by hash and work at the same time.
//
// Extract takes the first of each queue in equal parts: not the first r of all, but about these,
// since a good hash spreads them evenly. The first of all is among them if r is at least the
// number of queues; with fewer the queues have their turn one after the other.
type Multi[V any] struct {
	queues []Queue[V]
	hash   func(*Item[V]) uint64
	turn   int // the queue that is first to give one item more than others
	parts  [][]Item[V]
	shares []int
}

// NewMulti puts at least one queue side by side; they must be empty and are the Multi's from now
// on. A nil hash is one of Seq.
func NewMulti[V any](queues []Queue[V], hash func(*Item[V]) uint64) *Multi[V] {
	if hash == nil {
		hash = func(item *Item[V]) uint64 { return mix(item.Seq) }
	}
	return &Multi[V]{
		queues: queues, hash: hash,
		parts: make([][]Item[V], len(queues)), shares: make([]int, len(queues)),
	}
}

// mix spreads numbers that follow one another over all values.
func mix(x uint64) uint64 {
	for range 2 {
		x ^= x >> 32
		x *= 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio, odd
	}
	return x ^ x>>32
}

// Len returns the number of items in all queues.
func (m *Multi[V]) Len() int {
	n := 0
	for _, q := range m.queues {
		n += q.Len()
	}
	return n
}

// Comparisons returns the number of comparisons in all queues.
func (m *Multi[V]) Comparisons() (n int64) {
	for _, q := range m.queues {
		n += q.Comparisons()
	}
	return n
}

// Insert adds each item to the queue that its hash selects.
func (m *Multi[V]) Insert(items ...Item[V]) {
	for i := range m.parts {
		m.parts[i] = m.parts[i][:0]
	}
	for i := range items {
		k := m.hash(&items[i]) % uint64(len(m.queues))
		m.parts[k] = append(m.parts[k], items[i])
	}
	m.each(len(items), func(i int) { m.queues[i].Insert(m.parts[i]...) })
	m.forget()
}

// Extract removes r items, or all if there are fewer, in equal parts from the queues, and appends
// them to dst. Where one queue has too few, more are taken from the others.
func (m *Multi[V]) Extract(dst []Item[V], r int) []Item[V] {
	r = min(r, m.Len())
	if r <= 0 {
		return dst
	}
	clear(m.shares)
	for left := r; left > 0; {
		part := max(left/len(m.queues), 1)
		for i := range m.queues {
			k := (m.turn + i) % len(m.queues)
			n := min(part, left, m.queues[k].Len()-m.shares[k])
			m.shares[k] += n
			left -= n
		}
	}
	m.turn = (m.turn + r) % len(m.queues)
	m.each(r, func(i int) { m.parts[i] = m.queues[i].Extract(m.parts[i][:0], m.shares[i]) })
	dst = slices.Grow(dst, r)
	for _, part := range m.parts {
		dst = append(dst, part...)
	}
	m.forget()
	return dst
}

// each calls f for each queue, at the same time if there are enough items to work on.
func (m *Multi[V]) each(items int, f func(i int)) {
	if len(m.queues) == 1 || items < parallelFrom*len(m.queues) {
		for i := range m.queues {
			f(i)
		}
		return
	}
	var wg sync.WaitGroup
	for i := range m.queues {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// forget keeps no value alive that is in no queue any more.
func (m *Multi[V]) forget() {
	for _, part := range m.parts {
		clear(part)
	}
}
