package repair

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"urltree/internal/faultfs"
	"urltree/internal/testseed"
	"urltree/internal/testsite"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// A memTree is a tree in memory with its index in a file: what a conversion begins with, and what
// it is to come to.
type memTree struct {
	disk  *faultfs.Mem
	index []byte
	store string
	known map[string]record.Record // without extents
	pages map[string]string        // by URL: the line of source.txt, and the body
	lone  string                   // URL of a page that the index does not know
}

// newMemTree makes a tree with the store.
func newMemTree(t *testing.T, store string) *memTree {
	t.Helper()
	m := &memTree{disk: faultfs.NewMem(), store: iut.StoreFolders, pages: map[string]string{}, lone: "http://a.org/p3"}
	path := filepath.Join(t.TempDir(), indexName)
	if err := storage.Create(path); err != nil {
		t.Fatal(err)
	}
	tree, index := m.open(t, m.disk, path)
	s := &testsite.Site{T: t, Tree: tree, Index: index}
	s.Seed("http://a.org/")
	s.Store("http://a.org/", record.Seed, 0, "http://a.org/p0", "http://a.org/p1", "http://a.org/p2", m.lone, "http://a.org/torn")
	for i := range 3 {
		s.Store(fmt.Sprintf("http://a.org/p%d", i), "http://a.org/", 1, "http://b.org/")
	}
	put(s, overlongURL+strings.Repeat("long/", 200), "text/html", []byte("<p>far down"))
	put(s, "http://a.org/large", "application/pdf", noise(inMemoryAndMore))
	s.Fail("http://b.org/", record.Redirected, "", record.Link{URL: "http://c.org/", Source: "http://b.org/", Via: "http://b.org/", Hops: 1})
	s.Write(m.lone, "http://a.org/", 1, "http://a.org/found-later")
	m.known = knownOf(s)
	for url, r := range m.known {
		if r.State == record.Stored || url == m.lone {
			f, body, err := tree.Load(iut.Facts{URL: url})
			if err != nil {
				t.Fatal(err)
			}
			m.pages[url] = string(f.AppendLine(nil)) + string(body)
		}
	}
	if store != iut.StoreFolders {
		if _, err := convert(t.Context(), tree, index, ConvertOptions{Store: store}); err != nil {
			t.Fatal(err)
		}
		m.store = store
	}
	s.CloseIndex()
	if err := errors.Join(tree.Close(), m.disk.SyncAll()); err != nil {
		t.Fatal(err)
	}
	m.index = []byte(testsite.Read(t, path))
	return m
}

const inMemoryAndMore = 1<<20 + 1

func (m *memTree) open(t *testing.T, disk iut.FS, path string) (*iut.Tree, *storage.Index) {
	t.Helper()
	tree, err := iut.Open("", iut.Options{FS: disk, Identity: &iut.Identity{Canonical: "1"}, Converting: true})
	if err != nil {
		t.Fatal(err)
	}
	index, err := storage.Open(path, storage.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	return tree, index
}

// copy returns a disk like that of the tree, and an index.
func (m *memTree) copy(t *testing.T) (*faultfs.Mem, string) {
	t.Helper()
	return m.disk.Crash(rand.New(rand.NewPCG(0, 0))), indexFile(t, m.index) // all of it is synced
}

// indexFile makes an index, in memory where there is a place for that: there are hundreds.
func indexFile(t *testing.T, data []byte) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "urltree")
	if err != nil {
		dir = t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, indexName)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// other returns the other store.
func (m *memTree) other() string {
	if m.store == iut.StoreFolders {
		return iut.StoreWARC
	}
	return iut.StoreFolders
}

// convertOn converts, or goes on with it, a page a commit, into small segments.
func convertOn(ctx context.Context, disk iut.FS, path, store string) error {
	tree, err := iut.Open("", iut.Options{FS: disk, Converting: true, Segments: iut.SegmentOptions{Size: 1 << 10}})
	if err != nil {
		return err
	}
	index, err := storage.Open(path, storage.Options{NoSync: true})
	if err != nil {
		return errors.Join(err, tree.Close())
	}
	_, err = convert(ctx, tree, index, ConvertOptions{Store: store, most: 2})
	return errors.Join(err, index.Close(), tree.Close())
}

// requireReadable requires that whoever reads the tree as it is finds each stored page.
func (m *memTree) requireReadable(t *testing.T, what string, disk *faultfs.Mem, path string) {
	t.Helper()
	tree, err := iut.Open("", iut.Options{FS: disk, ReadOnly: true})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	defer tree.Close()
	index, err := storage.Open(path, storage.Options{ReadOnly: true})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	defer index.Close()
	m.requirePages(t, what, tree, index)
}

