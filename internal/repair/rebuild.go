package repair

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"urltree/internal/disk"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

const indexName = "index.db"

// A Parser returns the admitted links and the metadata of a page from what its folder holds. It
// depends on nothing but FORMAT and the seeds in the index, so that a page gives the same at any
// time.
type Parser interface {
	// Use has the parser look up in an index what was kept of the seeds.
	Use(index *storage.Index)
	// Areas returns what of a seed, or the target of its redirect, decides which links are admitted.
	Areas(url string) []string
	Parse(f iut.Facts, body []byte) iut.Parsed
	// Err returns the first error of a look-up; after it, Parse may have left out links.
	Err() error
}

// A Report is what a rebuild or a merge found and did.
type Report struct {
	Index        string // what became of index.db, for a merge
	Pages        int    // complete pages in the tree
	Adopted      int    // of those, the ones that the index did not call stored
	Torn         int    // pages that a kill left; their files are removed
	Damaged      int    // pages that are not whole any more; their files are kept under other names
	Defects      int    // pages as no kill leaves them; left as they are
	Reopened     int    // URLs of which index and folder say different things, looked at anew
	Versions     int    // earlier versions that the index did not know
	LostVersions int    // earlier versions that are not in the tree any more
	Seeds        int    // seeds that had no record
	Found        int    // records made
	Salvaged     int    // records taken over from a damaged index
	Totals       record.Totals
}

func (r *Report) String() string {
	var b strings.Builder
	if r.Index != "" {
		fmt.Fprintf(&b, "index: %s\n", r.Index)
	}
	fmt.Fprintf(&b, "pages: %d complete, %d of them new to the index; %d torn removed, %d defective left\n",
		r.Pages, r.Adopted, r.Torn, r.Defects)
	fmt.Fprintf(&b, "records: %d made, %d of them seeds; %d reopened, as their page was missing or unknown to the index\n",
		r.Found, r.Seeds, r.Reopened)
	if r.Damaged > 0 {
		fmt.Fprintf(&b, "damaged pages: %d, kept in their folders as content.html.damaged and source.txt.damaged\n", r.Damaged)
	}
	if r.Versions+r.LostVersions > 0 {
		fmt.Fprintf(&b, "earlier versions: %d new to the index, %d lost\n", r.Versions, r.LostVersions)
	}
	t := &r.Totals
	fmt.Fprintf(&b, "now: %d stored, %d pending, %d redirected, %d failed, %d refused\n",
		t.Stored, t.Pending(), t.Redirected, t.Failed, t.Refused)
	return b.String()
}

// setPages is how many pages a transaction of a rebuild has at most. Their bodies are gone by then;
// links are what takes memory, of which it has no more than [record.MostWeight], and at most 4 KiB
// of metadata a page.
const setPages = 1000

// run brings the index to what folders and seeds.txt say, before a run has begun. Torn pages are
// removed, damaged ones kept under other names. Each complete page that the index does not call
// stored, its SHA-256 compared, is committed with its links and metadata. A record that the index
// calls stored, but whose folder does not hold that page, is pending again; so is one with another
// outcome whose folder holds a page, until that page is adopted. Each seed has a record.
//
// So a rebuild into an empty index gives: stored = complete pages; pending = seeds and links of
// stored pages that have no complete page, with the shortest known depth. It may be cut off
// and done again at any point; done twice, it changes nothing.
//
// A failing disk is iut.ErrDisk.
func (r *rebuild) run(ctx context.Context) (Report, error) {
	if err := r.index.Marks().Review(); err != nil {
		return r.report, iut.DiskError("rebuild", err)
	}
	for _, step := range []func(context.Context) error{r.segments, r.seeds, r.survey, r.reopen, r.adopt, r.versions, r.mend} {
		if err := step(ctx); err != nil {
			return r.report, fmt.Errorf("rebuild: %w", err)
		}
	}
	r.report.Totals = r.index.Totals()
	return r.report, nil
}

type rebuild struct {
	tree    *iut.Tree
	index   *storage.Index
	parser  Parser
	log     *slog.Logger
	tell    Tell
	fresh   func(rows []record.Row, tx uint64) // told of new rows; nil: nobody is
	report  Report
	earlier bool // the tree has earlier versions

	// After salvage, see mend:
	salvaged salvaged
	lost     map[string]bool // URLs that have lost their record; nil: there was no salvage
	others   int             // of these, the ones that are not in salvaged.lost

	set    []*record.Outcome // to be committed next
	weight int               // of set
}

// newRebuild begins a rebuild. log may be nil.
func newRebuild(tree *iut.Tree, index *storage.Index, p Parser, log *slog.Logger) *rebuild {
	return &rebuild{tree: tree, index: index, parser: p, log: orDiscard(log), tell: orSilent(nil)}
}

// segments is mendEnds: the pages that a segment lacks are found by reopen.
func (r *rebuild) segments(ctx context.Context) error { return mendEnds(ctx, r.tree, r.index, r.log) }

