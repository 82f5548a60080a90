package main

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"urltree/internal/testdisk"
	"urltree/internal/testweb"
)

// TestFullOutput: where the disk of an answer, of its temporary files or of the tree becomes full,
// a command says so in one line and ends with exit 4; the older file stays, and nothing else is
// left.
func TestFullOutput(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Options{Hosts: 3, Pages: 150, Seed: 5, MinSize: 8 << 10, Redirects: .1, Errors: .1})
	for _, store := range []string{"folders", "warc"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			disk, err := testdisk.New(t.Context(), t.TempDir(), "tmpfs", 32<<20)
			if err != nil {
				t.Skip(err)
			}
			t.Cleanup(func() {
				if err := disk.Remove(); err != nil {
					t.Error(err)
				}
			})
			dir, temp := disk.Path, filepath.Join(disk.Path, "temp")
			if err := os.Mkdir(temp, 0o777); err != nil {
				t.Fatal(err)
			}
			args := []string{"-quiet", "-delay", "0", "-retries", "0", "-edges", "-allow-private", "-min-free", "0", "-min-free-inodes", "0", "-store", store}
			must(t, dir, append(args, web.Seeds()...)...)
			must(t, dir, "rank")
			const old = "what was there before"
			if err := os.WriteFile(filepath.Join(dir, "out"), []byte(old), 0o666); err != nil {
				t.Fatal(err)
			}
			heavy := leave(t, dir, 4<<10)
			before := namesIn(t, dir)
			fails := func(want, temp string, args ...string) {
				t.Helper()
				cmd := child(dir, args...)
				cmd.Env = append(cmd.Env, "TMPDIR="+temp)
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				_ = cmd.Run() // its exit code says more
				if text := stderr.String(); cmd.ProcessState.ExitCode() != exitDisk || text != "crawler: "+want+": no space left on device\n" {
					t.Errorf("%q: exit %d: %q, want %q", args, cmd.ProcessState.ExitCode(), text, want)
				}
				if text, err := os.ReadFile(filepath.Join(dir, "out")); err != nil || string(text) != old {
					t.Errorf("%q: the older file is %q, %v", args, text, err)
				}
				if after := namesIn(t, dir); !slices.Equal(after, before) {
					t.Errorf("%q leaves\n%q, of\n%q", args, after, before)
				}
			}
			elsewhere := t.TempDir()
			for _, what := range [][]string{
				{"export"},
				{"export", "-format", "jsonl"},
				{"export", "-what", "edges"},
				{"export", "-what", "ranks"},
				{"export", "-what", "warc"},
				{"export", "-what", "warc", "-format", "plain"},
				{"export", "-what", "cdxj"},
				{"export", "-what", "wacz"},
				{"export", "-what", "wacz", "-text", "main"},
				{"export", "-what", "pages", "-format", "parquet", "-columns", "url,html"},
				{"broken", "-format", "html"},
			} {
				fails("-output out", elsewhere, append(what, "-output", "out")...)
			}
			for _, what := range [][]string{{"export", "-what", "wacz"}, {"rank"}, {"stats", "-degrees"}} {
				fails("temporary files in "+temp+" (TMPDIR)", temp, what...)
			}
			fails("write ranks: write iut/rank", elsewhere, "rank")
			if err := os.Remove(heavy); err != nil {
				t.Fatal(err)
			}
			must(t, dir, "check")
			must(t, dir, "export", "-what", "ranks")
			must(t, dir, "export", "-what", "wacz", "-output", "out")
		})
	}
}

// leave fills the disk of a folder but for so many bytes, by a file in it that it returns.
func leave(t *testing.T, dir string, bytes int64) string {
	t.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "ballast")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Fallocate(int(f.Fd()), 0, 0, int64(st.Bavail)*st.Bsize-bytes); err != nil {
		t.Fatal(err)
	}
	return name
}

// namesIn returns the names of all files of a folder that are not below those of a tree's pages.
func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	for _, pattern := range []string{"*", "temp/*", "iut/*"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, found...)
	}
	return names
}

// TestStoppedExport: an export that is stopped or killed before it is through leaves the older
// file, and nothing else. It waits for the answer of a crawl that stands still.
func TestStoppedExport(t *testing.T) {
	t.Parallel()
	s := newSite(t.TempDir())
	server := httptest.NewServer(s)
	defer server.Close()
	defer s.end()
	dir := t.TempDir()
	p, err := start(child(dir, "-delay", "0", "-scope", "host", server.URL+"/hang"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = p.cmd.Process.Kill()
		<-p.done
	}()
	select {
	case <-s.asked("/hang"):
	case <-time.After(patience):
		t.Fatal("it does not ask")
	}
	send(syscall.SIGSTOP)(t, p.cmd.Process)
	for _, tt := range []struct {
		signal os.Signal
		code   int
		said   string
	}{
		{syscall.SIGKILL, -1, ""},
		{os.Interrupt, exitOther, "crawler: stopped\n"},
		{syscall.SIGTERM, exitOther, "crawler: stopped\n"},
	} {
		t.Run(fmt.Sprint(tt.signal), func(t *testing.T) {
			folder := t.TempDir()
			out := filepath.Join(folder, "out")
			if err := os.WriteFile(out, []byte("old"), 0o666); err != nil {
				t.Fatal(err)
			}
			cmd := child(dir, "export", "-what", "wacz", "-output", out)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			requireWriting(t, cmd, folder)
			send(tt.signal)(t, cmd.Process)
			_ = cmd.Wait() // its exit code says more
			if code := cmd.ProcessState.ExitCode(); code != tt.code || stderr.String() != tt.said {
				t.Errorf("exit %d: %q", code, &stderr)
			}
			names, err := filepath.Glob(filepath.Join(folder, "*"))
			text, err2 := os.ReadFile(out)
			if err != nil || err2 != nil || len(names) != 1 || string(text) != "old" {
				t.Errorf("%q is left, and %q in the older file: %v, %v", names, text, err, err2)
			}
		})
	}
}

// requireWriting waits until a process has a file in the folder open.
func requireWriting(t *testing.T, cmd *exec.Cmd, folder string) {
	t.Helper()
	fds := fmt.Sprintf("/proc/%d/fd", cmd.Process.Pid)
	for late := time.Now().Add(patience); time.Now().Before(late); <-time.After(10 * time.Millisecond) { // of a process, so real time
		list, err := os.ReadDir(fds)
		if err != nil {
			break
		}
		for _, fd := range list {
			if file, _ := os.Readlink(filepath.Join(fds, fd.Name())); strings.HasPrefix(file, folder+"/") {
				return
			}
		}
	}
	_ = cmd.Process.Kill()
	t.Error("it writes no file there")
}
