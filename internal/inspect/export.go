package inspect

import (
	"bufio"
	"context"
	"fmt"
	"time"

	"urltree/storage/record"
)

// export writes the ledger, or what -what names.
func (i *Inspector) export(ctx context.Context, q Question, w *bufio.Writer) error {
	only, err := chosen(q.State, usageExport)
	if err != nil {
		return err
	}
	if err := oneOf("what", &q.What, exports, usageExport); err != nil {
		return err
	}
	if err := oneOf("format", &q.Format, formats[q.What], usageExport); err != nil {
		return err
	}
	switch {
	case only != nil && q.What != "urls":
		return fmt.Errorf("-state is for -what urls; %w: crawler %s", ErrUsage, usageExport)
	case q.Columns != "" && UsualColumns[q.What] == "":
		return fmt.Errorf("-columns is for -what urls and pages; %w: crawler %s", ErrUsage, usageExport)
	}
	if err := withTexts(&q); err != nil {
		return err
	}
	in, err := i.newPart(ctx, &q)
	if err != nil {
		return err
	}
	switch q.What {
	case "edges":
		return i.exportEdges(ctx, q.Format, in, w)
	case "ranks":
		return i.exportRanks(ctx, q.Format, in, w)
	case "warc", "cdxj", "wacz":
		return i.exportArchive(ctx, q, in, w)
	case "mirror":
		return i.exportMirror(ctx, in, w)
	}
	columns, err := chosenColumns(q.What, q.Format, q.Columns)
	if err != nil {
		return err
	}
	needs := needsOf(columns)
	if needs.main = q.Text == mainText; q.Text != "" && !needs.text {
		return fmt.Errorf("-text is of the column text, which -columns does not name; %w: crawler %s", ErrUsage, usageExport)
	}
	if q.What == "pages" {
		only = func(c record.Counts) int64 { return c.Stored }
	}
	fields := make([]field, len(columns))
	for k, c := range columns {
		fields[k] = field{c.Word, c.kind}
	}
	out := i.newRows(q.Format, w, fields...)
	if err := i.exportLedger(ctx, only, columns, needs, in, out); err != nil {
		return err
	}
	return out.end()
}

// withTexts checks which texts a question asks for, and adds their column to the usual ones of
// pages.
func withTexts(q *Question) error {
	if q.Text == "" {
		return nil
	}
	if err := oneOf("text", &q.Text, Words("text"), usageExport); err != nil {
		return err
	}
	if q.What != "wacz" && UsualColumns[q.What] == "" {
		return fmt.Errorf("-text is for -what pages, urls and wacz; %w: crawler %s", ErrUsage, usageExport)
	}
	if q.What == "pages" && q.Columns == "" {
		q.Columns = UsualColumns["pages"] + ",text"
	}
	return nil
}

// exportLedger writes the ledger: a row for each record in the order of the tree. A record that
// cannot be read has the state "damaged" and, as its reason, what is wrong with it.
func (i *Inspector) exportLedger(ctx context.Context, chosen selector, columns []column, needs needs, in *part, out rowWriter) error {
	cells := make([]cell, len(columns))
	l := line{page: pageReader{main: needs.main}}
	return i.records(ctx, in, func(of *Inspector, r record.Record, damage error) error {
		if damage != nil {
			if chosen != nil || in.isTimed() {
				return nil
			}
			clear(cells)
			for k, c := range columns {
				switch c.Word {
				case "state":
					cells[k] = text("damaged")
				case "reason":
					cells[k] = text(damage.Error())
				}
			}
			return out.row(cells...)
		}
		if !in.takes(&r) || !chosen.picks(countOf(&r)) {
			return nil
		}
		l.in, l.several = of, len(i.Others) > 0
		if err := l.read(&r, needs); err != nil {
			return err
		}
		for k := range columns {
			cells[k] = columns[k].value(&l)
		}
		return out.row(cells...)
	})
}

// stamp returns a time in Unix seconds as RFC 3339, UTC; "-" for none.
func stamp(t int64) string {
	if t == 0 {
		return "-"
	}
	return time.Unix(t, 0).UTC().Format(time.RFC3339)
}
