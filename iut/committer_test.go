package iut_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"urltree/internal/faultfs"
	"urltree/internal/testseed"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// steps is what happened, in order.
type steps struct {
	mu   sync.Mutex
	list []string // guarded by mu; since the last want
}

func (s *steps) add(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, fmt.Sprintf(format, args...))
}

// want compares what happened since it was called last.
func (s *steps) want(t *testing.T, when string, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.list, want) {
		t.Errorf("%s: steps %q, want %q", when, s.list, want)
	}
	s.list = nil
}

// stepFS notes the syncs and adoptions of a disk. With a gate each sync waits for its result.
type stepFS struct {
	iut.FS
	steps *steps
	gate  chan error
}

func (f *stepFS) SyncAll() error {
	f.steps.add("sync")
	if f.gate != nil {
		if err := <-f.gate; err != nil {
			return err
		}
	}
	f.steps.add("synced")
	return f.FS.SyncAll()
}

func (f *stepFS) Adopt(name string) {
	f.steps.add("adopt %s", name)
	f.FS.Adopt(name)
}

// stepIndex notes the sets that are committed. With a gate each waits for its result.
type stepIndex struct {
	steps *steps
	gate  chan error
}

func (x *stepIndex) Commit(set []*record.Outcome) (storage.Committed, error) {
	var urls []string
	for _, o := range set {
		urls = append(urls, o.Row.URL)
	}
	x.steps.add("commit %s", pageNames(urls))
	if x.gate != nil {
		if err := <-x.gate; err != nil {
			return storage.Committed{}, err
		}
	}
	return storage.Committed{Next: make([]record.Row, len(set))}, nil
}

// pageNames returns the last elements of URLs, sorted: batches of several builders come in any
// order.
func pageNames(urls []string) string {
	var names []string
	for _, url := range urls {
		names = append(names, url[strings.LastIndexByte(url, '/')+1:])
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// A stage is a pipeline of three builders in a synctest bubble, whose syncs and commits wait.
type stage struct {
	*pipeline
	t       *testing.T
	disk    *faultfs.Mem
	steps   steps
	frees   frees
	sync    chan error
	commits chan error
}

func newStage(t *testing.T) *stage {
	s := &stage{t: t, disk: faultfs.NewMem(), sync: make(chan error), commits: make(chan error)}
	fsys := &stepFS{FS: s.disk, steps: &s.steps, gate: s.sync}
	s.pipeline = &pipeline{
		tree: open(t, "", onFS(fsys)), index: &stepIndex{&s.steps, s.commits}, size: 10, bytes: 64, goOn: true,
		after: func(set []*iut.Item, c storage.Committed) {
			var urls []string
			for _, it := range set {
				urls = append(urls, it.Row.URL)
			}
			if len(c.Next) != len(set) {
				t.Errorf("After has %d items and %d rows", len(set), len(c.Next))
			}
			s.steps.add("after %s, out %v", pageNames(urls), s.out())
		},
	}
	s.pipeline.start(3)
	s.committer.Committed = func(items int, _, _ time.Duration) { s.steps.add("committed %d", items) }
	return s
}

// out returns the permits that each buffer's builder has.
func (s *stage) out() (out []int) {
	for _, b := range s.buffers {
		out = append(out, b.Counts().Out)
	}
	return out
}

// build puts a page through a buffer and waits until its builder has done what it can.
func (s *stage) build(buf, n int) {
	s.t.Helper()
	if err := s.add(buf, s.frees.watch(itemOf(page(n)))); err != nil {
		s.t.Fatal(err)
	}
	s.buffers[buf].Flush()
	synctest.Wait()
}

// let ends the sync or commit that waits, with a result.
func (s *stage) let(gate chan error, err error) {
	gate <- err
	synctest.Wait()
}

func TestOrderOfDurableSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		synctest.Wait()
		s.build(0, 0)
		s.steps.want(t, "the first page is built", "sync")
		s.build(1, 1)
		s.steps.want(t, "another is built during the sync")
		s.let(s.sync, nil)
		s.steps.want(t, "the sync is over: the other waits", "synced", "commit p0")
		s.build(2, 2)
		s.build(0, 3)
		s.steps.want(t, "two more are built during the commit")
		if out := s.out(); !slices.Equal(out, []int{2, 1, 1}) {
			t.Errorf("before the commit is over the builders have %v permits", out)
		}
		for n := range 4 {
			requirePage(t, s.tree, page(n)) // written, whatever is committed
		}
		s.let(s.commits, nil)
		s.steps.want(t, "the commit is over", "committed 1", "after p0, out [2 1 1]", "sync")
		if out := s.out(); !slices.Equal(out, []int{1, 1, 1}) {
			t.Errorf("with one page committed the builders have %v permits", out)
		}
		s.let(s.sync, nil)
		s.steps.want(t, "all others are one set", "synced", "commit p1 p2 p3")
		s.build(1, 4)
		s.let(s.commits, nil)
		s.steps.want(t, "that set is committed", "committed 3", "after p1 p2 p3, out [1 2 1]", "sync")
		s.let(s.sync, nil)
		s.let(s.commits, nil)
		s.steps.want(t, "the last", "synced", "commit p4", "committed 1", "after p4, out [0 1 0]")
		if err := s.end(); err != nil {
			t.Error(err)
		}
		s.steps.want(t, "nothing is left to commit at the end")
		if n := s.removed(); n != 5 {
			t.Errorf("%d permits came back, want 5", n)
		}
		s.frees.check(t, 5)
	})
}

