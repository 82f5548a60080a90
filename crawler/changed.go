package crawler

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"urltree/internal/repair"
	"urltree/iut"
	"urltree/storage/record"
)

// A change is what differs from the last run in the options for links, or in what it knew of scope.
type change struct {
	before, now iut.LinkOptions
	options     bool // they differ
	grown       bool // scope has grown since stored pages were parsed
	review      bool // the index was made anew since
}

// takeOptions brings the index to the link options of this run: held URLs, what was refused, and
// stored pages are looked at again if need be. Only then FORMAT has these options.
func (e *engine) takeOptions(ctx context.Context) error {
	c, err := e.changes()
	if err != nil {
		return err
	}
	if err := e.reopen(ctx, c); err != nil {
		return err
	}
	if err := e.relinkFor(ctx, c); err != nil {
		return err
	}
	if err := e.store.tree.SetLinks(c.now); err != nil {
		return err
	}
	err = e.keepOptions(c.now)
	if err == nil && c.review {
		err = e.store.index.Marks().Reviewed()
	}
	return err
}

// changes compares the link options of this run with those that the index was brought to.
func (e *engine) changes() (c change, err error) {
	c.now = e.opts.linkOptions()
	if c.grown, err = e.store.index.Marks().NeedsRelink(); err != nil {
		return c, err
	}
	if c.before, err = e.optionsBefore(); err != nil {
		return c, err
	}
	c.options = !reflect.DeepEqual(c.now, c.before)
	c.review, err = e.store.index.Marks().NeedsReview()
	return c, err
}

// reopen makes pending again what this run does not hold, refuse or leave out any more. Where
// nothing has changed held URLs are looked at while the crawl goes on, see releaseHeld.
func (e *engine) reopen(ctx context.Context, c change) error {
	if c.options || c.grown {
		if _, err := e.store.index.Sitemaps().Reopen(ctx, (*record.Record).Narrowed, nil); err != nil {
			return err
		}
	}
	if !c.options && !c.grown && !c.review {
		e.begun.holding = e.store.index.Totals().Held > 0
		return nil
	}
	if err := e.release(ctx, true, nil); err != nil { // that it is done will be kept
		return err
	}
	if c.grown || c.options && e.store.index.Totals().Parsed() {
		return e.reconsider(ctx, c.before, c.now)
	}
	return nil
}

// relinkFor parses stored pages again if they may have links that count only now.
func (e *engine) relinkFor(ctx context.Context, c change) error {
	if !c.grown && !((c.options || c.review) && e.store.index.Totals().Parsed()) {
		return nil
	}
	if c.options && e.opts.Keep == nil {
		e.opts.Log.Warn("the options for links have changed since the last run", "changed", optionChanges(c.before, c.now))
	}
	// If nothing but budgets have changed, pages whose links were cut are enough.
	c.before.Budgets = c.now.Budgets
	return e.relink(ctx, !c.grown && reflect.DeepEqual(c.now, c.before), nil)
}

// optionsBefore returns the link options that the index was last brought to: those that it names,
// since it may be a copy that is older than FORMAT, else those of FORMAT, by which it was made
// again.
func (e *engine) optionsBefore() (before iut.LinkOptions, err error) {
	text, err := e.store.index.Marks().LinkOptions()
	if err != nil || text == nil {
		return e.store.tree.Format().Links, err
	}
	if err := json.Unmarshal(text, &before); err != nil {
		return before, fmt.Errorf("%w: link options: %w", record.ErrDamaged, err)
	}
	return before, nil
}

// keepOptions records in the index that it has been brought to these link options, once FORMAT says
// so.
func (e *engine) keepOptions(options iut.LinkOptions) error {
	text, err := json.Marshal(options)
	if err != nil {
		return err
	}
	kept, err := e.store.index.Marks().LinkOptions()
	if err != nil || bytes.Equal(kept, text) {
		return err
	}
	return e.store.index.Marks().SetLinkOptions(text)
}

// relink parses stored pages again, for links that belong to the crawl only now: all of them, or
// those of which links were cut.
func (e *engine) relink(ctx context.Context, cut bool, fresh func(rows []record.Row, tx uint64)) error {
	if cut {
		e.opts.Log.Info("reading the stored pages again whose links were cut")
	} else {
		e.opts.Log.Info("reading stored pages again for links", "pages", e.store.index.Totals().Stored)
	}
	e.rules.linker.scope.Forget() // areas may have been added by commits
	found, err := repair.Relink(ctx, e.store.tree, e.store.index, e.rules.linker, cut, e.opts.Log, fresh)
	if err == nil {
		e.opts.Log.Info("stored pages read again", "new URLs", found)
	}
	return err
}

// reconsider opens again what the last run refused for its type or by robots.txt, and this run
// would not.
func (e *engine) reconsider(ctx context.Context, before, now iut.LinkOptions) error {
	ignored := before.Robots != now.Robots && e.opts.IgnoreRobots
	if !ignored && slices.Equal(before.Accept, now.Accept) {
		return nil
	}
	n, err := e.store.index.Reopen(ctx, nil, func(r *record.Record) bool {
		return r.State == record.Refused && (r.Reason == "type" && e.opts.accepts(r.Media) || r.Reason == "robots" && ignored)
	}, nil)
	if err == nil && n > 0 {
		e.opts.Log.Info("refused by the options of the last run, and asked again", "URLs", n)
	}
	return err
}

// release returns URLs that earlier runs held to what may be asked, unless this run would hold
// them as well. Where no option has changed, those that options hold are not looked at. fresh is as
// for Index.Release.
func (e *engine) release(ctx context.Context, changed bool, fresh func(rows []record.Row, tx uint64)) error {
	want := func(reason string) bool { return changed || !heldByOptions(reason) }
	admit := func(r *record.Row) bool { return e.rules.linker.hold(r) == "" }
	most := 10_000
	if fresh != nil {
		most = 1000 // outcomes wait for such a transaction
	}
	return e.store.index.Hosts().Each(ctx, func(h record.HostRow) error {
		for from := []byte(nil); h.Held > 0; {
			if err := ctx.Err(); err != nil {
				return err
			}
			rows, next, err := e.store.index.Queues().HeldRows(h.Name, from, most, want, admit)
			if err != nil {
				return err
			}
			if err := e.store.index.Release(rows, fresh); err != nil {
				return err
			}
			if from = next; from == nil {
				break
			}
		}
		return nil
	})
}
