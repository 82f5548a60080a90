// Package queue holds the priority queues of the experiments, for work done in bulk: insert many,
// extract the first R.
//
//	kind        in memory              on disk
//	cbt         tournament of blocks   a slot of whole blocks for each leaf
//	quickheap   array                  the same array in blocks
//
// The crawler has both, but takes one item at a time: its tournament has one item a leaf and its
// bracket is the one here, its quickheap puts one item in at a time.
//
// A cbt of blocks bounds each operation by O(log N) and keeps several queues equally busy. A
// quickheap touches fewer blocks of a disk.
//
// On disk the file is scratch, see package block: a queue dies with its process. Its first read or
// write error stays in Err, and from then on its items mean nothing.
package queue

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"

	"urltree/internal/frontier/queue"
	"urltree/tools/lab/queue/block"
)

// An Item is one of the crawler's queues.
type Item[V any] = queue.Item[V]

// Compare compares items, for the functions of package slices.
func Compare[V any](a, b Item[V]) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Seq, b.Seq))
}

// The kinds of queues.
const (
	CBT       = queue.CBT
	QuickHeap = queue.QuickHeap
)

// A Queue returns first what has the least key. It is not safe for use by several goroutines.
type Queue[V any] interface {
	counting[V]
	// Count returns what the queue has cost so far.
	Count() Count
	// Err returns the first error of the file, or nil.
	Err() error
}

// counting is a queue that counts comparisons.
type counting[V any] interface {
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

// A Count is the cost of operations.
type Count struct {
	Comparisons   int64 // of two keys
	Reads, Writes int64 // of blocks on disk; 0 in memory
}

// Sub returns the cost since an earlier count.
func (c Count) Sub(earlier Count) Count {
	return Count{c.Comparisons - earlier.Comparisons, c.Reads - earlier.Reads, c.Writes - earlier.Writes}
}

// ErrOptions is the error of options that no queue can be made of.
var ErrOptions = errors.New("queue: bad options")

// Options describe a queue.
type Options[V any] struct {
	Leaf int    // cbt: items in a leaf; 0: 256, or on disk what a block holds
	Seed uint64 // quickheap: of the random choice of pivots

	File   block.File     // nil: in memory
	Value  block.Codec[V] // of the values on disk; zero: they are not kept
	Block  int            // bytes of a block on disk; 0: 4096
	Memory int64          // bytes of blocks kept in memory, at least four blocks; 0: 1 MiB
}

// New returns an empty queue of kind CBT or QuickHeap. It never frees memory or room in the file,
// but uses it again. The error wraps ErrOptions.
func New[V any](kind string, o Options[V]) (Queue[V], error) {
	if kind != CBT && kind != QuickHeap {
		return nil, fmt.Errorf("%w: unknown kind %q, want %s or %s", ErrOptions, kind, CBT, QuickHeap)
	}
	if o.Leaf < 0 || o.Block < 0 || o.Memory < 0 || o.Value.Size < 0 || o.Value.Size > 0 && (o.Value.Put == nil || o.Value.Get == nil) {
		return nil, fmt.Errorf("%w: a negative number, or a size without functions", ErrOptions)
	}
	var store cells[V] = new(memory[V])
	leaf, per := cmp.Or(o.Leaf, 256), 1
	if o.File != nil {
		a := block.New(o.File, ItemCodec(o.Value), cmp.Or(o.Block, 4096), cmp.Or(o.Memory, 1<<20))
		store, per = a, a.PerBlock()
		leaf = cmp.Or(o.Leaf, per)
	}
	if kind == QuickHeap {
		return counted[V]{newQuickHeap(store, o.Seed), store}, nil
	}
	return counted[V]{newCBT(store, leaf, (leaf+per-1)/per*per), store}, nil
}

// counted is a queue with the cells that it keeps its items in.
type counted[V any] struct {
	counting[V]
	cells cells[V]
}

func (q counted[V]) Err() error { return q.cells.Err() }

func (q counted[V]) Count() Count {
	c := Count{Comparisons: q.Comparisons()}
	c.Reads, c.Writes = q.cells.IO()
	return c
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
