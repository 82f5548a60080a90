package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"urltree/internal/testweb"
)

// crawlArgs are those of a fast crawl from seed.txt.
var crawlArgs = []string{"-delay", "0", "-allow-private", "-input", "seed.txt"}

// limited is child with a limit of open files.
func limited(dir string, files int, args ...string) *exec.Cmd {
	usual := child(dir, args...)
	cmd := exec.Command("sh", append([]string{"-c", `ulimit -n "$0" && exec "$@"`, strconv.Itoa(files), usual.Path}, args...)...)
	cmd.Dir, cmd.Env = usual.Dir, usual.Env
	return cmd
}

func mountTmpfs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("mount is not allowed here: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
			_ = exec.Command("umount", "-l", dir).Run()
		}
	})
	return dir
}

// TestSurroundings crawls to the known answer with few open files, one processor, and on tmpfs.
func TestSurroundings(t *testing.T) {
	web := startWeb(t, testweb.Options{
		Kind: testweb.Linked, Hosts: 40, Pages: 300, Seed: 51, MinSize: 300, MaxSize: 40 << 10, Redirects: .05, Latency: 20 * time.Millisecond,
	})
	for _, tt := range []struct {
		name string
		cmd  func(t *testing.T, dir string) *exec.Cmd
		said string
	}{
		{"64 files", func(_ *testing.T, dir string) *exec.Cmd { return limited(dir, 64, crawlArgs...) }, "few files"},
		{"1024 files", func(_ *testing.T, dir string) *exec.Cmd { return limited(dir, 1024, crawlArgs...) }, "nothing left"},
		{"one processor", func(_ *testing.T, dir string) *exec.Cmd {
			cmd := child(dir, crawlArgs...)
			cmd.Env = append(cmd.Env, "GOMAXPROCS=1")
			return cmd
		}, "nothing left"},
		{"tmpfs", func(t *testing.T, dir string) *exec.Cmd {
			// Fewer bytes than the guard wants of its own accord.
			return child(dir, append(crawlArgs, "-min-free", "1MiB", "-min-free-inodes", "100", "-tree", filepath.Join(mountTmpfs(t), "iut"))...)
		}, "nothing left"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeSeeds(t, dir, web.Seeds())
			cmd := tt.cmd(t, dir)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if err := cmd.Run(); err != nil || !strings.Contains(stderr.String(), tt.said) {
				t.Fatalf("%v, without %q:\n%s", err, tt.said, &stderr)
			}
			requireSame(t, urlsOf(t, filepath.Join(dir, "res.txt")), web.Answer().Stored)
		})
	}
	t.Run("too few files", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		writeSeeds(t, dir, web.Seeds())
		cmd := limited(dir, 30, crawlArgs...)
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != exitUsage || !regexp.MustCompile(`^crawler: this process may open 30 files .*at least 35 are needed\n$`).Match(out) {
			t.Errorf("exit %d:\n%s", cmd.ProcessState.ExitCode(), out)
		}
	})
}

// TestReadOnlyTree: a tree on a disk that may only be read answers questions; a crawl of it is a
// disk error, told in one line.
func TestReadOnlyTree(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Options{Pages: 20, Seed: 52})
	disk, dir := mountTmpfs(t), t.TempDir()
	tree := filepath.Join(disk, "iut")
	args := append([]string{"-quiet", "-min-free", "0", "-min-free-inodes", "0", "-tree", tree}, crawlArgs...)
	writeSeeds(t, dir, web.Seeds())
	must(t, dir, args...)
	if out, err := exec.Command("mount", "-o", "remount,ro", disk).CombinedOutput(); err != nil {
		t.Skipf("remount is not allowed here: %v: %s", err, out)
	}
	for _, question := range [][]string{{"ls", "-r"}, {"stats"}, {"show"}, {"why"}, {"cat"}, {"path"}, {"export"}, {"check", "-links"}} {
		line := append([]string{question[0], "-tree", tree}, question[1:]...)
		if len(question) == 1 && question[0] != "stats" && question[0] != "export" {
			line = append(line, web.Seeds()[0])
		}
		must(t, dir, line...)
	}
	if _, stderr, code := call(t, dir, args...); code != exitDisk || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "read-only file system") {
		t.Errorf("exit %d, want %d: %q", code, exitDisk, stderr)
	}
}

