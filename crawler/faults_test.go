package crawler_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"urltree/crawler"
	"urltree/internal/faultfs"
	"urltree/internal/repair"
	"urltree/internal/testseed"
	"urltree/internal/testshare"
	"urltree/internal/testweb"
	"urltree/iut"
	"urltree/storage"
)

// TestFaultAtEveryCall crawls 40 pages and lets the k-th call of the tree's disk fail, for every
// k that the crawl comes to. Then the tree is checked, and the same command goes on to the known
// answer. With TEST_URLTREE_FULL=1 no k is left out.
func TestFaultAtEveryCall(t *testing.T) {
	web, table := faultWeb(t), new(faultTable)
	seed := testseed.Draw(t)
	t.Run("kinds", func(t *testing.T) {
		for i, tt := range []faultKind{
			{name: "EIO", err: syscall.EIO, once: true},
			{name: "EIO, and the disk is gone", err: syscall.EIO},
			{name: "ENOSPC", err: syscall.ENOSPC, once: true},
			{name: "ENOSPC, and the disk stays full", err: syscall.ENOSPC},
			{name: "EMFILE", err: syscall.EMFILE, once: true},
			{name: "EACCES", err: syscall.EACCES, once: true},
			{name: "short write", err: syscall.ENOSPC, once: true, only: "write"},
		} {
			for _, store := range storesFor(i, seed) {
				kind := tt
				kind.store = store
				row := table.add(tt.name + ", " + store)
				t.Run(tt.name+"/"+store, func(t *testing.T) {
					t.Parallel()
					everyCall(t, i, callsOf(t, web, store, kind.only), func(t *testing.T, k int) bool { return testFault(t, web, k, kind, row) })
				})
			}
		}
	})
	table.print(t)
}

// TestPowerCutAtEveryCall cuts the power at the k-th call, for every k. What is left of the tree
// is one of the states that faultfs.Mem allows, several for each k. The index is a real file and
// goes its own way: all of its transactions that had ended by then are there, since each syncs
// before it ends, and of one on its way as much as the file had; or index.db is lost.
func TestPowerCutAtEveryCall(t *testing.T) {
	web, table := faultWeb(t), new(faultTable)
	seed := testseed.Draw(t)
	t.Run("kinds", func(t *testing.T) {
		for i, tt := range []struct {
			name   string
			states int
			lost   bool // the index
		}{
			{"power cut", 3, false},
			{"power cut, and index.db is lost", 1, true},
		} {
			for _, store := range storesFor(i, seed) {
				row := table.add(tt.name + ", " + store)
				t.Run(tt.name+"/"+store, func(t *testing.T) {
					t.Parallel()
					everyCall(t, i, callsOf(t, web, store, ""), func(t *testing.T, k int) bool {
						return testCut(t, web, store, k, rand.New(rand.NewPCG(seed, uint64(k))), tt.states, tt.lost, row)
					})
				})
			}
		}
	})
	table.print(t)
}

// A faultKind is a way in which one call fails.
type faultKind struct {
	name string
	err  syscall.Errno
	once bool   // the calls after it succeed
	only string // the operation that fails; "": any

	store string // of the tree
}

// storesFor returns the stores that case i of a test has to do with: both, or with -short one in
// turn, by the random seed.
func storesFor(i int, seed uint64) []string {
	if testing.Short() {
		return iut.Stores[(uint64(i)+seed)%2:][:1]
	}
	return iut.Stores
}

// faultWeb has all that a crawl meets: redirects, plain text, noindex, pages that only a sitemap
// names, and a few bodies that are too large for memory.
func faultWeb(t *testing.T) *testweb.Web {
	t.Helper()
	return serve(t, testweb.Options{
		Kind: testweb.Linked, Hosts: 2, Pages: 40, Seed: 24, MinSize: 500, MaxSize: 72 << 10,
		Redirects: .1, NoIndex: .1, Texts: .05, Hidden: .05,
	})
}

