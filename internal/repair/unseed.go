package repair

import (
	"context"
	"errors"

	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// An Unseed takes seeds out of a tree. Their pages and records stay, as those of URLs that nothing
// names, and the scope of the next run is that of the seeds which are left.
type Unseed struct {
	Tree  *iut.Tree
	Index *storage.Index
	Tell  Tell // nil: nobody is told

	list    *iut.Forgotten
	targets map[string]bool // where redirects of these seeds led
	next    storage.Forgetting
	cleaned int64
}

// Run takes the seeds of a list out, and returns how many lines of seeds.txt that were, and how
// many records no longer say that they are of seeds. It may be cut off and done again.
//
// The order of the durable steps: seeds.txt; the lines of source.txt that say seed, then the
// records; what the index keeps of seeds, which the next run makes again.
func (u *Unseed) Run(ctx context.Context, list *iut.Forgotten) (lines, records int64, err error) {
	u.list, u.targets = list, map[string]bool{}
	u.Tell = orSilent(u.Tell)
	if lines, err = u.Tree.RemoveSeeds(ctx, list.Has); err != nil {
		return 0, 0, err
	}
	for more := true; more && err == nil; {
		if more, err = u.findTargets(ctx); err == nil {
			err = u.records(ctx)
		}
	}
	if err == nil {
		err = iut.DiskError("index", u.Index.ForgetOrigins(ctx, func(string) bool { return false }, u.has))
	}
	if err == nil && lines+u.cleaned > 0 {
		err = iut.DiskError("index", u.Index.Seeds().Forget())
	}
	return lines, u.cleaned, err
}

// has reports whether a URL is no longer a seed.
func (u *Unseed) has(url string) (bool, error) {
	if u.targets[url] {
		return true, nil
	}
	return u.list.Has(url)
}

// findTargets finds where redirects of the seeds led, so far as no seed is left of that name, and
// reports whether there are more of them than before.
func (u *Unseed) findTargets(ctx context.Context) (more bool, err error) {
	found := map[string]bool{}
	err = u.Index.Records(ctx, nil, func(r record.Record, err error) error {
		if err != nil || r.Source != record.Seed || r.Via == "" || u.targets[r.URL] {
			return nil // a damaged record is for check to name
		}
		yes, err := u.has(r.Via)
		if yes {
			found[r.URL] = true
		}
		return err
	})
	if err == nil && len(found) > 0 {
		err = u.Tree.Seeds(iut.SeedMark{}, func(url string, _ iut.SeedMark) error {
			delete(found, url)
			return nil
		})
	}
	for url := range found {
		u.targets[url] = true
	}
	return len(found) > 0, err
}

// records has the records of the seeds, and of those targets, say that nothing names them.
func (u *Unseed) records(ctx context.Context) error {
	commit := func(least int) error {
		if u.next.Weight() < least {
			return nil
		}
		err := u.Tree.Sync()
		if err == nil {
			err = iut.DiskError("index", u.Index.Forget(&u.next))
		}
		u.next = storage.Forgetting{}
		return err
	}
	done, total := int64(0), u.Index.Totals().Records()
	err := u.Index.Records(ctx, nil, func(r record.Record, err error) error {
		u.Tell("looking at records", done, total)
		done++
		if err != nil || r.Source != record.Seed {
			return nil // a damaged record is for check to name
		}
		if yes, err := u.has(r.URL); err != nil || !yes {
			return err
		}
		if r.State == record.Stored {
			if err := u.Tree.ForgetSource(iut.FactsOf(&r)); err != nil && !errors.Is(err, iut.ErrTorn) { // check names a page that is not whole
				return err
			}
		}
		u.cleaned++
		r.Source = record.Forgotten
		u.next.Clean = append(u.next.Clean, r)
		return commit(forgetRecords)
	})
	if err == nil {
		err = commit(1)
	}
	return err
}
