package repair

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"syscall"

	"urltree/internal/spool"
	"urltree/internal/words"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// ConvertOptions say how the store of a tree is changed.
type ConvertOptions struct {
	Root     string             // of the tree
	Store    string             // the one that pages are to be in, see [iut.Identity]
	Segments iut.SegmentOptions // of new segments
	// Progress, if not nil, is told what is done, and of how many pages; total 0: nobody knows.
	Progress func(what string, done, total int)
	Log      *slog.Logger // nil: no log

	most int // pages that a commit covers; 0: convertPages. Tests have less.
}

// A ConvertReport is what a conversion did.
type ConvertReport struct {
	Already  bool // the tree had that store, and nothing was to be done
	GivenUp  bool // what an unfinished conversion had made is removed
	Pages    int  // stored pages that were copied by this call
	Damaged  int  // stored pages that were not whole: they are pending again
	Versions int  // earlier versions that were copied
	Unknown  int  // of the pages, those of which the index does not know yet
}

// Convert brings the pages of a tree into another store, in place. Index and results stay as they
// are, but that the index says where in segments a page is. See [iut.Conversion] for the states
// between which a kill may come; the same call goes on then, and one with the store that the tree
// has ends the conversion and removes what it had made.
//
// The order of the durable steps: a page, then how far the conversion is in the index; all pages,
// then FORMAT, which names the other store; then what is in the old one goes.
//
// A stored page that is not whole becomes pending again, and its files, or its segment, are kept
// under names that end in .damaged.
//
// It takes the tree's LOCK: iut.ErrBusy if somebody else has it. The error is iut.ErrDisk with
// ENOSPC, and nothing is changed, if the disk has not the room that it will probably need.
func Convert(ctx context.Context, o ConvertOptions) (report ConvertReport, err error) {
	tree, err := iut.Open(o.Root, iut.Options{Converting: true, Segments: o.Segments})
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, tree.Close()) }()
	if now := tree.Format(); now.Converting == "" && o.Store == now.StoreName() {
		return ConvertReport{Already: true}, nil
	}
	index, err := storage.Open(filepath.Join(o.Root, indexName), storage.Options{})
	if errors.Is(err, fs.ErrNotExist) {
		return report, fmt.Errorf("%w: %w", record.ErrDamaged, err)
	}
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, index.Close()) }()
	if err := tree.Finish(index.Record); err != nil {
		return report, err
	}
	return convert(ctx, tree, index, o)
}

// convert is Convert of a tree that is open.
func convert(ctx context.Context, tree *iut.Tree, index *storage.Index, o ConvertOptions) (ConvertReport, error) {
	c := &conversion{
		tree: tree, index: index, to: o.Store, plain: o.Segments.Plain, most: cmp.Or(o.most, convertPages),
		tell: o.Progress, log: orDiscard(o.Log),
	}
	if c.tell == nil {
		c.tell = func(string, int, int) {}
	}
	err := c.run(ctx)
	return c.report, err
}

type conversion struct {
	tree   *iut.Tree
	index  *storage.Index
	to     string
	plain  bool
	most   int // pages that a commit covers
	tell   func(what string, done, total int)
	log    *slog.Logger
	report ConvertReport

	conv  *iut.Conversion
	total int // pages to be copied

	// Since the last commit:
	copied map[string]record.Extent // by URL
	upTo   record.Extent            // of the last page of segments
	bytes  int64
	lost   []string // URLs of pages that are not whole
}

// run goes through the states of [iut.Conversion], from the one that the tree is in.
func (c *conversion) run(ctx context.Context) error {
	now := c.tree.Format()
	has := now.StoreName()
	if now.Converting == has || now.Converting != "" && c.to == has {
		if err := c.end(ctx, has); err != nil {
			return err
		}
		c.report.GivenUp = now.Converting != has
	}
	if c.to == has {
		return nil
	}
	need, err := c.need(ctx)
	if err == nil {
		err = c.room(need)
	}
	if err == nil && c.tree.Format().Converting == "" {
		err = c.prepare(ctx)
	}
	if err != nil {
		return err
	}
	if err = c.copy(ctx); errors.Is(err, errLost) {
		c.log.Warn("the conversion begins anew", "err", err)
		if err = c.end(ctx, has); err == nil {
			err = c.run(ctx)
		}
		return err
	}
	if err != nil {
		return err
	}
	return c.end(ctx, c.to)
}

// errLost says that copies are not there any more which the index calls durable.
var errLost = errors.New("copies are lost")

// prepare makes sure that nothing in the index says that a part is done already, and that what it
// says of segments is so.
func (c *conversion) prepare(ctx context.Context) error {
	if c.to == iut.StoreWARC {
		return c.forget(ctx)
	}
	ends, err := c.index.Marks().SegmentEnds(ctx)
	if err == nil {
		err = c.tree.Recover(iut.Committed{Ends: ends})
	}
	if err != nil {
		return err
	}
	return iut.DiskError("index", c.index.Marks().SetCopied(record.Extent{}))
}