// A page is in the tree and its body free as soon as it is in a buffer. It is handed on when there
// is reason to commit, with all others, and no sooner.
func TestPagesAreWrittenAsTheyCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		for n := range 9 {
			if err := s.add(0, s.frees.watch(itemOf(page(n)))); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			requirePage(t, s.tree, page(n))
			s.frees.check(t, n+1)
		}
		s.steps.want(t, "nine pages of ten are written")
		if c := s.buffers[0].Counts(); c.Waiting != 9 || c.Out != 0 {
			t.Errorf("%+v, want all nine in the buffer", c)
		}
		if err := s.add(0, s.frees.watch(itemOf(page(9)))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.let(s.sync, nil)
		s.let(s.commits, nil)
		s.steps.want(t, "the buffer is full", "sync", "synced", "commit p0 p1 p2 p3 p4 p5 p6 p7 p8 p9", "committed 10",
			"after p0 p1 p2 p3 p4 p5 p6 p7 p8 p9, out [10 0 0]")
		if err := s.end(); err != nil {
			t.Error(err)
		}
		s.frees.check(t, 10)
	})
}

// What is handed in before Close is committed, also when it comes to one set with Close.
func TestCloseCommitsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.build(0, 0)
		for n := 1; n < 4; n++ { // nobody flushes
			if err := s.add(n-1, s.frees.watch(itemOf(page(n)))); err != nil {
				t.Fatal(err)
			}
		}
		done := make(chan error)
		go func() { done <- s.end() }()
		synctest.Wait()
		s.steps.want(t, "closed during the sync", "sync")
		s.let(s.sync, nil)
		s.let(s.commits, nil)
		s.steps.want(t, "the first set", "synced", "commit p0", "committed 1", "after p0, out [2 1 1]", "sync")
		s.let(s.sync, nil)
		s.let(s.commits, nil)
		if err := <-done; err != nil {
			t.Error(err)
		}
		s.steps.want(t, "the rest", "synced", "commit p1 p2 p3", "committed 3", "after p1 p2 p3, out [1 1 1]")
		s.frees.check(t, 4)
	})
}