// callsOf counts the calls, of one operation or of any, of a crawl without a fault.
func callsOf(t *testing.T, web *testweb.Web, store, only string) int {
	t.Helper()
	dir, remove := faultDir(t)
	defer remove()
	counted := faultfs.Count(faultfs.NewMem())
	counted.Only = only
	if _, err := crawler.Run(t.Context(), faultOptions(dir, web, store, counted)); err != nil {
		t.Fatal(err)
	}
	return len(counted.Calls())
}

// everyCall calls try with each k until five crawls in a row, whose numbers of calls differ, have
// not come to their call k; with -short one is enough where a crawl usually makes fewer. Without
// TEST_URLTREE_FULL it leaves most out, other ones for each offset. With it none but those of
// other shares, see testshare; and several divide the work,
// since hosts rest for a second after a crawl that did not end well. usual is how many calls a
// crawl makes.
func everyCall(t *testing.T, offset, usual int, try func(t *testing.T, k int) bool) {
	t.Helper()
	if usual < 40 {
		t.Fatalf("a crawl makes %d calls", usual)
	}
	step := usual / 5
	switch {
	case full():
		offset, step = 0, 24
	case testing.Short():
		step = usual * 3 / 4
	}
	from := func(t *testing.T, first int) {
		last := 0
		most := sized(5, 1)
		for k, missed := first, 0; missed < most || k < usual && missed < 5; k += step {
			if try(t, k) {
				last, missed = k, 0
			} else {
				missed++
			}
			if t.Failed() {
				t.FailNow()
			}
		}
		if last+step < usual*9/10 {
			t.Errorf("call %d was the last to fail, and a crawl makes about %d", last, usual)
		}
	}
	if !full() {
		from(t, offset*5%step)
		return
	}
	for first := range step {
		if !testshare.Mine(first) {
			continue
		}
		t.Run(fmt.Sprintf("from call %d", first), func(t *testing.T) {
			t.Parallel()
			from(t, first)
		})
	}
}

// faultKept is what the crawls of faultOptions keep in FORMAT.
var faultKept = iut.Kept{Options: []string{"scope=any"}, Secrets: []string{"user"}}

// faultOptions are those of a crawl into dir, whose tree is on disk but for LOCK and index.db.
func faultOptions(dir string, web *testweb.Web, store string, disk iut.FS) crawler.Options {
	opts := options(dir, web)
	opts.Buffers, opts.Crawlers, opts.Downloads, opts.FlushInterval = 1, 2, 2, 20*time.Millisecond
	opts.MemoryBodies, opts.NoSync, opts.Edges, opts.FS = 64<<10, true, true, disk
	opts.Store, opts.WARC.Size, opts.WARC.All = crawler.Store(store), 256<<10, true
	opts.Keep = func(iut.Kept, []string) (iut.Kept, error) { return faultKept, nil }
	return opts
}

// faultDir makes a folder for one k, in memory where there is a place for that: each crawl syncs
// its results, and there are thousands.
func faultDir(t *testing.T) (dir string, remove func()) {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "urltree")
	if err != nil {
		dir, err = os.MkdirTemp(t.TempDir(), "")
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir, func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}
}

// testFault reports whether the crawl came to call k.
func testFault(t *testing.T, web *testweb.Web, k int, kind faultKind, row *faultRow) bool {
	t.Helper()
	dir, remove := faultDir(t)
	defer remove()
	disk := faultfs.NewMem()
	fault := faultfs.FailAfter(disk, k, kind.err)
	fault.Once, fault.Only, fault.Short = kind.once, kind.only, kind.only == "write"
	_, err := crawler.Run(t.Context(), faultOptions(dir, web, kind.store, fault))
	if !fault.Failed() {
		if err != nil {
			t.Fatal(err)
		}
		return false
	}
	row.injected.Add(1)
	calls := fault.Calls()
	call := fmt.Sprintf("call %d, %s", k, calls[k])
	switch {
	case err == nil && kind.once && mayGoOn(calls[:k+1], kind.err):
		row.went.Add(1)
	case err == nil:
		row.exit.Add(1)
		t.Errorf("%s: the fault was passed over", call)
	case !errors.Is(err, iut.ErrDisk) || !errors.Is(err, kind.err):
		row.exit.Add(1)
		t.Errorf("%s: %v, want %v and %v", call, err, iut.ErrDisk, kind.err)
	default:
		row.ended.Add(1)
		requireDiskError(t, err, kind.err)
	}
	goOn(t, dir, web, kind.store, disk, call, row)
	return true
}

