package tables

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A page of the site, and what an export has of it.
type page struct {
	path, media, body string
	text, html        string // "": nothing
}

func html(path, head, body, text string) page {
	all := "<!doctype html><title>" + head + "</title>" + body
	return page{path, "text/html; charset=utf-8", all, text, all}
}

var huge = strings.Repeat("äöü and so on ", 300_000)

// pages are those of the site besides the first one, which links to each of them.
var pages = []page{
	html("/plain", "plain", "<p>One</p><p>Two", "One\nTwo"),
	html("/formula", "=1+1", `<p>=HYPERLINK("http://evil.example/")`, `=HYPERLINK("http://evil.example/")`),
	html("/quotes", `"a", 'b'; \N`, "<pre>\"x\",\r\ny\tz\n\n'\\'</pre>", "\"x\",\ny z\n'\\'"),
	html("/null", "NULL", "<p>NULL", "NULL"),
	html("/empty", "", "", ""),
	html("/huge", "huge", huge, ""), // its text is cut
	html("/control", "\x1b[31m", "a\x1b\x7fb\u2028c", "ab c"),
	html("/emoji", "😀", "<p>😀 日本", "😀 日本"),
	{"/invalid", "text/html; charset=utf-8", "<p>a\xff\xfeb\xe2\x82", "a\ufffd\ufffdb\ufffd\ufffd", "<p>a\ufffd\ufffdb\ufffd"},
	{"/zero", "text/html; charset=utf-8", "<p>a\x00b", "ab", "<p>a\ufffdb"},
	{"/latin", "text/html; charset=iso-8859-1", "<p>\xe4\xf6", "äö", "<p>äö"},
	{"/wide", "text/html", "\xff\xfe<\x00p\x00>\x00\xe4\x00", "ä", "<p>ä"},
	{"/list.txt", "text/plain; charset=utf-8", "a, \"b\"\nc", "a, \"b\"\nc", ""},
	{"/image.png", "image/png", "\x89PNG\r\n\x1a\n\x00", "", ""},
	{"/data.json", "application/json", `{"a":1}`, "", ""},
}

// A site is a tree that was crawled, and the command that crawled it.
type site struct{ command, dir, url string }

func crawled(t *testing.T, command, store string) *site {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			for _, p := range pages {
				fmt.Fprintf(w, "<a href=%q rel=nofollow>to %[1]s, it</a>\n<a href=%[1]q>again</a>\n", p.path)
			}
			fmt.Fprint(w, `<a href="/moved">moved</a><a href="/gone">gone</a>`)
			return
		case "/moved":
			http.Redirect(w, r, "/plain", http.StatusMovedPermanently)
			return
		}
		for _, p := range pages {
			if p.path == r.URL.Path {
				w.Header().Set("Content-Type", p.media)
				_, _ = w.Write([]byte(p.body))
				return
			}
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	s := &site{command, t.TempDir(), server.URL}
	s.run(t, "-quiet", "-store", store, "-edges", "-scope", "host", "-delay", "0", "-allow-private", "-accept", "*/*", s.url+"/")
	s.run(t, "rank")
	return s
}

func (s *site) run(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command(s.command, args...)
	cmd.Dir = s.dir
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("crawler %q: %v: %s", args, err, text)
	}
}

// export writes what an export has in a format to a file, and returns its name.
func (s *site) export(t *testing.T, what, format string, args ...string) string {
	t.Helper()
	name := filepath.Join(s.dir, what+"."+format)
	s.run(t, append([]string{"export", "-what", what, "-format", format, "-output", name}, args...)...)
	return name
}

func built(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "crawler")
	if text, err := exec.Command("go", "build", "-C", "../..", "-o", name, "./cmd/crawler").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, text)
	}
	return name
}

