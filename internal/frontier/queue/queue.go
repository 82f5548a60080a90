// Package queue holds priority queues in memory.
//
// A [Tournament] bounds each operation by O(log N). A quickheap costs that on average over a
// sequence of operations, and now and then has an expensive first look. [New] makes either, or
// several side by side.
package queue

import (
	"errors"
	"fmt"
)

// An Item stands in a queue by its Key, then by its Seq; less is better. Items whose Key and
// Seq agree are interchangeable, so give each a Seq of its own if it matters which goes first.
type Item[V any] struct {
	Value V // first, since a last field without size would be padded
	Key   uint64
	Seq   uint64
}

// Less reports whether a stands before b.
func (a *Item[V]) Less(b *Item[V]) bool {
	return a.Key < b.Key || a.Key == b.Key && a.Seq < b.Seq
}

// A Queue returns first what has the least key. It is not safe for use by several goroutines.
type Queue[V any] interface {
	// Len returns the number of items inserted and not popped.
	Len() int
	Insert(item Item[V])
	// First returns the best item; ok reports whether there is one.
	First() (item Item[V], ok bool)
	// Pop removes and returns the best item of a queue that has one.
	Pop() Item[V]
}

// The kinds of queues.
const (
	CBT       = "cbt"
	QuickHeap = "quickheap"
)

// ErrKind is the error of an unknown kind.
var ErrKind = errors.New("queue: unknown kind")

// New returns an empty queue of kind CBT, which is a [Tournament], or QuickHeap; if n is more than
// 1, one that shares its items among n of them. The error wraps ErrKind.
func New[V any](kind string, n int) (Queue[V], error) {
	if n > 1 {
		list := make(several[V], n)
		for i := range list {
			var err error
			if list[i], err = New[V](kind, 1); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	switch kind {
	case CBT:
		return new(Tournament[V]), nil
	case QuickHeap:
		return new(quickHeap[V]), nil
	}
	return nil, fmt.Errorf("%w %q, want %s or %s", ErrKind, kind, CBT, QuickHeap)
}

// several queues share the items by a hash of their Seq.
type several[V any] []Queue[V]

// mix spreads numbers that follow one another over all values.
func mix(x uint64) uint64 {
	for range 2 {
		x ^= x >> 32
		x *= 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio, odd
	}
	return x ^ x>>32
}

func (s several[V]) Len() (n int) {
	for _, q := range s {
		n += q.Len()
	}
	return n
}

func (s several[V]) Insert(item Item[V]) { s[mix(item.Seq)%uint64(len(s))].Insert(item) }

// best returns the queue that has the best item, and that item; ok is false if all are empty.
func (s several[V]) best() (best Queue[V], first Item[V], ok bool) {
	for _, q := range s {
		if item, has := q.First(); has && (!ok || item.Less(&first)) {
			best, first, ok = q, item, true
		}
	}
	return best, first, ok
}

func (s several[V]) First() (item Item[V], ok bool) {
	_, item, ok = s.best()
	return item, ok
}

func (s several[V]) Pop() Item[V] {
	q, _, _ := s.best()
	return q.Pop()
}
