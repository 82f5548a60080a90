package queue

// cells is where a queue keeps its items, by position: memory or *block.Array. At gives an item
// to look at until the next call. Drop makes positions free, and their items may become zero.
// Errors stay in Err.
type cells[V any] interface {
	Grow(n int)
	At(pos int) *Item[V]
	Set(pos int, v Item[V])
	Read(pos int, dst []Item[V])
	Write(pos int, src []Item[V])
	Drop(first, behind int)
	Err() error
	IO() (reads, writes int64)
}

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
func (m *memory[V]) Drop(first, behind int)       { clear(m.items[first:behind]) } // keep no value alive
func (m *memory[V]) Err() error                   { return nil }
func (m *memory[V]) IO() (reads, writes int64)    { return 0, 0 }
