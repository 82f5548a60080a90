package repair

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"urltree/cleaner"
	"urltree/internal/testsite"
	"urltree/iut"
	"urltree/storage/record"
)

// Each way in which index, folders and results can disagree is one fault, which names the place.
func TestCheckFaults(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(s *testsite.Site, f cleaner.Files) error
		want  string // in the first fault; "": no fault
		n     int    // faults; 0: any number
	}{
		{"nothing", func(*testsite.Site, cleaner.Files) error { return nil }, "", 0},
		{"page gone", func(s *testsite.Site, _ cleaner.Files) error {
			return os.RemoveAll(filepath.Dir(s.File("http://a.org/x/", "source.txt")))
		}, "http://a.org/x/: the index calls it stored, its folder has no page", 1},
		{"page torn", func(s *testsite.Site, _ cleaner.Files) error {
			return os.Truncate(s.File("http://a.org/x", "content.html"), 3)
		}, "http://a.org/x: the index calls it stored, its folder does not hold it", 1},
		{"body changed", func(s *testsite.Site, _ cleaner.Files) error {
			name := s.File("http://a.org/x", "content.html")
			b := []byte(testsite.Read(t, name))
			b[0]++
			return os.WriteFile(name, b, 0o644)
		}, "http://a.org/x: the index calls it stored, its folder does not hold it", 1},
		{"two lines", func(s *testsite.Site, _ cleaner.Files) error {
			name := s.File("http://a.org/x", "source.txt")
			return os.WriteFile(name, []byte(testsite.Read(t, name)+testsite.Read(t, name)), 0o644)
		}, "2 lines", 2},
		{"other facts", func(s *testsite.Site, _ cleaner.Files) error {
			f, body, err := s.Tree.Load(iut.Facts{URL: "http://a.org/x"})
			f.PageDepth++
			return errors.Join(err, os.WriteFile(s.File("http://a.org/x", "source.txt"), f.AppendLine(nil), 0o644),
				os.WriteFile(s.File("http://a.org/x", "content.html"), body, 0o644))
		}, "http://a.org/x: index and folder differ", 1},
		{"foreign file", func(s *testsite.Site, _ cleaner.Files) error {
			return os.WriteFile(s.File("http://a.org/x", "notes"), nil, 0o644)
		}, "dr-x/notes: not of this program", 1},
		{"symbolic link", func(s *testsite.Site, _ cleaner.Files) error {
			return os.Symlink("/", s.File("http://a.org/x", "dr-root"))
		}, "dr-x/dr-root: not of this program", 1},
		{"seed without a record", func(s *testsite.Site, _ cleaner.Files) error {
			return testsite.AddSeeds(s.Tree, []string{"http://new.org/"})
		}, "", 0}, // the next start gives it one
		{"line of seeds.txt", func(s *testsite.Site, _ cleaner.Files) error {
			f, err := os.OpenFile(s.Path("seeds.txt"), os.O_APPEND|os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteString("no URL\nhttp://\x00\nhttp:///x\nhttp://new.org/\n")
				err = errors.Join(err, f.Close())
			}
			return err
		}, "seeds.txt: \"no URL\" is no URL", 3},
		{"index", func(s *testsite.Site, _ cleaner.Files) error {
			s.CloseIndex()
			defer s.OpenIndex()
			return testsite.UpdateBolt(s.Path(indexName), func(tx *bolt.Tx) error {
				k, _ := tx.Bucket([]byte("pending")).Cursor().First()
				return tx.Bucket([]byte("pending")).Delete(k)
			})
		}, "pending row", 2},
		{"line of res.txt changed", func(_ *testsite.Site, f cleaner.Files) error {
			return os.WriteFile(f.Res, []byte(strings.Replace(testsite.Read(t, f.Res), "2027", "2028", 1)), 0o644)
		}, "res.txt: line 1 is", 1},
		{"line of res.txt lost", func(_ *testsite.Site, f cleaner.Files) error { return testsite.CutLine(f.Res, "http://a.org/x\t") }, "res.txt: line 2 is", 1},
		{"last line of res.txt lost", func(_ *testsite.Site, f cleaner.Files) error { return testsite.CutLine(f.Res, "http://a.org/x/\t") }, "res.txt: line 3 is \"\"", 1},
		{"line too many in res2.txt", func(_ *testsite.Site, f cleaner.Files) error {
			return os.WriteFile(f.Res2, []byte(testsite.Read(t, f.Res2)+"http://z.org/\n"), 0o644)
		}, "res2.txt: line 7 is", 1},
		{"results of an earlier state", func(s *testsite.Site, f cleaner.Files) error {
			old := time.Unix(1_000_000_000, 0)
			return errors.Join(os.WriteFile(f.Res, nil, 0o644), os.Chtimes(f.Res, old, old))
		}, "", 0},
		{"no results", func(_ *testsite.Site, f cleaner.Files) error { return os.Remove(f.Res) }, "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := testsite.Small(t)
			f := filesIn(t, t.TempDir())
			if err := errors.Join(cleaner.Clean(context.Background(), cleaner.Steps{Index: s.Index, Files: f}), tt.spoil(s, f)); err != nil {
				t.Fatal(err)
			}
			var faults []string
			report, err := Check(context.Background(), s.Tree, s.Index, &testsite.Parser{}, CheckOptions{Links: true, Output: f.Res},
				func(text string) { faults = append(faults, text) })
			if err != nil || report.Faults != len(faults) || (len(faults) > 0) != (tt.want != "") || tt.n > 0 && len(faults) != tt.n {
				t.Fatalf("%+v, %v\n%s", report, err, strings.Join(faults, "\n"))
			}
			if tt.want != "" && !strings.Contains(faults[0], tt.want) {
				t.Errorf("got %q, want %q", faults, tt.want)
			}
		})
	}
}

