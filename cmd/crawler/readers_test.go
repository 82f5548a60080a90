package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// hostile are texts that a page may have, each of which breaks out of some format.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `=HYPERLINK("http://evil.example/")`, `+1`, `-1`, `@SUM(A1)`,
	"a,b;\"c\"", "'", `{{.}}`, `</a></li></body>`, `\u0022`, "one\r\ntwo\tthree", `&amp;lt;`, "\u202eright to left", "-->",
}

// hostileWeb serves a page for each hostile text, which has it as its title and as the text of a
// link that is broken.
func hostileWeb(t *testing.T) *httptest.Server {
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		var n int
		switch _, err := fmt.Sscanf(r.URL.Path, "/page/%d", &n); {
		case r.URL.Path == "/":
			for n := range hostile {
				fmt.Fprintf(w, "<a href=/page/%d>%d</a>\n", n, n)
			}
		case err == nil:
			fmt.Fprintf(w, "<title>%s</title><a href=\"/gone/'%%22%%3E%%3Cb%%3E?x=<i>&amp;n=%d\">%[1]s</a>", escape.Replace(hostile[n]), n)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// python runs a program that reads standard input, and returns what it prints as JSON.
func python(t *testing.T, program, input string, result any) {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 here: what it would read is not checked")
	}
	cmd := exec.Command(path, "-c", program)
	cmd.Stdin, cmd.Env = strings.NewReader(input), append(os.Environ(), "PYTHONIOENCODING=utf-8")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("python3: %v, %s", err, err.(*exec.ExitError).Stderr)
	}
	if err := json.Unmarshal(out, result); err != nil {
		t.Fatal(err)
	}
}

const (
	pythonCSV   = "import csv, json, sys\nsys.stdin.reconfigure(newline='')\nprint(json.dumps(list(csv.reader(sys.stdin, strict=True))))"
	pythonLines = "import json, sys\nprint(json.dumps([json.loads(line) for line in sys.stdin]))"
)

// TestExportReaders: what other programs read from an export of hostile titles is the same in each
// format, as are its titles but for what no list shows.
func TestExportReaders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, dir, "-quiet", "-delay", "0", "-scope", "host", hostileWeb(t).URL+"/")
	columns := []string{"url", "state", "title", "type", "status", "folder"}
	export := func(format string) string {
		return must(t, dir, "export", "-format", format, "-columns", strings.Join(columns, ","))
	}
	text := export("csv")
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(records) != 2+2*len(hostile) {
		t.Fatalf("%d rows, want the root, %d pages and as many broken links", len(records)-1, len(hostile))
	}
	titles := map[string]string{}
	for _, r := range records[1:] {
		if r[1] != "stored" {
			continue
		}
		titles[r[0][strings.LastIndexByte(r[0], '/')+1:]] = r[2]
		if _, err := os.Stat(filepath.Join(dir, "iut", r[5], "content.html")); err != nil {
			t.Error(err)
		}
	}
	for n, want := range hostile {
		want = strings.ReplaceAll(strings.Join(strings.Fields(want), " "), "\u202e", "?")
		if strings.ContainsAny(want[:1], "=+-@") {
			want = "'" + want
		}
		if got := titles[fmt.Sprint(n)]; got != want {
			t.Errorf("title %q, want %q", got, want)
		}
	}

	lines := export("jsonl")
	var objects []map[string]any
	for line := range strings.Lines(lines) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
	for n, object := range objects {
		for k, name := range columns {
			want := strings.TrimPrefix(records[n+1][k], "'")
			got := ""
			if v := object[name]; v != nil {
				got = strings.TrimPrefix(fmt.Sprint(v), "'")
			}
			if got != want {
				t.Errorf("%s is %q in JSON, %q in CSV", name, got, want)
			}
		}
	}

	var rows [][]string
	python(t, pythonCSV, text, &rows)
	if diff := cmp.Diff(records, rows); diff != "" {
		t.Errorf("python3 reads other CSV: %s", diff)
	}
	var loaded []map[string]any
	python(t, pythonLines, lines, &loaded)
	if diff := cmp.Diff(objects, loaded); diff != "" {
		t.Errorf("python3 reads other JSON: %s", diff)
	}
}

const pythonHTML = `
import html.parser, json, sys
class Reader(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.rows, self.url, self.end, self.cell, self.within = [], "", "", None, ""
    def handle_starttag(self, tag, attrs):
        if tag not in "html head meta title style body h1 h2 p a span strong table tr td".split() or [a for a in attrs if a[0].startswith("on")]:
            raise SystemExit("<" + tag + ">")
        if tag == "h2": self.url, self.within = "", tag
        if tag == "p": self.within = tag
        if tag == "tr": self.row = []
        if tag == "td": self.cell = ""
    def handle_data(self, data):
        if self.cell is not None: self.cell += data
        elif self.within == "h2": self.url += data
    def handle_endtag(self, tag):
        if tag == "td": self.row.append(self.cell); self.cell = None
        if tag == "tr": self.rows.append([self.url.strip()] + self.row)
        if tag == "h2": self.within = ""
reader = Reader()
reader.feed(sys.stdin.read())
print(json.dumps(reader.rows))
`

// TestBrokenReaders: what other programs read from a report of broken links with hostile texts is
// the same in each format.
func TestBrokenReaders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, dir, "-quiet", "-delay", "0", "-scope", "host", "-edges", hostileWeb(t).URL+"/")
	text := must(t, dir, "broken", "-format", "csv")
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var want [][]string // URL, page, element, text
	for _, r := range records[1:] {
		shown := strings.TrimPrefix(r[8], "'")
		if r[8] == "'" {
			shown = "'"
		}
		want = append(want, []string{r[0], r[6], r[7], shown})
	}
	if len(want) != len(hostile) {
		t.Fatalf("%d broken links, want %d: %s", len(want), len(hostile), text)
	}
	for n, title := range hostile {
		title = strings.ReplaceAll(strings.Join(strings.Fields(title), " "), "\u202e", "?")
		found := false
		for _, row := range want {
			found = found || strings.HasSuffix(row[0], fmt.Sprintf("=%d", n)) && strings.HasSuffix(row[1], fmt.Sprintf("/%d", n)) && row[3] == title
		}
		if !found {
			t.Errorf("no link with the text %q", title)
		}
	}

	var doc struct {
		Broken []struct {
			URL   string
			Links []struct{ Page, Element, Text string }
		}
	}
	object := must(t, dir, "broken", "-format", "json")
	flat := func() (rows [][]string) {
		for _, b := range doc.Broken {
			for _, l := range b.Links {
				rows = append(rows, []string{b.URL, l.Page, l.Element, l.Text})
			}
		}
		return rows
	}
	if err := json.Unmarshal([]byte(object), &doc); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, flat()); diff != "" {
		t.Errorf("json: %s", diff)
	}

	page := must(t, dir, "broken", "-format", "html")
	var rows [][]string
	python(t, pythonHTML, page, &rows)
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("python3 reads other HTML: %s", diff)
	}
	python(t, pythonCSV, text, &rows)
	if diff := cmp.Diff(records, rows); diff != "" {
		t.Errorf("python3 reads other CSV: %s", diff)
	}
	doc.Broken = nil
	python(t, "import json, sys; print(json.dumps(json.load(sys.stdin)))", object, &doc)
	if diff := cmp.Diff(want, flat()); diff != "" {
		t.Errorf("python3 reads other JSON: %s", diff)
	}
}
