package repair

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"urltree/cleaner"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// MergeOptions say what to merge.
type MergeOptions struct {
	Root   string // of the tree
	Output string // result file, see [cleaner.FilesFor]
	// Parser makes the parser for the link options that FORMAT has.
	Parser func(iut.Format) (Parser, error)
	NoSync bool         // leave out all syncing of the tree and the index
	Log    *slog.Logger // nil: no log
	Tell   Tell         // nil: nobody is told
}

// A Tell is called with a step of long work, and with how many of how many are done in it; total
// is 0 where it is not known.
type Tell func(what string, done, total int64)

func orSilent(tell Tell) Tell {
	if tell == nil {
		return func(string, int64, int64) {}
	}
	return tell
}

// Merge makes index and results agree with the folders, from them, seeds.txt and FORMAT alone if
// need be. A missing index is made anew, and so is one that is damaged or does not agree with
// itself: the old file is kept beside it as index.db.damaged-TIME, and what is whole in it is taken
// over. Then the folders are read, after which the next
// start counts as one after an unclean stop; the index is compacted, and the result files are
// written. Done twice, it changes nothing.
//
// A tree whose pages are being brought into another store, see [Convert], is merged only if its
// index is missing or damaged, from the store that FORMAT names; else the error is
// iut.ErrConverting. Likewise iut.ErrForgetting for one from which not all is removed yet that is
// to be forgotten, see [Forget].
//
// A tree of the version before is upgraded first, see [storage.Upgrade] and [iut.Options].
//
// It takes the tree's LOCK: iut.ErrBusy if somebody else has it. A tree that is not there is
// fs.ErrNotExist, an index of another version of the format storage.ErrSchema.
func Merge(ctx context.Context, o MergeOptions) (report Report, err error) {
	o.Log, o.Tell = orDiscard(o.Log), orSilent(o.Tell)
	files, err := cleaner.FilesFor(o.Root, o.Output)
	if err != nil {
		return report, err
	}
	mode := iut.SyncFull
	if o.NoSync {
		mode = iut.SyncNone
	}
	tree, err := iut.Open(o.Root, iut.Options{Sync: mode, Upgrade: true, Converting: true, Forgetting: true})
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, tree.Close()) }()
	parser, err := o.Parser(tree.Format())
	if err != nil {
		return report, err
	}
	path := filepath.Join(o.Root, indexName)
	report, err = o.index(ctx, tree, path, parser)
	if err != nil {
		return report, err
	}
	o.Tell("writing the index and the results", 0, 0)
	if err := boltfile.Compact(path, o.NoSync); err != nil {
		return report, iut.DiskError("merge", err)
	}
	index, err := storage.Open(path, storage.Options{ReadOnly: true})
	if err != nil {
		return report, fmt.Errorf("merge: %w", err)
	}
	defer func() { err = errors.Join(err, index.Close()) }()
	return report, cleaner.Clean(ctx, cleaner.Steps{Index: index, Files: files, Root: o.Root, Log: o.Log})
}

// index brings index.db to the state of the folders.
func (o *MergeOptions) index(ctx context.Context, tree *iut.Tree, path string, p Parser) (Report, error) {
	opts := storage.Options{NoSync: o.NoSync, Limits: limitsOf(tree.Format().Links)}
	there, err := storage.Exists(path)
	if err != nil {
		return Report{}, iut.DiskError("merge", err)
	}
	if !there {
		if err := tree.Finish(nil); err != nil {
			return Report{}, err
		}
		report, err := newIndex(ctx, tree, opts, "", p, o.Log, o.Tell)
		report.Index = "made anew, there was none"
		return report, err
	}
	o.Tell("reading the index", 0, 0)
	upgraded, err := storage.Upgrade(path, o.NoSync)
	if err == nil {
		err = verify(ctx, path)
	}
	if err == nil && tree.Format().Converting != "" {
		return Report{}, fmt.Errorf("%w of %s", iut.ErrConverting, o.Root)
	}
	if err == nil && tree.Format().Forgetting {
		return Report{}, fmt.Errorf("%w of %s", iut.ErrForgetting, o.Root)
	}
	if err == nil {
		report, err := o.into(ctx, tree, path, opts, p)
		if upgraded {
			report.Index = "brought from the version before to this one, with all that it knew"
		}
		return report, err
	}
	if !errors.Is(err, record.ErrDamaged) {
		return Report{}, err
	}
	if err := tree.Finish(nil); err != nil {
		return Report{}, err
	}
	kept := path + ".damaged-" + time.Now().UTC().Format("20060102T150405.000Z") // no two merges end in a millisecond
	o.Log.Warn("index.db is made anew", "err", err, "kept", kept)
	report, err := newIndex(ctx, tree, opts, kept, p, o.Log, o.Tell)
	report.Index = fmt.Sprintf("was damaged and is made anew from the folders and %d of its records; the old one is kept as %s",
		report.Salvaged, filepath.Base(kept))
	return report, err
}

// verify returns record.ErrDamaged for an index that must not be used as it is.
func verify(ctx context.Context, path string) (err error) {
	index, err := storage.Open(path, storage.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, iut.DiskError("merge", index.Close())) }()
	// Counters and rows that do not follow from the records would stay wrong for ever.
	faults, first := 0, ""
	_, err = index.Verify(ctx, func(fault string) {
		if faults++; faults == 1 {
			first = fault
		}
	})
	switch {
	case err != nil:
		return err
	case faults == 1:
		return fmt.Errorf("%w: %s", record.ErrDamaged, first)
	case faults > 1:
		return fmt.Errorf("%w: %d faults, the first: %s", record.ErrDamaged, faults, first)
	}
	return nil
}

// into works on the index that is there, and whole.
func (o *MergeOptions) into(ctx context.Context, tree *iut.Tree, path string, opts storage.Options, p Parser) (report Report, err error) {
	index, err := storage.Open(path, opts)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, index.Close()) }()
	if err := tree.Finish(index.Record); err != nil {
		return report, err
	}
	// Before the first change: a kill from here on must not pass for a clean stop.
	if err := index.Runs().MarkUnclean(); err != nil {
		return report, iut.DiskError("merge", err)
	}
	r := newRebuild(tree, index, p, o.Log)
	r.tell = o.Tell
	report, err = r.run(ctx)
	if err == nil {
		err = (&Graph{Tree: tree, Index: index, Log: o.Log}).Mend(ctx)
	}
	report.Index = "kept"
	return report, err
}
