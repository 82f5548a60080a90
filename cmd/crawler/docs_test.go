package main

import (
	stdflag "flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = stdflag.Bool("update", false, "write docs/reference.md, and the output of commands in the documents, anew")

// TestReference: docs/reference.md has the help texts as they are.
func TestReference(t *testing.T) {
	c := newCommand(nil)
	var b strings.Builder
	b.WriteString("# Reference\n\nAll flags, subcommands and exit codes, as `crawler -h` and `crawler SUBCOMMAND -h` print them.\n")
	section := func(title, text string) { fmt.Fprintf(&b, "\n## %s\n\n```\n%s```\n", title, text) }
	section("crawler", c.crawlPage().text())
	for _, sub := range c.visible() {
		// The table of exit codes is there once.
		text, _, _ := strings.Cut(sub.page().text(), "\nExit status\n")
		section("crawler "+sub.name, text)
	}
	compareFile(t, "../../docs/reference.md", b.String())
}

// compareFile compares a file with what it should be, or with -update makes it so.
func compareFile(t *testing.T, name, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, string(have)); d != "" {
		t.Errorf("%s (-want +got; go test ./cmd/crawler -run '%s' -update writes it anew):\n%s", name, t.Name(), d)
	}
}

// varying is what differs from run to run in the output of commands, with what stands for it in the
// documents.
var varying = []struct {
	text *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "127.0.0.1:8000"},
	{regexp.MustCompile(`po-\d+`), "po-8000"},
	{regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "2026-11-29T10:00:00Z"},
	{regexp.MustCompile(` in \d+(\.\d+)?m?s\b`), " in 1s"},
	{regexp.MustCompile(`residual \S+`), "residual 7.99e-11"},
	{regexp.MustCompile(`(http-4xx\t-\t)\S+`), "${1}0s"},
}

// slow matches the lines that are there only where the machine is busy.
var slow = regexp.MustCompile(`(?m)^(time=.*|crawler: \d+ pages?, .*)\n`)

// runDocuments are the documents whose commands TestDocuments runs.
var runDocuments = []string{"README.md", "docs/guide.md", "docs/operation.md"}

// TestDocuments runs the commands that these documents show. Blocks of console have
// their output, and those of one document share a folder. The paragraphs of sh blocks have a folder
// each, with seed files; their lines that call crawler must end without an error.
// https://example.org is the test's own site, testdata/docs.
func TestDocuments(t *testing.T) {
	t.Parallel()
	bin := filepath.Dir(builtCommand())
	block := regexp.MustCompile("(?ms)^```(console|sh)\n(.*?)^```$")
	for _, name := range runDocuments {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile("../../" + name)
			if err != nil {
				t.Fatal(err)
			}
			console, n := newReader(t, bin), 0
			got := block.ReplaceAllStringFunc(string(text), func(whole string) string {
				m := block.FindStringSubmatch(whole)
				if m[1] == "console" {
					return "```console\n" + console.session(t, m[2]) + "```"
				}
				for paragraph := range strings.SplitSeq(m[2], "\n\n") {
					n++
					t.Run(fmt.Sprint("sh ", n), func(t *testing.T) {
						t.Parallel()
						newReader(t, bin).commands(t, paragraph)
					})
				}
				return whole
			})
			compareFile(t, "../../"+name, got)
		})
	}
}

// notRun are commands that documents show in lines of their own and that no test runs, with the
// reason. TestCommandsShown checks their flags like those of all others.
var notRun = map[string]string{
	"crawler -cluster 127.0.0.1:4222 -engine embedded -node-id a -cluster-nodes 2 https://example.org/":       "TestClusterOfProcesses runs it",
	"crawler -cluster 127.0.0.1:4222 -node-id b -cluster-nodes 2":                                             "likewise",
	"crawler cluster status -cluster 10.0.0.1:4222 -cluster-creds engine -cluster-ca engine.pem":              "TestClusterCommand runs it",
	"crawler cluster seeds more.txt -cluster 10.0.0.1:4222 -cluster-creds engine -cluster-ca engine.pem":      "likewise",
	"crawler cluster drain two -cluster 10.0.0.1:4222 -cluster-creds engine -cluster-ca engine.pem":           "TestClusterHandover runs it",
	"crawler cluster reassign three -yes -cluster 10.0.0.1:4222 -cluster-creds engine -cluster-ca engine.pem": "TestClusterReassign runs it",
	"cd /var/lib/crawl && crawler -quiet -time 1h":                                                            "an hour, by cron",
	"crawler -quiet -scope host -delay 0 -per-host 5 -sync full -tree DIR/iut -output DIR/res.txt URL":        "make bench-peers runs it",
	"crawler serve                                  # the whole tree, at http://127.0.0.1:8080/":              "TestScripts/serve runs it",
	"crawler -listen 6060 -scope host https://example.org/":                                                   "TestListen runs it",
	"crawler -listen 0.0.0.0:6060 -listen-tls pair.pem":                                                       "TestListenToken runs it",
	"crawler serve -listen 9000 https://example.org/docs/":                                                    "likewise",
}

