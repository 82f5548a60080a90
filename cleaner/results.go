// Package cleaner does what comes at the end of a crawl, in source A's order ([Clean]): the buffers
// are drained into the tree, the pages of the tree are listed in res.txt, the pending URLs in
// res2.txt, and the statistics are written. All lists cover the whole tree and are made from the
// index. Its functions are for one goroutine at a time.
package cleaner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"urltree/internal/disk"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// lists are res.txt and res2.txt, written but not yet in their places, with the sums of the
// scan that made them. res.txt has a line per stored page as its source.txt has it, res2.txt a
// title line and one line per pending URL, both of the whole tree in the order of the index.
// Damaged records are left out. A failing disk is iut.ErrDisk.
type lists struct {
	res, res2 *outFile
	tally     *tally
}

// listRecords makes both lists in one scan, which also finds the failures unless those are nil.
func listRecords(ctx context.Context, index *storage.Index, f Files, failures *failureScan, watch *disk.Watch) (*lists, error) {
	res, err := f.createRes(watch)
	if err != nil {
		return nil, err
	}
	res2, err := createFile(watch, f.Res2, beginsRes2)
	if err != nil {
		return nil, errors.Join(err, res.discard())
	}
	sums, err := scanRecords(ctx, index, res, res2, failures)
	if err != nil {
		return nil, errors.Join(err, res.discard(), res2.discard())
	}
	return &lists{res, res2, sums}, nil
}

// scanRecords writes the lines of both lists and adds up all records.
func scanRecords(ctx context.Context, index *storage.Index, res, res2 io.Writer, failures *failureScan) (*tally, error) {
	sums := newTally()
	line := []byte(res2Title)
	if _, err := res2.Write(line); err != nil {
		return nil, err
	}
	err := index.Records(ctx, nil, func(r record.Record, err error) error {
		if err != nil {
			sums.damaged++ // costs this record, not the results; check names it
			return nil
		}
		sums.add(&r)
		if failures != nil {
			failures.add(&r)
		}
		switch r.State {
		case record.Stored:
			line = iut.FactsOf(&r).AppendLine(line[:0])
			_, err = res.Write(line)
		case record.Pending:
			line = appendPending(line[:0], &r)
			_, err = res2.Write(line)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the records: %w", err)
	}
	sums.endOrigin()
	return sums, nil
}

const res2Title = "URL\tsource URL\tdepth\ttries\treason\n"

func appendPending(b []byte, r *record.Record) []byte {
	b = append(append(b, r.URL...), '\t')
	b = append(append(b, r.Source...), '\t')
	b = append(strconv.AppendUint(b, uint64(r.Depth), 10), '\t')
	b = append(strconv.AppendUint(b, uint64(r.Tries), 10), '\t')
	return append(append(b, pendingReason(r)...), '\n')
}

// pendingReason returns why a pending URL has no outcome yet.
func pendingReason(r *record.Record) string {
	switch {
	case r.Reason != "":
		return r.Reason
	case r.Tries == 0:
		return "not asked yet"
	}
	return "asked without an outcome"
}
