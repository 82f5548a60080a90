package queue

// cells is an array of items in which a queue keeps its own, by position: memory or *block.Array.
// Errors of the latter are in Err.
type cells[V any] interface {
	// Grow makes room for the positions below n. New items are zero.
	Grow(n int)
	// At returns the item at pos, valid until the next call.
	At(pos int) *Item[V]
	// Set replaces the item at pos.
	Set(pos int, v Item[V])
	// Read copies the items from pos on to dst.
	Read(pos int, dst []Item[V])
	// Write replaces the items from pos on by src.
	Write(pos int, src []Item[V])
	// Drop frees the positions from first to behind-1. Their items may become zero.
	Drop(first, behind int)
	Err() error
	IO() (reads, writes int64)
}

// memory is cells in memory. The zero memory has no positions.
type memory[V any] struct{ items []Item[V] }

func (m *memory[V]) Grow(n int) {
	if n > len(m.items) {
		m.items = append(m.items, make([]Item[V], n-len(m.items))...)
	}
}

func (m *memory[V]) At(pos int) *Item[V]          { return &m.items[pos] }
func (m *memory[V]) Set(pos int, v Item[V])       { m.items[pos] = v }
func (m *memory[V]) Read(pos int, dst []Item[V])  { copy(dst, m.items[pos:]) }
func (m *memory[V]) Write(pos int, src []Item[V]) { copy(m.items[pos:], src) }
func (m *memory[V]) Drop(first, behind int)       { clear(m.items[first:behind]) } // keeps no value alive
func (m *memory[V]) Err() error                   { return nil }
func (m *memory[V]) IO() (reads, writes int64)    { return 0, 0 }
