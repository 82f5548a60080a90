//go:build linux

// Crawl measures a crawl from end to end, and tells which part of it takes how much of a page: CPU
// by stages, pages per second, allocations, system calls, bytes written, own memory.
//
//	make bench-crawl                                  # a made-up web, in a process of its own
//	go run -C tools ./crawl -corpus bin/_corpus/www   # real pages, from nginx
//	go run -C tools ./crawl -disk ext4                # or tmpfs: a new one for each crawl (root)
//	go run -C tools ./crawl -profile bin/crawl.prof   # then: go tool pprof bin/crawl.prof
//
// The crawler runs on one core, with -delay 0 and -per-host 5, its web on another. It runs twice:
// with a CPU profile, whose samples are given to stages by the functions they were taken in; and,
// where strace is installed, for the number of system calls, with fewer pages. All figures of the
// tables, and more, are in the JSON that -json writes; make bench-crawl has it in
// bin/bench-crawl.json.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"urltree/internal/testdisk"
	"urltree/tools/command"
	"urltree/tools/machine"
	"urltree/tools/nginx"
	"urltree/tools/strace"
)

// The names of this program as a child: what it does is the argument behind.
const (
	roleServe = "serve-web"
	roleCrawl = "crawl-web"
)

func main() {
	command.Main("bench-crawl", func(ctx context.Context, args []string) error {
		switch {
		case len(args) == 2 && args[0] == roleServe:
			return serve(ctx, args[1])
		case len(args) == 2 && args[0] == roleCrawl:
			return crawl(ctx, args[1])
		}
		b, err := parse(args)
		if err != nil {
			return err
		}
		return b.run(ctx, machine.Now("./crawl", args))
	})
}

// diskSize is in bytes; they take room as they are written.
const diskSize = 16 << 30

// A bench is what the flags say.
type bench struct {
	web       webOptions
	corpus    string // real pages; "": a made-up web
	sync      string
	disk      string // "": what -dir lies on
	dir       string
	cpu       int
	serverCPU int
	traced    int
	profile   string
	json      string
}

// parse reads the flags, and refuses what cannot be measured.
func parse(args []string) (*bench, error) {
	b := &bench{}
	flags := flag.NewFlagSet("bench-crawl", flag.ContinueOnError)
	flags.IntVar(&b.web.Pages, "pages", 10_000, "`N` pages of the made-up web")
	flags.IntVar(&b.web.Hosts, "hosts", 10, "and its `N` hosts")
	flags.IntVar(&b.web.Size, "size", 24<<10, "`BYTES` of a page of it")
	flags.IntVar(&b.web.Links, "links", 90, "`N` links of a page of it")
	flags.StringVar(&b.corpus, "corpus", "", "crawl the pages below this `ROOT`, by nginx, instead; make test-real lays some out")
	flags.StringVar(&b.sync, "sync", "full", "as of the crawler: full or none")
	flags.StringVar(&b.disk, "disk", "", "crawl onto a new `DISK`, ext4 or tmpfs, which nobody else writes to; otherwise onto that of -dir")
	flags.StringVar(&b.dir, "dir", filepath.Join("bin", "bench-crawl"), "a `FOLDER` for tree and logs, which must not be there; removed at the end")
	flags.IntVar(&b.cpu, "cpu", 0, "the `CORE` of the crawler")
	flags.IntVar(&b.serverCPU, "server-cpu", 1, "the `CORE` of the web")
	flags.IntVar(&b.traced, "traced", 2000, "`N` pages for the number of system calls; 0: do not count them")
	flags.StringVar(&b.profile, "profile", "", "keep the CPU profile in this `FILE`")
	flags.StringVar(&b.json, "json", "", "write all figures to this `FILE`")
	if err := command.Parse(flags, args); err != nil {
		return nil, err
	}
	switch {
	case flags.NArg() > 0:
		return nil, command.Mistake("argument %q is not understood: there are flags only", flags.Arg(0))
	case b.sync != "full" && b.sync != "none":
		return nil, command.Mistake("-sync %s: it is full or none", b.sync)
	case b.disk != "" && b.disk != "ext4" && b.disk != "tmpfs":
		return nil, command.Mistake("-disk %s: it is ext4 or tmpfs", b.disk)
	case b.web.Pages < 1 || b.web.Hosts < 1 || b.web.Size < 1 || b.web.Links < 1:
		return nil, command.Mistake("-pages, -hosts, -size and -links are at least 1")
	case b.traced < 0:
		return nil, command.Mistake("-traced %d: it is 0, for none, or more", b.traced)
	case b.cpu < 0 || b.serverCPU < 0:
		return nil, command.Mistake("-cpu and -server-cpu are numbers of cores, from 0 on")
	}
	return b, nil
}

// needs are the programs without which nothing can be measured.
func (b *bench) needs() []string {
	programs := []string{"go", "taskset"}
	if b.corpus != "" {
		programs = append(programs, "nginx")
	}
	if b.disk != "" {
		programs = append(programs, "mount")
	}
	if b.disk == "ext4" {
		programs = append(programs, "truncate", "mkfs.ext4")
	}
	return programs
}

