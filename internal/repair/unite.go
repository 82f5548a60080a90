package repair

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"urltree/internal/disk"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// UniteOptions say what a tree is made of.
type UniteOptions struct {
	Root     string             // of the tree that is made
	Trees    []string           // the roots of the others
	Store    string             // where it has its pages, see [iut.Identity]; "": where the first of the others has them
	Segments iut.SegmentOptions // of its segments
	// Conflicts, if not nil, gets a line for each outcome of each URL of which trees have different
	// ones.
	Conflicts io.Writer
	Tell      Tell         // nil: nobody is told
	Log       *slog.Logger // nil: no log

	most int // URLs that a commit covers; 0: uniteURLs. Tests have less.
}

// A UniteReport is what a union came to.
type UniteReport struct {
	URLs, Pages int64
	Conflicts   int64    // URLs of which trees have different outcomes or bodies
	Damaged     int64    // stored pages that were not whole: another tree's counts, or the URL is pending again
	Differ      []string // the options in which the trees differ, a line each
	// At is the root of the tree, of Trees, that an error is about; "": it is about none of them.
	At string
}

// Unite makes one tree of several, of any stores and with any overlap. What is known of a URL is
// the join of what they know, see [record.Join]; pages, seeds, hosts, robots.txt answers, sitemaps
// and edges come along; runs become one, counters and pending rows follow from the records; ranks
// are left out. It does not matter in which order the trees are given, nor how often.
//
// The trees are only read, with their LOCK shared: iut.ErrBusy if a crawl has one. Trees of other
// rules for URLs are iut.ErrIdentity. fs.ErrExist says that the root is something else than a new
// folder, or than what a call that was cut off has left: then this one begins anew. Until all is
// durable FORMAT says that there is no tree yet, see [iut.Options]. Memory does not depend on the
// size of the trees.
func Unite(ctx context.Context, o UniteOptions) (report UniteReport, err error) {
	u := newUniting(o)
	defer func() {
		for _, p := range u.parts {
			err = errors.Join(err, p.close())
		}
		report = u.report
	}()
	if err := u.requireNew(); err != nil {
		return report, err
	}
	for _, root := range o.Trees {
		p, err := openPart(root)
		if err != nil {
			u.report.At = root
			return report, err
		}
		u.parts = append(u.parts, p)
	}
	identity, err := u.identity()
	if err != nil {
		return report, err
	}
	u.tree, err = iut.Open(o.Root, iut.Options{Identity: &identity, Uniting: true, Segments: o.Segments})
	if errors.Is(err, iut.ErrFormat) {
		err = fmt.Errorf("%w: %w", err, fs.ErrExist)
	}
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, u.tree.Close()) }()
	return report, u.run(ctx)
}

// requireNew returns fs.ErrExist if the root is a tree already, or lies in one of the others.
func (u *uniting) requireNew() error {
	_, err := iut.ReadFormat(u.o.Root)
	if err == nil || errors.Is(err, iut.ErrOlder) {
		return fmt.Errorf("%s is a tree already, and a union makes a new one: %w", u.o.Root, fs.ErrExist)
	}
	for _, root := range u.o.Trees {
		if disk.Inside(u.o.Root, root) {
			return fmt.Errorf("%s lies in the tree %s: %w", u.o.Root, root, fs.ErrExist)
		}
	}
	return nil
}

// A part is one of the trees that are united.
type part struct {
	root    string
	tree    *iut.Tree
	index   *storage.Index
	format  iut.Format
	runs    []record.Run
	edges   record.Edges
	unclean bool // its latest run did not end cleanly
}

func openPart(root string) (p *part, err error) {
	p = &part{root: root}
	if p.tree, err = iut.Open(root, iut.Options{ReadOnly: true}); err != nil {
		return nil, err
	}
	p.format = p.tree.Format()
	p.index, err = storage.Open(filepath.Join(root, indexName), storage.Options{ReadOnly: true})
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", record.ErrDamaged, err)
	}
	if err == nil {
		p.runs, err = p.index.Runs().All()
	}
	if err == nil {
		p.edges, _, err = p.index.Marks().Edges()
	}
	if err == nil {
		p.unclean, err = p.index.Runs().Unclean()
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *part) close() error {
	err := p.tree.Close()
	if p.index != nil {
		err = errors.Join(p.index.Close(), err)
	}
	return err
}

