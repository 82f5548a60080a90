// Package testsite makes, for tests, a tree on disk with its index as a crawl leaves them: pages
// whose links are lines of text, written and committed one by one.
package testsite

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// AddSeeds adds a list of seeds.
func AddSeeds(tree *iut.Tree, urls []string) error {
	list := tree.SeedList()
	defer list.Close()
	return list.Add(context.Background(), urls)
}

// A Parser finds lines "link: URL", and takes the first line as title. With Hosts set, it admits
// only links to these and to the hosts of seeds.
type Parser struct {
	Hosts map[string]bool
	index *storage.Index
	Read  func(url string) // told of each page; nil: nobody is
}

func (p *Parser) Use(index *storage.Index) { p.index = index }

func (p *Parser) Areas(url string) []string {
	if p.Hosts == nil {
		return nil
	}
	return []string{record.Host(url)}
}

func (p *Parser) Err() error { return nil }

// AddSeed admits the host of a URL.
func (p *Parser) AddSeed(url string) {
	if p.Hosts != nil {
		p.Hosts[record.Host(url)] = true
	}
}

func (p *Parser) admits(url string) bool {
	if p.Hosts == nil || p.Hosts[record.Host(url)] {
		return true
	}
	if p.index == nil {
		return false // no index has an area yet
	}
	yes, err := p.index.Seeds().HasArea(record.Host(url))
	return yes && err == nil
}

