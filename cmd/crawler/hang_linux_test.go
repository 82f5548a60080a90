package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"urltree/internal/testshare"
	"urltree/internal/testweb"
)

// TestHangingIndex: a write to index.db, or its sync, that does not come back is told of after a
// minute with its stack, and ends the crawl after two, from the first that an index gets to the
// last. The tree is whole, and once the disk is well the same command goes on to the known answer.
func TestHangingIndex(t *testing.T) {
	if os.Getenv("TEST_URLTREE_FULL") == "" {
		t.Skip("takes more than two minutes: TEST_URLTREE_FULL")
	}
	if !testshare.Mine(1) {
		t.Skip("takes more than two minutes: another share has it")
	}
	t.Parallel()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("there is no strace")
	}
	if text, err := exec.Command(strace, "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("strace may not trace here: %v: %s", err, text)
	}
	web := testweb.New(testweb.Options{Kind: testweb.Linked, Hosts: 2, Pages: 12, Seed: 45, MinSize: 300, MaxSize: 1000})
	if err := web.Start(0); err != nil {
		t.Fatal(err)
	}
	defer web.Stop()
	told := regexp.MustCompile(`this takes longer than it may" .* for=1m\S* stack="[^"]*storage\.[^"]*"`)
	stuck := regexp.MustCompile("(?m)^crawler: stuck: ")
	hung := 0
	defer func() {
		if hung < 4 && !t.Failed() {
			t.Errorf("%d crawls hung: calls are spread otherwise over threads than they were?", hung)
		}
	}()
	for _, tt := range []struct {
		call string
		when []int // counted in each thread
	}{{"pwrite64", []int{1, 4, 8, 12, 16}}, {"fdatasync", []int{2, 5, 8, 11}}} {
		for _, k := range tt.when {
			dir := t.TempDir()
			writeSeeds(t, dir, web.Seeds())
			args := []string{"-quiet", "-delay", "0", "-allow-private", "-flush-interval", "20ms", "-crawlers", "1", "-buffers", "1", "-input", "seed.txt"}
			cmd := child(dir, args...)
			// strace is no parent of the crawler (-D), keeps the thread from its call for three
			// minutes, and until then the process from being gone when it has ended: what came of
			// it is known after them.
			cmd.Args = append([]string{
				strace, "-D", "-f", "-qq", "-s", "0", "-o", filepath.Join(t.TempDir(), "trace"), "-e", "signal=none",
				"-P", filepath.Join(dir, "iut", "index.db"), "-e", "trace=" + tt.call,
				"-e", fmt.Sprintf("inject=%s:delay_enter=180s:when=%d", tt.call, k), "--", cmd.Path,
			}, args...)
			cmd.Path = strace
			printed := &transcript{more: make(chan struct{})}
			cmd.Stderr = printed
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() {
				if printed.wait(told) {
					_ = cmd.Process.Signal(syscall.SIGTERM)
				}
				ended <- cmd.Wait()
			}()
			// All of them are on their way before the first is waited for.
			defer t.Run(fmt.Sprintf("%s %d", tt.call, k), func(t *testing.T) {
				<-ended // what came of it is in cmd.ProcessState
				switch code := cmd.ProcessState.ExitCode(); {
				case code == exitDisk && printed.matches(told) && printed.matches(stuck):
					hung++
				case code != exitDone || len(printed.text) > 0:
					t.Errorf("exit %d", code)
				}
				t.Logf("%s", printed.text)
				must(t, dir, args...)
				must(t, dir, "check", "-links")
				requireSame(t, urlsOf(t, filepath.Join(dir, "res.txt")), web.Answer().Stored)
			})
		}
	}
}
