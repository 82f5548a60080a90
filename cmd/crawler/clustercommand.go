package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"urltree/crawler/weburl"
	"urltree/internal/cluster"
	"urltree/internal/cluster/nats"
	"urltree/internal/words"
)

// engineFlags are the flags of the crawl that say where the engine is, and which crawl on it.
var engineFlags = []string{"cluster", "cluster-name", "cluster-creds", "cluster-ca", "cluster-cert", "cluster-key"}

// clusterCommand asks and changes a crawl of several processes, of which this one is none.
func (c *command) clusterCommand() *subcommand {
	format, yes := "text", false
	verbs := []struct {
		name, operand string
		run           func(ctx context.Context, bus cluster.Bus, operand string) error
	}{
		{"status", "", func(ctx context.Context, bus cluster.Bus, _ string) error { return c.clusterStatus(ctx, bus, format) }},
		{"seeds", "FILE", c.clusterSeeds},
		{"drain", "NODE", c.clusterDrain},
		{"reassign", "NODE", func(ctx context.Context, bus cluster.Bus, node string) error {
			return c.clusterReassign(ctx, bus, node, yes)
		}},
	}
	return &subcommand{
		name: "cluster", usage: "ask or change a crawl of several processes", args: "[flags]", operand: clusterOperand,
		about: "status prints a line for each node, and what keeps the crawl from ending. seeds gives the URLs of a FILE, which is read as a seed file (- is standard input), to the nodes whose hosts they are of, and returns once they have them on their disks; with a password in a URL it is refused. drain has a NODE hand over all that it has to others; it ends when they have it, and so does drain. If drain is interrupted, the node goes on with it. reassign gives the hosts of a NODE that is gone for good to the others, which read their pages again for links to these hosts. The engine is that of the nodes: the flags are those of a crawl, see docs/cluster.md.",
		flags: append(c.crawlFlags(engineFlags), plainFlag("format", choice{&format, []string{"text", "json"}}, "with status: the `FORMAT`, text or json, one object"),
			plainFlag("yes", toggle{&yes}, "with reassign: the node and its tree are gone for good, and what it alone knew is lost")),
		run: func(ctx context.Context, operands []string) error {
			for _, v := range verbs {
				if v.name != first(operands) {
					continue
				}
				switch rest := operands[1:]; {
				case v.operand == "" && len(rest) > 0:
					return usagef("cluster %s takes nothing else, got %q", v.name, rest[0])
				case v.operand != "" && len(rest) != 1:
					return usagef("cluster %s takes a %s", v.name, v.operand)
				default:
					return c.visit(ctx, func(bus cluster.Bus) error { return v.run(ctx, bus, first(rest)) })
				}
			}
			return usagef("%q: cluster takes %s", first(operands), clusterOperand)
		},
	}
}

// visit connects to the engine of a crawl, as no node of it.
func (c *command) visit(ctx context.Context, fn func(cluster.Bus) error) error {
	f := &c.flags.cluster
	if f.at == "" {
		return usagef("cluster needs -cluster: the address of the engine, as its nodes have it")
	}
	if err := f.check(); err != nil {
		return err
	}
	bus, err := nats.Connect(ctx, nats.Options{Servers: f.at, Creds: f.creds, TLS: f.tls, Visit: true}, cluster.Config{Crawl: f.name, Partitions: cluster.Partitions})
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return usagef("-cluster: %w", err)
	case errors.Is(err, cluster.ErrNoCrawl):
		return fmt.Errorf("-cluster-name %s: the engine at %s has no such crawl", f.name, f.at)
	case err != nil:
		return fmt.Errorf("-cluster: the engine cannot be reached: %w", err)
	}
	err = fn(bus)
	switch {
	case errors.Is(err, cluster.ErrUndivided):
		err = fmt.Errorf("the crawl %s has not begun: its nodes are not all there", f.name)
	case errors.Is(err, cluster.ErrEnded):
		err = fmt.Errorf("%w: start its nodes again as before, one of them with -input and the seeds", err)
	}
	return errors.Join(err, bus.Close())
}

// mostLook is the longest time that cluster status takes.
const mostLook = 20 * time.Second

// clusterStatus prints how the nodes are.
func (c *command) clusterStatus(ctx context.Context, bus cluster.Bus, format string) error {
	ctx, cancel := context.WithTimeout(ctx, mostLook)
	defer cancel()
	s, err := cluster.Look(ctx, bus)
	if err != nil {
		return fmt.Errorf("the engine does not answer: %w", err)
	}
	if format == "json" {
		return json.NewEncoder(c.stdout).Encode(s)
	}
	_, err = io.WriteString(c.stdout, statusText(&s))
	return err
}

