package iut_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"urltree/buffer"
	"urltree/internal/faultfs"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// seedLink makes a URL known to an index.
func seedLink(url string) record.Link { return record.Link{URL: url, Source: record.Seed} }

// Two crawlers have asked for the same page, and both answers are in buffers: one is written.
func TestSamePageInTwoBuffers(t *testing.T) {
	count := faultfs.Count(faultfs.NewMem())
	g := &gate{FS: count, reached: make(chan bool, 9), proceed: make(chan bool)}
	tree, index := open(t, "", onFS(g)), newIndex(t)
	p := page(1)
	row := pending(t, index, seedLink(p.URL))[0]
	var after []*iut.Item
	pl := &pipeline{tree: tree, index: index, after: func(set []*iut.Item, _ storage.Committed) { after = append(after, set...) }}
	pl.start(2)
	var freed frees
	var items []*iut.Item
	for i := range 2 {
		q := page(1)
		q.Body, q.Status, q.Media = fmt.Appendf(nil, "answer %d <a href=%d>", i, 100+i), uint16(200+i), "text/plain"
		it := freed.watch(itemOf(q))
		it.Row = row
		items = append(items, it)
		if err := pl.add(i, it); err != nil {
			t.Fatal(err)
		}
		pl.buffers[i].Flush()
		for len(g.reached) < 1 || iut.Waiting() < i {
			runtime.Gosched()
		}
	}
	<-g.reached
	close(g.proceed)
	if err := pl.end(); err != nil {
		t.Fatal(err)
	}

	creates := slices.DeleteFunc(count.Calls(), func(call string) bool { return !strings.HasPrefix(call, "create pr-") })
	if len(creates) != 2 {
		t.Errorf("files written: %q, want one page", creates)
	}
	if len(after) != 2 {
		t.Fatalf("After is told of %d items, want 2", len(after))
	}
	facts, body, err := tree.Load(iut.Facts{URL: p.URL})
	if err != nil || !strings.HasPrefix(string(body), "answer ") {
		t.Fatalf("%q, %v", body, err)
	}
	for i, it := range items {
		if it.State != record.Stored || it.Outcome.Page != facts.Page {
			t.Errorf("item %d: %v %+v, want the facts of the folder: %+v", i, it.State, it.Outcome.Page, facts.Page)
		}
		if diff := cmp.Diff(linksOf(facts, body), it.Links); diff != "" {
			t.Errorf("item %d: links are not those of the folder:\n%s", i, diff)
		}
	}
	requireAgree(t, index, tree, p.URL)
	if totals := index.Totals(); totals.Stored != 1 || totals.Pending() != 1 {
		t.Errorf("totals %+v, want one page and its link", totals)
	}
	requireSound(t, index)
	freed.check(t, 2)
}

func TestAdopt(t *testing.T) {
	const from = "https://example.org/before"
	p := page(1)
	p.Source, p.Flags = from, "n" // as the folder has it
	for _, tt := range []struct {
		name   string
		damage func(t *testing.T, dir string)
		stored bool
	}{
		{"complete", func(*testing.T, string) {}, true},
		{"no folder", func(t *testing.T, dir string) { os.RemoveAll(dir) }, false},
		{"no facts", func(t *testing.T, dir string) { os.Remove(dir + "/source.txt") }, false},
		{"no body", func(t *testing.T, dir string) { os.Remove(dir + "/content.html") }, false},
		{"half a body", func(t *testing.T, dir string) { put(t, dir+"/content.html", string(p.Body[1:])) }, false},
		{"another body", func(t *testing.T, dir string) { put(t, dir+"/content.html", strings.ToUpper(string(p.Body))) }, false},
		{"half a line", func(t *testing.T, dir string) {
			put(t, dir+"/source.txt", strings.TrimSuffix(read(t, dir+"/source.txt"), "\n"))
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			before := open(t, root)
			store(t, before, p)
			tt.damage(t, folder(t, before, p.URL))
			before.Close()

			var steps steps
			tree, index := open(t, root, onFS(&stepFS{FS: disk(t, root, iut.SyncFiles), steps: &steps})), newIndex(t)
			row := pending(t, index, seedLink(p.URL))[0] // has become a seed since
			wait := row
			wait.Range, wait.Due, wait.Run = record.Later, 1, 7
			if _, err := index.Commit([]*record.Outcome{{Row: row, State: record.Pending, Next: wait}}); err != nil {
				t.Fatal(err)
			}
			row = recordOf(t, index, p.URL).Row

			var next []record.Row
			pl := &pipeline{tree: tree, index: index, after: func(_ []*iut.Item, c storage.Committed) { next = append(next, c.Next...) }}
			pl.start(1)
			var freed frees
			it := freed.watch(&iut.Item{Outcome: record.Outcome{Row: row, State: record.Stored}, Adopt: true})
			if err := errors.Join(pl.add(0, it), pl.end()); err != nil {
				t.Fatal(err)
			}
			requireSound(t, index)
			freed.check(t, 1)
			if len(next) != 1 {
				t.Fatalf("After is told of %d items, want 1", len(next))
			}
			rel, _ := tree.Path(p.URL)
			rec := recordOf(t, index, p.URL)
			if !tt.stored {
				steps.want(t, "torn", "sync", "synced")
				if rec.State != record.Pending || rec.Range != record.Now || rec.Due != 0 || next[0] != rec.Row {
					t.Errorf("%v %+v, After has %+v; want pending, now", rec.State, rec.Row, next[0])
				}
				if rec.Run != index.Runs().Current().ID {
					t.Errorf("the row is of run %d: it would be looked for in the tree again", rec.Run)
				}
				return
			}
			steps.want(t, "complete", "adopt "+rel, "sync", "synced")
			requireAgree(t, index, tree, p.URL)
			if rec.Flags != "n" || rec.Source != from || rec.Depth != 0 {
				t.Errorf("record %+v, want flags and source of the folder, and depth 0", rec)
			}
			if link := recordOf(t, index, "https://example.org/link/1"); link.State != record.Pending || link.Source != p.URL {
				t.Errorf("the link of the folder: %+v", link)
			}
			requirePage(t, tree, p)
		})
	}
}

