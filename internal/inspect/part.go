package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"urltree/storage/record"
)

// A below reports whether a URL lies below the folder that an operand of export named.
type below struct {
	key    []byte // of the folder; empty: the whole tree
	origin string // of the folder, if it is that of a host; "": any
}

// newBelow makes it of a folder's key. The folder of a host holds those of its ports and of longer
// names; they are not meant.
func newBelow(key []byte) (b below, err error) {
	b.key = key
	if lastKind(key) == record.Label {
		url, err := record.URL(key)
		if err != nil {
			return b, err
		}
		b.origin = record.Origin(url)
	}
	return b, nil
}

// Below returns the key of the folder that a URL prefix names, see [Question], and what reports
// whether a URL lies below it: not all do whose keys begin with that. A prefix that is none is
// [ErrUsage], with the usage of the subcommand.
func (i *Inspector) Below(prefix, usage string) (key []byte, has func(url string) bool, err error) {
	if key, err = i.folder(prefix, usage); err != nil {
		return nil, nil, err
	}
	b, err := newBelow(key)
	return key, b.has, err
}

func (b *below) has(url string) bool {
	switch {
	case len(b.key) == 0:
		return true
	case b.origin != "":
		return record.Origin(url) == b.origin
	}
	key, err := record.Key(url)
	return err == nil && bytes.HasPrefix(key, b.key)
}

// ThereIs returns ErrNotFound if no record is at or below a URL prefix.
func (i *Inspector) ThereIs(ctx context.Context, prefix, usage string) error {
	key, err := i.folder(prefix, usage)
	if err != nil {
		return err
	}
	b, err := newBelow(key)
	if err != nil {
		return err
	}
	return i.thereIs(ctx, &b)
}

// thereIs returns ErrNotFound if no record is at or below a folder: a URL prefix that was mistyped
// must not pass for one whose pages are all well.
func (i *Inspector) thereIs(ctx context.Context, b *below) error {
	if len(b.key) == 0 {
		return nil
	}
	found := errors.New("found")
	for _, of := range i.all() {
		err := of.Index.Records(ctx, b.key, func(r record.Record, damage error) error {
			if damage != nil || b.has(r.URL) {
				return found
			}
			return nil
		})
		switch {
		case err == found:
			return nil
		case err != nil:
			return err
		}
	}
	if lastKind(b.key) == 0 {
		return fmt.Errorf("%w: nothing at or below %s://", ErrNotFound, b.key[:len(b.key)-1])
	}
	url, err := record.URL(b.key)
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: nothing at or below %s", ErrNotFound, url)
}

// A part says which records an export has.
type part struct {
	below
	since, until int64 // Unix seconds: those answered from the one on, before the other; 0: at any time
}

// newPart makes it of a question.
func (i *Inspector) newPart(ctx context.Context, q *Question) (*part, error) {
	key, err := i.folder(q.URL, usageExport)
	if err != nil {
		return nil, err
	}
	p := &part{since: q.Since, until: q.Until}
	switch {
	case !p.isTimed():
	case q.What == "ranks":
		return nil, fmt.Errorf("-from and -to are not for -what ranks, which are of the whole graph; %w: crawler %s", ErrUsage, usageExport)
	case q.Until != 0 && q.Until <= q.Since:
		return nil, fmt.Errorf("-to is not after -from; %w: crawler %s", ErrUsage, usageExport)
	}
	if p.below, err = newBelow(key); err != nil {
		return nil, err
	}
	if q.What == "mirror" {
		return p, nil // the files of pages that are gone are to be removed
	}
	return p, i.thereIs(ctx, &p.below)
}

// isTimed reports whether it goes by when URLs were answered.
func (p *part) isTimed() bool { return p.since != 0 || p.until != 0 }

// takes reports whether an export has a record of those whose keys begin as that of the folder.
func (p *part) takes(r *record.Record) bool {
	switch {
	case p.origin != "" && record.Origin(r.URL) != p.origin:
		return false
	case !p.isTimed():
		return true
	}
	return r.State != record.Pending && r.Time >= p.since && (p.until == 0 || r.Time < p.until)
}
