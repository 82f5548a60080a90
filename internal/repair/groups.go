package repair

import (
	"bytes"
	"errors"
	"iter"
	"slices"
)

// A walk calls each with entries in the order of their keys, and ends with its error.
type walk[T any] func(each func(key []byte, value T) error) error

// An item is an entry of one of several walks.
type item[T any] struct {
	part  int // the number of its walk
	key   []byte
	value T
}

// groups go through several walks at a time, which are in one order. They hold one entry of each.
type groups[T any] struct {
	heads []head[T]
	list  []item[T]
}

// A head is where a walk is.
type head[T any] struct {
	item[T]
	left bool // item is the next one of the walk
	next func() (item[T], error, bool)
	stop func()
}

var errStopped = errors.New("stopped")

// groupsOf begins the walks. What it returns is to be closed.
func groupsOf[T any](walks []walk[T]) (*groups[T], error) {
	g := &groups[T]{}
	for part, each := range walks {
		next, stop := iter.Pull2(func(yield func(item[T], error) bool) {
			err := each(func(key []byte, value T) error {
				if !yield(item[T]{part, key, value}, nil) {
					return errStopped
				}
				return nil
			})
			if err != nil && !errors.Is(err, errStopped) {
				yield(item[T]{}, err)
			}
		})
		g.heads = append(g.heads, head[T]{next: next, stop: stop})
		if err := g.heads[part].step(); err != nil {
			g.close()
			return nil, err
		}
	}
	return g, nil
}

func (h *head[T]) step() (err error) {
	h.item, err, h.left = h.next()
	return err
}

func (g *groups[T]) close() {
	for _, h := range g.heads {
		h.stop()
	}
}

// next returns the entries of the next key, in the order of their walks; none: there are no others.
// They are valid until the next call.
func (g *groups[T]) next() ([]item[T], error) {
	var least []byte
	for i := range g.heads {
		if h := &g.heads[i]; h.left && (least == nil || bytes.Compare(h.key, least) < 0) {
			least = h.key
		}
	}
	g.list = g.list[:0]
	for i := range g.heads {
		h := &g.heads[i]
		if !h.left || !bytes.Equal(h.key, least) {
			continue
		}
		g.list = append(g.list, h.item)
		if err := h.step(); err != nil {
			return nil, err
		}
	}
	return slices.Clip(g.list), nil
}