func TestNothingIsCommittedAfterAFailure(t *testing.T) {
	for _, tt := range []struct {
		name string
		fail func(s *stage)
		want []string
	}{
		{"sync", func(s *stage) { s.let(s.sync, syscall.EIO) }, nil},
		{"commit", func(s *stage) { s.let(s.sync, nil); s.let(s.commits, syscall.EIO) }, []string{"synced", "commit p1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				s.build(0, 0)
				s.let(s.sync, nil)
				s.let(s.commits, nil)
				s.build(1, 1)
				s.build(2, 2) // waits for the next set
				s.steps.want(t, "a set that goes well", "sync", "synced", "commit p0", "committed 1", "after p0, out [1 0 0]", "sync")
				tt.fail(s)
				s.steps.want(t, "the failure", tt.want...)
				for n := 3; n < 9; n++ { // more than the committer takes without running
					s.build(n%3, n)
				}
				s.steps.want(t, "after the failure")
				s.committing.Wait() // by itself, without Close or the end of ctx
				if err := s.committerErr; !errors.Is(err, iut.ErrDisk) || !errors.Is(err, syscall.EIO) {
					t.Errorf("Run: %v, want ErrDisk and EIO", err)
				}
				s.stop()
				s.building.Wait() // without Close
				for i, err := range s.builderErrs {
					if !errors.Is(err, context.Canceled) {
						t.Errorf("builder %d: %v, want context.Canceled", i, err)
					}
				}
				if err := s.buffers[0].Add(t.Context(), itemOf(page(9))); err == nil {
					t.Error("the buffer of a builder that is gone takes an item")
				}
				s.steps.want(t, "after the end")
				if n := s.removed(); n != 1 {
					t.Errorf("%d permits came back, want that of the one committed page", n)
				}
				s.frees.check(t, 9)
			})
		})
	}
}

// crashIndex keeps what was committed, from one goroutine.
type crashIndex struct{ stored []kept }

func (x *crashIndex) Commit(set []*record.Outcome) (storage.Committed, error) {
	for _, o := range set {
		if o.State == record.Stored {
			at := iut.Facts{URL: o.Row.URL, Source: o.Row.Source, Page: o.Page}
			x.stored = append(x.stored, kept{body: page(int(o.Row.Depth)).Body, at: at})
		}
	}
	return storage.Committed{Next: make([]record.Row, len(set))}, nil
}

// lateFS lets the builders go on writing before it says that a sync is over.
type lateFS struct{ iut.FS }

func (f lateFS) SyncAll() error {
	err := f.FS.SyncAll()
	for range 100 {
		runtime.Gosched()
	}
	return err
}

// crashWork lets three builders store 14 pages: one of them comes twice, one through tmp/, and
// two are there already, not synced, and adopted. It gives the pages that the index calls stored.
func crashWork(store *iut.Identity, fsys iut.FS) (stored []kept, err error) {
	tree, err := iut.Open("", iut.Options{FS: fsys, Segments: iut.SegmentOptions{Size: 3 << 10}})
	if err != nil {
		return nil, err
	}
	defer tree.Close()
	if err := tree.Recover(iut.Committed{}); err != nil {
		return nil, err
	}
	index := &crashIndex{}
	p := (&pipeline{tree: tree, index: index, size: 2}).start(3)
	var adding sync.WaitGroup
	tempErr := error(nil)
	for i := range 3 {
		adding.Go(func() {
			for n := i; n < 15; n += 3 {
				q := pageFor(store, min(n, 13))
				if n == 7 {
					if tempErr = useTemp(tree, q); tempErr != nil {
						p.stop()
						return
					}
				}
				it := itemOf(q)
				it.Answer = q.Answer
				if n < 2 {
					it.Body, it.Answer, it.Adopt = nil, nil, true
				}
				if p.add(i, it) != nil {
					return
				}
			}
		})
	}
	adding.Wait()
	err = errors.Join(p.end(), tempErr)
	return index.stored, err
}

// TestPowerCutWhileBuilding: the index never calls a page stored that is not whole after a power
// cut, whichever call of the disk is the last.
func TestPowerCutWhileBuilding(t *testing.T) {
	seed := testseed.Draw(t)
	for i, byFile := range []bool{false, true} {
		for _, store := range storesFor(i, seed) {
			t.Run(fmt.Sprintf("%s file by file %v", storeName(store), byFile), func(t *testing.T) {
				step := 1
				if store == &warcRules {
					step = everyCall(t) // each takes longer
				}
				for k := int(seed % uint64(step)); cutWhileBuilding(t, store, k, seed, byFile); k += step {
				}
			})
		}
	}
}

