package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNewRootIsDurable: the folders that hold a new tree are synced, unless -sync none is given,
// for no sync of the tree need reach above its root.
func TestNewRootIsDurable(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("there is no strace")
	}
	for _, sync := range []string{"full", "none"} {
		dir := t.TempDir()
		trace := filepath.Join(dir, "trace")
		writeSeeds(t, dir, []string{"http://127.0.0.1:1/"})
		args := []string{"-quiet", "-sync", sync, "-max-wait", "1ms", "-tree", "a/b/iut", "-input", "seed.txt", "-output", filepath.Join(t.TempDir(), "res.txt")}
		cmd := child(dir, args...)
		cmd.Args = append([]string{strace, "-f", "-y", "-qq", "-o", trace, "-e", "trace=fsync", "--", cmd.Path}, args...)
		cmd.Path = strace
		out, err := cmd.CombinedOutput()
		text, terr := os.ReadFile(trace)
		if terr != nil || sync == "full" && len(text) == 0 {
			t.Skipf("strace may not trace here: %v: %.200s", err, out)
		}
		if code := cmd.ProcessState.ExitCode(); code != exitFailed { // nobody answers at that seed
			t.Fatalf("exit %d: %s", code, out)
		}
		for _, holder := range []string{dir, dir + "/a", dir + "/a/b"} {
			if synced := strings.Contains(string(text), "<"+holder+">"); synced != (sync == "full") {
				t.Errorf("-sync %s: %s is synced: %v", sync, holder, synced)
			}
		}
	}
}
