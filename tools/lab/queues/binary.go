package queues

import (
	"container/heap"

	"urltree/tools/lab/queue"
)

// store is where a binary heap keeps its items: ram or *block.Array.
type store interface {
	Grow(n int)
	At(pos int) *item
	Set(pos int, v item)
	Err() error
	IO() (reads, writes int64)
}

type ram []item

func (m *ram) Grow(n int)                { *m = append(*m, make([]item, n-len(*m))...) }
func (m *ram) At(pos int) *item          { return &(*m)[pos] }
func (m *ram) Set(pos int, v item)       { (*m)[pos] = v }
func (m *ram) Err() error                { return nil }
func (m *ram) IO() (reads, writes int64) { return 0, 0 }

// A binaryHeap is a queue by container/heap: the source's BHeap. It works item by item.
type binaryHeap struct {
	heapOrder
}

// heapOrder is what container/heap needs.
type heapOrder struct {
	store store
	n     int
	count queue.Count
}

// newBinaryHeap makes an empty heap with room for n items.
func newBinaryHeap(s store, n int) *binaryHeap {
	s.Grow(n)
	return &binaryHeap{heapOrder{store: s}}
}

func (h *heapOrder) Len() int { return h.n }

func (h *heapOrder) Less(i, j int) bool {
	h.count.Comparisons++
	a := *h.store.At(i)
	return a.Less(h.store.At(j))
}

func (h *heapOrder) Swap(i, j int) {
	a := *h.store.At(i)
	h.store.Set(i, *h.store.At(j))
	h.store.Set(j, a)
}

func (h *heapOrder) Push(x any) {
	h.store.Set(h.n, x.(item))
	h.n++
}

func (h *heapOrder) Pop() any {
	h.n--
	return *h.store.At(h.n)
}

func (h *binaryHeap) Insert(items ...item) {
	for _, x := range items {
		heap.Push(&h.heapOrder, x)
	}
}

func (h *binaryHeap) Extract(dst []item, r int) []item {
	for ; r > 0 && h.n > 0; r-- {
		dst = append(dst, heap.Pop(&h.heapOrder).(item))
	}
	return dst
}

func (h *binaryHeap) Comparisons() int64 { return h.count.Comparisons }

func (h *binaryHeap) Err() error { return h.store.Err() }

func (h *binaryHeap) Count() queue.Count {
	h.count.Reads, h.count.Writes = h.store.IO()
	return h.count
}
