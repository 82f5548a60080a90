// Package queue holds priority queues for work done in bulk: insert many, extract the first R.
//
//	kind        in memory                        on disk
//	cbt         Leaf 1: [Tournament] of items    a slot of whole blocks for each leaf
//	            Leaf n: tournament of blocks
//	quickheap   circular array, pivot stack      the same array in blocks
//
// [New] makes one; [Multi] puts several side by side, filled by hash, which work at the same time.
//
// A cbt bounds each operation by O(log N) and keeps several queues equally busy. A quickheap
// costs O(log N) on average over a sequence of operations, touches fewer blocks of a disk, and
// now and then has an expensive extraction.
//
// On disk the file is scratch, see package block: a queue dies with its process. Its first
// read or write error ends it, and every later call returns that error.
package queue

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"

	"urltree/internal/frontier/queue/block"
)

// An Item stands in a queue by its Key, then by its Seq; less is better. Items whose Key and
// Seq agree are interchangeable, so give each a Seq of its own if it matters which goes first.
type Item[V any] struct {
	Value V // first, since a last field without size would be padded
	Key   uint64
	Seq   uint64
}

// Less tells whether a stands before b.
func (a *Item[V]) Less(b *Item[V]) bool {
	return a.Key < b.Key || a.Key == b.Key && a.Seq < b.Seq
}

// Compare is Less in the form that package slices wants.
func Compare[V any](a, b Item[V]) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Seq, b.Seq))
}

// A Queue gives out first what has the least key. It is not safe for use by several goroutines.
type Queue[V any] interface {
	// Len is the number of items inserted and not extracted.
	Len() int
	// Insert adds items; the slice stays the caller's.
	Insert(items ...Item[V]) error
	// Extract takes out the first r items, or all if there are fewer, and appends them to dst.
	// Their order among themselves is not defined.
	Extract(dst []Item[V], r int) ([]Item[V], error)
	// Count gives what the queue has cost so far.
	Count() Count
}

// A Count is the cost of operations.
type Count struct {
	Comparisons   int64 // of two keys
	Reads, Writes int64 // of blocks on disk; 0 in memory
}

// Sub gives the cost since an earlier count.
func (c Count) Sub(earlier Count) Count {
	return Count{c.Comparisons - earlier.Comparisons, c.Reads - earlier.Reads, c.Writes - earlier.Writes}
}

func (c Count) add(o Count) Count {
	return Count{c.Comparisons + o.Comparisons, c.Reads + o.Reads, c.Writes + o.Writes}
}

// The kinds of queues.
const (
	CBT       = "cbt"
	QuickHeap = "quickheap"
)

// ErrOptions says that no queue can be made of these options.
var ErrOptions = errors.New("queue: bad options")

// Options tell how a queue is to be made.
type Options[V any] struct {
	Leaf int    // cbt: items in a leaf; 0: 256, or on disk what a block holds
	Seed uint64 // quickheap: of the random choice of pivots

	File   block.File     // nil: in memory
	Value  block.Codec[V] // of the values on disk; zero: they are not kept
	Block  int            // bytes of a block on disk; 0: 4096
	Memory int64          // bytes of blocks kept in memory, at least four blocks; 0: 1 MiB
}

// New makes an empty queue of kind CBT or QuickHeap. It never gives memory or room in the file
// back, but uses it again. The error wraps ErrOptions.
func New[V any](kind string, o Options[V]) (Queue[V], error) {
	if kind != CBT && kind != QuickHeap {
		return nil, fmt.Errorf("%w: unknown kind %q, want %s or %s", ErrOptions, kind, CBT, QuickHeap)
	}
	if o.Leaf < 0 || o.Block < 0 || o.Memory < 0 || o.Value.Size < 0 || o.Value.Size > 0 && (o.Value.Put == nil || o.Value.Get == nil) {
		return nil, fmt.Errorf("%w: a negative number, or a size without functions", ErrOptions)
	}
	if kind == CBT && o.Leaf == 1 && o.File == nil {
		return new(Tournament[V]), nil
	}
	var store cells[V] = new(memory[V])
	leaf, per := cmp.Or(o.Leaf, 256), 1
	if o.File != nil {
		a := block.New(o.File, ItemCodec(o.Value), cmp.Or(o.Block, 4096), cmp.Or(o.Memory, 1<<20))
		store, per = a, a.PerBlock()
		leaf = cmp.Or(o.Leaf, per)
	}
	if kind == QuickHeap {
		return newQuickHeap(store, o.Seed), nil
	}
	return newCBT(store, leaf, (leaf+per-1)/per*per), nil
}

// ItemCodec writes an item as key, sequence number and value.
func ItemCodec[V any](value block.Codec[V]) block.Codec[Item[V]] {
	return block.Codec[Item[V]]{
		Size: 16 + value.Size,
		Put: func(b []byte, v *Item[V]) {
			binary.LittleEndian.PutUint64(b, v.Key)
			binary.LittleEndian.PutUint64(b[8:], v.Seq)
			if value.Size > 0 {
				value.Put(b[16:], &v.Value)
			}
		},
		Get: func(b []byte, v *Item[V]) {
			v.Key = binary.LittleEndian.Uint64(b)
			v.Seq = binary.LittleEndian.Uint64(b[8:])
			if value.Size > 0 {
				value.Get(b[16:], &v.Value)
			}
		},
	}
}
