package inspect

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"urltree/internal/article"
	"urltree/internal/extract"
	"urltree/iut"
	"urltree/storage/record"
)

// A column is one of those that export can write of each URL.
type column struct {
	Term
	kind
	value func(*line) cell
}

// A line is what the columns of one URL are made of.
type line struct {
	*record.Record
	in      *Inspector   // of its tree
	several bool         // the export is of several trees
	meta    *record.Meta // of a stored page, if a column asks for it; never nil
	look    record.Look  // of a stored page, likewise
	page    pageReader   // has the body of a stored page, if a column asks for it
	text    string       // of the page, if a column asks for it
}

// read reads what some columns need of a record besides itself. What is damaged, or gone, is as if
// it were empty: that is for check to name.
func (l *line) read(r *record.Record, needs needs) error {
	l.Record, l.meta, l.text = r, &noMeta, ""
	if needs.meta && r.State == record.Stored {
		switch meta, err := l.in.Index.Meta(r.URL); {
		case err != nil && !errors.Is(err, record.ErrCorrupt):
			return err
		case err == nil && meta != nil:
			l.meta = meta
		}
	}
	l.look = record.Look{}
	if needs.look && r.State == record.Stored {
		look, _, err := l.in.Index.Revisits().Look(r.URL)
		if err != nil && !errors.Is(err, record.ErrCorrupt) {
			return err
		}
		l.look = look
	}
	l.page.body.Reset()
	if needs.body == 0 || r.State != record.Stored || !extract.IsShown(r.Media) {
		return nil
	}
	if err := l.page.read(l.in.Tree, iut.FactsOf(r), needs.body); err != nil {
		return err
	}
	if needs.text {
		l.text = l.page.text(r)
	}
	return nil
}

// language returns the language of the page: the one that it names, or else the one that its text
// seems to be in, if that was asked for.
func (l *line) language() string {
	if l.meta.Language != "" {
		return l.meta.Language
	}
	return article.Language(l.text)
}

var noMeta record.Meta

// needs says what columns need of a page besides its record.
type needs struct {
	meta bool
	look bool
	text bool
	main bool  // that of the article
	body int64 // bytes at most
}

func needsOf(columns []column) (n needs) {
	for _, c := range columns {
		switch c.Word {
		case "title", "description", "language", "canonical":
			n.meta = true
		case "gone":
			n.look = true
		case "text":
			n.text, n.body = true, max(n.body, mostRead)
		case "html":
			n.body = math.MaxInt64
		}
	}
	return n
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

// columns are all there are.
var columns = []column{
	{Term{"url", "the URL"}, word, func(l *line) cell { return text(l.URL) }},
	{Term{"state", "pending, stored, redirected, failed or refused"}, word, func(l *line) cell { return text(l.State.String()) }},
	{Term{"reason", "why it failed, was refused or is held"}, word, func(l *line) cell { return text(l.Reason) }},
	{Term{"status", "of HTTP"}, integer, func(l *line) cell { return positive(int64(l.Status)) }},
	{Term{"tries", "requests made"}, integer, func(l *line) cell { return number(int64(l.Tries)) }},
	{Term{"source", "the page that named it first, or seed"}, word, func(l *line) cell { return text(l.Source) }},
	{Term{"via", "the URL that redirected to it"}, word, func(l *line) cell { return text(l.Via) }},
	{Term{"depth", "links from a seed"}, integer, func(l *line) cell { return number(int64(l.Depth)) }},
	{Term{"bytes", "of the body"}, integer, func(l *line) cell { return l.answered(number(l.Bytes)) }},
	{Term{"time", "when it was answered, RFC 3339"}, moment, func(l *line) cell { return l.answered(at(l.Time)) }},

	{Term{"type", "media type, such as text/html"}, word, func(l *line) cell { return text(l.Media) }},
	{Term{"charset", "by which its links were read, else of the header"}, word, func(l *line) cell { return text(l.Charset) }},
	{Term{"sha256", "of the body of a stored page"}, word, func(l *line) cell { return l.of(record.Stored, text(hex.EncodeToString(l.Digest[:]))) }},
	{Term{"folder", "where a stored page is, below the tree; of several trees with the name of the one that has it before"}, word, func(l *line) cell {
		folder, err := l.in.Tree.Where(iut.FactsOf(l.Record))
		if err != nil {
			return cell{}
		}
		if l.several {
			folder = filepath.Join(l.in.Tree.Root(), folder)
		}
		return l.of(record.Stored, text(folder))
	}},
	{Term{"target", "where it redirects to"}, word, func(l *line) cell { return l.of(record.Redirected, text(l.HeaderLinks)) }},
	{Term{"found", "when it became known, RFC 3339"}, moment, func(l *line) cell { return at(l.Found) }},
	{Term{"gone", "since when a stored page is gone (404, 410), RFC 3339"}, moment, func(l *line) cell {
		if !l.look.Gone() {
			return cell{}
		}
		return at(l.look.Since)
	}},
	{Term{"title", "of the page"}, word, func(l *line) cell { return text(l.meta.Title) }},
	{Term{"description", "of the page"}, word, func(l *line) cell { return text(l.meta.Description) }},
	{Term{"language", "of the page, such as en: the one that it names, or else, with the column text, the one that its text seems to be in"}, word, func(l *line) cell { return text(l.language()) }},
	{Term{"canonical", "the URL that the page calls canonical"}, word, func(l *line) cell { return text(l.meta.Canonical) }},
	{Term{"text", "what a page of HTML, XHTML or plain text shows, at most 1 MiB of its first 8 MiB; see -text; not in tsv"}, document, func(l *line) cell { return whole(l.text) }},
	{Term{"html", "all of a page of HTML or XHTML as it came, but in UTF-8; not in tsv"}, document, func(l *line) cell { return whole(l.page.html(l.Record)) }},
}

// UsualColumns are those that export writes of URLs and of pages by default.
var UsualColumns = map[string]string{
	"urls":  "url,state,reason,status,tries,source,via,depth,bytes,time",
	"pages": "url,status,source,depth,bytes,time,type,charset,sha256,title,description,language,canonical",
}

func positive(n int64) cell {
	if n <= 0 {
		return cell{}
	}
	return number(n)
}

// chosenColumns returns the columns that a list names, with commas between them; "" is the usual
// ones of what is written.
func chosenColumns(what, format, list string) ([]column, error) {
	var chosen []column
	for name := range strings.SplitSeq(cmp.Or(list, UsualColumns[what]), ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		i := slices.IndexFunc(columns, func(c column) bool { return c.Word == name })
		switch {
		case i < 0:
			return nil, fmt.Errorf("no column %q, but these: %s; %w: crawler %s", clean(name), strings.Join(Words("columns"), ", "), ErrUsage, usageExport)
		case slices.ContainsFunc(chosen, func(c column) bool { return c.Word == name }):
			return nil, fmt.Errorf("the column %s is named twice; %w: crawler %s", name, ErrUsage, usageExport)
		case format == "tsv" && columns[i].kind == document:
			return nil, fmt.Errorf("the column %s has lines, which tsv has not: ask for another -format; %w: crawler %s", name, ErrUsage, usageExport)
		}
		chosen = append(chosen, columns[i])
	}
	return chosen, nil
}
