package iut_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"urltree/internal/faultfs"
	"urltree/iut"
	"urltree/storage/record"
)

// page returns the n-th page of a small site.
func page(n int) *iut.Page {
	return &iut.Page{
		Facts: iut.Facts{
			URL: fmt.Sprintf("https://example.org/d%d/p%d", n%3, n), Source: record.Seed,
			Page: record.Page{Time: 1700000000, Status: 200, Media: "text/html", Charset: "utf-8", PageDepth: uint32(n)},
		},
		Body: fmt.Appendf(nil, "<a href=%d>", n),
	}
}

func store(t testing.TB, tree *iut.Tree, p *iut.Page) iut.Result {
	t.Helper()
	r, err := tree.Store(p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// folder returns the place of a URL on the disk.
func folder(t testing.TB, tree *iut.Tree, url string) string {
	t.Helper()
	rel, err := tree.Path(url)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(tree.Root(), filepath.FromSlash(rel))
}

// requirePage checks that a page is there as a whole, by every way of reading it.
func requirePage(t testing.TB, tree *iut.Tree, want *iut.Page) {
	t.Helper()
	f, body, err := tree.Load(iut.Facts{URL: want.URL})
	if err != nil || !bytes.Equal(body, want.Body) || f.Digest != sha256.Sum256(want.Body) || f.Bytes != int64(len(want.Body)) {
		t.Fatalf("Load(%s) = %+v, %q, %v; want %q", want.URL, f, body, err, want.Body)
	}
	for _, verify := range []bool{false, true} {
		if f2, ok, err := tree.Complete(iut.Facts{URL: want.URL}, verify); err != nil || !ok || f2 != f {
			t.Fatalf("Complete(%s, %v) = %+v, %v, %v; want %+v", want.URL, verify, f2, ok, err, f)
		}
	}
	r, err := tree.Content(iut.Facts{URL: want.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if all, err := io.ReadAll(r); err != nil || !bytes.Equal(all, body) {
		t.Fatalf("Content(%s) = %q, %v", want.URL, all, err)
	}
}

func TestStore(t *testing.T) {
	tree := open(t, t.TempDir())
	for _, tt := range []struct{ name, url string }{
		{"page", "https://example.org/a"},
		{"below a page", "https://example.org/a/b"},
		{"above pages", "https://example.org/"},
		{"slash", "https://example.org/a/"},
		{"query", "https://example.org/a?b"},
		{"long name", "https://example.org/" + strings.Repeat("x", 300)},
		{"overlong", "https://example.org/" + strings.Repeat("x/", 500)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := page(1)
			p.URL, p.Body = tt.url, []byte(tt.name)
			if _, _, err := tree.Load(iut.Facts{URL: p.URL}); !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("before Store: %v, want fs.ErrNotExist", err)
			}
			want := p.Facts
			want.Bytes, want.Digest, want.Flags = int64(len(p.Body)), sha256.Sum256(p.Body), "-"
			if got := store(t, tree, p); got != (iut.Result{Facts: want}) {
				t.Fatalf("Store = %+v, want %+v", got, want)
			}
			requirePage(t, tree, p)

			second := *p
			second.Body, second.Status = []byte("another answer"), 203
			if got := store(t, tree, &second); got != (iut.Result{Facts: want, Adopted: true}) {
				t.Fatalf("Store of another answer = %+v, want %+v adopted", got, want)
			}
			requirePage(t, tree, p)
		})
	}
}

func TestStoreEmptyBody(t *testing.T) {
	tree := open(t, t.TempDir())
	p := page(1)
	p.Body = nil
	store(t, tree, p)
	requirePage(t, tree, p)
}

func TestStoreOnceUnderContention(t *testing.T) {
	root := t.TempDir()
	count := faultfs.Count(disk(t, root, iut.SyncNone))
	tree := open(t, root, onFS(count))
	var fresh atomic.Int32
	var wg sync.WaitGroup
	const workers, pages = 12, 10
	for range workers {
		wg.Go(func() {
			for n := range pages {
				r, err := tree.Store(page(n))
				if err != nil {
					t.Error(err)
				}
				if !r.Adopted {
					fresh.Add(1)
				}
			}
		})
	}
	wg.Wait()
	writes := 0
	for _, call := range count.Calls() {
		if strings.HasPrefix(call, "create pr-") {
			writes++
		}
	}
	if fresh.Load() != pages || writes != 2*pages {
		t.Errorf("%d pages were stored in %d files, want %d and %d", fresh.Load(), writes, pages, 2*pages)
	}
	for n := range pages {
		requirePage(t, tree, page(n))
	}
}

// gate is a disk that stops at the body of a page.
type gate struct {
	iut.FS
	mkdirs           atomic.Int32
	reached, proceed chan bool
}

func (g *gate) Mkdir(name string) error {
	g.mkdirs.Add(1)
	return g.FS.Mkdir(name)
}

func (g *gate) Open(name string, flag int) (iut.File, error) {
	if strings.HasSuffix(name, "/content.html") && flag&os.O_CREATE != 0 {
		g.reached <- true
		<-g.proceed
	}
	return g.FS.Open(name, flag)
}

func TestStoreWaitsForTheSamePage(t *testing.T) {
	g := &gate{FS: faultfs.NewMem(), reached: make(chan bool, 9), proceed: make(chan bool)}
	tree := open(t, "", onFS(g))
	p := page(1)
	results := make(chan iut.Result, 2)
	add := func() {
		r, err := tree.Store(p)
		if err != nil {
			t.Error(err)
		}
		results <- r
	}
	go add()
	<-g.reached
	before := g.mkdirs.Load()
	go add()
	for iut.Waiting() < 1 && g.mkdirs.Load() == before {
		runtime.Gosched()
	}
	if g.mkdirs.Load() != before {
		t.Error("the second went to the disk while the first was writing")
	}
	close(g.proceed)
	if a, b := <-results, <-results; a.Adopted == b.Adopted {
		t.Errorf("two at once: %+v and %+v, want one that is adopted", a, b)
	}
	requirePage(t, tree, p)
}

func TestTornPages(t *testing.T) {
	p := page(1)
	old := *p
	old.Body = []byte("<a href=9>") // of the same length
	line := func(f iut.Facts) string { return string(f.AppendLine(nil)) }
	facts := p.Facts
	facts.Bytes, facts.Digest = int64(len(p.Body)), sha256.Sum256(p.Body)
	whole := line(facts)
	for _, tt := range []struct {
		name            string
		content, source string // "-": no file
		kind            iut.PageKind
		byDigest        bool // only who compares the SHA-256 can see it
	}{
		{"no facts", string(p.Body), "-", iut.PageTorn, false},
		{"empty facts", string(p.Body), "", iut.PageTorn, false},
		{"half the facts", string(p.Body), whole[:len(whole)/2], iut.PageTorn, false},
		{"no line end", string(p.Body), whole[:len(whole)-1], iut.PageTorn, false},
		{"no body", "-", whole, iut.PageTorn, false},
		{"empty body", "", whole, iut.PageTorn, false},
		{"short body", string(p.Body[1:]), whole, iut.PageTorn, false},
		{"long body", string(p.Body) + "x", whole, iut.PageTorn, false},
		{"other body", string(old.Body), whole, iut.PageComplete, true},
		{"zeros", string(make([]byte, len(p.Body))), string(make([]byte, len(whole))), iut.PageTorn, false},
		{"two lines", string(p.Body), whole + whole, iut.PageDefect, false},
		{"endless facts", string(p.Body), strings.Repeat("x", 2<<20), iut.PageTorn, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree := open(t, t.TempDir())
			plant := func() {
				dir := folder(t, tree, p.URL)
				if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o777)); err != nil {
					t.Fatal(err)
				}
				for name, text := range map[string]string{"content.html": tt.content, "source.txt": tt.source} {
					if text != "-" {
						put(t, filepath.Join(dir, name), text)
					}
				}
			}
			plant()
			if _, ok, err := tree.Complete(iut.Facts{URL: p.URL}, true); ok || err != nil {
				t.Errorf("Complete = %v, %v", ok, err)
			}
			if _, ok, err := tree.Complete(iut.Facts{URL: p.URL}, false); ok != tt.byDigest || err != nil {
				t.Errorf("Complete without SHA-256 = %v, %v", ok, err)
			}
			if _, _, err := tree.Load(iut.Facts{URL: p.URL}); !errors.Is(err, iut.ErrTorn) {
				t.Errorf("Load: %v, want ErrTorn", err)
			}
			if _, st, _ := walkOne(t, tree); st.Kind != tt.kind || (st.Err == nil) != (tt.kind == iut.PageComplete) {
				t.Errorf("Walk finds %v, %v; want %v", st.Kind, st.Err, tt.kind)
			}
			if got := store(t, tree, p); got.Adopted {
				t.Error("a torn page was adopted")
			}
			requirePage(t, tree, p)

			plant()
			if _, err := tree.RemoveTorn(iut.Facts{URL: p.URL}, false); err != nil {
				t.Fatal(err)
			}
			if _, _, err := tree.Load(iut.Facts{URL: p.URL}); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("after RemoveTorn: %v, want fs.ErrNotExist", err)
			}
		})
	}
}

