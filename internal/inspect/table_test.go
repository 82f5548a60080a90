package inspect

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// tableNames are columns, some of which need care in a format.
var tableNames = []string{"plain", `quo"te`, "com,ma", "<html>"}

var tableFields = func() (fields []field) {
	for _, name := range tableNames {
		fields = append(fields, field{name: name})
	}
	return fields
}()

// randomRows returns rows of cells with what is hard in one format or another, and what each cell
// is to be read as: the digits of a number, a text, or nil.
func randomRows(rnd *rand.Rand, n int) (rows [][]cell, want [][]any) {
	for range n {
		var row []cell
		var values []any
		for range tableNames {
			switch rnd.IntN(6) {
			case 0:
				n := rnd.Int64() - rnd.Int64()
				row, values = append(row, number(n)), append(values, json.Number(strconv.FormatInt(n, 10)))
			case 1:
				f := rnd.NormFloat64() / 1e6
				row, values = append(row, float(f)), append(values, json.Number(strconv.FormatFloat(f, 'g', -1, 64)))
			case 2:
				row, values = append(row, cell{}), append(values, nil)
			case 3:
				t := 1 + rnd.Int64N(1<<32)
				row, values = append(row, at(t)), append(values, time.Unix(t, 0).UTC().Format(time.RFC3339))
			case 4:
				s := randomText(rnd)
				row, values = append(row, whole(s)), append(values, s)
			default:
				s := randomText(rnd)
				row, values = append(row, text(s)), append(values, clean(s))
			}
		}
		rows, want = append(rows, row), append(want, values)
	}
	return rows, want
}

func randomText(rnd *rand.Rand) string {
	alphabet := []rune("ab\",;'\t\r\n\\<>&=+-@＝\x00\x1b\u2028\u202e\ufeffüß😀{}[]:#")
	var s strings.Builder
	for range 1 + rnd.IntN(8) {
		s.WriteRune(alphabet[rnd.IntN(len(alphabet))])
	}
	return s.String()
}