// duck returns a function that runs statements in DuckDB, and returns the rows of each.
func duck(t *testing.T) func(t *testing.T, statements ...string) [][][]any {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node")
	}
	folder := t.TempDir()
	if text, err := exec.Command("npm", "install", "--prefix", folder, "--fetch-retries=0", "--fetch-timeout=30000", "--no-audit", "--no-fund", "@duckdb/node-api@1.5.6-r.1").CombinedOutput(); err != nil {
		t.Skipf("npm has no DuckDB: %v: %s", err, text)
	}
	script, err := os.ReadFile("query.mjs")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(folder, "query.mjs")
	if err := os.WriteFile(name, script, 0o600); err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T, statements ...string) (answers [][][]any) {
		t.Helper()
		asked, err := json.Marshal(statements)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(node, name)
		var stderr bytes.Buffer
		cmd.Stdin, cmd.Stderr = bytes.NewReader(asked), &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("DuckDB: %v: %s", err, &stderr)
		}
		if err := json.Unmarshal(out, &answers); err != nil {
			t.Fatal(err)
		}
		return answers
	}
}

const columns = "url,status,bytes,time,type,charset,sha256,title,text,html"

// types are those of the columns, in the words of DuckDB.
const types = "url: 'VARCHAR', status: 'BIGINT', bytes: 'BIGINT', time: 'TIMESTAMPTZ', type: 'VARCHAR', charset: 'VARCHAR', sha256: 'VARCHAR', title: 'VARCHAR', text: 'VARCHAR', html: 'VARCHAR'"

// TestDuckDB: DuckDB reads what was exported in each format, with counts, types, nulls, joins.
func TestDuckDB(t *testing.T) {
	ask := duck(t)
	command := built(t)
	for _, store := range []string{"folders", "warc"} {
		t.Run(store, func(t *testing.T) {
			s := crawled(t, command, store)
			parquet := s.export(t, "pages", "parquet", "-columns", columns)
			lines := s.export(t, "pages", "jsonl", "-columns", columns)
			asJSON := fmt.Sprintf("read_json('%s', format='newline_delimited', columns={%s})", lines, types)
			comma := s.export(t, "pages", "csv", "-columns", columns)
			asCSV := fmt.Sprintf("read_csv('%s', header=true, delim=',', quote='\"', escape='\"', strict_mode=true, max_line_size=20000000, columns={%s})", comma, types)
			edges, urls, ranks := s.export(t, "edges", "parquet"), s.export(t, "urls", "parquet"), s.export(t, "ranks", "parquet")
			empty := filepath.Join(s.dir, "empty.parquet")
			s.run(t, "export", "-what", "pages", "-format", "parquet", "-to", "1h", "-output", empty)

			all, links := len(pages)+1, 2*len(pages)+2+1 // of the first page, and a redirect
			q := func(text string, args ...any) string { return fmt.Sprintf(text, args...) }
			tests := []struct{ name, statement, want string }{
				{"types", q("select string_agg(column_name || ': ''' || replace(column_type, 'TIMESTAMP WITH TIME ZONE', 'TIMESTAMPTZ') || '''', ', ') from (describe from '%s')", parquet), q("[[%q]]", types)},
				{"types of ranks", q("select string_agg(column_name || ' ' || column_type, ', ') from (describe from '%s')", ranks), `[["url VARCHAR, rank DOUBLE"]]`},
				{"pages", q("select count(*), count(distinct url), count(sha256), sum(status) from '%s'", parquet), q(`[["%d","%[1]d","%[1]d","%d"]]`, all, 200*all)},
				{"pages in JSON", q("select count(*) from (select * from '%s' except select * from %s)", parquet, asJSON), `[["0"]]`},
				{"JSON in pages", q("select count(*) from (select * from %s except select * from '%s')", asJSON, parquet), `[["0"]]`},
				{"pages in CSV", q("select count(*), sum(bytes), max(time) = (select max(time) from '%s') from %s", parquet, asCSV), q(`[["%d","%d",true]]`, all, bytesOf(s))},
				{"digests of HTML", q("select count(*) from '%s' where html is not null and sha256(html) <> sha256", parquet), `[["4"]]`}, // invalid, zero, latin, wide
				{"no text", q("select count(*) from '%s' where text is null", parquet), `[["3"]]`},                                        // empty, image, data
				{"no HTML", q("select count(*) from '%s' where html is null", parquet), `[["3"]]`},
				{"the long text", q("select strlen(text), strlen(html) from '%s' where url like '%%/huge'", parquet), q(`[["1048576","%d"]]`, len(pages[5].html))},
				{"time", q("select count(*) from '%s' where time between now() - interval 1 hour and now()", parquet), q(`[["%d"]]`, all)},
				{"groups", q("select count(*) from parquet_metadata('%s') where compression <> 'ZSTD'", parquet), `[["0"]]`},
				{"edges", q("select count(*), count(text), count(rel), count(distinct \"to\") from '%s'", edges), q(`[["%d","%d","%d","%d"]]`, links, links-1, len(pages), len(pages)+2)},
				{"join", q("select count(*), count(distinct p.url) from '%s' e join '%s' p on p.url = e.\"to\"", edges, parquet), q(`[["%d","%d"]]`, 2*len(pages)+1, len(pages))},
				{"outer join", q("select count(*) from '%s' e left join '%s' p on p.url = e.\"to\" where p.url is null", edges, parquet), `[["2"]]`},
				{"states", q("select state, count(*) from '%s' group by state order by state", urls), q(`[["failed","1"],["redirected","1"],["stored","%d"]]`, all)},
				{"ranks", q("select count(*), round(sum(rank), 9) from '%s'", ranks), q(`[["%d",1]]`, len(pages)+3)},
				{"empty", q("select count(*), count(url) from '%s'", empty), `[["0","0"]]`},
			}
			var statements []string
			for _, tt := range tests {
				statements = append(statements, tt.statement)
			}
			answers := ask(t, append(statements, "select url, text, html from '"+parquet+"'")...)
			for k, tt := range tests {
				if got, err := json.Marshal(answers[k]); err != nil || string(got) != tt.want {
					t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
				}
			}
			s.check(t, answers[len(tests)])
		})
	}
}

