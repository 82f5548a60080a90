package iut_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"urltree/internal/faultfs"
	"urltree/internal/warc"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// warcRules are those of a tree of segments.
var warcRules = iut.Identity{Canonical: "1", Partition: "host", Store: iut.StoreWARC}

// openSegments opens a tree of segments.
func openSegments(t testing.TB, root string, opts iut.Options) *iut.Tree {
	t.Helper()
	opts.Identity = &warcRules
	tree, err := iut.Open(root, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.Close() })
	return tree
}

// answered returns page n as it comes from a server, in gzip if n is even.
func answered(n int) *iut.Page {
	p := page(n)
	p.Facts.Bytes, p.Facts.Digest = int64(len(p.Body)), sha256.Sum256(p.Body)
	head := "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
	body := p.Body
	if n%2 == 0 {
		var coded bytes.Buffer
		w := gzip.NewWriter(&coded)
		w.Write(body)
		w.Close()
		body, head = coded.Bytes(), head+"content-ENCODING: gzip\r\n"
	}
	q := *p
	q.Body = body
	q.Answer = &iut.Answer{
		Request: []byte("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"), Head: fmt.Appendf(nil, "%sContent-Length: %d\r\n\r\n", head, len(body)),
		Peer: netip.MustParseAddr("192.0.2.1"), Time: time.Unix(1e9+int64(n), 5e6),
	}
	return &q
}

// contentOf returns the body of page n, decoded.
func contentOf(n int) []byte { return page(n).Body }

