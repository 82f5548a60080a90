package mirror

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A visit is a run into a folder.
type visit struct {
	t   *testing.T
	dir string
}

// run receives a stream of files, and entries behind them, and returns how many were removed.
func (v *visit) run(part Part, files []string, behind ...Entry) int64 {
	v.t.Helper()
	whole, err := io.ReadAll(stream(v.t, files...))
	if err != nil {
		v.t.Fatal(err)
	}
	b := bytes.NewBuffer(whole)
	out := bufio.NewWriter(b)
	for _, e := range behind {
		err = errors.Join(err, (&Writer{out}).Entry(e))
	}
	f, openErr := Open(v.dir, part)
	if err = errors.Join(err, out.Flush(), openErr); err != nil {
		v.t.Fatal(err)
	}
	if err := errors.Join(f.Receive(v.t.Context(), bufio.NewReader(b)), f.Close()); err != nil {
		v.t.Fatal(err)
	}
	return f.Removed.Load()
}

// has checks which files are there besides the marker.
func (v *visit) has(when string, want ...string) {
	v.t.Helper()
	all := listed(v.t, v.dir)
	delete(all, marker)
	delete(all, startName(1))
	if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, want) {
		v.t.Errorf("%s: %q, want %q", when, got, want)
	}
}

func (v *visit) write(name, text string) {
	v.t.Helper()
	if err := os.WriteFile(filepath.Join(v.dir, name), []byte(text), 0o666); err != nil {
		v.t.Fatal(err)
	}
}

var last = Entry{Last: true}