// TestCommandsShown: each command that a document shows, in its text or in a line of its own, has a
// subcommand and flags that exist, and those in lines of their own are run, or stand in notRun.
func TestCommandsShown(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d documents: %v", len(pages), err)
	}
	block := regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	line := regexp.MustCompile(`(?m)^ {4,}.*\bcrawler .*$`)
	command := regexp.MustCompile(`(?:^|&& |\$ |[A-Z]=\S+ )crawler( .*)?$`)
	span := regexp.MustCompile("`crawler( [^`]*)?`")
	known, found := subcommandFlags(), map[string]bool{}
	check := func(page, text string) {
		t.Helper()
		words := strings.Fields(strings.ReplaceAll(text, "'", " "))
		flags := known[""]
		if len(words) > 0 && known[words[0]] != nil {
			flags, words = known[words[0]], words[1:]
		}
		for _, word := range words {
			if word == "#" {
				break
			}
			name, _, _ := strings.Cut(word, "=")
			if strings.HasPrefix(name, "-") && len(name) > 1 && !flags[strings.TrimLeft(name, "-")] {
				t.Errorf("%s: crawler%s: there is no flag %s", page, text, name)
			}
		}
	}
	for _, page := range append(pages, "../../README.md", "../../CONTRIBUTING.md") {
		name := strings.TrimPrefix(page, "../../")
		if name == "docs/reference.md" {
			continue // TestReference compares it with the help texts
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		runs := slices.Contains(runDocuments, name)
		shown := func(lines string, run bool) {
			for l := range strings.Lines(lines) {
				l = strings.TrimSpace(l)
				m := command.FindStringSubmatch(l)
				if m == nil {
					continue
				}
				check(name, m[1])
				reason := ""
				for part := range notRun {
					if strings.HasSuffix(l, part) {
						reason, found[part] = notRun[part], true
					}
				}
				if !run && reason == "" {
					t.Errorf("%s: %q is not run: make it a block of sh or console of %v, or say in notRun why not", name, l, runDocuments)
				}
			}
		}
		for _, m := range block.FindAllStringSubmatch(string(text), -1) {
			shown(m[2], runs && (m[1] == "sh" || m[1] == "console"))
		}
		rest := block.ReplaceAllString(string(text), "")
		for _, l := range line.FindAllString(rest, -1) {
			shown(l, false)
		}
		for _, m := range span.FindAllStringSubmatch(rest, -1) {
			check(name, m[1])
		}
	}
	for part := range notRun {
		if !found[part] {
			t.Errorf("notRun has %q, which no document shows", part)
		}
	}
}

// subcommandFlags returns the names of the flags of each subcommand, of the crawl by "".
func subcommandFlags() map[string]map[string]bool {
	c := newCommand(nil)
	names := func(flags []*option) map[string]bool {
		set := map[string]bool{"h": true, "help": true, "version": true}
		for _, o := range flags {
			set[o.name] = true
		}
		return set
	}
	all := map[string]map[string]bool{"": names(c.flags.all)}
	for _, sub := range c.subcommands {
		all[sub.name] = names(sub.flags)
	}
	return all
}

// A reader of the documents types their commands in a folder of its own.
type reader struct {
	dir, site string
	env       []string
}

func newReader(t *testing.T, bin string) *reader {
	server := httptest.NewServer(changing(newSite("testdata/docs")))
	t.Cleanup(server.Close)
	r := &reader{dir: t.TempDir(), site: server.URL}
	r.env = append(os.Environ(), "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"), "URLTREE_DELAY=0", "TMPDIR="+t.TempDir())
	for name, text := range map[string]string{"seed.txt": r.site + "/\n", "pages.txt": r.site + "/docs/\n", "cookies.txt": "# Netscape HTTP Cookie File\n"} {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// changing adds to a site the folder news, which is another one once it was asked for.
func changing(site http.Handler) http.Handler {
	pages := map[string][2]string{
		"/news/":             {"<title>News</title><p>What is new: <a href=monday.html>on Monday</a>", "<title>News</title><p>What is new: <a href=tuesday.html>on Tuesday</a>"},
		"/news/monday.html":  {"<title>Monday</title><p>rain", ""},
		"/news/tuesday.html": {"<title>Tuesday</title><p>sun", "<title>Tuesday</title><p>sun"},
	}
	var asked sync.Map
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, ok := pages[r.URL.Path]
		if !ok {
			site.ServeHTTP(w, r)
			return
		}
		text := page[0]
		if _, again := asked.LoadOrStore(r.URL.Path, true); again {
			text = page[1]
		}
		if w.Header().Set("Content-Type", "text/html; charset=utf-8"); text == "" {
			w.WriteHeader(http.StatusGone)
		}
		io.WriteString(w, text)
	})
}

func (r *reader) run(line string) (string, error) {
	for _, example := range []string{"https://example.org", "http://127.0.0.1:8000"} {
		line = strings.ReplaceAll(line, example, r.site)
	}
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir, cmd.Env = r.dir, r.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// session runs the commands of a block, lines that begin with $, and returns the block with their
// output.
func (r *reader) session(t *testing.T, block string) string {
	var b strings.Builder
	for line := range strings.Lines(block) {
		command, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			continue
		}
		out, err := r.run(command)
		if err != nil {
			t.Errorf("%s%v\n%s", line, err, out)
		}
		out = slow.ReplaceAllString(out, "")
		for _, v := range varying {
			out = v.text.ReplaceAllString(out, v.as)
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(line + out)
	}
	return b.String()
}

// commands runs the lines of a block that call crawler.
func (r *reader) commands(t *testing.T, block string) {
	ran := 0
	for line := range strings.Lines(block) {
		if !strings.HasPrefix(line, "crawler ") && !strings.HasPrefix(line, "URLTREE_") {
			continue
		}
		ran++
		if out, err := r.run(line); err != nil && !(strings.Contains(line, " -fail ") && err.Error() == "exit status 5") {
			t.Errorf("%s%v\n%s", line, err, out)
		}
	}
	if ran == 0 {
		t.Errorf("no command in %q", block)
	}
}
