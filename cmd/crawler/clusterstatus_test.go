package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"urltree/internal/cluster"
)

// threeNodes starts three nodes of one crawl, with the engine beside them.
func threeNodes(t *testing.T, w *branchedWeb) (nodes []*processNode, server *serverProcess) {
	server = newServerProcess(t, freeEngine())
	server.start()
	nodes = nodesOf(t, w, server.address, 3)
	for _, n := range nodes {
		n.start()
	}
	return nodes, server
}

// askEngine calls a subcommand of cluster.
func (n *processNode) askEngine(words ...string) (stdout, stderr string, code int) {
	n.t.Helper()
	return call(n.t, n.dir, slices.Concat([]string{"cluster"}, words, []string{"-cluster", n.args[1], "-cluster-name", "web1"})...)
}

// untilStatus waits for a status of the crawl, and returns it.
func (n *processNode) untilStatus(is func(*cluster.Status) bool) (s cluster.Status) {
	n.t.Helper()
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		stdout, stderr, code := n.askEngine("status", "-format", "json")
		if code != 0 {
			n.t.Fatalf("exit %d: %s", code, stderr)
		}
		s = cluster.Status{}
		if err := json.Unmarshal([]byte(stdout), &s); err != nil {
			n.t.Fatalf("%s: %v", stdout, err)
		}
		if is(&s) {
			return s
		}
		if time.Since(begun) > 2*time.Minute {
			n.t.Fatalf("after two minutes: %s", stdout)
		}
	}
}

// TestClusterCommand: cluster status names the node that was killed, and how far the others are;
// cluster seeds says for which node it could not give seeds, and those that it gave are crawled.
func TestClusterCommand(t *testing.T) {
	t.Parallel()
	w := newBranchedWeb(t, 300)
	w.loose = 12
	nodes, server := threeNodes(t, w)
	a, c := nodes[0], nodes[2]
	w.until(30)
	c.kill()
	s := a.untilStatus(func(s *cluster.Status) bool {
		return len(s.Nodes) == 3 && !s.Nodes[2].Here && s.Nodes[2].SilentMS > 0 && s.Nodes[0].Stored > 0 && s.Nodes[1].Stored > 0
	})
	if s.State != "running" || s.Nodes[2].Partitions == 0 || s.Nodes[2].Answers || !s.Nodes[0].Answers || s.Nodes[0].Node != "a" {
		t.Errorf("%+v", s)
	}
	text, _, code := a.askEngine("status")
	if lines := strings.Split(text, "\n"); code != 0 || len(lines) != 9 || !strings.HasPrefix(lines[3], "c  ") || !strings.Contains(lines[3], "silent") || !strings.HasPrefix(lines[7], "  c is silent for ") {
		t.Errorf("exit %d:\n%s", code, text)
	}
	t.Log("\n" + text)

	var list strings.Builder
	list.WriteString("# given later\nno URL\n")
	for n := w.pages - w.loose; n < w.pages; n++ {
		fmt.Fprintln(&list, w.url(n))
	}
	if err := os.WriteFile(filepath.Join(a.dir, "more.txt"), []byte(list.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	taken, stderr, code := a.askEngine("seeds", "more.txt")
	if code != 1 || !strings.Contains(stderr, "node c is silent: ") || !strings.Contains(taken, "taken: ") || !strings.Contains(stderr, "more.txt:2: skipped") {
		t.Errorf("exit %d:\n%s%s", code, taken, stderr)
	}
	w.hold(w.pages - w.loose - 2) // the crawl does not end meanwhile
	c.start()
	a.untilStatus(func(s *cluster.Status) bool { return s.Nodes[2].Answers })
	if taken, stderr, code = a.askEngine("seeds", "more.txt"); code != 0 || taken != "taken: 12 seeds\n" {
		t.Errorf("exit %d:\n%s%s", code, taken, stderr)
	}
	w.hold(0)
	for _, n := range nodes {
		n.ends()
	}
	w.check(nodes)

	if text, _, code := a.askEngine("status"); code != 0 || !strings.HasSuffix(text, "the crawl is finished\n") {
		t.Errorf("exit %d:\n%s", code, text)
	}
	at := a.args[1]
	for _, tt := range []struct {
		name, want string
		code       int
		args       []string
	}{
		{"seeds after the end", "the crawl is finished: start its nodes again", 1, []string{"seeds", "more.txt", "-cluster", at, "-cluster-name", "web1"}},
		{"a name without a crawl", "-cluster-name other: the engine at " + at + " has no such crawl", 1, []string{"status", "-cluster", at, "-cluster-name", "other"}},
		{"no address", "cluster needs -cluster", 2, []string{"status"}},
		{"no file", "cluster seeds takes a FILE", 2, []string{"seeds", "-cluster", at}},
		{"a file that is missing", "none.txt", 2, []string{"seeds", "none.txt", "-cluster", at, "-cluster-name", "web1"}},
		{"too much", "cluster status takes nothing else", 2, []string{"status", "a", "-cluster", at}},
		{"no verb", `"stats": cluster takes status|`, 2, []string{"stats", "-cluster", at}},
		{"half a certificate", "belong together", 2, []string{"status", "-cluster", at, "-cluster-cert", "x"}},
	} {
		if _, stderr, code := call(t, a.dir, append([]string{"cluster"}, tt.args...)...); code != tt.code || !strings.Contains(stderr, tt.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d, want %d with %q:\n%s", tt.name, code, tt.code, tt.want, stderr)
		}
	}
	server.kill()
	if _, stderr, code := a.askEngine("status"); code != 1 || !strings.Contains(stderr, "the engine cannot be reached") {
		t.Errorf("without an engine: exit %d:\n%s", code, stderr)
	}
}

// TestClusterReassign: a node that is killed for good keeps the crawl from ending; once its hosts
// are given to the others these crawl all that it had, also if one of them is killed as it begins
// to read its pages again, and it is refused when it comes back.
func TestClusterReassign(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"folders", "warc"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			c := newFaultyCluster(t, 300, 3, 3)
			for _, n := range c.nodes {
				n.args = append(n.args, "-store", store)
			}
			c.reassign()
		})
	}
}

