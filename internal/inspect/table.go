package inspect

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A cell is one value of a table. One without text is nothing.
type cell struct {
	text   string // cleaned where it is written
	digits bool   // it is a number
}

func text(s string) cell { return cell{text: s} }

func number(n int64) cell { return cell{strconv.FormatInt(n, 10), true} }

func float(f float64) cell { return cell{strconv.FormatFloat(f, 'g', -1, 64), true} }

// A table writes rows in a format, each with as many cells as there are names:
//
//	tsv    a title line; columns are separated by tabs, and what there is not is "-"
//	csv    that of RFC 4180 with a title line; what there is not is an empty field
//	jsonl  an object a line, with the names as keys, in their order; what there is not is null
type table struct {
	format string
	w      *bufio.Writer // for csv without a buffer of its own, for it is a large one
	csv    *csv.Writer
	names  []string // of jsonl as they stand before a value
	fields []string // of the row at hand
	quoted bytes.Buffer
	quotes *json.Encoder // into quoted
}

// newTable begins a table. The name of a URL is a title for people in the tab-separated lists.
func newTable(format string, w *bufio.Writer, names ...string) *table {
	t := &table{format: format, w: w, csv: csv.NewWriter(w), fields: make([]string, len(names))}
	t.csv.UseCRLF = true
	t.quotes = json.NewEncoder(&t.quoted)
	t.quotes.SetEscapeHTML(false)
	for _, name := range names {
		switch {
		case format == "tsv" && name == "url":
			name = "URL"
		case format == "jsonl":
			name = t.quote(name) + ":"
		}
		t.names = append(t.names, name)
	}
	if format != "jsonl" {
		_ = t.write(t.names) // row returns the error
	}
	return t
}

func (t *table) row(cells ...cell) error {
	for i, c := range cells {
		s := clean(c.text)
		switch {
		case t.format == "csv" && !c.digits:
			s = NoFormula(s)
		case t.format == "tsv" && s == "":
			s = "-"
		case t.format == "jsonl" && s == "":
			s = "null"
		case t.format == "jsonl" && !c.digits:
			s = t.quote(s)
		}
		t.fields[i] = s
	}
	return t.write(t.fields)
}

func (t *table) write(fields []string) error {
	if t.format == "csv" {
		return t.csv.Write(fields)
	}
	begin, between, end := "", "\t", "\n"
	if t.format == "jsonl" {
		begin, between, end = "{", ",", "}\n"
	}
	t.w.WriteString(begin)
	for i, s := range fields {
		if i > 0 {
			t.w.WriteString(between)
		}
		if t.format == "jsonl" {
			t.w.WriteString(t.names[i])
		}
		t.w.WriteString(s)
	}
	_, err := t.w.WriteString(end)
	return err
}

func (t *table) quote(s string) string {
	t.quoted.Reset()
	_ = t.quotes.Encode(s) // of a text: no error
	return strings.TrimSuffix(t.quoted.String(), "\n")
}

// NoFormula puts an apostrophe before a text that a spreadsheet would take for a formula: one that
// begins with = + - @, a full-width form of these, a tab or a carriage return.
func NoFormula(s string) string {
	if r, _ := utf8.DecodeRuneInString(s); s != "" && strings.ContainsRune("=+-@＝＋－＠\t\r", r) {
		return "'" + s
	}
	return s
}
