package repair

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"urltree/internal/disk"
	"urltree/internal/edges"
	"urltree/internal/spool"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// A Forget has a tree get rid of what its list says is to be forgotten, see [iut.Tree.Forget].
type Forget struct {
	Tree  *iut.Tree // opened with Options.Forgetting
	Index *storage.Index
	Tell  Tell // nil: nobody is told

	list   *iut.Forgotten
	again  bool // an earlier Run was cut off
	report ForgetReport
	next   storage.Forgetting // of the next transaction
	twins  bool               // there are pages that were refused as duplicates
}

// A ForgetReport is what is, or would be, removed.
type ForgetReport struct {
	Added    int64 // entries that the list did not have
	Pages    int64 // stored ones
	Bytes    int64 // of their bodies
	Records  int64 // of URLs, those of pages included
	Cleaned  int64 // records left that named one of these URLs
	Sitemaps int64
	Outside  int64  // targets outside, those that named one of these URLs included
	Seeds    int64  // lines of seeds.txt
	Reopened int64  // URLs refused as duplicates of nothing but what is gone
	Defects  int64  // folders of these URLs that are left, since they say that they are another's
	Defect   string // one of them
	Ranks    bool   // the file of ranks is gone
}

// forgetRecords is how many records a transaction is about.
const forgetRecords = 2_000

// Count returns what Run would remove with this list. It writes nothing.
func (f *Forget) Count(ctx context.Context, list *iut.Forgotten) (ForgetReport, error) {
	f.list = list
	f.Tell = orSilent(f.Tell)
	err := f.records(ctx, func(r *record.Record, _ bool) error {
		f.count(r)
		return nil
	}, nil)
	if err == nil {
		err = f.Index.Sitemaps().Each(ctx, func(s *record.Record) error {
			gone, err := f.list.Has(s.URL)
			if gone {
				f.report.Sitemaps++
			}
			return err
		})
	}
	if err == nil {
		err = f.eachOutside(ctx, func(string) error { return nil })
	}
	if err == nil {
		err = f.Tree.Seeds(iut.SeedMark{}, func(url string, _ iut.SeedMark) error {
			gone, err := f.list.Has(url)
			if gone {
				f.report.Seeds++
			}
			return err
		})
	}
	return f.report, err
}

// Run adds entries to the list, and removes all that the list names. Whatever a kill leaves, the
// next Run completes, also one without entries: until then FORMAT says that there is an unfinished
// one, and whatever else writes refuses the tree.
//
// The order of the durable steps: FORMAT, the list, seeds.txt; of each set of records the lines of
// source.txt that named one of them, then the records; the folders of pages; the file of edges;
// FORMAT.
func (f *Forget) Run(ctx context.Context, entries iter.Seq2[iut.ForgottenEntry, error]) (ForgetReport, error) {
	f.Tell = orSilent(f.Tell)
	f.again = f.Tree.Format().Forgetting
	kept, _, err := f.Index.Marks().Edges()
	if err == nil {
		f.report.Added, err = f.Tree.Forget(ctx, entries)
	}
	if err == nil && kept.End > 0 { // after a kill the next run that keeps edges makes them again
		err = iut.DiskError("index", f.Index.Marks().SetEdges(record.Edges{Assets: kept.Assets}))
	}
	f.list = f.Tree.Forgotten()
	for _, step := range []func(context.Context) error{
		f.seeds, f.fromIndex, f.looks, f.sitemaps, f.outside, f.origins, f.folders, f.duplicates,
		func(ctx context.Context) error { return f.edges(ctx, kept) }, f.ranks,
	} {
		if err = cmp.Or(err, context.Cause(ctx)); err == nil {
			err = step(ctx)
		}
	}
	if err == nil {
		err = f.Tree.Forgot()
	}
	return f.report, err
}

func (f *Forget) count(r *record.Record) {
	f.report.Records++
	if r.State == record.Stored {
		f.report.Pages++
		f.report.Bytes += r.Bytes
	}
}

