package iut

import (
	"context"
	"fmt"
	"sync"
	"time"

	"urltree/buffer"
	"urltree/internal/edges"
	"urltree/storage"
	"urltree/storage/record"
)

// An Index takes a set of outcomes in one transaction, and keeps no hold of the slice.
// *storage.Index has it.
type Index interface {
	Commit(set []*record.Outcome) (storage.Committed, error)
}

// A Committer is the one place where outcomes become durable. It serves all builders.
//
// The order of the durable steps is fixed: the builders have written the files; the set is
// closed; the tree is synced; one transaction commits exactly this set, or several do if it has
// very many links, no item before its links; only then are its new URLs let into the frontier and,
// at the end, permits given back. What is handed in during the sync waits for the next set: its
// files may not be covered by this one.
type Committer struct {
	Tree  *Tree
	Index Index
	// After is called with what a transaction has made durable, before the permits go back. The slice
	// is the committer's again when it returns.
	After func(set []*Item, c storage.Committed)
	// Committed is called with the items of a transaction, how long it took, and their share of the
	// time of the sync.
	Committed func(items int, sync, commit time.Duration)
	// Edges takes the edges of stored pages, before the sync; nil: they are not kept.
	Edges *edges.Writer

	in chan *buffer.Batch[*Item]
	// listed are the files in tmp/ with new versions whose folders may not be durable, see announce.
	listed []string

	// adopting is held by a builder that makes an item of what a folder holds: of all builders only
	// one has such a body, and what it is parsed to, in memory.
	adopting sync.Mutex
}

// NewCommitter makes a committer for the given number of builders.
func NewCommitter(tree *Tree, index Index, builders int) *Committer {
	if s, ok := tree.pages.(*segments); ok {
		s.tracks = true
	}
	return &Committer{Tree: tree, Index: index, in: make(chan *buffer.Batch[*Item], builders)}
}

// Close ends the input of the committer. It is called once, when all builders have returned.
func (c *Committer) Close() { close(c.in) }

// Run commits until Close, then what is left; or until ctx ends, whose cause it returns. After a
// disk error, which is [ErrDisk], nothing more is committed: a failed sync is never tried again as
// if nothing had happened.
//
// It is called once, on one goroutine, which calls the functions in the fields; these are set
// before.
func (c *Committer) Run(ctx context.Context) error {
	var (
		batches []*buffer.Batch[*Item]
		items   []*Item
		set     []*record.Outcome
	)
	for {
		batches, items, set = batches[:0], items[:0], set[:0]
		select {
		case b, ok := <-c.in:
			if !ok {
				return c.end()
			}
			batches = append(batches, b)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		links := linksOf(batches[0])
	closing:
		for links < setLinks {
			select {
			case b, ok := <-c.in:
				if !ok {
					break closing // the next round ends
				}
				batches, links = append(batches, b), links+linksOf(b)
			default:
				break closing
			}
		}
		for _, b := range batches {
			for _, it := range b.Items {
				items = append(items, it)
				set = append(set, &it.Outcome)
			}
		}
		start := time.Now()
		if err := c.sync(items, set); err != nil {
			return err
		}
		synced := time.Now()
		for from := 0; from < len(set); {
			to, begin := part(set, from), time.Now()
			if to == from+1 {
				if err := c.commitAhead(set[from]); err != nil {
					return err
				}
			}
			set[from].Open = c.Tree.committed(set[from:to])
			done, err := c.commit(set[from:to])
			if err != nil {
				return err
			}
			if err := c.install(items[from:to]); err != nil {
				return err
			}
			if c.Committed != nil {
				c.Committed(to-from, synced.Sub(start)*time.Duration(to-from)/time.Duration(len(set)), time.Since(begin))
			}
			if c.After != nil {
				c.After(items[from:to], done)
			}
			from = to
		}
		for _, b := range batches {
			b.Done()
		}
	}
}

// sync makes the files of a set durable, with what stands beside them.
func (c *Committer) sync(items []*Item, set []*record.Outcome) error {
	if err := c.writeEdges(items, set); err != nil {
		return err
	}
	listed := len(c.listed)
	if err := c.announce(items); err != nil {
		return err
	}
	if err := c.Tree.Sync(); err != nil {
		return fmt.Errorf("sync the tree: %w", err)
	}
	return c.settled(listed)
}

// setLinks is how many links make a set large enough.
const setLinks = 100_000

// part returns where the part of a set ends that begins at from: before the item with which its
// links would be too many for one transaction. An item that has too many by itself is a part.
func part(set []*record.Outcome, from int) (to int) {
	weight := 0
	for to = from; to < len(set); to++ {
		weight += set[to].Weight()
		if weight > record.MostWeight && to > from {
			break
		}
	}
	return to
}

// commitAhead commits links of an outcome that has too many for one transaction, before it, until
// it has not.
func (c *Committer) commitAhead(o *record.Outcome) error {
	for ahead := o.TakeAhead(); ahead != nil; ahead = o.TakeAhead() {
		done, err := c.commit([]*record.Outcome{ahead})
		if err != nil {
			return err
		}
		if c.After != nil {
			c.After(nil, done)
		}
	}
	return nil
}

// commit writes one transaction.
func (c *Committer) commit(set []*record.Outcome) (storage.Committed, error) {
	done, err := c.Index.Commit(set)
	if err != nil {
		return done, fmt.Errorf("%w: %w", ErrDisk, err)
	}
	return done, nil
}

func linksOf(b *buffer.Batch[*Item]) int {
	n := 0
	for _, it := range b.Items {
		n += len(it.Links)
	}
	return n
}