// What a kill leaves is counted, and no fault.
func TestCheckLeftovers(t *testing.T) {
	s := testsite.Small(t)
	s.Write("http://a.org/later", "http://a.org/x", 2, "http://nowhere.org/")
	s.Write("http://c.org/", "http://a.org/", 1)
	if err := errors.Join(
		os.Remove(s.File("http://c.org/", "source.txt")),
		os.WriteFile(s.Path("tmp/1"), nil, 0o644),
	); err != nil {
		t.Fatal(err)
	}
	if err := testsite.AddSeeds(s.Tree, []string{"http://new.org/"}); err != nil {
		t.Fatal(err)
	}
	report := noFaults(t, s, CheckOptions{Links: true}, &testsite.Parser{})
	want := CheckReport{Records: 11, Pages: 4, Links: 7, Torn: 1, Unknown: 1, Temp: 1, Seeds: 1, NotRead: report.NotRead}
	if report != want {
		t.Errorf("got %+v, want %+v", report, want)
	}
	text := report.String()
	for _, part := range []string{"11 records", "4 pages", "7 links", "1 torn", "1 file in tmp", "result files not compared: res.txt is not there; ", "faults: 0"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in:\n%s", part, text)
		}
	}
}

// -links finds a link that has no record, but not on a page of which links were cut, nor one
// that scope rejects.
func TestCheckLinks(t *testing.T) {
	const page, lost = "http://a.org/new", "http://lost.org/"
	for _, tt := range []struct {
		name   string
		flags  string
		links  bool
		parser *testsite.Parser
		faults int
	}{
		{"lost", "-", true, &testsite.Parser{}, 1},
		{"not asked", "-", false, &testsite.Parser{}, 0},
		{"cut", "nc", true, &testsite.Parser{}, 0},
		{"other flags", "nt", true, &testsite.Parser{}, 1},
		{"out of scope", "-", true, &testsite.Parser{Hosts: map[string]bool{}}, 0},
		{"in scope", "-", true, &testsite.Parser{Hosts: map[string]bool{"lost.org": true}}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := testsite.Small(t)
			f := s.Write(page, "http://a.org/", 1, "http://a.org/x", lost)
			if err := os.Remove(s.File(page, "source.txt")); err != nil {
				t.Fatal(err)
			}
			f.Flags = tt.flags
			if err := os.WriteFile(s.File(page, "source.txt"), f.AppendLine(nil), 0o644); err != nil {
				t.Fatal(err)
			}
			s.Commit(&record.Outcome{ // without its links
				Row: record.Row{URL: page, Source: "http://a.org/", Depth: 1}, State: record.Stored, Page: f.Page,
			})
			var faults []string
			report, err := Check(context.Background(), s.Tree, s.Index, tt.parser, CheckOptions{Links: tt.links},
				func(text string) { faults = append(faults, text) })
			if err != nil || report.Faults != tt.faults {
				t.Fatalf("%+v, %v: %v", report, err, faults)
			}
			if tt.faults == 1 && faults[0] != lost+": named by "+page+", and has no record" {
				t.Errorf("got %q", faults)
			}
		})
	}
}

// noFaults checks the whole tree.
func noFaults(t testsite.Fataler, s *testsite.Site, opts CheckOptions, p Parser) CheckReport {
	var faults []string
	report, err := Check(context.Background(), s.Tree, s.Index, p, opts, func(f string) { faults = append(faults, f) })
	if err != nil || len(faults) > 0 || report.Faults != 0 {
		t.Fatalf("check: %v\n%s", err, strings.Join(faults, "\n"))
	}
	return report
}

func filesIn(t testsite.Fataler, dir string) cleaner.Files {
	f, err := cleaner.FilesFor("", filepath.Join(dir, "res.txt"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestCheckTells: a check tells what it does, and how much of the pages is done.
func TestCheckTells(t *testing.T) {
	s := testsite.Small(t)
	defer s.Close()
	var steps []string
	stored := s.Index.Totals().Stored
	opts := CheckOptions{Tell: func(what string, done, total int64) {
		if total != 0 && (total != stored || done >= total) {
			t.Errorf("%s: %d of %d, want of %d", what, done, total, stored)
		}
		if len(steps) == 0 || steps[len(steps)-1] != what {
			steps = append(steps, what)
		}
	}}
	if _, err := Check(t.Context(), s.Tree, s.Index, new(testsite.Parser), opts, nil); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(steps, ", "), "reading the index, reading pages, looking for other pages, reading the results"; got != want {
		t.Errorf("it told %q, want %q", got, want)
	}
}
