package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"urltree/internal/mirror"
	"urltree/internal/testsite"
	"urltree/storage/record"
)

// mirrorSite makes a tree of pages, and a mirror of it as copy in the folder dir.
func mirrorSite(t *testing.T, dir string, pages, size int) (files map[string]string) {
	t.Helper()
	site := testsite.New(t, filepath.Join(dir, "iut"))
	site.Seed("http://a.example/")
	var links []string
	for n := 0; n < size/40; n++ {
		links = append(links, fmt.Sprintf("http://a.example/link/%d", n))
	}
	for n := range pages {
		url := fmt.Sprintf("http://a.example/folder-%d/%d.html", n%7, n)
		site.Seed(url)
		site.Store(url, record.Seed, 0, links...)
	}
	site.Close()
	must(t, dir, "export", "-what", "mirror", "-output", "copy")
	files = mirrorFiles(t, filepath.Join(dir, "copy"))
	if len(files) != pages+2 {
		t.Fatalf("%d files of %d pages", len(files), pages)
	}
	return files
}

// mirrorFiles returns the files of a mirror, but for the list of them.
func mirrorFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == "urltree-mirror.list" {
			return err
		}
		text, err := os.ReadFile(name)
		rel, _ := filepath.Rel(dir, name)
		files[rel] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// missing returns how many of the files are not in a mirror, and fails if others are there, or such
// as are not whole.
func missing(t *testing.T, dir string, files map[string]string) int {
	t.Helper()
	there := mirrorFiles(t, dir)
	for name, text := range there {
		if whole, ok := files[name]; !ok || text != whole {
			t.Fatalf("%s: %d bytes, want %d", name, len(text), len(whole))
		}
	}
	return len(files) - len(there)
}

// TestMirrorKilled kills and interrupts a mirror at a system call, further on in each run: no file
// is there that is not whole, but for the one that the next run removes.
func TestMirrorKilled(t *testing.T) {
	t.Parallel()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("there is no strace")
	}
	dir := t.TempDir()
	files := mirrorSite(t, dir, 60, 2000)
	// strace counts calls in each thread. An interrupt takes a moment: the disk is slow then.
	for _, tt := range []struct{ signal, call, slow string }{
		{"KILL", "openat", ""}, {"KILL", "write", ""}, {"KILL", "utimensat", ""}, {"KILL", "renameat", ""}, {"INT", "renameat", "utimensat"},
	} {
		cut := 0
		for _, k := range []int{1, 2, 5, 12, 30} {
			name := fmt.Sprintf("%s-%s-%d", tt.signal, tt.call, k)
			out := filepath.Join(dir, name)
			cmd := child(dir, "export", "-what", "mirror", "-output", name)
			trace := filepath.Join(t.TempDir(), "trace")
			args := []string{strace, "-f", "-qq", "-o", trace, "-e", "trace=" + tt.call + "," + cmp.Or(tt.slow, tt.call), "-e", fmt.Sprintf("inject=%s:signal=%s:when=%d", tt.call, tt.signal, k)}
			if tt.slow != "" {
				args = append(args, "-e", "inject="+tt.slow+":delay_enter=20ms")
			}
			cmd.Args = append(append(args, "--", cmd.Path), cmd.Args[1:]...)
			cmd.Path = strace
			var errs bytes.Buffer
			cmd.Stderr = &errs
			err := cmd.Run()
			if text, _ := os.ReadFile(trace); len(text) == 0 {
				t.Skipf("strace may not trace here: %v: %s", err, &errs)
			}
			if _, err := os.Stat(out); err != nil {
				continue // it was stopped before
			}
			if tt.signal == "KILL" {
				_ = os.Remove(filepath.Join(out, "urltree-mirror.new"))
			} else if err != nil && (cmd.ProcessState.ExitCode() != exitOther || errs.String() != "crawler: stopped\n") {
				t.Errorf("%s: %v: %q", name, err, &errs)
			}
			if missing(t, out, files) > 0 {
				cut++
			}
			must(t, dir, "export", "-what", "mirror", "-output", name)
			if n := missing(t, out, files); n > 0 {
				t.Errorf("%s: %d files are missing after another run", name, n)
			}
		}
		if cut == 0 {
			t.Errorf("%s at %s has cut nothing", tt.signal, tt.call)
		}
	}
}

