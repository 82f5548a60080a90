package storage

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/record"
)

// named is a link to a sitemap of a level.
func named(url string, level uint32) record.Link {
	return record.Link{Kind: record.SitemapRow, URL: url, Depth: level}
}

// names is an outcome that names sitemaps.
func names(links ...record.Link) *record.Outcome { return &record.Outcome{Links: links} }

// knownSitemap is a record of a sitemap, as the index gives it.
func knownSitemap(url string, state record.State, level uint32) record.Record {
	r := record.Record{Row: record.Row{URL: url, Kind: record.SitemapRow, Depth: level}, State: state}
	if state == record.Pending {
		r.Range = record.Later
	}
	return r
}

// endOf is the outcome by which a sitemap becomes a record.
func endOf(r record.Record) *record.Outcome {
	return &record.Outcome{Row: r.Row, State: r.State, Next: r.Row, Reason: r.Reason, Page: r.Page, Cut: r.Cut}
}

// TestNameSitemap: what becomes of a sitemap that is named, by what is known of it.
func TestNameSitemap(t *testing.T) {
	const url = "https://a.org/sitemap.xml"
	now := time.Now().Unix() + 60 // surely not before the run, which begins below
	second := record.Link{Kind: record.SitemapRow, URL: url, Depth: 2, Hops: 1, Source: "https://a.org/index.xml"}
	first := second
	first.Depth, first.Hops = 1, 0
	known := func(state record.State, level uint32, at int64) record.Record {
		r := knownSitemap(url, state, level)
		if r.Time = at; state == record.Pending {
			r.Tries, r.Due = 1, 5
		}
		return r
	}
	for _, tt := range []struct {
		name  string
		known record.Record // State 0: not
		named record.Link
		want  record.State
		level uint32
		fresh bool
	}{
		{"new", record.Record{}, second, record.Pending, 2, true},
		{"waits already", known(record.Pending, 1, 0), second, record.Pending, 1, false},
		{"waits, nearer now", known(record.Pending, 3, 0), second, record.Pending, 2, false},
		{"read lately", known(record.Read, 1, now), first, record.Read, 1, false},
		{"read long ago", known(record.Read, 1, now-60-sitemapAge), second, record.Pending, 2, true},
		{"failed lately", known(record.Failed, 2, now), second, record.Failed, 2, false},
		{"failed, and a robots.txt names it", known(record.Failed, 2, now), first, record.Pending, 1, true},
		{"failed in this run, and named as before", known(record.Failed, 1, now), first, record.Failed, 1, false},
		{"failed in an earlier run, and named as before", known(record.Failed, 1, now-1000), first, record.Pending, 1, true},
		{"failed long ago", known(record.Failed, 2, 1), second, record.Pending, 2, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x, path := newIndex(t, 1)
			if _, _, _, err := x.Runs().Begin(); err != nil {
				t.Fatal(err)
			}
			if tt.known.State != 0 {
				done, err := x.Commit([]*record.Outcome{endOf(tt.known)})
				if err != nil || (done.Next[0].Range == record.Later) != (tt.known.State == record.Pending) || len(done.Fresh) > 0 {
					t.Fatalf("%+v, %v", done, err)
				}
				if got, _, err := x.Sitemaps().Get(url); err != nil || got != tt.known {
					t.Fatalf("got %+v, %v\nwant %+v", got, err, tt.known)
				}
			}
			done, err := x.Commit([]*record.Outcome{names(tt.named), names(tt.named)})
			if err != nil {
				t.Fatal(err)
			}
			got, ok, err := x.Sitemaps().Get(url)
			if err != nil || !ok || got.State != tt.want || got.Depth != tt.level || !tt.fresh && got.Time != tt.known.Time {
				t.Errorf("%+v, %v, %v", got, ok, err)
			}
			if fresh := slices.Equal(done.Fresh, []record.Row{got.Row}); fresh != tt.fresh || len(done.Fresh) > 1 || done.New != 0 {
				t.Errorf("committed %+v, want it new: %v", done, tt.fresh)
			}
			if tt.fresh && (got.Tries != 0 || got.Due != 0 || got.Source != tt.named.Source || got.Hops != tt.named.Hops) {
				t.Errorf("%+v", got)
			}
			// What is done a second time changes nothing.
			if done, err := x.Commit([]*record.Outcome{names(tt.named)}); err != nil || len(done.Fresh) > 0 {
				t.Errorf("again: %+v, %v", done, err)
			}
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
			x = open(t, path, Options{ReadOnly: true})
			if again, _, err := x.Sitemaps().Get(url); err != nil || again != got {
				t.Errorf("opened again: %+v, %v", again, err)
			}
			if faults := faultsOf(t, x); faults != nil {
				t.Errorf("faults: %q", faults)
			}
		})
	}
}

