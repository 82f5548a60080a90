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

// hostileWeb serves a page for each hostile text, which has it as its title and as the text of a link
// that is broken.
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
