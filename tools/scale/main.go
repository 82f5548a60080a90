//go:build linux

// Scale crawls a web without an end and shows whether cost and memory stay the same while the
// crawl grows: a table and three pictures.
//
//	go run -C tools ./scale -pages 300000 -hosts 50 -out bin/scale-50
//	go run -C tools ./scale -pages 60000 -hosts 500 -latency 200ms -cpu 0 -server-cpu 1 -every 1s \
//		-- -crawlers 64 -downloads 8
//
// It needs the program synthweb, made from the folder that -web names: by default synthweb in the
// folder $SHARED, or in shared beside the repository.
// The crawler is the built command, asked through its socket; its CPU time and its own memory
// (RssAnon) come from /proc. Web and crawler run on the same machine: compare rows of one run.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"urltree/internal/ctl"
	"urltree/internal/inspect"
	"urltree/tools/command"
	"urltree/tools/machine"
)

func main() {
	command.Main("scale", func(ctx context.Context, args []string) error {
		b, err := parse(args)
		if err != nil {
			return err
		}
		return b.run(ctx, machine.Now("./scale", args))
	})
}

// A sample is the state of the crawl at one moment.
type sample struct {
	at           time.Duration
	pages, known int64
	user, system time.Duration // CPU since the start
	anon         int64         // bytes
}

// A bench is what the flags say.
type bench struct {
	pages     int64
	hosts     int
	web       string // the folder of the sources
	out       string
	every     time.Duration
	latency   time.Duration
	tiny      bool
	cpu       int // negative: any
	serverCPU int // negative: any
	more      []string
}

// parse reads the flags, and refuses what cannot be measured.
func parse(args []string) (*bench, error) {
	b := &bench{}
	flags := flag.NewFlagSet("scale", flag.ContinueOnError)
	flags.Int64Var(&b.pages, "pages", 300_000, "`N` pages to store")
	flags.IntVar(&b.hosts, "hosts", 50, "`N` hosts of the web")
	flags.StringVar(&b.web, "web", command.Shared("synthweb"), "the `FOLDER` of synthweb's sources")
	flags.StringVar(&b.out, "out", filepath.Join("bin", "scale"), "the `FOLDER` for tree, table and pictures; must not be there")
	flags.DurationVar(&b.every, "every", 2*time.Second, "between two samples")
	flags.DurationVar(&b.latency, "latency", 0, "how long the web waits before each answer")
	flags.BoolVar(&b.tiny, "tiny", true, "pages of 2 KB; otherwise of 41 KB on average")
	flags.IntVar(&b.cpu, "cpu", -1, "the `CORE` of the crawler; negative: any")
	flags.IntVar(&b.serverCPU, "server-cpu", -1, "the `CORE` of the web; negative: any")
	if err := command.Parse(flags, args); err != nil {
		return nil, err
	}
	switch {
	case b.pages < 1 || b.hosts < 1:
		return nil, command.Mistake("-pages and -hosts are at least 1")
	case b.every < time.Millisecond:
		return nil, command.Mistake("-every %v: it is at least 1ms", b.every)
	case b.latency < 0:
		return nil, command.Mistake("-latency %v: it is 0 or more", b.latency)
	}
	var err error
	b.more, err = command.More(flags)
	return b, err
}

func (b *bench) run(ctx context.Context, head machine.Head) (err error) {
	if _, err := os.Stat(filepath.Join(b.web, "go.mod")); err != nil {
		return fmt.Errorf("-web %s: the sources of synthweb are not there; set SHARED to the folder that synthweb is in, or name its own with -web", b.web)
	}
	needs := []string{"go"}
	if max(b.cpu, b.serverCPU) >= 0 {
		needs = append(needs, "taskset")
	}
	if err := command.Installed(needs...); err != nil {
		return err
	}
	if _, err := os.Stat(b.out); err == nil {
		return fmt.Errorf("-out: %s is there already", b.out)
	}
	folder, err := filepath.Abs(b.out)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	defer func() {
		if err != nil { // else the next run would find it there
			err = errors.Join(err, os.RemoveAll(folder))
		}
	}()
	for _, build := range [][]string{
		{"go", "build", "-o", filepath.Join(folder, "crawler"), "./cmd/crawler"},
		{"go", "build", "-C", b.web, "-o", filepath.Join(folder, "synthweb"), "."},
	} {
		if text, err := exec.CommandContext(ctx, build[0], build[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(build, " "), err, text)
		}
	}
	web := []string{filepath.Join(folder, "synthweb"), "-infinite", "-hosts", strconv.Itoa(b.hosts), "-latency", b.latency.String(), fmt.Sprintf("-tiny=%t", b.tiny)}
	seed, err := serve(ctx, pinned(b.serverCPU, web))
	if err != nil {
		return err
	}
	samples, end, err := b.crawl(ctx, folder, seed)
	if err != nil {
		return err
	}
	named := strings.NewReplacer(folder+"/", "", seed, "URL")
	return report(os.Stdout, folder, samples, end, fmt.Sprintf("%v\n    %s\n    %s", head,
		named.Replace(strings.Join(web, " ")), named.Replace(strings.Join(b.crawlerArgs(folder, seed), " "))))
}