// ended returns when the latest run ended; 0: there was none.
func (p *part) ended() int64 {
	if len(p.runs) == 0 {
		return 0
	}
	return p.runs[len(p.runs)-1].End
}

type uniting struct {
	o      UniteOptions
	most   int
	tell   Tell
	log    *slog.Logger
	parts  []*part
	tree   *iut.Tree
	index  *storage.Index
	report UniteReport
	total  int64 // records of all parts
	done   int64

	options *part      // whose options the tree gets
	run1    record.Run // that all runs become; ID 0: there was none
	seeds   bool       // the index gets what the others keep of their seeds
	relink  bool       // stored pages are to be parsed again
	keepOut bool       // one of the parts has forgotten something

	ends  map[uint32]int64 // of segments, since the last commit
	bytes int64            // of pages, since the last commit
}

func newUniting(o UniteOptions) *uniting {
	return &uniting{o: o, most: cmp.Or(o.most, uniteURLs), tell: orSilent(o.Tell), log: orDiscard(o.Log), ends: map[uint32]int64{}}
}

// identity returns that of the tree, for which all parts must agree.
func (u *uniting) identity() (iut.Identity, error) {
	id := u.parts[0].format.Identity
	if u.o.Store != "" {
		id.Store = u.o.Store
	}
	for _, p := range u.parts[1:] {
		other := p.format.Identity
		other.Store = ""
		if err := id.SameRules(other); err != nil {
			if id.Strip != other.Strip {
				err = fmt.Errorf("%w: -strip-www and -strip-params are %q and %q", iut.ErrIdentity, id.Strip, other.Strip)
			}
			return id, fmt.Errorf("%w: %s and %s do not go together", err, u.parts[0].root, p.root)
		}
	}
	return id, nil
}

// Of what a commit covers there are at most so many URLs, and about so many bytes of pages.
const (
	uniteURLs  = 2000
	uniteBytes = 64 << 20
)

func (u *uniting) run(ctx context.Context) (err error) {
	u.choose()
	path := filepath.Join(u.o.Root, indexName)
	// One sync at the end is enough: until then nobody takes this for a tree.
	if u.index, err = storage.New(path, storage.Options{NoSync: true, SeenMemory: 1 << 20}); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{u.forgotten, u.seedList, u.records, u.besides, u.edges, u.forget, u.marks} {
		if err = step(ctx); err != nil {
			return errors.Join(err, u.index.Close())
		}
	}
	u.tell("making it durable", 0, 0)
	err = u.index.Close()
	if err == nil {
		err = iut.DiskError("sync the index", syncFile(path))
	}
	if err == nil {
		err = u.tree.Sync()
	}
	if err != nil {
		return err
	}
	kept := u.options.format.Kept
	for _, p := range u.parts {
		kept.Secrets = append(kept.Secrets, p.format.Kept.Secrets...)
	}
	slices.Sort(kept.Secrets)
	kept.Secrets = slices.Compact(kept.Secrets)
	return u.tree.Unite(u.options.format.Links, kept)
}

var errStopped = errors.New("stopped")

// forgotten takes over what any of the trees keeps out, before anything of it comes into this one.
func (u *uniting) forgotten(ctx context.Context) error {
	for _, p := range u.parts {
		u.keepOut = u.keepOut || !p.tree.Forgotten().Empty()
	}
	if !u.keepOut {
		return nil
	}
	_, err := u.tree.Forget(ctx, func(yield func(iut.ForgottenEntry, error) bool) {
		for _, p := range u.parts {
			err := p.tree.EachForgotten(func(e iut.ForgottenEntry) error {
				if !yield(e, nil) {
					return errStopped
				}
				return nil
			})
			if errors.Is(err, errStopped) || err != nil && !yield(iut.ForgottenEntry{}, err) {
				return
			}
		}
	})
	return err
}

