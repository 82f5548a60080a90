package repair

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"urltree/internal/testsite"
	"urltree/iut"
	"urltree/storage/record"
)

func mergeOptions(s *testsite.Site, output string) MergeOptions {
	return MergeOptions{
		Root: s.Root, Output: output, NoSync: true,
		Parser: func(iut.Format) (Parser, error) { return &testsite.Parser{}, nil },
	}
}

// A damaged index is kept beside the one that is made anew. What is whole in it is
// taken over; what only it knew else is pending again.
func TestMergeDamaged(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(path string) error
		kept  bool // the old file
		taken bool // all its records can be read
		sound bool // its structure; else what alone may have named a lost URL is asked again
	}{
		{"missing", os.Remove, false, false, false},
		{"cut off", func(path string) error { return os.Truncate(path, 20<<10) }, true, true, false},
		{"another file", func(path string) error { return os.WriteFile(path, []byte("what?"), 0o644) }, true, false, false},
		{"empty", func(path string) error { return os.Truncate(path, 0) }, true, false, false},
		{"counters wrong", func(path string) error {
			return testsite.UpdateBolt(path, func(tx *bolt.Tx) error {
				k, _ := tx.Bucket([]byte("pending")).Cursor().First()
				return tx.Bucket([]byte("pending")).Delete(k)
			})
		}, true, true, true},
		{"one value damaged", func(path string) error {
			return testsite.UpdateBolt(path, func(tx *bolt.Tx) error {
				k, _ := tx.Bucket([]byte("url")).Cursor().First()
				return tx.Bucket([]byte("url")).Put(k, []byte("x"))
			})
		}, true, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := testsite.Small(t)
			want := s.Index.Totals().Counts
			switch {
			case tt.taken && !tt.sound:
				want.Now, want.Redirected = want.Now+1, want.Redirected-1
			case !tt.taken:
				want = record.Counts{Now: 7, Stored: 3} // the tree names all but d.org, which only a redirect did
			}
			s.Close()
			if err := tt.spoil(s.Path(indexName)); err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile(s.Path(indexName))
			if err != nil && tt.kept {
				t.Fatal(err)
			}
			out := filepath.Join(t.TempDir(), "res.txt")
			report, err := Merge(context.Background(), mergeOptions(s, out))
			if err != nil {
				t.Fatal(err)
			}
			kept, _ := filepath.Glob(s.Path(indexName) + ".damaged-*")
			if tt.kept != (len(kept) == 1) || tt.kept && testsite.Read(t, kept[0]) != string(before) {
				t.Errorf("kept: %v", kept)
			}
			if tt.kept && !strings.Contains(report.String(), filepath.Base(kept[0])) {
				t.Errorf("the report does not name %s:\n%s", kept[0], report.String())
			}
			if c := report.Totals.Counts; c != want {
				t.Errorf("%+v, want %+v", c, want)
			}
			if got := testsite.Read(t, filesIn(t, filepath.Dir(out)).Statistics); strings.Contains(got, "DOES NOT HOLD") {
				t.Errorf("statistics:\n%s", got)
			}
			s.OpenTree()
			s.OpenIndex()
			noFaults(t, s, CheckOptions{Links: true, Output: out}, &testsite.Parser{})
		})
	}
}

// What is no damage is no reason to make the index anew, nor to touch anything.
func TestMergeRefuses(t *testing.T) {
	s := testsite.Small(t)
	before := s.Records()
	out := filepath.Join(t.TempDir(), "res.txt")
	opts := mergeOptions(s, out)
	if _, err := Merge(context.Background(), opts); !errors.Is(err, iut.ErrBusy) {
		t.Errorf("the tree is in use: %v", err)
	}
	s.Close()
	bad := errors.New("scope of another program")
	opts.Parser = func(iut.Format) (Parser, error) { return nil, bad }
	if _, err := Merge(context.Background(), opts); !errors.Is(err, bad) {
		t.Errorf("no parser: %v", err)
	}
	opts = mergeOptions(s, filepath.Join(s.Root, "statistics.txt"))
	if _, err := Merge(context.Background(), opts); err == nil {
		t.Error("res.txt would be statistics.txt")
	}
	opts = mergeOptions(s, out)
	opts.Root = filepath.Join(t.TempDir(), "none")
	if _, err := Merge(context.Background(), opts); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no tree: %v", err)
	}
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("results were written: %v", err)
	}
	s.OpenTree()
	s.OpenIndex()
	if !maps.Equal(s.Records(), before) {
		t.Error("the index was changed")
	}
}

