package iut

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"urltree/buffer"
	"urltree/storage/record"
)

// A Source is where a builder gets its batches. It is implemented by buffer.Buffer.
type Source interface {
	// Take waits for items, and calls write with each of them before it gives them out; io.EOF when
	// there are none and never will be.
	Take(ctx context.Context, write func([]*Item) error) (*buffer.Batch[*Item], error)
	// Close lets nobody add any more; Take then gives out the rest without waiting.
	Close()
}

// A Builder moves the pages of one buffer into the tree, as they come, and hands the items to the
// committer, in batches: each once all of its files are written. Fed by a crawler's Buffer.Add,
// feeds Committer.Run.
type Builder struct {
	Tree      *Tree
	Source    Source
	Committer *Committer
	Parse     Parse
	// Stored, if not nil, is called with the time that each page took on its way into the tree, by
	// Run.
	Stored func(time.Duration)
}

// Run works until the source ends, which is no error, or ctx does. The first disk error ends it and
// is returned, as [ErrDisk]. After an error the source is closed and empty, so that nobody waits
// for a builder that is gone. However Run ends, every item that it or the source had has been
// freed.
//
// It is called once for a Builder, whose fields do not change meanwhile. Builders run at the same
// time, each with a source of its own; they share the tree and the committer, which goes on until
// all of them have returned.
func (b *Builder) Run(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			b.abandon()
		}
	}()
	for {
		batch, err := b.Source.Take(ctx, b.write)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case b.Committer.in <- batch:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// write brings the pages among the items into the tree, those of one folder one after the other,
// for that is opened once then, and lets go of all bodies.
func (b *Builder) write(items []*Item) error {
	byURL := slices.Clone(items)
	slices.SortFunc(byURL, func(a, b *Item) int { return strings.Compare(a.Row.URL, b.Row.URL) })
	for i, item := range byURL {
		if item.State != record.Stored && item.Answer == nil || item.Same {
			item.free()
			continue
		}
		start := time.Now()
		if err := b.store(item); err != nil {
			freeAll(byURL[i:])
			return err
		}
		if b.Stored != nil {
			b.Stored(time.Since(start))
		}
	}
	return nil
}

// abandon lets go of what the source still has: of what is written, write has. What is not
// committed stays pending.
func (b *Builder) abandon() {
	b.Source.Close()
	letGo := func(items []*Item) error { freeAll(items); return nil }
	for {
		if _, err := b.Source.Take(context.Background(), letGo); err != nil {
			return
		}
	}
}

// store brings one page into the tree, or makes its item say why it could not.
func (b *Builder) store(item *Item) error {
	defer item.free()
	if item.Adopt {
		err := b.adopt(item)
		if err == nil || errors.Is(err, ErrDisk) {
			return err
		}
		// Torn after all: it is asked for like any other.
		item.Outcome = record.Outcome{Row: item.Row, State: record.Pending, Next: item.Row}
		item.Next.Range, item.Next.Due, item.Next.Run = record.Now, 0, 0
		return nil
	}
	page := &Page{
		Facts: item.facts(),
		Via:   item.Row.Via, Body: item.Body, Temp: item.Temp, Answer: item.Answer,
	}
	if item.State != record.Stored {
		at, err := b.Tree.KeepAnswer(page)
		if item.State == record.Redirected {
			item.Outcome.Page.Extent = at
		}
		return err
	}
	put := b.Tree.Store
	if item.revises() {
		put = b.Tree.Revise
	}
	res, err := put(page)
	switch {
	case errors.Is(err, ErrPage):
		// The answer's links count all the same.
		item.State, item.Reason = record.Failed, "tree"
		item.Outcome.Page.Digest = [32]byte{}
		return b.dropTemp(item)
	case err != nil:
		return fmt.Errorf("store %s: %w", item.Row.URL, err)
	}
	item.Outcome.Kept = res.Kept
	if res.Adopted {
		if err := b.adopt(item); err != nil {
			return fmt.Errorf("adopt %s: %w", item.Row.URL, err)
		}
		return nil
	}
	item.Outcome.Page = res.Facts.Page // cleaned: the index says what source.txt says
	return nil
}

// dropTemp removes the body of a page that the tree did not take, unless it got as far as the
// folder.
func (b *Builder) dropTemp(item *Item) error {
	if item.Temp == "" {
		return nil
	}
	if err := b.Tree.fs.Remove(item.Temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return DiskError("drop body", err)
	}
	return nil
}

// adopt makes the item's outcome, links and metadata those of the page that the folder holds. A
// URL that has become a seed since keeps the source that its folder names.
func (b *Builder) adopt(item *Item) error {
	b.Committer.adopting.Lock()
	defer b.Committer.adopting.Unlock()
	facts, body, err := b.Tree.Adopt(Facts{URL: item.Row.URL})
	if err != nil {
		return err
	}
	item.State, item.Reason = record.Stored, ""
	item.ETag, item.Modified = "", "" // which are of another answer
	item.Row.Source = facts.Source
	item.Outcome.Page = facts.Page
	parsed := b.Parse(facts, body)
	item.Links, item.Meta, item.Edges = parsed.Links, parsed.Meta, parsed.Edges
	return nil
}