// TestCheckByReader checks a tree as a user who may read it and not write there, and LOCK neither.
func TestCheckByReader(t *testing.T) {
	t.Parallel()
	const nobody = 65534
	web := startWeb(t, testweb.Options{Pages: 20, Seed: 56})
	dir, err := os.MkdirTemp("", "reader") // those of t are closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	writeSeeds(t, dir, web.Seeds())
	must(t, dir, append([]string{"-quiet"}, crawlArgs...)...)
	lock := filepath.Join(dir, "iut", "LOCK")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(lock, 0o444)); err != nil {
		t.Fatal(err)
	}
	cmd := child(dir, "check", "-links")
	if os.Getuid() == 0 {
		// The folder in which go test puts this program is closed to others as well.
		program, err := os.ReadFile(cmd.Path)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "program"), program, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		cmd.Path = filepath.Join(dir, "program")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "the result files\nfaults: 0\n") {
		t.Errorf("%v: %s", err, out)
	}
}

// gate serves pages that have no answer until open is called, which the end of the test does too: a
// crawl that has one among its seeds goes on until then.
func gate(t *testing.T) (url string, open func()) {
	opened := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/robots.txt" {
			select {
			case <-opened:
			case <-r.Context().Done():
			}
		}
		http.NotFound(w, r)
	}))
	open = sync.OnceFunc(func() { close(opened) })
	t.Cleanup(server.Close)
	t.Cleanup(open)
	return server.URL + "/", open
}

// TestTwoAtOnce starts two crawls of one tree at the same moment: one crawls, the other says who
// does.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Options{Kind: testweb.Linked, Hosts: 4, Pages: 60, Seed: 53, Latency: 50 * time.Millisecond})
	rounds := 5
	if testing.Short() {
		rounds = 2
	}
	for range rounds {
		dir := t.TempDir()
		held, open := gate(t)
		writeSeeds(t, dir, append(web.Seeds(), held))
		var cmds [2]*exec.Cmd
		var said [2]bytes.Buffer
		for i := range cmds {
			cmds[i] = child(dir, append([]string{"-quiet", "-timeout", "10m"}, crawlArgs...)...)
			cmds[i].Stderr = &said[i]
		}
		for _, cmd := range cmds {
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
		}
		ended := make(chan int, len(cmds))
		for i, cmd := range cmds {
			go func() {
				_ = cmd.Wait()
				ended <- i
			}()
		}
		loser := <-ended
		open()
		winner := <-ended
		if a, b := cmds[winner].ProcessState.ExitCode(), cmds[loser].ProcessState.ExitCode(); a != exitDone || b != exitTree {
			t.Fatalf("exits %d and %d, want %d and %d:\n%s\n%s", a, b, exitDone, exitTree, &said[winner], &said[loser])
		}
		if want := "process " + strconv.Itoa(cmds[winner].Process.Pid) + " has"; !strings.Contains(said[loser].String(), want) {
			t.Errorf("the second one says %q, without %q", &said[loser], want)
		}
		requireSame(t, urlsOf(t, filepath.Join(dir, "res.txt")), web.Answer().Stored)
	}
}

