package iut_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"urltree/buffer"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// Source A's replay of its data race, on the real builders and the real tree: with the path lock
// taken out two builders write the same page. The report knows the race by three signs:
// content.html is written twice, source.txt has two lines, and res.txt, which there is all
// source.txt in one, has two entries.
//
// The tree has a second protection, which the report's has not: source.txt is made by an exclusive
// open. It is taken out too where the signs are looked for, and tested on its own.

// A race is a tree, and for each builder a view of it through which its steps can be held.
type race struct {
	tree  *iut.Tree
	index *storage.Index
	views []*iut.Tree

	lock      bool // the path lock is there
	exclusive bool // source.txt is made by an exclusive open

	// before is called by a builder before a step on a folder, and with "wrote" after the last
	// one; nil: nobody holds it.
	before func(builder int, step, rel string)

	commit chan struct{} // no transaction before this is closed

	mu     sync.Mutex
	bodies map[string]int // guarded by mu; how often content.html of a folder was opened for writing
}

func newRace(t *testing.T, r *race) *race {
	root := t.TempDir()
	d := disk(t, root, iut.SyncNone)
	r.tree, r.index = open(t, root, onFS(d)), newIndex(t)
	r.bodies = map[string]int{}
	r.commit = make(chan struct{})
	// The folders above the pages are there, so that looking is one step.
	store(t, r.tree, &iut.Page{Facts: iut.Facts{URL: "https://example.org/", Source: record.Seed}})
	for i := range 2 {
		r.views = append(r.views, r.tree.View(&builderFS{FS: d, race: r, builder: i}, r.lock))
	}
	return r
}

// Commit is that of the index, held until the race has been looked at.
func (r *race) Commit(set []*record.Outcome) (storage.Committed, error) {
	<-r.commit
	return r.index.Commit(set)
}

// builderFS is the disk as one builder has it.
type builderFS struct {
	iut.FS
	race    *race
	builder int
}

func (f *builderFS) step(step, rel string) {
	if f.race.before != nil && strings.Contains(rel, "/dr-") {
		f.race.before(f.builder, step, rel)
	}
}

func (f *builderFS) Mkdir(name string) error {
	f.step("looks for", name)
	return f.FS.Mkdir(name)
}

func (f *builderFS) Open(name string, flag int) (iut.File, error) {
	rel, writes := path.Dir(name), flag&os.O_CREATE != 0
	switch {
	case path.Base(name) == "content.html" && writes:
		f.step("creates", rel)
	case path.Base(name) == "source.txt" && writes:
		f.step("writes", rel)
		if !f.race.exclusive {
			flag = flag&^os.O_EXCL | os.O_APPEND
		}
	}
	file, err := f.FS.Open(name, flag)
	switch {
	case err != nil:
		return nil, err
	case path.Base(name) == "content.html" && flag&(os.O_CREATE|os.O_TRUNC) != 0:
		f.race.mu.Lock()
		defer f.race.mu.Unlock()
		f.race.bodies[rel]++
	case path.Base(name) == "source.txt" && writes:
		return lastFile{file, func() { f.step("wrote", rel) }}, nil
	}
	return file, nil
}

// A lastFile signals when it is written.
type lastFile struct {
	iut.File
	wrote func()
}

func (f lastFile) Close() error {
	defer f.wrote()
	return f.File.Close()
}

// An add is a URL that a crawler puts into a buffer.
type add struct {
	buffer int
	url    string
}

