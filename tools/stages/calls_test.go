package stages

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"urltree/crawler"
	"urltree/crawler/scope"
	"urltree/tools/strace"
)

// seedOfChild names the variable of the environment that makes this program a crawler of the URL
// in it, in the folder where it is started.
const seedOfChild = "TEST_URLTREE_STAGES_SEED"

// crawlAsChild crawls a handbook with all that a crawl does on a disk, syncs included. It prints
// the number of pages, and gives the exit code.
func crawlAsChild(url string) int {
	result, err := crawler.Run(context.Background(), crawler.Options{
		Seeds:      []string{url},
		Bounds:     crawler.Bounds{Scope: scope.Host},
		Politeness: crawler.Politeness{Delay: -1, PerHost: 5},
		Resources:  crawler.Resources{FlushInterval: time.Hour},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(result.Run.Stored)
	return 0
}

// byTime are the calls of which there are more or fewer by what else the machine does: those of
// the scheduler, of the garbage collector and of the network poller.
var byTime = []string{
	"futex", "nanosleep", "clock_nanosleep", "sched_yield", "epoll_wait", "epoll_pwait", "epoll_pwait2",
	"tgkill", "getpid", "rt_sigreturn", "madvise",
}

// ofConnections are those that a connection begins and ends with, besides a close. A crawl needs a
// few connections, but opens another one when it asks before the last answer has given its own
// back: 20 to 150 for 1,000 pages, of eleven calls each.
var ofConnections = []string{
	"socket", "connect", "setsockopt", "getsockopt", "getsockname", "getpeername", "epoll_ctl",
}

// ofOpening are those with which files, folders and connections are opened and closed: two files of
// each page, and the folder that it stands in unless that is still open from the page before, which
// depends on how pages come together.
var ofOpening = []string{"openat2", "close"}

// TestCostOfCalls crawls a handbook in a process of its own, and counts the calls of the kernel.
// Those of the network, of the index and of what stands below the seam of the file system are
// among them.
func TestCostOfCalls(t *testing.T) {
	skipRaced(t)
	const pages = 1000
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("strace is not installed")
	}
	h := serveHandbook(t, pages)
	counts := filepath.Join(t.TempDir(), "strace.txt")
	args := append(strace.Command(counts), os.Args[0])
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), seedOfChild+"="+h.url)
	out, err := cmd.CombinedOutput()
	calls, noCalls := strace.Calls(counts)
	if noCalls != nil {
		t.Skipf("strace may not trace here: %v, %v: %s", noCalls, err, out)
	}
	if err != nil || strings.TrimSpace(string(out)) != fmt.Sprint(pages) {
		t.Fatalf("%v, %s; want %d pages", err, out, pages)
	}
	all, steady := 0, 0
	for name, n := range calls {
		if slices.Contains(byTime, name) {
			continue
		}
		all += n
		if !slices.Contains(ofConnections, name) && !slices.Contains(ofOpening, name) {
			steady += n
		}
	}
	guard(t, "system calls, of a page", float64(all)/pages, most.systemCalls)
	guard(t, "files and folders opened, of a page", float64(calls["openat2"])/pages, most.opened)
	guard(t, "system calls without those that open and close, of a page", float64(steady)/pages, most.steadyCalls)
	if t.Failed() {
		for _, name := range slices.Sorted(maps.Keys(calls)) {
			t.Logf("%s: %.3f", name, float64(calls[name])/pages)
		}
	}
}
