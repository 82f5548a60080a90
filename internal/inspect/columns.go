package inspect

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"urltree/iut"
	"urltree/storage/record"
)

// A column is one of those that export can write of each URL.
type column struct {
	Term
	value func(*line) cell
}

// A line is what the columns of one URL are made of.
type line struct {
	*record.Record
	in   *Inspector
	meta *record.Meta // of a stored page, if a column asks for it; never nil
}

// answered returns a cell of an answer; of a pending URL there is none.
func (l *line) answered(c cell) cell {
	if l.State == record.Pending {
		return cell{}
	}
	return c
}

// of returns a cell of what URLs have in one state alone.
func (l *line) of(state record.State, c cell) cell {
	if l.State != state {
		return cell{}
	}
	return c
}

// columns are all there are; the first ones, as many as ledgerColumns, are written by default.
var columns = []column{
	{Term{"url", "the URL"}, func(l *line) cell { return text(l.URL) }},
	{Term{"state", "pending, stored, redirected, failed or refused"}, func(l *line) cell { return text(l.State.String()) }},
	{Term{"reason", "why it failed, was refused or is held"}, func(l *line) cell { return text(l.Reason) }},
	{Term{"status", "of HTTP"}, func(l *line) cell { return positive(int64(l.Status)) }},
	{Term{"tries", "requests made"}, func(l *line) cell { return number(int64(l.Tries)) }},
	{Term{"source", "the page that named it first, or seed"}, func(l *line) cell { return text(l.Source) }},
	{Term{"via", "the URL that redirected to it"}, func(l *line) cell { return text(l.Via) }},
	{Term{"depth", "links from a seed"}, func(l *line) cell { return number(int64(l.Depth)) }},
	{Term{"bytes", "of the body"}, func(l *line) cell { return l.answered(number(l.Bytes)) }},
	{Term{"time", "when it was answered, RFC 3339"}, func(l *line) cell { return l.answered(moment(l.Time)) }},

	{Term{"type", "media type, such as text/html"}, func(l *line) cell { return text(l.Media) }},
	{Term{"charset", "by which its links were read, else of the header"}, func(l *line) cell { return text(l.Charset) }},
	{Term{"sha256", "of the body of a stored page"}, func(l *line) cell { return l.of(record.Stored, text(hex.EncodeToString(l.Digest[:]))) }},
	{Term{"folder", "where a stored page is, below the tree"}, func(l *line) cell {
		folder, err := l.in.Tree.Where(iut.FactsOf(l.Record))
		if err != nil {
			return cell{}
		}
		return l.of(record.Stored, text(folder))
	}},
	{Term{"target", "where it redirects to"}, func(l *line) cell { return l.of(record.Redirected, text(l.HeaderLinks)) }},
	{Term{"found", "when it became known, RFC 3339"}, func(l *line) cell { return moment(l.Found) }},
	{Term{"title", "of the page"}, func(l *line) cell { return text(l.meta.Title) }},
	{Term{"description", "of the page"}, func(l *line) cell { return text(l.meta.Description) }},
	{Term{"language", "of the page, such as en"}, func(l *line) cell { return text(l.meta.Language) }},
	{Term{"canonical", "the URL that the page calls canonical"}, func(l *line) cell { return text(l.meta.Canonical) }},
}

const ledgerColumns = 10

// ofMeta are the columns that need the metadata of a page.
var ofMeta = []string{"title", "description", "language", "canonical"}

func positive(n int64) cell {
	if n <= 0 {
		return cell{}
	}
	return number(n)
}

// moment returns a cell of a time in Unix seconds; an empty one for 0.
func moment(t int64) cell {
	if t == 0 {
		return cell{}
	}
	return text(stamp(t))
}

// chosenColumns returns the columns that a list names, with commas between them; "" is the ledger.
func chosenColumns(list string) ([]column, error) {
	if list == "" {
		return columns[:ledgerColumns], nil
	}
	var chosen []column
	for name := range strings.SplitSeq(list, ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		i := slices.IndexFunc(columns, func(c column) bool { return c.Word == name })
		if i < 0 {
			return nil, fmt.Errorf("no column %q, but these: %s; %w: crawler %s", clean(name), strings.Join(Words("columns"), ", "), ErrUsage, usageExport)
		}
		if slices.ContainsFunc(chosen, func(c column) bool { return c.Word == name }) {
			return nil, fmt.Errorf("the column %s is named twice; %w: crawler %s", name, ErrUsage, usageExport)
		}
		chosen = append(chosen, columns[i])
	}
	return chosen, nil
}