// mendEnds has the index expect no more of a segment than it has.
func mendEnds(ctx context.Context, tree *iut.Tree, index *storage.Index, log *slog.Logger) error {
	ends, err := index.Marks().SegmentEnds(ctx)
	if err != nil {
		return err
	}
	short, err := tree.Short(ends)
	if err != nil {
		return err
	}
	for segment, size := range short {
		log.Warn("a segment has lost its end", "segment", segment, "bytes", size, "of", ends[segment])
		if err := index.Marks().SetSegmentEnd(segment, size); err != nil {
			return iut.DiskError("segments", err)
		}
	}
	return nil
}

func (r *rebuild) seeds(ctx context.Context) error {
	r.parser.Use(r.index)
	made, _, err := EnterSeeds(ctx, r.tree, r.index, r.parser, r.tree.Format().Links.Scope, r.log)
	r.report.Found += made
	r.report.Seeds = r.report.Found
	return err
}

// survey removes torn pages, counts the complete ones and keeps the areas of those that are
// seeds' pages, targets of seeds' redirects among them: no link can be judged before.
func (r *rebuild) survey(ctx context.Context) error {
	var areas []string
	err := r.tree.Walk(func(url, rel string, st iut.PageStatus, f iut.Facts) error {
		switch st.Kind {
		case iut.PageComplete:
			r.tell("looking at pages", int64(r.report.Pages), r.index.Totals().Stored)
			if f.Source == record.Seed {
				// Scope must not come from a page that turns out to be torn.
				_, whole, err := r.tree.Complete(f, true)
				if err != nil {
					return err
				}
				if !whole {
					return r.removeTorn(f, rel, errors.New("SHA-256"))
				}
				if areas, err = enterAreas(r.index, append(areas, r.parser.Areas(url)...), setSeeds); err != nil {
					return err
				}
			}
			r.report.Pages++
		case iut.PageTorn:
			return r.removeTorn(iut.Facts{URL: url}, rel, st.Err)
		case iut.PageDefect:
			r.report.Defects++
			r.log.Warn("defective page left as it is", "folder", rel, "err", st.Err)
		case iut.PageEarlier:
			r.earlier = true
		}
		return context.Cause(ctx)
	})
	if err == nil {
		_, err = enterAreas(r.index, areas, 1)
	}
	return err
}

// removeTorn takes a page away that is not whole: its URL is to be asked again.
func (r *rebuild) removeTorn(at iut.Facts, rel string, err error) error {
	if at.URL == "" {
		r.report.Torn++
		r.log.Info("torn page left to be replaced", "folder", rel, "err", err)
		return nil // its name does not tell the URL; whoever stores it replaces it
	}
	rec, noRecord := r.index.Record(at.URL)
	kept, failed := r.tree.RemoveTorn(at, noRecord == nil && rec.State == record.Stored)
	switch {
	case failed != nil:
		return failed
	case kept:
		r.report.Damaged++
		r.log.Warn("damaged page kept under other names", "folder", rel, "err", err)
	default:
		r.report.Torn++
		r.log.Info("torn page removed", "folder", rel, "err", err)
	}
	return nil
}

// reopen turns records back to pending that say something else than their folders.
func (r *rebuild) reopen(ctx context.Context) error {
	lost, err := r.lostAnswer(ctx)
	if err != nil {
		return err
	}
	scan, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	done, total := int64(0), r.index.Totals().Records()
	n, err := r.index.Reopen(scan, nil, func(rec *record.Record) bool {
		r.tell("comparing URLs with their pages", done, total)
		done++
		if rec.State == record.Pending || ctx.Err() != nil {
			return false
		}
		stored := rec.State == record.Stored
		f, complete, err := r.tree.Complete(iut.FactsOf(rec), true)
		switch {
		case errors.Is(err, iut.ErrDisk):
			stop(err)
			return false
		case stored && complete && f.Digest == rec.Digest, !stored && !complete && !lost(rec.Extent):
			return false
		}
		r.log.Warn("index and folder differ: looked at anew", "url", rec.URL, "index", rec.State, "complete", complete)
		return true
	}, nil)
	r.report.Reopened = n
	if cause := context.Cause(scan); cause != nil {
		return cause
	}
	return iut.DiskError("reopen", err)
}

// lostAnswer returns a function that reports whether an answer stood in the end that a segment has
// lost.
func (r *rebuild) lostAnswer(ctx context.Context) (func(record.Extent) bool, error) {
	if r.tree.Format().Store != iut.StoreWARC {
		return func(record.Extent) bool { return false }, nil
	}
	ends, err := r.index.Marks().SegmentEnds(ctx)
	return func(e record.Extent) bool { return !e.IsZero() && e.Offset+e.Length > ends[e.Segment] }, err
}

