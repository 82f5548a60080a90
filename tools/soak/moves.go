//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// mostNodes is the greatest number of nodes that a crawl comes to.
const mostNodes = 5

// joined starts a further node, and waits until it has hosts. The crawl may have come to its end
// just before; its other nodes are then started once more, since the new one has seeds for them.
func (n *nodesRun) joined() error {
	others := slices.Clone(n.nodes)
	m := n.newMember(filepath.Join(n.base, "n"+strconv.Itoa(n.named)))
	if err := os.Mkdir(m.folder, 0o755); err != nil {
		return err
	}
	if err := n.startNode(m); err != nil {
		return err
	}
	return n.until("a node that joined has hosts", func(s *crawlStatus) (bool, error) {
		for _, o := range others {
			if !o.p.after(0) {
				return s.has(m), nil
			}
		}
		for _, o := range others {
			n.judgeExit(o, o.p.wait(), 0)
			if err := n.startNode(o); err != nil {
				return false, err
			}
		}
		return s.has(m), nil
	})
}

// drained has a node leave and come back.
func (n *nodesRun) drained() error {
	m := n.any()
	err := n.drain(m, func() error { return nil })
	if err != nil {
		return err
	}
	if n.r.IntN(2) == 0 {
		n.over(n.moment())
	}
	return n.startNode(m)
}

// bounced has the hosts of a node go to others and come back several times, each time before all
// is where it belongs. Meanwhile another node may be killed.
func (n *nodesRun) bounced() error {
	m := n.any()
	for range 3 {
		err := n.drain(m, func() error {
			other := n.any()
			if other == m || n.r.IntN(2) == 0 {
				return nil
			}
			n.over(n.moment() / 2)
			return n.again(other, syscall.SIGKILL, killed, 0)
		})
		if err != nil {
			return err
		}
		if err := n.startNode(m); err != nil {
			return err
		}
	}
	return nil
}

// drain has a node leave as soon as it has hosts. The crawl may end before.
func (n *nodesRun) drain(m *member, meanwhile func() error) error {
	err := n.until("a node that is to be drained has hosts", func(s *crawlStatus) (bool, error) { return s.has(m), nil })
	if err != nil {
		return err
	}
	p, err := n.cluster("drain", m.name)
	if err != nil {
		return err
	}
	if err := meanwhile(); err != nil {
		return err
	}
	code := p.wait()
	n.judgeExit(m, m.p.wait(), 0)
	if left := strings.HasPrefix(p.stdout.String(), "drained: node "+m.name); left != (code == 0) || !left && !n.over(2*nodeLease) {
		n.exits = append(n.exits, fmt.Sprintf("cluster drain %s: exit %s: %s%s", m.name, code, &p.stdout, &p.stderr))
	}
	return nil
}

// reassigned kills a node for good: its tree is lost, and others get its hosts. They ask again what
// only that tree may have had.
func (n *nodesRun) reassigned() error {
	lost := n.nodes[n.r.IntN(len(n.nodes))]
	if lost.folder == n.folder { // which has the disk
		lost = n.nodes[(slices.Index(n.nodes, lost)+1)%len(n.nodes)]
	}
	n.end(lost.p)
	n.judgeExit(lost, lost.p.wait(), killed, 0)
	n.nodes = slices.DeleteFunc(n.nodes, func(m *member) bool { return m == lost })
	n.twice = true
	if err := os.RemoveAll(lost.folder); err != nil {
		return err
	}
	silent := func(s *crawlStatus) (bool, error) {
		return !slices.ContainsFunc(s.Nodes, func(o nodeStatus) bool { return o.Node == lost.name && o.Here }), nil
	}
	if err := n.until("a node that was killed is silent", silent); err != nil {
		return err
	}
	p, err := n.cluster("reassign", lost.name, "-yes")
	if err != nil {
		return err
	}
	if code := p.wait(); code != 0 || !strings.HasPrefix(p.stdout.String(), "given to others: ") {
		n.exits = append(n.exits, fmt.Sprintf("cluster reassign %s: exit %s: %s%s", lost.name, code, &p.stdout, &p.stderr))
		return nil
	}
	if n.r.IntN(2) == 0 { // while it reads its pages again
		return n.again(n.any(), syscall.SIGKILL, killed, 0)
	}
	return nil
}

// A nodeStatus is what cluster status says of a node.
type nodeStatus struct {
	Node       string `json:"node"`
	Here       bool   `json:"here"`
	Answers    bool   `json:"answers"`
	Partitions int    `json:"partitions"`
}

type crawlStatus struct {
	Nodes []nodeStatus `json:"nodes"`
}

// has reports whether a node has hosts, and others are there to which they may go.
func (s *crawlStatus) has(m *member) bool {
	here := 0
	for _, o := range s.Nodes {
		if o.Answers {
			here++
		}
	}
	return here > 1 && slices.ContainsFunc(s.Nodes, func(o nodeStatus) bool { return o.Node == m.name && o.Answers && o.Partitions > 0 })
}

// until waits for a status of the crawl, or for the end of all nodes.
func (n *nodesRun) until(what string, is func(*crawlStatus) (bool, error)) error {
	for end := time.Now().Add(patience); ; {
		p, err := n.cluster("status", "-format", "json")
		if err != nil {
			return err
		}
		var s crawlStatus
		code := p.wait()
		lost := code == 1 && strings.Contains(p.stderr.String(), "has no such crawl") // until a node brings it back
		if code != 0 && !lost {
			return errors.Join(fmt.Errorf("cluster status: exit %s: %s", code, &p.stderr), n.ctx.Err())
		}
		if !lost {
			if err := json.Unmarshal(p.stdout.Bytes(), &s); err != nil {
				return err
			}
			if done, err := is(&s); done || err != nil {
				return err
			}
		}
		if n.over(100 * time.Millisecond) {
			return nil
		}
		if time.Now().After(end) {
			n.exits = append(n.exits, fmt.Sprintf("not in %s: %s: %s", patience, what, &p.stdout))
			return nil
		}
	}
}

// cluster starts a subcommand of cluster.
func (n *nodesRun) cluster(words ...string) (*process, error) {
	return start(n.ctx, n.binary, n.base, nil, slices.Concat([]string{"cluster"}, words, []string{"-cluster", n.address})...)
}
