//go:build linux

// Nodes measures how a crawl of several nodes scales: pages per second and CPU a page of 1, 2 and 4
// nodes with a server of NATS, and with -alone of one process, built with the engine and without
// (noembed), on a made-up web whose answers take 100 ms. Each has so few downloads in flight that
// its CPU is no limit.
//
//	go run -C tools ./nodes -rounds 3
//
// Rates are those between a tenth and nine tenths of the pages; CPU is that of whole processes,
// user and system, without that of the server. Rows are medians of the rounds, which take turns.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"urltree/internal/testweb"
	"urltree/tools/command"
	"urltree/tools/machine"
)

func main() { command.Main("nodes", run) }

// A setting is what one row measures.
type setting struct {
	name, binary string
	nodes        int // 0: a crawl without -cluster
	rates        []float64
	cpu          []time.Duration // a page
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("nodes", flag.ContinueOnError)
	rounds := flags.Int("rounds", 3, "of all settings")
	pages := flags.Int("pages", 8000, "of the web")
	alone := flags.Bool("alone", false, "measure one process as well, with the engine in its program and without")
	downloads := flags.Int("downloads", 10, "in flight, of each node")
	if err := command.Parse(flags, args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "urltree-nodes-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	with, without, server := filepath.Join(dir, "crawler"), filepath.Join(dir, "noembed"), filepath.Join(dir, "nats-server")
	for _, build := range [][]string{
		{"-o", with, "./cmd/crawler"}, {"-tags", "noembed", "-o", without, "./cmd/crawler"}, {"-o", server, "github.com/nats-io/nats-server/v2"},
	} {
		cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-trimpath"}, build...)...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go build: %w: %s", err, out)
		}
	}
	settings := []*setting{
		{name: "1 node", binary: with, nodes: 1},
		{name: "2 nodes", binary: with, nodes: 2},
		{name: "4 nodes", binary: with, nodes: 4},
	}
	if *alone {
		settings = append(settings, &setting{name: "one process", binary: with}, &setting{name: "one process, noembed", binary: without})
	}
	for round := range *rounds {
		for i, s := range settings {
			folder := filepath.Join(dir, fmt.Sprintf("%d-%d", round, i))
			if err := s.measure(ctx, folder, server, *pages, *downloads); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			if err := os.RemoveAll(folder); err != nil {
				return err
			}
		}
	}
	fmt.Printf("%s\n\n| | pages/s | CPU ms/page |\n|---|---|---|\n", machine.Here())
	for _, s := range settings {
		slices.Sort(s.rates)
		slices.Sort(s.cpu)
		fmt.Printf("| %s | %.0f | %.3f |\n", s.name, s.rates[*rounds/2], float64(s.cpu[*rounds/2].Microseconds())/1000)
	}
	return nil
}

// measure crawls the web once.
func (s *setting) measure(ctx context.Context, folder, server string, pages, downloads int) error {
	web := testweb.New(testweb.Options{Kind: testweb.Tree, Hosts: 1000, Pages: pages, MinSize: 1000, MaxSize: 10_000, Latency: 100 * time.Millisecond})
	if err := web.Start(0); err != nil {
		return err
	}
	defer web.Stop()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	const engine = "127.254.0.1:4222"
	if s.nodes > 0 {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		conf := filepath.Join(folder, "conf")
		if err := os.WriteFile(conf, fmt.Appendf(nil, "listen: %q\njetstream { store_dir: %q, sync_interval: always }\n", engine, folder+"/store"), 0o644); err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, server, "-c", conf)
		if err := cmd.Start(); err != nil {
			return err
		}
		defer func() { _ = cmd.Wait() }()
		defer stop()
	}
	var list []*exec.Cmd
	for i := range max(s.nodes, 1) {
		args := []string{"-quiet", "-allow-private", "-delay", "0", "-crawlers", strconv.Itoa(downloads), "-downloads", "1", "-buffers", "2", "-sync", "none"}
		if s.nodes > 0 {
			args = append(args, "-cluster", engine, "-node-id", "n"+strconv.Itoa(i), "-cluster-nodes", strconv.Itoa(s.nodes))
		}
		cmd := exec.CommandContext(ctx, s.binary, append(args, web.Seeds()...)...)
		cmd.Dir = filepath.Join(folder, strconv.Itoa(i))
		if err := os.MkdirAll(cmd.Dir, 0o755); err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		list = append(list, cmd)
	}
	rate := make(chan float64, 1)
	go func() { rate <- watch(ctx, web, pages) }()
	var errs []error
	var cpu time.Duration
	for _, cmd := range list {
		errs = append(errs, cmd.Wait())
		cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if asked := web.Asked(); asked != pages {
		return fmt.Errorf("%d pages were asked, the web has %d", asked, pages)
	}
	s.rates = append(s.rates, <-rate)
	s.cpu = append(s.cpu, cpu/time.Duration(pages))
	return nil
}

// watch returns how many pages a second are asked from a tenth to nine tenths of all.
func watch(ctx context.Context, web *testweb.Web, pages int) float64 {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var began time.Time
	from := 0
	for {
		select {
		case <-ctx.Done():
			return 0
		case <-tick.C:
		}
		switch asked := web.Asked(); {
		case asked >= pages*9/10 && !began.IsZero():
			return float64(asked-from) / time.Since(began).Seconds()
		case asked >= pages/10 && began.IsZero():
			began, from = time.Now(), asked
		}
	}
}
