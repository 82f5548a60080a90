package repair

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"urltree/internal/edges"
	"urltree/internal/groups"
	"urltree/internal/spool"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// fill calls fn for each key that one of the parts has, in transactions of bounded size, with its
// entries. What fn has written to the tree is durable before its transaction.
func fill[T any](ctx context.Context, u *uniting, of func(p *part) groups.Walk[T], fn func(f *storage.Filler, list []groups.Item[T]) error) error {
	var walks []groups.Walk[T]
	for _, p := range u.parts {
		walks = append(walks, of(p))
	}
	g, err := groups.Of(walks)
	if err != nil {
		return err
	}
	defer g.Close()
	for more := true; more; {
		err := u.index.Fill(func(f *storage.Filler) error {
			for n := 0; n < u.most && u.bytes < uniteBytes; n++ {
				list, err := g.Next()
				if err = cmp.Or(err, context.Cause(ctx)); err != nil {
					return err
				}
				if more = len(list) > 0; !more {
					break
				}
				if err := fn(f, list); err != nil {
					return err
				}
			}
			return u.durable(f)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// durable makes durable what was written to the tree, and says in the index how far it reaches.
func (u *uniting) durable(f *storage.Filler) error {
	if u.bytes == 0 && len(u.ends) == 0 {
		return nil
	}
	u.bytes = 0
	if err := u.tree.Sync(); err != nil {
		return err
	}
	for segment, end := range u.ends {
		key := record.KeySegment(segment)
		if err := f.Put(record.BucketSys, key, record.AppendEnd(nil, end, key)); err != nil {
			return err
		}
	}
	clear(u.ends)
	return nil
}

// entries returns a walk through a bucket, with copies: a transaction has them until its end.
func entries(ctx context.Context, bucket []byte) func(p *part) groups.Walk[[]byte] {
	return func(p *part) groups.Walk[[]byte] {
		return func(each func(key, value []byte) error) error {
			return p.index.Entries(ctx, bucket, func(key, value []byte) error {
				return each(bytes.Clone(key), bytes.Clone(value))
			})
		}
	}
}

// records joins the records, in the order of keys, and copies the page of each that is stored.
func (u *uniting) records(ctx context.Context) error {
	of := func(p *part) groups.Walk[record.Record] {
		return func(each func(key []byte, r record.Record) error) error {
			return p.index.Records(ctx, nil, func(r record.Record, err error) error {
				key, kerr := record.Key(r.URL)
				if err = cmp.Or(err, kerr); err != nil {
					u.report.At = p.root
					return err
				}
				r.Run = 0 // of another list of runs
				return each(key, r)
			})
		}
	}
	return fill(ctx, u, of, u.record)
}

// record takes a URL into the tree.
func (u *uniting) record(f *storage.Filler, list []groups.Item[record.Record]) error {
	u.done += int64(len(list))
	u.tell("uniting URLs", u.done, u.total)
	if gone, err := u.tree.Forgotten().Has(list[0].Value.URL); gone || err != nil {
		return err
	}
	if err := u.compare(list); err != nil {
		return err
	}
	key, seed := list[0].Key, false
	for _, it := range list {
		seed = seed || it.Value.Source == record.Seed
	}
	r, from, err := u.settle(list)
	if err != nil {
		return err
	}
	u.report.URLs++
	r.Seq, r.Run = uint64(u.report.URLs), u.run1.ID
	if r.State != record.Pending {
		u.run1.Count(&r)
	}
	if e := r.Extent; !e.IsZero() {
		u.ends[e.Segment] = max(u.ends[e.Segment], e.Offset+e.Length)
	}
	f.Record(key, r)
	if seed && r.Source != record.Seed {
		err = f.Put(record.BucketScope, []byte(r.URL), record.Seal(nil, []byte(r.URL)))
	}
	if limit := u.options.format.Links.MaxDepth; err == nil && limit >= 0 && from != nil && r.Depth < from.Value.Depth {
		err = f.Put(record.BucketShorter, key, record.Seal(nil, key))
	}
	if err != nil || r.State != record.Stored {
		return err
	}
	u.report.Pages++
	meta, err := u.parts[from.Part].index.Meta(r.URL)
	if err != nil || meta == nil {
		return err
	}
	return f.Put(record.BucketMeta, key, meta.Append(nil, key))
}

// settle joins the records of a URL, and brings the page or the redirect that counts into the tree.
// from is the record that it is of; nil: none is. A page that is not whole does not count.
func (u *uniting) settle(list []groups.Item[record.Record]) (r record.Record, from *groups.Item[record.Record], err error) {
	for {
		r = placeless(list[0].Value)
		for _, it := range list[1:] {
			r = record.Join(r, placeless(it.Value))
		}
		if r.State != record.Stored && r.State != record.Redirected {
			return r, nil, nil
		}
		if from, err = u.best(list, &r); err != nil {
			return r, nil, err
		}
		at, p := iut.FactsOf(&from.Value), u.parts[from.Part]
		if r.State == record.Redirected {
			r.Extent, err = u.tree.CopyAnswer(p.tree, at, r.Via)
			return r, from, err
		}
		facts, err := u.tree.CopyPage(p.tree, at, r.Via)
		switch {
		case err == nil && facts.Digest == r.Digest:
			r.Extent, u.bytes = facts.Extent, u.bytes+r.Bytes+1
			return r, from, nil
		case err != nil && !errors.Is(err, iut.ErrTorn) && !errors.Is(err, fs.ErrNotExist):
			return r, nil, err
		}
		u.log.Warn("a stored page is not whole", "url", r.URL, "tree", p.root, "err", err)
		u.report.Damaged++
		lost := &from.Value
		generation := lost.Generation // that of another tree may be whole
		lost.Reopen(0)
		lost.Generation = generation
	}
}

// placeless returns a record without what holds only in its own tree.
func placeless(r record.Record) record.Record {
	r.Extent = record.Extent{}
	return r
}

// best returns the item that a joined record is of. Of several it is the one that has the most of
// the answer, whatever the order of the trees.
func (u *uniting) best(list []groups.Item[record.Record], joined *record.Record) (*groups.Item[record.Record], error) {
	var same []*groups.Item[record.Record]
	for i := range list {
		r := placeless(list[i].Value)
		r.Depth, r.Rank, r.Seq = joined.Depth, joined.Rank, joined.Seq
		if r == *joined {
			same = append(same, &list[i])
		}
	}
	if len(same) == 1 {
		return same[0], nil
	}
	sums := map[*groups.Item[record.Record]]string{}
	for _, it := range same {
		sum, err := u.parts[it.Part].tree.SumOf(iut.FactsOf(&it.Value))
		if errors.Is(err, iut.ErrDisk) {
			return nil, err
		}
		sums[it] = sum
	}
	return slices.MaxFunc(same, func(a, b *groups.Item[record.Record]) int {
		return cmp.Or(cmp.Compare(a.Value.Extent.Length, b.Value.Extent.Length), cmp.Compare(sums[a], sums[b]))
	}), nil
}

// compare writes the outcomes of a URL if they differ, but for those that were opened again since.
func (u *uniting) compare(list []groups.Item[record.Record]) error {
	newest := uint32(0)
	for _, it := range list {
		newest = max(newest, it.Value.Generation)
	}
	type outcome struct {
		state  record.State
		reason string
		status uint16
		digest [32]byte
	}
	of := func(r *record.Record) outcome { return outcome{r.State, r.Reason, r.Status, r.Digest} }
	ended := slices.DeleteFunc(slices.Clone(list), func(it groups.Item[record.Record]) bool {
		return it.Value.State == record.Pending || it.Value.Generation < newest
	})
	if !slices.ContainsFunc(ended, func(it groups.Item[record.Record]) bool { return of(&it.Value) != of(&ended[0].Value) }) {
		return nil
	}
	u.report.Conflicts++
	if u.o.Conflicts == nil {
		return nil
	}
	for _, it := range ended {
		r := &it.Value
		digest := "-"
		if r.State == record.Stored {
			digest = hex.EncodeToString(r.Digest[:])
		}
		_, err := fmt.Fprintf(u.o.Conflicts, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", r.URL, u.parts[it.Part].root, r.State, cmp.Or(r.Reason, "-"), r.Status,
			time.Unix(r.Time, 0).UTC().Format(time.RFC3339), digest)
		if err != nil {
			return err
		}
	}
	return nil
}

// besides joins what the indexes have besides records.
func (u *uniting) besides(ctx context.Context) error {
	u.tell("uniting hosts, sitemaps and seeds", 0, 0)
	for _, b := range []struct {
		bucket []byte
		join   func(f *storage.Filler, list []groups.Item[[]byte]) error
	}{
		{record.BucketHost, u.host},
		{record.BucketRobots, u.robots},
		{record.BucketSitemap, u.sitemap},
		{record.BucketOutside, u.outside},
		{record.BucketShorter, u.shorter},
		{record.BucketScope, u.scope},
		{record.BucketSeed, u.seed},
	} {
		if err := fill(ctx, u, entries(ctx, b.bucket), b.join); err != nil {
			return err
		}
	}
	return nil
}

// join decodes the entries of a key and joins them.
func join[T any](u *uniting, list []groups.Item[[]byte], decode func(key, value []byte) (T, error), with func(a, b T) T) (all T, err error) {
	for i, it := range list {
		v, err := decode(it.Key, it.Value)
		if err != nil {
			u.report.At = u.parts[it.Part].root
			return all, err
		}
		if all = v; i > 0 {
			all = with(all, v)
		}
	}
	return all, nil
}

func (u *uniting) host(f *storage.Filler, list []groups.Item[[]byte]) error {
	times, err := join(u, list, func(key, value []byte) (record.HostTimes, error) {
		h, err := record.DecodeHost(string(key), value)
		h.Seq = 0 // of a run
		return h.HostTimes, err
	}, record.JoinTimes)
	out := u.tree.Forgotten()
	if gone := out.HasOrigin("http://"+times.Name) && out.HasOrigin("https://"+times.Name); err == nil && !gone {
		f.Host(&times)
	}
	return err
}

func (u *uniting) robots(f *storage.Filler, list []groups.Item[[]byte]) error {
	r, err := join(u, list, func(key, value []byte) (record.Robots, error) { return record.DecodeRobots(string(key), value) }, record.JoinRobots)
	if err != nil {
		return err
	}
	return f.Put(record.BucketRobots, list[0].Key, r.Append(nil))
}

func (u *uniting) sitemap(f *storage.Filler, list []groups.Item[[]byte]) error {
	r, err := join(u, list, record.DecodeSitemap, record.Join)
	if err == nil {
		f.Sitemap(r)
	}
	return err
}

func (u *uniting) outside(f *storage.Filler, list []groups.Item[[]byte]) error {
	r, err := join(u, list, record.DecodeOutside, record.Join)
	if err != nil {
		return err
	}
	r.Seq = 0 // two trees give one number to two targets
	return f.Outside(r)
}

// shorter has links looked at again that one of the trees would: those of what has its outcome.
func (u *uniting) shorter(f *storage.Filler, list []groups.Item[[]byte]) error {
	key := list[0].Key
	if state, _, err := record.Peek(key, f.Get(record.BucketURL, key)); err != nil || state == record.Pending {
		return nil
	}
	return f.Put(record.BucketShorter, key, list[0].Value)
}

func (u *uniting) scope(f *storage.Filler, list []groups.Item[[]byte]) error {
	return f.Put(record.BucketScope, list[0].Key, list[0].Value)
}

// seed keeps what is asked of seeds. An area that only some of the trees have admits links that the
// pages of the others have, and that got no record there.
func (u *uniting) seed(f *storage.Filler, list []groups.Item[[]byte]) error {
	if !u.seeds {
		return nil
	}
	u.relink = u.relink || list[0].Key[0] == 'a' && len(list) < len(u.parts)
	return f.Put(record.BucketSeed, list[0].Key, list[0].Value)
}

// seedList writes the seeds of all, sorted. If all of them are in the indexes, so they are here.
func (u *uniting) seedList(ctx context.Context) (err error) {
	u.tell("uniting seeds", 0, 0)
	u.seeds = true
	all := spool.NewSorter(16<<20, 16)
	defer func() { err = errors.Join(err, all.Close()) }()
	scope, err := u.parts[0].index.Seeds().Read()
	for _, p := range u.parts {
		known, rerr := p.index.Seeds().Read()
		var end iut.SeedMark
		serr := p.tree.Seeds(iut.SeedMark{}, func(url string, mark iut.SeedMark) error {
			if end = mark; !isSeed(u.tree, url) {
				return context.Cause(ctx)
			}
			return cmp.Or(all.Add(spool.Row{Key: url}), context.Cause(ctx))
		})
		if err = cmp.Or(err, rerr, serr); err != nil {
			return err
		}
		u.seeds = u.seeds && known == record.Seeds{Scope: scope.Scope, Bytes: end.Bytes, Sum: end.Sum}
	}
	if err := u.writeSeeds(ctx, all.Sorted()); err != nil || !u.seeds {
		return err
	}
	seeds := record.Seeds{Scope: scope.Scope}
	err = u.tree.Seeds(iut.SeedMark{}, func(_ string, mark iut.SeedMark) error {
		seeds.Bytes, seeds.Sum = mark.Bytes, mark.Sum
		return nil
	})
	if err != nil {
		return err
	}
	return u.index.Fill(func(f *storage.Filler) error {
		return f.Put(record.BucketSys, record.KeySeeds, seeds.Append(nil, record.KeySeeds))
	})
}

func (u *uniting) writeSeeds(ctx context.Context, next spool.Cursor) error {
	list := u.tree.SeedList()
	defer list.Close()
	var urls []string
	for last := ""; ; {
		row, err := next()
		if err != nil && err != io.EOF {
			return err
		}
		if end := err == io.EOF; end || len(urls) == setSeeds {
			if err := list.Add(ctx, urls); err != nil || end {
				return err
			}
			urls = urls[:0]
		}
		if row.Key != last {
			urls, last = append(urls, row.Key), row.Key
		}
	}
}

// edges copies the edges of each page that are kept by the tree that the page is of, or by another
// one that has the same page. Those of the others come from the pages, as in any tree.
func (u *uniting) edges(ctx context.Context) error {
	assets := u.options.format.Links.Assets
	var w *edges.Writer
	pages := int64(0)
	for i, p := range u.parts {
		if p.edges.Pages == 0 || p.edges.Assets != assets {
			continue
		}
		if w == nil {
			var err error
			if w, err = u.tree.WriteEdges(0); err != nil {
				return err
			}
		}
		_, _, err := p.tree.ReadEdges(p.edges.End, func(page edges.Page) error {
			mine, err := u.keepsEdges(i, page.URL, assets)
			if err = cmp.Or(err, context.Cause(ctx)); err != nil || !mine {
				return err
			}
			pages++
			return iut.DiskError("write edges", w.Append(edges.AppendPage(nil, page)))
		})
		if errors.Is(err, edges.ErrDamaged) || errors.Is(err, edges.ErrCut) {
			err = nil // as far as they are whole
		}
		if err != nil {
			return errors.Join(err, w.Close())
		}
	}
	return u.endEdges(w, pages, assets)
}

// keepsEdges reports whether part i is the first one that keeps the edges of the page that the tree
// has of a URL.
func (u *uniting) keepsEdges(i int, url string, assets bool) (bool, error) {
	r, err := u.index.Record(url)
	if err != nil || r.State != record.Stored {
		return false, ignore(err, storage.ErrNotFound)
	}
	for j, p := range u.parts[:i+1] {
		if p.edges.Pages == 0 || p.edges.Assets != assets {
			continue
		}
		other, err := p.index.Record(url)
		if err = ignore(err, storage.ErrNotFound); err != nil {
			return false, err
		}
		if other.State == record.Stored && iut.FactsOf(&other).Same(iut.FactsOf(&r)) {
			return j == i, nil
		}
	}
	return false, nil
}

// ignore returns err unless it is the other one.
func ignore(err, other error) error {
	if errors.Is(err, other) {
		return nil
	}
	return err
}

// endEdges says in the index how much of the file of edges counts, once that much is durable.
func (u *uniting) endEdges(w *edges.Writer, pages int64, assets bool) error {
	if w == nil {
		return nil
	}
	end, err := w.Flush()
	if err = errors.Join(err, w.Close()); err != nil {
		return iut.DiskError("write edges", err)
	}
	return u.index.Marks().SetEdges(record.Edges{End: end, Pages: pages, Assets: assets})
}
