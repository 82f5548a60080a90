package verify

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"urltree/storage/record"
)

// outside checks targets outside and their keys, counts by host those that are to be asked, and
// looks whether each that waits has its row, and each row such a target.
func (v *verifier) outside(ctx context.Context) error {
	rows := 0
	err := v.file.Scan(ctx, record.BucketOutside, nil, func(k, value []byte) error {
		r, err := record.DecodeOutside(k, value)
		if err != nil {
			v.damage(err)
			return nil
		}
		if again, err := record.Key(r.URL); err != nil || !bytes.Equal(again, k) {
			v.fault(fmt.Sprintf("record key %q is not that of the target outside %s", k, r.URL))
			return nil
		}
		if r.State != record.Pending {
			return nil
		}
		rows++
		if n := r.Open(); n > 0 {
			v.toAsk[record.Host(r.URL)] += n
			v.totals.Outside += n
		}
		row, err := v.get(record.BucketWaiting, record.AppendPendingKey(nil, &r.Row, k))
		switch {
		case err != nil:
			return err
		case row == nil:
			v.fault("the row of the target outside " + r.URL + " is missing")
		case len(row) != 4 || binary.BigEndian.Uint32(row) != r.Run:
			v.damage(fmt.Errorf("row of the target outside %s: %w: run %x, the record says %d", r.URL, record.ErrCorrupt, row, r.Run))
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = v.file.Scan(ctx, record.BucketWaiting, nil, func(_, _ []byte) error {
		rows--
		return nil
	})
	if rows != 0 {
		v.sum("rows of targets outside: %d more than targets that wait", -rows)
	}
	return err
}
