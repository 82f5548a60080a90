package cleaner

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// addSeeds adds a list of seeds.
func addSeeds(tree *iut.Tree, urls []string) error {
	list := tree.SeedList()
	defer list.Close()
	return list.Add(context.Background(), urls)
}

// A parser finds lines "link: URL", and takes the first line as title. With hosts set, it admits
// only links to these and to the hosts of seeds.
type parser struct {
	hosts map[string]bool
	index *storage.Index
	read  func(url string) // told of each page; nil: nobody is
}

func (p *parser) Use(index *storage.Index) { p.index = index }

func (p *parser) Areas(url string) []string {
	if p.hosts == nil {
		return nil
	}
	return []string{record.Host(url)}
}

func (p *parser) Err() error { return nil }

// addSeed admits the host of a URL.
func (p *parser) addSeed(url string) {
	if p.hosts != nil {
		p.hosts[record.Host(url)] = true
	}
}

func (p *parser) admits(url string) bool {
	if p.hosts == nil || p.hosts[record.Host(url)] {
		return true
	}
	yes, err := p.index.HasArea(record.Host(url))
	return yes && err == nil
}

func (p *parser) Parse(f iut.Facts, body []byte) (parsed iut.Parsed) {
	if p.read != nil {
		p.read(f.URL)
	}
	for line := range strings.Lines(string(body)) {
		url, ok := strings.CutPrefix(strings.TrimSpace(line), "link: ")
		if ok && p.admits(url) {
			parsed.Links = append(parsed.Links, record.Link{URL: url, Source: f.URL, Depth: f.PageDepth + 1})
		}
	}
	title, _, _ := strings.Cut(string(body), "\n")
	parsed.Meta = &record.Meta{Title: title}
	return parsed
}

// fataler is what *testing.T, *testing.B and *rapid.T have in common.
type fataler interface {
	Fatal(...any)
	Fatalf(string, ...any)
}

// A site is a tree on disk with its index, as a crawl leaves them.
type site struct {
	t     fataler
	root  string
	tree  *iut.Tree
	index *storage.Index // nil: closed
}

func newSite(t fataler, root string) *site {
	s := &site{t: t, root: root}
	s.openTree()
	if err := storage.Create(s.path(indexName)); err != nil {
		t.Fatal(err)
	}
	s.openIndex()
	return s
}

func (s *site) path(name string) string { return filepath.Join(s.root, name) }