// Whatever the web sends, the index and source.txt keep the same.
func TestIndexAgreesWithSource(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(f *iut.Facts)
	}{
		{"as it is", func(*iut.Facts) {}},
		{"tab in media type", func(f *iut.Facts) { f.Media = "text/\thtml" }},
		{"long media type", func(f *iut.Facts) { f.Media = strings.Repeat("x", 300) }},
		{"line end in charset", func(f *iut.Facts) { f.Charset = "utf-8\nutf-8" }},
		{"charset is a dash", func(f *iut.Facts) { f.Charset = "-" }},
		{"no flags", func(f *iut.Facts) { f.Flags = "" }},
		{"spaces in links", func(f *iut.Facts) { f.HeaderLinks = " https://a/  https://b/ " }},
		{"before 1970", func(f *iut.Facts) { f.Time = -1 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree, index := open(t, "", onFS(faultfs.NewMem())), newIndex(t)
			p := page(1)
			tt.change(&p.Facts)
			pl := (&pipeline{tree: tree, index: index}).start(1)
			it := itemOf(p)
			if err := errors.Join(pl.add(0, it), pl.end()); err != nil {
				t.Fatal(err)
			}
			requireAgree(t, index, tree, p.URL)
			if f, _, _ := tree.Load(iut.Facts{URL: p.URL}); f.Page != it.Outcome.Page {
				t.Errorf("After is told %+v, source.txt says %+v", it.Outcome.Page, f.Page)
			}
			requireSound(t, index)
		})
	}
}

