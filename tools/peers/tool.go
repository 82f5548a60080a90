package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"urltree/internal/testdisk"
	"urltree/tools/machine"
)

// logName is the file, on the disk, of what a tool says.
const logName = "said.txt"

// unwanted is what other tools would take beside the pages.
const unwanted = "png,gif,jpg,jpeg,svg,ico,css,js,zip,xml,woff,woff2,ttf"

// A tool is something that crawls one host.
type tool struct {
	name  string
	path  string
	ours  bool
	cores int
	may   []int // exit codes of a complete crawl beside 0
	args  func(d *testdisk.Disk, url string) []string
}

// crawlers are the tools that are this crawler: as it is, with two cores, with its pages in WARC
// files, and in such without compression.
var crawlers = []string{"crawler", "crawler-2", "crawler-warc", "crawler-warc-plain"}

// installed returns those of the tools that are, and builds this crawler.
func (b *bench) installed(ctx context.Context) (list []tool, err error) {
	built := filepath.Join(b.work, "crawler")
	for _, name := range b.tools {
		t := tool{name: name, cores: 1}
		name, t.path, _ = strings.Cut(name, "=")
		t.name = name
		switch {
		case t.path != "", slices.Contains(crawlers, name):
			t.ours, t.args = true, b.crawlerArgs
			switch name {
			case "crawler-2":
				t.cores = 2
			case "crawler-warc":
				t.args = b.with("-store", "warc")
			case "crawler-warc-plain":
				t.args = b.with("-store", "warc", "-warc-compression", "none")
			}
			if t.path != "" {
				// A tool runs in the folder of its disk.
				if t.path, err = filepath.Abs(t.path); err != nil {
					return nil, err
				}
				if _, err := exec.LookPath(t.path); err != nil {
					return nil, fmt.Errorf("-tools: %s: %w", name, err)
				}
				break
			}
			t.path = built
			cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", built, "./cmd/crawler")
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
			if text, err := cmd.CombinedOutput(); err != nil {
				return nil, fmt.Errorf("go build: %w: %s", err, text)
			}
		case name == "floor":
			if t.path, err = os.Executable(); err != nil {
				return nil, err
			}
			t.args = func(d *testdisk.Disk, url string) []string { return []string{roleFloor, b.pageList(), url} }
		case name == "wget2":
			t.may = []int{8} // something gave an error, such as 404
			t.args = func(d *testdisk.Disk, url string) []string {
				return []string{"-q", "-r", "-l", "inf", "--max-threads=5", "--robots=off", "--no-check-certificate", "-R", unwanted, "-P", d.Path, url}
			}
		case name == "wget":
			t.may = []int{8}
			t.args = func(d *testdisk.Disk, url string) []string {
				return []string{"-q", "-r", "-l", "inf", "-e", "robots=off", "--no-check-certificate", "-R", unwanted, "-P", d.Path, url}
			}
		case name == "httrack":
			t.args = func(d *testdisk.Disk, url string) []string {
				args := []string{url, "-O", d.Path, "-q", "-s0", "-c5", "-%c10000", "-A1000000000", "--disable-security-limits", "-I0", "-r9999"}
				for suffix := range strings.SplitSeq(unwanted, ",") {
					args = append(args, "-*."+suffix)
				}
				return args
			}
		}
		if t.path == "" {
			if t.path, err = exec.LookPath(name); err != nil {
				fmt.Fprintf(os.Stderr, "%s is not installed and left out\n", name)
				continue
			}
		}
		list = append(list, t)
	}
	if len(list) == 0 {
		return nil, errors.New("none of the tools is installed")
	}
	return list, nil
}

// with returns the arguments of this crawler behind some more.
func (b *bench) with(more ...string) func(d *testdisk.Disk, url string) []string {
	return func(d *testdisk.Disk, url string) []string { return append(more, b.crawlerArgs(d, url)...) }
}

func (b *bench) crawlerArgs(d *testdisk.Disk, url string) []string {
	sync := "full"
	if d.Kind == "tmpfs" {
		sync = "none"
	}
	args := []string{
		"-quiet", "-scope", "host", "-delay", "0", "-per-host", "5", "-sync", sync,
		"-tree", filepath.Join(d.Path, "iut"), "-output", filepath.Join(d.Path, "res.txt"),
	}
	if b.web.TLS {
		args = append(args, "-insecure")
	}
	return append(append(args, b.more...), url)
}

// A usage is what a run of a tool took.
type usage struct {
	Command string  `json:"command"` // with DIR for its disk and URL for the seed
	User    float64 `json:"user_s"`  // seconds, as the other times
	System  float64 `json:"system_s"`
	Wall    float64 `json:"wall_s"`
	Peak    int64   `json:"peak_anon_bytes"` // own memory (RssAnon), as often as it was looked at
}

// start runs a tool on its core to the end.
func (b *bench) start(ctx context.Context, t tool, d *testdisk.Disk, url string) (u usage, err error) {
	cores := strconv.Itoa(b.toolCPU)
	if t.cores == 2 {
		cores += "," + strconv.Itoa(b.serverCPU)
	}
	args := t.args(d, url)
	u.Command = strings.NewReplacer(d.Path, "DIR", url, "URL").Replace(t.name + " " + strings.Join(args, " "))
	said, err := os.Create(filepath.Join(d.Path, logName))
	if err != nil {
		return u, err
	}
	defer said.Close()
	argv := machine.Pinned(cores, b.priority, append([]string{t.path}, args...)...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	cmd.Dir, cmd.Stdout, cmd.Stderr = d.Path, said, said
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return u, err
	}
	peak := machine.Watch(cmd.Process.Pid)
	err = cmd.Wait()
	u.Wall = time.Since(begin).Seconds()
	u.Peak = peak()
	var exit *exec.ExitError
	if errors.As(err, &exit) && slices.Contains(t.may, exit.ExitCode()) {
		err = nil
	}
	if err != nil {
		return u, fmt.Errorf("%w; it said: %s", err, tail(said.Name()))
	}
	u.User, u.System = cmd.ProcessState.UserTime().Seconds(), cmd.ProcessState.SystemTime().Seconds()
	return u, nil
}