func bytesOf(s *site) (n int) {
	for _, p := range pages {
		n += len(p.body)
		n += len(fmt.Sprintf("<a href=%q rel=nofollow>to %[1]s, it</a>\n<a href=%[1]q>again</a>\n", p.path))
	}
	return n + len(`<a href="/moved">moved</a><a href="/gone">gone</a>`)
}

// check compares rows of url, text and html with the site.
func (s *site) check(t *testing.T, rows [][]any) {
	t.Helper()
	if len(rows) != len(pages)+1 {
		t.Fatalf("%d rows, want %d", len(rows), len(pages)+1)
	}
	for _, row := range rows {
		for _, p := range pages {
			if row[0] != s.url+p.path {
				continue
			}
			for k, want := range []string{p.text, p.html} {
				if p.path == "/huge" && k == 0 {
					want = huge[:1<<20]
				}
				if got, _ := row[k+1].(string); got != want || row[k+1] == nil != (want == "") {
					t.Errorf("%s: column %d is %.100q, want %.100q", p.path, k+1, row[k+1], want)
				}
			}
		}
	}
}

// TestSqlite: sqlite reads CSV, with counts, joins, and the texts of pages as they are.
func TestSqlite(t *testing.T) {
	s := crawled(t, built(t), "warc")
	s.export(t, "pages", "csv", "-columns", columns)
	s.export(t, "edges", "csv")
	out := s.program(t, `
create table pages (url text primary key, status integer, bytes integer, time text, type text, charset text, sha256 text, title text, text text, html text);
.import --csv --skip 1 pages.csv pages
.import --csv edges.csv edges
select count(*) as n, sum(bytes) as m, typeof(max(bytes)) as s from pages;
select count(*) as n, count(distinct p.url) as m, max(e."from") as s from edges e join pages p on p.url = e."to";
select count(*) as n, sum(text = '') as m, count(datetime(time)) as s from pages;
select url as s, hex(text) as x, hex(html) as y from pages;
`, "sqlite3", "-json", "tree.db")
	type row struct {
		N, M    int
		S, X, Y any
	}
	var answers [][]row
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
		var rows []row
		if err := d.Decode(&rows); err != nil {
			t.Fatal(err)
		}
		answers = append(answers, rows)
	}
	for k, want := range []row{
		{N: len(pages) + 1, M: bytesOf(s), S: "integer"},
		{N: 2*len(pages) + 1, M: len(pages), S: s.url + "/moved"},
		{N: len(pages) + 1, M: 3, S: float64(len(pages) + 1)},
	} {
		if got := answers[k][0]; got != want {
			t.Errorf("answer %d: %v, want %v", k, got, want)
		}
	}
	var rows [][]any
	for _, r := range answers[3] {
		values := []any{r.S}
		for _, digits := range []any{r.X, r.Y} {
			text, err := hex.DecodeString(digits.(string))
			if err != nil {
				t.Fatal(err)
			}
			// A spreadsheet would take this for a formula.
			value := strings.Replace(string(text), "'=HYPERLINK", "=HYPERLINK", 1)
			if values = append(values, value); value == "" {
				values[len(values)-1] = nil
			}
		}
		rows = append(rows, values)
	}
	s.check(t, rows)
}

