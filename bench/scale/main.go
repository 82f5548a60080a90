// Scale crawls a web without an end and shows whether cost and memory stay the same while the
// crawl grows: a table and two pictures.
//
//	go run ./bench/scale -pages 300000 -hosts 50 -out bin/scale-50
//	go run ./bench/scale -pages 60000 -hosts 500 -latency 200ms -cpu 0 -server-cpu 1 -every 1s -- -crawlers 64 -downloads 8
//
// It needs the program synthweb, made from the folder that -web names (default $SHARED/synthweb).
// The crawler is the built command, asked through its socket; its CPU time and its own memory
// (RssAnon) come from /proc. Web and crawler run on the same machine: compare rows of one run.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"urltree/bench/machine"
	"urltree/internal/ctl"
	"urltree/internal/inspect"
	"urltree/internal/lab/plot"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

// A sample is the state of the crawl at one moment.
type sample struct {
	at           time.Duration
	pages, known int64
	cpu          time.Duration // user and system, since the start
	anon         int64         // bytes
}

func run() (err error) {
	pages := flag.Int64("pages", 300_000, "pages to store")
	hosts := flag.Int("hosts", 50, "hosts of the web")
	source := flag.String("web", filepath.Join(os.Getenv("SHARED"), "synthweb"), "the folder of synthweb")
	out := flag.String("out", filepath.Join("bin", "scale"), "the folder for tree, table and pictures; must not be there")
	every := flag.Duration("every", 2*time.Second, "between two samples")
	latency := flag.Duration("latency", 0, "how long the web waits before each answer")
	tiny := flag.Bool("tiny", true, "pages of 2 KB; otherwise of 41 KB on average")
	cpu := flag.Int("cpu", -1, "the core of the crawler; negative: any")
	serverCPU := flag.Int("server-cpu", -1, "the core of the web; negative: any")
	flag.Parse()
	if _, err := os.Stat(filepath.Join(*source, "go.mod")); err != nil {
		return fmt.Errorf("-web %s: the sources of synthweb are not there; set SHARED to the folder that synthweb is in, or name its own with -web", *source)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if _, err := os.Stat(*out); err == nil {
		return fmt.Errorf("%s is there already", *out)
	}
	folder, err := filepath.Abs(*out)
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
		{"go", "build", "-C", *source, "-o", filepath.Join(folder, "synthweb"), "."},
	} {
		if text, err := exec.CommandContext(ctx, build[0], build[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(build, " "), err, text)
		}
	}
	web := []string{filepath.Join(folder, "synthweb"), "-infinite", "-hosts", strconv.Itoa(*hosts), "-latency", latency.String(), fmt.Sprintf("-tiny=%t", *tiny)}
	seed, err := serve(ctx, pinned(*serverCPU, web))
	if err != nil {
		return err
	}
	samples, err := crawl(ctx, *cpu, folder, seed, *pages, *every, flag.Args())
	if err != nil {
		return err
	}
	return report(folder, samples, fmt.Sprintf("%d hosts, latency %v, -tiny=%t, -delay 0 %s", *hosts, *latency, *tiny, strings.Join(flag.Args(), " ")))
}

// pinned gives a command that runs on one core, or on any if it is negative.
func pinned(core int, command []string) []string {
	if core < 0 {
		return command
	}
	return append([]string{"taskset", "-c", strconv.Itoa(core)}, command...)
}

// serve starts the web until ctx ends, and gives a seed.
func serve(ctx context.Context, command []string) (string, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
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
	if !lines.Scan() {
		return "", errors.New("synthweb said nothing")
	}
	go func() {
		for lines.Scan() { // its pipe must not fill
		}
		cmd.Wait()
	}()
	return "http://127.1.0.1:9000/", nil
}