// Runs, hours, outcomes and host times live on in an index that is whole.
func TestMergeIntact(t *testing.T) {
	s := testsite.Small(t)
	if _, _, _, err := s.Index.Runs().Begin(); err != nil {
		t.Fatal(err)
	}
	s.Commit(&record.Outcome{Host: &record.HostTimes{Name: "a.org", Next: 77}})
	if _, err := s.Index.Runs().Finish(); err != nil {
		t.Fatal(err)
	}
	if err := s.Index.Runs().PutHour(record.Hour{Run: 1, Hour: 1}); err != nil {
		t.Fatal(err)
	}
	before := s.Records()
	s.Close()
	report, err := Merge(context.Background(), mergeOptions(s, filepath.Join(t.TempDir(), "res.txt")))
	if err != nil || report.Index != "kept" || report.Pages != 3 {
		t.Fatalf("%+v, %v", report, err)
	}
	s.OpenTree()
	s.OpenIndex()
	if !maps.Equal(s.Records(), before) {
		t.Error("records changed")
	}
	if h, err := s.Index.Hosts().Get("a.org"); err != nil || h.Next != 77 {
		t.Errorf("host: %+v, %v", h, err)
	}
	if hours, err := s.Index.Runs().Hours(); err != nil || len(hours) != 1 {
		t.Errorf("hours: %v, %v", hours, err)
	}
	if run, unclean, last, err := s.Index.Runs().Begin(); err != nil || run.ID != 2 || !unclean || last != 1 {
		t.Errorf("next run: %+v, unclean %v up to %d, %v", run, unclean, last, err)
	}
}

// A defective page is neither taken for a whole one nor thrown away.
func TestMergeDefect(t *testing.T) {
	s := testsite.Small(t)
	name := s.File("http://a.org/x/", "source.txt")
	line := testsite.Read(t, name)
	if err := os.WriteFile(name, []byte(line+line), 0o644); err != nil {
		t.Fatal(err)
	}
	s.Close()
	report, err := Merge(context.Background(), mergeOptions(s, filepath.Join(t.TempDir(), "res.txt")))
	if err != nil || report.Defects != 1 || report.Reopened != 1 || report.Pages != 2 {
		t.Fatalf("%+v, %v", report, err)
	}
	if testsite.Read(t, name) != line+line {
		t.Error("the defect was hidden")
	}
	s.OpenTree()
	s.OpenIndex()
	if r, err := s.Index.Record("http://a.org/x/"); err != nil || r.State != record.Pending {
		t.Errorf("%+v, %v", r, err)
	}
}

// The page of a seed whose body is not what its source.txt says is no page: it widens no scope,
// and is pending again like any other. This holds when the index calls it stored as well.
func TestMergeTornSeed(t *testing.T) {
	for _, there := range []bool{false, true} {
		s := testsite.New(t, filepath.Join(t.TempDir(), "iut"))
		s.Seed("http://a.org/")
		s.Store("http://a.org/", record.Seed, 0, "http://b.org/x")
		s.Store("http://b.org/", record.Seed, 0) // target of a seed's redirect
		if err := tornBy["other content"](s, "http://b.org/"); err != nil {
			t.Fatal(err)
		}
		s.Close()
		if !there {
			if err := os.Remove(s.Path(indexName)); err != nil {
				t.Fatal(err)
			}
		}
		opts := mergeOptions(s, filepath.Join(t.TempDir(), "res.txt"))
		opts.Parser = func(iut.Format) (Parser, error) { return &testsite.Parser{Hosts: map[string]bool{}}, nil }
		report, err := Merge(context.Background(), opts)
		if err != nil || report.Pages != 1 || report.Damaged != 1 {
			t.Fatalf("%+v, %v", report, err)
		}
		s.OpenTree()
		s.OpenIndex()
		for url, want := range map[string]bool{"http://a.org/": true, "http://b.org/": there, "http://b.org/x": there} {
			if has, err := s.Index.Has([]string{url}); err != nil || has[0] != want {
				t.Errorf("index there %v: %s has a record: %v, %v", there, url, has, err)
			}
		}
		noFaults(t, s, CheckOptions{Links: true, Output: opts.Output}, &testsite.Parser{Hosts: map[string]bool{}})
		s.Close()
	}
}

