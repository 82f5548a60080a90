//go:build linux

// Soak crawls made-up webs for a given time and does to the crawler what can be done to it: it is
// killed, stopped in every way there is, given a disk that is full or loses its power, and its
// index is lost or damaged. After each such episode the tree must be without a fault, and at the
// end of each web it must hold exactly the pages that the web has.
//
//	go run -C tools ./soak -time 1h -seed 1
//
// It prints a line for each episode and a table of all. Web n has the seed -seed + n; all but the
// speed of the machine is drawn from it, so `-time 1s -seed S` plays one web again. If anything was
// wrong, the exit code is 1, and the folder of that web is kept.
//
// With -nodes 3 each web is crawled by three nodes and a server of NATS. Nodes are killed, stopped
// and frozen, further ones join, some are drained and come back, the server is killed and loses
// what it has, all are killed at once, and the disk of one node is full. The trees of all nodes
// together must hold the web, and none what another has. In every third web nodes may be lost for
// good with their trees; the others must have the web then, and may have some pages twice.
//
// A soak of a minute or more goes on, for at most five times as long, until each kind of episode
// that this machine allows was played, and has failed if one was not.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"urltree/tools/command"
)

func main() {
	command.Main("soak", func(ctx context.Context, args []string) error { return run(ctx, args, os.Stdout) })
}

func run(ctx context.Context, args []string, log io.Writer) error {
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	length := flags.Duration("time", time.Minute, "how long; what is begun then is crawled to its end")
	seed := flags.Uint64("seed", 1, "of the first web")
	dir := flags.String("dir", os.TempDir(), "for the trees")
	binary := flags.String("crawler", "", "the command; built when not given")
	members := flags.Int("nodes", 0, "crawl each web with so many nodes and a server of NATS; 0: with one process")
	server := flags.String("server", "", "nats-server, for -nodes; built when not given")
	if err := command.Parse(flags, args); err != nil {
		return err
	}
	if flags.NArg() > 0 || *length <= 0 || *members < 0 {
		return command.Mistake("%q: there are flags only, -time is above 0, and -nodes not below", args)
	}
	work, err := os.MkdirTemp(*dir, "urltree-soak-")
	if err != nil {
		return err
	}
	if *binary == "" {
		*binary = filepath.Join(work, "crawler")
		if out, err := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", *binary, "./cmd/crawler").CombinedOutput(); err != nil {
			return fmt.Errorf("go build: %w: %s", err, out)
		}
	}
	if *server == "" && *members > 0 {
		*server = filepath.Join(work, "nats-server")
		build := exec.CommandContext(ctx, "go", "build", "-o", *server, "github.com/nats-io/nats-server/v2")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("go build: %w: %s", err, out)
		}
	}
	if *binary, err = filepath.Abs(*binary); err != nil {
		return err
	}
	s := &soak{binary: *binary, work: work, log: log, kinds: map[string]*counts{}, members: *members, server: *server}
	for _, d := range []struct{ kind, without string }{{onExt4, "a power cut"}, {inMemory, "a full disk"}} {
		if err := mountable(ctx, work, d.kind); err != nil {
			fmt.Fprintf(log, "no episode with %s: %v\n", d.without, err)
		} else {
			s.disks = append(s.disks, d.kind)
		}
	}
	kept, err := s.webs(ctx, *seed, *length)
	s.table()
	if len(kept) > 0 {
		return errors.Join(fmt.Errorf("faults; kept: %s", strings.Join(kept, " ")), err)
	}
	return errors.Join(err, os.RemoveAll(work))
}

// A soak is what all its webs share.
type soak struct {
	binary  string   // the command
	server  string   // of NATS; there if there are members
	members int      // nodes that crawl a web; 0: one process does
	work    string   // folders of the webs
	disks   []string // kinds that can be mounted
	log     io.Writer
	kinds   map[string]*counts // by name of the kind
	done    int                // webs that came to their end
}

// counts say what came of the episodes of one kind.
type counts struct {
	episodes, pages, checks     int
	lost, doubled, exits, other int
}

func (s *soak) of(kind string) *counts {
	c := s.kinds[kind]
	if c == nil {
		c = new(counts)
		s.kinds[kind] = c
	}
	return c
}

// mostKept is at how many webs with faults a soak ends early.
const mostKept = 5

// A soak of at least wholeTime is to have an episode of every kind that can be played here. It goes
// on for that up to mostTimes its time.
const (
	wholeTime = time.Minute
	mostTimes = 5
)

// missing returns the kinds that can be played here and had no episode.
func (s *soak) missing() (names []string) {
	disks := map[string]string{} // that the kinds want
	for _, k := range kinds {
		disks[k.name] = k.disk
	}
	for _, k := range nodeKinds {
		disks[k.name] = k.disk
	}
	for _, name := range s.names() {
		if disk := disks[name]; (disk == "" || slices.Contains(s.disks, disk)) && s.of(name).episodes == 0 {
			names = append(names, name)
		}
	}
	return names
}

// webs plays one web after the other and gives the folders of those that had faults.
func (s *soak) webs(ctx context.Context, seed uint64, length time.Duration) (kept []string, err error) {
	start := time.Now()
	until := start.Add(length)
	for ; len(kept) < mostKept; seed++ {
		folder, err := s.web(ctx, seed, until)
		if folder != "" {
			kept = append(kept, folder)
		}
		if ctx.Err() != nil {
			return kept, errors.New("stopped before its time")
		}
		if err != nil {
			return kept, fmt.Errorf("web %d: %w", seed, err)
		}
		if time.Now().Before(start.Add(length)) {
			continue
		}
		missing := s.missing()
		if length < wholeTime || len(missing) == 0 {
			break
		}
		if until = start.Add(mostTimes * length); !time.Now().Before(until) {
			return kept, fmt.Errorf("no episode of %q in %s", missing, mostTimes*length)
		}
	}
	return kept, nil
}

// table prints what came of all episodes.
func (s *soak) table() {
	w := tabwriter.NewWriter(s.log, 0, 0, 1, ' ', tabwriter.AlignRight|tabwriter.Debug)
	fmt.Fprintf(w, "%d webs\tepisodes\tpages\tchecks\tlost\tdoubled\twrong exits\tother faults\t\n", s.done)
	var sum counts
	for _, name := range append(s.names(), last) {
		c := s.of(name)
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", name, c.episodes, c.pages, c.checks, c.lost, c.doubled, c.exits, c.other)
		sum.episodes += c.episodes
		sum.pages += c.pages
		sum.checks += c.checks
		sum.lost += c.lost
		sum.doubled += c.doubled
		sum.exits += c.exits
		sum.other += c.other
	}
	fmt.Fprintf(w, "all\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", sum.episodes, sum.pages, sum.checks, sum.lost, sum.doubled, sum.exits, sum.other)
	w.Flush()
}