// TestPandas: pandas reads JSON lines with the types of their columns, and the texts as they are.
func TestPandas(t *testing.T) {
	python := pandas(t)
	s := crawled(t, built(t), "folders")
	s.export(t, "pages", "jsonl", "-columns", columns)
	s.export(t, "edges", "jsonl")
	out := s.program(t, `
import json, pandas
pages = pandas.read_json("pages.jsonl", lines=True, convert_dates=["time"])
edges = pandas.read_json("edges.jsonl", lines=True)
assert str(pages.dtypes["time"]) == "datetime64[ns, UTC]", pages.dtypes
assert pages.dtypes["bytes"] == "int64" and pages.dtypes["status"] == "int64", pages.dtypes
joined = edges.merge(pages, left_on="to", right_on="url")
assert len(joined) == 2 * (len(pages) - 1) + 1, len(joined)
print(json.dumps([[x if isinstance(x, str) else None for x in row] for row in pages[["url", "text", "html"]].values.tolist()]))
`, python, "-")
	var rows [][]any
	if err := json.Unmarshal([]byte(out), &rows); err != nil {
		t.Fatal(err)
	}
	s.check(t, rows)
}

// TestGuide: the programs of the guide's section about data answer what it shows.
func TestGuide(t *testing.T) {
	text, err := os.ReadFile("../../docs/guide.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## As data\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?ms)^```\\w+\n(.*?)^```$").FindAllStringSubmatch(section, -1)
	if len(blocks) != 4 {
		t.Fatalf("%d blocks, want the exports and three programs", len(blocks))
	}
	server := httptest.NewServer(http.FileServer(http.Dir("../../cmd/crawler/testdata/docs")))
	t.Cleanup(server.Close)
	s := &site{built(t), t.TempDir(), server.URL}
	s.run(t, "-quiet", "-edges", "-scope", "prefix", "-tree", "docs", "-delay", "0", "-allow-private", s.url+"/docs/")
	for line := range strings.Lines(blocks[0][1]) {
		if args, ok := strings.CutPrefix(line, "$ crawler "); ok {
			s.run(t, strings.Fields(args)...)
		}
	}
	for k, tt := range []struct {
		name, comment string
		run           func(t *testing.T, code string) string
	}{
		{"DuckDB", "-- ", func(t *testing.T, code string) (shown string) {
			code = strings.ReplaceAll(code, " '", " '"+s.dir+"/")
			for _, rows := range duck(t)(t, strings.Split(strings.TrimSuffix(code, ";\n"), ";")...) {
				for _, row := range rows {
					var values []string
					for _, v := range row {
						if v != nil {
							values = append(values, fmt.Sprint(v))
						}
					}
					shown += strings.Join(values, "|") + "\n"
				}
			}
			return shown
		}},
		{"sqlite", "-- ", func(t *testing.T, code string) string { return s.program(t, code, "sqlite3", "tree.db") }},
		{"pandas", "# ", func(t *testing.T, code string) string { return s.program(t, code, pandas(t), "-") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var code, want string
			for line := range strings.Lines(blocks[k+1][1]) {
				if shown, ok := strings.CutPrefix(line, tt.comment); ok {
					want += shown
				} else {
					code += line
				}
			}
			if got := tt.run(t, code); got != want {
				t.Errorf("it answers\n%s, the guide has\n%s", got, want)
			}
		})
	}
}

// program returns what a program prints that reads code from standard input.
func (s *site) program(t *testing.T, code, name string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("there is no %s", name)
	}
	cmd := exec.Command(path, args...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Stdin, cmd.Stderr = s.dir, strings.NewReader(code), &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%s: %v: %s", name, err, &stderr)
	}
	return string(out)
}

// pandas returns the name of a Python that has pandas.
func pandas(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(name, "-c", "import pandas").Run() == nil {
			return name
		}
	}
	t.Skip("there is no pandas")
	return ""
}
