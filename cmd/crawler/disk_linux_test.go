package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"urltree/internal/testweb"
)

// mountLoop makes an ext4 file system of so many MiB in a file and mounts it until the test ends.
func mountLoop(t *testing.T, size int64, mkfs ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	image := filepath.Join(t.TempDir(), "ext4")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, size<<20); err != nil {
		t.Fatal(err)
	}
	// Nothing is kept for root, who runs the test.
	if out, err := exec.Command("mkfs.ext4", append(append([]string{"-q", "-m", "0"}, mkfs...), image)...).CombinedOutput(); err != nil {
		t.Skipf("mkfs.ext4: %v: %s", err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput(); err != nil {
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

// ballast fills the file system of dir until only so many MiB are left, and gives the file.
func ballast(t *testing.T, dir string, left int64) string {
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
	if err := syscall.Fallocate(int(f.Fd()), 0, 0, int64(st.Bavail)*st.Bsize-left<<20); err != nil {
		t.Fatal(err)
	}
	return name
}

// spend makes empty files until only so many inodes are left.
func spend(t *testing.T, dir string, left uint64) (names []string) {
	t.Helper()
	for {
		var st syscall.Statfs_t
		if err := syscall.Statfs(dir, &st); err != nil {
			t.Fatal(err)
		}
		if st.Ffree <= left {
			return names
		}
		for range st.Ffree - left {
			name := filepath.Join(dir, fmt.Sprintf("spent%d", len(names)))
			if err := os.WriteFile(name, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
	}
}

// TestFullFileSystem crawls onto a small ext4: without the guard the disk becomes full, which is
// exit 4 and a whole tree; with it the crawl pauses and goes on when there is room. Either way it
// comes to the known answer.
func TestFullFileSystem(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Options{
		Kind: testweb.Linked, Hosts: 6, Pages: 500, Seed: 41, MinSize: 1000, MaxSize: 40 << 10, Redirects: .05,
	})
	for _, tt := range []struct {
		name   string
		left   int64  // MiB
		inodes uint64 // 0: more than are needed
		flags  string
		pauses bool
	}{
		{"bytes", 7, 0, "-min-free 0 -min-free-inodes 0", false},
		{"guarded bytes", 13, 0, "-min-free 7MiB -min-free-inodes 0", true},
		{"inodes", 40, 800, "-min-free 0 -min-free-inodes 0", false},
		{"guarded inodes", 40, 800, "-min-free 0 -min-free-inodes 300", true},
		{"bytes of segments", 7, 0, "-min-free 0 -min-free-inodes 0 -store warc -warc-compression none", false},
		{"guarded bytes of segments", 13, 0, "-min-free 7MiB -min-free-inodes 0 -store warc -warc-compression none -warc-size 64k", true},
		// Each page has a segment of its own.
		{"segments for inodes", 40, 350, "-min-free 0 -min-free-inodes 0 -store warc -warc-size 1", false},
		{"segments for guarded inodes", 40, 450, "-min-free 0 -min-free-inodes 300 -store warc -warc-size 1", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var mkfs []string
			if tt.inodes > 0 {
				mkfs = []string{"-N", "4096"}
			}
			disk, dir := mountLoop(t, 64, mkfs...), t.TempDir()
			heavy := ballast(t, disk, tt.left)
			var many []string // in the way of inodes
			if tt.inodes > 0 {
				many = spend(t, disk, tt.inodes)
			}
			makeRoom := func() {
				for _, name := range append(many, heavy) {
					if err := os.Remove(name); err != nil {
						t.Error(err)
					}
				}
			}
			writeSeeds(t, dir, web.Seeds())
			tree := filepath.Join(disk, "iut")
			// Few buffers, so that there is little between the mark and the end.
			args := append([]string{"-delay", "0", "-allow-private", "-input", "seed.txt", "-tree", tree, "-buffers", "2", "-buffer-size", "20"}, strings.Fields(tt.flags)...)
			p, err := start(child(dir, args...))
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = p.cmd.Process.Kill()
				<-p.done
			}()
			want := exitDisk
			if tt.pauses {
				want = exitDone
				if !p.printed.wait(regexp.MustCompile("fetching pauses: the disk is nearly full")) {
					t.Fatal("it never pauses")
				}
				if live := must(t, dir, "stats", "-tree", tree); !strings.Contains(live, "free on the disk of the tree") {
					t.Errorf("stats tells of no pause:\n%s", live)
				}
				makeRoom()
			}
			select {
			case <-p.done:
			case <-time.After(patience):
				t.Fatal("it does not end")
			}
			text := string(p.printed.text)
			if code := p.cmd.ProcessState.ExitCode(); code != want {
				t.Fatalf("exit %d, want %d:\n%s", code, want, text)
			}
			if strings.Contains(text, "no space left on device") == tt.pauses {
				t.Errorf("it said:\n%s", text)
			}
			must(t, dir, "check", "-links", "-tree", tree)
			if !tt.pauses {
				makeRoom()
				must(t, dir, args...)
				must(t, dir, "check", "-links", "-tree", tree)
			}
			requireSame(t, urlsOf(t, filepath.Join(dir, "res.txt")), web.Answer().Stored)
		})
	}
}
