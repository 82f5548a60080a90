package archives

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nlnwa/gowarc/v3"

	"urltree/internal/testweb"
)

// site is a crawled tree, and the command that crawled it.
type site struct {
	command, dir string
	pages        []string // stored
}

func crawled(t *testing.T) *site {
	t.Helper()
	web := testweb.New(testweb.Options{Kind: testweb.Linked, Hosts: 3, Pages: 200, Seed: 9, MinSize: 0, MaxSize: 90_000, Redirects: .1})
	if err := web.Start(0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(web.Stop)
	s := &site{command: filepath.Join(t.TempDir(), "crawler"), dir: t.TempDir(), pages: web.Answer().Stored}
	if text, err := exec.Command("go", "build", "-C", "../..", "-o", s.command, "./cmd/crawler").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, text)
	}
	seeds := filepath.Join(s.dir, "seed.txt")
	if err := os.WriteFile(seeds, []byte(strings.Join(web.Seeds(), "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.run(t, "-quiet", "-delay", "0", "-allow-private", "-input", seeds)
	return s
}

// run runs the command in the folder of the tree.
func (s *site) run(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command(s.command, args...)
	cmd.Dir = s.dir
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%q: %v: %s", args, err, text)
	}
}

// export returns the name of a WARC file with all pages.
func (s *site) export(t *testing.T, format string) string {
	t.Helper()
	file := filepath.Join(s.dir, format+".warc")
	s.run(t, "export", "-what", "warc", "-format", format, "-output", file)
	return file
}

// index returns the lines of the index of that file.
func (s *site) index(t *testing.T, format string) string {
	t.Helper()
	file := filepath.Join(s.dir, format+".cdxj")
	s.run(t, "export", "-what", "cdxj", "-format", format, "-output", file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// types is what a file has to hold, as readers.mjs prints it.
func (s *site) types() string {
	return fmt.Sprintf("metadata %d\nresource %[1]d\nwarcinfo 1\n", len(s.pages))
}

// TestStrictReader: gowarc finds no fault when it is strict, and reads the pages that are stored,
// byte by byte.
func TestStrictReader(t *testing.T) {
	s := crawled(t)
	for _, format := range []string{"gzip", "plain"} {
		in, err := gowarc.NewWarcFileReader(s.export(t, format), 0, gowarc.WithStrictValidation())
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		types, pages := map[string]int{}, map[string]bool{}
		for r, err := range in.Records() {
			if err != nil {
				t.Fatalf("%s: record at %d: %v", format, r.Offset, err)
			}
			w := r.WarcRecord
			types[w.Type().String()]++
			url := w.WarcHeader().Get(gowarc.WarcTargetURI)
			block, err := w.Block().RawBytes()
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(block)
			if err != nil {
				t.Fatal(err)
			}
			if w.Type() == gowarc.Resource {
				pages[url] = true
				want, err := exec.Command(s.command, "cat", "-tree", filepath.Join(s.dir, "iut"), url).Output()
				if len(pages) < 20 && (err != nil || !bytes.Equal(body, want)) {
					t.Errorf("%s: %v: %d bytes, want %d", url, err, len(body), len(want))
				}
			}
			if err := errorsOf(w.Close(), r.Validation); err != nil {
				t.Fatalf("%s: record at %d: %v", format, r.Offset, err)
			}
		}
		if got := slices.Sorted(maps.Keys(pages)); !slices.Equal(got, slices.Sorted(slices.Values(s.pages))) {
			t.Errorf("%s: %d pages, want %d", format, len(got), len(s.pages))
		}
		got := ""
		for _, name := range slices.Sorted(maps.Keys(types)) {
			got += fmt.Sprintf("%s %d\n", name, types[name])
		}
		if got != s.types() {
			t.Errorf("%s: %q, want %q", format, got, s.types())
		}
	}
}

func errorsOf(err error, faults []error) error {
	if err == nil && len(faults) > 0 {
		return faults[0]
	}
	return err
}

// TestWarcio: warcio reads all records, their digests are right, and it makes the same index.
func TestWarcio(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node")
	}
	folder := t.TempDir()
	if text, err := exec.Command("npm", "install", "--prefix", folder, "--no-audit", "--no-fund", "warcio@2.4.11").CombinedOutput(); err != nil {
		t.Skipf("npm has no warcio: %v: %s", err, text)
	}
	script, err := os.ReadFile("readers.mjs")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "readers.mjs"), script, 0o600); err != nil {
		t.Fatal(err)
	}
	s := crawled(t)
	for _, format := range []string{"gzip", "plain"} {
		file := s.export(t, format)
		cmd := exec.Command(node, filepath.Join(folder, "readers.mjs"), file)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if got, err := cmd.Output(); err != nil || string(got) != s.types() {
			t.Errorf("%s: %v: %q, want %q: %s", format, err, got, s.types(), &stderr)
		}
		if format == "plain" {
			continue // of which warcio leaves out the empty lines behind a record
		}
		// Its index has the same lines, in the order of the file and with the parameters of a type.
		list, err := exec.Command(node, filepath.Join(folder, "node_modules/.bin/warcio"), "cdx-index", file).Output()
		if err != nil {
			t.Fatal(err)
		}
		want := slices.Sorted(strings.Lines(regexp.MustCompile(`("mime":"[^";]*)[^"]*"`).ReplaceAllString(string(list), `$1"`)))
		got := strings.Split(s.index(t, format), "\n")
		for i, line := range want {
			line = strings.NewReplacer(`"digest":"`, `"digest":"sha1:`, filepath.Base(file), "pages.warc.gz").Replace(strings.TrimSpace(line))
			if i >= len(got) || got[i] != line {
				t.Fatalf("%s: line %d of the index is\n%s, want\n%s", format, i+1, got[min(i, len(got)-1)], line)
			}
		}
	}
}