// TestSitemapInOneSet: an outcome and a name of one sitemap in one transaction.
func TestSitemapInOneSet(t *testing.T) {
	x, _ := newIndex(t, 1)
	r := knownSitemap("https://a.org/s.xml", record.Failed, 1)
	r.Time = time.Now().Unix()
	done, err := x.Commit([]*record.Outcome{endOf(r), names(named(r.URL, 1))})
	if err != nil || len(done.Fresh) > 0 || done.Next[0].Range != record.Later || done.Next[0].URL != r.URL {
		t.Fatalf("told twice, or as done: %+v, %v", done, err)
	}
}

// TestSitemaps: what a host has to read is given without what is not due, done or left out.
func TestSitemaps(t *testing.T) {
	x, _ := newIndex(t, 1)
	now := time.Now()
	var links []record.Link
	for _, name := range []string{"a.org/1", "a.org/2", "a.org/3", "a.org/later", "a.org:81/4", "b.a.org/5", "a.org.b/6"} {
		links = append(links, named("https://"+name, 1))
	}
	later := knownSitemap(links[3].URL, record.Pending, 1)
	later.Due, later.Tries = now.Add(time.Hour).UnixNano(), 1
	read := knownSitemap(links[1].URL, record.Read, 1)
	read.Bytes, read.Cut = 7, 1
	inside := knownSitemap("https://a.org/7", record.Read, 1)
	inside.Bytes = 7
	if done, err := x.Commit([]*record.Outcome{names(links...)}); err != nil || len(done.Fresh) != len(links) {
		t.Fatalf("%+v, %v", done, err)
	}
	done, err := x.Commit([]*record.Outcome{endOf(later), endOf(read), endOf(inside)})
	if err != nil || len(done.Fresh) > 0 || done.Next[0].Due != later.Due {
		t.Fatalf("%+v, %v", done, err)
	}
	for _, tt := range []struct {
		name string
		now  time.Time
		n    int
		skip string
		want string
		due  int64
	}{
		{"all that are due", now, 9, "", "1 3 4", later.Due},
		{"some", now, 2, "", "1 3", 1},
		{"none", now, 0, "", "", 1},
		{"left alone", now, -1, "", "", 0},
		{"as many as there are", now, 3, "", "1 3 4", later.Due},
		{"without one", now, 2, "https://a.org/1", "3 4", later.Due},
		{"without the later one", now, 9, later.URL, "1 3 4", 0},
		{"later", now.Add(2 * time.Hour), 9, "", "1 3 later 4", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list, due, err := x.Queues().Refill("a.org", tt.now, 0, tt.n, func(id string) bool {
				skip := record.Row{URL: tt.skip, Kind: record.SitemapRow}
				return id == skip.ID()
			})
			var got []string
			for _, s := range list {
				got = append(got, s.URL[strings.LastIndexByte(s.URL, '/')+1:])
			}
			if strings.Join(got, " ") != tt.want || due != tt.due || err != nil {
				t.Errorf("%q, due %d, %v; want %s, due %d", got, due, err, tt.want, tt.due)
			}
		})
	}
	var fresh []record.Row
	_, err = x.Sitemaps().Reopen(t.Context(), (*record.Record).Narrowed, func(rows []record.Row, _ uint64) { fresh = append(fresh, rows...) })
	if err != nil || len(fresh) != 1 || fresh[0].URL != read.URL || fresh[0].Range != record.Later {
		t.Errorf("to be read again: %+v, %v; want the one that named what scope turned away", fresh, err)
	}
}

