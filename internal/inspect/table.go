package inspect

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A kind is what a cell holds, or a column's cells hold that are not nothing.
type kind uint8

const (
	nothing  kind = iota
	word          // a text, cleaned where it is written
	document      // a text of lines in UTF-8, written as it is
	integer
	decimal
	moment // in time
)

// A cell is one value of a table.
type cell struct {
	kind
	text   string  // of word and document
	number int64   // of integer; of moment Unix seconds
	real   float64 // of decimal
}

func text(s string) cell {
	if s == "" {
		return cell{}
	}
	return cell{kind: word, text: s}
}

func whole(s string) cell {
	if s == "" {
		return cell{}
	}
	return cell{kind: document, text: s}
}

func number(n int64) cell { return cell{kind: integer, number: n} }

func float(f float64) cell { return cell{kind: decimal, real: f} }

// at returns a cell of a time in Unix seconds; an empty one for 0.
func at(t int64) cell {
	if t == 0 {
		return cell{}
	}
	return cell{kind: moment, number: t}
}

// string returns the cell as lists have it.
func (c *cell) string() string {
	switch c.kind {
	case word:
		return clean(c.text)
	case integer:
		return strconv.FormatInt(c.number, 10)
	case decimal:
		return strconv.FormatFloat(c.real, 'g', -1, 64)
	case moment:
		return stamp(c.number)
	}
	return c.text
}

// A field is what all cells of a column have in common: its name, and their kind unless they are
// nothing.
type field struct {
	name string
	kind kind
}

// A rowWriter writes rows, each with as many cells as there are fields, and then their end. The
// error of a write may be returned by a later one, or by end.
type rowWriter interface {
	row(cells ...cell) error
	end() error
}

// newRows begins to write rows in a format.
func (i *Inspector) newRows(format string, w *bufio.Writer, fields ...field) rowWriter {
	if format == "parquet" {
		return newParquetFile(w, i.Software, fields)
	}
	return newTable(format, w, fields...)
}

// A table writes rows in a format, each with as many cells as there are fields:
//
//	tsv    a title line; columns are separated by tabs, and what there is not is "-"
//	csv    that of RFC 4180 with a title line; what there is not is an empty field
//	jsonl  an object a line, its keys are the names in their order; what there is not is null
type table struct {
	format string
	w      *bufio.Writer
	before []string // of each cell
	quoted bytes.Buffer
	quotes *json.Encoder // into quoted
}

// newTable begins a table. The name of a URL is a title for people in the tab-separated lists.
func newTable(format string, w *bufio.Writer, fields ...field) *table {
	t := &table{format: format, w: w}
	t.quotes = json.NewEncoder(&t.quoted)
	t.quotes.SetEscapeHTML(false)
	titles := make([]cell, len(fields))
	for i, f := range fields {
		name := f.name
		before := map[string]string{"tsv": "\t", "csv": ",", "jsonl": ","}[format]
		if i == 0 {
			before = ""
		}
		if format == "jsonl" {
			before += string(t.quote(name)) + ":"
			if i == 0 {
				before = "{" + before
			}
		}
		t.before = append(t.before, before)
		if format == "tsv" && name == "url" {
			name = "URL"
		}
		titles[i] = text(name)
	}
	if format != "jsonl" {
		_ = t.row(titles...) // end returns the error
	}
	return t
}

// row writes a row.
func (t *table) row(cells ...cell) error {
	for i := range cells {
		c := &cells[i]
		t.w.WriteString(t.before[i])
		isText := c.kind == word || c.kind == document || c.kind == moment
		s := c.string()
		switch {
		case t.format == "tsv" && s == "":
			s = "-"
		case t.format == "jsonl" && s == "":
			s = "null"
		case t.format == "jsonl" && isText:
			t.json(s)
			continue
		case t.format == "csv" && isText:
			t.field(NoFormula(s))
			continue
		}
		t.w.WriteString(s)
	}
	end := map[string]string{"tsv": "\n", "csv": "\r\n", "jsonl": "}\n"}[t.format]
	_, err := t.w.WriteString(end)
	return err
}

// end returns the error of any write before.
func (t *table) end() error {
	_, err := t.w.Write(nil)
	return err
}

// json writes a text as JSON, part by part: an encoder keeps twice what it gets.
func (t *table) json(s string) {
	const most = 64 << 10
	t.w.WriteByte('"')
	for len(s) > 0 {
		n := min(most, len(s))
		for n < len(s) && n > most-utf8.UTFMax && !utf8.RuneStart(s[n]) {
			n--
		}
		part := t.quote(s[:n])
		t.w.Write(part[1 : len(part)-1])
		s = s[n:]
	}
	t.w.WriteByte('"')
}

// quote returns a text as JSON, until the next call.
func (t *table) quote(s string) []byte {
	t.quoted.Reset()
	_ = t.quotes.Encode(s) // of a text: no error
	return bytes.TrimSuffix(t.quoted.Bytes(), []byte("\n"))
}

// field writes a field of CSV, in quotes if it is not read as it is without.
func (t *table) field(s string) {
	first, _ := utf8.DecodeRuneInString(s)
	if !strings.ContainsAny(s, ",\"\r\n") && !unicode.IsSpace(first) && s != `\.` {
		t.w.WriteString(s)
		return
	}
	t.w.WriteByte('"')
	for {
		before, behind, found := strings.Cut(s, `"`)
		t.w.WriteString(before)
		if !found {
			break
		}
		t.w.WriteString(`""`)
		s = behind
	}
	t.w.WriteByte('"')
}

// NoFormula puts an apostrophe before a text that a spreadsheet would take for a formula: one that
// begins with = + - @, a full-width form of these, a tab or a carriage return.
func NoFormula(s string) string {
	if r, _ := utf8.DecodeRuneInString(s); s != "" && strings.ContainsRune("=+-@＝＋－＠\t\r", r) {
		return "'" + s
	}
	return s
}
