package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"urltree/internal/testshare"
	"urltree/internal/testweb"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// indexCalls are the system calls on index.db, with errors that they can give.
var indexCalls = []struct {
	call   string
	errnos []string
}{
	{"openat", []string{"EMFILE", "EIO", "ENOSPC", "EACCES"}},
	{"pread64", []string{"EIO"}},
	{"fstat", []string{"EIO"}},
	{"flock", []string{"EIO"}},
	{"mmap", []string{"ENOMEM", "EACCES"}},
	{"ftruncate", []string{"ENOSPC", "EIO"}},
	{"pwrite64", []string{"ENOSPC", "EIO"}},
	{"fdatasync", []string{"EIO", "ENOSPC"}},
	{"fsync", []string{"EIO"}},
}

// writing are the calls after whose failure nothing more is written or synced.
var writing = []string{"ftruncate", "pwrite64", "fdatasync", "fsync"}

// letFail runs the command under strace, which lets the kth call of a kind fail on an index file or
// a segment that is there, counted in each thread. It gives what was printed on standard error, the
// exit code, and the calls on these files in order.
func letFail(t *testing.T, root, call, errno string, k int, args ...string) (stderr string, code int, calls []string) {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("there is no strace")
	}
	trace := filepath.Join(t.TempDir(), "trace")
	traced := []string{strace, "-f", "-qq", "-s", "0", "-o", trace, "-e", "signal=none"}
	files, err := filepath.Glob(filepath.Join(root, "warc", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"index.db", "index.db.new", "index.db.making", "index.db.making.new"} {
		files = append(files, filepath.Join(root, name))
	}
	for _, name := range files {
		traced = append(traced, "-P", name)
	}
	list := make([]string, len(indexCalls))
	for i, c := range indexCalls {
		list[i] = c.call
	}
	traced = append(traced, "-e", "trace="+strings.Join(list, ","), "-e", fmt.Sprintf("inject=%s:error=%s:when=%d", call, errno, k), "--")
	cmd := child(filepath.Dir(root), args...)
	cmd.Args = append(append(traced, cmd.Path), args...)
	cmd.Path = strace
	var errs bytes.Buffer
	cmd.Stderr = &errs
	err = cmd.Run()
	text, terr := os.ReadFile(trace)
	if terr != nil || len(text) == 0 {
		t.Skipf("strace may not trace here: %v: %.200s", err, &errs)
	}
	if _, ok := err.(*exec.ExitError); err != nil && !ok {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if _, call, _ := strings.Cut(strings.TrimSpace(line), " "); !strings.Contains(call, "<unfinished ...>") {
			calls = append(calls, strings.TrimSpace(call))
		}
	}
	return errs.String(), cmd.ProcessState.ExitCode(), calls
}

// nameOf returns the name of a system call that strace has written.
func nameOf(call string) string {
	call = strings.TrimPrefix(call, "<... ")
	return call[:max(strings.IndexAny(call, "( "), 0)]
}

