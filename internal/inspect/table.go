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

// A cell is one value of a table: a number, a text, or nothing.
type cell struct {
	text   string // cleaned where it is written
	number int64
	float  float64
	kind   byte
}

const (
	noCell = iota
	textCell
	numberCell
	floatCell
)

func number(n int64) cell { return cell{number: n, kind: numberCell} }

func float(f float64) cell { return cell{float: f, kind: floatCell} }

// append appends the digits of a number.
func (c *cell) append(b []byte) []byte {
	if c.kind == floatCell {
		return strconv.AppendFloat(b, c.float, 'g', -1, 64)
	}
	return strconv.AppendInt(b, c.number, 10)
}

// text returns a cell, an empty one for "".
func text(s string) cell {
	if s == "" {
		return cell{}
	}
	return cell{text: s, kind: textCell}
}

// A table writes rows in a format. Each row has as many cells as there are names. Errors of its
// writer stay there until row returns them.
type table interface {
	begin(names []string)
	row(cells []cell) error
}

// urlName is the name of the first column: that of the tab-separated lists is a title for people.
func urlName(format string) string {
	if format == "tsv" {
		return "URL"
	}
	return "url"
}

// newTable returns the table of a format: tsv, csv or jsonl.
func newTable(format string, w *bufio.Writer) table {
	switch format {
	case "csv":
		t := &csvTable{w: csv.NewWriter(w)} // without a buffer of its own, for w is a large one
		t.w.UseCRLF = true
		return t
	case "jsonl":
		t := &jsonTable{w: w}
		t.texts = json.NewEncoder(&t.buf)
		t.texts.SetEscapeHTML(false)
		return t
	}
	return &tsvTable{w: w}
}

// tsvTable has a title line; columns are separated by tabs, and what there is not is "-".
type tsvTable struct {
	w    *bufio.Writer
	line []byte
}

func (t *tsvTable) begin(names []string) { t.w.WriteString(strings.Join(names, "\t") + "\n") }

func (t *tsvTable) row(cells []cell) error {
	t.line = t.line[:0]
	for i := range cells {
		if i > 0 {
			t.line = append(t.line, '\t')
		}
		switch c := &cells[i]; c.kind {
		case numberCell, floatCell:
			t.line = c.append(t.line)
		case textCell:
			t.line = append(t.line, clean(c.text)...)
		default:
			t.line = append(t.line, '-')
		}
	}
	_, err := t.w.Write(append(t.line, '\n'))
	return err
}

// csvTable is the CSV of RFC 4180 with a title line. What there is not is an empty field.
type csvTable struct {
	w      *csv.Writer
	fields []string
}

func (t *csvTable) begin(names []string) { _ = t.w.Write(names) }

func (t *csvTable) row(cells []cell) error {
	t.fields = t.fields[:0]
	for i := range cells {
		switch c := &cells[i]; c.kind {
		case numberCell, floatCell:
			t.fields = append(t.fields, string(c.append(nil)))
		case textCell:
			t.fields = append(t.fields, NoFormula(clean(c.text)))
		default:
			t.fields = append(t.fields, "")
		}
	}
	return t.w.Write(t.fields)
}

// NoFormula puts an apostrophe before a text that a spreadsheet would take for a formula: one that
// begins with = + - @, a full-width form of these, a tab or a carriage return.
func NoFormula(s string) string {
	if r, _ := utf8.DecodeRuneInString(s); s != "" && strings.ContainsRune("=+-@＝＋－＠\t\r", r) {
		return "'" + s
	}
	return s
}

// jsonTable has a JSON object a line, with the names as keys, in their order. What there is not is
// null.
type jsonTable struct {
	w     *bufio.Writer
	keys  [][]byte // each with what stands around it
	buf   bytes.Buffer
	texts *json.Encoder // into buf
}

func (t *jsonTable) begin(names []string) {
	before := byte('{')
	for _, name := range names {
		t.buf.Reset()
		t.buf.WriteByte(before)
		t.append(name)
		t.buf.WriteByte(':')
		t.keys = append(t.keys, bytes.Clone(t.buf.Bytes()))
		before = ','
	}
}

// append appends a text to buf, in quotes.
func (t *jsonTable) append(s string) {
	_ = t.texts.Encode(s)           // of a text: no error
	t.buf.Truncate(t.buf.Len() - 1) // the line end
}

func (t *jsonTable) row(cells []cell) error {
	t.buf.Reset()
	for i := range cells {
		t.buf.Write(t.keys[i])
		switch c := &cells[i]; c.kind {
		case numberCell, floatCell:
			t.buf.Write(c.append(t.buf.AvailableBuffer()))
		case textCell:
			t.append(clean(c.text))
		default:
			t.buf.WriteString("null")
		}
	}
	t.buf.WriteString("}\n")
	_, err := t.w.Write(t.buf.Bytes())
	return err
}
