package words

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0 pages", 1: "1 page", 2: "2 pages", 1_000_000: "1000000 pages"} {
		if got := Count(n, "page"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration][2]string{ // exact, and cut
		0:                             {"0s", "0s"},
		250 * time.Millisecond:        {"250ms", "250ms"},
		1900 * time.Millisecond:       {"1.9s", "1s"},
		10 * time.Minute:              {"10m", "10m"},
		61 * time.Second:              {"1m1s", "1m1s"},
		time.Hour + time.Second:       {"1h0m1s", "1h"},
		10*time.Hour + 10*time.Minute: {"10h10m", "10h10m"},
		9*time.Hour + 58*time.Minute + 59*time.Second: {"9h58m59s", "9h58m"},
		24 * time.Hour:                {"1d", "1d"},
		36 * time.Hour:                {"1d12h", "1d12h"},
		52*time.Hour + time.Minute:    {"2d4h1m", "2d4h"},
		15*24*time.Hour + time.Minute: {"15d1m", "15d"},
	} {
		if got := [2]string{Duration(d), Span(d)}; got != want {
			t.Errorf("%s is written %q, want %q", d, got, want)
		}
	}
}

// counted matches a number in a format that stands before a plural.
var counted = regexp.MustCompile(`%d (?:[a-z-]+ )?(?:pages|URLs|hosts|links|records|files|lines|seeds|faults|requests|writes|iterations|sitemaps|origins|retries|tries|inodes)\b`)

// always are parts of messages in which such a number is never 1, or a limit.
var always = map[string]string{
	"a made-up web of %d pages":      "the size of the demo's web",
	"%d faults, the first":           "one fault has a message of its own",
	"more than %d origins":           "a limit",
	"%d files (ulimit -n)":           "a limit",
	"more than %d lines":             "a limit",
	"%d URLs, at most":               "more than 4,000,000,000",
	"%d lines, want 1":               "one line is right",
	"its %d pages need":              "a file of one page is no database",
	"%d sitemaps to be read, has %d": "a fault of the index, in its own words",
	"%d URLs found = %d stored":      "the demo finds thousands",
	"%d pages a second":              "a rate",
}

// TestMessages: no message says "1 pages". Numbers that may be 1 go through Count.
func TestMessages(t *testing.T) {
	root, used := "../..", map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." && name != "." || name == "tools" || name == "examples" || strings.HasPrefix(d.Name(), "test")):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, _ := strconv.Unquote(lit.Value)
			for _, m := range counted.FindAllStringIndex(text, -1) {
				if strings.HasSuffix(text[:m[0]], "%d of ") {
					continue // 1 of 1 pages
				}
				excused := false
				for part := range always {
					if strings.Contains(text, part) {
						excused, used[part] = true, true
					}
				}
				if !excused {
					t.Errorf("%s: %q may say %q: use Count", name, text, strings.Replace(text[m[0]:m[1]], "%d", "1", 1))
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for part := range always {
		if !used[part] {
			t.Errorf("no message has %q any more", part)
		}
	}
}