// TestMovedTree kills a crawl and moves its tree below a path that is too long for a socket, where
// the process that LOCK names is another one: the crawl goes on and answers questions there.
func TestMovedTree(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Options{Kind: testweb.Linked, Hosts: 4, Pages: 400, Seed: 54, Latency: 5 * time.Millisecond})
	dir := t.TempDir()
	held, open := gate(t)
	writeSeeds(t, dir, append(web.Seeds(), held))
	args := append([]string{"-verbose", "-timeout", "10m"}, crawlArgs...)
	p, err := start(child(dir, args...))
	if err != nil {
		t.Fatal(err)
	}
	if !p.printed.wait(regexp.MustCompile(`(?s)( stored.*){50}`)) {
		t.Fatal("it does not crawl")
	}
	_ = p.cmd.Process.Kill()
	<-p.done
	long := filepath.Join(dir, strings.Repeat("long/", 50))
	if err := os.MkdirAll(long, 0o777); err != nil {
		t.Fatal(err)
	}
	tree := filepath.Join(long, "tree")
	if err := os.Rename(filepath.Join(dir, "iut"), tree); err != nil {
		t.Fatal(err)
	}
	// This process lives, and has nothing to do with the tree.
	if err := os.WriteFile(filepath.Join(tree, "LOCK"), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	must(t, dir, "check", "-links", "-tree", tree)
	p, err = start(child(dir, append(args, "-tree", tree)...))
	if err != nil {
		t.Fatal(err)
	}
	if !p.printed.wait(regexp.MustCompile(` stored`)) {
		t.Fatalf("it does not go on: %s", p.printed.text)
	}
	if live := must(t, dir, "stats", "-tree", tree); !strings.Contains(live, "going on") {
		t.Errorf("stats: %s", live)
	}
	open()
	<-p.done
	if p.err != nil {
		t.Fatalf("%v: %s", p.err, p.printed.text)
	}
	must(t, dir, "check", "-links", "-tree", tree)
	requireSame(t, urlsOf(t, filepath.Join(dir, "res.txt")), web.Answer().Stored)
}

// TestLinkInTree: where somebody has put a symbolic link in the place of a folder, nothing is
// written behind it; the pages below fail, and the others are stored.
func TestLinkInTree(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Options{Kind: testweb.Linked, Hosts: 4, Pages: 80, Seed: 55})
	dir := t.TempDir()
	writeSeeds(t, dir, web.Seeds())
	must(t, dir, append([]string{"-quiet", "-max-pages", "1"}, crawlArgs...)...)
	outside, precious := t.TempDir(), "precious"
	seed := strings.TrimSpace(must(t, dir, "path", web.Seeds()[1]))
	host := filepath.Join(dir, "iut", filepath.Dir(seed)) // the folder of the host, without the port
	if err := os.RemoveAll(host); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outside, "content.html"), []byte(precious), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(host), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, host); err != nil {
		t.Fatal(err)
	}
	must(t, dir, append([]string{"-quiet"}, crawlArgs...)...)
	entries, err := os.ReadDir(outside)
	if b, err2 := os.ReadFile(filepath.Join(outside, "content.html")); err != nil || err2 != nil || len(entries) != 1 || string(b) != precious {
		t.Errorf("outside there are now %v, %v, %v", entries, err, err2)
	}
	stored := urlsOf(t, filepath.Join(dir, "res.txt"))
	failed := firstFields(must(t, dir, "export", "-state", "error"))[1:] // the first is the title
	if len(stored) == 0 || len(failed) == 0 || len(stored)+len(failed) != len(web.Answer().Stored) {
		t.Errorf("%d pages are stored and %d failed, of %d", len(stored), len(failed), len(web.Answer().Stored))
	}
}

// TestFoldingFileSystem: on an ext4 where the case of names does not count, pages whose URLs differ
// in nothing else are kept apart.
func TestFoldingFileSystem(t *testing.T) {
	t.Parallel()
	disk := mountLoop(t, 64, "-O", "casefold", "-E", "encoding=utf8")
	tree := filepath.Join(disk, "iut")
	if err := os.Mkdir(tree, 0o777); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("chattr", "+F", tree).CombinedOutput(); err != nil {
		t.Skipf("chattr +F: %v: %s", err, out)
	}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(rw, r)
			return
		}
		rw.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(rw, "<p>%s<a href=/a><a href=/A><a href='/a?q'><a href='/A?Q'>", r.URL)
	}))
	defer server.Close()
	dir := t.TempDir()
	must(t, dir, "-quiet", "-delay", "0", "-min-free", "0", "-sitemaps=false", "-tree", tree, server.URL+"/")
	must(t, dir, "check", "-links", "-tree", tree)
	var want []string
	for _, path := range []string{"/", "/A", "/A?Q", "/a", "/a?q"} {
		want = append(want, server.URL+path)
	}
	requireSame(t, urlsOf(t, filepath.Join(dir, "res.txt")), want)
}
