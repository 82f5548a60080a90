//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A nodeKind is what may happen to a crawl of several nodes, while it goes on.
type nodeKind struct {
	name string
	disk string               // kind of disk that a node must have; "": any
	may  func(*nodesRun) bool // whether it can be now; nil: always
	play func(*nodesRun) error
}

var nodeKinds = []nodeKind{
	{name: "node killed", play: func(n *nodesRun) error { return n.again(n.any(), syscall.SIGKILL, killed, 0) }},
	{name: "node stopped", play: func(n *nodesRun) error { return n.again(n.any(), syscall.SIGTERM, 0) }},
	{name: "node frozen", play: (*nodesRun).frozen},
	{name: "engine killed", play: (*nodesRun).engineKilled},
	{name: "engine lost", play: (*nodesRun).engineLost},
	{name: "all killed", play: (*nodesRun).allKilled},
	{name: "node's disk full", disk: inMemory, play: (*nodesRun).diskFull},
	{name: "join", may: func(n *nodesRun) bool { return n.early() && len(n.nodes) < mostNodes }, play: (*nodesRun).joined},
	{name: "drain", may: (*nodesRun).early, play: (*nodesRun).drained},
	{name: "bounce", may: (*nodesRun).early, play: (*nodesRun).bounced},
	{name: "node gone for good", may: (*nodesRun).mayLose, play: (*nodesRun).reassigned},
}

const nodeLease = 3 * time.Second

// nodes are the processes of a crawl of several: a server of NATS, and nodes with a folder each.
type nodesRun struct {
	*trial
	ctx         context.Context
	r           *rand.Rand
	base        string // folder of what is not on the disk of the trial
	address     string // of the server
	engineStore string
	engine      *process
	nodes       []*member
	named       int           // nodes that there have been
	delay       time.Duration // between two requests to a host
	vain        int           // URLs that may be asked again: what was under way where a process was killed
	exits       []string      // that were wrong
}

// A member is a node.
type member struct {
	name, folder string
	p            *process
}

// crawlByNodes crawls the web of a trial with nodes. The last one has the disk of the trial, if
// that has one.
func (t *trial) crawlByNodes(ctx context.Context, until time.Time) error {
	base := filepath.Join(t.work, fmt.Sprintf("nodes-%d", t.seed))
	if err := os.Mkdir(base, 0o755); err != nil {
		return err
	}
	n := &nodesRun{
		trial: t, ctx: ctx, r: rand.New(rand.NewPCG(t.seed, 1)), base: base, engineStore: filepath.Join(base, "store"),
		address: fmt.Sprintf("127.254.%d.%d:4222", t.seed>>8&255, t.seed&255),
	}
	if time.Now().Before(until) {
		n.delay = nodesTime * time.Duration(t.opts.Hosts) / time.Duration(t.opts.Pages)
	}
	t.say("%d pages on %d hosts, %s, %d nodes", t.opts.Pages, t.opts.Hosts, t.store, t.members)
	defer func() {
		for _, m := range n.nodes {
			n.end(m.p)
		}
		n.end(n.engine)
	}()
	if err := n.startEngine(); err != nil {
		return err
	}
	for i := range t.members {
		folder := filepath.Join(base, "n"+strconv.Itoa(i))
		if i == t.members-1 {
			folder = t.folder
		} else if err := os.Mkdir(folder, 0o755); err != nil {
			return err
		}
		if err := n.startNode(n.newMember(folder)); err != nil {
			return err
		}
	}
	for range maxEpisodes {
		if n.over(n.moment()) || !time.Now().Before(until) || ctx.Err() != nil {
			break
		}
		kinds := slices.DeleteFunc(slices.Clone(nodeKinds), func(k nodeKind) bool {
			return k.disk != "" && k.disk != t.diskKind() || k.may != nil && !k.may(n)
		})
		k, began, before := kinds[n.r.IntN(len(kinds))], time.Now(), t.web.Asked()
		if err := k.play(n); err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		c := t.of(k.name)
		c.episodes++
		c.exits += len(n.exits)
		t.say("%-18s %5.1fs  %5d pages asked, %d before", k.name, time.Since(began).Seconds(), t.web.Asked(), before)
		if len(n.exits) > 0 {
			t.fault(k.name, n.exits)
			return nil
		}
	}
	return n.finish()
}