func (b *bench) run(ctx context.Context, head machine.Head) (err error) {
	if err := command.Installed(b.needs()...); err != nil {
		return err
	}
	if err := errors.Join(machine.HasCore(b.cpu), machine.HasCore(b.serverCPU)); err != nil {
		return err
	}
	if b.dir, err = filepath.Abs(b.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(b.dir), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(b.dir, 0o755); err != nil {
		return fmt.Errorf("-dir: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()

	profile := cmp.Or(b.profile, filepath.Join(b.dir, "cpu.prof"))
	result, err := b.measure(ctx, "profiled", 0, profile, nil)
	if err != nil {
		return err
	}
	r := report{Head: head, Web: "made up", Sync: b.sync, Disk: b.disk, Result: result}
	if b.disk == "" {
		r.Disk = "in use"
	}
	if b.corpus != "" {
		r.Web = b.corpus
	}
	if r.Stages, err = stages(ctx, profile, result.CPU/float64(result.Pages)); err != nil {
		return err
	}
	if b.traced > 0 {
		if r.Calls, r.Traced, err = b.trace(ctx); err != nil {
			return err
		}
	}
	r.sum()
	return errors.Join(r.write(os.Stdout), command.WriteJSON(b.json, r))
}

// trace counts the system calls of the first pages, by name and for a page, and the pages. It gives
// none where strace is not installed.
func (b *bench) trace(ctx context.Context) (ofPage map[string]float64, pages int64, err error) {
	if _, err := exec.LookPath("strace"); err != nil {
		fmt.Fprintln(os.Stderr, "strace is not installed: no system calls")
		return nil, 0, nil
	}
	counts := filepath.Join(b.dir, "strace.txt")
	result, err := b.measure(ctx, "traced", b.traced, "", strace.Command(counts))
	if err != nil {
		return nil, 0, err
	}
	calls, err := strace.Calls(counts)
	if err != nil {
		return nil, 0, err
	}
	ofPage = map[string]float64{}
	for name, n := range calls {
		ofPage[name] = float64(n) / float64(result.Pages)
	}
	return ofPage, result.Pages, nil
}

// measure starts a web and crawls it once, up to so many pages if most is not 0.
func (b *bench) measure(ctx context.Context, name string, most int, profile string, under []string) (r crawlResult, err error) {
	o := crawlOptions{Tree: filepath.Join(b.dir, name), NoSync: b.sync == "none", Profile: profile, Pages: int64(most)}
	if b.disk == "" {
		err = os.Mkdir(o.Tree, 0o755)
	} else {
		var d *testdisk.Disk
		if d, err = testdisk.New(ctx, b.dir, b.disk, diskSize); err == nil {
			defer func() { err = errors.Join(err, d.Remove()) }()
			o.Tree = d.Path
		}
	}
	if err != nil {
		return r, err
	}
	var stop func() error
	if b.corpus == "" {
		o.Seeds, stop, err = b.startWeb(ctx)
	} else {
		o.Seeds, stop, err = b.startNginx(ctx)
	}
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	arg, err := json.Marshal(o)
	if err != nil {
		return r, err
	}
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	args := append([]string{"-c", strconv.Itoa(b.cpu)}, under...)
	cmd := exec.CommandContext(ctx, "taskset", append(args, self, roleCrawl, string(arg))...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Start(); err != nil {
		return r, err
	}
	peak := machine.Watch(cmd.Process.Pid)
	err = cmd.Wait()
	anon := peak()
	if err != nil {
		return r, fmt.Errorf("%s: %w", name, err)
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		return r, err
	}
	r.Anon = anon
	return r, nil
}

// startWeb starts the made-up web in a process of its own, and gives its seeds.
func (b *bench) startWeb(ctx context.Context) (seeds []string, stop func() error, err error) {
	arg, err := json.Marshal(b.web)
	if err != nil {
		return nil, nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.CommandContext(ctx, "taskset", "-c", strconv.Itoa(b.serverCPU), self, roleServe, string(arg))
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe() // it serves until this ends
	if err != nil {
		return nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	stop = func() error {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		return cmd.Wait()
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &seeds)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("the web said nothing: %w", err), stop())
	}
	return seeds, stop, nil
}

func (b *bench) startNginx(ctx context.Context) (seeds []string, stop func() error, err error) {
	root, err := filepath.Abs(b.corpus)
	if err != nil {
		return nil, nil, err
	}
	if _, err := os.Stat(filepath.Join(root, "index.html")); err != nil {
		return nil, nil, fmt.Errorf("-corpus: %w", err)
	}
	s, err := nginx.Start(ctx, b.dir, root, b.serverCPU, 0, nginx.Web{})
	if err != nil {
		return nil, nil, err
	}
	return []string{s.URL}, s.Stop, nil
}
