// Package queue holds priority queues in memory for work done in bulk: insert many, extract the
// first R.
//
// A [Tournament] bounds each operation by O(log N). A quickheap costs O(log N) on average over a
// sequence of operations, and now and then has an expensive extraction. [New] makes either;
// [Multi] puts several side by side, filled by hash.
package queue

import (
	"cmp"
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

// Compare compares like Less, for the functions of package slices.
func Compare[V any](a, b Item[V]) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Seq, b.Seq))
}

// A Queue returns first what has the least key. It is not safe for use by several goroutines.
type Queue[V any] interface {
	// Len returns the number of items inserted and not extracted.
	Len() int
	// Insert adds items; the slice stays the caller's.
	Insert(items ...Item[V])
	// Extract removes the first r items, or all if there are fewer, and appends them to dst.
	// Their order among themselves is not defined.
	Extract(dst []Item[V], r int) []Item[V]
	// Comparisons returns how many pairs of keys were compared so far.
	Comparisons() int64
}

// The kinds of queues.
const (
	CBT       = "cbt"
	QuickHeap = "quickheap"
)

// ErrKind is the error of an unknown kind.
var ErrKind = errors.New("queue: unknown kind")

// New returns an empty queue of kind CBT, which is a [Tournament], or QuickHeap. A queue never
// frees memory, but uses it again. The error wraps ErrKind.
func New[V any](kind string) (Queue[V], error) {
	switch kind {
	case CBT:
		return new(Tournament[V]), nil
	case QuickHeap:
		return NewQuickHeap(new(Memory[V]), 0), nil
	}
	return nil, fmt.Errorf("%w %q, want %s or %s", ErrKind, kind, CBT, QuickHeap)
}
