package repair

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"urltree/internal/testseed"
	"urltree/internal/testsite"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// damageURL names the URLs of wide: a stored page i links to 2i+3 and 2i+4.
func damageURL(i int) string {
	url := fmt.Sprintf("http://h%d.org/d%d/page%d", i%4, i%7, i)
	if i%5 == 0 {
		url += fmt.Sprintf("?q=%d", i)
	}
	return url
}

// wide is a site of n answers of every kind, each bucket of its index in use. It gives the URLs
// that seeds and stored pages name, and those that only an answer without a folder does.
func wide(t *testing.T, n int) (s *testsite.Site, named, hidden []string) {
	s = testsite.New(t, filepath.Join(t.TempDir(), "iut"))
	t.Cleanup(func() { s.Close() })
	named = []string{damageURL(0), damageURL(1), damageURL(2)}
	s.Seed(named...)
	if _, _, _, err := s.Index.Runs().Begin(); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		url := damageURL(i)
		rec, err := s.Index.Record(url)
		if errors.Is(err, storage.ErrNotFound) {
			continue // what names it is no page
		}
		if err != nil {
			t.Fatal(err)
		}
		o := &record.Outcome{Row: rec.Row, Page: record.Page{Time: 1_800_000_000, Status: 404}}
		switch i % 12 {
		case 5:
			o.State, o.Reason = record.Failed, "http-4xx"
		case 7:
			target := fmt.Sprintf("http://r.org/target%d", i)
			o.State, o.Page.Status, o.Page.HeaderLinks = record.Redirected, 301, target
			o.Links = []record.Link{{URL: target, Source: rec.Source, Via: url, Depth: rec.Depth, Hops: 1}}
			hidden = append(hidden, target)
		case 9:
			only := fmt.Sprintf("http://n.org/hidden%d", i)
			o.State, o.Reason, o.Page.Status = record.Refused, "noindex", 200
			o.Links = []record.Link{{URL: only, Source: url, Depth: rec.Depth + 1}}
			hidden = append(hidden, only)
		case 10:
			o.State, o.Reason = record.Refused, "robots"
		case 11:
			o.State, o.Next = record.Pending, record.Row{Range: record.Later, Due: 1, Tries: 1, Reason: "http-5xx"}
		default:
			links := []string{damageURL(2*i + 3), damageURL(2*i + 4)}
			named = append(named, links...)
			s.Store(url, rec.Source, rec.Depth, links...)
			continue
		}
		origin := record.Origin(url)
		o.Host = &record.HostTimes{Name: record.Host(url), Next: int64(i), Seq: uint64(i)}
		o.Robots = &record.Robots{Origin: origin, Time: 1_800_000_000, Status: 200, Text: "User-agent: *\nDisallow: /private\n"}
		o.Links = append(o.Links, record.Link{Kind: record.SitemapRow, URL: fmt.Sprintf("%s/sitemap%d.xml", origin, i), Depth: 1})
		s.Commit(o)
	}
	if _, err := s.Index.Runs().Finish(); err != nil {
		t.Fatal(err)
	}
	if err := s.Index.Runs().PutHour(record.Hour{Run: 1, Hour: 1}); err != nil {
		t.Fatal(err)
	}
	return s, named, hidden
}

// A kind of damage changes the bytes of a file. old is how the file was some transactions ago.
type damage struct {
	name  string
	dense bool // most of the file is in use
	do    func(rnd *rand.Rand, file, old []byte) []byte
}

const diskPage, sector = 4096, 512

var damages = []damage{
	{"one bit", true, func(rnd *rand.Rand, file, _ []byte) []byte {
		file[rnd.IntN(len(file))] ^= 1 << rnd.IntN(8)
		return file
	}},
	{"one bit of a header or element", true, func(rnd *rand.Rand, file, _ []byte) []byte {
		file[rnd.IntN(len(file)/diskPage)*diskPage+rnd.IntN(200)] ^= 1 << rnd.IntN(8)
		return file
	}},
	{"20 bytes", true, func(rnd *rand.Rand, file, _ []byte) []byte {
		at := rnd.IntN(len(file) - 20)
		for i := range 20 {
			file[at+i] = byte(rnd.Uint32())
		}
		return file
	}},
	{"a sector of zeros", true, func(rnd *rand.Rand, file, _ []byte) []byte {
		at := rnd.IntN(len(file)/sector) * sector
		clear(file[at : at+sector])
		return file
	}},
	{"a page of zeros", true, func(rnd *rand.Rand, file, _ []byte) []byte {
		at := rnd.IntN(len(file)/diskPage) * diskPage
		clear(file[at : at+diskPage])
		return file
	}},
	{"a page of another place", true, func(rnd *rand.Rand, file, _ []byte) []byte {
		copy(file[rnd.IntN(len(file)/diskPage)*diskPage:], slices.Clone(file[rnd.IntN(len(file)/diskPage)*diskPage:][:diskPage]))
		return file
	}},
	{"a write that never came", false, func(rnd *rand.Rand, file, old []byte) []byte {
		at := rnd.IntN(min(len(old), len(file))/diskPage) * diskPage
		copy(file[at:at+diskPage], old[at:at+diskPage])
		return file
	}},
	{"half a write", false, func(rnd *rand.Rand, file, old []byte) []byte {
		at := rnd.IntN(min(len(old), len(file))/sector) * sector
		copy(file[at:at+sector], old[at:at+sector])
		return file
	}},
	{"cut off", true, func(rnd *rand.Rand, file, _ []byte) []byte { return file[:rnd.IntN(len(file))] }},
}

