package main

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"urltree/internal/ctl"
	"urltree/internal/inspect"
	"urltree/internal/testdisk"
	"urltree/internal/testweb"
	"urltree/iut"
)

// TestPowerCutOnExt4 cuts the power of an ext4 while a crawl, a merge, or the writing of results is
// at work there. Each ends with exit 4, or had ended; when the disk is mounted again check finds no
// fault, no outcome is lost that the index had, what is stored is not asked again, and the crawl
// goes on to the known answer, which the next cut leaves alone. The stores take turns, by the
// random seed. With TEST_URLTREE_FULL=1 there are some dozens of cuts.
func TestPowerCutOnExt4(t *testing.T) {
	if testing.Short() {
		t.Skip("cuts the power of a file system of its own, again and again: not with -short")
	}
	seed, trees := rand.Uint64(), 1
	if os.Getenv("TEST_URLTREE_FULL") != "" {
		trees = 10
	}
	d, err := testdisk.New(t.Context(), t.TempDir(), "ext4", 256<<20)
	if err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := d.Remove(); err != nil {
			t.Error(err)
		}
	})
	if err := d.Cut(); err != nil {
		t.Skipf("the power of this ext4 cannot be cut: %v", err)
	}
	if err := d.Restart(); err != nil {
		t.Fatal(err)
	}
	outcomes := map[string]int{}
	for i := range uint64(trees) {
		store := iut.Stores[(seed+i/2)%2] // each with both kinds of webs
		t.Logf("tree %d, %s: random seed %d", i, store, seed+i)
		web := startWeb(t, testweb.Options{
			Kind: []testweb.Kind{testweb.Linked, testweb.Tree}[i%2], Hosts: killHosts, Pages: 300, Seed: seed + i, MinSize: 300, MaxSize: 12000,
			Latency: 20 * time.Millisecond, Redirects: .05, Errors: .003, NoIndex: .03, Images: .02, Private: .02,
		})
		c := &powerCut{Disk: d, web: web, store: store, rng: rand.New(rand.NewPCG(seed+i, 0)), outcomes: outcomes}
		c.tree(t)
		if t.Failed() {
			break
		}
	}
	t.Logf("%v", outcomes)
}

// A powerCut is a tree on a disk whose power is cut now and then.
type powerCut struct {
	*testdisk.Disk
	rng      *rand.Rand
	web      *testweb.Web
	store    string
	cuts     int            // so far
	outcomes map[string]int // of all trees, for the log
}

// What is at work when the power is cut.
var powerCuts = []struct {
	name  string
	after string // how the time begins: at the start, after some requests, or when this was printed
	least int    // ms from then on until the cut
	most  int
}{
	{"crawl", "", 5, 600},
	{"crawl", "requests", 1, 200},
	{"results", "step=1", 1, 60},
	{"merge", "", 5, 400},
	{"crawl", "requests", 1, 200},
	{"rebuild", "", 5, 600}, // a merge after the index was taken away
}

// tree crawls into an empty folder with a cut of each kind, then to the end, and cuts once more.
func (c *powerCut) tree(t *testing.T) {
	for _, name := range []string{"iut", "res.txt", "res2.txt"} {
		if err := os.RemoveAll(filepath.Join(c.Path, name)); err != nil {
			t.Fatal(err)
		}
	}
	writeSeeds(t, c.Path, c.web.Seeds())
	if err := c.Sync(); err != nil {
		t.Fatal(err)
	}
	for i := range powerCuts {
		c.round(t, i)
		if t.Failed() {
			return
		}
	}
	must(t, c.Path, c.crawl()...)
	ended := c.states(t)
	c.cut(t) // what has ended well is safe at once
	for _, args := range [][]string{c.crawl(), {"merge"}, {"check"}, {"ls"}} {
		if _, stderr, code := call(t, c.Path, args...); code != exitDisk || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s without power: exit %d, want %d: %s", args[0], code, exitDisk, stderr)
		}
	}
	c.restart(t)
	if diff := cmp.Diff(ended, c.states(t)); diff != "" {
		t.Errorf("a crawl that had ended is not as it was: %s", diff)
	}
	if checked := must(t, c.Path, "check", "-links"); strings.Contains(checked, "not compared") {
		t.Errorf("check says:\n%s", checked)
	}
	answer := c.web.Answer()
	requireSame(t, urlsOf(t, filepath.Join(c.Path, "res.txt")), answer.Stored)
	requests, repeats := c.web.Requests(), 0
	for _, url := range answer.Stored {
		repeats += requests[url] - 1
	}
	if repeats > c.cuts*killBound {
		t.Errorf("%d requests too many after %d cuts, at most %d are allowed", repeats, c.cuts, c.cuts*killBound)
	}
	t.Logf("%d cuts, %d of %d pages asked again", c.cuts, repeats, len(answer.Stored))
}

// crawl returns a command line that flushes often and prints the steps of the end.
func (c *powerCut) crawl() []string {
	args := killArgs("seed.txt", killOrders[c.rng.IntN(len(killOrders))])[1:]
	args[slices.Index(args, killFlush)] = "30ms"
	return append(args, "-store", c.store, "-verbose", "-sync", "full", "-min-free", "0", "-min-free-inodes", "0")
}