// TestRemoved: a whole run removes what earlier ones have written and it has not, with the folders
// that are empty then, and nothing else.
func TestRemoved(t *testing.T) {
	v := &visit{t, filepath.Join(t.TempDir(), "copy")}
	files := []string{"a", "1", "b", "2", "c/d/e", "3", "c/f", "4", "g/h", "5", "i", "6", "j", "7"}
	v.run(Part{}, files, last)
	v.write("b", "changed by its user")
	v.write("c/mine", "of its user")
	v.write("c/f/../f", "4") // as it was
	for _, name := range []string{"i", "j"} {
		if err := os.Remove(filepath.Join(v.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Join(v.dir, "i"), 0o777), os.Symlink("a", filepath.Join(v.dir, "j"))); err != nil {
		t.Fatal(err)
	}
	v.write("i/mine", "of its user")
	if n := v.run(Part{}, files[:2], last); n != 3 {
		t.Errorf("%d files removed", n)
	}
	v.has("then", "a", "b", "c/mine", "i/mine", "j")
	for _, dir := range []string{"c/d", "g"} {
		if _, err := os.Stat(filepath.Join(v.dir, dir)); err == nil {
			t.Errorf("the empty folder %s is there", dir)
		}
	}
	v.write("b", "2")
	if n := v.run(Part{}, files[:2], last); n != 0 {
		t.Errorf("%d files removed that were given up", n)
	}
}

// TestNotRemoved: nothing is removed by a run of a part that another part's run has written, by one
// of some pages, by one that did not end, and no file whose page cannot be read.
func TestNotRemoved(t *testing.T) {
	v := &visit{t, filepath.Join(t.TempDir(), "copy")}
	v.run(Part{Name: "http://a/x/"}, []string{"x1", "1", "x2", "2"}, last)
	v.run(Part{Name: "http://a/y/"}, []string{"y1", "1", "y2", "2"}, last)
	v.has("another part", "x1", "x2", "y1", "y2")
	v.run(Part{Name: "http://a/y/", Timed: true}, nil, last)
	v.run(Part{Timed: true}, []string{"x2", "2"}, last)
	v.run(Part{}, nil)
	v.run(Part{}, nil, Entry{Stays: true}, last)
	v.run(Part{}, nil, Entry{Name: "x1", Stays: true}, Entry{Name: "x2", Stays: true}, Entry{Stays: true}, last)
	v.has("runs of some", "x1", "x2", "y1", "y2")
	v.run(Part{Name: "http://a/y/"}, []string{"y1", "1"}, Entry{Name: "none", Stays: true}, last)
	v.has("the same part", "x1", "x2", "y1")
	v.run(Part{}, nil, Entry{Name: "x1", Stays: true}, last)
	v.has("all, but for one that cannot be read", "x1")
	v.run(Part{}, nil, last)
	v.has("all")
}

// TestDamagedList: lines that no mirror has written are left out, whatever their bytes, and nothing
// outside of the folder goes for them.
func TestDamagedList(t *testing.T) {
	parent := t.TempDir()
	v := &visit{t, filepath.Join(parent, "copy")}
	v.run(Part{}, []string{"a", "1", "b", "2"}, last)
	mine := filepath.Join(parent, "mine")
	if err := os.WriteFile(mine, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(v.dir, written)
	list, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	empty := fmt.Sprintf("%x", sha256.Sum256(nil))
	for _, bad := range []string{"../mine", "x/../../mine", mine, ".", "", "/", "x//y", "\xff\xfe", "a\x00b", "\x1b[31m", strings.Repeat("x", 300)} {
		list = fmt.Appendf(list, "%s\t\t%s\n", empty, bad)
	}
	list = append(list, "\x00\x01\xff\n\n\t\t\n\t\n"...)
	if err := os.WriteFile(name, list, 0o666); err != nil {
		t.Fatal(err)
	}
	if n := v.run(Part{}, []string{"a", "1"}, last); n != 1 {
		t.Errorf("%d files removed", n)
	}
	v.has("then", "a")
	if _, err := os.Stat(mine); err != nil {
		t.Error(err)
	}
	if list, err = os.ReadFile(name); err != nil || bytes.Count(list, []byte("\n")) != 2 { // a, and index.html
		t.Errorf("%q, %v", list, err)
	}
}

// TestListed: what a run has written is known although a kill may cut the run and the list
// anywhere, and the list does not grow with each run.
func TestListed(t *testing.T) {
	files := []string{"a", "old", "b", "old"}
	next := []string{"a", "new", "b", "new", "c", "new"}
	whole, err := io.ReadAll(stream(t, next...))
	if err != nil {
		t.Fatal(err)
	}
	for cut := 0; cut <= len(whole); cut += 7 {
		for _, torn := range []int64{0, 1, 5, 70} {
			v := &visit{t, filepath.Join(t.TempDir(), "copy")}
			v.run(Part{}, files, last)
			before, err := os.Stat(filepath.Join(v.dir, written))
			if err != nil {
				t.Fatal(err)
			}
			f := open(t, v.dir)
			_ = f.Receive(t.Context(), bufio.NewReader(bytes.NewReader(whole[:cut])))
			f.list.w.Reset(io.Discard) // as a kill does
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			// A line that is not whole has no file.
			name := filepath.Join(v.dir, written)
			text, err := os.ReadFile(name)
			if err == nil && int64(len(text)) == before.Size() {
				err = os.WriteFile(name, append(text, []byte(strings.Repeat("0", int(torn)))...), 0o666)
			}
			if err != nil {
				t.Fatal(err)
			}
			v.run(Part{}, []string{"d", "x"}, last)
			v.has(fmt.Sprintf("cut at %d", cut), "d")
			v.run(Part{}, nil, last)
			v.has("and then")
		}
	}
	v := &visit{t, filepath.Join(t.TempDir(), "copy")}
	size := func() int {
		text, err := os.ReadFile(filepath.Join(v.dir, written))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), "\n")
	}
	for n := range 5 {
		files[1] = fmt.Sprint(n)
		v.run(Part{Name: "p", Timed: n%2 > 0}, files, last)
		if n := size(); n != 3 {
			t.Errorf("%d lines of two files and the first page", n)
		}
	}
}