// TestMergeKeepsDamagedPages spoils pages that the index calls stored: merge keeps what it finds
// under other names, check has nothing against them, and the page is stored anew beside them.
func TestMergeKeepsDamagedPages(t *testing.T) {
	t.Parallel()
	const url = "http://a.org/x"
	flip := func(name string, at int) error {
		text, err := os.ReadFile(name)
		if err == nil {
			text[at] ^= 4
			err = os.WriteFile(name, text, 0o644)
		}
		return err
	}
	for _, tt := range []struct {
		name    string
		noIndex bool
		spoil   func(content, source string) error
		kept    []string
	}{
		{"a bit of the body", false, func(content, _ string) error { return flip(content, 1) }, []string{"content.html", "source.txt"}},
		{"a bit of the body, no index", true, func(content, _ string) error { return flip(content, 1) }, []string{"content.html", "source.txt"}},
		{"a bit of the facts, no index", true, func(_, source string) error { return flip(source, 30) }, []string{"content.html", "source.txt"}},
		{"body gone", false, func(content, _ string) error { return os.Remove(content) }, []string{"source.txt"}},
		{"facts gone", false, func(_, source string) error { return os.Remove(source) }, []string{"content.html"}},
		{"facts gone, no index, as a kill leaves it", true, func(_, source string) error { return os.Remove(source) }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := testsite.Small(t)
			content, source := s.File(url, "content.html"), s.File(url, "source.txt")
			if err := tt.spoil(content, source); err != nil {
				t.Fatal(err)
			}
			want := map[string]string{}
			for _, name := range tt.kept {
				want[name+".damaged"] = testsite.Read(t, s.File(url, name))
			}
			s.Close()
			if tt.noIndex {
				if err := os.Remove(s.Path(indexName)); err != nil {
					t.Fatal(err)
				}
			}
			out := filepath.Join(t.TempDir(), "res.txt")
			for round := range 2 { // the second time it has nothing to do
				report, err := Merge(context.Background(), mergeOptions(s, out))
				if err != nil {
					t.Fatal(err)
				}
				if n := min(len(tt.kept), 1); round == 0 && (report.Damaged != n || report.Torn != 1-n) || round == 1 && report.Damaged+report.Torn > 0 {
					t.Errorf("merge %d: %s", round+1, report.String())
				}
			}
			s.OpenTree()
			s.OpenIndex()
			noFaults(t, s, CheckOptions{Links: true, Output: out}, &testsite.Parser{})
			rec, err := s.Index.Record(url)
			if err != nil || rec.State != record.Pending {
				t.Errorf("%s: %v, %v; want it pending", url, rec.State, err)
			}
			s.Store(url, rec.Source, rec.Depth)
			noFaults(t, s, CheckOptions{Links: true, Output: out}, &testsite.Parser{})
			got := map[string]string{}
			entries, err := os.ReadDir(filepath.Dir(content))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if strings.HasSuffix(e.Name(), ".damaged") {
					got[e.Name()] = testsite.Read(t, filepath.Join(filepath.Dir(content), e.Name()))
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("kept %q, want %q", got, want)
			}
		})
	}
}

// TestMergeTells: a merge tells what it does, of an index that is there and of one that is not.
func TestMergeTells(t *testing.T) {
	s := testsite.Small(t)
	s.Close()
	for _, tt := range []struct{ index, want string }{
		{"there", "reading the index, looking at pages, comparing URLs with their pages, writing the index and the results"},
		{"gone", "looking at pages, comparing URLs with their pages, reading pages, writing the index and the results"},
	} {
		if tt.index == "gone" {
			if err := os.Remove(s.Path("index.db")); err != nil {
				t.Fatal(err)
			}
		}
		var steps []string
		opts := mergeOptions(s, filepath.Join(t.TempDir(), "res.txt"))
		opts.Tell = func(what string, _, _ int64) {
			if len(steps) == 0 || steps[len(steps)-1] != what {
				steps = append(steps, what)
			}
		}
		if _, err := Merge(t.Context(), opts); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(steps, ", "); got != tt.want {
			t.Errorf("%s: it told %q, want %q", tt.index, got, tt.want)
		}
	}
}