// round lets one thing be at work, cuts the power, and looks at what is left.
func (c *powerCut) round(t *testing.T, i int) {
	kind := powerCuts[i]
	rebuild := kind.name == "rebuild"
	args := c.crawl()
	switch kind.name {
	case "results":
		args = append(args, "-max-pages", "30")
	case "merge", "rebuild":
		args = []string{"merge"}
	}
	before, requests := c.states(t), c.web.Requests()
	list, _ := os.ReadFile(filepath.Join(c.Path, "res.txt"))
	if rebuild {
		if err := os.Remove(c.index()); err != nil && before != nil {
			t.Fatal(err)
		}
		if err := c.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	p, err := start(child(c.Path, args...))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = p.cmd.Process.Kill()
		<-p.done
	}()
	known := c.askUntilCut(t, kind.name == "crawl", p)
	switch kind.after {
	case "":
	case "requests":
		for most := len(requests) + 1 + c.rng.IntN(120); len(c.web.Requests()) < most && !p.endsWithin(time.Millisecond); {
		}
	default:
		if !p.printed.wait(regexp.MustCompile(kind.after)) {
			t.Errorf("%s: it never prints %s", kind.name, kind.after)
		}
	}
	// The first milliseconds are as likely as all the later ones.
	moment := time.Duration(float64(kind.least)*math.Pow(float64(kind.most)/float64(kind.least), c.rng.Float64())*1000) * time.Microsecond
	ended := p.endsWithin(moment)
	c.cut(t)
	if !p.endsWithin(patience) {
		t.Fatalf("%s does not end", kind.name)
	}
	during := known()
	c.restart(t)
	code, said := p.cmd.ProcessState.ExitCode(), string(p.printed.text)
	c.outcomes[fmt.Sprintf("%s exit %d", kind.name, code)]++
	c.outcomes["outcomes known to be in the index"] += len(during)
	t.Logf("%s: cut after %s, exit %d, %d records before and %d outcomes known meanwhile", kind.name, moment, code, len(before), len(during))
	if code != exitDone && (code != exitDisk || ended) {
		t.Errorf("%s: exit %d, ended before the cut: %t\n%s", kind.name, code, ended, said)
	}

	after := c.states(t)
	if after != nil {
		checked := must(t, c.Path, "check", "-links")
		if ended && code == exitDone && strings.Contains(checked, "not compared") {
			t.Errorf("%s had ended, but its results are lost:\n%s", kind.name, checked)
		}
	} else if before != nil && !rebuild {
		t.Error("the index is gone")
	}
	for url, state := range before {
		switch is := after[url]; {
		case after == nil, rebuild && state != "stored", state == "pending" && is != "":
		case is != state:
			t.Errorf("%s: was %s before, is %q", url, state, is)
		}
	}
	for url, state := range during {
		if is := after[url]; is != state {
			t.Errorf("%s: was %s during the crawl, is %q", url, state, is)
		}
	}
	for url, n := range c.web.Requests() {
		if before[url] == "stored" && n > requests[url] {
			t.Errorf("%s: was stored, and asked again", url)
		}
	}
	// The list is the one from before or another one, never a part.
	if now, err := os.ReadFile(filepath.Join(c.Path, "res.txt")); list != nil && err != nil || len(now) < len(list) && !rebuild || len(now) > 0 && !bytes.HasSuffix(now, []byte("\n")) {
		t.Errorf("res.txt: %v; it had %d bytes and has %d", err, len(list), len(now))
	}
}

func (c *powerCut) cut(t *testing.T) {
	if err := c.Cut(); err != nil {
		t.Fatal(err)
	}
	c.cuts++
}

func (c *powerCut) restart(t *testing.T) {
	if err := c.Restart(); err != nil {
		t.Fatal(err)
	}
}

// endsWithin waits for the end of a process or for a time; of a process, so real time.
func (p *process) endsWithin(d time.Duration) bool {
	select {
	case <-p.done:
		return true
	case <-time.After(d):
		return false
	}
}

func (c *powerCut) index() string { return filepath.Join(c.Path, "iut", "index.db") }

// states returns the state of each URL that the index knows; nil: there is none.
func (c *powerCut) states(t *testing.T) map[string]string {
	if _, err := os.Stat(c.index()); err != nil {
		return nil
	}
	return parseStates(must(t, c.Path, "export"))
}

func parseStates(text string) map[string]string {
	states := map[string]string{}
	for line := range strings.Lines(text) {
		if fields := strings.Split(line, "\t"); fields[0] != "URL" {
			states[fields[0]] = fields[1]
		}
	}
	return states
}

// askUntilCut asks a crawl again and again what its index holds, until it has ended. The
// function that it gives waits for that and gives the outcomes which the index had for certain.
//
// What an export tells may come from a transaction that is not synced yet. Transactions take turns,
// so that one is through when there is more than it brought. An export reads in parts, of which the
// first may lack what the last has: two exports with more are needed.
func (c *powerCut) askUntilCut(t *testing.T, ask bool, p *process) (known func() map[string]string) {
	var certain map[string]string
	var done sync.WaitGroup
	if ask {
		done.Go(func() {
			var last, latest map[string]string // each with more than the one before
			for !p.endsWithin(5 * time.Millisecond) {
				var text strings.Builder
				if err := ctl.Call(t.Context(), filepath.Join(c.Path, "iut"), inspect.Question{Command: "export"}, &text); err != nil {
					continue // the crawl has not begun yet, or ends
				}
				closed := parseStates(text.String())
				maps.DeleteFunc(closed, func(_, state string) bool { return state == "pending" })
				if len(closed) > len(latest) {
					certain, last, latest = last, latest, closed
				}
			}
		})
	}
	return func() map[string]string {
		done.Wait()
		return certain
	}
}
