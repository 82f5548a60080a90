package machine

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCommit(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(folder))
	if got := commit(folder); got != "" {
		t.Errorf("%q, in no repository", got)
	}
	for _, args := range [][]string{{"init", "-q"}, {"-c", "user.name=a", "-c", "user.email=a@a.org", "commit", "-q", "--allow-empty", "-m", "first"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = folder
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("git: %v: %s", err, text)
		}
	}
	clean := commit(folder)
	if len(clean) < 4 || strings.Contains(clean, " ") {
		t.Errorf("%q, want a short commit", clean)
	}
	if err := os.WriteFile(filepath.Join(folder, "new.go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := commit(folder); got != clean+" with changes" {
		t.Errorf("%q after a change of %q", got, clean)
	}
}

func TestQuote(t *testing.T) {
	words := []string{"go", "run", "-C", "tools", "./peers", "-packages", "a b", "", "it's", "$HOME", "-x=é", "*"}
	out, err := exec.Command("sh", "-c", `printf '%s\n' `+quote(words)).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n"); !slices.Equal(got, words) {
		t.Errorf("a shell reads %q, want %q", got, words)
	}
	if got := quote([]string{"go", "-cpu", "0"}); got != "go -cpu 0" {
		t.Error(got)
	}
}

func TestPriority(t *testing.T) {
	if got := strings.Join(Pinned("0,1", 5, "nginx", "-p"), " "); got != "chrt -r 5 taskset -c 0,1 nginx -p" {
		t.Error(got)
	}
	if got := strings.Join(Pinned("0", 0, "nginx"), " "); got != "taskset -c 0 nginx" {
		t.Error(got)
	}
	if err := MayHave(0); err != nil {
		t.Error(err)
	}
	if MayHave(-1) == nil || MayHave(100) == nil {
		t.Error("a priority out of range gives no error")
	}
	t.Setenv("PATH", t.TempDir())
	if err := MayHave(5); err == nil || !strings.Contains(err.Error(), "chrt") {
		t.Errorf("without chrt: %v", err)
	}
}
