package iut_test

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"urltree/iut"
)

var rules = iut.Identity{Canonical: "1", Partition: "host"}

// open opens or makes a tree on the real disk, without syncs, and closes it with the test.
func open(t testing.TB, root string, change ...func(*iut.Options)) *iut.Tree {
	t.Helper()
	opts := iut.Options{Identity: &rules, Sync: iut.SyncNone}
	for _, c := range change {
		c(&opts)
	}
	tree, err := iut.Open(root, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.Close() })
	return tree
}

func onFS(fsys iut.FS) func(*iut.Options) {
	return func(o *iut.Options) { o.FS = fsys }
}

func disk(t testing.TB, root string, mode iut.Sync) *iut.Disk {
	t.Helper()
	d, err := iut.OpenDisk(root, mode)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// put writes a file of somebody else's.
func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestOpenCompletesWhatAKillLeft(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files []string
	}{
		{"nothing", nil},
		{"lock", []string{"LOCK"}},
		{"probe", []string{"LOCK", "tmp/Case"}},
		{"half a FORMAT", []string{"LOCK", "FORMAT.new"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "a", "tree")
			for _, name := range tt.files {
				text := "4000000000\n"
				if name == "tmp/Case" {
					text = ""
				}
				put(t, filepath.Join(root, name), text)
			}
			tree := open(t, root)
			want := iut.Format{Identity: rules, Links: iut.LinkOptions{MaxDepth: -1}, Sync: "none"}
			if diff := cmp.Diff(want, tree.Format()); diff != "" {
				t.Error(diff)
			}
			if left, err := os.ReadDir(filepath.Join(root, "tmp")); err != nil || len(left) != 0 {
				t.Errorf("tmp holds %v, %v", left, err)
			}
			tree.Close()
			if diff := cmp.Diff(want, open(t, root).Format()); diff != "" {
				t.Errorf("opened again: %s", diff)
			}
		})
	}
}

// TestOpenLeavesForeignFolderAlone opens folders of somebody else's that have names of ours, with
// what is in LOCK and tmp: refused, and not a byte changed.
func TestOpenLeavesForeignFolderAlone(t *testing.T) {
	for _, files := range []map[string]string{
		{"readme": "r\n", "LOCK": "my lock\n", "tmp/notes.txt": "mine\n"},
		{"readme": "r\n"},
		{"tmp/thesis": "mine\n"},
		{"tmp/Case": "mine\n"},
		{"tmp/theirs/file": ""},
		{"LOCK": "my lock\n"},
		{"index.db": "mine\n", "LOCK": "", "tmp/1": "mine\n"},
		{"FORMAT": "paper: A4\n", "tmp/notes.txt": "mine\n"},
		{"FORMAT": "paper: A4\n", "LOCK": "my lock\n"},
	} {
		root := t.TempDir()
		for name, text := range files {
			put(t, filepath.Join(root, name), text)
		}
		for _, opts := range []iut.Options{{Identity: &rules}, {}, {ReadOnly: true}} {
			before := contents(t, root)
			tree, err := iut.Open(root, opts)
			if err == nil {
				tree.Close()
			}
			if want := opts.Identity != nil || files["FORMAT"] != ""; err == nil || want && !errors.Is(err, iut.ErrFormat) {
				t.Errorf("%v: %v, want ErrFormat", files, err)
			}
			if diff := cmp.Diff(before, contents(t, root)); diff != "" {
				t.Errorf("%v: changed: %s", files, diff)
			}
		}
	}
}

