package disk

import (
	"os"
	"path/filepath"
	"testing"
)

// TestReplace: a file has its name when it is committed, and not before; whatever else lies there
// stays.
func TestReplace(t *testing.T) {
	for _, unnamed := range []bool{true, false} {
		dir := t.TempDir()
		name := filepath.Join(dir, "a")
		for _, other := range []string{name, name + ".new", name + ".00000000.new"} {
			if err := os.WriteFile(other, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		create := func() *File {
			t.Helper()
			f, err := create(name, unnamed)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Write([]byte("new")); err != nil {
				t.Fatal(err)
			}
			return f
		}
		if err := create().Discard(); err != nil {
			t.Error(err)
		}
		wantFiles(t, dir, map[string]string{"a": "old", "a.new": "old", "a.00000000.new": "old"})
		if err := create().Commit(); err != nil {
			t.Error(err)
		}
		wantFiles(t, dir, map[string]string{"a": "new", "a.new": "old", "a.00000000.new": "old"})

		// A name that a folder has taken meanwhile cannot be replaced, and nothing is left.
		f := create()
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(name, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := f.Commit(); err == nil {
			t.Error("a folder was replaced")
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		wantFiles(t, dir, map[string]string{"a.new": "old", "a.00000000.new": "old"})
	}
	if _, err := Create(filepath.Join(t.TempDir(), "none", "a")); !os.IsNotExist(err) {
		t.Errorf("in a folder that is not there: %v", err)
	}
}

// TestReplaceMode: a new file has the mode that the umask leaves, as os.Create has it.
func TestReplaceMode(t *testing.T) {
	dir := t.TempDir()
	want, err := os.Create(filepath.Join(dir, "want"))
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	f, err := Create(filepath.Join(dir, "got"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	a, err := want.Stat()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.Stat(filepath.Join(dir, "got"))
	if err != nil || a.Mode() != b.Mode() {
		t.Errorf("mode %v, want %v: %v", b.Mode(), a.Mode(), err)
	}
}

func wantFiles(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if text, ok := want[e.Name()]; !ok || err != nil || string(b) != text {
			t.Errorf("%s holds %q, want %q, %v", e.Name(), b, text, err)
		}
	}
	if len(entries) != len(want) {
		t.Errorf("%d files, want %d", len(entries), len(want))
	}
}