// run lets crawlers put URLs into two buffers of the given sizes, and waits until the builders are
// through with so many pages, failed ones included. Then look is called, before the first commit.
// With goOn everything then runs to its end, else it is stopped. It gives all errors but that stop.
func (r *race) run(t *testing.T, sizes [2]int, crawlers [][]add, pages int, goOn bool, look func()) error {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	committer := iut.NewCommitter(r.tree, r, 2)
	through := make(chan bool)
	var buffers [2]*buffer.Buffer[*iut.Item]
	var errs [3]error
	var crawling, building, committing sync.WaitGroup
	for i := range 2 {
		buffers[i] = buffer.New(buffer.Options[*iut.Item]{Size: sizes[i]})
		b := &iut.Builder{Tree: r.views[i], Source: buffers[i], Committer: committer, Parse: parse, Stored: func(time.Duration) { through <- true }}
		building.Go(func() {
			if errs[i] = b.Run(ctx); errs[i] != nil {
				through <- false
			}
		})
	}
	committing.Go(func() { errs[2] = committer.Run(ctx) })
	for c, adds := range crawlers {
		crawling.Go(func() {
			for _, a := range adds {
				p := &iut.Page{Facts: iut.Facts{URL: a.url, Source: record.Seed, Page: record.Page{Status: 200}}, Body: fmt.Appendf(nil, "the answer to crawler %d", c)}
				err := buffers[a.buffer].Add(ctx, itemOf(p))
				if err != nil && (goOn || !errors.Is(err, context.Canceled)) && !errors.Is(err, buffer.ErrClosed) {
					t.Errorf("Add: %v", err)
				}
			}
		})
	}
	for range pages {
		<-through
	}
	look()
	if !goOn {
		// A commit gives permits back: who waits for one has to be gone before, or writes the page once
		// more.
		stop()
		crawling.Wait()
	}
	close(r.commit)
	go func() {
		crawling.Wait()
		buffers[0].Close()
		buffers[1].Close()
		building.Wait()
		close(through)
	}()
	for range through { // to the end
	}
	committer.Close()
	committing.Wait()
	for i, err := range errs {
		if !goOn && errors.Is(err, context.Canceled) {
			errs[i] = nil
		}
	}
	return errors.Join(errs[:]...)
}

// The report's three signs, for one page.
type signs struct {
	Written int // how often content.html was written
	Lines   int // of source.txt
	Entries int // of res.txt
}

var clean = signs{Written: 1, Lines: 1, Entries: 1}

func (r *race) signs(t *testing.T, url string) signs {
	t.Helper()
	rel, err := r.tree.Path(url)
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(r.tree.Root(), rel, "source.txt"))
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := signs{Written: r.bodies[rel], Lines: bytes.Count(source, []byte("\n"))}
	for _, line := range r.results(t) {
		if line == url {
			s.Entries++
		}
	}
	return s
}

// results returns the URLs of res.txt as the report makes it: every source.txt below the root in
// one.
func (r *race) results(t *testing.T) (urls []string) {
	t.Helper()
	res := filepath.Join(t.TempDir(), "res.txt")
	var all []byte
	err := filepath.WalkDir(r.tree.Root(), func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.Name() == "source.txt" {
			var b []byte
			b, err = os.ReadFile(name)
			all = append(all, b...)
		}
		return err
	})
	if err := cmp.Or(err, os.WriteFile(res, all, 0o666)); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(all)) {
		url, _, _ := strings.Cut(line, "\t")
		urls = append(urls, url)
	}
	return urls
}

const raced = "https://example.org/seed"

// fourCrawlers are the report's: each has the same seed, and crawler i uses buffer i mod 2.
func fourCrawlers() (crawlers [][]add) {
	for i := range 4 {
		crawlers = append(crawlers, []add{{i % 2, raced}})
	}
	return crawlers
}

// A meeting holds who comes until a second one comes to the same place, or the time is over.
type meeting struct {
	wait time.Duration

	mu      sync.Mutex
	waiting map[string]chan bool // guarded by mu
	missed  int                  // guarded by mu; how many went on alone
}

func (m *meeting) come(place string) {
	m.mu.Lock()
	if other := m.waiting[place]; other != nil {
		delete(m.waiting, place)
		m.mu.Unlock()
		close(other)
		return
	}
	if m.waiting == nil {
		m.waiting = map[string]chan bool{}
	}
	met := make(chan bool)
	m.waiting[place] = met
	m.mu.Unlock()
	select {
	case <-met:
	case <-time.After(m.wait):
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.waiting[place] == met {
			delete(m.waiting, place)
			m.missed++
		}
	}
}

// holds are the report's two ways to bring two builders to the same step: each waits before it
// writes, for some time or for the other.
var holds = []struct {
	name string
	hold func(wait time.Duration) func(builder int, step, rel string)
}{
	{"delay", func(wait time.Duration) func(int, string, string) {
		return func(_ int, step, _ string) {
			if step == "creates" {
				<-time.After(wait)
			}
		}
	}},
	{"rendezvous", func(wait time.Duration) func(int, string, string) {
		m := &meeting{wait: wait}
		return func(_ int, step, rel string) {
			if step == "creates" {
				m.come(rel)
			}
		}
	}},
}