// TestDamage spoils the index at random places in every way, many times. Whatever it is, nothing
// panics: check names it in one line, or the place was not in use; what a crawl would do ends with
// ErrDamaged at worst; and merge makes an index without faults, of all URLs or, if the structure is
// not sound, of those that seeds and folders name. A single bit costs one record.
func TestDamage(t *testing.T) {
	t.Parallel()
	rounds := 4
	switch {
	case os.Getenv("TEST_URLTREE_FULL") != "":
		rounds = 300
	case testing.Short():
		rounds = 1
	}
	rnd := rand.New(rand.NewPCG(testseed.Draw(t), 0))
	s, named, hidden := wide(t, 150)
	path := s.Path(indexName)
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// Writes that replace pages: URLs without a folder, so that the tree stays as it is.
	for i := range 60 {
		url := fmt.Sprintf("http://h%d.org/d%d/late%d", i%4, i%7, i)
		s.Commit(&record.Outcome{Row: record.Row{URL: damageURL(9), Source: "-"}, Links: []record.Link{{URL: url, Source: damageURL(9), Depth: 9}}})
		hidden = append(hidden, url)
	}
	before := s.Records()
	s.Close()
	whole := usedOf(t, path)
	if err := boltfile.Compact(path, true); err != nil {
		t.Fatal(err)
	}
	dense := usedOf(t, path)

	c := campaign{t: t, root: s.Root, before: before, named: map[string]bool{}, hidden: hidden}
	for _, url := range named {
		c.named[url] = true
	}
	for _, d := range damages {
		c.table = map[string]int{}
		file := whole
		if d.dense {
			file = dense
		}
		for range rounds {
			c.bad = d.do(rnd, slices.Clone(file), old)
			c.same = bytes.Equal(c.bad, file)
			c.bit = strings.HasPrefix(d.name, "one bit")
			c.run()
			if t.Failed() {
				name := filepath.Join(os.TempDir(), fmt.Sprintf("damaged-%d.db", time.Now().UnixNano()))
				t.Fatalf("%s: see %s: %v", d.name, name, os.WriteFile(name, c.bad, 0o644))
			}
		}
		for _, what := range slices.Sorted(maps.Keys(c.table)) {
			t.Logf("%-32s %5d  %s", d.name, c.table[what], what)
		}
	}
}

// usedOf returns the pages of an index up to the last that holds anything.
func usedOf(t *testing.T, path string) []byte {
	t.Helper()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	used := len(bytes.TrimRight(whole, "\x00"))
	return whole[:(used+diskPage-1)/diskPage*diskPage]
}

type campaign struct {
	t         *testing.T
	root      string
	before    map[string]record.Record
	named     map[string]bool // by seeds and stored pages
	hidden    []string        // named by other answers alone
	bad       []byte          // the damaged file
	same, bit bool            // it is as it was; at most one bit is not
	table     map[string]int
}

