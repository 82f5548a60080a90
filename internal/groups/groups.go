// Package groups goes through several walks at a time, which are in one order of keys, such as the
// same bucket of several indexes: key by key, with the entries that any of them has of it.
package groups

import (
	"bytes"
	"errors"
	"iter"
	"slices"
)

// A Walk calls each with entries in the order of their keys, and ends with its error.
type Walk[T any] func(each func(key []byte, value T) error) error

// An Item is an entry of one of several walks.
type Item[T any] struct {
	Part  int // the number of its walk
	Key   []byte
	Value T
}

// Groups hold one entry of each walk.
type Groups[T any] struct {
	heads []head[T]
	list  []Item[T]
}

// A head is where a walk is.
type head[T any] struct {
	Item[T]
	left bool // Item is the next one of the walk
	next func() (Item[T], error, bool)
	stop func()
}

var errStopped = errors.New("stopped")

// Of begins the walks. What it returns is to be closed.
func Of[T any](walks []Walk[T]) (*Groups[T], error) {
	g := &Groups[T]{}
	for part, each := range walks {
		next, stop := iter.Pull2(func(yield func(Item[T], error) bool) {
			err := each(func(key []byte, value T) error {
				if !yield(Item[T]{part, key, value}, nil) {
					return errStopped
				}
				return nil
			})
			if err != nil && !errors.Is(err, errStopped) {
				yield(Item[T]{}, err)
			}
		})
		g.heads = append(g.heads, head[T]{next: next, stop: stop})
		if err := g.heads[part].step(); err != nil {
			g.Close()
			return nil, err
		}
	}
	return g, nil
}

func (h *head[T]) step() (err error) {
	h.Item, err, h.left = h.next()
	return err
}

// Close ends the walks.
func (g *Groups[T]) Close() {
	for _, h := range g.heads {
		h.stop()
	}
}

// Next returns the entries of the next key, in the order of their walks; none: there are no others.
// They are valid until the next call.
func (g *Groups[T]) Next() ([]Item[T], error) {
	var least []byte
	for i := range g.heads {
		if h := &g.heads[i]; h.left && (least == nil || bytes.Compare(h.Key, least) < 0) {
			least = h.Key
		}
	}
	g.list = g.list[:0]
	for i := range g.heads {
		h := &g.heads[i]
		if !h.left || !bytes.Equal(h.Key, least) {
			continue
		}
		g.list = append(g.list, h.Item)
		if err := h.step(); err != nil {
			return nil, err
		}
	}
	return slices.Clip(g.list), nil
}