// forget removes what names something that is kept out.
func (u *uniting) forget(ctx context.Context) error {
	if !u.keepOut {
		return nil
	}
	_, err := (&Forget{Tree: u.tree, Index: u.index, Tell: u.tell}).Run(ctx, func(func(iut.ForgottenEntry, error) bool) {})
	return err
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// choose takes the options of the tree whose latest run is the latest, and notes in which of them
// the others differ. It makes one run of all.
func (u *uniting) choose() {
	text := func(p *part) string { return fmt.Sprintf("%+v %q", p.format.Links, p.format.Kept.Options) }
	u.options = slices.MaxFunc(u.parts, func(a, b *part) int {
		return cmp.Or(cmp.Compare(a.ended(), b.ended()), cmp.Compare(text(a), text(b)))
	})
	named := map[string]bool{}
	for _, p := range u.parts {
		u.total += p.index.Totals().Records()
		if len(p.runs) == 0 {
			continue
		}
		if first := p.runs[0].Start; u.run1.ID == 0 || first < u.run1.Start {
			u.run1.Start = first
		}
		u.run1.ID, u.run1.End = 1, max(u.run1.End, p.ended())
		u.relink = u.relink || !reflect.DeepEqual(p.format.Links, u.options.format.Links)
		for _, d := range differences(p.format, u.options.format) {
			if !named[d.name] {
				named[d.name] = true
				u.report.Differ = append(u.report.Differ, fmt.Sprintf("the trees differ in %s: %s in %s, %s in %s; that of %s, which ran last, counts",
					d.name, d.a, p.root, d.b, u.options.root, u.options.root))
			}
		}
	}
	u.run1.Clean, u.run1.Outcomes, u.run1.Statuses = true, map[string]int64{}, map[string]int64{}
}

// A difference is an option, and its values in two trees.
type difference struct{ name, a, b string }

func differences(a, b iut.Format) (list []difference) {
	x, y := optionsOf(a), optionsOf(b)
	for name := range x {
		if y[name] == "" {
			y[name] = "not given"
		}
	}
	for name, value := range y {
		if other := cmp.Or(x[name], "not given"); other != value {
			list = append(list, difference{"-" + name, other, value})
		}
	}
	slices.SortFunc(list, func(a, b difference) int { return cmp.Compare(a.name, b.name) })
	return list
}

// optionsOf returns the options that FORMAT has, as texts.
func optionsOf(f iut.Format) map[string]string {
	all := map[string]string{}
	for _, option := range f.Kept.Options {
		name, value, _ := strings.Cut(option, "=")
		all[name] = strings.TrimSpace(all[name] + " " + value)
	}
	return all
}

// marks writes the run that all have become, and what the next run is to look at again.
func (u *uniting) marks(ctx context.Context) error {
	options, err := u.options.index.Marks().LinkOptions()
	if err != nil {
		return err
	}
	unclean := false
	for _, p := range u.parts {
		relink, err := p.index.Marks().NeedsRelink()
		if err != nil {
			return err
		}
		u.relink, unclean = u.relink || relink, unclean || p.unclean
	}
	links, err := json.Marshal(u.options.format.Links)
	if err != nil {
		return err
	}
	u.relink = u.relink || options != nil && string(options) != string(links)
	err = u.index.Fill(func(f *storage.Filler) error {
		if u.run1.ID != 0 {
			u.run1.Found = u.report.URLs
			key, value, err := u.run1.Encode()
			if err = cmp.Or(err, f.Put(record.BucketRun, key, value)); err != nil {
				return err
			}
		}
		if u.relink {
			if err := putRelink(f); err != nil {
				return err
			}
		}
		if options == nil {
			return nil
		}
		return f.Put(record.BucketSys, record.KeyOptions, record.Seal(options, record.KeyOptions))
	})
	if err == nil {
		err = u.index.Marks().Review()
	}
	if err == nil && unclean {
		err = u.index.Runs().MarkUnclean()
	}
	return err
}