// finish waits for the end of all nodes, and looks at what they have.
func (n *nodesRun) finish() error {
	began := time.Now()
	c := n.of(last)
	c.episodes++
	for _, m := range n.nodes {
		code := m.p.wait()
		if n.ctx.Err() != nil {
			return context.Cause(n.ctx)
		}
		n.judgeExit(m, code, 0)
	}
	lost, doubled, other, err := n.look()
	if err != nil {
		return err
	}
	c.checks += len(n.nodes)
	c.lost += len(lost)
	c.doubled += len(doubled)
	c.exits += len(n.exits)
	c.other += len(other)
	c.pages += n.web.Asked()
	n.say("%-18s %5.1fs  %5d pages asked", last, time.Since(began).Seconds(), n.web.Asked())
	if wrong := slices.Concat(lost, doubled, n.exits, other); len(wrong) > 0 {
		n.fault("the end of all nodes", wrong)
		return nil
	}
	n.done++
	return os.RemoveAll(n.base)
}

// look holds the trees of all nodes together against the web: each URL is in one ledger, with the
// outcome that it must have.
func (n *nodesRun) look() (lost, doubled, other []string, err error) {
	all := state{ledger: map[string]record{}, pages: map[string]page{}}
	has := map[string]string{} // the node whose tree has a page
	var folders []string
	for _, m := range n.nodes {
		folders = append(folders, m.folder)
		w := &work{trial: n.trial, ctx: n.ctx, r: n.r, folder: m.folder}
		s, faults, err := n.trial.look(w, true)
		if err != nil {
			return nil, nil, nil, err
		}
		other = append(slices.Concat(other, faults, w.exits), s.torn...)
		if !n.twice { // else a page may have been asked again by the node that has it
			doubled = append(doubled, s.twice...)
		}
		for url, r := range s.ledger {
			if r.reason == elsewhere {
				continue // another node has the record
			}
			if _, there := all.ledger[url]; there && !n.twice {
				doubled = append(doubled, fmt.Sprintf("%s: two nodes have a record of it, %s", url, m.name))
			}
			all.ledger[url] = r
		}
		for url, p := range s.pages {
			if has[url] != "" && !n.twice {
				doubled = append(doubled, fmt.Sprintf("%s: in the trees of %s and %s", url, has[url], m.name))
			}
			has[url], all.pages[url] = m.name, p
		}
	}
	n.now = all
	again := 0
	for _, times := range n.web.Requests() {
		again += times - 1
	}
	if again > n.vain && !n.twice {
		doubled = append(doubled, fmt.Sprintf("%d requests of what was asked before, at most %d are allowed", again, n.vain))
	}
	return n.compare(folders...), doubled, other, nil
}

// elsewhere is the reason of a record that says that another node has the outcome.
const elsewhere = "elsewhere"

// startEngine returns when the server can be used.
func (n *nodesRun) startEngine() error {
	conf := filepath.Join(n.base, "engine.conf")
	text := fmt.Sprintf("listen: %q\njetstream { store_dir: %q, sync_interval: always }\n", n.address, n.engineStore)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		return err
	}
	p := &process{cmd: exec.CommandContext(n.ctx, n.server, "-c", conf), ended: make(chan struct{})}
	ready := make(chan struct{})
	p.cmd.Stderr = &lineWatch{what: []byte("Server is ready"), seen: ready}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	n.engine = p
	select {
	case <-ready:
		return nil
	case <-p.ended:
		return errors.New("the engine has ended")
	case <-time.After(patience):
		return errors.New("the engine does not start")
	}
}

// A lineWatch closes seen once something was written.
type lineWatch struct {
	what []byte
	all  []byte
	seen chan struct{} // nil when it is closed
}

func (l *lineWatch) Write(b []byte) (int, error) {
	if l.seen != nil {
		if l.all = append(l.all, b...); bytes.Contains(l.all, l.what) {
			close(l.seen)
			l.seen, l.all = nil, nil
		}
	}
	return len(b), nil
}

const nodeCrawlers, nodeDownloads, nodeBuffers, nodeBufferSize = 4, 2, 2, 50

// nodesTime is about how long nodes ask for a web if nothing happens to them.
const nodesTime = 30 * time.Second

// newMember returns a further node.
func (n *nodesRun) newMember(folder string) *member {
	m := &member{name: "n" + strconv.Itoa(n.named), folder: folder}
	n.named++
	n.nodes = append(n.nodes, m)
	return m
}

// early reports whether much of the web is left, so that the crawl does not end before what was
// begun has come about.
func (n *nodesRun) early() bool { return n.web.Asked() < n.opts.Pages*2/3 }

// mayLose reports whether a node may be lost for good, in every third web: all others are held
// to having each page once.
func (n *nodesRun) mayLose() bool { return n.seed%3 == 0 && n.early() && len(n.nodes) > 2 }

