//go:build linux

// Resume measures how long a crawl that goes on takes from its start as a process to its first
// request, with millions of known URLs: after a clean stop and after a kill, in each order.
//
//	go run -C tools ./resume -known 5000000 -hosts 10000 -out /dev/shm/resume
//
// It makes the index through package storage, so that no page is in the tree, and plays a proxy
// that answers for all hosts. The folder is kept: a second call measures the tree that is there.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"urltree/storage"
	"urltree/storage/record"
	"urltree/tools/command"
)

func main() {
	command.Main("resume", func(ctx context.Context, args []string) error { return run(ctx, args, os.Stdout) })
}

func run(ctx context.Context, args []string, table io.Writer) error {
	flags := flag.NewFlagSet("resume", flag.ContinueOnError)
	known := flags.Int("known", 5_000_000, "`N` known URLs")
	hosts := flags.Int("hosts", 10_000, "the `N` hosts that they are on")
	held := flags.Int("held", 0, "`N` of these URLs are held: their hosts were given up")
	out := flags.String("out", filepath.Join("bin", "resume"), "the `FOLDER` for the tree")
	if err := command.Parse(flags, args); err != nil {
		return err
	}
	if flags.NArg() > 0 || *known < 1 || *hosts < 1 || *held < 0 {
		return command.Mistake("%q: there are flags only, -known and -hosts are at least 1, -held at least 0", args)
	}
	folder, err := filepath.Abs(*out)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	binary := filepath.Join(folder, "crawler")
	if text, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/crawler").CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, text)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	asked := make(chan time.Time, 1)
	proxy := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- time.Now():
		default: // not the first
		}
		http.NotFound(w, r)
	})}
	go proxy.Serve(listener)
	defer proxy.Close()
	b := &bench{command: binary, folder: folder, proxy: "http://" + listener.Addr().String(), asked: asked}
	if _, err := os.Stat(filepath.Join(folder, "iut")); err != nil {
		begin := time.Now()
		if err := b.fill(ctx, *known, *hosts, *held); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%d URLs on %d hosts made in %s\n", *known, *hosts, time.Since(begin).Round(time.Second))
	}
	fmt.Fprint(table, "| order | filter | after a clean stop, s | after a kill, s |\n|---|---|---|---|\n")
	for _, filter := range []int64{256 << 20, 1 << 20} {
		for _, order := range []string{"breadth", "priority", "priority -score inlinks", "tree"} {
			args := append(strings.Fields("-order "+order), "-seen-memory", strconv.FormatInt(filter, 10))
			if err := b.copy(); err != nil {
				return err
			}
			clean, err := b.crawl(ctx, args...)
			if err != nil {
				return err
			}
			unclean, err := b.crawl(ctx, args...)
			if err != nil {
				return err
			}
			fmt.Fprintf(table, "| %s | %d MiB | %.2f | %.2f |\n", order, filter>>20, clean.Seconds(), unclean.Seconds())
		}
	}
	return os.RemoveAll(b.work())
}

type bench struct {
	command, folder, proxy string
	asked                  chan time.Time // of the first request
}

// The tree that is made stays as it is; each measurement has a copy.
func (b *bench) made() string { return filepath.Join(b.folder, "iut") }
func (b *bench) work() string { return filepath.Join(b.folder, "work") }

func (b *bench) copy() error {
	if err := os.RemoveAll(b.work()); err != nil {
		return err
	}
	return os.CopyFS(b.work(), os.DirFS(b.made()))
}

// crawl runs the command, gives the time from its start to its first request, and kills it.
func (b *bench) crawl(ctx context.Context, args ...string) (time.Duration, error) {
	select {
	case <-b.asked:
	default:
	}
	cmd := exec.CommandContext(ctx, b.command, append([]string{
		"-quiet", "-proxy", b.proxy, "-sync", "none", "-robots", "ignore", "-delay", "20ms", "-retries", "0",
		"-tree", b.work(), "-output", filepath.Join(b.folder, "res.txt"),
	}, args...)...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case at := <-b.asked:
		err := cmd.Process.Kill()
		<-ended
		return at.Sub(begin), err
	case err := <-ended:
		return 0, fmt.Errorf("ended without a request: %w", err)
	}
}

// fill makes a tree with so many known URLs: 1 in 17 has failed, the others wait.
func (b *bench) fill(ctx context.Context, known, hosts, held int) error {
	cmd := exec.CommandContext(ctx, b.command, "-quiet", "-proxy", b.proxy, "-robots", "ignore", "-delay", "1ms", "-retries", "0",
		"-tree", b.made(), "-output", filepath.Join(b.folder, "res.txt"), "http://host-0.example/")
	// Its only page is not found, so that the command exits with 5.
	if text, err := cmd.CombinedOutput(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 5 {
		return fmt.Errorf("crawler: %w: %s", err, text)
	}
	index, err := storage.Open(filepath.Join(b.made(), "index.db"), storage.Options{NoSync: true})
	if err != nil {
		return err
	}
	defer index.Close()
	if err := index.LoadFilter(ctx); err != nil {
		return err
	}
	if _, _, _, err := index.Runs().Begin(); err != nil {
		return err
	}
	const atOnce = 20_000
	for from := 1; from <= known; from += atOnce {
		if err := ctx.Err(); err != nil {
			return err
		}
		var links []record.Link
		for n := from; n < min(from+atOnce, known+1); n++ {
			// A few hosts of a transaction have most of its links.
			host := (n/100 + n%7) % hosts
			links = append(links, record.Link{
				URL:    fmt.Sprintf("http://host-%d.example/section-%d/topic-%d/article-%d.html", host, n%13, n/1000%97, n),
				Source: fmt.Sprintf("http://host-%d.example/section-%d/topic-%d/", host, n%13, n/1000%97), Depth: uint32(1 + n*10/known),
			})
		}
		done, err := index.Commit([]*record.Outcome{{Links: links}})
		if err != nil {
			return err
		}
		var set []*record.Outcome
		for i, row := range done.Fresh {
			switch o := (&record.Outcome{Row: row, Next: row}); {
			case i%17 == 0:
				o.State, o.Reason, o.Page.Status = record.Failed, "http-4xx", http.StatusNotFound
				set = append(set, o)
			case held > 0:
				held--
				o.State, o.Next.Range, o.Next.Reason = record.Pending, record.Held, "host given up"
				set = append(set, o)
			}
		}
		if _, err := index.Commit(set); err != nil {
			return err
		}
		if from/atOnce%25 == 0 {
			fmt.Fprintf(os.Stderr, "\r%s ", strconv.Itoa(from))
		}
	}
	fmt.Fprintln(os.Stderr)
	_, err = index.Runs().Finish()
	return err
}
