package crawler

import (
	"context"
	"io"
)

// fillFilter completes the seen filter while the crawl is already going on and the index is asked:
// by the saved one if that belongs to the state in which the index was opened, else by a scan.
func (e *engine) fillFilter(fetching context.Context) error {
	if err := e.useSeen(); err != nil || e.store.index.Filter().Complete() {
		return err
	}
	return unlessOver(fetching, e.store.index.LoadFilter(fetching))
}

// unlessOver returns err, or nil once fetching has ended: what is not done then the next run does.
func unlessOver(fetching context.Context, err error) error {
	if fetching.Err() != nil {
		return nil
	}
	return err
}

// useSeen loads the saved filter, if it belongs to the state in which the index was opened, and
// removes it in any case. It is known by the number of a transaction: should index.db be made anew,
// or an older one come back, then that would reach the number once more, and the filter knows URLs
// that are not in it.
func (e *engine) useSeen() error {
	if e.opts.NoTree {
		return nil
	}
	return e.store.tree.TakeSeen(func(r io.Reader) {
		if filter := e.store.index.Filter(); !filter.Complete() {
			_ = filter.Load(r, e.begun.opened) // what does not belong to this state is as good as none
		}
	})
}

// settle moves, for the order tree, what a killed run has left in the inbox, while the crawl is
// already going on: walks miss those URLs until then, and nothing else does.
func (e *engine) settle(fetching context.Context) error {
	if e.opts.Order != OrderTree {
		return nil
	}
	return unlessOver(fetching, e.store.index.Settle(fetching))
}

// releaseHeld has another look at held URLs while the crawl is already going on.
func (e *engine) releaseHeld(fetching context.Context) error {
	if !e.begun.holding {
		return nil
	}
	defer e.frontier.Expect(-1)
	return unlessOver(fetching, e.release(fetching, false, e.frontier.Add))
}
