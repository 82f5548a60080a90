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

// TestNameSitemap: what becomes of a sitemap that is named, by what is known of it.
func TestNameSitemap(t *testing.T) {
	const url = "https://a.org/sitemap.xml"
	now := time.Now().Unix() + 60 // surely not before the run, which begins below
	named := record.Sitemap{URL: url, Level: 2, Hops: 1, Source: "https://a.org/index.xml"}
	first := named
	first.Level, first.Hops = 1, 0
	for _, tt := range []struct {
		name  string
		known record.Sitemap // State 0: not
		named record.Sitemap
		want  record.SitemapState
		level uint8
		fresh bool
	}{
		{"new", record.Sitemap{}, named, record.SitemapOpen, 2, true},
		{"waits already", record.Sitemap{State: record.SitemapOpen, Level: 1, Tries: 1, Due: 5}, named, record.SitemapOpen, 1, false},
		{"waits, nearer now", record.Sitemap{State: record.SitemapOpen, Level: 3, Tries: 1, Due: 5}, named, record.SitemapOpen, 2, false},
		{"read lately", record.Sitemap{State: record.SitemapRead, Level: 1, Time: now, Locs: 3}, first, record.SitemapRead, 1, false},
		{"read long ago", record.Sitemap{State: record.SitemapRead, Level: 1, Time: now - 60 - sitemapAge, Locs: 3}, named, record.SitemapOpen, 2, true},
		{"failed lately", record.Sitemap{State: record.SitemapFailed, Level: 2, Time: now}, named, record.SitemapFailed, 2, false},
		{"failed, and a robots.txt names it", record.Sitemap{State: record.SitemapFailed, Level: 2, Time: now}, first, record.SitemapOpen, 1, true},
		{"failed in this run, and named as before", record.Sitemap{State: record.SitemapFailed, Level: 1, Time: now}, first, record.SitemapFailed, 1, false},
		{"failed in an earlier run, and named as before", record.Sitemap{State: record.SitemapFailed, Level: 1, Time: now - 1000}, first, record.SitemapOpen, 1, true},
		{"failed long ago", record.Sitemap{State: record.SitemapFailed, Level: 2, Time: 1}, named, record.SitemapOpen, 2, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x, path := newIndex(t, 1)
			if _, _, _, err := x.Begin(); err != nil {
				t.Fatal(err)
			}
			if tt.known.State != 0 {
				tt.known.URL = url
				done, err := x.Commit([]*record.Outcome{{Sitemap: &tt.known}})
				if err != nil || !slices.Equal(done.Sitemaps, []record.Sitemap{tt.known}) || done.NewSitemaps != nil {
					t.Fatalf("%+v, %v", done, err)
				}
			}
			done, err := x.Commit([]*record.Outcome{{Sitemaps: []record.Sitemap{tt.named}}, {Sitemaps: []record.Sitemap{tt.named}}})
			if err != nil {
				t.Fatal(err)
			}
			got, ok, err := x.Sitemap(url)
			if err != nil || !ok || got.State != tt.want || got.Level != tt.level || got.Time != tt.known.Time || got.Locs != tt.known.Locs {
				t.Errorf("%+v, %v, %v", got, ok, err)
			}
			if fresh := slices.Equal(done.NewSitemaps, []record.Sitemap{got}); fresh != tt.fresh || done.Sitemaps != nil {
				t.Errorf("committed %+v, want it new: %v", done, tt.fresh)
			}
			if tt.fresh && (got.Tries != 0 || got.Due != 0 || got.Source != tt.named.Source || got.Hops != tt.named.Hops) {
				t.Errorf("%+v", got)
			}
			// What is done a second time changes nothing.
			if done, err := x.Commit([]*record.Outcome{{Sitemaps: []record.Sitemap{tt.named}}}); err != nil || done.NewSitemaps != nil {
				t.Errorf("again: %+v, %v", done, err)
			}
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
			x = open(t, path, Options{ReadOnly: true})
			if again, _, err := x.Sitemap(url); err != nil || again != got {
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
	row := record.Sitemap{URL: "https://a.org/s.xml", State: record.SitemapFailed, Level: 1, Time: time.Now().Unix()}
	done, err := x.Commit([]*record.Outcome{{Sitemap: &row}, {Sitemaps: []record.Sitemap{{URL: row.URL, Level: 1}}}})
	if err != nil || done.NewSitemaps != nil || len(done.Sitemaps) != 1 || done.Sitemaps[0].State != record.SitemapOpen {
		t.Fatalf("told twice, or as done: %+v, %v", done, err)
	}
}

// TestSitemaps: what a host has to read is given without what is not due, done or left out.
func TestSitemaps(t *testing.T) {
	x, _ := newIndex(t, 1)
	now := time.Now()
	var named []record.Sitemap
	for _, name := range []string{"a.org/1", "a.org/2", "a.org/3", "a.org/later", "a.org:81/4", "b.a.org/5", "a.org.b/6"} {
		named = append(named, record.Sitemap{URL: "https://" + name, Level: 1})
	}
	later := named[3]
	later.State, later.Due, later.Tries = record.SitemapOpen, now.Add(time.Hour).UnixNano(), 1
	read := named[1]
	read.State, read.Locs, read.Outside = record.SitemapRead, 7, 1
	inside := record.Sitemap{URL: "https://a.org/7", State: record.SitemapRead, Locs: 7}
	done, err := x.Commit([]*record.Outcome{{Sitemaps: named}, {Sitemap: &later}, {Sitemap: &read}, {Sitemap: &inside}})
	if err != nil || len(done.NewSitemaps) != len(named)-2 {
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
		{"as many as there are", now, 3, "", "1 3 4", later.Due},
		{"without one", now, 2, "https://a.org/1", "3 4", later.Due},
		{"without the later one", now, 9, later.URL, "1 3 4", 0},
		{"later", now.Add(2 * time.Hour), 9, "", "1 3 later 4", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list, due, err := x.Sitemaps("a.org", tt.now, tt.n, func(url string) bool { return url == tt.skip })
			var got []string
			for _, s := range list {
				got = append(got, s.URL[strings.LastIndexByte(s.URL, '/')+1:])
			}
			if strings.Join(got, " ") != tt.want || due != tt.due || err != nil {
				t.Errorf("%q, due %d, %v; want %s, due %d", got, due, err, tt.want, tt.due)
			}
		})
	}
	var fresh []record.Sitemap
	_, err = x.RereadSitemaps(t.Context(), (*record.Sitemap).Narrowed, func(s []record.Sitemap, _ uint64) { fresh = append(fresh, s...) })
	if err != nil || len(fresh) != 1 || fresh[0].URL != read.URL || fresh[0].State != record.SitemapOpen {
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
	s := record.Sitemap{URL: "https://a.org/s.xml", Level: 1}
	part := func(n int) *record.Outcome {
		o := &record.Outcome{}
		for i := range 3 {
			o.Links = append(o.Links, record.Link{URL: fmt.Sprintf("https://a.org/%d/%d", n, i), Source: s.URL, Depth: 1, Held: "depth"})
		}
		return o
	}
	last := part(2)
	last.Sitemap = &record.Sitemap{URL: s.URL, State: record.SitemapRead, Level: 1, Locs: 7, Outside: 1}
	for _, set := range [][]*record.Outcome{{{Sitemaps: []record.Sitemap{s}}}, {part(1)}} {
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
	if got, _, err := x.Sitemap(s.URL); err != nil || got.Outside != 2+3+1 || got.State != record.SitemapRead {
		t.Errorf("%+v, %v; want 5 links cut and 1 outside", got, err)
	}
	var fresh []record.Sitemap
	_, err := x.RereadSitemaps(t.Context(), (*record.Sitemap).Narrowed, func(l []record.Sitemap, _ uint64) { fresh = l })
	if err != nil || len(fresh) != 1 || fresh[0].Outside != 0 {
		t.Errorf("%+v, %v", fresh, err)
	}
}

// TestSitemapDamage: a damaged row is found, and costs one sitemap.
func TestSitemapDamage(t *testing.T) {
	x, _ := newIndex(t, 1)
	list := []record.Sitemap{{URL: "https://a.org/1", Level: 1}, {URL: "https://a.org/2", Level: 1}}
	if _, err := x.Commit([]*record.Outcome{{Sitemaps: list}}); err != nil {
		t.Fatal(err)
	}
	err := x.file.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket(record.BucketSitemap)
		v := bytes.Clone(b.Get(record.SitemapKey(list[0].URL)))
		v[1] ^= 1
		return errors.Join(b.Put(record.SitemapKey(list[0].URL), v), b.Put([]byte("a.org\x00no url"), list[1].Append(nil)))
	})
	if err != nil {
		t.Fatal(err)
	}
	if faults := faultsOf(t, x); len(faults) != 2 { // the counts that differ follow from them
		t.Errorf("faults: %q", faults)
	}
	got, _, err := x.Sitemaps("a.org", time.Now(), 9, func(url string) bool { return url == "no url" })
	if err != nil || len(got) != 1 || got[0].URL != list[1].URL {
		t.Errorf("%+v, %v", got, err)
	}
	if _, _, err := x.Sitemap(list[0].URL); !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("the damaged one: %v", err)
	}
	if done, err := x.Commit([]*record.Outcome{{Sitemaps: list}}); err != nil || len(done.NewSitemaps) != 1 {
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
		s := record.Sitemap{URL: fmt.Sprintf("https://a.org/sitemap-%d.xml", i), State: record.SitemapRead, Time: 1, Locs: 50_000}
		if i == 49_999 {
			s.State = record.SitemapOpen
		}
		set = append(set, &record.Outcome{Sitemap: &s})
	}
	if _, err := x.Commit(set); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if list, _, err := x.Sitemaps("a.org", time.Now(), 8, func(string) bool { return false }); len(list) != 1 || err != nil {
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
		o.Sitemaps = append(o.Sitemaps, record.Sitemap{URL: fmt.Sprintf("https://a.org/%d", i), Level: 2})
	}
	o.Sitemaps = append(o.Sitemaps, record.Sitemap{URL: "https://b.org/1", Level: 3})
	narrowed := record.Sitemap{URL: "https://a.org/narrowed", State: record.SitemapRead, Level: 3, Outside: 1, Time: time.Now().Unix()}
	if _, err := x.Commit([]*record.Outcome{{Sitemap: &narrowed}, o}); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Commit([]*record.Outcome{{Sitemaps: []record.Sitemap{{URL: "https://a.org/more", Level: 1}}}}); err != nil {
		t.Fatal(err)
	}
	requireFull := func(what string) {
		t.Helper()
		if h, err := x.Host("a.org"); err != nil || h.Sitemaps != mostSitemaps {
			t.Errorf("%s: %d to be read, %v", what, h.Sitemaps, err)
		}
	}
	requireFull("named")
	if _, err := x.Commit([]*record.Outcome{{Sitemaps: []record.Sitemap{{URL: narrowed.URL, Level: 2}}}}); err != nil {
		t.Fatal(err)
	}
	requireFull("named further up")
	one := record.Sitemap{URL: "https://a.org/0", State: record.SitemapRead, Level: 2, Time: time.Now().Unix()}
	for _, want := range []int{0, 1} {
		if n, err := x.RereadSitemaps(t.Context(), (*record.Sitemap).Narrowed, nil); err != nil || n != want {
			t.Errorf("%d opened again, %v; want %d", n, err, want)
		}
		requireFull("opened again")
		if want == 0 { // there is room for one now
			if _, err := x.Commit([]*record.Outcome{{Sitemap: &one}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	read := record.Sitemap{URL: "https://b.org/1", State: record.SitemapRead, Level: 3, Time: time.Now().Unix()}
	for level, want := range map[uint8]record.SitemapState{3: record.SitemapRead, 2: record.SitemapOpen} {
		if _, err := x.Commit([]*record.Outcome{{Sitemap: &read}}); err != nil {
			t.Fatal(err)
		}
		if _, err := x.Commit([]*record.Outcome{{Sitemaps: []record.Sitemap{{URL: read.URL, Level: level}}}}); err != nil {
			t.Fatal(err)
		}
		if s, _, err := x.Sitemap(read.URL); err != nil || s.State != want {
			t.Errorf("named at level %d: %v, %v; want %v", level, s.State, err, want)
		}
	}
	if faults := faultsOf(t, x); len(faults) > 0 {
		t.Errorf("faults: %q", faults)
	}
}