// mayGoOn reports whether a crawl may go on though the last of calls has failed.
func mayGoOn(calls []string, err syscall.Errno) bool {
	last := len(calls) - 1
	switch op, name, _ := strings.Cut(calls[last], " "); op {
	case "mkdir", "create", "rename":
		// With room left it is a full folder: this page's failure alone.
		return err == syscall.ENOSPC && (op == "mkdir" || strings.HasSuffix(name, "/content.html") || strings.HasSuffix(name, "/source.txt"))
	case "close":
		return onlyRead(calls[:last], name)
	case "remove":
		return strings.HasPrefix(name, "tmp/") // left to the next start
	}
	return false
}

// testCut reports whether the crawl came to call k.
func testCut(t *testing.T, web *testweb.Web, store string, k int, rng *rand.Rand, states int, lost bool, row *faultRow) bool {
	t.Helper()
	dir, remove := faultDir(t)
	defer remove()
	opts := faultOptions(dir, web, store, nil)
	disk := faultfs.NewMem()
	cut := faultfs.FailAfter(disk, k, syscall.EIO)
	var left []*faultfs.Mem
	var index []byte
	var failed error
	cut.Cut = func() {
		index, failed = os.ReadFile(filepath.Join(opts.Tree, "index.db"))
		for range states {
			left = append(left, disk.Crash(rng))
		}
	}
	opts.FS = cut
	_, err := crawler.Run(t.Context(), opts)
	if failed != nil && !errors.Is(failed, fs.ErrNotExist) {
		t.Fatal(failed)
	}
	if !cut.Failed() {
		if err != nil {
			t.Fatal(err)
		}
		return false
	}
	call := fmt.Sprintf("cut at call %d, %s", k, cut.Calls()[k])
	for _, disk := range left {
		err := errors.Join(os.RemoveAll(opts.Tree), os.Mkdir(opts.Tree, 0o777))
		if failed == nil && !lost {
			err = errors.Join(err, os.WriteFile(filepath.Join(opts.Tree, "index.db"), index, 0o666))
		}
		if err != nil {
			t.Fatal(err)
		}
		row.injected.Add(1)
		goOn(t, dir, web, store, disk, call, row)
	}
	return true
}

// goOn checks what a fault has left and crawls on, without one, to the known answer. What was
// complete must not be written again.
func goOn(t *testing.T, dir string, web *testweb.Web, store string, disk *faultfs.Mem, call string, row *faultRow) {
	t.Helper()
	opts := faultOptions(dir, web, store, nil)
	checkOn(t, opts.Tree, disk, "", call)
	before := completeOn(t, disk, call)
	retry(t, opts.Tree)
	counted := faultfs.Count(disk)
	opts.FS = counted
	if _, err := crawler.Run(t.Context(), opts); err != nil {
		row.exit.Add(1)
		t.Fatalf("%s: the next run: %v", call, err)
	}
	got, want := map[string]int{}, web.Answer().Stored
	for _, url := range crawled(t, opts.Output) {
		got[url]++
	}
	for _, url := range want {
		switch n := got[url]; {
		case n == 0:
			row.lost.Add(1)
			t.Errorf("%s: %s is lost", call, url)
		case n > 1:
			row.doubled.Add(1)
			t.Errorf("%s: %s is listed %d times", call, url, n)
		}
		delete(got, url)
	}
	if len(got) > 0 {
		t.Errorf("%s: stored, and should not be: %v", call, got)
	}
	for _, c := range counted.Calls() {
		words := strings.Fields(c)
		last := words[len(words)-1]
		if (words[0] == "create" || words[0] == "rename") && path.Base(last) == "content.html" && before[path.Dir(last)] {
			row.doubled.Add(1)
			t.Errorf("%s: a page that was complete is written again: %s", call, c)
		}
	}
	after := completeOn(t, disk, call)
	for where, ok := range before {
		if ok && !after[where] {
			row.doubled.Add(1)
			t.Errorf("%s: a page that was complete is not where it was: %s", call, where)
		}
	}
	checkOn(t, opts.Tree, disk, opts.Output, call)
	edgesOn(t, opts.Tree, disk, web, call)
	row.reached.Add(1)
}

