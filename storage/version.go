package storage

import (
	"bytes"
	"context"

	"urltree/storage/record"
)

// AllVersions is the number of versions, in [Options], that has every one of them kept.
const AllVersions = -1

// MostVersions returns how many earlier versions are kept of a page of which n are in all; -1: any
// number.
func MostVersions(n int) int {
	if n < 0 {
		return -1
	}
	return max(n, 1) - 1
}

// keepVersion keeps a stored page as it was before an outcome that has another content, if the tree
// has kept it too, and drops the oldest versions of which there are too many then.
func (c *change) keepVersion(e *entry, o *record.Outcome) {
	most := MostVersions(c.x.opts.Versions)
	if most < 0 && !o.Kept {
		return
	}
	prefix := record.VersionKeys(e.key)
	var keys [][]byte
	cursor := c.w.Cursor(record.BucketVersion)
	for k, _ := cursor.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = cursor.Next() {
		keys = append(keys, c.w.arena.Keep(func(b []byte) []byte { return append(b, k...) }))
	}
	if o.Kept && most != 0 {
		r := e.rec.Version()
		key := c.w.arena.Keep(func(b []byte) []byte { return r.AppendVersionKey(b, e.key) })
		c.versions.Put(key, c.w.arena.Keep(func(b []byte) []byte { return r.Append(b, key) }))
		keys = append(keys, key)
	}
	for n := len(keys) - most; most >= 0 && n > 0; n-- {
		c.versions.Delete(keys[0])
		keys = keys[1:]
	}
}

// forgetVersions drops all earlier versions of a page whose record goes.
func (c *change) forgetVersions(e *entry) {
	prefix := record.VersionKeys(e.key)
	cursor := c.w.Cursor(record.BucketVersion)
	for k, _ := cursor.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = cursor.Next() {
		c.versions.Delete(c.w.arena.Keep(func(b []byte) []byte { return append(b, k...) }))
	}
}

// Of returns the earlier versions of a page that are kept, the oldest first: what its record has is
// not among them. The error is [record.ErrCorrupt] if one is damaged.
func (g Versions) Of(url string) (list []record.Record, err error) {
	key, err := record.Key(url)
	if err != nil {
		return nil, err
	}
	prefix := record.VersionKeys(key)
	err = g.x.file.Scan(context.Background(), record.BucketVersion, prefix, func(k, value []byte) error {
		r, err := record.DecodeVersion(k, value)
		list = append(list, r)
		return err
	})
	return list, err
}

// Each calls fn with the earlier versions of all pages, those of one page in a row, the oldest
// first. err is that of one that is damaged.
func (g Versions) Each(ctx context.Context, fn func(r record.Record, err error) error) error {
	return g.x.file.Scan(ctx, record.BucketVersion, nil, func(k, value []byte) error {
		return fn(record.DecodeVersion(k, value))
	})
}

// Set keeps these as earlier versions, in one transaction. One that is kept already gets the extent
// of its new record.
func (g Versions) Set(list []record.Record) error {
	return g.change(list, func(c *change, e *entry, r *record.Record) {
		v := r.Version()
		k := v.AppendVersionKey(nil, e.key)
		c.versions.Put(k, v.Append(nil, k))
	})
}

// Drop drops earlier versions, in one transaction.
func (g Versions) Drop(list []record.Record) error {
	return g.change(list, func(c *change, e *entry, r *record.Record) { c.versions.Delete(r.AppendVersionKey(nil, e.key)) })
}

func (g Versions) change(list []record.Record, fn func(c *change, e *entry, r *record.Record)) error {
	if len(list) == 0 {
		return nil
	}
	if err := g.x.lock(); err != nil {
		return err
	}
	defer g.x.mu.Unlock()
	return g.x.update(func(c *change) error {
		set := make([]*record.Outcome, 0, len(list))
		for i := range list {
			e, err := c.entry(list[i].URL)
			if err != nil {
				return err
			}
			fn(c, e, &list[i])
			set = append(set, &record.Outcome{Page: list[i].Page})
		}
		c.segmentEnds(set)
		return nil
	})
}