func written(t *testing.T, format string, rows [][]cell) string {
	t.Helper()
	var out bytes.Buffer
	w := bufio.NewWriterSize(&out, 32<<10)
	table := newTable(format, w, tableFields...)
	for _, row := range rows {
		if err := table.row(row...); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestTables: what readers of the standard library read in each format is what was written, but
// that no text of the CSV begins as a formula does.
func TestTables(t *testing.T) {
	rows, want := randomRows(rand.New(rand.NewPCG(1, 2)), 2000)
	text := written(t, "csv", rows)
	if strings.Count(text, "\r\n") < len(rows)+1 {
		t.Error("not each line of the CSV ends in CRLF, as RFC 4180 has it")
	}
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tableNames, records[0]); diff != "" {
		t.Error(diff)
	}
	for n, record := range records[1:] {
		for k, got := range record {
			s := ""
			switch v := want[n][k].(type) {
			case string:
				s = strings.ReplaceAll(v, "\r\n", "\n") // as csv.Reader has it
				if strings.ContainsAny(v[:1], "=+-@'\t\r") || strings.HasPrefix(v, "＝") {
					if got == s && s[0] != '\'' {
						t.Errorf("%q is a formula", got)
					}
					got = strings.TrimPrefix(got, "'")
					s = strings.TrimPrefix(s, "'")
				}
			case json.Number:
				s = v.String()
			}
			if got != s {
				t.Fatalf("row %d has %q, want %q", n, got, s)
			}
		}
	}

	lines := strings.SplitAfter(strings.TrimSuffix(written(t, "jsonl", rows), "\n"), "\n")
	if len(lines) != len(rows) {
		t.Fatalf("%d lines, want %d", len(lines), len(rows))
	}
	for n, line := range lines {
		d := json.NewDecoder(strings.NewReader(line))
		d.UseNumber()
		var object map[string]any
		if err := d.Decode(&object); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		object2 := map[string]any{}
		for k, name := range tableNames {
			object2[name] = want[n][k]
		}
		if diff := cmp.Diff(object2, object); diff != "" {
			t.Fatal(diff)
		}
	}

	for n := range rows { // TSV has no documents
		for k := range rows[n] {
			if rows[n][k].kind == document {
				rows[n][k], want[n][k] = cell{}, nil
			}
		}
	}
	for n, line := range strings.Split(strings.TrimSuffix(written(t, "tsv", rows), "\n"), "\n")[1:] {
		for k, got := range strings.Split(line, "\t") {
			s := "-"
			switch v := want[n][k].(type) {
			case string:
				s = v
			case json.Number:
				s = v.String()
			}
			if got != s {
				t.Fatalf("row %d has %q, want %q", n, got, s)
			}
		}
	}
}

// TestTableMemory: a row takes no memory that stays, and hardly any at all, however many there are.
func TestTableMemory(t *testing.T) {
	rows := [][]cell{{text("http://example.org/a"), text("a & b"), number(7), {}}}
	// encoding/json has its buffers from a pool, which the race detector empties at random.
	for format, most := range map[string]float64{"tsv": 1, "csv": 2, "jsonl": 16} {
		table := newTable(format, bufio.NewWriterSize(io.Discard, 32<<10), tableFields...)
		got := testing.AllocsPerRun(2000, func() {
			if err := table.row(rows[0]...); err != nil {
				t.Fatal(err)
			}
		})
		if got > most {
			t.Errorf("%s: %v allocations a row, want at most %v", format, got, most)
		}
	}
}

// TestLargeDocument: a large text is in JSON what it is, wherever its characters lie, and takes no
// memory besides.
func TestLargeDocument(t *testing.T) {
	for begin := range 4 {
		large := strings.Repeat("x", begin) + strings.Repeat("ab\"<\n\x00é\u2028\ufffd😀", 200_000)
		var out bytes.Buffer
		w := bufio.NewWriterSize(&out, 32<<10)
		table := newTable("jsonl", w, field{name: "html"})
		if err := errors.Join(table.row(whole(large)), w.Flush()); err != nil {
			t.Fatal(err)
		}
		var object map[string]string
		if err := json.Unmarshal(out.Bytes(), &object); err != nil || object["html"] != large {
			t.Errorf("%d bytes of %d, %v", len(object["html"]), len(large), err)
		}
		if n := table.quoted.Cap(); n > 1<<20 {
			t.Errorf("%d bytes of memory for a text of %d", n, len(large))
		}
	}
}

// TestColumns: all columns of all records have their values, and those not asked for cost nothing.
func TestColumns(t *testing.T) {
	i := sample(t)
	names := Words("columns")
	out, err := answer(i, "export", "-format", "jsonl", "-columns", strings.Join(names, ", "), "https://example.org/docs")
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]map[string]any{}
	for line := range strings.Lines(out) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil || len(object) != len(names) {
			t.Fatalf("%q: %v", line, err)
		}
		objects[object["url"].(string)] = object
	}
	page := objects["https://example.org/docs/"]
	delete(page, "time")
	delete(page, "found")
	if diff := cmp.Diff(map[string]any{
		"url": "https://example.org/docs/", "state": "stored", "reason": nil, "status": 200., "tries": 1., "source": "https://example.org/",
		"via": nil, "depth": 1., "bytes": 8., "type": "text/html", "charset": "utf-8",
		"sha256": "07424b7b276982491c0dbf5ab1e702d129e024cb4f69c9f5c2e61eb1427deada",
		"folder": "pr-https/do-example/do-org/dr-docs/dr-", "target": nil, "gone": nil, "title": "Docs – all", "description": "What there is.",
		"language": "en", "canonical": "https://example.org/docs/", "text": "docs", "html": "<p>docs\n",
	}, page); diff != "" {
		t.Error(diff)
	}
	if got := objects["https://example.org/docs/old"]["target"]; got != "https://example.org/docs/new" {
		t.Errorf("target %v", got)
	}
	slow := objects["https://example.org/docs/slow"]
	if slow["sha256"] != nil || slow["folder"] != nil || slow["title"] != nil || slow["text"] != nil || slow["reason"] != "timeout" {
		t.Errorf("of a URL that failed: %v", slow)
	}
	if open := objects["https://example.org/docs/slow?page=2"]; open["time"] != nil || open["bytes"] != nil || open["found"] == nil {
		t.Errorf("of a URL that waits: %v", open)
	}
}