// Without the lock all three signs are there, and the tree knows that the page is not whole.
func TestReplayWithoutLock(t *testing.T) {
	for _, tt := range holds {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRace(t, &race{before: tt.hold(5 * time.Second)})
				err := r.run(t, [2]int{1, 1}, fourCrawlers(), 2, false, func() {
					if got, want := r.signs(t, raced), (signs{Written: 2, Lines: 2, Entries: 2}); got != want {
						t.Errorf("signs %+v, want %+v", got, want)
					}
				})
				if err != nil {
					t.Error(err)
				}
				if _, whole, err := r.tree.Complete(iut.Facts{URL: raced}, true); whole || err != nil {
					t.Errorf("a page with two lines counts as whole: %v, %v", whole, err)
				}
				p := &iut.Page{Facts: iut.Facts{URL: raced, Source: record.Seed}, Body: []byte("again")}
				if res := store(t, r.tree, p); res.Adopted {
					t.Error("a page with two lines was adopted")
				}
				requirePage(t, r.tree, p)
			})
		})
	}
}

// With the lock there is none of the signs, and the index has the page once.
func TestReplayWithLock(t *testing.T) {
	for _, tt := range holds {
		t.Run(tt.name, func(t *testing.T) {
			// In real time: who waits for the lock of a path keeps the clock of a bubble from going on.
			r := newRace(t, &race{lock: true, before: tt.hold(20 * time.Millisecond)})
			look := func() {
				if got := r.signs(t, raced); got != clean {
					t.Errorf("signs %+v, want %+v", got, clean)
				}
			}
			if err := r.run(t, [2]int{1, 1}, fourCrawlers(), 2, true, look); err != nil {
				t.Error(err)
			}
			look()
			if n := r.index.Totals().Stored; n != 1 {
				t.Errorf("the index has %d stored pages, want 1", n)
			}
			requireAgree(t, r.index, r.tree, raced)
			requireSound(t, r.index)
		})
	}
}

// The report's rendezvous hangs when the buffers bring different URLs. This one goes on.
func TestReplayRendezvousOfDifferentPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = 5 * time.Second
		m := &meeting{wait: wait}
		r := newRace(t, &race{before: func(_ int, step, rel string) {
			if step == "creates" {
				m.come(rel)
			}
		}})
		begin := time.Now()
		pages := []string{"https://example.org/one", "https://example.org/two"}
		crawlers := [][]add{{{0, pages[0]}}, {{1, pages[1]}}}
		if err := r.run(t, [2]int{1, 1}, crawlers, 2, true, func() {}); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); m.missed != 2 || took != wait {
			t.Errorf("%d went on alone after %v, want 2 after %v", m.missed, took, wait)
		}
		for _, url := range pages {
			if got := r.signs(t, url); got != clean {
				t.Errorf("%s: signs %+v, want %+v", url, got, clean)
			}
		}
	})
}

// With the lock out and the exclusive open in its place the second builder is stopped by the disk:
// the crawl ends with an error, and no source.txt has two lines.
func TestReplayExclusiveOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRace(t, &race{exclusive: true, before: holds[0].hold(5 * time.Second)})
		err := r.run(t, [2]int{1, 1}, fourCrawlers(), 2, false, func() {
			if got, want := r.signs(t, raced), (signs{Written: 2, Lines: 1, Entries: 1}); got != want {
				t.Errorf("signs %+v, want %+v", got, want)
			}
		})
		if !errors.Is(err, iut.ErrDisk) || !errors.Is(err, syscall.EEXIST) {
			t.Errorf("%v, want a disk error: the file exists", err)
		}
	})
}

// A schedule is what a trail of the model says: which URLs go into which buffer, and in which order
// the builders take their steps.
type schedule struct {
	crawlers [][]add
	sizes    [2]int
	steps    []stepOf
}

type stepOf struct {
	Builder   int
	Step, URL string
}

var (
	trailPut  = regexp.MustCompile(`^crawler \d+ puts (\d+) into (\d+)$`)
	trailStep = regexp.MustCompile(`^builder (\d+) (looks for|creates|writes) (\d+)$`)
)

