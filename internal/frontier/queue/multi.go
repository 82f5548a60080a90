package queue

// A Multi is a Queue of several, which share the items by a hash of their Seq.
//
// Extract takes the first item of one queue after the other: not the first r of all, but about
// these, since the hash spreads them evenly. The first of all is among them if r is at least the
// number of queues.
type Multi[V any] struct {
	queues []Queue[V]
	turn   int // the queue that gives the next item
}

// NewMulti puts at least one queue side by side; they must be empty and are the Multi's from now
// on.
func NewMulti[V any](queues []Queue[V]) *Multi[V] { return &Multi[V]{queues: queues} }

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
	for i := range items {
		m.queues[mix(items[i].Seq)%uint64(len(m.queues))].Insert(items[i : i+1]...)
	}
}

// Extract removes r items, or all if there are fewer, in equal parts from the queues, and appends
// them to dst. Where one queue has too few, more are taken from the others.
func (m *Multi[V]) Extract(dst []Item[V], r int) []Item[V] {
	for r = min(r, m.Len()); r > 0; m.turn = (m.turn + 1) % len(m.queues) {
		if q := m.queues[m.turn]; q.Len() > 0 {
			dst = q.Extract(dst, 1)
			r--
		}
	}
	return dst
}