// records calls gone for each record that is to go, and clean for those that name one, with what
// they are to say; nil: nothing is to be said.
func (f *Forget) records(ctx context.Context, gone func(r *record.Record, _ bool) error, clean func(r *record.Record) error) error {
	done, total := int64(0), f.Index.Totals().Records()
	return f.Index.Records(ctx, nil, func(r record.Record, err error) error {
		f.Tell("looking at records", done, total)
		done++
		if err != nil {
			return err // its counters could not be put right
		}
		f.twins = f.twins || r.Reason == record.Duplicate
		switch yes, err := f.list.Has(r.URL); {
		case err != nil:
			return err
		case yes:
			return gone(&r, true)
		case clean == nil:
			return nil
		}
		was := r
		if r.Source, err = f.list.Source(r.Source); err != nil {
			return err
		}
		if yes, err := f.list.Has(r.Via); err != nil {
			return err
		} else if yes {
			r.Via = ""
		}
		if r.State == record.Redirected {
			if yes, err := f.list.Has(r.HeaderLinks); err != nil {
				return err
			} else if yes {
				r.HeaderLinks, r.Reason = "", record.Forgotten
			}
		}
		if r == was {
			return nil
		}
		return clean(&r)
	})
}

// fromIndex removes records, and has others no longer name them.
func (f *Forget) fromIndex(ctx context.Context) error {
	err := f.records(ctx, func(r *record.Record, _ bool) error {
		f.count(r)
		f.next.URLs = append(f.next.URLs, r.URL)
		return f.commitIf(forgetRecords)
	}, func(r *record.Record) error {
		f.report.Cleaned++
		if r.State == record.Stored && r.Source == record.Forgotten { // and not only Via is another one
			if err := f.Tree.ForgetSource(iut.FactsOf(r)); err != nil && !errors.Is(err, iut.ErrTorn) { // check names a page that is not whole
				return err
			}
		}
		f.next.Clean = append(f.next.Clean, *r)
		return f.commitIf(forgetRecords)
	})
	if err == nil {
		err = f.commitIf(1)
	}
	return err
}

// commitIf commits what is about at least so many records.
func (f *Forget) commitIf(least int) error {
	if f.next.Weight() < least {
		return nil
	}
	if len(f.next.Clean) > 0 {
		if err := f.Tree.Sync(); err != nil {
			return err
		}
	}
	err := f.Index.Forget(&f.next)
	f.next = storage.Forgetting{}
	return iut.DiskError("index", err)
}

// looks has no look at a page name where it redirects to, if that is to be forgotten.
func (f *Forget) looks(ctx context.Context) error {
	err := f.Index.Revisits().Looks(ctx, nil, func(url string, l *record.Look) error {
		if gone, err := f.list.Has(l.Target); err != nil || !gone {
			return err
		}
		f.next.Looks = append(f.next.Looks, url)
		return f.commitIf(forgetRecords)
	})
	if err == nil {
		err = f.commitIf(1)
	}
	return err
}

func (f *Forget) sitemaps(ctx context.Context) error {
	err := f.Index.Sitemaps().Each(ctx, func(s *record.Record) error {
		switch gone, err := f.list.Has(s.URL); {
		case err != nil:
			return err
		case gone:
			f.report.Sitemaps++
			f.next.Sitemaps = append(f.next.Sitemaps, s.URL)
		default:
			source, err := f.list.Source(s.Source)
			if err != nil || source == s.Source {
				return err
			}
			f.next.CleanSitemaps = append(f.next.CleanSitemaps, s.URL)
		}
		return f.commitIf(forgetRecords)
	})
	if err == nil {
		err = f.commitIf(1)
	}
	return err
}

// outside removes the targets outside that are to be forgotten, or name what is. What a page still
// refers to is found again, and asked.
func (f *Forget) outside(ctx context.Context) error {
	err := f.eachOutside(ctx, func(url string) error {
		f.next.Outside = append(f.next.Outside, url)
		return f.commitIf(forgetRecords)
	})
	if err == nil {
		err = f.commitIf(1)
	}
	return err
}

