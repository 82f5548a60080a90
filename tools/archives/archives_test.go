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
	command, dir, store string
	pages               []string // stored
	moved               int      // URLs that redirect
}

var stores = []string{"folders", "warc"}

// built returns the name of the command, which it builds.
func built(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "crawler")
	if text, err := exec.Command("go", "build", "-C", "../..", "-o", name, "./cmd/crawler").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, text)
	}
	return name
}

func crawled(t *testing.T, store string) *site {
	t.Helper()
	web := testweb.New(testweb.Options{Kind: testweb.Linked, Hosts: 3, Pages: 200, Seed: 9, MinSize: 0, MaxSize: 90_000, Redirects: .1})
	if err := web.Start(0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(web.Stop)
	s := &site{store: store, command: built(t), dir: t.TempDir()}
	answer := web.Answer()
	s.pages, s.moved = answer.Stored, len(answer.Redirected)
	seeds := filepath.Join(s.dir, "seed.txt")
	if err := os.WriteFile(seeds, []byte(strings.Join(web.Seeds(), "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.run(t, "-quiet", "-store", store, "-delay", "0", "-allow-private", "-input", seeds)
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

// segments returns the names of the files in which the tree has its pages.
func (s *site) segments(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.dir, "iut", "warc", "*"))
	if err != nil || (len(files) > 0) != (s.store == "warc") {
		t.Fatal(files, err)
	}
	return files
}

// types is what a file has to hold, as readers.mjs prints it.
func (s *site) types() string {
	if s.store == "warc" {
		return fmt.Sprintf("metadata %d\nrequest %[1]d\nresponse %[1]d\nwarcinfo 1\n", len(s.pages)+s.moved)
	}
	return fmt.Sprintf("metadata %d\nresource %[1]d\nwarcinfo 1\n", len(s.pages))
}

// TestStrictReader: gowarc finds no fault when it is strict, and reads the pages that are stored,
// byte by byte: in an export of either store, and in the files of the store itself.
func TestStrictReader(t *testing.T) {
	for _, store := range stores {
		s := crawled(t, store)
		for _, format := range []string{"gzip", "plain"} {
			types, pages := s.readStrictly(t, s.export(t, format))
			for _, url := range s.pages {
				if !pages[url] {
					t.Errorf("%s %s: %s is not there", store, format, url)
				}
			}
			got := ""
			for _, name := range slices.Sorted(maps.Keys(types)) {
				got += fmt.Sprintf("%s %d\n", name, types[name])
			}
			if got != s.types() {
				t.Errorf("%s %s: %q, want %q", store, format, got, s.types())
			}
		}
		found := map[string]bool{}
		for _, file := range s.segments(t) {
			_, pages := s.readStrictly(t, file)
			maps.Copy(found, pages)
		}
		for _, url := range s.pages {
			if store == "warc" && !found[url] {
				t.Errorf("%s is in no file of the store", url)
			}
		}
	}
}

// readStrictly reads a file and returns how many records of each type it has, and the pages.
func (s *site) readStrictly(t *testing.T, file string) (types map[string]int, pages map[string]bool) {
	t.Helper()
	in, err := gowarc.NewWarcFileReader(file, 0, gowarc.WithStrictValidation())
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	types, pages = map[string]int{}, map[string]bool{}
	for r, err := range in.Records() {
		if err != nil {
			t.Fatalf("%s: record at %d: %v", file, r.Offset, err)
		}
		w := r.WarcRecord
		types[w.Type().String()]++
		if w.Type() == gowarc.Resource || w.Type() == gowarc.Response {
			url := w.WarcHeader().Get(gowarc.WarcTargetURI)
			pages[url] = true
			s.compare(t, url, w, len(pages) < 20)
		}
		if err := errorsOf(w.Close(), r.Validation); err != nil {
			t.Fatalf("%s: record at %d: %v", file, r.Offset, err)
		}
	}
	return types, pages
}

// compare reads the payload of a record, and compares it with that of the page if all is set and it
// is one.
func (s *site) compare(t *testing.T, url string, w gowarc.WarcRecord, all bool) {
	t.Helper()
	read := w.Block().RawBytes
	if b, ok := w.Block().(gowarc.PayloadBlock); ok {
		read = b.PayloadBytes
	}
	in, err := read()
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	if !all || !slices.Contains(s.pages, url) {
		return
	}
	want, err := exec.Command(s.command, "cat", "-tree", filepath.Join(s.dir, "iut"), url).Output()
	if err != nil || !bytes.Equal(body, want) {
		t.Errorf("%s: %v: %d bytes, want %d", url, err, len(body), len(want))
	}
}

func errorsOf(err error, faults []error) error {
	if err == nil && len(faults) > 0 {
		return faults[0]
	}
	return err
}

// warcio installs that module, and a script which uses it, in the folder that it returns.
func warcio(t *testing.T, name string) (node, folder string) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node")
	}
	folder = t.TempDir()
	if text, err := exec.Command("npm", "install", "--prefix", folder, "--fetch-retries=0", "--fetch-timeout=30000", "--no-audit", "--no-fund", "warcio@2.4.11").CombinedOutput(); err != nil {
		t.Skipf("npm has no warcio: %v: %s", err, text)
	}
	script, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name), script, 0o600); err != nil {
		t.Fatal(err)
	}
	return node, folder
}