func TestRemoveTornKeepsWhole(t *testing.T) {
	tree := open(t, t.TempDir())
	store(t, tree, page(1))
	for n := range 2 {
		if _, err := tree.RemoveTorn(iut.Facts{URL: page(n).URL}, false); err != nil {
			t.Fatal(err)
		}
	}
	requirePage(t, tree, page(1))
}

// TestRemoveTornKeepsWhatIsNoFile: what somebody has put where a file of a page should be is not
// removed, and stands in nobody's way.
func TestRemoveTornKeepsWhatIsNoFile(t *testing.T) {
	for _, name := range []string{"source.txt", "content.html"} {
		for _, put := range []struct {
			what string
			make func(name string) error
		}{
			{"folder", func(name string) error { return os.MkdirAll(name+"/theirs", 0o777) }},
			{"link", func(name string) error { return os.Symlink("nowhere", name) }},
			{"fifo", func(name string) error { return syscall.Mkfifo(name, 0o666) }},
		} {
			t.Run(name+" is a "+put.what, func(t *testing.T) {
				tree := open(t, t.TempDir())
				p := page(1)
				file := filepath.Join(folder(t, tree, p.URL), name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o777), put.make(file)); err != nil {
					t.Fatal(err)
				}
				was, err := os.Lstat(file)
				if err != nil {
					t.Fatal(err)
				}
				if kept, err := tree.RemoveTorn(iut.Facts{URL: p.URL}, false); !kept || err != nil {
					t.Errorf("RemoveTorn = %v, %v", kept, err)
				}
				if is, err := os.Lstat(file + ".damaged"); err != nil || !os.SameFile(was, is) {
					t.Errorf("it is not kept: %v", err)
				}
				store(t, tree, p)
				requirePage(t, tree, p)
			})
		}
	}
}