// TestMirrorRemovalKilled kills a mirror that removes files of pages that are gone, further on in
// each run: the next one removes the rest, and the file of the user stays.
func TestMirrorRemovalKilled(t *testing.T) {
	t.Parallel()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("there is no strace")
	}
	dir := t.TempDir()
	mirrorSite(t, dir, 60, 400)
	before := filepath.Join(dir, "before")
	if err := os.Rename(filepath.Join(dir, "copy"), before); err != nil {
		t.Fatal(err)
	}
	must(t, dir, "forget", "http://a.example/folder-3/")
	must(t, dir, "forget", "http://a.example/folder-4/")
	must(t, dir, "export", "-what", "mirror", "-output", "copy")
	files := mirrorFiles(t, filepath.Join(dir, "copy"))
	files["http/a.example/folder-3/mine"] = "of the user"
	cut := 0
	for _, k := range []int{1, 2, 7, 12} {
		name := fmt.Sprint("killed-", k)
		out := filepath.Join(dir, name)
		if err := os.CopyFS(out, os.DirFS(before)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(out, "http/a.example/folder-3/mine"), []byte("of the user"), 0o666); err != nil {
			t.Fatal(err)
		}
		cmd := child(dir, "export", "-what", "mirror", "-output", name)
		trace := filepath.Join(t.TempDir(), "trace")
		cmd.Args = append([]string{strace, "-f", "-qq", "-o", trace, "-e", "trace=unlinkat", "-e", fmt.Sprintf("inject=unlinkat:signal=KILL:when=%d", k), "--", cmd.Path}, cmd.Args[1:]...)
		cmd.Path = strace
		_ = cmd.Run()
		if text, _ := os.ReadFile(trace); len(text) == 0 {
			t.Skip("strace may not trace here")
		}
		left := len(mirrorFiles(t, out))
		if left > len(files) {
			cut++
		}
		_ = os.Remove(filepath.Join(out, "urltree-mirror.new"))
		must(t, dir, "export", "-what", "mirror", "-output", name)
		if n := missing(t, out, files); n > 0 {
			t.Errorf("%s: %d files are missing", name, n)
		}
	}
	if cut == 0 {
		t.Error("no kill has cut a removal")
	}
}

// TestMirrorOnFullDisk: a disk that is full ends a mirror in order, and once there is room another
// run completes it.
func TestMirrorOnFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := mirrorSite(t, dir, 60, 40_000)
	disk := mountLoop(t, 16)
	full := ballast(t, disk, 1)
	out := filepath.Join(disk, "copy")
	_, stderr, code := call(t, dir, "export", "-what", "mirror", "-output", out)
	if code != exitDisk || !regexp.MustCompile(`^crawler: /.*: no space left on device\n$`).MatchString(stderr) {
		t.Errorf("exit %d: %q", code, stderr)
	}
	if n := missing(t, out, files); n == 0 || n == len(files) {
		t.Errorf("%d files of %d are missing", n, len(files))
	}
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	must(t, dir, "export", "-what", "mirror", "-output", out)
	if n := missing(t, out, files); n > 0 {
		t.Errorf("%d files are missing", n)
	}
}

// TestMirrorOnTerminal: a terminal shows how far a mirror is, here on a disk that is slow, and
// nothing of that is left in the end.
func TestMirrorOnTerminal(t *testing.T) {
	t.Parallel()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("there is no strace")
	}
	dir := t.TempDir()
	mirrorSite(t, dir, 40, 2000)
	screen, program := openTerminal(t)
	cmd := child(dir, "export", "-what", "mirror", "-output", "slow")
	cmd.Args = append([]string{strace, "-f", "-qq", "-o", filepath.Join(dir, "trace"), "-e", "trace=renameat", "-e", "inject=renameat:delay_enter=60ms", "--", cmd.Path}, cmd.Args[1:]...)
	cmd.Path, cmd.Stderr = strace, program
	shown := &transcript{more: make(chan struct{})}
	go func() { _, _ = io.Copy(shown, screen) }()
	if err := cmd.Run(); err != nil {
		t.Skipf("strace may not trace here: %v", err)
	}
	if !shown.wait(regexp.MustCompile(`mirror: [1-9]\d* of 40 files, [1-9]\d* written, [0-9.]+ k?B, [1-9]\d*/s, \d+s left`)) {
		t.Errorf("it shows %q", shown.text)
	}
	if !shown.wait(regexp.MustCompile(`\r\x1b\[K$`)) {
		t.Errorf("it leaves %q on the screen", shown.text)
	}
}

func TestCopied(t *testing.T) {
	for _, tt := range []struct {
		files, of, written, bytes int64
		after                     time.Duration
		want                      string
	}{
		{0, 0, 0, 0, time.Second, "mirror: 0 of 0 files, 0 written, 0 B"},
		{0, 1000, 0, 100, time.Second, "mirror: 0 of 1000 files, 0 written, 100 B"},
		{100, 1000, 7, 1_500_000, 10 * time.Second, "mirror: 100 of 1000 files, 7 written, 1.5 MB, 10/s, 1m30s left"},
		{101, 100, 101, 1000, time.Second, "mirror: 101 of 101 files, 101 written, 1.0 kB, 101/s, 0s left"},
	} {
		f := &mirror.Folder{}
		f.Files.Store(tt.files)
		f.Of.Store(tt.of)
		f.Written.Store(tt.written)
		f.Bytes.Store(tt.bytes)
		if got := copied(f, tt.after); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
