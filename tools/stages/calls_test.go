package stages

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
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
// the number of pages and that of allocations, and gives the exit code.
func crawlAsChild(url string) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	result, err := crawler.Run(context.Background(), crawler.Options{
		Seeds:      []string{url},
		Bounds:     crawler.Bounds{Scope: scope.Host},
		Politeness: crawler.Politeness{Delay: -1, PerHost: 5},
		Resources:  crawler.Resources{FlushInterval: time.Hour},
		HTTP:       crawler.HTTP{Insecure: true},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	runtime.ReadMemStats(&after)
	fmt.Println(result.Run.Stored, after.Mallocs-before.Mallocs)
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
// among them. The allocations by TLS, HTTP/2 and gzip are counted there as well, without those of
// the server.
func TestCostOfCalls(t *testing.T) {
	skipRaced(t)
	const pages = 1000
	t.Run("plain", func(t *testing.T) {
		calls, _ := crawlTraced(t, serveHandbook(t, pages).url, pages)
		guardCalls(t, calls, pages, most.systemCalls, most.steadyCalls)
		guard(t, "files and folders opened, of a page", float64(calls["openat2"])/pages, most.opened)
	})
	t.Run("secured", func(t *testing.T) {
		calls, allocations := crawlTraced(t, serveSecured(t, pages), pages)
		guardCalls(t, calls, pages, most.securedCalls, most.securedSteady)
		guard(t, "allocations of a page", float64(allocations)/pages, most.securedAllocs)
	})
}

// crawlTraced crawls so many pages, and returns the calls of the kernel and the number of
// allocations.
func crawlTraced(t *testing.T, url string, pages int) (calls map[string]int, allocations int) {
	t.Helper()
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("strace is not installed")
	}
	counts := filepath.Join(t.TempDir(), "strace.txt")
	args := append(strace.Command(counts), os.Args[0])
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), seedOfChild+"="+url)
	out, err := cmd.CombinedOutput()
	calls, noCalls := strace.Calls(counts)
	if noCalls != nil {
		t.Skipf("strace may not trace here: %v, %v: %s", noCalls, err, out)
	}
	var stored int
	_, unread := fmt.Sscan(string(out), &stored, &allocations)
	if err = errors.Join(err, unread); err != nil || stored != pages {
		t.Fatalf("%v, %s; want %d pages", err, out, pages)
	}
	return calls, allocations
}

// guardCalls compares the calls of a crawl with what they may be: all but those that go by time,
// and these without those that open and close something.
func guardCalls(t *testing.T, calls map[string]int, pages int, mostCalls, mostSteady float64) {
	t.Helper()
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
	guard(t, "system calls, of a page", float64(all)/float64(pages), mostCalls)
	guard(t, "system calls without those that open and close, of a page", float64(steady)/float64(pages), mostSteady)
	if t.Failed() {
		for _, name := range slices.Sorted(maps.Keys(calls)) {
			t.Logf("%s: %.3f", name, float64(calls[name])/float64(pages))
		}
	}
}
