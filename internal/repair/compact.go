package repair

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"urltree/internal/words"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// CompactOptions say what to compact.
type CompactOptions struct {
	Root     string             // of the tree
	Segments iut.SegmentOptions // of new segments
	Tell     Tell               // nil: nobody is told
	Log      *slog.Logger       // nil: no log
}

// A CompactReport is what a compaction did.
type CompactReport struct {
	Segments      int   // written anew and removed
	Captures      int64 // that were left out
	Left          int   // segments that were left as they are, though something in them is of no use: see the log
	Before, After int64 // bytes of segments
	IndexBefore   int64 // bytes of index.db
	IndexAfter    int64
}

// Compact writes anew those segments in which there are captures of forgotten URLs, or of pages
// that were stored anew since, without these, and index.db without free pages.
//
// A segment is written anew as a whole: its captures are durable elsewhere and the index says where
// before it goes, so a kill leaves at most captures that are there twice, of which the next Compact
// removes one. A revisit whose body goes, or moves, is written anew as well.
//
// It takes the tree's LOCK: iut.ErrBusy if somebody else has it. The error is iut.ErrDisk with
// ENOSPC, and nothing is changed, if the disk has not the room that it needs on the way.
func Compact(ctx context.Context, o CompactOptions) (report CompactReport, err error) {
	tree, err := iut.Open(o.Root, iut.Options{Segments: o.Segments})
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, tree.Close()) }()
	path := filepath.Join(o.Root, indexName)
	if there, err := storage.Exists(path); err != nil || !there {
		return report, fmt.Errorf("%w: %s is not there", record.ErrDamaged, path)
	}
	c := newCompaction(tree, o)
	if err := c.sizeOf(path, &c.report.IndexBefore); err != nil {
		return c.report, err
	}
	if c.index, err = storage.Open(path, storage.Options{}); err != nil { // which looks whether it is whole
		return c.report, err
	}
	if err = errors.Join(c.run(ctx), iut.DiskError("index", c.index.Close())); err != nil {
		return c.report, err
	}
	if err := c.room(c.report.IndexBefore); err != nil {
		return c.report, err
	}
	c.tell("writing the index", 0, 0)
	if err := boltfile.Compact(path, false); err != nil {
		return c.report, iut.DiskError("compact", err)
	}
	return c.report, c.sizeOf(path, &c.report.IndexAfter)
}

type compaction struct {
	tree   *iut.Tree
	index  *storage.Index
	out    *iut.Compaction // nil: the tree is one of folders
	log    *slog.Logger
	tell   Tell
	report CompactReport

	sizes    map[uint32]int64 // of segments
	moved    map[string]record.Extent
	versions []record.Record // earlier ones that have moved
	seed     maphash.Seed
	seen     map[uint64]uint64 // where captures are that are no pages, and of which the index does not know, by their ID
	done     int64             // bytes that were read
}

func newCompaction(tree *iut.Tree, o CompactOptions) *compaction {
	return &compaction{
		tree: tree, out: tree.Compact(), log: orDiscard(o.Log), tell: orSilent(o.Tell),
		moved: map[string]record.Extent{}, seen: map[uint64]uint64{}, seed: maphash.MakeSeed(),
	}
}

func (c *compaction) sizeOf(path string, n *int64) error {
	info, err := os.Stat(path)
	if err == nil {
		*n = info.Size()
	}
	return iut.DiskError("look at the index", err)
}

// A segmentPlan says what is to be done with a segment.
type segmentPlan struct {
	dead    int64           // captures that are left out
	dirty   bool            // a capture in it names what is forgotten
	unknown bool            // it has pages that the index does not know yet
	bodies  map[uint32]bool // segments that have bodies of its revisits
}

// run writes segments anew, if the tree has some.
func (c *compaction) run(ctx context.Context) (err error) {
	if c.out == nil {
		return nil
	}
	known := iut.Committed{Has: func(f iut.Facts) bool {
		rec, err := c.index.Record(f.URL)
		return err == nil && (rec.Extent == f.Extent || rec.State == record.Stored && f.Time <= rec.Time)
	}}
	if known.Ends, err = c.index.Marks().SegmentEnds(ctx); err == nil {
		known.Open, err = c.index.Marks().SegmentsOpen(ctx)
	}
	if err == nil {
		err = c.tree.Recover(known)
	}
	if err == nil {
		c.sizes, err = c.out.Segments()
	}
	if err != nil {
		return err
	}
	for _, size := range c.sizes {
		c.report.Before += size
	}
	plans, err := c.look(ctx)
	if err != nil {
		return err
	}
	o := &order{plans: plans, list: c.choose(plans), sizes: c.sizes}
	if err := c.room(o.peak()); err != nil {
		return err
	}
	for i, number := range o.list {
		c.tell("writing WARC files anew", int64(i), int64(len(o.list)))
		if err := c.rewrite(ctx, number, o); err != nil {
			return err
		}
		for _, number := range o.rewritten(number) {
			if err := c.remove(number); err != nil {
				return err
			}
		}
	}
	if c.sizes, err = c.out.Segments(); err == nil {
		for _, size := range c.sizes {
			c.report.After += size
		}
	}
	return err
}

