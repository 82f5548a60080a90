package iut

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"urltree/buffer"
	"urltree/storage"
)

// A Source gives a builder its batches. buffer.Buffer has it.
type Source interface {
	// Take waits for items; io.EOF when there are none and never will be.
	Take(ctx context.Context) (*buffer.Batch[*Item], error)
}

// A Builder moves the pages of one buffer into the tree and hands the items to the committer.
// Fed by a crawler's Buffer.Add, feeds Committer.Run.
type Builder struct {
	Tree      *Tree
	Source    Source
	Committer *Committer
	Parse     Parse
	// Stored is told how long each page took on its way into the tree; nil: nobody is.
	Stored func(time.Duration)
}

// Run works until the source ends, which is no error, or ctx does. The first disk error ends it.
func (b *Builder) Run(ctx context.Context) error {
	for {
		batch, err := b.Source.Take(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, item := range batch.Items {
			if item.State != storage.Stored {
				item.free()
				continue
			}
			start := time.Now()
			if err := b.store(item); err != nil {
				return err
			}
			if b.Stored != nil {
				b.Stored(time.Since(start))
			}
		}
		if err := b.Committer.submit(ctx, batch); err != nil {
			return err
		}
	}
}

// store brings one page into the tree, or makes its item say why it could not.
func (b *Builder) store(item *Item) error {
	defer item.free()
	if item.Adopt {
		facts, body, err := b.Tree.Adopt(item.Row.URL)
		if err != nil {
			if errors.Is(err, ErrDisk) {
				return err
			}
			// Torn after all: it is asked for like any other.
			item.Outcome = storage.Outcome{Row: item.Row, State: storage.Pending, Next: item.Row}
			item.Next.Range, item.Next.Due, item.Next.Run = storage.Now, 0, 0
			return nil
		}
		b.adopt(item, facts, body)
		return nil
	}
	page := &Page{Facts: Facts{URL: item.Row.URL, Source: item.Row.Source, Page: item.Outcome.Page}, Body: item.Body, Temp: item.Temp}
	res, err := b.Tree.Store(page)
	switch {
	case errors.Is(err, ErrPage):
		item.State, item.Reason, item.Links = storage.Failed, "tree", nil
		item.Outcome.Page.Digest = [32]byte{}
		return nil
	case err != nil:
		return fmt.Errorf("store %s: %w", item.Row.URL, err)
	}
	if res.Adopted {
		facts, body, err := b.Tree.Adopt(item.Row.URL)
		if err != nil {
			return fmt.Errorf("adopt %s: %w", item.Row.URL, err)
		}
		b.adopt(item, facts, body)
	}
	return nil
}

// adopt makes the item's outcome and links those of the page that the folder holds.
func (b *Builder) adopt(item *Item, facts Facts, body []byte) {
	item.State, item.Reason = storage.Stored, ""
	item.Outcome.Page = facts.Page
	item.Links = b.Parse(facts, body)
}