// copy brings all pages into the other store, and makes that the one of the tree.
func (c *conversion) copy(ctx context.Context) (err error) {
	if c.conv, err = c.tree.Convert(c.to); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.conv.Close()) }()
	each := c.eachFolder
	if c.to == iut.StoreFolders {
		each = c.eachRecord
	}
	c.copied = map[string]record.Extent{}
	err = each(ctx)
	if err == nil || ctx.Err() != nil { // what is done is done
		err = errors.Join(err, c.commit())
	}
	if err == nil {
		err = c.copyVersions(ctx)
	}
	if err == nil {
		err = c.unknown(ctx)
	}
	if err == nil {
		err = c.conv.Other().Sync()
	}
	if err != nil {
		return err
	}
	return c.conv.Switch()
}

// eachFolder copies the stored pages of folders that are in no segment yet, in the order of
// folders.
func (c *conversion) eachFolder(ctx context.Context) error {
	ends, err := c.index.Marks().SegmentEnds(ctx)
	if err != nil {
		return err
	}
	if err := c.conv.Other().Recover(iut.Committed{Ends: ends}); errors.Is(err, record.ErrDamaged) {
		return fmt.Errorf("%w: %w", errLost, err)
	} else if err != nil {
		return err
	}
	return c.index.Records(ctx, nil, func(r record.Record, err error) error {
		if err != nil || r.State != record.Stored || !r.Extent.IsZero() {
			return cmp.Or(err, context.Cause(ctx))
		}
		return cmp.Or(c.page(&r), context.Cause(ctx))
	})
}

// eachRecord copies the stored pages of segments, in their order there, from where the last commit
// has come to.
func (c *conversion) eachRecord(ctx context.Context) error {
	upTo, err := c.index.Marks().Copied()
	if err != nil && !errors.Is(err, record.ErrCorrupt) { // then copies that are there are looked at again
		return err
	}
	if err := mendEnds(ctx, c.tree, c.index, c.log); err != nil {
		return err
	}
	ends, err := c.index.Marks().SegmentEnds(ctx)
	if err == nil {
		err = c.tree.Recover(iut.Committed{Ends: ends})
	}
	if err != nil {
		return err
	}
	pages := spool.NewSorter(16<<20, 16)
	defer pages.Close()
	err = c.index.Records(ctx, nil, func(r record.Record, err error) error {
		if err != nil || r.State != record.Stored || !after(r.Extent, upTo) {
			return err
		}
		key := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, r.Extent.Segment), uint64(r.Extent.Offset))
		return pages.Add(spool.Row{Key: string(key), Sub: r.URL})
	})
	if err != nil {
		return err
	}
	for next := pages.Sorted(); ; {
		row, err := next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		r, err := c.index.Record(row.Sub)
		if err == nil {
			err = c.page(&r)
		}
		if err = cmp.Or(err, context.Cause(ctx)); err != nil {
			return err
		}
	}
}

// after reports whether a page stands behind another one in the segments.
func after(a, b record.Extent) bool {
	return a.Segment > b.Segment || a.Segment == b.Segment && a.Offset > b.Offset
}

// Of what a commit covers there are at most so many pages, and about so many bytes.
const (
	convertPages = 2000
	convertBytes = 64 << 20
)

// page copies a stored page, or notes that it is not whole.
func (c *conversion) page(r *record.Record) error {
	if err := c.index.WaitForRoom(); err != nil {
		return err
	}
	f, err := c.conv.Copy(iut.FactsOf(r))
	switch {
	case err == nil && f.Digest == r.Digest:
		c.copied[r.URL] = f.Extent
		c.report.Pages++
	case err == nil, errors.Is(err, iut.ErrTorn), errors.Is(err, fs.ErrNotExist):
		c.log.Warn("a stored page is not whole: its URL is pending again", "url", r.URL, "err", err)
		if err := c.conv.KeepDamaged(iut.FactsOf(r)); err != nil {
			return err
		}
		c.lost = append(c.lost, r.URL)
		c.report.Damaged++
	default:
		return err
	}
	c.upTo = r.Extent
	c.bytes += r.Bytes
	c.tell("copying", c.report.Pages+c.report.Damaged, c.total)
	if len(c.copied)+len(c.lost) < c.most && c.bytes < convertBytes {
		return nil
	}
	return c.commit()
}

// commit makes durable what was copied, and has the index know of it.
func (c *conversion) commit() error {
	if len(c.copied)+len(c.lost) == 0 {
		return nil
	}
	if err := c.conv.Other().Sync(); err != nil {
		return err
	}
	if _, err := c.index.ReopenURLs(c.lost); err != nil {
		return iut.DiskError("index", err)
	}
	var err error
	if c.to == iut.StoreWARC {
		err = c.index.Marks().SetExtents(c.copied)
	} else {
		err = c.index.Marks().SetCopied(c.upTo)
	}
	clear(c.copied)
	c.bytes, c.lost = 0, c.lost[:0]
	return iut.DiskError("index", err)
}