// cutWhileBuilding reports whether the work came to call k.
func cutWhileBuilding(t *testing.T, store *iut.Identity, k int, seed uint64, byFile bool) bool {
	t.Helper()
	mem := faultfs.NewMem()
	mem.ByFile = byFile
	tree := openAs(t, "", store, mem)
	for n := range 2 {
		if _, err := tree.Store(pageFor(store, n)); err != nil {
			t.Fatal(err)
		}
	}
	tree.Close()
	mem.Forget()
	fault := faultfs.FailAfter(mem, k, syscall.EIO)
	fault.Short = true
	stored, err := crashWork(store, lateFS{fault})
	done := !fault.Failed()
	switch {
	case done && (err != nil || len(stored) != 15):
		t.Fatalf("without a fault %d items are committed, want 15: %v", len(stored), err)
	case err != nil && !errors.Is(err, iut.ErrDisk):
		t.Fatalf("call %d, %s: %v, want ErrDisk", k, fault.Calls()[k], err)
	case done && k < 50:
		t.Fatalf("only %d calls: too few to have stored 12 pages", k)
	}
	for i := range uint64(3) {
		left := openAs(t, "", store, mem.Crash(rand.New(rand.NewPCG(seed+i, uint64(k)))))
		if err := left.Recover(iut.Committed{Ends: endsOf(stored)}); err != nil {
			t.Fatalf("call %d: %v", k, err)
		}
		for _, p := range stored {
			requireStored(t, left, p.at, p.body)
		}
		left.Close()
		if t.Failed() {
			t.Fatalf("call %d", k)
		}
	}
	return !done
}

// dyingIndex keeps what was committed, from one goroutine, until a commit fails for good.
type dyingIndex struct {
	left int // commits that go well
	set  []record.Outcome
}

func (x *dyingIndex) Commit(set []*record.Outcome) (storage.Committed, error) {
	if x.left--; x.left < 0 {
		return storage.Committed{}, syscall.EIO
	}
	for _, o := range set {
		x.set = append(x.set, *o)
	}
	return storage.Committed{Next: make([]record.Row, len(set))}, nil
}

// Whichever transaction is the last, an outcome never is in the index without the links that it
// brought: neither a redirect without its target nor a page without one of its links, of which many
// come in transactions before it.
func TestOutcomeAndItsLinksAreOne(t *testing.T) {
	for n, done := 0, false; !done; n++ {
		index := &dyingIndex{left: n}
		p := (&pipeline{tree: open(t, "", onFS(faultfs.NewMem())), index: index, size: 4}).start(1)
		links := map[string]int{}
		for i, count := range []int{1, 40_000, 0, 1} { // one of them fills several transactions
			it := itemOf(page(i))
			if count == 1 {
				it.State, it.Body = record.Redirected, nil
			}
			it.Links = make([]record.Link, count)
			links[it.Row.URL] = count
			if err := p.add(0, it); err != nil {
				t.Fatal(err)
			}
		}
		err := p.end()
		switch done = err == nil; {
		case !done && !errors.Is(err, syscall.EIO):
			t.Fatal(err)
		}
		outcomes, there := 0, map[string]int{}
		for _, o := range index.set {
			there[o.Row.URL] += len(o.Links)
			if o.Part {
				continue
			}
			outcomes++
			if there[o.Row.URL] != links[o.Row.URL] {
				t.Errorf("after %d transactions %s is there with %d links, want %d", n, o.Row.URL, there[o.Row.URL], links[o.Row.URL])
			}
		}
		if done && (outcomes != 4 || n < 4) {
			t.Errorf("%d outcomes in %d transactions, want 4 in at least 4", outcomes, n)
		}
	}
}
