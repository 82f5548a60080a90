package main

import (
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/record"
)

// TestClusterOfNone: a crawl without -cluster has no goroutine of a crawl of several processes and
// no outbox, though its program could be a node. A node has both.
func TestClusterOfNone(t *testing.T) {
	t.Parallel()
	w := newBranchedWeb(t, 1000)
	nodes := newProcessNodes(t, w)
	alone := &processNode{t: t, name: "alone", dir: t.TempDir(), args: []string{"-allow-private", "-delay", "5ms", "-sitemaps=false", "-quiet=false", w.url(0)}}
	for _, n := range nodes {
		n.start()
	}
	w.until(100)
	if n := nodes[0].strangers(); n == 0 {
		t.Errorf("no goroutine of the engine in a node that has it:\n%s", nodes[0].errs.String())
	}
	nodes[0].start()
	for _, n := range nodes {
		n.ends()
	}
	w.check(nodes)
	w.forget()
	alone.start()
	w.until(100)
	if n := alone.strangers(); n != 0 {
		t.Errorf("%d goroutines of a crawl of several processes:\n%s", n, alone.errs.String())
	}
	alone.start()
	alone.ends()
	w.check([]*processNode{alone})
	if !hasOutbox(t, nodes[0].dir) || hasOutbox(t, alone.dir) {
		t.Errorf("outbox: of a node %t, without -cluster %t", hasOutbox(t, nodes[0].dir), hasOutbox(t, alone.dir))
	}
}

var ofCluster = regexp.MustCompile(`(?m)^(created by )?(urltree/internal/cluster|github\.com/nats-io)[/.]`)

// strangers ends a process, which prints the stacks of all its goroutines, and returns how many
// lines of them are of a crawl of several.
func (n *processNode) strangers() int {
	n.t.Helper()
	_ = n.cmd.Process.Signal(syscall.SIGQUIT)
	<-n.done
	if !regexp.MustCompile(`(?m)^urltree/crawler\.`).MatchString(n.errs.String()) {
		n.t.Fatalf("no stacks of a crawl:\n%s", n.errs.String())
	}
	return len(ofCluster.FindAllString(n.errs.String(), -1))
}

func hasOutbox(t *testing.T, dir string) (has bool) {
	t.Helper()
	db, err := bolt.Open(filepath.Join(dir, "iut", "index.db"), 0o666, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.View(func(tx *bolt.Tx) error {
		has = tx.Bucket(record.BucketOutbox) != nil
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return has
}