// readTrail translates a trail. Of the crawlers only what they put into each buffer and in which
// order matters here: a builder that has it all at once takes its steps in the same order.
func readTrail(t *testing.T, name string) *schedule {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("model", "trails", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	s := &schedule{crawlers: make([][]add, 2)}
	number := func(digits string) int {
		n, err := strconv.Atoi(digits)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if m := trailPut.FindStringSubmatch(line); m != nil {
			b := number(m[2])
			s.crawlers[b] = append(s.crawlers[b], add{b, pageOf(m[1])})
			s.sizes[b]++
		} else if m := trailStep.FindStringSubmatch(line); m != nil {
			s.steps = append(s.steps, stepOf{number(m[1]), m[2], pageOf(m[3])})
		} else if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "=") {
			t.Fatalf("trail %s: %q is no step", name, line)
		}
	}
	if len(s.steps) < 6 || s.sizes[0] == 0 || s.sizes[1] == 0 {
		t.Fatalf("trail %s: %+v is no race", name, s)
	}
	return s
}

func pageOf(number string) string { return "https://example.org/" + number }

// A director lets builders take their steps in the order of a schedule, until it is over or a
// step does not come in time; then all are free.
type director struct {
	tree *iut.Tree
	wait time.Duration

	mu      sync.Mutex
	steps   []stepOf // guarded by mu, as is all below; those that have not begun
	running int      // the builder whose step is not over, or -1
	taken   []stepOf
	free    bool
	changed chan bool // closed and replaced at each change
}

func (d *director) changeLocked() {
	close(d.changed)
	d.changed = make(chan bool)
}

// before is called before a builder's step, which is also when its last step is over.
func (d *director) before(builder int, step, rel string) {
	url, _ := d.tree.URLOf(rel)
	late := time.After(d.wait)
	me := stepOf{builder, step, url}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running == builder {
		d.running = -1
		d.changeLocked()
	}
	if step == "wrote" {
		return
	}
	for !d.free && len(d.steps) > 0 && (d.running >= 0 || d.steps[0] != me) {
		changed := d.changed
		d.mu.Unlock()
		select {
		case <-changed:
			d.mu.Lock()
		case <-late:
			d.mu.Lock()
			d.free = true
			d.changeLocked()
		}
	}
	if !d.free && len(d.steps) > 0 {
		d.taken = append(d.taken, me)
		d.steps, d.running = d.steps[1:], builder
		d.changeLocked()
	}
}

// The trails that the model leaves when its lock is taken out are played on the real code. Without
// the lock each shows its sign; with the lock none can be played to its end, and there is no sign.
func TestReplayTrails(t *testing.T) {
	for _, tt := range []struct {
		trail string
		sign  func(s signs) bool
	}{
		{"files", func(s signs) bool { return s.Written > 1 }},
		{"data", func(s signs) bool { return s.Lines > 1 }},
		{"correct", func(s signs) bool { return s.Entries > 1 }},
	} {
		for _, lock := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/lock=%v", tt.trail, lock), func(t *testing.T) {
				plan := readTrail(t, tt.trail)
				wait := 10 * time.Second
				if lock {
					wait = 50 * time.Millisecond
				}
				r := &race{lock: lock}
				newRace(t, r)
				d := &director{tree: r.tree, wait: wait, steps: slices.Clone(plan.steps), running: -1, changed: make(chan bool)}
				r.before = d.before
				last := plan.steps[len(plan.steps)-1].URL
				var pages []string
				for _, adds := range plan.crawlers {
					for _, a := range adds {
						pages = append(pages, a.url)
					}
				}
				err := r.run(t, plan.sizes, plan.crawlers, len(pages), lock, func() {
					got := r.signs(t, last)
					if lock {
						results := r.results(t)
						if want := distinct(slices.Concat(pages, []string{"https://example.org/"})); got != clean || !slices.Equal(distinct(results), want) || len(results) != len(want) {
							t.Errorf("signs %+v, results %v; want none and %v", got, results, want)
						}
					} else if !tt.sign(got) {
						t.Errorf("signs %+v of %s", got, last)
					}
				})
				if err != nil {
					t.Error(err)
				}
				if lock == (len(d.steps) == 0) {
					t.Errorf("%d of %d steps could be taken", len(d.taken), len(plan.steps))
				}
				if diff := gocmp.Diff(plan.steps[:len(d.taken)], d.taken); diff != "" {
					t.Errorf("steps (-trail +taken):\n%s", diff)
				}
			})
		}
	}
}

func distinct(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}