// contents returns every name below root, with the text of files.
func contents(t *testing.T, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			found[name] = "/"
			return err
		}
		text, err := os.ReadFile(name)
		found[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestOpenRefuses(t *testing.T) {
	old := t.TempDir()
	open(t, old).Close()
	copied := func(t *testing.T) string {
		root := t.TempDir()
		if err := os.CopyFS(root, os.DirFS(old)); err != nil {
			t.Fatal(err)
		}
		return root
	}
	for _, tt := range []struct {
		name string
		make func(t *testing.T) string
		opts iut.Options
		want error
	}{
		{"no tree", func(t *testing.T) string { return t.TempDir() }, iut.Options{}, fs.ErrNotExist},
		{"no tree to read", func(t *testing.T) string { return t.TempDir() }, iut.Options{ReadOnly: true, Identity: &rules}, fs.ErrNotExist},
		{"somebody's folder", func(t *testing.T) string {
			root := t.TempDir()
			put(t, root+"/letter.txt", "")
			return root
		}, iut.Options{Identity: &rules}, iut.ErrFormat},
		{"pages without FORMAT", func(t *testing.T) string {
			root := copied(t)
			put(t, root+"/pr-http/do-a/source.txt", "")
			if err := os.Remove(root + "/FORMAT"); err != nil {
				t.Fatal(err)
			}
			return root
		}, iut.Options{Identity: &rules}, iut.ErrFormat},
		{"bad FORMAT", func(t *testing.T) string {
			root := copied(t)
			put(t, root+"/FORMAT", "urltree 2\n")
			return root
		}, iut.Options{}, iut.ErrFormat},
		{"linked FORMAT", func(t *testing.T) string {
			root := copied(t)
			if err := errors.Join(os.Remove(root+"/FORMAT"), os.Symlink(old+"/FORMAT", root+"/FORMAT")); err != nil {
				t.Fatal(err)
			}
			return root
		}, iut.Options{}, iut.ErrTree},
		{"FORMAT gone", func(t *testing.T) string {
			root := copied(t)
			if err := os.Remove(root + "/FORMAT"); err != nil {
				t.Fatal(err)
			}
			put(t, root+"/index.db", "")
			return root
		}, iut.Options{ReadOnly: true}, iut.ErrFormat},
		{"tmp is a file", func(t *testing.T) string {
			root := copied(t)
			if err := os.RemoveAll(root + "/tmp"); err != nil {
				t.Fatal(err)
			}
			put(t, root+"/tmp", "")
			return root
		}, iut.Options{ReadOnly: true}, iut.ErrTree},
		{"linked LOCK", func(t *testing.T) string {
			root := copied(t)
			if err := errors.Join(os.Remove(root+"/LOCK"), os.Symlink("other", root+"/LOCK")); err != nil {
				t.Fatal(err)
			}
			return root
		}, iut.Options{}, iut.ErrTree},
		{"other canonical form", copied, iut.Options{Identity: &iut.Identity{Canonical: "2", Partition: "host"}}, iut.ErrIdentity},
		{"other strip rules", copied, iut.Options{Identity: &iut.Identity{Canonical: "1", Partition: "host", Strip: "sid"}}, iut.ErrIdentity},
		{"other partition", copied, iut.Options{Identity: &iut.Identity{Canonical: "1", Partition: "domain"}}, iut.ErrIdentity},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := tt.make(t)
			before := names(t, root)
			if tree, err := iut.Open(root, tt.opts); !errors.Is(err, tt.want) {
				t.Fatalf("Open = %v, %v; want %v", tree, err, tt.want)
			}
			if errors.Is(tt.want, fs.ErrNotExist) && names(t, root) != before {
				t.Errorf("Open left %s in a folder that is no tree", names(t, root))
			}
		})
	}
}