// TestSitemapCut: a sitemap of which links got no record, for there are too many held ones, is
// read again when limits change.
func TestSitemapCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index.db")
	if err := Create(path); err != nil {
		t.Fatal(err)
	}
	x := open(t, path, Options{NoSync: true, Limits: Limits{MaxHeld: 1}})
	const url = "https://a.org/s.xml"
	part := func(n int) *record.Outcome {
		o := &record.Outcome{Row: knownSitemap(url, record.Pending, 1).Row, Part: true}
		for i := range 3 {
			o.Links = append(o.Links, record.Link{URL: fmt.Sprintf("https://a.org/%d/%d", n, i), Source: url, Depth: 1, Held: "depth"})
		}
		return o
	}
	last := part(2)
	last.Part, last.State, last.Page.Bytes, last.Cut = false, record.Read, 7, 1
	for _, set := range [][]*record.Outcome{{names(named(url, 1))}, {part(1)}} {
		if _, err := x.Commit(set); err != nil {
			t.Fatal(err)
		}
	}
	// A kill: it is read again, and what was cut is cut again.
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	x = open(t, path, Options{NoSync: true, Limits: Limits{MaxHeld: 1}})
	for _, set := range [][]*record.Outcome{{part(1)}, {last}} {
		if _, err := x.Commit(set); err != nil {
			t.Fatal(err)
		}
	}
	if got, _, err := x.Sitemaps().Get(url); err != nil || got.Cut != 2+3+1 || got.State != record.Read {
		t.Errorf("%+v, %v; want 5 links cut and 1 outside", got, err)
	}
	n, err := x.Sitemaps().Reopen(t.Context(), (*record.Record).Narrowed, nil)
	if got, _, _ := x.Sitemaps().Get(url); err != nil || n != 1 || got.Cut != 0 || got.State != record.Pending {
		t.Errorf("%d opened again, %v: %+v", n, err, got)
	}
}

// TestSitemapDamage: a damaged row is found, and costs one sitemap.
func TestSitemapDamage(t *testing.T) {
	x, _ := newIndex(t, 1)
	list := []record.Link{named("https://a.org/1", 1), named("https://a.org/2", 1)}
	if _, err := x.Commit([]*record.Outcome{names(list...)}); err != nil {
		t.Fatal(err)
	}
	err := x.file.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket(record.BucketSitemap)
		v := bytes.Clone(b.Get(record.SitemapKey(list[0].URL)))
		v[1] ^= 1
		return errors.Join(b.Put(record.SitemapKey(list[0].URL), v), b.Put([]byte("a.org\x00no url"), b.Get(record.SitemapKey(list[1].URL))))
	})
	if err != nil {
		t.Fatal(err)
	}
	if faults := faultsOf(t, x); len(faults) != 2 { // the counts that differ follow from them
		t.Errorf("faults: %q", faults)
	}
	got, _, err := x.Queues().Refill("a.org", time.Now(), 0, 9, func(string) bool { return false })
	if err != nil || len(got) != 1 || got[0].URL != list[1].URL {
		t.Errorf("%+v, %v", got, err)
	}
	if _, _, err := x.Sitemaps().Get(list[0].URL); !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("the damaged one: %v", err)
	}
	if done, err := x.Commit([]*record.Outcome{names(list...)}); err != nil || len(done.Fresh) != 1 {
		t.Errorf("named again: %+v, %v", done, err)
	}
}

func BenchmarkSitemaps(b *testing.B) {
	path := b.TempDir() + "/index.db"
	if err := Create(path); err != nil {
		b.Fatal(err)
	}
	x, err := Open(path, Options{NoSync: true})
	if err != nil {
		b.Fatal(err)
	}
	defer x.Close()
	var set []*record.Outcome
	for i := range 50_000 {
		state := record.Read
		if i == 49_999 {
			state = record.Pending
		}
		set = append(set, endOf(knownSitemap(fmt.Sprintf("https://a.org/sitemap-%d.xml", i), state, 1)))
	}
	if _, err := x.Commit(set); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if list, _, err := x.Queues().Refill("a.org", time.Now(), 0, 8, func(string) bool { return false }); len(list) != 1 || err != nil {
			b.Fatal(list, err)
		}
	}
}

