package main

import (
	stdflag "flag"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = stdflag.Bool("update", false, "write docs/reference.md, and the output of commands in the documents, anew")

// TestReference: docs/reference.md has the help texts as they are.
func TestReference(t *testing.T) {
	app := new(command).app()
	var b strings.Builder
	b.WriteString("# Reference\n\nAll flags, subcommands and exit codes, as `crawler -h` and `crawler SUBCOMMAND -h` print them.\n")
	section := func(title, text string) { fmt.Fprintf(&b, "\n## %s\n\n```\n%s```\n", title, text) }
	section("crawler", app.CustomAppHelpTemplate)
	for _, c := range app.VisibleCommands() {
		// The table of exit codes is there once.
		text, _, _ := strings.Cut(c.CustomHelpTemplate, "\nExit status\n")
		section("crawler "+c.Name, text)
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
}

// slow matches the lines that are there only where the machine is busy.
var slow = regexp.MustCompile(`(?m)^(time=.*|crawler: \d+ pages?, .*)\n`)

// TestDocuments runs the commands that README.md and docs/guide.md show. Blocks of console have
// their output, and those of one document share a folder. The paragraphs of sh blocks have a folder
// each, with seed files; their lines that call crawler must end without an error.
// https://example.org is the test's own site, testdata/docs.
func TestDocuments(t *testing.T) {
	bin := filepath.Dir(builtCommand())
	block := regexp.MustCompile("(?ms)^```(console|sh)\n(.*?)^```$")
	for _, name := range []string{"README.md", "docs/guide.md"} {
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

// A reader of the documents types their commands in a folder of its own.
type reader struct {
	dir, site string
	env       []string
}

func newReader(t *testing.T, bin string) *reader {
	server := httptest.NewServer(newSite("testdata/docs"))
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
