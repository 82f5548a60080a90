package iut_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"urltree/buffer"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A pipeline is what stands between crawlers and disk: buffers, a builder for each, and the
// committer. Like a crawl it stops at the first error, unless goOn is set.
type pipeline struct {
	tree  *iut.Tree
	index iut.Index
	after func(set []*iut.Item, c storage.Committed)
	size  int   // of a buffer
	bytes int64 // of bodies in a buffer; up to 64: each is written as soon as it is there
	goOn  bool

	buffers   []*buffer.Buffer[*iut.Item]
	committer *iut.Committer
	ctx       context.Context
	stop      context.CancelFunc

	building, committing sync.WaitGroup
	builderErrs          []error // by builder, once building is over
	committerErr         error   // once committing is over
}

// start starts the pipeline with so many buffers.
func (p *pipeline) start(buffers int) *pipeline {
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.committer = iut.NewCommitter(p.tree, p.index, buffers)
	p.committer.After = p.after
	p.builderErrs = make([]error, buffers)
	watch := func(err error) error {
		if err != nil && !p.goOn {
			p.stop()
		}
		return err
	}
	for i := range buffers {
		buf := buffer.New(buffer.Options[*iut.Item]{
			Size: p.size, Bytes: p.bytes, Weight: func(it *iut.Item) int64 { return int64(len(it.Body)) },
		})
		p.buffers = append(p.buffers, buf)
		b := &iut.Builder{Tree: p.tree, Source: buf, Committer: p.committer, Parse: parse}
		p.building.Go(func() { p.builderErrs[i] = watch(b.Run(p.ctx)) })
	}
	p.committing.Go(func() { p.committerErr = watch(p.committer.Run(p.ctx)) })
	return p
}

// add does what a crawler does with an item.
func (p *pipeline) add(buf int, it *iut.Item) error {
	err := p.buffers[buf].Add(p.ctx, it)
	if err != nil && it.Free != nil {
		it.Free()
	}
	return err
}

// end is the end of a crawl: buffers, builders, committer. It gives all errors.
func (p *pipeline) end() error {
	for _, b := range p.buffers {
		b.Close()
	}
	p.building.Wait()
	p.committer.Close()
	p.committing.Wait()
	p.stop()
	return errors.Join(append(p.builderErrs, p.committerErr)...)
}

// removed returns the number of items whose permits came back.
func (p *pipeline) removed() (n int64) {
	for _, b := range p.buffers {
		n += b.Counts().Removed
	}
	return n
}

// itemOf returns a page as a crawler hands it over.
func itemOf(p *iut.Page) *iut.Item {
	return &iut.Item{
		Outcome: record.Outcome{
			Row:   record.Row{URL: p.URL, Source: p.Source, Depth: p.PageDepth},
			State: record.Stored, Page: p.Facts.Page, Links: linksOf(p.Facts, p.Body), Meta: metaOf(p.Facts),
		},
		Body: p.Body, Temp: p.Temp,
	}
}

var href = regexp.MustCompile(`<a href=(\d+)>`)

// parse is the parser of these tests.
func parse(f iut.Facts, body []byte) iut.Parsed {
	return iut.Parsed{Links: linksOf(f, body), Meta: metaOf(f)}
}

func metaOf(f iut.Facts) *record.Meta { return &record.Meta{Title: f.URL + " from " + f.Source} }

func linksOf(f iut.Facts, body []byte) (links []record.Link) {
	for _, m := range href.FindAllSubmatch(body, -1) {
		links = append(links, record.Link{URL: fmt.Sprintf("https://example.org/link/%s", m[1]), Source: f.URL, Depth: f.PageDepth + 1})
	}
	return links
}

// frees counts how often each item was freed.
type frees struct {
	mu    sync.Mutex
	count map[*iut.Item]int // guarded by mu
}

func (f *frees) watch(it *iut.Item) *iut.Item {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count == nil {
		f.count = map[*iut.Item]int{}
	}
	f.count[it] = 0
	it.Free = func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.count[it]++
	}
	return it
}

// check requires n items, each freed once.
func (f *frees) check(t *testing.T, n int) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.count) != n {
		t.Errorf("%d items were made, want %d", len(f.count), n)
	}
	for it, count := range f.count {
		if count != 1 {
			t.Errorf("%s was freed %d times", it.Row.URL, count)
		}
	}
}

// newIndex makes an index on the real disk, with a run begun and a filter that is complete.
func newIndex(t *testing.T) *storage.Index {
	t.Helper()
	path := filepath.Join(t.TempDir(), "index.db")
	if err := storage.Create(path); err != nil {
		t.Fatal(err)
	}
	x, err := storage.Open(path, storage.Options{NoSync: true, Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	if _, _, _, err := x.Runs().Begin(); err != nil {
		t.Fatal(err)
	}
	if err := x.LoadFilter(t.Context()); err != nil {
		t.Fatal(err)
	}
	return x
}

// pending puts links into the index and gives their rows.
func pending(t *testing.T, x *storage.Index, links ...record.Link) []record.Row {
	t.Helper()
	c, err := x.Commit([]*record.Outcome{{Links: links}})
	if err != nil || len(c.Fresh) != len(links) {
		t.Fatalf("%d of %d links are new: %v", len(c.Fresh), len(links), err)
	}
	return c.Fresh
}

func recordOf(t *testing.T, x *storage.Index, url string) record.Record {
	t.Helper()
	r, err := x.Record(url)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// requireSound lets the index check itself.
func requireSound(t *testing.T, x *storage.Index) {
	t.Helper()
	if _, err := x.Verify(t.Context(), func(fault string) { t.Errorf("index: %s", fault) }); err != nil {
		t.Fatal(err)
	}
}

// requireAgree requires that record and metadata of a stored page say what its folder says.
func requireAgree(t *testing.T, x *storage.Index, tree *iut.Tree, url string) {
	t.Helper()
	f, _, err := tree.Load(iut.Facts{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	if r := recordOf(t, x, url); r.State != record.Stored || r.Page != f.Page || r.Source != f.Source {
		t.Errorf("%s: the index has %v %+v from %q, source.txt %+v from %q", url, r.State, r.Page, r.Source, f.Page, f.Source)
	}
	if m, err := x.Meta(url); err != nil || m == nil || m.Title != metaOf(f).Title {
		t.Errorf("%s: metadata %+v, %v; want %+v", url, m, err, metaOf(f))
	}
}
