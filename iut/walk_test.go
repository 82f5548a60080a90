package iut_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"urltree/iut"
)

// walkOne walks a tree with one page.
func walkOne(t *testing.T, tree *iut.Tree) (url string, st iut.PageStatus, f iut.Facts) {
	t.Helper()
	n := 0
	err := tree.Walk(func(u, _ string, s iut.PageStatus, facts iut.Facts) error {
		url, st, f = u, s, facts
		n++
		return nil
	})
	if err != nil || n != 1 {
		t.Fatalf("Walk finds %d pages, %v; want 1", n, err)
	}
	return url, st, f
}

func TestWalk(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	put(t, outside+"/content.html", "not ours")
	tree := open(t, root)
	over := "http://a/" + strings.Repeat("x/", 500)
	long := "http://a/" + strings.Repeat("l", 300)
	for _, url := range []string{"http://a/", "http://a/b/c", "http://a/b", "http://a:81/", "http://a/?q", long, over, "https://b.c/"} {
		p := page(1)
		p.URL = url
		store(t, tree, p)
	}
	put(t, folder(t, tree, "http://a/torn")+"/content.html", "half")
	tornOver := folder(t, tree, over+"y")
	put(t, tornOver+"/source.txt", "half")
	// Copies by hand, into the folder of another URL.
	for _, url := range []string{"http://a/copy", over + "z"} {
		if err := os.CopyFS(folder(t, tree, url), os.DirFS(folder(t, tree, "https://b.c/"))); err != nil {
			t.Fatal(err)
		}
	}
	// Not ours.
	put(t, root+"/letter.txt", "in the root, which is not looked at")
	put(t, root+"/pr-ftp/do-a/content.html", "")
	put(t, root+"/pr-http/content.html", "")
	put(t, root+"/pr-http/do-a/.hidden", "")
	put(t, root+"/pr-http/do-a/other/dr-x/content.html", "")
	put(t, folder(t, tree, "http://a/b")+"/dr-^41/source.txt", "in a folder that no URL has")
	for _, link := range []string{"/pr-http/do-link", "/pr-http/do-a/dr-link", "/pr-http/do-a/dr-b/dr-c/link"} {
		if err := os.Symlink(outside, root+link); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(folder(t, tree, "http://empty/"), 0o777); err != nil {
		t.Fatal(err)
	}

	type entry struct{ URL, Rel, Kind string }
	var got []entry
	err := tree.Walk(func(url, rel string, st iut.PageStatus, f iut.Facts) error {
		if st.Kind == iut.PageComplete && (f.URL != url || st.Err != nil) || st.Kind != iut.PageComplete && st.Err == nil {
			t.Errorf("%s: facts of %q, %v", rel, f.URL, st.Err)
		}
		got = append(got, entry{url, rel, st.Kind.String()})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	rel := func(url string) string {
		s, err := tree.Path(url)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	want := []entry{
		{"", "pr-ftp", "foreign"},
		{"", "pr-http/content.html", "foreign"},
		{"http://a/", rel("http://a/"), "complete"},
		{"", "pr-http/do-a/.hidden", "foreign"},
		{"http://a/b", rel("http://a/b"), "complete"},
		{"", "pr-http/do-a/dr-b/dr-^41/source.txt", "foreign"},
		{"http://a/b/c", rel("http://a/b/c"), "complete"},
		{"", "pr-http/do-a/dr-b/dr-c/link", "foreign"},
		{"http://a/copy", rel("http://a/copy"), "defect"},
		{"", "pr-http/do-a/dr-link", "foreign"},
		{long, rel(long), "complete"},
		{"http://a/torn", rel("http://a/torn"), "torn"},
		{"", "pr-http/do-a/other", "foreign"},
	}
	overs := map[string]entry{
		rel(over):       {over, rel(over), "complete"},
		rel(over + "y"): {"", rel(over + "y"), "torn"},
		rel(over + "z"): {"", rel(over + "z"), "defect"},
	}
	for _, e := range got { // three names that are as good as random, all in one place
		if e, ok := overs[e.Rel]; ok {
			want = append(want, e)
		}
	}
	want = append(want,
		entry{"http://a:81/", rel("http://a:81/"), "complete"},
		entry{"http://a/?q", rel("http://a/?q"), "complete"},
		entry{"", "pr-http/do-link", "foreign"},
		entry{"https://b.c/", rel("https://b.c/"), "complete"},
	)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for i, e := range got[1:] {
		// The order of paths, with the slash before all other bytes.
		if a, b := strings.ReplaceAll(got[i].Rel, "/", "\x00"), strings.ReplaceAll(e.Rel, "/", "\x00"); a >= b && !strings.HasSuffix(a, "content.html") {
			t.Errorf("%q comes before %q", got[i].Rel, e.Rel)
		}
	}
	if read(t, outside+"/content.html") != "not ours" {
		t.Error("the walk changed what is outside")
	}
}

func TestWalkEnds(t *testing.T) {
	tree := open(t, t.TempDir())
	if err := tree.Walk(func(string, string, iut.PageStatus, iut.Facts) error { return errors.New("no page") }); err != nil {
		t.Errorf("walking an empty tree: %v", err)
	}
	for n := range 3 {
		store(t, tree, page(n))
	}
	enough, calls := errors.New("enough"), 0
	err := tree.Walk(func(string, string, iut.PageStatus, iut.Facts) error { calls++; return enough })
	if !errors.Is(err, enough) || calls != 1 {
		t.Errorf("%d calls, %v; want one and the error of fn", calls, err)
	}
}

// A tree whose folders were copied elsewhere is the same tree.
func TestTreeMoves(t *testing.T) {
	tree := open(t, t.TempDir())
	for n := range 5 {
		store(t, tree, page(n))
	}
	tree.Close()
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.CopyFS(moved, os.DirFS(tree.Root())); err != nil {
		t.Fatal(err)
	}
	again := open(t, moved)
	for n := range 5 {
		requirePage(t, again, page(n))
	}
}