func TestStoreRefusesPage(t *testing.T) {
	tree := open(t, t.TempDir())
	other := page(2)
	store(t, tree, other)
	if err := os.CopyFS(folder(t, tree, page(1).URL), os.DirFS(folder(t, tree, other.URL))); err != nil {
		t.Fatal(err)
	}
	put(t, folder(t, tree, "https://example.org/file"), "")
	if err := os.MkdirAll(folder(t, tree, "https://example.org/x")+"/content.html", 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(folder(t, tree, "https://example.org/y")+"/source.txt", 0o777); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		change func(p *iut.Page)
	}{
		{"not a URL", func(p *iut.Page) { p.URL = "example.org" }},
		{"not ASCII", func(p *iut.Page) { p.URL = "https://example.org/\xe9" }},
		{"line end", func(p *iut.Page) { p.URL = "https://example.org/\n" }},
		{"tab in source", func(p *iut.Page) { p.Source = "a\tb" }},
		{"too many links", func(p *iut.Page) { p.HeaderLinks = strings.Repeat("http://a/ ", 200000) }},
		{"folder of another URL", func(p *iut.Page) {}},
		{"file as folder", func(p *iut.Page) { p.URL = "https://example.org/file" }},
		{"file above", func(p *iut.Page) { p.URL = "https://example.org/file/a/b" }},
		{"folder as body", func(p *iut.Page) { p.URL = "https://example.org/x" }},
		{"folder as facts", func(p *iut.Page) { p.URL = "https://example.org/y" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := page(1)
			tt.change(p)
			if r, err := tree.Store(p); !errors.Is(err, iut.ErrPage) || errors.Is(err, iut.ErrDisk) {
				t.Errorf("Store = %+v, %v; want ErrPage", r, err)
			}
			requirePage(t, tree, other)
		})
	}
}

