package inspect

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"time"

	"urltree/storage"
)

// export writes the ledger, or with -what the edges or ranks.
func (i *Inspector) export(ctx context.Context, q Question, w *bufio.Writer) error {
	only, err := chosen(q.State, usageExport)
	if err != nil {
		return err
	}
	if err := oneOf("what", &q.What, exports); err != nil {
		return err
	}
	if q.What != "edges" && q.Format != "" {
		return fmt.Errorf("-format is for -what edges; %w: crawler %s", ErrUsage, usageExport)
	}
	if q.What != "urls" && only != nil {
		return fmt.Errorf("-state is for -what urls; %w: crawler %s", ErrUsage, usageExport)
	}
	if err := oneOf("format", &q.Format, formats); err != nil {
		return err
	}
	key, err := i.Folder(q.URL, usageExport)
	if err != nil {
		return err
	}
	in, err := newBelow(key)
	if err != nil {
		return err
	}
	switch q.What {
	case "edges":
		return i.exportEdges(ctx, q.Format, in, w)
	case "ranks":
		return i.exportRanks(ctx, in, w)
	}
	return i.exportLedger(ctx, only, in, w)
}

// exportLedger writes the ledger: a title line, then a line for each record in the order of the
// tree. Fields that do not apply are "-". A record that cannot be read has the state "damaged" and,
// as its reason, what is wrong with it.
func (i *Inspector) exportLedger(ctx context.Context, chosen selector, in below, w *bufio.Writer) error {
	if _, err := w.WriteString("URL\tstate\treason\tstatus\ttries\tsource\tvia\tdepth\tbytes\ttime\n"); err != nil {
		return err
	}
	var line []byte
	return i.Index.Records(ctx, in.key, func(r storage.Record, damage error) error {
		switch {
		case damage != nil && chosen != nil:
			return nil
		case damage != nil:
			line = append(line[:0], "-\tdamaged\t"+clean(damage.Error())+"\t-\t-\t-\t-\t-\t-\t-\n"...)
		case in.origin != "" && storage.Origin(r.URL) != in.origin, !chosen.picks(countOf(&r)):
			return nil
		default:
			line = appendLedger(line[:0], &r)
		}
		_, err := w.Write(line)
		return err
	})
}

// appendLedger appends a record's line of the ledger.
func appendLedger(b []byte, r *storage.Record) []byte {
	field := func(s string) { b = append(append(b, s...), '\t') }
	number := func(n int64) { b = append(strconv.AppendInt(b, n, 10), '\t') }
	field(clean(r.URL))
	field(r.State.String())
	field(orDash(r.Reason))
	if r.Status > 0 {
		number(int64(r.Status))
	} else {
		field("-")
	}
	number(int64(r.Tries))
	field(orDash(r.Source))
	field(orDash(r.Via))
	number(int64(r.Depth))
	if r.State == storage.Pending {
		return append(b, "-\t-\n"...)
	}
	number(r.Bytes)
	return append(append(b, stamp(r.Time)...), '\n')
}

// stamp gives a time in Unix seconds as RFC 3339, UTC; "-" for none.
func stamp(t int64) string {
	if t == 0 {
		return "-"
	}
	return time.Unix(t, 0).UTC().Format(time.RFC3339)
}
