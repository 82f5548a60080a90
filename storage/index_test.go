package storage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"urltree/internal/seen"

	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// newIndex makes an index with n stored and n pending URLs.
func newIndex(t *testing.T, n int) (*Index, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "index.db")
	if err := Create(path); err != nil {
		t.Fatal(err)
	}
	x := open(t, path, Options{NoSync: true, Strict: true})
	var set []*record.Outcome
	for i := range n {
		url := fmt.Sprintf("http://host%d.org/%d", i%7, i)
		set = append(set, &record.Outcome{
			Row: record.Row{URL: url, Source: record.Seed}, State: record.Stored, Page: record.Page{Status: 200, Bytes: 1}, Meta: &record.Meta{Title: url},
			Links: []record.Link{{URL: url + "/", Source: url, Depth: 1}},
		})
	}
	if _, err := x.Commit(set); err != nil {
		t.Fatal(err)
	}
	return x, path
}

func open(t *testing.T, path string, opts Options) *Index {
	t.Helper()
	x, err := Open(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

func faultsOf(t *testing.T, x *Index) (faults []string) {
	t.Helper()
	if _, err := x.Verify(context.Background(), func(f string) { faults = append(faults, f) }); err != nil {
		t.Fatal(err)
	}
	return faults
}

// A start learns how the last run ended, and up to which run rows may have pages in the tree.
func TestUnclean(t *testing.T) {
	type step struct {
		do      string
		unclean bool // what the next Begin tells
		last    uint32
	}
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"clean runs", []step{{"finish", false, 0}, {"finish", false, 0}, {"", false, 0}}},
		{"killed", []step{{"kill", false, 0}, {"finish", true, 1}, {"", false, 1}}},
		{"killed twice", []step{{"kill", false, 0}, {"kill", true, 1}, {"finish", true, 2}, {"", false, 2}}},
		{"merged before the first run", []step{{"merge", false, 0}, {"finish", true, 0}, {"", false, 0}}},
		{"merged", []step{{"finish", false, 0}, {"merge", false, 0}, {"finish", true, 1}, {"", false, 1}}},
		{"killed, then merged", []step{{"kill", false, 0}, {"merge", false, 0}, {"", true, 1}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x, path := newIndex(t, 1)
			id := uint32(0)
			for i, s := range tt.steps {
				if s.do == "merge" {
					if err := x.Runs().MarkUnclean(); err != nil {
						t.Fatal(err)
					}
				} else {
					run, unclean, last, err := x.Runs().Begin()
					id++
					if err != nil || unclean != s.unclean || last != s.last || run.ID != id {
						t.Fatalf("step %d: run %d, unclean %v up to %d, %v; want %d, %v, %d", i, run.ID, unclean, last, err, id, s.unclean, s.last)
					}
				}
				if s.do == "finish" {
					if run, err := x.Runs().Finish(); err != nil || !run.Clean {
						t.Fatalf("finish: %+v, %v", run, err)
					}
				}
				if err := x.Close(); err != nil {
					t.Fatal(err)
				}
				x = open(t, path, Options{NoSync: true})
			}
			runs, err := x.Runs().All()
			if err != nil || len(runs) != int(id) {
				t.Fatalf("%d runs, %v; want %d", len(runs), err, id)
			}
		})
	}
}

// TestReleasedKeepsRun: a run is killed after it wrote a page and before it committed that; the
// next one holds the URL and ends cleanly. Who releases it must look for the page in the tree,
// whether that run made the URL's row or a rebuild before all runs did.
func TestReleasedKeepsRun(t *testing.T) {
	t.Run("row of a run", func(t *testing.T) { releasedKeepsRun(t, false) })
	t.Run("row of a rebuild", func(t *testing.T) { releasedKeepsRun(t, true) })
}

func releasedKeepsRun(t *testing.T, rebuilt bool) {
	x, _ := newIndex(t, 0)
	begin := func() (lastUnclean uint32) {
		_, _, lastUnclean, err := x.Runs().Begin()
		if err != nil {
			t.Fatal(err)
		}
		return lastUnclean
	}
	commit := func(o *record.Outcome) record.Row {
		done, err := x.Commit([]*record.Outcome{o})
		if err != nil {
			t.Fatal(err)
		}
		if done.Next[0].URL != "" {
			return done.Next[0]
		}
		return done.Fresh[0]
	}
	if !rebuilt {
		begin() // killed
	}
	row := commit(&record.Outcome{Links: []record.Link{{URL: "http://a.org/", Source: record.Seed}}})
	if rebuilt {
		begin() // killed
	}
	begin()
	held := &record.Outcome{Row: row, State: record.Pending, Next: row}
	held.Next.Range, held.Next.Reason = record.Held, "scope"
	row = commit(held)
	if _, err := x.Runs().Finish(); err != nil {
		t.Fatal(err)
	}
	last := begin()
	released := &record.Outcome{Row: row, State: record.Pending, Next: row}
	released.Next.Range, released.Next.Reason = record.Now, ""
	if row = commit(released); row.Range != record.Now || row.Run > last {
		t.Errorf("the row is of run %d, those up to %d are looked up", row.Run, last)
	}
}

