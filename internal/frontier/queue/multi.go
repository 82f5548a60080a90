package queue

import (
	"errors"
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
	errs   []error
}

// NewMulti puts at least one queue side by side; they must be empty and are the Multi's from now
// on. A nil hash is one of Seq.
func NewMulti[V any](queues []Queue[V], hash func(*Item[V]) uint64) *Multi[V] {
	if hash == nil {
		hash = func(item *Item[V]) uint64 { return mix(item.Seq) }
	}
	return &Multi[V]{
		queues: queues, hash: hash,
		parts: make([][]Item[V], len(queues)), shares: make([]int, len(queues)), errs: make([]error, len(queues)),
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

// Len is the number of items in all queues.
func (m *Multi[V]) Len() int {
	n := 0
	for _, q := range m.queues {
		n += q.Len()
	}
	return n
}

// Count is the cost of all queues together.
func (m *Multi[V]) Count() Count {
	var c Count
	for _, q := range m.queues {
		c = c.add(q.Count())
	}
	return c
}

// Insert gives each item to the queue that its hash tells.
func (m *Multi[V]) Insert(items ...Item[V]) error {
	for i := range m.parts {
		m.parts[i] = m.parts[i][:0]
	}
	for i := range items {
		k := m.hash(&items[i]) % uint64(len(m.queues))
		m.parts[k] = append(m.parts[k], items[i])
	}
	err := m.each(len(items), func(i int) error { return m.queues[i].Insert(m.parts[i]...) })
	m.forget()
	return err
}

// Extract takes r items, or all if there are fewer, in equal parts from the queues; where one
// has too few, the others give more. After an error it still appends what it got.
func (m *Multi[V]) Extract(dst []Item[V], r int) ([]Item[V], error) {
	r = min(r, m.Len())
	if r <= 0 {
		return dst, nil
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
	err := m.each(r, func(i int) (err error) {
		m.parts[i], err = m.queues[i].Extract(m.parts[i][:0], m.shares[i])
		return err
	})
	dst = slices.Grow(dst, r)
	for _, part := range m.parts {
		dst = append(dst, part...)
	}
	m.forget()
	return dst, err
}

// each calls f for each queue, at the same time if there are enough items to work on.
func (m *Multi[V]) each(items int, f func(i int) error) error {
	if len(m.queues) == 1 || items < parallelFrom*len(m.queues) {
		for i := range m.queues {
			m.errs[i] = f(i)
		}
		return errors.Join(m.errs...)
	}
	var wg sync.WaitGroup
	for i := range m.queues {
		wg.Go(func() { m.errs[i] = f(i) })
	}
	wg.Wait()
	return errors.Join(m.errs...)
}

// forget keeps no value alive that is in no queue any more.
func (m *Multi[V]) forget() {
	for _, part := range m.parts {
		clear(part)
	}
}
