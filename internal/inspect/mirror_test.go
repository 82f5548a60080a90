package inspect

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"urltree/internal/mirror"
	"urltree/internal/testsite"
	"urltree/iut"
	"urltree/storage/record"
)

// mirrored writes what a question of export is answered with into a folder, and returns how many
// files that are.
func mirrored(t *testing.T, i *Inspector, dir, prefix string) int64 {
	t.Helper()
	var b bytes.Buffer
	if err := i.Run(t.Context(), Question{Command: "export", What: "mirror", URL: prefix}, &b); err != nil {
		t.Fatal(err)
	}
	f, err := mirror.Open(dir, mirror.Part{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Receive(t.Context(), bufio.NewReader(&b)), f.Close()); err != nil {
		t.Fatal(err)
	}
	return f.Files.Load()
}

// html stores a page and returns its outcome.
func html(t *testing.T, i *Inspector, url, body string) *record.Outcome {
	t.Helper()
	res, err := i.Tree.Store(&iut.Page{Body: []byte(body), Facts: iut.Facts{URL: url, Source: record.Seed, Page: record.Page{Time: 1_800_000_000, Status: 200, Media: "text/html", Charset: "utf-8"}}})
	if err != nil {
		t.Fatal(err)
	}
	return &record.Outcome{Row: record.Row{URL: url, Source: record.Seed}, State: record.Stored, Page: res.Facts.Page}
}

// TestMirrorReferences: a reference leads to a file through redirects, however many there may be in
// a row, and never to one that is not there.
func TestMirrorReferences(t *testing.T) {
	i := open(t)
	const host = "http://a.example/"
	moved := func(from, to string) {
		commit(t, i, &record.Outcome{Row: record.Row{URL: from, Source: record.Seed}, State: record.Redirected, Page: record.Page{Status: 301, HeaderLinks: to}})
	}
	for n := range mostHops + 2 {
		moved(fmt.Sprintf("%shop/%d", host, n), fmt.Sprintf("%shop/%d", host, n+1))
	}
	moved(host+"loop", host+"loop2")
	moved(host+"loop2", host+"loop")
	moved(host+"out", "http://b.example/")
	moved("http://b.example/in", host+"sub/")
	commit(t, i,
		html(t, i, fmt.Sprintf("%shop/%d", host, mostHops+2), "<meta charset=utf-8>end"),
		html(t, i, host+"sub/", "<meta charset=utf-8>sub"),
		html(t, i, "http://b.example/", "<meta charset=utf-8>other"),
		html(t, i, host+"torn", "<meta charset=utf-8>torn"),
		html(t, i, host, "<meta charset=utf-8><a href=hop/0><a href=hop/4#x><a href=loop><a href=out><a href='http://b.example/in'><a href=//b.example/?no#y><a href=sub/><a href='sub'>"))
	dir, err := i.Tree.Path(host + "torn")
	if err == nil {
		err = os.Remove(filepath.Join(i.Tree.Root(), filepath.FromSlash(dir), "content.html"))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		prefix, want string
		files        int64
	}{
		{"", "<a href=http://a.example/hop/0><a href=hop/12~.html#x><a href=http://a.example/loop><a href=../b.example/index.html><a href='sub/index.html'><a href=http://b.example/?no#y><a href=sub/index.html><a href='http://a.example/sub'>", 5},
		{host, "<a href=http://a.example/hop/0><a href=hop/12~.html#x><a href=http://a.example/loop><a href=http://a.example/out><a href='sub/index.html'><a href=http://b.example/?no#y><a href=sub/index.html><a href='http://a.example/sub'>", 4},
	} {
		copied := filepath.Join(t.TempDir(), "copy")
		if n := mirrored(t, i, copied, tt.prefix); n != tt.files {
			t.Errorf("%q: %d files, want %d", tt.prefix, n, tt.files)
		}
		if got := testsite.Read(t, filepath.Join(copied, "http/a.example/index.html")); got != "<meta charset=utf-8>"+tt.want {
			t.Errorf("%q: %s\nwant %s", tt.prefix, got, tt.want)
		}
	}
}

// TestMirrorAgain: the file of a page that is gone is removed, and that of a page which cannot
// be read stays.
func TestMirrorAgain(t *testing.T) {
	i := open(t)
	dir := filepath.Join(t.TempDir(), "copy")
	commit(t, i, html(t, i, "http://a.example/x/torn", "<p>torn"), html(t, i, "http://a.example/gone", "<p>gone"))
	mirrored(t, i, dir, "")
	torn, err := i.Tree.Path("http://a.example/x/torn")
	if err == nil {
		err = os.Remove(filepath.Join(i.Tree.Root(), filepath.FromSlash(torn), "content.html"))
	}
	if err != nil {
		t.Fatal(err)
	}
	mirrored(t, i, dir, "http://a.example/x/") // as if there were no other page
	if got := testsite.Read(t, filepath.Join(dir, "http/a.example/x/torn~.html")); !strings.HasSuffix(got, "torn") {
		t.Errorf("%q", got)
	}
	if _, err := os.Stat(filepath.Join(dir, "http/a.example/gone~.html")); err == nil {
		t.Error("the file of a page that is gone is there")
	}
}

// TestMirrorEncodings: files say their encoding where only the header of the page did.
func TestMirrorEncodings(t *testing.T) {
	i := open(t)
	var pages []*record.Outcome
	for _, p := range [][3]string{{"note", "text/plain", "\xa4 7"}, {"look.css", "text/css", "a { b: '\xa4' }"}, {"page", "text/html", "<p>\xa4"}, {"data", "text/csv", "\xa4"}} {
		url := "http://a.example/" + p[0]
		res, err := i.Tree.Store(&iut.Page{Body: []byte(p[2]), Facts: iut.Facts{URL: url, Source: record.Seed, Page: record.Page{Time: 1_800_000_000, Status: 200, Media: p[1], Charset: "iso-8859-15"}}})
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, &record.Outcome{Row: record.Row{URL: url, Source: record.Seed}, State: record.Stored, Page: res.Facts.Page})
	}
	commit(t, i, pages...)
	dir := filepath.Join(t.TempDir(), "copy")
	mirrored(t, i, dir, "")
	for name, want := range map[string]string{
		"note~.txt": "€ 7", "look.css": "@charset \"iso-8859-15\";a { b: '\xa4' }", "page~.html": "<meta charset=\"iso-8859-15\"><p>\xa4", "data~.csv": "\xa4",
	} {
		if got := testsite.Read(t, filepath.Join(dir, "http/a.example", name)); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestMirrorStart: the first page leads to seeds and hosts, also to those between whose pages are
// others in the order of the tree, and goes on on further pages.
func TestMirrorStart(t *testing.T) {
	i := open(t)
	var pages []*record.Outcome
	for _, url := range []string{"http://a.example/", "http://a.example/x", "http://a.example.org/", "http://a.example:81/", "https://a.example/&"} {
		if err := testsite.AddSeeds(i.Tree, []string{url, url + "?none"}); err != nil {
			t.Fatal(err)
		}
		pages = append(pages, html(t, i, url, "page"))
	}
	want := []string{
		`<li><a href="http/a.example/index.html">http://a.example/</a>`,
		`<li><a href="http/a.example/x~.html">http://a.example/x</a>`,
		`<td><a href="http/a.example/index.html">http://a.example</a><td>2<td>0`,
		`<td><a href="http/a.example_81/index.html">http://a.example:81</a><td>1<td>0`,
		`<td><a href="http/a.example.org/index.html">http://a.example.org</a><td>1<td>0`,
		`.html">https://a.example/&amp;</a>`,
		`<a href="index2.html">More</a>`,
	}
	var hosts []string
	const mostHosts = 1000 // on a page
	for n := range mostHosts {
		pages = append(pages, html(t, i, fmt.Sprintf("http://h%04d.example/", n), "page"))
		hosts = append(hosts, fmt.Sprintf(`<a href="http/h%04d.example/index.html">http://h%04d.example</a><td>1<td>0`, n, n))
	}
	commit(t, i, pages...)
	dir := filepath.Join(t.TempDir(), "copy")
	if n := mirrored(t, i, dir, ""); n != 5+mostHosts+2 {
		t.Errorf("%d files", n)
	}
	first, second := testsite.Read(t, filepath.Join(dir, "index.html")), testsite.Read(t, filepath.Join(dir, "index2.html"))
	const rest = mostHosts - 3
	for _, text := range append(want, hosts[:rest]...) {
		if n := strings.Count(first, text); n != 1 {
			t.Errorf("index.html has %s %d times", text, n)
		}
	}
	for _, text := range append(hosts[rest:], `">https://a.example</a><td>1<td>0`) {
		if n := strings.Count(second, text); n != 1 {
			t.Errorf("index2.html has %s %d times", text, n)
		}
	}
	if strings.Contains(first, "none") || strings.Contains(second, "More") || strings.Contains(second, "Seeds") {
		t.Errorf("a seed that is not stored, or too much: %s", second)
	}
}

// TestRecent: a recent forgets what was not asked for of late, and nothing else.
func TestRecent(t *testing.T) {
	var c recent
	long := strings.Repeat("x", 1000)
	for n := range 100_000 {
		c.put(fmt.Sprint(n, long), fmt.Sprint(n))
		if len(c.now)+len(c.before) > 2*mostRecent/1000+2 {
			t.Fatalf("%d entries", len(c.now)+len(c.before))
		}
		if v, ok := c.get("0" + long); !ok || v != "0" {
			t.Fatalf("what is asked for each time is forgotten after %d others", n)
		}
	}
	if _, ok := c.get("1" + long); ok {
		t.Error("nothing is forgotten")
	}
}