// room returns ENOSPC if the disk has less than so many bytes.
func (c *compaction) room(need int64) error {
	free, _, err := c.tree.Free()
	if err != nil {
		return iut.DiskError("compact", err)
	}
	if free < uint64(need) {
		return fmt.Errorf("%w: compact needs about %s on its way, the disk has %s free: %w", iut.ErrDisk,
			words.Bytes(need), words.Bytes(int64(free)), syscall.ENOSPC)
	}
	return nil
}

// look reads all segments.
func (c *compaction) look(ctx context.Context) (map[uint32]*segmentPlan, error) {
	plans := map[uint32]*segmentPlan{}
	total := int64(0)
	for _, size := range c.sizes {
		total += size
	}
	for _, number := range slices.Sorted(maps.Keys(c.sizes)) {
		p := &segmentPlan{bodies: map[uint32]bool{}}
		err := c.out.Each(number, func(k *iut.Capture) error {
			c.tell("reading WARC files", c.done+k.Extent.Offset, total)
			was := *k
			live, unknown, err := c.judge(k)
			switch {
			case err != nil:
				return err
			case !live:
				p.dead++
			case k.Body != 0 && k.Body != number:
				p.bodies[k.Body] = true
			}
			p.unknown = p.unknown || unknown
			p.dirty = p.dirty || live && (k.Source != was.Source || k.Via != was.Via)
			return context.Cause(ctx)
		})
		if errors.Is(err, iut.ErrTorn) { // what stands behind the damage may need bodies in any other
			return nil, fmt.Errorf("%w: nothing is compacted: %s is damaged: %w", iut.ErrTree, c.out.Name(number), err)
		}
		if err != nil {
			return nil, err
		}
		c.done += c.sizes[number]
		plans[number] = p
	}
	return plans, nil
}

// judge decides whether a capture is still of use, and has it no longer name what is forgotten.
// unknown says that it is a page of which the index does not know yet, as a kill leaves it.
func (c *compaction) judge(k *iut.Capture) (live, unknown bool, err error) {
	list := c.tree.Forgotten()
	if gone, err := list.Has(k.URL); gone || err != nil {
		return false, false, err
	}
	rec, err := c.index.Record(k.URL)
	if err != nil && !errors.Is(err, storage.ErrNotFound) && !errors.Is(err, record.ErrCorrupt) && !errors.Is(err, record.ErrKey) {
		return false, false, err
	}
	here := err == nil && rec.Extent == k.Extent
	if k.Page && !here {
		v, err := c.version(k)
		if err != nil {
			return false, false, err
		}
		if v != nil {
			here, rec = true, *v
		}
	}
	elsewhere := err == nil && !here && !rec.Extent.IsZero()
	switch {
	case k.Page && elsewhere:
		return false, false, nil // it was stored anew
	case k.Page && !here:
		return true, true, nil
	case !here && elsewhere && rec.State == record.Redirected:
		return false, false, nil
	case !here:
		id, place := maphash.String(c.seed, k.ID), uint64(k.Extent.Segment)<<40|uint64(k.Extent.Offset)
		if first, ok := c.seen[id]; ok && first != place {
			return false, false, nil // a kill has left it twice
		}
		c.seen[id] = place
	}
	if k.Source, err = list.Source(k.Source); err != nil {
		return false, false, err
	}
	if here && k.Page && rec.Source == record.Forgotten {
		k.Source = record.Forgotten
	}
	gone, err := list.Has(k.Via)
	if gone {
		k.Via = ""
	}
	return true, false, err
}