func (p *Parser) Parse(f iut.Facts, body []byte) (parsed iut.Parsed) {
	if p.Read != nil {
		p.Read(f.URL)
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

// Fataler is what *testing.T, *testing.B and *rapid.T have in common.
type Fataler interface {
	Fatal(...any)
	Fatalf(string, ...any)
}

// A Site is a tree on disk with its index, as a crawl leaves them.
type Site struct {
	Root  string
	Tree  *iut.Tree
	Index *storage.Index // nil: closed
	T     Fataler
}

// New makes a tree and its index, and opens both.
func New(t Fataler, root string) *Site {
	s := &Site{T: t, Root: root}
	s.OpenTree()
	if err := storage.Create(s.Path("index.db")); err != nil {
		t.Fatal(err)
	}
	s.OpenIndex()
	return s
}

// Open opens a tree and its index.
func Open(t Fataler, root string) *Site {
	s := &Site{T: t, Root: root}
	s.OpenTree()
	s.OpenIndex()
	return s
}

// Path returns the path of a file of the tree.
func (s *Site) Path(name string) string { return filepath.Join(s.Root, name) }

// OpenTree opens the tree anew.
func (s *Site) OpenTree() {
	var err error
	if s.Tree, err = iut.Open(s.Root, iut.Options{Sync: iut.SyncNone, Identity: &iut.Identity{Canonical: "1"}}); err != nil {
		s.T.Fatal(err)
	}
}

// OpenIndex opens the index anew.
func (s *Site) OpenIndex() {
	var err error
	if s.Index, err = storage.Open(s.Path("index.db"), storage.Options{NoSync: true, Strict: true}); err != nil {
		s.T.Fatal(err)
	}
}

// CloseIndex closes the index, if it is open.
func (s *Site) CloseIndex() {
	if s.Index != nil {
		if err := s.Index.Close(); err != nil {
			s.T.Fatal(err)
		}
		s.Index = nil
	}
}

// Close closes tree and index, for a merge.
func (s *Site) Close() {
	s.CloseIndex()
	if s.Tree != nil {
		if err := s.Tree.Close(); err != nil {
			s.T.Fatal(err)
		}
		s.Tree = nil
	}
}

// Seed adds seeds to the list and commits them.
func (s *Site) Seed(urls ...string) {
	if err := AddSeeds(s.Tree, urls); err != nil {
		s.T.Fatal(err)
	}
	o := &record.Outcome{}
	for _, url := range urls {
		o.Links = append(o.Links, record.Link{URL: url, Source: record.Seed})
	}
	s.Commit(o)
}

// Commit commits outcomes.
func (s *Site) Commit(set ...*record.Outcome) {
	if _, err := s.Index.Commit(set); err != nil {
		s.T.Fatal(err)
	}
}

// Write puts a page into its folder, and not into the index.
func (s *Site) Write(url, source string, depth uint32, links ...string) iut.Facts {
	body := BodyOf(url, links)
	res, err := s.Tree.Store(&iut.Page{Body: body, Facts: iut.Facts{URL: url, Source: source, Page: record.Page{
		Time: 1_800_000_000, Status: 200, Bytes: int64(len(body)), Digest: sha256.Sum256(body),
		Media: "text/html", Charset: "utf-8", PageDepth: depth,
	}}})
	if err != nil {
		s.T.Fatal(err)
	}
	return res.Facts
}

// Store writes a page and commits it with its links.
func (s *Site) Store(url, source string, depth uint32, links ...string) {
	f := s.Write(url, source, depth, links...)
	parsed := (&Parser{}).Parse(f, BodyOf(url, links))
	s.Commit(&record.Outcome{
		Row:   record.Row{URL: url, Source: source, Depth: depth},
		State: record.Stored, Page: f.Page, Links: parsed.Links, Meta: parsed.Meta,
	})
}

// Fail commits another outcome.
func (s *Site) Fail(url string, state record.State, reason string, links ...record.Link) {
	r, err := s.Index.Record(url)
	if err != nil {
		s.T.Fatal(err)
	}
	s.Commit(&record.Outcome{
		Row: r.Row, State: state, Reason: reason, Page: record.Page{Time: 1_800_000_000, Status: 404}, Links: links,
	})
}

// BodyOf returns the text of a page with these links.
func BodyOf(url string, links []string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "page %s\n", url)
	for _, l := range links {
		fmt.Fprintf(&b, "link: %s\n", l)
	}
	return []byte(b.String())
}

// File returns the path of a file in the folder of a URL.
func (s *Site) File(url, name string) string {
	rel, err := s.Tree.Path(url)
	if err != nil {
		s.T.Fatal(err)
	}
	return filepath.Join(s.Root, filepath.FromSlash(rel), name)
}

// Records returns all records, the time of discovery left out.
func (s *Site) Records() map[string]record.Record {
	all := map[string]record.Record{}
	err := s.Index.Records(context.Background(), nil, func(r record.Record, err error) error {
		r.Found = 0
		all[r.URL] = r
		return err
	})
	if err != nil {
		s.T.Fatal(err)
	}
	return all
}

// Read returns what a file holds.
func Read(t Fataler, name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Small is a site with a URL in every state.
func Small(t *testing.T) *Site {
	s := New(t, filepath.Join(t.TempDir(), "iut"))
	t.Cleanup(s.Close)
	s.Seed("http://a.org/", "http://a.org/seed", "http://b.org/")
	s.Store("http://a.org/", record.Seed, 0, "http://a.org/x", "http://a.org/x/", "http://a.org/y", "http://a.org/z", "http://c.org/")
	s.Store("http://a.org/x", "http://a.org/", 1, "http://a.org/later", "http://a.org/held")
	s.Store("http://a.org/x/", "http://a.org/", 1)
	s.Fail("http://a.org/y", record.Failed, "404")
	s.Fail("http://a.org/z", record.Refused, "robots")
	s.Fail("http://b.org/", record.Redirected, "", record.Link{
		URL: "http://d.org/", Source: record.Seed, Via: "http://b.org/", Hops: 1, Areas: []string{"d.org"},
	})
	if yes, err := s.Index.Marks().NeedsRelink(); err != nil || !yes {
		t.Errorf("a seed's redirect has widened the scope: %v, %v", yes, err)
	}
	if err := s.Index.Marks().Relinked(); err != nil {
		t.Fatal(err)
	}
	for url, next := range map[string]record.Row{
		"http://a.org/later": {Range: record.Later, Due: 1, Tries: 2, Reason: "503"},
		"http://a.org/held":  {Range: record.Held, Reason: "scope"},
	} {
		r, err := s.Index.Record(url)
		if err != nil {
			t.Fatal(err)
		}
		s.Commit(&record.Outcome{Row: r.Row, State: record.Pending, Next: next})
	}
	return s
}

// UpdateBolt changes an index behind its back.
func UpdateBolt(path string, fn func(*bolt.Tx) error) error {
	db, err := bolt.Open(path, 0o644, &bolt.Options{NoSync: true})
	if err != nil {
		return err
	}
	return errors.Join(db.Update(fn), db.Close())
}

// CutLine removes the one line that begins so.
func CutLine(name, prefix string) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	lines := strings.SplitAfter(string(b), "\n")
	at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, prefix) })
	if at < 0 {
		return errors.New("no line " + prefix)
	}
	return os.WriteFile(name, []byte(strings.Join(slices.Delete(lines, at, at+1), "")), 0o644)
}