// names lists the files below a folder.
func names(t *testing.T, root string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
		b.WriteString(strings.TrimPrefix(name, root) + "\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestCloseTwice: a second Close closes nothing that has the descriptors of the first one by then,
// and leaves LOCK to who has the tree now. It is not parallel, so that these are the next to be
// given.
func TestCloseTwice(t *testing.T) {
	root := t.TempDir()
	tree := open(t, root)
	if err := tree.Close(); err != nil {
		t.Fatal(err)
	}
	var files []*os.File
	for range 8 {
		f, err := os.Open(root)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	next := open(t, root)
	if err := tree.Close(); err != nil {
		t.Error(err)
	}
	for _, f := range files {
		if _, err := f.Stat(); err != nil {
			t.Errorf("a file that was opened behind the first Close: %v", err)
		}
	}
	if pid, err := os.ReadFile(filepath.Join(root, "LOCK")); err != nil || strings.TrimSpace(string(pid)) != strconv.Itoa(os.Getpid()) {
		t.Errorf("LOCK says %q, %v", pid, err)
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
}

// TestLockWaitsForReaders: a writer waits for a reader that is about to be done.
func TestLockWaitsForReaders(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	open(t, root).Close()
	reader := open(t, root, func(o *iut.Options) { o.ReadOnly = true })
	time.AfterFunc(100*time.Millisecond, func() { reader.Close() })
	tree, err := iut.Open(root, iut.Options{})
	if err != nil {
		t.Fatalf("opening a tree whose reader is about to be done: %v", err)
	}
	tree.Close()
}

func TestLockInOneProcess(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	tree := open(t, root)
	mine := fmt.Sprintf("process %d has", os.Getpid())
	for _, readOnly := range []bool{false, true} {
		if _, err := iut.Open(root, iut.Options{ReadOnly: readOnly}); !errors.Is(err, iut.ErrBusy) || !strings.Contains(err.Error(), mine) {
			t.Fatalf("opening a tree in use: %v, want ErrBusy and %q", err, mine)
		}
	}
	if err := tree.Close(); err != nil {
		t.Fatal(err)
	}
	reader := func(o *iut.Options) { o.ReadOnly = true }
	one, two := open(t, root, reader), open(t, root, reader)
	if _, err := iut.Open(root, iut.Options{}); !errors.Is(err, iut.ErrBusy) || !strings.Contains(err.Error(), "another process") {
		t.Fatalf("opening a tree with readers: %v, want ErrBusy and no pid", err)
	}
	one.Close()
	two.Close()
	open(t, root)
}

// TestLockOfAKilledProcess is its own second process, which never ends by itself.
func TestLockOfAKilledProcess(t *testing.T) {
	const variable = "IUT_TEST_HOLD"
	if root := os.Getenv(variable); root != "" {
		open(t, root)
		fmt.Println("holding")
		select {}
	}
	t.Parallel()
	root := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestLockOfAKilledProcess$")
	cmd.Env = append(os.Environ(), variable+"="+root)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "holding\n" {
		t.Fatalf("second process says %q, %v", line, err)
	}
	want := fmt.Sprintf("process %d has %s", cmd.Process.Pid, root)
	if _, err := iut.Open(root, iut.Options{}); !errors.Is(err, iut.ErrBusy) || !strings.Contains(err.Error(), want) {
		t.Errorf("opening a tree in use: %v, want ErrBusy and %q", err, want)
	}
	cmd.Process.Kill()
	cmd.Wait()
	open(t, root, func(o *iut.Options) { o.ReadOnly = true })
	// The pid in LOCK is of nobody now, and must not be blamed for the reader.
	if _, err := iut.Open(root, iut.Options{}); !errors.Is(err, iut.ErrBusy) || strings.Contains(err.Error(), want) {
		t.Errorf("opening a tree with a reader after a kill: %v", err)
	}
}

func TestSetLinks(t *testing.T) {
	root := t.TempDir()
	tree := open(t, root)
	links := iut.LinkOptions{Scope: "host", Include: []string{"a", "b"}, MaxDepth: 3}
	for range 2 { // the second time there is nothing to do
		if err := tree.SetLinks(links); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(links, tree.Format().Links); diff != "" {
		t.Error(diff)
	}
	tree.Close()
	again := open(t, root)
	if diff := cmp.Diff(links, again.Format().Links); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(rules, again.Format().Identity); diff != "" {
		t.Error(diff)
	}
}

// TestKeep changes what FORMAT keeps for the caller and nothing else, and reads it while another
// process may have the tree.
func TestKeep(t *testing.T) {
	root := t.TempDir()
	if _, err := iut.ReadFormat(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("FORMAT of an empty folder: %v, want fs.ErrNotExist", err)
	}
	tree := open(t, root)
	if err := tree.SetLinks(iut.LinkOptions{Scope: "host", MaxDepth: 3}); err != nil {
		t.Fatal(err)
	}
	for _, kept := range []iut.Kept{{Options: []string{"scope=host", "exclude=a\nb"}, Secrets: []string{"user"}}, {}} {
		want := tree.Format()
		want.Kept = kept
		for range 2 { // the second time there is nothing to do
			if err := tree.Keep(kept); err != nil {
				t.Fatal(err)
			}
		}
		got, err := iut.ReadFormat(root) // the tree is locked
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v, want what was kept, and all else as before:\n%s", err, diff)
		}
	}
	put(t, root+"/FORMAT", "urltree 9\n")
	if _, err := iut.ReadFormat(root); !errors.Is(err, iut.ErrFormat) {
		t.Errorf("a later version: %v, want ErrFormat", err)
	}
}

func seeds(t *testing.T, tree *iut.Tree) []string {
	t.Helper()
	var got []string
	if err := tree.Seeds(iut.SeedMark{}, func(url string, _ iut.SeedMark) error { got = append(got, url); return nil }); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestSeeds(t *testing.T) {
	root := t.TempDir()
	tree := open(t, root)
	if got := seeds(t, tree); got != nil {
		t.Errorf("a new tree has the seeds %q", got)
	}
	for _, urls := range [][]string{{"http://a/", "http://b/", "http://a/"}, {"http://b/"}, {"http://c/", "http://a/"}} {
		if err := addSeeds(tree, urls); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"http://a/", "http://b/", "http://c/"}
	if diff := cmp.Diff(want, seeds(t, tree)); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"", "http://a/ b", "http://a/\n", "http://\xff/"} {
		if err := addSeeds(tree, []string{"http://d/", bad}); err == nil {
			t.Errorf("seed %q is accepted", bad)
		}
	}
	tree.Close()

	whole := read(t, root+"/seeds.txt")
	for n := range len(whole) + 1 {
		put(t, root+"/seeds.txt", whole[:n])
		reader := open(t, root, func(o *iut.Options) { o.ReadOnly = true })
		kept := whole[:strings.LastIndexByte(whole[:n], '\n')+1]
		if got := seeds(t, reader); strings.Join(got, "\n") != strings.TrimSuffix(kept, "\n") {
			t.Fatalf("of %q a reader sees %q", whole[:n], got)
		}
		reader.Close()
		tree := open(t, root)
		if got := read(t, root+"/seeds.txt"); got != kept {
			t.Fatalf("%q is cut to %q, want %q", whole[:n], got, kept)
		}
		if err := addSeeds(tree, want); err != nil {
			t.Fatal(err)
		}
		tree.Close()
		if got := read(t, root+"/seeds.txt"); got != whole {
			t.Fatalf("after a cut at %d the seeds are %q, want %q", n, got, whole)
		}
	}
}

func TestReadOnly(t *testing.T) {
	root := t.TempDir()
	tree := open(t, root)
	p := page(1)
	store(t, tree, p)
	tree.Close()
	put(t, root+"/tmp/1", "of a run that was killed")
	before := names(t, root)
	tree = open(t, root, func(o *iut.Options) { o.ReadOnly = true })
	_, err1 := tree.Store(p)
	_, err2 := tree.Temp(nil)
	_, err3 := tree.RemoveTorn(iut.Facts{URL: p.URL}, false)
	for _, err := range []error{err1, err2, err3, addSeeds(tree, nil), tree.SetLinks(iut.LinkOptions{}), tree.Keep(iut.Kept{Secrets: []string{"user"}})} {
		if !errors.Is(err, fs.ErrPermission) {
			t.Errorf("writing: %v, want fs.ErrPermission", err)
		}
	}
	if _, body, err := tree.Load(iut.Facts{URL: p.URL}); err != nil || string(body) != string(p.Body) {
		t.Errorf("Load = %q, %v", body, err)
	}
	if after := names(t, root); after != before {
		t.Errorf("a reader changed\n%sto\n%s", before, after)
	}
}