// eachOutside counts the targets outside that are to go, and calls fn with each.
func (f *Forget) eachOutside(ctx context.Context, fn func(url string) error) error {
	return f.Index.Outside().Each(ctx, func(r *record.Record) error {
		for _, url := range []string{r.URL, r.Source, r.Via, r.HeaderLinks} {
			if gone, err := f.list.Has(url); err != nil {
				return err
			} else if gone {
				f.report.Outside++
				return fn(r.URL)
			}
		}
		return nil
	})
}

func (f *Forget) origins(ctx context.Context) error {
	return iut.DiskError("index", f.Index.ForgetOrigins(ctx, f.list.HasOrigin, f.list.Has))
}

// seeds takes seeds out of seeds.txt. What the index has kept of seeds is made again by the next
// run, so that scope shrinks.
func (f *Forget) seeds(ctx context.Context) (err error) {
	f.report.Seeds, err = f.Tree.RemoveSeeds(ctx, f.list.Has)
	if err == nil && f.report.Seeds > 0 {
		err = iut.DiskError("seeds", f.Index.Seeds().Forget())
	}
	return err
}

func (f *Forget) folders(ctx context.Context) error {
	done := int64(0)
	return f.Tree.RemoveForgotten(func(folder string, removed bool) error {
		f.Tell("removing pages", done, 0)
		if done++; !removed {
			f.report.Defects++
			f.report.Defect = folder
		}
		return context.Cause(ctx)
	})
}

// duplicates opens the URLs whose content was refused because a page had it that is gone: one of
// them is stored then.
func (f *Forget) duplicates(ctx context.Context) (err error) {
	if !f.twins {
		return nil
	}
	f.Tell("looking at duplicates", 0, 0)
	all := spool.NewSorter(16<<20, 16)
	defer func() { err = errors.Join(err, all.Close()) }()
	err = f.Index.Records(ctx, nil, func(r record.Record, err error) error {
		switch {
		case err != nil:
			return err
		case r.State == record.Stored:
			return all.Add(spool.Row{Key: string(r.Digest[:])}) // before those with a URL
		case r.State == record.Refused && r.Reason == record.Duplicate:
			return all.Add(spool.Row{Key: string(r.Digest[:]), Sub: r.URL})
		}
		return nil
	})
	var urls []string
	open := func() error {
		n, err := f.Index.ReopenURLs(urls)
		f.report.Reopened += int64(n)
		urls = urls[:0]
		return iut.DiskError("index", err)
	}
	stored := "" // the latest content that a page has
	for next := all.Sorted(); err == nil; {
		row, end := next()
		switch {
		case end == io.EOF:
			return open()
		case end != nil:
			return end
		case row.Sub == "":
			stored = row.Key
		case row.Key != stored:
			if urls = append(urls, row.Sub); len(urls) >= forgetRecords {
				err = open()
			}
		}
	}
	return err
}

// edges writes the file of edges again, without those of pages and to pages that are gone.
func (f *Forget) edges(ctx context.Context, kept record.Edges) error {
	if kept.End == 0 {
		return f.Tree.RemoveEdges() // a kill may have left it; what is needed is made again
	}
	f.Tell("writing the link graph", 0, 0)
	now, err := f.Tree.RewriteEdges(kept, func(p *edges.Page) (bool, error) {
		gone, err := f.list.Has(p.URL)
		left := p.Edges[:0]
		for _, e := range p.Edges {
			to, bad := f.list.Has(e.To)
			if err = cmp.Or(err, bad); !to {
				left = append(left, e)
			}
		}
		p.Edges = left
		return !gone, cmp.Or(err, context.Cause(ctx))
	})
	if errors.Is(err, edges.ErrDamaged) {
		return f.Tree.RemoveEdges()
	}
	if err == nil {
		err = iut.DiskError("index", f.Index.Marks().SetEdges(now))
	}
	return err
}

// ranks removes the file of ranks, which follow from what is gone as well.
func (f *Forget) ranks(context.Context) error {
	if f.report.Records == 0 && !f.again {
		return nil
	}
	err := os.Remove(filepath.Join(f.Tree.Root(), "rank"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	f.report.Ranks = err == nil
	return iut.DiskError("remove rank", errors.Join(err, disk.SyncFolder(f.Tree.Root())))
}
