package cleaner

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"

	"urltree/internal/testsite"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

func TestFilesFor(t *testing.T) {
	dir := t.TempDir()
	tree, link := filepath.Join(dir, "iut"), filepath.Join(dir, "link")
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "b", "out.statistics.txt"), 0o777), os.MkdirAll(filepath.Join(tree, "tmp"), 0o777),
		os.Mkdir(tree+"2", 0o777), os.Symlink(filepath.Join("iut", "tmp"), link)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, output string
		want         string // of res2.txt; "": an error
	}{
		{"default", "", "res2.txt"},
		{"plain", "out.txt", "out2.txt"},
		{"another ending", "./A.tsv", "A2.tsv"},
		{"two dots", "a.b.tsv", "a.b2.tsv"},
		{"a dot first", ".res", ".res2"},
		{"folder before it", filepath.Join(dir, "a", "out"), filepath.Join(dir, "a", "out2")},
		{"default elsewhere", filepath.Join(dir, "a.b", "res.txt"), filepath.Join(dir, "a.b", "res2.txt")},
		{"res2.txt", "res2.txt", ""},
		{"other capitals", filepath.Join(dir, "RES2.txt"), ""},
		{"statistics", "./statistics.txt", ""},
		{"hourly", "hourly_statistics.txt", ""},
		{"a folder", dir, ""},
		{"a folder to be", dir + "/new/", ""},
		{"a folder beside it", filepath.Join(dir, "b", "out"), ""},
		{"in the tree", filepath.Join(tree, "index.db"), ""},
		{"below the tree", filepath.Join(tree, "tmp", "out"), ""},
		{"a link into the tree", filepath.Join(link, "out"), ""},
		{"beside the tree", filepath.Join(dir, "out"), filepath.Join(dir, "out2")},
		{"a name that begins like the tree", filepath.Join(tree+"2", "out"), filepath.Join(tree+"2", "out2")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := FilesFor(tree, tt.output)
			if (err != nil) != (tt.want == "") || f.Res2 != tt.want {
				t.Fatalf("FilesFor(%q) = %+v, %v; want res2 %q", tt.output, f, err, tt.want)
			}
			names := []string{f.Res, f.Res2, f.Statistics, f.Hourly}
			slices.Sort(names)
			if err == nil && len(slices.Compact(names)) != 4 {
				t.Fatalf("FilesFor(%q) = %+v: two files have one name", tt.output, f)
			}
		})
	}
}

// TestSideFiles checks the names beside an output, and that those of res.txt are as they always
// were.
func TestSideFiles(t *testing.T) {
	for output, want := range map[string]Files{
		"res.txt":   {Res: "res.txt", Res2: "res2.txt", Statistics: "statistics.txt", Hourly: "hourly_statistics.txt"},
		"A.tsv":     {Res: "A.tsv", Res2: "A2.tsv", Statistics: "A.statistics.txt", Hourly: "A.hourly_statistics.txt"},
		"x.y/B.txt": {Res: "x.y/B.txt", Res2: "x.y/B2.txt", Statistics: "x.y/B.statistics.txt", Hourly: "x.y/B.hourly_statistics.txt"},
	} {
		if f, err := FilesFor("", output); err != nil || f != want {
			t.Errorf("%s: %+v, %v", output, f, err)
		}
	}
}

func TestWriteResults(t *testing.T) {
	s := testsite.Small(t)
	f := filesIn(t, t.TempDir())
	// Somebody's files beside them, with names that others take for temporary ones, stay as they
	// are.
	for _, err := range []error{
		os.WriteFile(f.Res, nil, 0o644), os.WriteFile(f.Res2, []byte(res2Title+"http://old.org/\tseed\t0\t0\tnot asked yet\n"), 0o644),
		os.WriteFile(f.Res+".new", []byte("mine"), 0o644), os.Symlink(f.Res+".new", f.Res2+".new"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := writeResults(context.Background(), s.Index, f); err != nil {
		t.Fatal(err)
	}
	want := ""
	for _, url := range []string{"http://a.org/", "http://a.org/x", "http://a.org/x/"} {
		want += testsite.Read(t, s.File(url, "source.txt"))
	}
	if got := testsite.Read(t, f.Res); got != want {
		t.Errorf("res.txt:\n%swant, from the folders:\n%s", got, want)
	}
	want = `URL	source URL	depth	tries	reason
http://a.org/held	http://a.org/x	2	0	scope
http://a.org/later	http://a.org/x	2	2	503
http://a.org/seed	seed	0	0	not asked yet
http://c.org/	http://a.org/	1	0	not asked yet
http://d.org/	seed	0	0	not asked yet
`
	if got := testsite.Read(t, f.Res2); got != want {
		t.Errorf("res2.txt:\n%swant:\n%s", got, want)
	}
	if got := testsite.Read(t, f.Res+".new"); got != "mine" {
		t.Errorf("a file that is not ours was written: %q", got)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(f.Res), "*.new")); len(left) != 2 {
		t.Errorf("left: %v", left)
	}
}

// A result file that cannot be written is a disk error, and the older one stays.
func TestWriteResultsDisk(t *testing.T) {
	s := testsite.Small(t)
	dir := t.TempDir()
	for _, tt := range []struct {
		name string
		trap func(f Files) error
	}{
		{"no folder", func(Files) error { return os.Remove(dir) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir = t.TempDir()
			f := filesIn(t, dir)
			if err := tt.trap(f); err != nil {
				t.Fatal(err)
			}
			err := writeResults(context.Background(), s.Index, f)
			if !errors.Is(err, iut.ErrDisk) {
				t.Fatalf("got %v, want a disk error", err)
			}
		})
	}
	f := filesIn(t, t.TempDir())
	if err := os.WriteFile(f.Res, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if err := writeResults(ctx, s.Index, f); !errors.Is(err, context.Canceled) || testsite.Read(t, f.Res) != "" {
		t.Fatalf("cancelled: %v, res.txt %q", err, testsite.Read(t, f.Res))
	}
}

// A full disk is named as such, however late it is met.
func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no device that is always full:", err)
	}
	defer full.Close()
	s := testsite.Small(t)
	o := &outFile{name: "res.txt", stream: full, w: bufio.NewWriterSize(full, 16)}
	_, err = scanRecords(context.Background(), s.Index, o, io.Discard, nil)
	if !errors.Is(err, iut.ErrDisk) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v", err)
	}
}

