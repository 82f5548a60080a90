// Package broken makes a report of broken links: which URLs do not work, and every page that links
// to each, with the element and its text.
//
// It takes the answer of package inspect to "broken" as that comes, from a tree or from the crawl
// that has it, and puts it in order with temporary files: its memory does not grow with the tree,
// nor with the links.
package broken

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"urltree/internal/inspect"
	"urltree/internal/spool"
	"urltree/storage/record"
)

// Formats of a report; the first is the default.
var Formats = []string{"text", "csv", "json", "html"}

// ErrFormat is returned for a format that is not in Formats.
var ErrFormat = errors.New("no such format")

// A Sum counts what a report has.
type Sum struct {
	inspect.BrokenSum
	Targets  int64 // broken URLs that something links to or names
	Links    int64 // to these
	External int64 // of Targets, those outside of the crawl
}

type report interface {
	begin(sum *Sum) error // Targets and Links are not known yet
	target(t *inspect.BrokenTarget, links iter.Seq[inspect.BrokenLink]) error
	end(sum *Sum) error
}

// Write writes a report to w. ask is to answer the question "broken", as inspect.Inspector.Run
// does; progress is called now and then with the number of pages read so far, and of all pages.
func Write(ctx context.Context, format string, w io.Writer, ask func(io.Writer) error, progress func(read, of int64)) (sum Sum, err error) {
	if !slices.Contains(Formats, format) {
		return sum, fmt.Errorf("%w: %s", ErrFormat, format)
	}
	return write(ctx, newReport(format, w), spool.NewSorter(8<<20, 32), ask, progress)
}

func write(ctx context.Context, out report, links *spool.Sorter, ask func(io.Writer) error, progress func(read, of int64)) (sum Sum, err error) {
	defer func() { err = errors.Join(err, links.Close()) }()
	g := &grouper{out: out, links: links, sum: &sum}
	err = ask(inspect.ReadBroken(func(l inspect.BrokenLine) error {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if l.Read > 0 {
			progress(l.Read, sum.Pages)
			return nil
		}
		return g.line(l)
	}))
	if err != nil {
		return sum, err
	}
	return sum, out.end(&sum)
}

// A grouper collects the links of each target.
type grouper struct {
	out    report
	links  *spool.Sorter
	sum    *Sum
	sorted spool.Cursor // of links, once targets come
	ahead  spool.Row    // the next of sorted
	more   bool         // there is one
	err    error        // of sorted
}

func (g *grouper) line(l inspect.BrokenLine) error {
	switch {
	case l.Sum != nil:
		g.sum.BrokenSum = *l.Sum
		return g.out.begin(g.sum)
	case l.Link != nil:
		key, err := record.Key(l.Link.To)
		if err != nil {
			return nil // no record has such a URL
		}
		return g.links.Add(spool.Row{Key: string(key), Sub: l.Link.Page, Values: [2]string{l.Link.Element, l.Link.Text}})
	}
	return g.target(l.Target)
}

func (g *grouper) step() {
	var err error
	g.ahead, err = g.sorted()
	if g.more = err == nil; !g.more && err != io.EOF {
		g.err = err
	}
}

// target writes a target with its links, unless there are none.
func (g *grouper) target(t *inspect.BrokenTarget) error {
	if g.sorted == nil {
		g.sorted = g.links.Sorted()
		g.step()
	}
	bytes, err := record.Key(t.URL)
	if err != nil {
		return err
	}
	key := string(bytes)
	for g.more && g.ahead.Key < key { // of what was broken a moment ago
		g.step()
	}
	if linked := g.more && g.ahead.Key == key; !linked && t.How == "" {
		return g.err
	}
	g.sum.Targets++
	if t.External {
		g.sum.External++
	}
	err = g.out.target(t, func(yield func(inspect.BrokenLink) bool) {
		// What named it, if no page that is stored does: those have the element and the text.
		named := t.How == ""
		for ; g.more && g.ahead.Key == key; g.step() {
			named = named || t.How == "link" && g.ahead.Sub == t.Source
			g.sum.Links++
			if !yield(inspect.BrokenLink{Page: g.ahead.Sub, To: t.URL, Element: g.ahead.Values[0], Text: g.ahead.Values[1]}) {
				return
			}
		}
		if !named {
			l := inspect.BrokenLink{Page: t.Source, To: t.URL}
			if t.How != "link" {
				l.Element = t.How
			}
			g.sum.Links++
			yield(l)
		}
	})
	return cmp.Or(err, g.err)
}
