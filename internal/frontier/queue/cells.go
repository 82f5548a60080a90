package queue

// Cells is an array of items in which a queue keeps its own, by position. A caller that keeps them
// on disk handles errors itself: no method returns one.
type Cells[V any] interface {
	// Grow makes room for the positions below n. New items are zero.
	Grow(n int)
	// At returns the item at pos, valid until the next call.
	At(pos int) *Item[V]
	// Set replaces the item at pos.
	Set(pos int, v Item[V])
	// Read copies the items from pos on to dst.
	Read(pos int, dst []Item[V])
	// Drop frees the positions from first to behind-1. Their items may become zero.
	Drop(first, behind int)
}

// Memory is Cells in memory. The zero Memory has no positions.
type Memory[V any] struct{ items []Item[V] }

// Grow implements Cells.
func (m *Memory[V]) Grow(n int) {
	if n > len(m.items) {
		m.items = append(m.items, make([]Item[V], n-len(m.items))...)
	}
}

// At implements Cells.
func (m *Memory[V]) At(pos int) *Item[V] { return &m.items[pos] }

// Set implements Cells.
func (m *Memory[V]) Set(pos int, v Item[V]) { m.items[pos] = v }

// Read implements Cells.
func (m *Memory[V]) Read(pos int, dst []Item[V]) { copy(dst, m.items[pos:]) }

// Drop implements Cells. It keeps no value alive.
func (m *Memory[V]) Drop(first, behind int) { clear(m.items[first:behind]) }