func BenchmarkWriteResults(b *testing.B) {
	const n = 200_000
	s := testsite.New(b, filepath.Join(b.TempDir(), "iut"))
	defer s.Close()
	for i := 0; i < n; {
		var set []*record.Outcome
		for range 5000 {
			url := fmt.Sprintf("http://www.example.org/docs/%d/some-page-name-%d.html", i%100, i)
			set = append(set, &record.Outcome{
				Row:   record.Row{URL: url, Source: "http://www.example.org/docs/index.html", Depth: 3},
				State: record.Stored,
				Page:  record.Page{Time: 1_800_000_000, Status: 200, Bytes: 24_000, Media: "text/html", Charset: "utf-8", Flags: "-", PageDepth: 3},
				Links: []record.Link{{URL: url + "?", Source: url, Depth: 4}},
			})
			i++
		}
		s.Commit(set...)
	}
	f := filesIn(b, b.TempDir())
	for b.Loop() {
		if err := writeResults(context.Background(), s.Index, f); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(2*n)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}

// TestCleanTellsOfDamage cleans up with an index that lacks something: the results are written, and
// the error says that they lack it too.
func TestCleanTellsOfDamage(t *testing.T) {
	first := func(tx *bolt.Tx) (*bolt.Bucket, []byte, []byte) {
		b := tx.Bucket([]byte("url"))
		k, value := b.Cursor().First()
		return b, k, value
	}
	for _, tt := range []struct {
		name  string
		spoil func(tx *bolt.Tx) error
		want  string
	}{
		{"nothing", func(*bolt.Tx) error { return nil }, ""},
		{"a bit of a record", func(tx *bolt.Tx) error {
			b, k, value := first(tx)
			value = bytes.Clone(value)
			value[len(value)/2] ^= 4
			return b.Put(k, value)
		}, "1 of 11 records cannot be read"},
		{"a record gone", func(tx *bolt.Tx) error {
			b, k, _ := first(tx)
			return b.Delete(k)
		}, "by its counters it has 11 records, 3 of them stored, and a scan finds 10 and "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := testsite.Small(t)
			s.Close()
			if err := testsite.UpdateBolt(s.Path("index.db"), tt.spoil); err != nil {
				t.Fatal(err)
			}
			s.OpenTree()
			s.OpenIndex()
			f := filesIn(t, t.TempDir())
			err := Clean(context.Background(), Steps{Index: s.Index, Files: f})
			if damaged := errors.Is(err, record.ErrDamaged); damaged != (tt.want != "") || damaged && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if testsite.Read(t, f.Res) == "" || strings.Contains(testsite.Read(t, f.Statistics), "DOES NOT HOLD") != (tt.want != "") {
				t.Errorf("the results are not written:\n%s", testsite.Read(t, f.Statistics))
			}
		})
	}
}

// writeResults writes both lists into their places, as Clean does.
func writeResults(ctx context.Context, index *storage.Index, f Files) error {
	_, err := writeLists(ctx, index, f)
	return err
}

func writeLists(ctx context.Context, index *storage.Index, f Files) (*lists, error) {
	l, err := listRecords(ctx, index, f, nil, nil)
	if err != nil {
		return nil, err
	}
	return l, errors.Join(l.res.commit(ctx), l.res2.commit(ctx))
}

func filesIn(t testsite.Fataler, dir string) Files {
	f, err := FilesFor("", filepath.Join(dir, "res.txt"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}
