package mirror

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stream returns the stream of some files: names and bytes in turn.
func stream(t *testing.T, files ...string) *bufio.Reader {
	t.Helper()
	var b bytes.Buffer
	out := bufio.NewWriter(&b)
	w := Writer{out}
	for i := 0; i < len(files); i += 2 {
		err := w.File(Entry{Name: files[i], Time: 1_800_000_000, Of: int64(len(files) / 2)}, func(w io.Writer) error {
			_, err := io.Copy(w, strings.NewReader(files[i+1]))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	return bufio.NewReader(&b)
}

func open(t *testing.T, dir string) *Folder {
	t.Helper()
	f, err := Open(dir, Part{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
			t.Error(err)
		}
	})
	return f
}

// listed returns the files below a folder, with their bytes, but for the list of a mirror.
func listed(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == written {
			return err
		}
		text, err := os.ReadFile(name)
		name, _ = filepath.Rel(dir, name)
		all[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestReceive: what comes a second time is not touched, and of the rest nothing but what has
// changed is written, wherever it has.
func TestReceive(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "copy")
	large := strings.Repeat("0123456789abcdef", 10_000)
	f := open(t, dir)
	receive := func(written int64, files ...string) {
		t.Helper()
		before := f.Written.Load()
		if err := f.Receive(t.Context(), stream(t, files...)); err != nil {
			t.Fatal(err)
		}
		if n := f.Written.Load() - before; n != written {
			t.Errorf("%d files written, want %d", n, written)
		}
		all := listed(t, dir)
		for i := 0; i < len(files); i += 2 {
			if all[files[i]] != files[i+1] {
				t.Errorf("%s: %d bytes, want %d", files[i], len(all[files[i]]), len(files[i+1]))
			}
		}
		if all[marker] != markerText || len(all) != 4 {
			t.Errorf("%d files: %q", len(all), all[marker])
		}
	}
	receive(3, "http/a/index.html", "home", "http/a/b/large", large, "http/a/empty", "")
	name := filepath.Join(dir, "http/a/b/large")
	old := time.Unix(1_000_000_000, 0)
	info, err := os.Stat(name)
	if err != nil || !info.ModTime().Equal(time.Unix(1_800_000_000, 0)) {
		t.Errorf("of the time %v: %v", info.ModTime(), err)
	}
	if err := os.Chtimes(name, old, old); err != nil {
		t.Fatal(err)
	}
	receive(0, "http/a/index.html", "home", "http/a/b/large", large, "http/a/empty", "")
	if info, err := os.Stat(name); err != nil || !info.ModTime().Equal(old) {
		t.Errorf("a file with the same bytes has another time: %v, %v", info.ModTime(), err)
	}
	for _, other := range []string{large + "x", large[1:], large[:50_000] + "x" + large[50_001:], large[:32<<10], large, large[:len(large)-1], "", "x", large[:64<<10], large[:64<<10] + "y"} {
		receive(1, "http/a/b/large", other)
		receive(0, "http/a/b/large", other)
	}
}

// TestCutStream: a file whose bytes do not all come is not there, and an older one stays.
func TestCutStream(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	if err := f.Receive(t.Context(), stream(t, "old", "as it was")); err != nil {
		t.Fatal(err)
	}
	whole, err := io.ReadAll(stream(t, "old", "as it is now", "new", strings.Repeat("x", 100_000)))
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	for n := range len(whole) {
		if n > 100 && n < len(whole)-100 && n%1009 > 0 {
			continue
		}
		for _, end := range []error{io.EOF, broken} {
			cut := bufio.NewReader(io.MultiReader(bytes.NewReader(whole[:n]), failing{end}))
			err := f.Receive(t.Context(), cut)
			if end == broken && err != broken || n > 0 && err == nil && !strings.HasSuffix(string(whole[:n]), "\r\n0\r\n") {
				t.Fatalf("cut at %d: %v", n, err)
			}
			all := listed(t, dir)
			if old := all["old"]; old != "as it was" && old != "as it is now" || all["new"] != "" || len(all) != 2 {
				t.Fatalf("cut at %d: %v", n, all)
			}
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestForeign: nothing is written to a folder that is none of a mirror, and nothing replaced in one
// that no mirror has made.
func TestForeign(t *testing.T) {
	parent := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(parent, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	write("full/file", "mine")
	write("other/"+marker, "urltree mirror 2\n")
	write("named/"+marker, "mine")
	write("folder/"+marker+"/x", "mine")
	write("file", "mine")
	write("list/"+marker, markerText)
	write("list/"+written+"/x", "mine")
	write("rest/"+marker, markerText)
	write("rest/"+fresh+"/x", "mine")
	before := listed(t, parent)
	for name, want := range map[string]error{
		"full": ErrForeign, "other": ErrForeign, "named": ErrForeign, "folder": ErrForeign, "file": ErrForeign, "list": ErrForeign, "rest": nil, "file/below": syscall.ENOTDIR, "none/below": fs.ErrNotExist,
	} {
		switch _, err := Open(filepath.Join(parent, name), Part{}); {
		case want == nil && (err == nil || !strings.Contains(err.Error(), fresh)):
			t.Errorf("%s: %v", name, err)
		case want != nil && !errors.Is(err, want):
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	if after := listed(t, parent); len(after) != len(before) {
		t.Errorf("%v, before %v", after, before)
	}

	// What a kill has left, before there was a marker and later.
	write("cut/"+fresh, "half")
	if err := open(t, filepath.Join(parent, "cut")).Close(); err != nil {
		t.Fatal(err)
	}
	write("cut/"+fresh, "half")
	dir := filepath.Join(parent, "cut")
	f := open(t, dir)
	if all := listed(t, dir); all[marker] != markerText || len(all) != 1 {
		t.Errorf("%v", all)
	}
	if _, err := Open(dir, Part{}); !errors.Is(err, ErrBusy) {
		t.Errorf("while another has it: %v", err)
	}
	write("cut/http/a/b", "a file where a folder should be")
	if err := os.MkdirAll(filepath.Join(dir, "http/a/c.html"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(parent, "file"), filepath.Join(dir, "http/a/link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("b", filepath.Join(dir, "http/a/inside")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(parent, filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"http/a/c.html", "http/a/link", "http/a/inside", "http/a/b/c", "out/file", "../file"} {
		if err := f.Receive(t.Context(), stream(t, name, "text")); err == nil {
			t.Errorf("%s is written", name)
		}
	}
	if text, err := os.ReadFile(filepath.Join(parent, "file")); string(text) != "mine" {
		t.Errorf("%q: %v", text, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	open(t, dir)
}