// unknown copies the pages that the index does not call stored, as a kill of a crawl leaves them: a
// later run finds them in the other store as well.
func (c *conversion) unknown(ctx context.Context) error {
	c.tell("looking for pages that the index does not know", 0, 0)
	return c.conv.Rest(func(at iut.Facts) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		switch r, err := c.index.Record(at.URL); {
		case err == nil && r.State == record.Stored:
			return nil
		case err != nil && !errors.Is(err, storage.ErrNotFound) && !errors.Is(err, record.ErrCorrupt):
			return err
		}
		_, err := c.conv.Copy(at)
		if errors.Is(err, iut.ErrTorn) || errors.Is(err, fs.ErrNotExist) {
			_, err = c.tree.RemoveTorn(at, false) // it did not count in this store either
			return err
		}
		if err == nil {
			c.report.Unknown++
		}
		return err
	})
}

// end removes what is in the store other than the one that the tree has, and ends the conversion.
func (c *conversion) end(ctx context.Context, has string) (err error) {
	conv, err := c.tree.Convert(has)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conv.Close()) }()
	if has == iut.StoreFolders {
		err = c.forget(ctx)
	} else {
		err = iut.DiskError("index", c.index.Marks().SetCopied(record.Extent{}))
	}
	if err != nil {
		return err
	}
	done := 0
	return conv.End(func() error {
		done++
		c.tell("removing the pages of the old store", done, 0)
		return context.Cause(ctx)
	})
}

// forgetPages is how many records a transaction has that forget their place in segments.
const forgetPages = 10_000

// forget drops what the index knows of segments.
func (c *conversion) forget(ctx context.Context) error {
	gone := map[string]record.Extent{}
	flush := func() error {
		if len(gone) == 0 {
			return nil
		}
		err := c.index.Marks().SetExtents(gone)
		clear(gone)
		return iut.DiskError("index", err)
	}
	err := c.index.Records(ctx, nil, func(r record.Record, err error) error {
		if err != nil || r.Extent.IsZero() {
			return err
		}
		if gone[r.URL] = (record.Extent{}); len(gone) < forgetPages {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if err == nil {
		err = c.forgetVersions(ctx)
	}
	if err == nil {
		err = iut.DiskError("index", c.index.Marks().ForgetSegments())
	}
	if err == nil {
		err = iut.DiskError("index", c.index.Marks().SetCopied(record.Extent{}))
	}
	return err
}

// A room is what a conversion takes on the disk, roughly.
type room struct{ bytes, inodes uint64 }

// need returns the room for the pages that are not copied yet, and counts them.
func (c *conversion) need(ctx context.Context) (need room, err error) {
	begun := c.tree.Format().Converting != ""
	upTo, err := c.index.Marks().Copied()
	if err != nil && !errors.Is(err, record.ErrCorrupt) {
		return need, err
	}
	err = c.index.Records(ctx, nil, func(r record.Record, err error) error {
		switch {
		case err != nil:
			return err
		case r.State != record.Stored:
		case c.to == iut.StoreFolders && (!begun || after(r.Extent, upTo)):
			const block = 4 << 10 // content.html, source.txt and the folder
			need.bytes += uint64(r.Bytes+block-1)/block*block + 2*block
			need.inodes += 3
			c.total++
		case c.to == iut.StoreWARC && (!begun || r.Extent.IsZero()):
			body := r.Bytes
			if !c.plain && isText(r.Media) {
				body /= 2 // or less
			}
			need.bytes += uint64(body) + recordBytes
			c.total++
		}
		return nil
	})
	return need, err
}

// recordBytes is what a page takes in a segment besides its body, and in the index.
const recordBytes = 1500

// isText reports whether bodies of a media type become much smaller when they are compressed.
func isText(media string) bool {
	for _, part := range []string{"text/", "xml", "json", "javascript"} {
		if strings.Contains(media, part) {
			return true
		}
	}
	return false
}

// room returns ENOSPC if the disk has less than what is needed.
func (c *conversion) room(need room) error {
	bytes, inodes, err := c.tree.Free()
	switch {
	case err != nil:
		return iut.DiskError("convert", err)
	case bytes < need.bytes:
		return fmt.Errorf("%w: convert needs about %s besides what the tree has, the disk has %s free: %w", iut.ErrDisk,
			words.Bytes(int64(need.bytes)), words.Bytes(int64(bytes)), syscall.ENOSPC)
	case inodes < need.inodes:
		return fmt.Errorf("%w: convert needs about %s besides those of the tree, the disk has %d free: %w", iut.ErrDisk,
			words.Count(need.inodes, "inode"), inodes, syscall.ENOSPC)
	}
	return nil
}
