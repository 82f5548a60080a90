// Package top keeps the greatest of many elements, in memory for those alone.
package top

import "slices"

// A List keeps the N greatest elements that it was given. The zero value with N and Compare set is
// ready; it is not for several goroutines at a time.
type List[T any] struct {
	N       int
	Compare func(a, b T) int // below 0: a comes before b

	items []T
	more  int64
}

// Add adds an element to the list. Among equal ones, those that came first stay first.
func (l *List[T]) Add(x T) {
	if len(l.items) == l.N {
		l.more++
		if l.N == 0 || l.Compare(l.items[l.N-1], x) <= 0 { // as of most elements
			return
		}
		l.items = l.items[:l.N-1]
	}
	at, _ := slices.BinarySearchFunc(l.items, x, func(have, x T) int {
		if l.Compare(have, x) <= 0 {
			return -1
		}
		return 1
	})
	l.items = slices.Insert(l.items, at, x)
}

// Items returns the elements, those that come first first.
func (l *List[T]) Items() []T { return l.items }

// More returns the number of elements that Items leaves out.
func (l *List[T]) More() int64 { return l.more }