func (c *campaign) write() {
	kept, err := filepath.Glob(filepath.Join(c.root, indexName) + ".*")
	for _, name := range kept {
		err = errors.Join(err, os.Remove(name))
	}
	if err = errors.Join(err, os.WriteFile(filepath.Join(c.root, indexName), c.bad, 0o644)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *campaign) run() {
	c.write()
	checked := c.check()
	report := c.merge()
	after := c.requireWhole()
	kind := "rebuilt"
	switch {
	case report.Index == "kept":
		kind = "kept"
	case report.Salvaged > 0:
		kind = "taken over"
	}
	c.table[checked+", "+kind]++
	if (checked == "no fault") != (kind == "kept") || c.same && kind != "kept" {
		c.t.Errorf("check: %s, merge: %s", checked, report.Index)
	}
	c.compare(kind, after)

	c.write()
	c.crawl()
	c.merge()
	c.requireWhole()
}

// check does what the command does, and gives what came of it.
func (c *campaign) check() string {
	tree, err := iut.Open(c.root, iut.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	defer tree.Close()
	index, err := storage.Open(filepath.Join(c.root, indexName), storage.Options{ReadOnly: true})
	if err != nil {
		return c.named1(err)
	}
	defer index.Close()
	report, err := Check(c.t.Context(), tree, index, &testsite.Parser{}, CheckOptions{Links: true}, func(fault string) {
		if strings.Contains(fault, "\n") && !strings.Contains(fault, "index and folder differ") {
			c.t.Errorf("fault of several lines: %s", fault)
		}
	})
	switch {
	case err != nil:
		return c.named1(err)
	case report.Faults > 0:
		return "faults named"
	}
	return "no fault"
}

// named1 requires an error that says in one line that the index is damaged.
func (c *campaign) named1(err error) string {
	if !errors.Is(err, record.ErrDamaged) || strings.Contains(err.Error(), "\n") {
		c.t.Errorf("error: %v", err)
	}
	return "structure named"
}

func (c *campaign) merge() Report {
	report, err := Merge(c.t.Context(), MergeOptions{
		Root: c.root, Output: filepath.Join(filepath.Dir(c.root), "res.txt"), NoSync: true,
		Parser: func(iut.Format) (Parser, error) { return &testsite.Parser{}, nil },
	})
	if err != nil {
		c.t.Fatalf("merge: %v", err)
	}
	return report
}

// requireWhole requires a tree without faults, and returns its records.
func (c *campaign) requireWhole() map[string]record.Record {
	s := testsite.Open(c.t, c.root)
	defer s.Close()
	noFaults(c.t, s, CheckOptions{Links: true, Output: filepath.Join(filepath.Dir(c.root), "res.txt")}, &testsite.Parser{})
	return s.Records()
}

// compare looks at what merge has made of the index.
func (c *campaign) compare(kind string, after map[string]record.Record) {
	changed, lost := 0, 0
	asked := true // the answers that named what is lost
	for url, r := range c.before {
		a, ok := after[url]
		a.Seq, r.Seq = 0, 0 // close up over the gap that a lost record leaves
		if kind == "taken over" && r.State == record.Pending {
			r.Run = 0 // it may be lost
		}
		switch {
		case !ok:
			lost++
			if c.named[url] {
				c.t.Errorf("%s is lost", url)
			}
		case a.State == record.Stored != (r.State == record.Stored):
			if kind != "kept" || a.State == record.Stored {
				c.t.Errorf("%s was %v, is %v", url, r.State, a.State)
			}
		case a != r:
			changed++
		}
		asked = asked && (!ok || r.Reason != "noindex" || a.State == record.Pending)
	}
	if kind == "taken over" && lost > 0 && !asked {
		c.t.Errorf("%d URLs are lost, and nobody is asked for them", lost)
	}
	if kind == "taken over" && c.bit && !asked && changed > 1 {
		c.t.Errorf("a bit has cost %d records", changed)
	}
	if kind == "kept" && c.bit && changed > 0 {
		c.t.Errorf("a bit that check did not see has changed %d records", changed)
	}
}

// crawl does with the index what a crawl would. It may find damage, and ends.
func (c *campaign) crawl() {
	index, err := storage.Open(filepath.Join(c.root, indexName), storage.Options{NoSync: true})
	if err == nil {
		err = crawlOn(c.t.Context(), index)
		err = errors.Join(err, index.Close())
	}
	if err != nil && !errors.Is(err, record.ErrDamaged) {
		c.t.Errorf("crawl: %v", err)
	}
}

func crawlOn(ctx context.Context, index *storage.Index) error {
	if _, _, _, err := index.Runs().Begin(); err != nil {
		return err
	}
	if err := index.LoadFilter(ctx); err != nil {
		return err
	}
	for after := ""; ; {
		hosts, _, err := index.Queues().NextHosts(after, 10)
		if err != nil || len(hosts) == 0 {
			if err == nil {
				_, err = index.Runs().Finish()
			}
			return err
		}
		for _, h := range hosts {
			after = h.Name
			rows, _, err := index.Queues().Refill(h.Name, time.Now(), 20, -1, func(string) bool { return false })
			if err != nil {
				return err
			}
			var set []*record.Outcome
			for _, row := range rows {
				set = append(set, &record.Outcome{Row: row, State: record.Failed, Reason: "timeout"})
			}
			if _, err := index.Commit(set); err != nil {
				return err
			}
		}
	}
}

// TestDamagedPages flips a bit in a file of a stored page, or cuts it. Check names the page; merge
// takes it out of the tree, and the URL is pending again, and nothing else is.
func TestDamagedPages(t *testing.T) {
	rounds := 15
	switch {
	case os.Getenv("TEST_URLTREE_FULL") != "":
		rounds = 2000
	case testing.Short():
		rounds = 5
	}
	rnd := rand.New(rand.NewPCG(testseed.Draw(t), 0))
	s, _, _ := wide(t, 40)
	c := campaign{t: t, root: s.Root, before: s.Records()}
	var urls []string
	files := map[string][]byte{}
	for url, r := range c.before {
		if r.State == record.Stored {
			urls = append(urls, url)
			for _, name := range []string{"content.html", "source.txt"} {
				file := s.File(url, name)
				files[file] = []byte(testsite.Read(t, file))
			}
		}
	}
	slices.Sort(urls)
	var err error
	if c.bad, err = os.ReadFile(s.Path(indexName)); err != nil { // which is good
		t.Fatal(err)
	}
	paths := s.Tree
	s.Close()
	for round := range rounds {
		url := urls[rnd.IntN(len(urls))]
		rel, err := paths.Path(url)
		if err != nil {
			t.Fatal(err)
		}
		name := []string{"content.html", "source.txt"}[rnd.IntN(2)]
		file := filepath.Join(s.Root, rel, name)
		bad := slices.Clone(files[file])
		if at := rnd.IntN(len(bad)); rnd.IntN(4) == 0 {
			bad = bad[:at]
		} else {
			bad[at] ^= 1 << rnd.IntN(8)
		}
		c.write()
		if err := os.WriteFile(file, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		s.OpenTree()
		s.OpenIndex()
		var faults []string
		if _, err := Check(t.Context(), s.Tree, s.Index, &testsite.Parser{}, CheckOptions{}, func(f string) { faults = append(faults, f) }); err != nil {
			t.Fatal(err)
		}
		s.Close()
		if len(faults) == 0 || !strings.HasPrefix(faults[0], url+": ") {
			t.Errorf("round %d: %s of %s: check says %q", round, name, url, faults)
		}
		c.merge()
		for other, r := range c.requireWhole() {
			switch was := c.before[other].State; {
			case other == url && r.State != record.Pending:
				t.Errorf("%s of %s: it is %v", name, url, r.State)
			case other != url && r.State != was:
				t.Errorf("%s of %s: %s was %v, is %v", name, url, other, was, r.State)
			}
		}
		if t.Failed() {
			return
		}
		for _, name := range []string{"content.html", "source.txt"} {
			file := filepath.Join(s.Root, rel, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, files[file], 0o644)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// One damaged entry, of whatever kind, costs that entry: merge takes over all others, and of the
// records at most one is asked again, with what a lost sitemap or scope needs.
func TestOneEntry(t *testing.T) {
	s, _, _ := wide(t, 60)
	before := s.Records()
	s.Close()
	whole := usedOf(t, s.Path(indexName))
	c := campaign{t: t, root: s.Root}
	for _, tt := range []struct {
		bucket string
		asked  bool // what may have named URLs
	}{
		{"url", false},
		{"pending", false},
		{"host", false},
		{"robots", false},
		{"sitemap", true},
		{"folder", false},
		{"meta", false},
		{"scope", true},
		{"run", false},
		{"hour", false},
		{"sys", true}, // without totals nobody knows how many records there were
	} {
		for _, part := range []string{"key", "value"} {
			if tt.bucket == "sys" && part == "key" {
				continue // the name of a value of which there is one
			}
			t.Run(tt.bucket+" "+part, func(t *testing.T) {
				c.t, c.bad = t, whole
				c.write()
				err := testsite.UpdateBolt(s.Path(indexName), func(tx *bolt.Tx) error {
					b := tx.Bucket([]byte(tt.bucket))
					k, v := b.Cursor().First()
					if tt.bucket == "sys" {
						k = []byte("totals")
						v = b.Get(k)
					}
					k, v = slices.Clone(k), slices.Clone(v)
					if part == "value" {
						v[0] ^= 4
						return b.Put(k, v)
					}
					other := slices.Clone(k)
					other[len(k)-2] ^= 1
					return errors.Join(b.Delete(k), b.Put(other, v))
				})
				if err != nil {
					t.Fatal(err)
				}
				if got := c.check(); got == "no fault" {
					t.Error("check does not see it")
				}
				if report := c.merge(); report.Salvaged < len(before)-1 {
					t.Errorf("%d of %d records taken over", report.Salvaged, len(before))
				}
				after := c.requireWhole()
				changed := 0
				for url, r := range before {
					a, ok := after[url]
					a.Seq, r.Seq = 0, 0
					if r.State == record.Pending {
						r.Run = 0
					}
					asked := tt.asked || tt.bucket == "url" && part == "key" // which was a seed's
					again := asked && a.State == record.Pending && (r.GaveLinks() || r.State == record.Redirected)
					if !ok || a != r && !again {
						changed++
					}
				}
				if changed > 1 {
					t.Errorf("it has cost %d records", changed)
				}
			})
		}
	}
}