// requireStored checks that a page is there by every way of reading it.
func requireStored(t testing.TB, tree *iut.Tree, at iut.Facts, body []byte) {
	t.Helper()
	f, got, err := tree.Load(at)
	if err != nil || !bytes.Equal(got, body) || f != at {
		t.Fatalf("Load = %+v, %.40q, %v; want %+v, %.40q", f, got, err, at, body)
	}
	for _, verify := range []bool{false, true} {
		if f, ok, err := tree.Complete(at, verify); err != nil || !ok || f != at {
			t.Fatalf("Complete(%v) = %+v, %v, %v", verify, f, ok, err)
		}
	}
	r, err := tree.Content(at)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, body) {
		t.Fatalf("Content: %.40q, %v", got, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSegments: pages of any coding, in memory or in a file, come back as they were, from the open
// tree, from a later one and from one beside it; all segments are found by Walk.
func TestSegments(t *testing.T) {
	for _, plain := range []bool{false, true} {
		t.Run(fmt.Sprintf("plain %v", plain), func(t *testing.T) {
			root := t.TempDir()
			tree := openSegments(t, root, iut.Options{Segments: iut.SegmentOptions{Size: 10_000, Plain: plain, About: warc.Header{{Name: "software", Value: "test"}}}})
			stored := map[string]iut.Facts{}
			for n := range 40 {
				p := answered(n)
				switch n % 5 {
				case 3: // its answer is not known
					p.Answer, p.Body = nil, contentOf(n)
				case 4:
					if err := useTemp(tree, p); err != nil {
						t.Fatal(err)
					}
				}
				res, err := tree.Store(p)
				if err != nil || res.Adopted || res.Facts.Extent.IsZero() {
					t.Fatalf("page %d: %+v, %v", n, res, err)
				}
				stored[p.URL] = res.Facts
				requireStored(t, tree, res.Facts, contentOf(n))
			}
			if _, _, err := tree.Load(iut.Facts{URL: page(0).URL}); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("without an extent: %v", err)
			}
			if err := tree.Sync(); err != nil {
				t.Fatal(err)
			}
			beside, err := iut.Open("", iut.Options{FS: diskAt(t, root), ReadOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := tree.Close(); err != nil {
				t.Fatal(err)
			}
			later := openSegments(t, root, iut.Options{})
			for _, tree := range []*iut.Tree{beside, later} {
				found := map[string]iut.Facts{}
				err := tree.Walk(func(url, rel string, st iut.PageStatus, f iut.Facts) error {
					if st.Kind != iut.PageComplete || f.URL != url {
						t.Errorf("Walk: %q %q %v %+v", url, rel, st, f)
					}
					if where, err := tree.Where(f); err != nil || where != rel {
						t.Errorf("Where = %q, %v; want %q", where, err, rel)
					}
					found[url] = f
					return nil
				})
				if err != nil || !maps.Equal(found, stored) {
					t.Fatalf("Walk found %d pages of %d: %v", len(found), len(stored), err)
				}
				for n := range 40 {
					requireStored(t, tree, stored[page(n).URL], contentOf(n))
				}
			}
			left, _ := filepath.Glob(filepath.Join(root, "tmp", "*"))
			segments, _ := filepath.Glob(filepath.Join(root, "warc", "*"))
			if len(left) > 0 || len(segments) < 3 {
				t.Errorf("left in tmp: %v; segments: %v", left, segments)
			}
		})
	}
}

func diskAt(t testing.TB, root string) iut.FS {
	t.Helper()
	d, err := iut.OpenDisk(root, iut.SyncNone)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// TestSegmentsCut: wherever a kill cuts a segment, the next run finds the whole pages behind what
// was committed, cuts off the rest and nothing else, and goes on in a segment of its own.
func TestSegmentsCut(t *testing.T) {
	for _, plain := range []bool{false, true} {
		root := t.TempDir()
		opts := iut.Options{Sync: iut.SyncNone, Segments: iut.SegmentOptions{Plain: plain}}
		tree := openSegments(t, root, opts)
		var stored []iut.Facts
		for n := range 3 {
			res, err := tree.Store(answered(n))
			if err != nil {
				t.Fatal(err)
			}
			stored = append(stored, res.Facts)
		}
		tree.Close()
		files, _ := filepath.Glob(filepath.Join(root, "warc", "*"))
		whole, err := os.ReadFile(files[0])
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		ends := map[uint32]int64{1: stored[0].Extent.Offset + stored[0].Extent.Length}
		for size := ends[1] - 1; size <= int64(len(whole)); size++ {
			near := func(at int64) bool { return size >= at-9 && size <= at+9 }
			if size%61 != 0 && !near(ends[1]) && !near(stored[2].Extent.Offset) && !near(stored[2].Extent.Offset+stored[2].Extent.About) && !near(int64(len(whole))) {
				continue
			}
			if err := os.WriteFile(files[0], whole[:size], 0o666); err != nil {
				t.Fatal(err)
			}
			tree := openSegments(t, root, opts)
			if err := tree.Recover(iut.Committed{Ends: ends}); errors.Is(err, record.ErrDamaged) != (size < ends[1]) {
				t.Fatalf("%d bytes: %v", size, err)
			}
			if size < ends[1] {
				tree.Close()
				continue
			}
			want := 0
			for n, f := range stored {
				end := int64(len(whole))
				if n+1 < len(stored) {
					end = stored[n+1].Extent.Offset
				}
				has, err := tree.Has(f.URL)
				if err != nil || has != (n > 0 && end <= size) {
					t.Fatalf("%d bytes: Has(%d) = %v, %v", size, n, has, err)
				}
				if !has {
					continue
				}
				want++
				got, body, err := tree.Adopt(iut.Facts{URL: f.URL})
				if err != nil || got != f || !bytes.Equal(body, contentOf(n)) {
					t.Fatalf("%d bytes: Adopt(%d) = %+v, %v; want %+v", size, n, got, err, f)
				}
			}
			res, err := tree.Store(answered(5))
			if err != nil || res.Facts.Extent.Segment != 2 {
				t.Fatalf("%d bytes: the next page: %+v, %v", size, res, err)
			}
			requireStored(t, tree, res.Facts, contentOf(5))
			if err := tree.Close(); err != nil {
				t.Fatal(err)
			}
			left, err := os.ReadFile(files[0])
			if err != nil || !bytes.HasPrefix(whole[:size], left) {
				t.Fatalf("%d bytes: %d are left, or changed: %v", size, len(left), err)
			}
			if size >= ends[1] && int64(len(left)) < ends[1] {
				t.Fatalf("%d bytes: cut to %d, before %d", size, len(left), ends[1])
			}
			more, _ := filepath.Glob(filepath.Join(root, "warc", "*-00002.*"))
			if len(more) != 1 {
				t.Fatal(more)
			}
			os.Remove(more[0])
		}
	}
}

// TestCutPageIsNotComplete: a page whose last record has lost its end is not complete by its extent
// either, since Walk, and so a new index, does not find it.
func TestCutPageIsNotComplete(t *testing.T) {
	for _, plain := range []bool{false, true} {
		root := t.TempDir()
		tree := openSegments(t, root, iut.Options{Sync: iut.SyncNone, Segments: iut.SegmentOptions{Plain: plain}})
		res, err := tree.Store(answered(0))
		if err != nil {
			t.Fatal(err)
		}
		files, _ := filepath.Glob(filepath.Join(root, "warc", "*"))
		whole, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		for lost := range 40 {
			if err := os.WriteFile(files[0], whole[:len(whole)-lost], 0o666); err != nil {
				t.Fatal(err)
			}
			if _, complete, err := tree.Complete(res.Facts, true); err != nil || complete != (lost == 0) {
				t.Fatalf("plain %t, %d bytes lost: complete %t, %v", plain, lost, complete, err)
			}
		}
	}
}

// TestSegmentDamage: a page in which a byte has changed is torn or not found, the others are found
// by Walk and by their extents; nothing is taken for a page that is not.
func TestSegmentDamage(t *testing.T) {
	root := t.TempDir()
	tree := openSegments(t, root, iut.Options{Sync: iut.SyncNone})
	var stored []iut.Facts
	for n := range 5 {
		res, err := tree.Store(answered(n))
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, res.Facts)
	}
	files, _ := filepath.Glob(filepath.Join(root, "warc", "*"))
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	from, to, step := stored[2].Extent.Offset, stored[3].Extent.Offset, int64(7)
	if testing.Short() {
		step = 23
	}
	for at := from; at < to; at += step {
		b := slices.Clone(whole)
		b[at] ^= 0x55
		if err := os.WriteFile(files[0], b, 0o666); err != nil {
			t.Fatal(err)
		}
		torn := 0
		var found []string
		err := tree.Walk(func(url, _ string, st iut.PageStatus, f iut.Facts) error {
			if st.Kind == iut.PageTorn {
				torn++
				return nil
			}
			found = append(found, url)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for n, f := range stored {
			if n == 2 {
				if _, body, err := tree.Load(f); err == nil && !bytes.Equal(body, contentOf(n)) {
					t.Fatalf("byte %d: another body", at)
				} else if err != nil && !errors.Is(err, iut.ErrTorn) {
					t.Fatalf("byte %d: %v", at, err)
				}
				continue
			}
			requireStored(t, tree, f, contentOf(n))
			if !slices.Contains(found, f.URL) {
				t.Fatalf("byte %d: Walk has not found page %d", at, n)
			}
		}
		if len(found) == 4 && torn == 0 {
			t.Fatalf("byte %d: a page is missing, and nothing says so", at)
		}
	}
}

// TestRevisit: a body that is kept already is named in place of being kept again, and read from
// there, also by a later process.
func TestRevisit(t *testing.T) {
	root := t.TempDir()
	for _, no := range []bool{false, true} {
		tree := openSegments(t, root, iut.Options{Segments: iut.SegmentOptions{NoRevisit: no}})
		var facts []iut.Facts
		for n := range 3 {
			p := answered(0)
			p.URL = page(10*n + map[bool]int{false: 100, true: 200}[no]).URL
			res, err := tree.Store(p)
			if err != nil {
				t.Fatal(err)
			}
			facts = append(facts, res.Facts)
		}
		tree.Close()
		tree = openSegments(t, root, iut.Options{})
		for _, f := range facts {
			requireStored(t, tree, f, contentOf(0))
		}
		tree.Close()
		kinds := kindsOf(t, root)
		if want := map[bool]int{false: 2, true: 2}[no]; kinds[warc.Revisit] != want {
			t.Errorf("records: %v, want %d revisits", kinds, want)
		}
	}
}

// kindsOf counts the records of all segments by type.
func kindsOf(t testing.TB, root string) map[string]int {
	t.Helper()
	kinds := map[string]int{}
	files, _ := filepath.Glob(filepath.Join(root, "warc", "*"))
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		in := warc.NewReader(f, 0)
		for {
			rec, err := in.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(name, err)
			}
			kinds[rec.Get(warc.FieldType)]++
		}
		f.Close()
	}
	return kinds
}

// TestSegmentPipeline: pages and redirects go through builders and committer with their extents,
// and the index keeps how far each segment is committed.
func TestSegmentPipeline(t *testing.T) {
	root := t.TempDir()
	tree := openSegments(t, root, iut.Options{})
	x := newIndex(t)
	p := (&pipeline{tree: tree, index: x, size: 4}).start(2)
	var links []record.Link
	for n := range 20 {
		links = append(links, record.Link{URL: page(n).URL, Source: record.Seed})
	}
	pending(t, x, links...)
	for n := range 20 {
		a := answered(n)
		it := itemOf(a)
		it.Answer = a.Answer
		if n == 7 {
			it.State, it.Links, it.Meta, it.Body = record.Redirected, nil, nil, nil
			it.Outcome.Page.HeaderLinks = "https://example.org/other"
		}
		if err := p.add(n%2, it); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.end(); err != nil {
		t.Fatal(err)
	}
	ends, err := x.Marks().SegmentEnds(t.Context())
	if err != nil || len(ends) == 0 {
		t.Fatal(ends, err)
	}
	for n := range 20 {
		r := recordOf(t, x, page(n).URL)
		if r.Extent.IsZero() || ends[r.Extent.Segment] < r.Extent.Offset+r.Extent.Length {
			t.Errorf("page %d: %+v, committed %v", n, r.Extent, ends)
		}
		if n == 7 {
			continue
		}
		requireStored(t, tree, iut.FactsOf(&r), contentOf(n))
	}
	requireSound(t, x)
	if kinds := kindsOf(t, root); kinds[warc.Response] != 20 || kinds[warc.Request] != 20 || kinds[warc.Metadata] != 20 {
		t.Errorf("records: %v", kinds)
	}
}

// TestAdoptedRevisit: a page that a killed process left, and the segment with the body that it
// names, are durable once the page is adopted and synced, by a crawl, and by a merge, which does
// not call Recover.
func TestAdoptedRevisit(t *testing.T) {
	for seed := range uint64(40) {
		mem := faultfs.NewMem()
		mem.ByFile = true
		killed := openSegments(t, "", iut.Options{FS: mem, Segments: iut.SegmentOptions{Size: 1}})
		var last iut.Facts
		for n := range 2 { // each in a segment of its own
			p := answered(0)
			p.URL = page(n).URL
			res, err := killed.Store(p)
			if err != nil {
				t.Fatal(err)
			}
			last = res.Facts
		}
		killed.Close()
		mem.Forget()
		tree := openSegments(t, "", iut.Options{FS: mem})
		at := last // as a merge has it, of Walk
		if seed%2 == 0 {
			if err := tree.Recover(iut.Committed{}); err != nil {
				t.Fatal(err)
			}
			at = iut.Facts{URL: last.URL}
		}
		if _, _, err := tree.Adopt(at); err != nil {
			t.Fatal(err)
		}
		if err := tree.Sync(); err != nil {
			t.Fatal(err)
		}
		tree.Close()
		left := openSegments(t, "", iut.Options{FS: mem.Crash(rand.New(rand.NewPCG(seed, 0)))})
		if err := left.Recover(iut.Committed{Ends: endsOf([]kept{{at: last}})}); err != nil {
			t.Fatal(err)
		}
		requireStored(t, left, last, contentOf(0))
	}
}

// TestCommittedInAnotherOrder: a page that stands before the committed end of its segment, and was
// not committed, is found after a kill, and one that was is not; so also when those that were found
// are committed in another order than they stand.
func TestCommittedInAnotherOrder(t *testing.T) {
	root, x := t.TempDir(), newIndex(t)
	var links []record.Link
	for n := range 3 {
		links = append(links, record.Link{URL: page(n).URL, Source: record.Seed})
	}
	pending(t, x, links...)
	for _, commit := range []int{2, 1, 0} { // one in each run
		tree := openSegments(t, root, iut.Options{Sync: iut.SyncNone})
		if err := tree.Recover(committedIn(t, x)); err != nil {
			t.Fatal(err)
		}
		p := (&pipeline{tree: tree, index: x, size: 1}).start(1)
		a := answered(commit)
		it := itemOf(a)
		it.Answer, it.Adopt = a.Answer, commit < 2
		for n := range 2 {
			if !it.Adopt { // as by a builder that has not come to its end
				if _, err := tree.Store(answered(n)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := errors.Join(p.add(0, it), p.end(), tree.Close()); err != nil {
			t.Fatal(err)
		}
		tree = openSegments(t, root, iut.Options{Sync: iut.SyncNone})
		if err := tree.Recover(committedIn(t, x)); err != nil {
			t.Fatal(err)
		}
		for n := range 3 {
			if has, err := tree.Has(page(n).URL); has != (n < commit) || err != nil {
				t.Errorf("page %d, when page %d and those behind are committed: %v, %v", n, commit, has, err)
			}
		}
		tree.Close()
	}
	if open, err := x.Marks().SegmentsOpen(t.Context()); len(open) > 0 || err != nil {
		t.Errorf("open are %v, %v", open, err)
	}
}

// committedIn returns what an index knows of segments.
func committedIn(t *testing.T, x *storage.Index) (c iut.Committed) {
	t.Helper()
	var err error
	if c.Ends, err = x.Marks().SegmentEnds(t.Context()); err == nil {
		c.Open, err = x.Marks().SegmentsOpen(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	c.Has = func(f iut.Facts) bool { return recordOf(t, x, f.URL).Extent == f.Extent }
	return c
}

// TestWalkFindsTheLatest: of a URL that was stored several times, in one segment or in two, Walk
// finds the last one as the page, and those before it that are other ones as earlier versions.
func TestWalkFindsTheLatest(t *testing.T) {
	root := t.TempDir()
	var last iut.Facts
	now := 0
	for range 2 {
		tree := openSegments(t, root, iut.Options{Sync: iut.SyncNone})
		for n := range 3 {
			p := answered(n)
			p.URL = page(0).URL
			res, err := tree.Store(p)
			if err != nil {
				t.Fatal(err)
			}
			last = res.Facts
			var found []iut.Facts
			err = tree.Walk(func(_, _ string, st iut.PageStatus, f iut.Facts) error {
				if found = append(found, f); f.Earlier != (st.Kind == iut.PageEarlier) {
					t.Errorf("%+v is %s", f, st.Kind)
				}
				return nil
			})
			if now++; err != nil || len(found) != now || found[now-1] != last {
				t.Fatalf("%+v, %v; want %d and at last %+v", found, err, now, last)
			}
		}
		tree.Close()
	}
}

// BenchmarkSegments stores pages of 10 KiB that came in gzip.
func BenchmarkSegments(b *testing.B) {
	tree := openSegments(b, b.TempDir(), iut.Options{Sync: iut.SyncNone, Segments: iut.SegmentOptions{NoRevisit: true}})
	var coded bytes.Buffer
	w := gzip.NewWriter(&coded)
	for i := range 400 {
		fmt.Fprintf(w, "<p>line %d of %x</p>\n", i, sha256.Sum256([]byte{byte(i)}))
	}
	w.Close()
	p := &iut.Page{Facts: iut.Facts{URL: "https://example.org/", Source: record.Seed, Page: record.Page{Status: 200, Media: "text/html"}}, Body: coded.Bytes()}
	p.Bytes = 1
	p.Answer = &iut.Answer{Time: time.Now(), Request: bytes.Repeat([]byte("GET / HTTP/1.1\r\n"), 15), Head: []byte("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n")}
	b.SetBytes(int64(coded.Len()))
	b.ReportAllocs()
	for n := range b.N {
		q := *p
		q.URL = fmt.Sprintf("https://example.org/%d", n)
		if _, err := tree.Store(&q); err != nil {
			b.Fatal(err)
		}
	}
}