// TestWarcio: warcio reads all records, their digests are right, and it makes the same index.
func TestWarcio(t *testing.T) {
	node, folder := warcio(t, "readers.mjs")
	read := func(t *testing.T, file string) string {
		t.Helper()
		cmd := exec.Command(node, filepath.Join(folder, "readers.mjs"), file)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		got, err := cmd.Output()
		if err != nil {
			t.Errorf("%s: %v: %s", file, err, &stderr)
		}
		return string(got)
	}
	for _, store := range stores {
		s := crawled(t, store)
		for _, file := range s.segments(t) {
			if got := read(t, file); !strings.Contains(got, "response ") || !strings.HasSuffix(got, "warcinfo 1\n") {
				t.Errorf("%s: %q", file, got)
			}
		}
		for _, format := range []string{"gzip", "plain"} {
			file := s.export(t, format)
			if got := read(t, file); got != s.types() {
				t.Errorf("%s %s: %q, want %q", store, format, got, s.types())
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
					t.Fatalf("%s %s: line %d of the index is\n%s, want\n%s", store, format, i+1, got[min(i, len(got)-1)], line)
				}
			}
		}
	}
}

// TestImportWarcio: what warcio has written becomes the same pages as a crawl gets, also those of
// revisits, and crawler check finds no fault.
func TestImportWarcio(t *testing.T) {
	node, folder := warcio(t, "writer.mjs")
	s := crawled(t, "folders")
	file := filepath.Join(folder, "writer.warc.gz")
	cmd := exec.Command(node, filepath.Join(folder, "writer.mjs"), file)
	cmd.Stdin = strings.NewReader(strings.Join(s.pages, "\n"))
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	const columns = "url,status,bytes,type,charset,sha256,title"
	rows := func(tree string) []string {
		file := filepath.Join(s.dir, "rows.tsv")
		s.run(t, "export", "-tree", tree, "-state", "stored", "-columns", columns, "-output", file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Sorted(strings.Lines(string(text)))
	}
	var want []string
	for _, row := range rows("iut") {
		want = append(want, row)
		if url, rest, _ := strings.Cut(row, "\t"); url != "URL" {
			and := "?"
			if strings.Contains(url, "?") {
				and = "&"
			}
			want = append(want, url+and+"again\t"+rest)
		}
	}
	slices.Sort(want)
	for _, store := range stores {
		s.run(t, "import", "-quiet", "-store", store, "-tree", "of-"+store, "-output", store+".txt", file)
		if got := rows("of-" + store); !slices.Equal(got, want) {
			t.Errorf("%s: %d rows, want %d", store, len(got), len(want))
		}
		s.run(t, "check", "-tree", "of-"+store, "-output", store+".txt")
	}
}