// TestFaultAtEverySystemCall lets system calls on index.db fail, one in each run, until runs do not
// get as far: in a crawl, and in a merge of a tree that is whole and of one with a damaged record,
// for each store, with the calls on the segments that are merged. The exit code is that of a
// failing disk, an index that is whole is never set aside, and nothing is written to it after a
// write or sync has failed. Then check finds no fault, and the same command goes on to the known
// answer.
func TestFaultAtEverySystemCall(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the command hundreds of times: not with -short")
	}
	step, misses, seed := 8, 1, rand.Uint64()
	stores := iut.Stores[seed%2:][:1]
	if os.Getenv("TEST_URLTREE_FULL") != "" {
		step, misses, stores = 1, 3, iut.Stores
	}
	t.Logf("random seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	web := testweb.New(testweb.Options{Kind: testweb.Linked, Hosts: 2, Pages: 12, Seed: 45, MinSize: 300, MaxSize: 1000, Redirects: .1})
	if err := web.Start(0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(web.Stop)
	on := func(command, dir string, more ...string) []string {
		return append([]string{command, "-tree", filepath.Join(dir, "iut"), "-output", filepath.Join(dir, "res.txt")}, more...)
	}
	type interrupted struct {
		name, from string
		damaged    bool
		args       func(dir string) []string
	}
	var all []interrupted
	for _, store := range stores {
		crawl := func(dir string) []string {
			return on("-quiet", dir, "-delay", "0", "-allow-private", "-flush-interval", "20ms", "-crawlers", "1", "-buffers", "1",
				"-store", store, "-warc-size", "2k", "-input", filepath.Join(dir, "seed.txt"))
		}
		merge := func(dir string) []string { return on("merge", dir) }
		empty, whole, damaged := t.TempDir(), t.TempDir(), t.TempDir()
		writeSeeds(t, empty, web.Seeds())
		writeSeeds(t, whole, web.Seeds())
		requireExit(t, "whole", 0, crawl(whole)...)
		if err := os.CopyFS(damaged, os.DirFS(whole)); err != nil {
			t.Fatal(err)
		}
		spoilRecord(t, filepath.Join(damaged, "iut", "index.db"))
		all = append(all, interrupted{"crawl " + store, empty, false, crawl}, interrupted{"merge " + store, whole, false, merge},
			interrupted{"mend " + store, damaged, true, merge})
	}
	kinds := 0
	var one sync.Mutex // the parser of the command line writes to variables of its package

	for _, tt := range all {
		// probe lets the kth call fail, in a copy of the folder, and tells whether there was one.
		probe := func(t *testing.T, call, errno string, k int) (place int, code int) {
			dir := filepath.Join(t.TempDir(), strconv.Itoa(k))
			if err := os.CopyFS(dir, os.DirFS(tt.from)); err != nil {
				t.Fatal(err)
			}
			stderr, code, calls := letFail(t, filepath.Join(dir, "iut"), call, errno, k, tt.args(dir)...)
			place = slices.IndexFunc(calls, func(c string) bool { return strings.HasSuffix(c, "(INJECTED)") })
			one.Lock()
			defer one.Unlock()
			what := fmt.Sprintf("call %d fails: exit %d: %s", k, code, stderr)
			// The copy's results are of the tree that was copied, which a merge says first.
			if _, behind, ok := strings.Cut(stderr, "another -output keeps both\n"); ok {
				stderr = behind
			}
			if _, behind, ok := strings.Cut(stderr, "index.db is made anew"); ok && tt.damaged {
				_, stderr, _ = strings.Cut(behind, "\n")
			}
			switch {
			case code == 0 && (place < 0 || call == "pread64"): // bbolt goes on with the other meta page
			case place < 0, code != exitDisk, strings.Count(stderr, "\n") != 1, strings.Contains(stderr, record.ErrDamaged.Error()):
				t.Errorf("%s", what)
			}
			if place >= 0 && slices.Contains(writing, call) {
				for _, later := range calls[place+1:] {
					if slices.Contains(writing, nameOf(later)) {
						t.Errorf("%s\nand then: %s", what, later)
					}
				}
			}
			if kept, err := filepath.Glob(filepath.Join(dir, "iut", "index.db.damaged-*")); err != nil || len(kept) > 0 && !tt.damaged {
				t.Errorf("%s\nset aside: %v", what, kept)
			}
			if there, err := storage.Exists(filepath.Join(dir, "iut", "index.db")); err == nil && there && !tt.damaged {
				requireExit(t, what, 0, on("check", dir)...)
			}
			requireExit(t, what, 0, tt.args(dir)...)
			requireExit(t, what, 0, on("check", dir, "-links")...)
			requireSame(t, urlsOf(t, filepath.Join(dir, "res.txt")), web.Answer().Stored)
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			return place, code
		}
		for _, c := range indexCalls {
			errnos := c.errnos
			if step > 1 {
				errnos = errnos[rnd.IntN(len(errnos)):][:1]
			}
			for _, errno := range errnos {
				if kinds++; step == 1 && !testshare.Mine(kinds) {
					continue
				}
				t.Run(tt.name+" "+c.call+" "+errno, func(t *testing.T) {
					t.Parallel()
					rnd := rand.New(rand.NewPCG(seed, 1))
					codes, places := map[int]int{}, map[int]bool{}
					missed := 0 // in the last runs nothing failed; another run may spread its calls otherwise over threads
					for k := 1 + rnd.IntN(min(step, 4)); missed < misses && !t.Failed(); k += 1 + rnd.IntN(2*step-1) {
						missed++
						if place, code := probe(t, c.call, errno, k); place >= 0 {
							missed, places[place] = 0, true
							codes[code]++
						}
					}
					t.Logf("runs by exit code: %v; %d different calls", codes, len(places))
				})
			}
		}
	}
}
