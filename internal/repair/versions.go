package repair

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"time"

	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// setVersions is how many earlier versions a transaction takes.
const setVersions = 1000

// versions brings the index to the earlier versions that the tree has: of each page as many of the
// newest as the latest run kept. Those that are not whole any more are dropped.
func (r *rebuild) versions(ctx context.Context) error {
	if err := r.dropLost(ctx); err != nil {
		return err
	}
	most := storage.MostVersions(r.tree.Versions())
	if most == 0 || !r.earlier {
		return nil
	}
	var set, page []record.Record // of all pages, and of the present one
	take := func() error {
		if most > 0 && len(page) > most {
			page = page[len(page)-most:]
		}
		set, page = append(set, page...), page[:0]
		if len(set) < setVersions {
			return nil
		}
		err := r.putVersions(set)
		set = set[:0]
		return err
	}
	err := r.tree.Walk(func(url, rel string, st iut.PageStatus, f iut.Facts) error {
		if st.Kind != iut.PageEarlier || st.Err != nil {
			return context.Cause(ctx)
		}
		if len(page) > 0 && page[0].URL != url {
			if err := take(); err != nil {
				return err
			}
		}
		_, whole, err := r.tree.Complete(f, true)
		switch {
		case err != nil:
			return err
		case !whole:
			r.log.Warn("a damaged version of a page is left as it is", "file", rel)
			return nil
		}
		page = append(page, record.Record{
			State: record.Stored, Found: f.Time, Page: f.Page, Row: record.Row{URL: url, Source: f.Source, Depth: f.PageDepth},
		})
		return context.Cause(ctx)
	})
	if err == nil {
		err = take()
	}
	if err == nil {
		err = r.putVersions(set)
	}
	return err
}

// putVersions has the index know of versions that it does not know yet, of URLs that it knows.
func (r *rebuild) putVersions(list []record.Record) error {
	var fresh []record.Record
	for i := range list {
		kept, err := r.index.Versions().Of(list[i].URL)
		if err != nil && !errors.Is(err, record.ErrCorrupt) {
			return err
		}
		_, err = r.index.Record(list[i].URL)
		if errors.Is(err, storage.ErrNotFound) || isKept(kept, iut.VersionOf(&list[i])) {
			continue
		}
		if err != nil {
			return err
		}
		fresh = append(fresh, list[i])
	}
	r.report.Versions += len(fresh)
	return iut.DiskError("versions", r.index.Versions().Set(fresh))
}

// isKept reports whether a version is among those that the index has of its page.
func isKept(list []record.Record, f iut.Facts) bool {
	for i := range list {
		if list[i].Time == f.Time && list[i].Digest == f.Digest {
			return true
		}
	}
	return false
}

// dropLost has the index forget versions that the tree does not hold any more.
func (r *rebuild) dropLost(ctx context.Context) error {
	var lost []record.Record
	err := r.index.Versions().Each(ctx, func(v record.Record, err error) error {
		if err != nil {
			return nil // damage is found before, by Verify
		}
		_, whole, err := r.tree.Complete(iut.VersionOf(&v), true)
		if err == nil && !whole {
			r.log.Warn("a version of a page is lost", "url", v.URL, "time", v.Time)
			lost = append(lost, v)
		}
		return cmp.Or(err, context.Cause(ctx))
	})
	if err != nil {
		return err
	}
	r.report.LostVersions = len(lost)
	for from := 0; from < len(lost); from += setVersions {
		if err := r.index.Versions().Drop(lost[from:min(from+setVersions, len(lost))]); err != nil {
			return iut.DiskError("versions", err)
		}
	}
	return nil
}

// versions reads the earlier versions that the index has.
func (c *checker) versions(ctx context.Context) error {
	return c.index.Versions().Each(ctx, func(r record.Record, err error) error {
		if err != nil {
			return context.Cause(ctx) // Verify has named it
		}
		c.report.Versions++
		f, _, err := c.tree.Load(iut.VersionOf(&r))
		switch {
		case errors.Is(err, iut.ErrDisk):
			return err
		case errors.Is(err, fs.ErrNotExist):
			c.fault("%s: the version of %s is lost", r.URL, stampOf(&r))
		case err != nil:
			c.fault("%s: the version of %s is not whole: %v", r.URL, stampOf(&r), err)
		case r.Source == record.Forgotten:
		case !bytes.Equal(f.AppendLine(nil), iut.VersionOf(&r).AppendLine(nil)):
			c.fault("%s: index and tree differ in the version of %s", r.URL, stampOf(&r))
		}
		return context.Cause(ctx)
	})
}

// surplus names a version in a folder that the index does not have: no kill leaves one that is
// another than the page. In segments what is not kept any more stands until it is compacted.
func (c *checker) surplus(url, rel string, st iut.PageStatus, f iut.Facts) error {
	if c.tree.Format().StoreName() == iut.StoreWARC {
		return nil
	}
	if st.Err != nil {
		c.fault("%s: a version that is not whole: %v", rel, st.Err)
		return nil
	}
	kept, err := c.index.Versions().Of(url)
	if err != nil && !errors.Is(err, record.ErrCorrupt) {
		return err
	}
	if err == nil && !isKept(kept, f) {
		c.fault("%s: a version that the index does not have", rel)
	}
	return nil
}

// stampOf returns the time of a version, for people.
func stampOf(r *record.Record) string { return time.Unix(r.Time, 0).UTC().Format(time.RFC3339) }

// copyVersions brings the earlier versions into the other store, those that are not there yet. One
// that is not whole is dropped.
func (c *conversion) copyVersions(ctx context.Context) error {
	var done, lost []record.Record
	bytes := int64(0)
	flush := func() error {
		if len(done)+len(lost) == 0 {
			return nil
		}
		err := c.conv.Other().Sync()
		if err == nil && c.to == iut.StoreWARC {
			err = iut.DiskError("index", c.index.Versions().Set(done))
		}
		if err == nil {
			err = iut.DiskError("index", c.index.Versions().Drop(lost))
		}
		done, lost, bytes = done[:0], lost[:0], 0
		return err
	}
	err := c.index.Versions().Each(ctx, func(r record.Record, err error) error {
		if err != nil || c.to == iut.StoreWARC && !r.Extent.IsZero() {
			return cmp.Or(err, context.Cause(ctx))
		}
		f, err := c.conv.Copy(iut.VersionOf(&r))
		switch {
		case err == nil && f.Digest == r.Digest:
			r.Extent = f.Extent
			done = append(done, r)
			c.report.Versions++
		case err == nil, errors.Is(err, iut.ErrTorn), errors.Is(err, fs.ErrNotExist):
			c.log.Warn("an earlier version is not whole, and is dropped", "url", r.URL, "err", err)
			lost = append(lost, r)
		default:
			return err
		}
		if bytes += r.Bytes; len(done)+len(lost) < c.most && bytes < convertBytes {
			return context.Cause(ctx)
		}
		return cmp.Or(flush(), context.Cause(ctx))
	})
	if err == nil || ctx.Err() != nil {
		err = errors.Join(err, flush())
	}
	return err
}

// forgetVersions drops what the index knows of segments from the earlier versions.
func (c *conversion) forgetVersions(ctx context.Context) error {
	var list []record.Record
	flush := func() error {
		err := iut.DiskError("index", c.index.Versions().Set(list))
		list = list[:0]
		return err
	}
	err := c.index.Versions().Each(ctx, func(r record.Record, err error) error {
		if err != nil || r.Extent.IsZero() {
			return err
		}
		r.Extent = record.Extent{}
		if list = append(list, r); len(list) < forgetPages {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	return err
}