// startNode starts a node. All have the seeds.
func (n *nodesRun) startNode(m *member) (err error) {
	args := []string{
		"-cluster", n.address, "-node-id", m.name, "-cluster-nodes", strconv.Itoa(n.members), "-lease-ttl", nodeLease.String(),
		"-quiet=false", "-allow-private", "-delay", n.delay.String(), "-retries", "1", "-timeout", "5m", "-store", n.trial.store,
		"-crawlers", strconv.Itoa(nodeCrawlers), "-downloads", strconv.Itoa(nodeDownloads), "-buffers", strconv.Itoa(nodeBuffers), "-buffer-size", strconv.Itoa(nodeBufferSize),
	}
	m.p, err = start(n.ctx, n.binary, m.folder, []string{"URLTREE_MIN_FREE=0", "URLTREE_MIN_FREE_INODES=0"}, append(args, n.web.Seeds()...)...)
	return err
}

// end ends a process that is perhaps not there any more.
func (n *nodesRun) end(p *process) {
	if p != nil {
		p.signal(syscall.SIGKILL)
		<-p.ended
	}
}

func (n *nodesRun) any() *member { return n.nodes[n.r.IntN(len(n.nodes))] }

func (n *nodesRun) moment() time.Duration { return time.Duration(50+n.r.IntN(3000)) * time.Millisecond }

// over waits a while, and reports whether all nodes have ended.
func (n *nodesRun) over(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	for _, m := range n.nodes {
		select {
		case <-m.p.ended:
		case <-t.C:
			return false
		case <-n.ctx.Done():
			return true
		}
	}
	return true
}

func (n *nodesRun) judgeExit(m *member, code exit, codes ...exit) {
	if !slices.Contains(codes, code) && n.ctx.Err() == nil {
		said := strings.TrimSpace(m.p.stderr.String())
		n.exits = append(n.exits, fmt.Sprintf("node %s: exit %s, not %v: %s", m.name, code, codes, said[max(0, len(said)-8<<10):]))
	}
}

// again ends a node with a signal, and starts it after a while.
func (n *nodesRun) again(m *member, s syscall.Signal, codes ...exit) error {
	m.p.signal(s)
	n.judgeExit(m, m.p.wait(), codes...)
	n.vain += nodeCrawlers*nodeDownloads + nodeBuffers*nodeBufferSize
	if n.r.IntN(2) == 0 {
		n.over(n.moment())
	}
	return n.startNode(m)
}

// frozen stops a node until its lease is over.
func (n *nodesRun) frozen() error {
	m := n.any()
	m.p.signal(syscall.SIGSTOP)
	n.over(nodeLease + n.moment())
	m.p.signal(syscall.SIGCONT)
	return nil
}

func (n *nodesRun) engineKilled() error {
	n.end(n.engine)
	n.over(n.moment())
	return n.startEngine()
}

func (n *nodesRun) engineLost() error {
	n.end(n.engine)
	if n.web.Asked() < n.opts.Pages*3/4 { // later it may have lost that the crawl is finished, which some know
		if err := os.RemoveAll(n.engineStore); err != nil {
			return err
		}
	}
	return n.startEngine()
}

func (n *nodesRun) allKilled() error {
	n.end(n.engine)
	for _, m := range n.nodes {
		m.p.signal(syscall.SIGKILL)
	}
	for _, m := range n.nodes {
		n.judgeExit(m, m.p.wait(), killed, 0)
		n.vain += nodeCrawlers*nodeDownloads + nodeBuffers*nodeBufferSize
	}
	if err := n.startEngine(); err != nil {
		return err
	}
	for _, m := range n.nodes {
		if err := n.startNode(m); err != nil {
			return err
		}
	}
	return nil
}

// diskFull leaves little room to the node with the disk, which ends unless that is enough. Then
// there is room, and it goes on.
func (n *nodesRun) diskFull() error {
	m := n.nodes[slices.IndexFunc(n.nodes, func(m *member) bool { return m.folder == n.folder })]
	if err := resize(n.disk, int64(n.r.IntN(1<<19)), 1_000_000); err != nil {
		return err
	}
	ended := m.p.after(nodeLease + n.moment())
	if err := remount(n.disk, roomy); err != nil {
		return err
	}
	if !ended {
		return nil
	}
	n.judgeExit(m, m.p.wait(), 4, 0)
	n.vain += nodeCrawlers*nodeDownloads + nodeBuffers*nodeBufferSize
	return n.startNode(m)
}
