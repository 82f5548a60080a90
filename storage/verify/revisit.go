package verify

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"urltree/storage/record"
)

// revisit looks whether a stored page that is to be asked again, now or later, has its row, and
// counts those of now by host.
func (v *verifier) revisit(key []byte, rec *record.Record) error {
	n := rec.Revisits()
	if n == 0 && !rec.Awaits() {
		return nil
	}
	v.revisits++
	v.again[record.Host(rec.URL)] += n
	row, err := v.get(record.BucketRevisit, rec.AppendRevisitKey(nil, key))
	switch {
	case err != nil:
		return err
	case row == nil:
		v.fault("the row of the next look at " + rec.URL + " is missing")
	case len(row) != 4 || binary.BigEndian.Uint32(row) != rec.Run:
		v.damage(fmt.Errorf("row of the next look at %s: %w: run %x, the record says %d", rec.URL, record.ErrCorrupt, row, rec.Run))
	}
	return nil
}

// revisitRows looks whether there are as many rows as stored pages need, and whether all that is
// kept of looks is whole and of a stored page.
func (v *verifier) revisitRows(ctx context.Context) error {
	rows := v.revisits
	err := v.file.Scan(ctx, record.BucketRevisit, nil, func(_, _ []byte) error {
		rows--
		return nil
	})
	if err != nil {
		return err
	}
	if rows != 0 {
		v.sum("rows of stored pages to be asked again: %d more than such pages", -rows)
	}
	if err := v.versions(ctx); err != nil {
		return err
	}
	return v.file.Scan(ctx, record.BucketLook, nil, func(k, value []byte) error {
		if _, err := record.DecodeLook(k, value); err != nil {
			v.damage(err)
		}
		url, err := record.URL(k)
		if err != nil {
			v.damage(fmt.Errorf("look under the key %q: %w", k, err))
			return nil
		}
		switch rec, ok, err := v.ofURL(url); {
		case errors.Is(err, record.ErrCorrupt): // named with the records
		case err != nil:
			return err
		case !ok || rec.State != record.Stored:
			v.fault("looks at " + url + ", which is not stored")
		}
		return nil
	})
}

// versions looks whether all that is kept of earlier versions is whole and of a known URL.
func (v *verifier) versions(ctx context.Context) error {
	return v.file.Scan(ctx, record.BucketVersion, nil, func(k, value []byte) error {
		r, err := record.DecodeVersion(k, value)
		if err != nil {
			v.damage(err)
			return nil
		}
		switch _, ok, err := v.ofURL(r.URL); {
		case errors.Is(err, record.ErrCorrupt): // named with the records
		case err != nil:
			return err
		case !ok:
			v.fault("a version of " + r.URL + ", which has no record")
		}
		return nil
	})
}
