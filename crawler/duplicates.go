package crawler

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"sync"

	"urltree/internal/seen"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// contents knows what is stored in the tree or on its way there, for Options.SkipDuplicates. It
// takes less than 16 bytes outside the heap for each different page.
//
// A content is known from the moment its first page is to be stored, so that of two that come at
// once one is refused. If the tree then cannot take that page (reason "tree"), the others stay
// refused; crawler retry -reason duplicate opens them again.
type contents struct {
	mu  sync.Mutex // held from Lookup to Add
	set *seen.Filter
}

// loadContents finds what is stored already, if duplicates are not to be stored.
func (e *engine) loadContents(ctx context.Context) (err error) {
	if e.opts.SkipDuplicates {
		e.store.contents, err = loadContents(ctx, e.store.index)
	}
	return err
}

func loadContents(ctx context.Context, index *storage.Index) (*contents, error) {
	var key [16]byte
	_, _ = rand.Read(key[:]) // never fails
	set, err := seen.New(key, seen.Options{Memory: math.MaxInt64})
	if err != nil {
		return nil, err
	}
	c := &contents{set: set}
	if err := index.Digests(ctx, func(digest [32]byte) { c.known(digest) }); err != nil {
		return nil, errors.Join(err, set.Close())
	}
	return c, nil
}

// known reports whether a content is known, and makes it so. Empty ones are not asked for: they are
// no duplicates of each other.
func (c *contents) known(digest [32]byte) bool {
	fp := c.set.Fingerprint(string(digest[:]))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.set.Lookup(fp) == seen.Known { // it may have forgotten if the system had no memory left: then we store
		return true
	}
	c.set.Add(fp)
	return false
}

// skips reports whether a page that could be stored is refused as a duplicate.
func (s *stores) skips(page *record.Page) bool {
	return s.contents != nil && page.Bytes > 0 && s.contents.known(page.Digest)
}

// learn adds the contents of what was stored: a page found in its folder has not been asked for.
func (c *contents) learn(set []*iut.Item) {
	for _, it := range set {
		if it.State == record.Stored {
			c.known(it.Outcome.Page.Digest)
		}
	}
}