// A page that cannot be stored is a failure of its own; its links count, and its body leaves tmp/.
func TestPageThatCannotBeStored(t *testing.T) {
	const dir = "pr-https/do-example/do-org/dr-d1"
	bad := []*iut.Page{page(1), page(4)} // https://example.org/d1/...
	for _, tt := range []struct {
		name  string
		block func(fsys iut.FS) error
	}{
		{"a file for the folder above", func(fsys iut.FS) error { return create(fsys, dir) }},
		{"a file for the folder", func(fsys iut.FS) error {
			return errors.Join(fsys.Mkdir(dir), create(fsys, dir+"/dr-p1"), create(fsys, dir+"/dr-p4"))
		}},
		{"folders for the files", func(fsys iut.FS) error {
			return errors.Join(fsys.Mkdir(dir), fsys.Mkdir(dir+"/dr-p1"), fsys.Mkdir(dir+"/dr-p1/content.html"),
				fsys.Mkdir(dir+"/dr-p4"), fsys.Mkdir(dir+"/dr-p4/source.txt"))
		}},
	} {
		for _, temp := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s temp=%v", tt.name, temp), func(t *testing.T) {
				fsys := faultfs.NewMem()
				tree, index := open(t, "", onFS(fsys)), newIndex(t)
				store(t, tree, page(0)) // makes the folders of the host
				if err := tt.block(fsys); err != nil {
					t.Fatal(err)
				}
				pl := (&pipeline{tree: tree, index: index}).start(1)
				var freed frees
				good := []*iut.Page{page(2), page(3), page(5)}
				for _, p := range []*iut.Page{good[0], bad[0], good[1], bad[1], good[2]} {
					q := *p
					if temp {
						if err := useTemp(tree, &q); err != nil {
							t.Fatal(err)
						}
						q.Body = nil
					}
					it := freed.watch(itemOf(&q))
					it.Links = linksOf(p.Facts, p.Body)
					if err := pl.add(0, it); err != nil {
						t.Fatal(err)
					}
				}
				if err := pl.end(); err != nil {
					t.Fatal(err)
				}
				for _, p := range good {
					requireAgree(t, index, tree, p.URL)
					requirePage(t, tree, p)
				}
				for _, p := range bad {
					r := recordOf(t, index, p.URL)
					if r.State != record.Failed || r.Reason != "tree" {
						t.Errorf("%s: %v %q, want failed \"tree\"", p.URL, r.State, r.Reason)
					}
					for _, l := range linksOf(p.Facts, p.Body) {
						if recordOf(t, index, l.URL).State != record.Pending {
							t.Errorf("the link %s is lost", l.URL)
						}
					}
				}
				if left, err := fsys.List("tmp"); err != nil || len(left) != 0 {
					t.Errorf("tmp/ has %v, %v", left, err)
				}
				requireSound(t, index)
				freed.check(t, 5)
			})
		}
	}
}

func create(fsys iut.FS, name string) error {
	f, err := fsys.Open(name, os.O_CREATE|os.O_WRONLY)
	if err != nil {
		return err
	}
	return f.Close()
}

// brokenFS fails when the body of page 4 is written, or at a sync.
type brokenFS struct {
	iut.FS
	write, sync error
}

func (f *brokenFS) Open(name string, flag int) (iut.File, error) {
	if strings.HasSuffix(name, "/dr-p4/content.html") && f.write != nil {
		return nil, f.write
	}
	return f.FS.Open(name, flag)
}

func (f *brokenFS) SyncAll() error {
	if f.sync != nil {
		return f.sync
	}
	return f.FS.SyncAll()
}

type brokenIndex struct{}

func (brokenIndex) Commit([]*record.Outcome) (storage.Committed, error) {
	return storage.Committed{}, syscall.EIO
}

// However a crawl ends, each body is given back once, and the end comes.
func TestFreeOnce(t *testing.T) {
	const buffers, each = 3, 20
	sound := &stepIndex{steps: &steps{}}
	for _, tt := range []struct {
		name  string
		fs    brokenFS
		index iut.Index
		size  int // of a buffer; more than each: items wait until the end
		bytes int64
		stop  bool
		want  error
	}{
		{name: "well", index: sound, size: 8},
		{name: "a write fails", fs: brokenFS{write: syscall.EIO}, index: sound, size: 8, want: iut.ErrDisk},
		{name: "well, written one by one", index: sound, size: 100, bytes: 64},
		{name: "a write fails before anything is to be committed", fs: brokenFS{write: syscall.EIO}, index: sound, size: 100, bytes: 64, want: iut.ErrDisk},
		{name: "a write fails in the middle of several", fs: brokenFS{write: syscall.EIO}, index: sound, size: 100, bytes: 64 * 64, want: iut.ErrDisk},
		{name: "a sync fails", fs: brokenFS{sync: syscall.EIO}, index: sound, size: 8, want: iut.ErrDisk},
		{name: "a commit fails", index: brokenIndex{}, size: 8, want: iut.ErrDisk},
		{name: "stopped while items wait", index: sound, size: 100, stop: true, want: context.Canceled},
		{name: "stopped while items wait that are written", index: sound, size: 100, bytes: 64, stop: true, want: context.Canceled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.fs.FS = faultfs.NewMem()
			p := (&pipeline{tree: open(t, "", onFS(&tt.fs)), index: tt.index, size: tt.size, bytes: tt.bytes}).start(buffers)
			var freed frees
			var adding sync.WaitGroup
			var refused atomic.Int64
			for i := range buffers {
				adding.Go(func() {
					for n := range each {
						it := itemOf(page(n*buffers + i))
						if n%5 == 0 {
							it.State, it.Reason = record.Refused, "noindex"
						}
						if p.add(i, freed.watch(it)) != nil {
							refused.Add(1)
						}
					}
				})
			}
			adding.Wait()
			if tt.stop {
				p.stop()
				p.building.Wait() // before the buffers are closed
			}
			if err := p.end(); !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
			freed.check(t, buffers*each)
			added := int64(0)
			for i, b := range p.buffers {
				c := b.Counts()
				added += c.Added
				if c.Waiting != 0 {
					t.Errorf("buffer %d: %d items are left", i, c.Waiting)
				}
			}
			if added+refused.Load() != buffers*each || tt.want == nil && p.removed() != buffers*each {
				t.Errorf("added %d, refused %d, committed %d of %d", added, refused.Load(), p.removed(), buffers*each)
			}
		})
	}
}