// TestSitemapsOfAHost: a host has so many to be read and no more; one that was read far down is
// read again when it is named further up.
func TestSitemapsOfAHost(t *testing.T) {
	if testing.Short() {
		t.Skip("names as many sitemaps as a host may have: not with -short")
	}
	x, _ := newIndex(t, 1)
	o := &record.Outcome{}
	for i := range mostSitemaps + 7 {
		o.Links = append(o.Links, named(fmt.Sprintf("https://a.org/%d", i), 2))
	}
	o.Links = append(o.Links, named("https://b.org/1", 3))
	now := time.Now().Unix()
	narrowed := knownSitemap("https://a.org/narrowed", record.Read, 3)
	narrowed.Cut, narrowed.Time = 1, now
	if _, err := x.Commit([]*record.Outcome{endOf(narrowed), o}); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Commit([]*record.Outcome{names(named("https://a.org/more", 1))}); err != nil {
		t.Fatal(err)
	}
	requireFull := func(what string) {
		t.Helper()
		if h, err := x.Hosts().Get("a.org"); err != nil || h.Sitemaps != mostSitemaps {
			t.Errorf("%s: %d to be read, %v", what, h.Sitemaps, err)
		}
	}
	requireFull("named")
	if _, err := x.Commit([]*record.Outcome{names(named(narrowed.URL, 2))}); err != nil {
		t.Fatal(err)
	}
	requireFull("named further up")
	one := knownSitemap("https://a.org/0", record.Read, 2)
	one.Time = now
	for _, want := range []int{0, 1} {
		if n, err := x.Sitemaps().Reopen(t.Context(), (*record.Record).Narrowed, nil); err != nil || n != want {
			t.Errorf("%d opened again, %v; want %d", n, err, want)
		}
		requireFull("opened again")
		if want == 0 { // there is room for one now
			if _, err := x.Commit([]*record.Outcome{endOf(one)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	read := knownSitemap("https://b.org/1", record.Read, 3)
	read.Time = now
	for level, want := range map[uint32]record.State{3: record.Read, 2: record.Pending} {
		if _, err := x.Commit([]*record.Outcome{endOf(read)}); err != nil {
			t.Fatal(err)
		}
		if _, err := x.Commit([]*record.Outcome{names(named(read.URL, level))}); err != nil {
			t.Fatal(err)
		}
		if s, _, err := x.Sitemaps().Get(read.URL); err != nil || s.State != want {
			t.Errorf("named at level %d: %v, %v; want %v", level, s.State, err, want)
		}
	}
	if faults := faultsOf(t, x); len(faults) > 0 {
		t.Errorf("faults: %q", faults)
	}
}

// TestKindsOfOneURL: a page, a sitemap and a robots.txt of the same URL in one set change nothing
// of each other, and only the page is a URL of the crawl.
func TestKindsOfOneURL(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index.db")
	if err := Create(path); err != nil {
		t.Fatal(err)
	}
	x := open(t, path, Options{NoSync: true, Limits: Limits{MaxHeld: 1}})
	const url = "https://a.org/robots.txt"
	page := record.Row{URL: url, Source: record.Seed}
	held := func(n int) (links []record.Link) {
		for i := range n {
			links = append(links, record.Link{URL: fmt.Sprintf("https://a.org/%d", i), Source: url, Held: "depth"})
		}
		return links
	}
	sitemap := endOf(knownSitemap(url, record.Read, 1))
	sitemap.Links, sitemap.Cut = held(4), 7
	robots := &record.Outcome{
		Row:    record.Row{Kind: record.RobotsRow, URL: url, Source: "https://a.org"},
		Robots: &record.Robots{Origin: "https://a.org", Status: 200}, Links: []record.Link{named("https://a.org/s", 1)},
	}
	done, err := x.Commit([]*record.Outcome{{Row: page, State: record.Refused, Reason: "type"}, sitemap, robots})
	if err != nil || done.New != 2 || done.Cut != 3 || len(done.Fresh) != 1 || done.Fresh[0].Kind != record.SitemapRow {
		t.Errorf("%+v, %v", done, err)
	}
	if r, err := x.Record(url); err != nil || r.State != record.Refused || r.Cut != 0 {
		t.Errorf("page: %+v, %v", r, err)
	}
	if r, _, err := x.Sitemaps().Get(url); err != nil || r.State != record.Read || r.Cut != 3+7 {
		t.Errorf("sitemap: %+v, %v", r, err)
	}
	if n := x.Totals(); n.Records() != 2 || n.Failed != 0 || n.Sitemaps != 1 {
		t.Errorf("%+v", n)
	}
	if faults := faultsOf(t, x); len(faults) > 0 {
		t.Errorf("faults: %q", faults)
	}
}