// checkOn lets check look at a tree whose disk is not that of the index, if both are there.
func checkOn(t *testing.T, root string, disk iut.FS, output, call string) {
	t.Helper()
	indexPath := filepath.Join(root, "index.db")
	if there, err := storage.Exists(indexPath); err != nil || !there {
		return
	}
	// Open asks the real folder whether there is a tree, before it makes LOCK.
	err := os.WriteFile(filepath.Join(root, "FORMAT"), nil, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := iut.Open(root, iut.Options{FS: disk, ReadOnly: true})
	if err != nil {
		t.Fatalf("%s: %v", call, err)
	}
	defer tree.Close()
	index, err := storage.Open(indexPath, storage.Options{ReadOnly: true})
	if err != nil {
		t.Fatalf("%s: %v", call, err)
	}
	defer index.Close()
	linker, err := crawler.NewLinker(tree.Format())
	if err != nil {
		t.Fatalf("%s: %v", call, err)
	}
	_, err = repair.Check(context.WithoutCancel(t.Context()), tree, index, linker, repair.CheckOptions{Links: true, Output: output},
		func(fault string) { t.Errorf("%s: %s", call, fault) })
	if err != nil {
		t.Fatalf("%s: %v", call, err)
	}
}

// edgesOn requires that the file of edges has those of all pages, once.
func edgesOn(t *testing.T, root string, disk iut.FS, web *testweb.Web, call string) {
	t.Helper()
	tree, err := iut.Open(root, iut.Options{FS: disk, ReadOnly: true})
	if err != nil {
		t.Fatalf("%s: %v", call, err)
	}
	defer tree.Close()
	index, err := storage.Open(filepath.Join(root, "index.db"), storage.Options{ReadOnly: true})
	if err != nil {
		t.Fatalf("%s: %v", call, err)
	}
	defer index.Close()
	kept, stored, err := index.Marks().Edges()
	if err != nil || kept.Pages != stored {
		t.Errorf("%s: %d of %d pages have their edges in the file: %v", call, kept.Pages, stored, err)
	}
	graph, err := crawler.NewGraph(tree, index)
	if err != nil {
		t.Fatalf("%s: %v", call, err)
	}
	if got, want := edgesOf(t, graph.Pages), answerEdges(t, web); !slices.Equal(got, want) {
		t.Errorf("%s: %d edges, want %d", call, len(got), len(want))
	}
}

// completeOn returns where the complete pages are, each SHA-256 compared.
func completeOn(t *testing.T, disk *faultfs.Mem, call string) map[string]bool {
	t.Helper()
	complete := map[string]bool{}
	if _, err := disk.Stat("FORMAT"); errors.Is(err, fs.ErrNotExist) {
		return complete // the fault came before the tree was made
	}
	tree, err := iut.Open("", iut.Options{FS: disk, ReadOnly: true})
	if err != nil {
		t.Fatalf("%s: %v", call, err)
	}
	if _, err := disk.Stat("seeds.txt"); err == nil && !tree.Format().Kept.Equal(faultKept) {
		t.Errorf("%s: there are seeds, and FORMAT keeps %+v", call, tree.Format().Kept)
	}
	err = tree.Walk(func(_, rel string, st iut.PageStatus, at iut.Facts) error {
		if st.Kind != iut.PageComplete {
			return nil
		}
		_, ok, err := tree.Complete(at, true)
		complete[rel] = ok
		return err
	})
	if err = errors.Join(err, tree.Close()); err != nil {
		t.Fatalf("%s: %v", call, err)
	}
	return complete
}

// A holdingFS lets the body of one page fail, once the crawl has come to something else.
type holdingFS struct {
	iut.FS
	file    string
	reached chan<- struct{} // closed when the body is about to be written
	proceed <-chan struct{}
}

func (f *holdingFS) Open(name string, flag int) (iut.File, error) {
	if name != f.file || flag&os.O_CREATE == 0 {
		return f.FS.Open(name, flag)
	}
	close(f.reached)
	<-f.proceed
	return nil, &fs.PathError{Op: "create", Path: name, Err: syscall.EIO}
}

// TestLinkThatOnlyMemoryKnows has two pages name the same link. That of the first is in a buffer,
// and never gets into the index; that of the second, which was parsed later and is committed
// earlier, must be there.
func TestLinkThatOnlyMemoryKnows(t *testing.T) {
	first := make(chan string, 1) // host and port
	asked, written, committed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	origins := hosts(t, 2, func(host int, rw http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/next":
			close(committed)
		case r.URL.Path != "/":
		case host == 0:
			first <- r.Host
			<-asked // by another crawler, whose buffer is the other one
			fmt.Fprint(rw, "<a href=/both>")
		default:
			close(asked)
			<-written
			fmt.Fprintf(rw, "<a href=http://%s/both><a href=/next>", <-first)
		}
	})
	dir, disk := t.TempDir(), faultfs.NewMem()
	file, err := new(iut.Mapping).Path(origins[0] + "/")
	if err != nil {
		t.Fatal(err)
	}
	opts := crawler.Options{
		Tree:       filepath.Join(dir, "iut"),
		Output:     filepath.Join(dir, "res.txt"),
		Seeds:      []string{origins[0] + "/", origins[1] + "/"},
		Politeness: crawler.Politeness{Delay: -1, IgnoreRobots: true},
		HTTP:       crawler.HTTP{Retries: -1},
		Resources:  crawler.Resources{Buffers: 2, Crawlers: 2, Downloads: 1, FlushInterval: time.Millisecond},
		Storage:    crawler.Storage{FS: &holdingFS{FS: disk, file: file + "/content.html", reached: written, proceed: committed}},
	}
	if _, err := crawler.Run(t.Context(), opts); !errors.Is(err, syscall.EIO) {
		t.Fatalf("%v, want that the first page cannot be written", err)
	}
	checkOn(t, opts.Tree, disk, "", "check")
}