func TestHours(t *testing.T) {
	x, path := newIndex(t, 1)
	want := []record.Hour{
		{Run: 1, Hour: 1, Time: 5, Stored: 3, Rows: map[string][2]int64{"frontier": {4, 2}}},
		{Run: 1, Hour: 2, Time: 6},
		{Run: 2, Hour: 1, Time: 7},
	}
	for _, h := range []record.Hour{want[2], {Run: 1, Hour: 1}, want[1], want[0]} {
		if err := x.Runs().PutHour(h); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := open(t, path, Options{ReadOnly: true}).Runs().Hours()
	if err != nil || !slices.EqualFunc(got, want, func(a, b record.Hour) bool {
		return fmt.Sprint(a) == fmt.Sprint(b)
	}) {
		t.Fatalf("got %+v, %v; want %+v", got, err, want)
	}
}

// With a filter that lacks what is durable, a put would replace a record: Strict refuses, and
// nothing of the set is written.
func TestStrictPut(t *testing.T) {
	x, path := newIndex(t, 1)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	x = open(t, path, Options{NoSync: true, Strict: true})
	x.Filter().SetComplete() // which is a lie
	if _, _, _, err := x.Runs().Begin(); err != nil {
		t.Fatal(err)
	}
	before := x.Totals()
	_, err := x.Commit([]*record.Outcome{{Links: []record.Link{{URL: "http://new.org/", Source: "http://a.org/"}, {URL: "http://host0.org/0", Source: "http://a.org/"}}}})
	if err == nil {
		t.Fatal("a known URL was put as a new one")
	}
	if has, err := x.Has([]string{"http://new.org/"}); err != nil || has[0] || x.Totals() != before || x.Filter().Lookup(x.Filter().Fingerprint("http://new.org/")) != seen.Unknown {
		t.Fatalf("half of the set is there: %v, %v, %+v", has, err, x.Totals())
	}
}

// An outcome for a URL that has one already, as a repeat after a crash brings it, changes nothing.
func TestClosedStaysClosed(t *testing.T) {
	x, _ := newIndex(t, 1)
	const url = "http://host0.org/0"
	rec, err := x.Record(url)
	if err != nil || rec.State != record.Stored {
		t.Fatal(rec, err)
	}
	totals := x.Totals()
	for _, o := range []record.Outcome{
		{State: record.Stored, Page: record.Page{Status: 203, Bytes: 2}},
		{State: record.Failed, Reason: "http-4xx"},
		{State: record.Refused, Reason: "type"},
		{State: record.Redirected, Page: record.Page{Status: 301}},
		{State: record.Pending, Next: record.Row{Range: record.Now}},
	} {
		o.Row = record.Row{URL: url, Source: record.Seed, Tries: 3}
		done, err := x.Commit([]*record.Outcome{&o})
		if err != nil || len(done.Fresh) > 0 || done.Next[0].Range != 0 {
			t.Errorf("%v: %+v, %v", o.State, done, err)
		}
		if got, err := x.Record(url); err != nil || got != rec || x.Totals() != totals {
			t.Errorf("%v has replaced the rec: %+v, want %+v, %v", o.State, got, rec, err)
		}
	}
}

// Of four links to a host with room for one, one is eligible, one held, and two get no record:
// they must stay unknown, or no later run would take them.
func TestHeldAndCut(t *testing.T) {
	x, path := newIndex(t, 0)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	x = open(t, path, Options{NoSync: true, Strict: true, Limits: Limits{Host: 1, MaxHeld: 1}})
	x.Filter().SetComplete()
	var links []record.Link
	for i := range 4 {
		links = append(links, record.Link{URL: fmt.Sprintf("http://a.org/%d", i), Source: "http://b.org/"})
	}
	done, err := x.Commit([]*record.Outcome{{Links: links}})
	if err != nil || len(done.Fresh) != 1 || done.New != 2 || done.Cut != 2 {
		t.Fatalf("%+v, %v; want 1 eligible, 2 new, 2 cut", done, err)
	}
	if c := x.Totals().Counts; c.Now != 1 || c.Held != 1 || c.Open() != 1 {
		t.Errorf("counts %+v, want 1 now and 1 held", c)
	}
	hosts, _, err := x.Queues().NextHosts("", 9)
	if err != nil || len(hosts) != 1 || hosts[0].Now != 1 || hosts[0].Held != 1 {
		t.Errorf("hosts %+v, %v; want 1 now and 1 held", hosts, err)
	}
	for i, l := range links {
		known := x.Filter().Lookup(x.Filter().Fingerprint(l.URL)) == seen.Known
		if has, err := x.Has([]string{l.URL}); err != nil || has[0] != (i < 2) || known != has[0] {
			t.Errorf("%s: record %v, mark %v, %v", l.URL, has, known, err)
		}
	}
	if faults := faultsOf(t, x); len(faults) > 0 {
		t.Error(faults)
	}
}

// With a filter that has no room for what it should know, each URL is new once, whoever asks and
// whatever is said twice in a set, and what was not committed stays unknown.
func TestFilterOverflows(t *testing.T) {
	x, path := newIndex(t, 0)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	for reopened := range 2 {
		x = open(t, path, Options{NoSync: true, Strict: true, SeenMemory: 1})
		if err := x.LoadFilter(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := x.Runs().Begin(); err != nil {
			t.Fatal(err)
		}
		const sets, size = 20, 500
		link := func(n int) record.Link {
			return record.Link{URL: fmt.Sprintf("http://a.org/%d", n), Source: "http://b.org/", Depth: 1}
		}
		for n := range sets {
			var links []record.Link
			for i := range size {
				links = append(links, link(n*size+i), link(n*size+i), link((n*size+i)*7/8))
			}
			got, err := x.Commit([]*record.Outcome{{Links: links}})
			want := size
			if reopened > 0 {
				want = 0
			}
			if err != nil || got.New != want {
				t.Fatalf("opening %d, set %d: %d new, want %d; %v", reopened, n, got.New, want, err)
			}
		}
		if x.Totals().Records() != sets*size {
			t.Errorf("%d records, want %d", x.Totals().Records(), sets*size)
		}
		stats := x.Filter().Stats()
		if stats.Turned == 0 || stats.BloomHits == 0 || stats.Confirmed+stats.FalsePositives != stats.Asked {
			t.Errorf("the index was not asked as it should: %+v", stats)
		}
		var lost []record.Link // with some that a Bloom filter takes for known
		for n := range 2000 {
			lost = append(lost, link(sets*size+n))
		}
		if _, err := x.Commit([]*record.Outcome{{Links: append(lost, record.Link{URL: "no URL", Source: record.Seed})}}); err == nil {
			t.Fatal("committed what is no URL")
		}
		for _, l := range lost {
			if x.Filter().Lookup(x.Filter().Fingerprint(l.URL)) == seen.Known {
				t.Fatalf("%s is known, and not durable", l.URL)
			}
		}
		if after := x.Filter().Stats(); after.FalsePositives == stats.FalsePositives {
			t.Errorf("no test: no false positive among %d", len(lost))
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A redirect back opens a URL that has only redirected so far, at most twice: a pair of URLs that
// redirect to each other comes to an end.
func TestReopenTwice(t *testing.T) {
	x, _ := newIndex(t, 0)
	const url, other = "http://a.org/", "http://a.org/login"
	row := record.Row{URL: url, Source: record.Seed}
	for i := range 4 {
		o := &record.Outcome{Row: row, State: record.Redirected, Page: record.Page{Status: 302}}
		back := &record.Outcome{
			Row: record.Row{URL: other, Source: record.Seed}, State: record.Redirected,
			Links: []record.Link{{URL: url, Source: record.Seed, Via: other, Hops: 2, Cookie: true}},
		}
		if _, err := x.Commit([]*record.Outcome{o}); err != nil {
			t.Fatal(err)
		}
		done, err := x.Commit([]*record.Outcome{back})
		if err != nil {
			t.Fatal(err)
		}
		if again := len(done.Fresh) == 1; again != (i < 2) {
			t.Fatalf("redirect back %d: %+v", i+1, done)
		}
	}
	// A page that came in between is not asked again.
	if _, err := x.Commit([]*record.Outcome{{Row: record.Row{URL: "http://b.org/", Source: record.Seed}, State: record.Stored}}); err != nil {
		t.Fatal(err)
	}
	done, err := x.Commit([]*record.Outcome{{Links: []record.Link{{URL: "http://b.org/", Source: record.Seed, Via: other, Cookie: true}}}})
	if err != nil || len(done.Fresh) != 0 {
		t.Fatalf("a stored page: %+v, %v", done, err)
	}
	if faults := faultsOf(t, x); len(faults) > 0 {
		t.Error(faults)
	}
}

func TestCompact(t *testing.T) {
	rows, times := 3000, 10
	if testing.Short() {
		rows, times = 1000, 4
	}
	x, path := newIndex(t, rows)
	before := x.Totals()
	for range times { // leaves many free pages
		if _, err := x.Reopen(context.Background(), nil, func(*record.Record) bool { return false }, nil); err != nil {
			t.Fatal(err)
		}
	}
	x.Close()
	old, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := boltfile.Compact(path, false); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Size() > old.Size() {
			t.Fatalf("%d bytes became %d, %v", old.Size(), info.Size(), err)
		}
		x = open(t, path, Options{NoSync: true})
		if faults := faultsOf(t, x); len(faults) > 0 || x.Totals() != before {
			t.Fatalf("%v, totals %+v, want %+v", faults, x.Totals(), before)
		}
		if err := boltfile.Compact(path, false); err == nil {
			t.Fatal("compacted while open")
		}
		x.Close()
	}
}