func (s *site) openTree() {
	var err error
	if s.tree, err = iut.Open(s.root, iut.Options{Sync: iut.SyncNone, Identity: &iut.Identity{Canonical: "1"}}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) openIndex() {
	var err error
	if s.index, err = storage.Open(s.path(indexName), storage.Options{NoSync: true, Strict: true}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) closeIndex() {
	if s.index != nil {
		if err := s.index.Close(); err != nil {
			s.t.Fatal(err)
		}
		s.index = nil
	}
}

// close closes tree and index, for a merge.
func (s *site) close() {
	s.closeIndex()
	if s.tree != nil {
		if err := s.tree.Close(); err != nil {
			s.t.Fatal(err)
		}
		s.tree = nil
	}
}

func (s *site) seed(urls ...string) {
	if err := addSeeds(s.tree, urls); err != nil {
		s.t.Fatal(err)
	}
	o := &record.Outcome{}
	for _, url := range urls {
		o.Links = append(o.Links, record.Link{URL: url, Source: record.Seed})
	}
	s.commit(o)
}

func (s *site) commit(set ...*record.Outcome) {
	if _, err := s.index.Commit(set); err != nil {
		s.t.Fatal(err)
	}
}

// write puts a page into its folder, and not into the index.
func (s *site) write(url, source string, depth uint32, links ...string) iut.Facts {
	body := bodyOf(url, links)
	res, err := s.tree.Store(&iut.Page{Body: body, Facts: iut.Facts{URL: url, Source: source, Page: record.Page{
		Time: 1_800_000_000, Status: 200, Bytes: int64(len(body)), Digest: sha256.Sum256(body),
		Media: "text/html", Charset: "utf-8", PageDepth: depth,
	}}})
	if err != nil {
		s.t.Fatal(err)
	}
	return res.Facts
}

// store writes a page and commits it with its links.
func (s *site) store(url, source string, depth uint32, links ...string) {
	f := s.write(url, source, depth, links...)
	parsed := (&parser{}).Parse(f, bodyOf(url, links))
	s.commit(&record.Outcome{
		Row:   record.Row{URL: url, Source: source, Depth: depth},
		State: record.Stored, Page: f.Page, Links: parsed.Links, Meta: parsed.Meta,
	})
}

// fail commits another outcome.
func (s *site) fail(url string, state record.State, reason string, links ...record.Link) {
	r, err := s.index.Record(url)
	if err != nil {
		s.t.Fatal(err)
	}
	s.commit(&record.Outcome{
		Row: r.Row, State: state, Reason: reason, Page: record.Page{Time: 1_800_000_000, Status: 404}, Links: links,
	})
}

func bodyOf(url string, links []string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "page %s\n", url)
	for _, l := range links {
		fmt.Fprintf(&b, "link: %s\n", l)
	}
	return []byte(b.String())
}

// file returns the path of a file in the folder of a URL.
func (s *site) file(url, name string) string {
	rel, err := s.tree.Path(url)
	if err != nil {
		s.t.Fatal(err)
	}
	return filepath.Join(s.root, filepath.FromSlash(rel), name)
}

// records returns all records, the time of discovery left out.
func (s *site) records() map[string]record.Record {
	all := map[string]record.Record{}
	err := s.index.Records(context.Background(), nil, func(r record.Record, err error) error {
		r.Found = 0
		all[r.URL] = r
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

func read(t fataler, name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func filesIn(t fataler, dir string) Files {
	f, err := FilesFor("", filepath.Join(dir, "res.txt"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// small is a site with a URL in every state.
func small(t *testing.T) *site {
	s := newSite(t, filepath.Join(t.TempDir(), "iut"))
	t.Cleanup(s.close)
	s.seed("http://a.org/", "http://a.org/seed", "http://b.org/")
	s.store("http://a.org/", record.Seed, 0, "http://a.org/x", "http://a.org/x/", "http://a.org/y", "http://a.org/z", "http://c.org/")
	s.store("http://a.org/x", "http://a.org/", 1, "http://a.org/later", "http://a.org/held")
	s.store("http://a.org/x/", "http://a.org/", 1)
	s.fail("http://a.org/y", record.Failed, "404")
	s.fail("http://a.org/z", record.Refused, "robots")
	s.fail("http://b.org/", record.Redirected, "", record.Link{
		URL: "http://d.org/", Source: record.Seed, Via: "http://b.org/", Hops: 1, Areas: []string{"d.org"},
	})
	if yes, err := s.index.NeedsRelink(); err != nil || !yes {
		t.Errorf("a seed's redirect has widened the scope: %v, %v", yes, err)
	}
	if err := s.index.Relinked(); err != nil {
		t.Fatal(err)
	}
	for url, next := range map[string]record.Row{
		"http://a.org/later": {Range: record.Later, Due: 1, Tries: 2, Reason: "503"},
		"http://a.org/held":  {Range: record.Held, Reason: "scope"},
	} {
		r, err := s.index.Record(url)
		if err != nil {
			t.Fatal(err)
		}
		s.commit(&record.Outcome{Row: r.Row, State: record.Pending, Next: next})
	}
	return s
}

// noFaults checks the whole tree.
func (s *site) noFaults(opts CheckOptions, p Parser) CheckReport {
	var faults []string
	report, err := Check(context.Background(), s.tree, s.index, p, opts, func(f string) { faults = append(faults, f) })
	if err != nil || len(faults) > 0 || report.Faults != 0 {
		s.t.Fatalf("check: %v\n%s", err, strings.Join(faults, "\n"))
	}
	return report
}