// narrow is a disk with little room and folders that are full.
type narrow struct {
	iut.FS
	call          string // what fails: "mkdir", "rename", or the creation of or the writing to a file
	err           error  // nil: nothing does
	bytes, inodes uint64
}

func (d *narrow) fails(call, name string) error {
	if d.err == nil || call != d.call {
		return nil
	}
	return &fs.PathError{Op: call, Path: name, Err: d.err}
}

func (d *narrow) Mkdir(name string) error {
	if err := d.fails("mkdir", name); err != nil {
		return err
	}
	return d.FS.Mkdir(name)
}

func (d *narrow) Rename(from, to string) error {
	if err := d.fails("rename", to); err != nil {
		return err
	}
	return d.FS.Rename(from, to)
}

func (d *narrow) Open(name string, flag int) (iut.File, error) {
	if err := d.fails("create "+path.Base(name), name); err != nil && flag&os.O_CREATE != 0 {
		return nil, err
	}
	f, err := d.FS.Open(name, flag)
	return &narrowFile{f, d, name}, err
}

type narrowFile struct {
	iut.File
	disk *narrow
	name string
}

func (f *narrowFile) Write(b []byte) (int, error) {
	if err := f.disk.fails("write "+path.Base(f.name), f.name); err != nil {
		return 0, err
	}
	return f.File.Write(b)
}

func (d *narrow) Free() (uint64, uint64, error) { return d.bytes, d.inodes, nil }

func TestWhoseFault(t *testing.T) {
	for _, tt := range []struct {
		name          string
		call          string
		err           error
		bytes, inodes uint64
		want          error
	}{
		{"links", "mkdir", syscall.EMLINK, 0, 0, iut.ErrPage},
		{"full folder", "mkdir", syscall.ENOSPC, 1 << 30, 1000, iut.ErrPage},
		{"full disk", "mkdir", syscall.ENOSPC, 4096, 1000, iut.ErrDisk},
		{"no inodes", "mkdir", syscall.ENOSPC, 1 << 30, 0, iut.ErrDisk},
		{"quota", "mkdir", syscall.EDQUOT, 1 << 30, 1000, iut.ErrDisk},
		{"broken", "mkdir", syscall.EIO, 1 << 30, 1000, iut.ErrDisk},
		{"name", "mkdir", syscall.ENAMETOOLONG, 1 << 30, 1000, iut.ErrPage},
		{"no place for the body", "create content.html", syscall.ENOSPC, 1 << 30, 1000, iut.ErrPage},
		{"no place for the facts", "create source.txt", syscall.ENOSPC, 1 << 30, 1000, iut.ErrPage},
		{"no inode for the facts", "create source.txt", syscall.ENOSPC, 1 << 30, 0, iut.ErrDisk},
		{"no place for a large body", "rename", syscall.ENOSPC, 1 << 30, 1000, iut.ErrPage},
		{"full while writing", "write content.html", syscall.ENOSPC, 1 << 30, 1000, iut.ErrDisk},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			d := &narrow{FS: disk(t, root, iut.SyncNone), bytes: tt.bytes, inodes: tt.inodes}
			tree := open(t, root, onFS(d))
			d.call, d.err = tt.call, tt.err
			p := *page(1)
			if tt.call == "rename" {
				if err := useTemp(tree, &p); err != nil {
					t.Fatal(err)
				}
			}
			_, err := tree.Store(&p)
			if !errors.Is(err, tt.want) || !errors.Is(err, tt.err) || errors.Is(err, iut.ErrPage) && errors.Is(err, iut.ErrDisk) {
				t.Errorf("Store: %v, want %v and %v", err, tt.want, tt.err)
			}
			d.err = nil
			store(t, tree, page(1))
			requirePage(t, tree, page(1))
		})
	}
}