// crawlerArgs is the command that is measured.
func (b *bench) crawlerArgs(folder, seed string) []string {
	args := []string{
		filepath.Join(folder, "crawler"), "-quiet", "-tree", filepath.Join(folder, "iut"), "-output", filepath.Join(folder, "res.txt"),
		"-allow-private", "-delay", "0", "-max-pages", strconv.FormatInt(b.pages, 10),
		"-budget-domain", "0", "-budget-host", "0", "-budget-prefix", "0", "-budget-query", "0", "-budget-repeat", "0", "-budget-depth", "0", "-max-held", "0",
	}
	return append(append(args, b.more...), seed)
}

// pinned returns a command that runs on one core, or on any if it is negative.
func pinned(core int, argv []string) []string {
	if core < 0 {
		return argv
	}
	return machine.Pinned(strconv.Itoa(core), 0, argv...)
}

// serve starts the web until ctx ends, and gives the seed that it names once it listens everywhere.
func serve(ctx context.Context, argv []string) (seed string, err error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	output, err := cmd.StderrPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	lines := bufio.NewScanner(output)
	var said []string
	for lines.Scan() {
		if _, seed, started := strings.Cut(lines.Text(), " hosts, start at "); started {
			go func() {
				for lines.Scan() { // its pipe must not fill
				}
				_ = cmd.Wait()
			}()
			return seed, nil
		}
		said = append(said, lines.Text())
	}
	err = cmp.Or(cmd.Wait(), errors.New("it has ended"))
	return "", fmt.Errorf("the web does not listen on port 9000 of 127.1.0.1 and those behind it: %w: %s; end what has the address, such as another run", err, strings.Join(said, "; "))
}

// crawl runs the command until it has stored so many pages, and looks at it now and then. The last
// sample, end, is of the tree and the process when it has ended, without memory.
func (b *bench) crawl(ctx context.Context, folder, seed string) (samples []sample, end sample, err error) {
	tree := filepath.Join(folder, "iut")
	argv := pinned(b.cpu, b.crawlerArgs(folder, seed))
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Start(); err != nil {
		return nil, end, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	begin := time.Now()
	tick := time.NewTicker(b.every)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil {
				return nil, end, err
			}
			fmt.Fprintln(os.Stderr)
			end = sample{at: time.Since(begin), user: cmd.ProcessState.UserTime(), system: cmd.ProcessState.SystemTime()}
			stats, err := exec.CommandContext(ctx, filepath.Join(folder, "crawler"), "stats", "-tree", tree).Output()
			if err != nil {
				return nil, end, fmt.Errorf("crawler stats: %w", err)
			}
			end.count(string(stats))
			return samples, end, nil
		case <-tick.C:
		}
		s, err := look(ctx, cmd.Process.Pid, tree)
		if err != nil {
			continue // it opens the tree, or closes it
		}
		s.at = time.Since(begin)
		samples = append(samples, s)
		fmt.Fprintf(os.Stderr, "\r%s: %d pages, %d known, %d MiB ", s.at.Round(time.Second), s.pages, s.known, s.anon>>20)
	}
}

// look takes a sample.
func look(ctx context.Context, pid int, tree string) (s sample, err error) {
	var stats bytes.Buffer
	if err := ctl.Call(ctx, tree, inspect.Question{Command: "stats"}, &stats); err != nil {
		return s, err
	}
	s.count(stats.String())
	if s.user, s.system, err = machine.CPU(pid); err != nil {
		return s, err
	}
	s.anon, err = machine.Anon(pid)
	return s, err
}

// count takes the numbers of pages and URLs from what crawler stats prints.
func (s *sample) count(stats string) {
	for line := range strings.Lines(stats) {
		var n int64
		if _, err := fmt.Sscanf(line, "records %d", &n); err == nil {
			s.known = n
		}
		if _, err := fmt.Sscanf(line, "  stored %d", &n); err == nil {
			s.pages = n
		}
	}
}