// choose returns the segments that are written anew, in order: those with something to leave out,
// and those with revisits of bodies in one of these.
func (c *compaction) choose(plans map[uint32]*segmentPlan) []uint32 {
	chosen := map[uint32]bool{}
	for number, p := range plans {
		chosen[number] = p.dead > 0 || p.dirty
	}
	for again := true; again; {
		again = false
		for number, p := range plans {
			for body := range p.bodies {
				if chosen[body] && !chosen[number] {
					chosen[number], again = true, true
				}
				if chosen[body] && p.unknown { // it cannot be written anew, so that one stays as well
					plans[body].unknown = true
				}
			}
		}
		for number, p := range plans {
			if p.unknown && chosen[number] {
				c.log.Warn("a WARC file has pages that the index does not know yet, or that others need: left until after the next run", "file", c.out.Name(number))
				c.report.Left++
				delete(plans, number)
				delete(chosen, number)
				again = true
			}
		}
	}
	var list []uint32
	for number, yes := range chosen {
		if yes {
			list = append(list, number)
			c.report.Captures += plans[number].dead
		}
	}
	slices.Sort(list)
	return list
}

// An order says which segments are written anew, and when each may go: once all those are written
// that have revisits of bodies in it.
type order struct {
	plans map[uint32]*segmentPlan
	list  []uint32
	sizes map[uint32]int64
	done  map[uint32]bool // of list; false: it has gone
}

// rewritten notes that a segment is written anew, and returns those that may go now.
func (o *order) rewritten(number uint32) (gone []uint32) {
	if o.done == nil {
		o.done = map[uint32]bool{}
	}
	o.done[number] = true
	for body, there := range o.done {
		if !there || slices.ContainsFunc(o.list, func(n uint32) bool {
			_, done := o.done[n]
			return !done && o.plans[n].bodies[body]
		}) {
			continue
		}
		o.done[body] = false
		gone = append(gone, body)
	}
	return gone
}

// goes reports whether a segment is written anew.
func (o *order) goes(number uint32) bool {
	_, ok := slices.BinarySearch(o.list, number)
	return ok
}

// peak returns about how many bytes there are twice at most.
func (o *order) peak() (most int64) {
	try, twice := &order{plans: o.plans, list: o.list, sizes: o.sizes}, int64(0)
	for _, number := range try.list {
		twice += try.sizes[number]
		most = max(most, twice)
		for _, gone := range try.rewritten(number) {
			twice -= try.sizes[gone]
		}
	}
	return most
}

// rewrite moves what is of use in a segment.
func (c *compaction) rewrite(ctx context.Context, number uint32, o *order) error {
	err := c.out.Each(number, func(k *iut.Capture) error {
		live, _, err := c.judge(k)
		if err != nil || !live {
			return err
		}
		at, err := c.out.Move(k, k.Body != 0 && o.goes(k.Body))
		if err != nil {
			return err
		}
		if err := c.note(k, at); err != nil {
			return err
		}
		if len(c.moved)+len(c.versions) >= forgetRecords {
			if err := c.commit(); err != nil {
				return err
			}
		}
		return context.Cause(ctx)
	})
	if err == nil {
		err = c.commit()
	}
	if err == nil {
		c.report.Segments++
	}
	return err
}

// remove removes a segment of which nothing is needed any more: first from the index, which would
// take it for damage that it is not there.
func (c *compaction) remove(number uint32) error {
	err := iut.DiskError("index", c.index.Marks().ForgetSegment(number))
	if err == nil {
		err = c.out.Remove(number)
	}
	return err
}

// commit makes durable what was moved, and has the index know of it.
func (c *compaction) commit() error {
	err := c.tree.Sync()
	if err == nil && len(c.moved) > 0 {
		err = iut.DiskError("index", c.index.Marks().SetExtents(c.moved))
	}
	if err == nil {
		err = iut.DiskError("index", c.index.Versions().Set(c.versions))
	}
	clear(c.moved)
	c.versions = c.versions[:0]
	return err
}

// version returns the earlier version that a capture has, if it is one that is kept; else nil.
func (c *compaction) version(k *iut.Capture) (*record.Record, error) {
	list, err := c.index.Versions().Of(k.URL)
	if err != nil && !errors.Is(err, record.ErrCorrupt) {
		return nil, err
	}
	for i := range list {
		if list[i].Extent == k.Extent {
			return &list[i], nil
		}
	}
	return nil, nil
}

// note keeps where a capture has moved to, if it is one that the index has.
func (c *compaction) note(k *iut.Capture, at record.Extent) error {
	if rec, err := c.index.Record(k.URL); err == nil && rec.Extent == k.Extent {
		c.moved[k.URL] = at
		return nil
	}
	v, err := c.version(k)
	if v != nil {
		v.Extent = at
		c.versions = append(c.versions, *v)
	}
	return err
}