func TestTemp(t *testing.T) {
	root := t.TempDir()
	tree := open(t, root)
	p := page(1)
	for _, want := range []struct {
		adopted bool
		body    string
	}{{false, strings.Repeat("large ", 50000)}, {true, "late"}} {
		f, err := tree.Temp(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(f, iotestReader(want.body)); err != nil {
			t.Fatal(err)
		}
		b, err := f.Bytes()
		if err != nil || string(b) != want.body {
			t.Fatalf("Bytes = %d bytes, %v", len(b), err)
		}
		late := *p
		late.Body, late.Temp, late.Bytes, late.Digest = nil, f.Name(), int64(len(want.body)), sha256.Sum256([]byte(want.body))
		if r := store(t, tree, &late); r.Adopted != want.adopted {
			t.Fatalf("Store = %+v, want adopted %v", r, want.adopted)
		}
		if string(b) != want.body {
			t.Error("the mapping changed with Store")
		}
		if err := f.Discard(); err != nil {
			t.Error(err)
		}
		if left, _ := os.ReadDir(root + "/tmp"); len(left) != 0 {
			t.Errorf("tmp holds %v", left)
		}
		if !want.adopted {
			p.Body = []byte(want.body)
		}
		requirePage(t, tree, p)
	}

	f, err := tree.Temp(nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := f.Bytes(); err != nil || len(b) != 0 {
		t.Errorf("an empty file maps to %q, %v", b, err)
	}
	if err := f.Discard(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(root + "/tmp"); len(left) != 0 {
		t.Errorf("tmp holds %v after Discard", left)
	}
}

// iotestReader hides that a string can write itself at once.
func iotestReader(s string) io.Reader { return struct{ io.Reader }{strings.NewReader(s)} }

func TestTempReplacesTornBody(t *testing.T) {
	tree := open(t, t.TempDir())
	p := page(1)
	put(t, folder(t, tree, p.URL)+"/content.html", "torn")
	f, err := tree.Temp(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(p.Body); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	q := *p
	q.Body, q.Temp, q.Bytes, q.Digest = nil, f.Name(), int64(len(p.Body)), sha256.Sum256(p.Body)
	store(t, tree, &q)
	requirePage(t, tree, p)
}

// TestCost guards what a page costs: no call may be added unseen.
func TestCost(t *testing.T) {
	root := t.TempDir()
	count := faultfs.Count(disk(t, root, iut.SyncNone))
	tree := open(t, root, onFS(count))
	store(t, tree, page(0))
	before := len(count.Calls())
	p := page(3) // beside page 0
	store(t, tree, p)
	rel, _ := tree.Path(p.URL)
	want := []string{
		"mkdir " + rel,
		"create " + rel + "/content.html", "write " + rel + "/content.html", "close " + rel + "/content.html",
		"create " + rel + "/source.txt", "write " + rel + "/source.txt", "close " + rel + "/source.txt",
	}
	if diff := cmp.Diff(want, count.Calls()[before:]); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkStore(b *testing.B) {
	for _, bb := range []struct {
		name string
		mode iut.Sync
	}{{"none", iut.SyncNone}, {"full", iut.SyncFull}} {
		b.Run(bb.name, func(b *testing.B) {
			tree := open(b, b.TempDir(), func(o *iut.Options) { o.Sync = bb.mode })
			body := bytes.Repeat([]byte("x"), 24<<10)
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				p := page(n)
				p.Body = body
				store(b, tree, p)
				if n%1000 == 999 {
					if err := tree.Sync(); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
