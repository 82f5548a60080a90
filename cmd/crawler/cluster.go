package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"urltree/crawler"
	"urltree/internal/cluster"
	"urltree/internal/cluster/embedded"
	"urltree/internal/cluster/nats"
)

// clusterFlags say which part the run has in one crawl of several processes.
type clusterFlags struct {
	at     string // of the engine
	engine string // "external" or "embedded"
	node   string
	name   string // of the crawl
	nodes  int
	lease  time.Duration
	creds  string
	tls    nats.TLS
}

const embeddedEngine = "embedded"

func (f *flags) clusterGroup() group {
	c := &f.cluster
	return group{"One crawl of several processes, see docs/cluster.md", []*option{
		flag("cluster", ofRun, text{&c.at}, "be a node of one crawl, with the others that name the same engine: its `ADDRESS`, host:port, or nats://host:port, several with commas"),
		flag("node-id", ofRun, text{&c.node}, "the `NAME` of this node, which stays that of its tree: letters, digits and -"),
		flag("cluster-nodes", ofRun, amount[int]{in: numbers, p: &c.nodes, least: 1}, "divide the hosts once `N` nodes are there; others may join later"),
		flag("cluster-name", ofRun, text{&c.name}, "the `NAME` of the crawl on the engine: 1 to 16 letters and digits"),
		flag("cluster-creds", ofRun, text{&c.creds}, "a `FILE` with a token or user:password, or with credentials of NATS, for the engine"),
		flag("cluster-ca", ofRun, text{&c.tls.CA}, "a `FILE` with the certificates that sign those of the others"),
		flag("cluster-cert", ofRun, text{&c.tls.Cert}, "a `FILE` with the certificate of this process, for the engine"),
		flag("cluster-key", ofRun, text{&c.tls.Key}, "a `FILE` with its key"),
		flag("lease-ttl", ofRun, amount[time.Duration]{in: times, p: &c.lease, least: 3 * time.Second}, "the `TIME` after which a node that the engine does not hear is taken for gone; it asks nothing from two thirds of it on"),
		flag("engine", ofRun, choice{&c.engine, []string{"external", embeddedEngine}}, "`WHERE` the engine is: external; embedded: in this process, which listens at -cluster, and keeps the engine's files beside the tree"),
	}}
}

var (
	nodeNames  = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)
	crawlNames = regexp.MustCompile(`^[a-z0-9]{1,16}$`)
)

// checkCluster refuses what makes no node.
func (f *flags) checkCluster() error {
	c := &f.cluster
	if c.at == "" {
		for _, name := range []string{"node-id", "cluster-nodes", "cluster-name", "cluster-creds", "cluster-ca", "cluster-cert", "cluster-key", "lease-ttl", "engine"} {
			if f.isSet(name) {
				return usagef("-%s is for a node of several, which -cluster makes of this crawl", name)
			}
		}
		return nil
	}
	switch {
	case c.node == "":
		return usagef("-cluster needs -node-id as well: the name of this node, another one for each")
	case !nodeNames.MatchString(c.node):
		return usagef("-node-id %q: up to 32 of a-z, 0-9 and -, the first no -", c.node)
	}
	if err := c.check(); err != nil || c.engine != embeddedEngine {
		return err
	}
	if _, _, err := net.SplitHostPort(c.at); err != nil {
		return usagef("-cluster %s: with -engine embedded it is one host:port, where this process listens", c.at)
	}
	return nil
}

// check refuses what cannot be of the engine or of the crawl on it.
func (c *clusterFlags) check() error {
	switch {
	case !crawlNames.MatchString(c.name):
		return usagef("-cluster-name %q: 1 to 16 of a-z and 0-9", c.name)
	case (c.tls.Cert == "") != (c.tls.Key == ""):
		return usagef("-cluster-cert and -cluster-key belong together")
	}
	for _, file := range []struct{ flag, name string }{
		{"creds", c.creds}, {"ca", c.tls.CA}, {"cert", c.tls.Cert}, {"key", c.tls.Key},
	} {
		if _, err := os.Stat(file.name); file.name != "" && err != nil {
			return usagef("-cluster-%s: %w", file.flag, err)
		}
	}
	return nil
}

// clusterOptions are those of the crawl that all nodes must have alike.
func clusterOptions(kept []string, strip string) string {
	list := append(slices.Clone(kept), "strip="+strip)
	slices.Sort(list)
	return strings.Join(list, " ")
}

// join makes this run a node. leave is to be called when it is over.
func (c *command) join(ctx context.Context, opts *crawler.Options) (leave func() error, err error) {
	f := &c.flags.cluster
	if f.at == "" {
		return func() error { return nil }, nil
	}
	log := opts.Log
	say := func(text string) { log.Warn(text) }
	to := nats.Options{Servers: f.at, Creds: f.creds, TLS: f.tls, Log: say}
	var own *embedded.Server
	if f.engine == embeddedEngine {
		dir := opts.Tree + ".engine"
		own, err = embedded.Start(embedded.Options{Dir: dir, Listen: f.at, Creds: f.creds, TLS: f.tls, Log: say})
		if err != nil {
			return nil, usagef("-engine embedded: %w", err)
		}
		to.Process, to.TLS = own, nats.TLS{}
	}
	stop := func() error {
		if own == nil {
			return nil
		}
		return own.Close()
	}
	config := cluster.Config{Crawl: f.name, Partitions: cluster.Partitions, Replicas: 1, Shards: 1, TTL: f.lease}
	if strings.Count(f.at, ",") >= 2 {
		config.Replicas = 3 // of three servers one may be away
	}
	bus, err := connect(ctx, log, to, config)
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	opts.Cluster = cluster.New(cluster.Options{
		Bus: bus, Name: f.node, Boot: rand.Text(), Nodes: f.nodes, Options: clusterOptions(c.kept, opts.Strip.String()),
		TTL: f.lease, Log: log, Hosts: own != nil, Bulk: opts.Step > 0,
	})
	return func() error { return errors.Join(bus.Close(), stop()) }, nil
}

// connect connects to the engine, which may not have been started yet.
func connect(ctx context.Context, log *slog.Logger, to nats.Options, config cluster.Config) (cluster.Bus, error) {
	for told := false; ; told = true {
		bus, err := nats.Connect(ctx, to, config)
		switch {
		case err == nil:
			return bus, nil
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
			return nil, usagef("-cluster: %w", err)
		case !told:
			log.Warn("no connection to the engine; it is tried again until there is one", "err", err)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil, fmt.Errorf("stopped before there was a connection to the engine: %w", cmp.Or(context.Cause(ctx), err))
		}
	}
}