// adopt commits each complete page that the index does not call stored.
func (r *rebuild) adopt(ctx context.Context) error {
	if int64(r.report.Pages) == r.index.Totals().Stored {
		return nil // each stored record has its page, so these are all
	}
	done, total := int64(0), int64(r.report.Pages)
	err := r.tree.Walk(func(url, rel string, st iut.PageStatus, f iut.Facts) error {
		if st.Kind != iut.PageComplete {
			return context.Cause(ctx)
		}
		r.tell("reading pages", done, total)
		done++
		// A record that cannot be read is made anew.
		rec, err := r.index.Record(url)
		if err == nil && rec.State == record.Stored {
			return context.Cause(ctx)
		}
		if errors.Is(err, storage.ErrNotFound) && !r.lost[url] {
			r.others++
		}
		f, body, err := r.tree.Adopt(f)
		if errors.Is(err, iut.ErrTorn) {
			r.report.Pages--
			return r.removeTorn(f, rel, err)
		}
		if err != nil {
			return err
		}
		r.report.Adopted++
		parsed := r.parser.Parse(f, body)
		return r.take(ctx, &record.Outcome{
			Row:   record.Row{URL: url, Source: f.Source, Depth: f.PageDepth},
			State: record.Stored, Page: f.Page, Links: parsed.Links, Meta: parsed.Meta,
		})
	})
	if err != nil {
		return err
	}
	return r.commit(ctx)
}

// take adds an outcome to the set, and commits a set that would become too large, or else links of
// an outcome that has too many for one, before it.
func (r *rebuild) take(ctx context.Context, o *record.Outcome) error {
	weight := o.Weight()
	if len(r.set) == setPages || len(r.set) > 0 && r.weight+weight > record.MostWeight {
		if err := r.commit(ctx); err != nil {
			return err
		}
	}
	for ahead := o.TakeAhead(); ahead != nil; ahead = o.TakeAhead() {
		r.set = append(r.set, ahead)
		if err := r.commit(ctx); err != nil {
			return err
		}
		weight = o.Weight()
	}
	r.set, r.weight = append(r.set, o), r.weight+weight
	return context.Cause(ctx)
}

// commit commits the set, once pages of a process that was killed are synced as well.
func (r *rebuild) commit(ctx context.Context) error {
	if err := errors.Join(context.Cause(ctx), r.parser.Err()); err != nil {
		return err
	}
	if err := r.tree.Sync(); err != nil {
		return err
	}
	done, err := r.index.Commit(r.set)
	if err != nil {
		return iut.DiskError("commit", err)
	}
	r.report.Found += done.New
	if r.fresh != nil {
		r.fresh(done.Fresh, done.Tx)
	}
	clear(r.set)
	r.set, r.weight = r.set[:0], 0
	return nil
}

// NewIndex makes index.db of a tree that has none from its folders and seeds, as [Merge]
// does: under another name until it is whole, so that no kill leaves an index that lacks pages.
// Where there are pages, the next start counts as one after an unclean stop.
func NewIndex(ctx context.Context, tree *iut.Tree, opts storage.Options, p Parser, log *slog.Logger) (Report, error) {
	return newIndex(ctx, tree, opts, "", p, log, nil)
}

// newIndex is NewIndex for a tree whose index is damaged: what is whole in it is taken over before
// all else, and the file is kept under another name. "": there is none.
func newIndex(ctx context.Context, tree *iut.Tree, opts storage.Options, kept string, p Parser, log *slog.Logger, tell Tell) (Report, error) {
	path := filepath.Join(tree.Root(), indexName)
	making := path + ".making"
	if err := os.Remove(making); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Report{}, iut.DiskError("new index", err)
	}
	opts.Limits = limitsOf(tree.Format().Links)
	index, err := storage.New(making, opts)
	if err != nil {
		return Report{}, fmt.Errorf("new index: %w", err)
	}
	r := newRebuild(tree, index, p, log)
	r.tell = orSilent(tell)
	if kept != "" {
		err = r.salvage(ctx, path)
	}
	var report Report
	if err == nil {
		report, err = r.run(ctx)
	}
	if err == nil && (report.Pages > 0 || kept != "") {
		err = iut.DiskError("new index", index.Runs().MarkUnclean())
	}
	if err = errors.Join(err, iut.DiskError("new index", index.Close())); err != nil {
		return report, err
	}
	if kept != "" {
		// With two names until the new one takes its place, no kill leaves the tree without either.
		if err := os.Link(path, kept); err != nil {
			if err := os.Rename(path, kept); err != nil {
				return report, iut.DiskError("keep the old index", err)
			}
		}
	}
	return report, iut.DiskError("new index", errors.Join(os.Rename(making, path), disk.SyncFolder(tree.Root())))
}

// limitsOf are the limits that FORMAT names: what the latest run held back, a rebuild does too.
func limitsOf(l iut.LinkOptions) storage.Limits {
	limits := storage.Limits{
		MaxDepth: l.MaxDepth, Domain: l.Budgets.Domain, Host: l.Budgets.Host, Prefix: l.Budgets.Prefix, Query: l.Budgets.Query, MaxHeld: l.Budgets.MaxHeld,
	}
	switch {
	case l.MaxDepth < 0:
		limits.MaxDepth = 0
	case l.MaxDepth == 0:
		limits.MaxDepth = -1
	}
	return limits
}