// statusText is a status as a table, and in words.
func statusText(s *cluster.Status) string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(first string, others ...any) {
		fmt.Fprint(table, first)
		for _, cell := range others {
			fmt.Fprintf(table, "\t%v", cell)
		}
		fmt.Fprintln(table)
	}
	row("node", "state", "partitions", "pages", "waiting", "pages/s", "outbox", "sent")
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if !n.Answers {
			row(n.Node, nodeState(n), n.Partitions, "-", "-", "-", "-", "-")
			continue
		}
		row(n.Node, nodeState(n), n.Partitions, n.Stored, n.Pending, fmt.Sprintf("%.1f", n.PerSecond), n.Outbox, n.Sent)
	}
	_ = table.Flush() // to memory
	switch s.State {
	case "finished":
		b.WriteString("the crawl is finished\n")
		return b.String()
	case "waiting":
		b.WriteString("the crawl has not begun: it waits for more nodes\n")
		return b.String()
	}
	b.WriteString("the crawl goes on:\n")
	for i := range s.Nodes {
		n := &s.Nodes[i]
		fmt.Fprintf(&b, "  %s %s\n", n.Node, cmp.Or(strings.Join(n.Reasons, "; "), "has nothing left"))
	}
	return b.String()
}

// nodeState is the state of a node in a word.
func nodeState(n *cluster.NodeStatus) string {
	switch {
	case !n.Here:
		return "silent"
	case !n.Answers:
		return "no answer"
	case n.Leading:
		return "leads"
	}
	return "here"
}

// clusterSeeds sends the seeds of a file to the nodes.
func (c *command) clusterSeeds(ctx context.Context, bus cluster.Bus, name string) error {
	options, err := cluster.OptionsOf(ctx, bus)
	if err != nil {
		return err
	}
	var strip weburl.Strip
	for word := range strings.SplitSeq(options, " ") {
		if text, ok := strings.CutPrefix(word, "strip="); ok {
			if strip, err = weburl.ParseStrip(text); err != nil {
				return err
			}
		}
	}
	seeds, err := c.urls(name, "cluster seeds", func(text string) (string, error) {
		if shown := weburl.HideLogin(text); shown != text {
			return "", usagef("%q has a user name: a node has to be started with it, see -input", shown)
		}
		return canonical(text, strip)
	})
	if err != nil {
		return err
	}
	given, err := cluster.Give(ctx, bus, seeds)
	if given.Taken > 0 {
		fmt.Fprintf(c.stdout, "taken: %s\n", words.Count(given.Taken, "seed"))
	}
	for _, node := range slices.Sorted(maps.Keys(given.Away)) {
		err = errors.Join(err, fmt.Errorf("node %s is silent: %s for its hosts not given; give them again when it is back", node, words.Count(given.Away[node], "seed")))
	}
	return err
}

// clusterDrain has a node leave.
func (c *command) clusterDrain(ctx context.Context, bus cluster.Bus, node string) error {
	err := cluster.Drain(ctx, bus, node)
	switch {
	case err == nil:
		fmt.Fprintf(c.stdout, "drained: node %s has left, others have its hosts\n", node)
	case errors.Is(err, cluster.ErrNoDrain):
		return usagef("%w", err)
	case errors.Is(err, cluster.ErrEnded):
		return fmt.Errorf("the crawl has finished before node %s had given all to others: nothing is left to be drained", node)
	case ctx.Err() != nil:
		return fmt.Errorf("node %s goes on to leave: %w", node, err)
	}
	return err
}

// mostReassign is the longest time that cluster reassign waits.
const mostReassign = 2 * time.Minute

// clusterReassign has other nodes take over the hosts of one that is gone.
func (c *command) clusterReassign(ctx context.Context, bus cluster.Bus, node string, yes bool) error {
	if !yes {
		return usagef("cluster reassign gives the hosts of %s to other nodes for good: their pages are asked again, URLs that it alone knew are lost, and its tree cannot be crawled on; if its process is gone and its tree too, add -yes", node)
	}
	ctx, cancel := context.WithTimeout(ctx, mostReassign)
	defer cancel()
	parts, err := cluster.GiveUp(ctx, bus, node)
	switch {
	case errors.Is(err, cluster.ErrHere):
		return fmt.Errorf("node %s is there, or was a moment ago: stop it, and wait until crawler cluster status calls it silent", node)
	case errors.Is(err, cluster.ErrNoNode):
		return fmt.Errorf("the crawl has no node %s; crawler cluster status names those that it has", node)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no other node has taken the hosts of %s for %v; it is done once one is there, unless %s is back by then", node, mostReassign, node)
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(c.stdout, "given to others: %s of hosts; seeds for these hosts that %s alone had are lost: crawler cluster seeds gives them again\n", words.Count(parts, "partition"), node)
	return err
}
