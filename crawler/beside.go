package crawler

import "context"

// fillFilter completes the seen filter while the crawl is already going on and the index is asked.
func (e *engine) fillFilter(fetching context.Context) error {
	if e.store.index.Filter().Complete() {
		return nil
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
	return unlessOver(fetching, e.release(fetching, false, e.found))
}
