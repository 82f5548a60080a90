package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A meshWeb is a web of several hosts with many ways to each page, which answers after random
// times.
type meshWeb struct {
	pages  int
	hosts  []string // host:port
	served atomic.Int64
}

func newMeshWeb(t *testing.T, pages int) *meshWeb {
	w := &meshWeb{pages: pages}
	serveHosts(t, w, &w.hosts, 8, func(h int) (net.Listener, error) {
		return net.Listen("tcp", fmt.Sprintf("127.94.%d.1:0", h))
	})
	return w
}

func (w *meshWeb) url(n int) string {
	return fmt.Sprintf("http://%s/p%d", w.hosts[n%len(w.hosts)], n)
}

func (w *meshWeb) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	<-time.After(rand.N(20 * time.Millisecond))
	w.served.Add(1)
	n, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/p"))
	switch {
	case err != nil || n%13 == 5:
		http.NotFound(out, r)
		return
	case n%13 == 6:
		http.Redirect(out, r, w.url(n+1), http.StatusFound)
		return
	}
	out.Header().Set("Content-Type", "text/html")
	links := rand.New(rand.NewPCG(uint64(n), 2))
	for range 8 {
		fmt.Fprintf(out, "<a href=%q>x</a>\n", w.url(links.IntN(w.pages)))
	}
}

// wait waits for so many requests, or until done is closed.
func (w *meshWeb) wait(requests int64, done <-chan struct{}) {
	for at := w.served.Load() + requests; w.served.Load() < at; {
		select {
		case <-done:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

var traceLine = regexp.MustCompile(`(?m)^trace     of \d+ steps: ([0-9a-f]{32})$`)

// traceOf returns the trace that a crawl has printed, which statistics.txt has as well.
func traceOf(t *testing.T, dir, printed string) string {
	t.Helper()
	m := traceLine.FindStringSubmatch(printed)
	if m == nil {
		t.Fatalf("no trace:\n%s", printed)
	}
	statistics, err := os.ReadFile(filepath.Join(dir, "statistics.txt"))
	if err != nil || !strings.Contains(string(statistics), "trace  "+m[1]+"\n") {
		t.Errorf("statistics.txt has no trace %s, %v", m[1], err)
	}
	return m[1]
}

// bspRuns is how often a crawl is made again.
func bspRuns() int {
	if testing.Short() {
		return 3
	}
	return 10
}

// TestBSP: a crawl in supersteps comes to the same trace each time, also if it is killed within a
// step and goes on by what the tree keeps of its options; without -bsp it goes on no more.
func TestBSP(t *testing.T) {
	t.Parallel()
	w := newMeshWeb(t, 150)
	args := []string{"-bsp", "12", "-delay", "1ms", "-allow-private", "-per-host", "2", w.url(0)}
	first := ""
	for run := range bspRuns() {
		dir := t.TempDir()
		n := &processNode{t: t, name: "alone", dir: dir, args: args}
		for range run % 3 {
			n.start()
			w.wait(40+rand.Int64N(40), n.done)
			n.kill()
			n.args = nil
			must(t, dir, "check", "-links")
		}
		_, errs, code := call(t, dir, append([]string{"-crawlers", strconv.Itoa(run + 1)}, n.args...)...)
		if code != 0 {
			t.Fatalf("exit %d\n%s", code, errs)
		}
		trace := traceOf(t, dir, errs)
		if first == "" {
			first = trace
		}
		if trace != first {
			t.Errorf("run %d came to %s, the first to %s", run, trace, first)
		}
		must(t, dir, "check")
		if run == 0 {
			must(t, dir, "options", "-reset", "bsp")
			if _, errs, code := call(t, dir); code != exitUsage || !strings.Contains(errs, "start it with -bsp") {
				t.Errorf("without -bsp: exit %d\n%s", code, errs)
			}
		}
	}
}

// TestBSPNodes: so do two nodes of one crawl, also if one of them is killed within a step.
func TestBSPNodes(t *testing.T) {
	t.Parallel()
	w := newMeshWeb(t, 150)
	first := ""
	for run := range 3 {
		var nodes []*processNode
		engine := freeEngine()
		for i := range 2 {
			n := &processNode{t: t, name: string(rune('a' + i)), dir: t.TempDir(), args: []string{
				"-bsp", "12", "-cluster", engine, "-node-id", string(rune('a' + i)), "-cluster-nodes", "2", "-lease-ttl", nodeLease.String(),
				"-delay", "1ms", "-allow-private",
			}}
			if i == 0 {
				n.args = append(n.args, "-engine", "embedded", w.url(0))
			}
			n.start()
			defer n.kill()
			nodes = append(nodes, n)
		}
		if run > 0 {
			w.wait(30+rand.Int64N(60), nodes[0].done)
			nodes[run%2].kill()
			if run == 1 { // the engine is in the other one, which waits
				refusesNodes(t, engine)
			}
			nodes[run%2].start()
		}
		traces := ""
		for _, n := range nodes {
			n.ends()
			traces += " " + traceOf(t, n.dir, n.errs.String())
			must(t, n.dir, "check")
		}
		if first == "" {
			first = traces
		}
		if traces != first {
			t.Errorf("run %d came to%s, the first to%s", run, traces, first)
		}
	}
}

// refusesNodes has others try to join a crawl in supersteps.
func refusesNodes(t *testing.T, engine string) {
	t.Helper()
	for _, tt := range []struct{ bsp, says string }{
		{"0", "the crawl has the options"},
		{"13", "the crawl has the options"},
		{"12", "no other node may join"},
	} {
		_, errs, code := call(t, t.TempDir(), "-bsp", tt.bsp, "-cluster", engine, "-node-id", "c", "-lease-ttl", nodeLease.String(),
			"-delay", "1ms", "-allow-private")
		if code != exitUsage || !strings.Contains(errs, tt.says) {
			t.Errorf("-bsp %s: exit %d\n%s", tt.bsp, code, errs)
		}
	}
}

// TestBSPFlags: flags that contradict each other are refused.
func TestBSPFlags(t *testing.T) {
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{"-bsp-step", "1s"}, "-bsp-step is for a crawl in supersteps"},
		{[]string{"-bsp", "5", "-order", "tree"}, "-order tree has none"},
		{[]string{"-bsp", "5", "-skip-duplicates"}, "leave one of them out"},
		{[]string{"-bsp", "-1"}, "-bsp"},
	} {
		dir := t.TempDir()
		_, errs, code := call(t, dir, append(tt.args, "http://127.0.0.1:1/")...)
		if _, err := os.Stat(filepath.Join(dir, "iut")); code != exitUsage || !strings.Contains(errs, tt.says) || err == nil {
			t.Errorf("%v: exit %d, tree %v\n%s", tt.args, code, err, errs)
		}
	}
}
