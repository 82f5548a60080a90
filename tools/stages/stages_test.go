package stages

import (
	"bytes"
	"crypto/sha256"
	"path/filepath"
	"testing"
	"time"

	"urltree/buffer"
	"urltree/cleaner"
	"urltree/crawler/scope"
	"urltree/crawler/weburl"
	"urltree/internal/extract"
	"urltree/internal/fetch"
	"urltree/internal/frontier"
	"urltree/internal/robots"
	"urltree/iut"
	"urltree/storage/record"
)

// The time of each benchmark is that of one page.

// BenchmarkFetch asks for pages over one connection; what the server takes, which is little, is in
// it.
func BenchmarkFetch(b *testing.B) {
	h := serveHandbook(b, 100)
	c := fetch.New(fetch.Options{Guard: func(string, string, bool) bool { return true }})
	b.Cleanup(c.Close)
	b.ReportAllocs()
	b.SetBytes(pageSize)
	for b.Loop() {
		res, err := c.Get(b.Context(), h.url, fetch.Request{})
		if err != nil || res.Body.Len() != pageSize {
			b.Fatal(res, err)
		}
		res.Body.Release()
	}
}

// BenchmarkFindLinks reads pages that people have written: for links alone, by the scanner and by
// the tokenizer that it stands in for; and for all that a crawl wants of a page, its links' URLs
// and metadata with them.
func BenchmarkFindLinks(b *testing.B) {
	pages := realPages(b)
	var parser extract.Parser // one for all pages, as a worker of the crawl has it
	for _, bb := range []struct {
		name string
		read func(p *realPage) int
	}{
		{"scanner", func(p *realPage) int { return countLinks(p.body) }},
		{"tokenizer", func(p *realPage) int { return countTokens(p.body) }},
		{"all", func(p *realPage) int {
			return len(parser.Parse(extract.Facts{URL: p.url, Media: "text/html"}, p.body, extract.Options{}).Links)
		}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			bytes, n := 0, 0
			for i := 0; b.Loop(); i++ {
				p := &pages[i%len(pages)]
				n += bb.read(p)
				bytes += len(p.body)
			}
			if n < 50*b.N {
				b.Fatalf("%d links", n)
			}
			b.SetBytes(int64(bytes / b.N))
		})
	}
}

// BenchmarkResolve makes canonical URLs of the links of a page.
func BenchmarkResolve(b *testing.B) {
	pages := realPages(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p := &pages[i%len(pages)]
		base, err := weburl.NewBase(p.url)
		if err != nil {
			b.Fatal(err)
		}
		for _, ref := range p.refs {
			if _, err := base.Resolve(ref); err != nil {
				b.Fatal(ref, err)
			}
		}
	}
}

// BenchmarkSeen asks the filter for the links of a page, which are known but for one.
func BenchmarkSeen(b *testing.B) {
	c := newCommits(b, 1000)
	filter := c.index.Filter()
	urls := make([]string, pageLinks)
	for i := range urls {
		urls[i] = origin + path(c.size-pageLinks+1+i)
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, url := range urls {
			filter.Lookup(filter.Fingerprint(url))
		}
	}
}