// A faultTable sums up what became of the faults of each kind.
type faultTable struct{ rows []*faultRow }

// A faultRow is one kind's. The tests of that kind count in it.
type faultRow struct {
	kind                string
	injected            atomic.Int32
	ended, went         atomic.Int32 // crawls: with a disk error, exit code 4; as if nothing had happened, as they may
	reached             atomic.Int32 // crawls that then went on to the known answer
	lost, doubled, exit atomic.Int32 // URLs; URLs; crawls that ended as they must not
}

func (f *faultTable) add(kind string) *faultRow {
	row := &faultRow{kind: kind}
	f.rows = append(f.rows, row)
	return row
}

func (f *faultTable) print(t *testing.T) {
	var text strings.Builder
	fmt.Fprintf(&text, "%-41s %8s %6s %7s %8s %5s %8s %10s\n", "fault", "injected", "exit 4", "went on", "answered", "lost", "doubled", "wrong exit")
	for _, r := range f.rows {
		fmt.Fprintf(&text, "%-41s %8d %6d %7d %8d %5d %8d %10d\n",
			r.kind, r.injected.Load(), r.ended.Load(), r.went.Load(), r.reached.Load(), r.lost.Load(), r.doubled.Load(), r.exit.Load())
	}
	t.Log("\n" + text.String())
}