func (m *memTree) requirePages(t *testing.T, what string, tree *iut.Tree, index *storage.Index) {
	t.Helper()
	got := map[string]record.Record{}
	err := index.Records(t.Context(), nil, func(r record.Record, err error) error {
		if err == nil && r.State == record.Stored {
			var f iut.Facts
			var body []byte
			f, body, err = tree.Load(iut.FactsOf(&r))
			if err == nil && string(f.AppendLine(nil))+string(body) != m.pages[r.URL] {
				err = fmt.Errorf("%s is another page: %s", r.URL, f.AppendLine(nil))
			}
		}
		r.Found, r.Extent = 0, record.Extent{}
		got[r.URL] = r
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if !maps.Equal(got, m.known) {
		t.Fatalf("%s: the index knows %+v, want %+v", what, got, m.known)
	}
}

// requireDone goes on to the end, and requires that nothing is lost and nothing is left over.
func (m *memTree) requireDone(t *testing.T, what string, disk *faultfs.Mem, path, store string) {
	t.Helper()
	what += ", then to " + store
	if err := convertOn(t.Context(), disk, path, store); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	tree, index := m.open(t, disk, path)
	defer tree.Close()
	defer index.Close()
	if f := tree.Format(); f.StoreName() != store || f.Converting != "" {
		t.Fatalf("%s: FORMAT says %s, converting %q", what, f.StoreName(), f.Converting)
	}
	gone := "pr-http"
	if store == iut.StoreFolders {
		gone = "warc"
	}
	if _, err := disk.Stat(gone); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s: %s is there: %v", what, gone, err)
	}
	ends, err := index.Marks().SegmentEnds(t.Context())
	if err == nil {
		err = tree.Recover(iut.Committed{Ends: ends})
	}
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	m.requirePages(t, what, tree, index)
	f, body, err := tree.Adopt(iut.Facts{URL: m.lone})
	if err != nil || string(f.AppendLine(nil))+string(body) != m.pages[m.lone] {
		t.Fatalf("%s: the page that the index does not know: %v", what, err)
	}
	if _, err := index.Verify(t.Context(), func(fault string) { t.Errorf("%s: %s", what, fault) }); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// step returns the distance between calls that fail: without TEST_URLTREE_FULL most are left out.
func step() int {
	switch {
	case os.Getenv("TEST_URLTREE_FULL") != "":
		return 1
	case testing.Short():
		return 13
	}
	return 4
}

// TestConvertFailsAtEveryCall: a disk that fails ends a conversion with its error, and the same
// command, or that of the old store, comes to the same end afterwards.
func TestConvertFailsAtEveryCall(t *testing.T) {
	seed := testseed.Draw(t)
	for _, from := range []string{iut.StoreFolders, iut.StoreWARC} {
		for _, tt := range []struct {
			err   syscall.Errno
			once  bool
			short bool
		}{{syscall.EIO, false, false}, {syscall.ENOSPC, true, true}} {
			t.Run(from+" "+tt.err.Error(), func(t *testing.T) {
				t.Parallel()
				m := newMemTree(t, from)
				k := int(seed % uint64(step()))
				for failed := true; failed; k += step() {
					disk, path := m.copy(t)
					fault := faultfs.FailAfter(disk, k, tt.err)
					fault.Once, fault.Short = tt.once, tt.short
					err := convertOn(t.Context(), fault, path, m.other())
					what := fmt.Sprintf("call %d", k)
					if failed = fault.Failed(); failed {
						what += ", " + fault.Calls()[k]
					}
					switch {
					case !failed && err != nil:
						t.Fatal(err)
					case failed && err == nil && !mayPass(fault.Calls()[k]):
						t.Fatalf("%s failed, and nobody was told", what)
					case err != nil && (!errors.Is(err, iut.ErrDisk) && !errors.Is(err, iut.ErrPage) || !errors.Is(err, tt.err)):
						t.Fatalf("%s: %v, want ErrDisk and %v", what, err, tt.err)
					}
					m.requireReadable(t, what, disk, path)
					to := m.other()
					if k%2 == 1 {
						to = m.store
					}
					m.requireDone(t, what, disk, path, to)
				}
				if k < 80 {
					t.Errorf("a conversion makes only %d calls", k)
				}
			})
		}
	}
}

// mayPass reports whether a conversion may go on though a call has failed: the end of what was only
// read, and the first look at whether the disk keeps capital letters apart.
func mayPass(call string) bool {
	return strings.HasPrefix(call, "close ") || call == "stat format"
}

// TestConvertPowerCutAtEveryCall: so it does after a power cut at any call, of which what is left
// can be read.
func TestConvertPowerCutAtEveryCall(t *testing.T) {
	seed := testseed.Draw(t)
	for _, from := range []string{iut.StoreFolders, iut.StoreWARC} {
		for _, byFile := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, file by file %v", from, byFile), func(t *testing.T) {
				t.Parallel()
				m := newMemTree(t, from)
				k := int(seed % uint64(step()))
				for m.cut(t, k, byFile, rand.New(rand.NewPCG(seed, uint64(k)))) {
					k += step()
				}
				if k < 80 {
					t.Errorf("a conversion makes only %d calls", k)
				}
			})
		}
	}
}

// cut reports whether a conversion came to call k, at which the power is cut.
func (m *memTree) cut(t *testing.T, k int, byFile bool, rng *rand.Rand) bool {
	t.Helper()
	disk, path := m.copy(t)
	disk.ByFile = byFile
	fault := faultfs.FailAfter(disk, k, syscall.EIO)
	var left []*faultfs.Mem
	var index []byte
	fault.Cut = func() {
		left, index = append(left, disk.Crash(rng), disk.Crash(rng), disk.Crash(rng)), []byte(testsite.Read(t, path))
	}
	if err := convertOn(t.Context(), fault, path, m.other()); !fault.Failed() && err != nil {
		t.Fatal(err)
	}
	for i, disk := range left {
		what := fmt.Sprintf("power cut at call %d, %s", k, fault.Calls()[k])
		disk.ByFile = byFile
		path := indexFile(t, index)
		m.requireReadable(t, what, disk, path)
		m.requireDone(t, what, disk, path, []string{m.other(), m.store, m.other()}[i])
	}
	return fault.Failed()
}