// BenchmarkTree stores pages, and syncs a thousand at a time. TMPDIR chooses the disk.
func BenchmarkTree(b *testing.B) {
	body := realPages(b)[0].body
	for _, bb := range []struct {
		name string
		mode iut.Sync
	}{{"sync none", iut.SyncNone}, {"sync full", iut.SyncFull}} {
		b.Run(bb.name, func(b *testing.B) {
			tree, err := iut.Open(filepath.Join(b.TempDir(), "iut"), iut.Options{Sync: bb.mode, Identity: &iut.Identity{Canonical: "1", Partition: "host"}})
			if err != nil {
				b.Fatal(err)
			}
			defer tree.Close()
			p := iut.Page{Body: body, Facts: iut.Facts{Source: record.Seed, Page: record.Page{
				Time: 1_800_000_000, Status: 200, Bytes: int64(len(body)), Digest: sha256.Sum256(body), Media: "text/html", Flags: "-",
			}}}
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				p.URL = origin + path(n)
				if _, err := tree.Store(&p); err != nil {
					b.Fatal(err)
				}
				if n%1000 == 999 {
					if err := tree.Sync(); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkDigest: the SHA-256 of a page.
func BenchmarkDigest(b *testing.B) {
	body := make([]byte, pageSize)
	b.SetBytes(pageSize)
	for b.Loop() {
		sha256.Sum256(body)
	}
}

// BenchmarkMetadata reads pages that people have written for what they say about themselves. Links
// have lost their addresses, and so their texts; to go through the page, as for links, is in it.
func BenchmarkMetadata(b *testing.B) {
	pages := realPages(b)
	for i := range pages {
		pages[i].body = bytes.ReplaceAll(pages[i].body, []byte("href="), []byte("name="))
	}
	var parser extract.Parser
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p := &pages[i%len(pages)]
		r := parser.Parse(extract.Facts{URL: p.url, Media: "text/html"}, p.body, extract.Options{})
		if len(r.Links) > 0 || r.Meta == nil || r.Meta.Title == "" {
			b.Fatalf("%s: %d links, metadata %v", p.url, len(r.Links), r.Meta)
		}
	}
}

// BenchmarkIndex commits pages and their new links, a thousand pages at a time.
func BenchmarkIndex(b *testing.B) {
	c := newCommits(b, 1000)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if n%c.size == 0 {
			b.StopTimer()
			set := c.set()
			b.StartTimer()
			c.commit(b, set)
		}
	}
}

// BenchmarkResults writes the result files, of a thousand stored pages and of the four thousand
// URLs that these leave to do, at a time.
func BenchmarkResults(b *testing.B) {
	c := newCommits(b, 1000)
	c.next(b)
	files, err := cleaner.FilesFor("", filepath.Join(b.TempDir(), "res.txt"))
	if err != nil {
		b.Fatal(err)
	}
	steps := cleaner.Steps{Index: c.index, Files: files}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if n%c.size == 0 {
			if err := cleaner.Clean(b.Context(), steps); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// noStore is the frontier's view of an index that has nothing besides.
type noStore struct{}

func (noStore) Refill(string, time.Time, int, int, func(string) bool) ([]record.Row, int64, error) {
	return nil, 0, nil
}
func (noStore) NextHosts(string, int) ([]record.HostRow, uint64, error) { return nil, 0, nil }
func (noStore) HostAt(string) (h record.HostRow, tx uint64, err error)  { return h, 0, nil }

// BenchmarkRest: what a page and its links pass besides.
func BenchmarkRest(b *testing.B) {
	b.Run("frontier", func(b *testing.B) {
		f, err := frontier.New(frontier.Options{Store: noStore{}, PerLoan: 1})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for n := uint64(1); b.Loop(); n++ {
			f.Add([]record.Row{{URL: origin + "/page", Source: record.Seed, Range: record.Now, Seq: n}}, n)
			loans, err := f.Taker().Take(b.Context(), 1)
			if err != nil || len(loans) != 1 {
				b.Fatal(len(loans), err)
			}
			now := time.Now()
			f.Answered(loans[0], frontier.Answer{Start: now, End: now})
			row := loans[0].Rows[0]
			f.Return(loans[0], nil)
			f.Done([]frontier.Done{{Row: row}}, nil)
		}
	})
	b.Run("robots", func(b *testing.B) {
		rules := robots.Parse([]byte("User-agent: *\nDisallow: /private/\nDisallow: /*.cgi$\n"), "urltree")
		for b.Loop() {
			if ok, _ := rules.Allowed(path(7)); !ok {
				b.Fatal("not allowed")
			}
		}
	})
	b.Run("scope", func(b *testing.B) {
		s := scope.New(scope.Options{Mode: scope.Host}, nil)
		s.Widen(origin + "/")
		for b.Loop() {
			for n := range pageLinks {
				if !s.Admits((origin + "/handbook/page.html")[:30+n%8]) {
					b.Fatal("not admitted")
				}
			}
		}
	})
	b.Run("buffer", func(b *testing.B) {
		buf := buffer.New(buffer.Options[int]{Size: 1000, Weight: func(int) int64 { return pageSize }, Bytes: 1000 * pageSize})
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			if err := buf.Add(b.Context(), n); err != nil {
				b.Fatal(err)
			}
			if n%1000 == 999 {
				batch, err := buf.Take(b.Context(), func([]int) error { return nil })
				if err != nil {
					b.Fatal(err)
				}
				batch.Done()
			}
		}
		buf.Close()
	})
}