// A builder reports how long each page took, and nothing else.
func TestStoredIsTold(t *testing.T) {
	tree := open(t, "", onFS(faultfs.NewMem()))
	c := iut.NewCommitter(tree, &stepIndex{steps: &steps{}}, 1)
	buf := buffer.New(buffer.Options[*iut.Item]{})
	told := 0
	b := &iut.Builder{Tree: tree, Source: buf, Committer: c, Parse: parse, Stored: func(d time.Duration) { told++ }}
	for n := range 6 {
		it := itemOf(page(n))
		if n%2 == 0 {
			it.State = record.Redirected
		}
		if err := buf.Add(t.Context(), it); err != nil {
			t.Fatal(err)
		}
	}
	buf.Close()
	if err := b.Run(t.Context()); err != nil || told != 3 {
		t.Errorf("told of %d pages, want 3: %v", told, err)
	}
	c.Close()
	if err := c.Run(t.Context()); err != nil || buf.Counts().Removed != 6 {
		t.Errorf("%+v, %v", buf.Counts(), err)
	}
}

// Six builders, twelve crawlers, 2,000 answers of 1,500 pages, a real disk: each page is there
// once, and tree and index say the same.
func TestManyBuilders(t *testing.T) {
	const answers, pages = 2000, 1500
	root := t.TempDir()
	count := faultfs.Count(disk(t, root, iut.SyncNone))
	tree, index := open(t, root, onFS(count)), newIndex(t)
	var links []record.Link
	for n := range pages {
		links = append(links, seedLink(page(n).URL))
	}
	rows := pending(t, index, links...)
	committed := 0
	p := &pipeline{tree: tree, index: index, size: 100, after: func(set []*iut.Item, _ storage.Committed) { committed += len(set) }}
	p.start(6)
	var freed frees
	var adding sync.WaitGroup
	for i := range 12 {
		adding.Go(func() {
			for n := i; n < answers; n += 12 {
				q := page(n * pages / answers) // some twice in a row, so by two crawlers at a time
				q.PageDepth = 0
				q.Body, q.Time = fmt.Appendf(nil, "<a href=%d>", 10_000+n), q.Time+int64(n)
				it := freed.watch(itemOf(q))
				it.Row = rows[n*pages/answers]
				if p.add(i%6, it) != nil {
					return
				}
			}
		})
	}
	adding.Wait()
	if err := p.end(); err != nil {
		t.Fatal(err)
	}
	freed.check(t, answers)
	if committed != answers || p.removed() != answers {
		t.Errorf("%d items committed, %d permits back, want %d", committed, p.removed(), answers)
	}
	if totals := index.Totals(); totals.Stored != pages || totals.Pending() != pages {
		t.Errorf("totals %+v, want %d pages and a link of each", totals, pages)
	}
	requireSound(t, index)

	creates := slices.DeleteFunc(count.Calls(), func(call string) bool { return !strings.HasPrefix(call, "create pr-") })
	if len(creates) != 2*pages {
		t.Errorf("%d files were made, want two for each of %d pages", len(creates), pages)
	}
	complete := 0
	err := tree.Walk(func(url, rel string, st iut.PageStatus, _ iut.Facts) error {
		if st.Kind != iut.PageComplete {
			return fmt.Errorf("%s: %v: %w", rel, st.Kind, st.Err)
		}
		complete++
		requireAgree(t, index, tree, url)
		f, body, err := tree.Load(iut.Facts{URL: url})
		for _, l := range linksOf(f, body) {
			if r := recordOf(t, index, l.URL); r.Source != url {
				return fmt.Errorf("%s: the link %s is of %q", rel, l.URL, r.Source)
			}
		}
		return err
	})
	if err != nil || complete != pages {
		t.Errorf("%d complete pages, want %d: %v", complete, pages, err)
	}
}