// crawl runs the command until it has stored so many pages, and looks at it now and then.
func crawl(ctx context.Context, cpu int, folder, seed string, pages int64, every time.Duration, more []string) ([]sample, error) {
	tree := filepath.Join(folder, "iut")
	command := append(pinned(cpu, []string{
		filepath.Join(folder, "crawler"), "-quiet", "-tree", tree, "-output", filepath.Join(folder, "res.txt"), "-allow-private", "-delay", "0",
		"-max-pages", strconv.FormatInt(pages, 10),
		"-budget-host", "0", "-budget-prefix", "0", "-budget-query", "0", "-budget-repeat", "0", "-budget-depth", "0", "-max-held", "0",
	}), append(more, seed)...)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	begin := time.Now()
	tick := time.NewTicker(every)
	defer tick.Stop()
	var samples []sample
	for {
		select {
		case err := <-ended:
			return samples, err
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
	for line := range strings.Lines(stats.String()) {
		var n int64
		if _, err := fmt.Sscanf(line, "records %d", &n); err == nil {
			s.known = n
		}
		if _, err := fmt.Sscanf(line, "  stored %d", &n); err == nil {
			s.pages = n
		}
	}
	if s.cpu, err = machine.CPU(pid); err != nil {
		return s, err
	}
	s.anon, err = machine.Anon(pid)
	return s, err
}

// report writes the table and the pictures.
func report(folder string, samples []sample, what string) error {
	if len(samples) == 0 {
		return errors.New("the crawl ended before it was looked at: more -pages or a shorter -every is needed")
	}
	last := samples[len(samples)-1]
	var b strings.Builder
	fmt.Fprintf(&b, "%v: %s\n\n", machine.Here(), what)
	fmt.Fprintf(&b, "| pages | URLs known | CPU µs/page | pages/s | RssAnon MiB |\n|---|---|---|---|---|\n")
	cost := plot.Series{Name: "CPU"}
	memory := plot.Series{Name: "RssAnon"}
	const rows = 12
	from := samples[0]
	var quarter [4][]int64 // memory by quarters of the pages
	for _, s := range samples {
		quarter[min(3, 4*s.pages/max(last.pages, 1))] = append(quarter[min(3, 4*s.pages/max(last.pages, 1))], s.anon)
		memory.Points = append(memory.Points, plot.Point{X: float64(s.pages), Y: float64(s.anon) / (1 << 20)})
		if s.pages == from.pages || s.pages-from.pages < last.pages/rows {
			continue
		}
		n := s.pages - from.pages
		perPage := float64((s.cpu - from.cpu).Microseconds()) / float64(n)
		cost.Points = append(cost.Points, plot.Point{X: float64(s.pages), Y: perPage})
		fmt.Fprintf(&b, "| %d | %d | %.0f | %.0f | %d |\n", s.pages, s.known, perPage, float64(n)/(s.at-from.at).Seconds(), s.anon>>20)
		from = s
	}
	fmt.Fprintf(&b, "\nMean RssAnon by quarter, MiB:")
	for _, q := range quarter {
		var sum int64
		for _, n := range q {
			sum += n
		}
		fmt.Fprintf(&b, " %.1f", float64(sum)/float64(max(len(q), 1))/(1<<20))
	}
	fmt.Fprintln(&b)
	fmt.Fprintf(os.Stderr, "\n")
	fmt.Print(b.String())
	if err := os.WriteFile(filepath.Join(folder, "table.md"), []byte(b.String()), 0o644); err != nil {
		return err
	}
	if least := 10; len(samples) < least {
		fmt.Fprintf(os.Stderr, "scale: no pictures of %d samples, fewer than %d: more -pages or a shorter -every is needed\n", len(samples), least)
		return nil
	}
	pages := plot.Axis{Label: "pages stored"}
	return errors.Join(
		draw(filepath.Join(folder, "cpu.svg"), &plot.Chart{Title: "CPU per page", X: pages, Y: plot.Axis{Label: "µs"}, Series: []plot.Series{cost}}),
		draw(filepath.Join(folder, "memory.svg"), &plot.Chart{Title: "Own memory", X: pages, Y: plot.Axis{Label: "MiB"}, Series: []plot.Series{memory}}))
}

func draw(file string, c *plot.Chart) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(c.WriteSVG(f), f.Close())
}