func (c *faultyCluster) reassign() {
	t, nodes := c.t, c.nodes
	lost := nodes[2]
	nodes[1].hears = &phrase{text: "reading stored pages again", do: func() { _ = nodes[1].cmd.Process.Kill() }}
	for _, n := range nodes {
		n.start()
	}
	c.web.until(100)
	if _, stderr, code := nodes[0].askEngine("reassign", "c", "-yes"); code != 1 || !strings.Contains(stderr, "node c is there") {
		t.Errorf("while it is there: exit %d:\n%s", code, stderr)
	}
	if _, stderr, code := nodes[0].askEngine("reassign", "c"); code != 2 || !strings.Contains(stderr, "URLs that it alone knew are lost") || !strings.Contains(stderr, "add -yes") {
		t.Errorf("without -yes: exit %d:\n%s", code, stderr)
	}
	lost.kill()
	if _, stderr, code := nodes[0].askEngine("reassign", "x", "-yes"); code != 1 || !strings.Contains(stderr, "the crawl has no node x") {
		t.Errorf("a node that never was: exit %d:\n%s", code, stderr)
	}
	s := nodes[0].untilStatus(func(s *cluster.Status) bool {
		others := s.Nodes[:2]
		return !s.Nodes[2].Here && !slices.ContainsFunc(others, func(n cluster.NodeStatus) bool { return !n.Answers || n.Pending > 0 || n.Taking > 0 })
	})
	if s.State != "running" {
		t.Errorf("without the node the crawl is %s", s.State)
	}
	c.web.hold(250)
	stdout, stderr, code := nodes[0].askEngine("reassign", "c", "-yes")
	if code != 0 || !strings.HasPrefix(stdout, "given to others: 85 partitions of hosts; ") {
		t.Errorf("exit %d:\n%s%s", code, stdout, stderr)
	}
	<-nodes[1].done
	if code := nodes[1].cmd.ProcessState.ExitCode(); code != -1 {
		t.Errorf("the node that was to be killed: exit %d:\n%s", code, nodes[1].errs.String())
	}
	nodes[1].hears = nil
	nodes[1].start()
	lost.start()
	<-lost.done
	if code := lost.cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(lost.errs.String(), "node c was given up") {
		t.Errorf("the node is back: exit %d:\n%s", code, lost.errs.String())
	}
	c.web.hold(0)
	for _, n := range nodes[:2] {
		n.ends()
	}
	c.web.check(nodes[:2])
}

// A phrase calls do the first time that a text is written, which comes in one piece.
type phrase struct {
	text string
	do   func() // nil: it was called
}

func (p *phrase) Write(b []byte) (int, error) {
	if p.do != nil && strings.Contains(string(b), p.text) {
		p.do()
		p.do = nil
	}
	return len(b), nil
}
