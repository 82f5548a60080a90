// Peers crawls real pages with this crawler and with what else is installed of wget2, wget and
// HTTrack, one after the other on the same machine, and compares the CPU time that a page takes.
//
//	make bench-peers                                   # the pages of a JDK, laid out if not there
//	go run -C tools ./peers -packages 'python3.11-doc postgresql-doc-15' -corpus bin/_corpus/www
//	go run -C tools ./peers -corpus bin/_corpus/www    # pages that are there
//	go run -C tools ./peers -tools crawler,before=/path/to/crawler,wget2 -runs 5
//	go run -C tools ./peers -tools crawler,crawler-2 -disks tmpfs   # one core against two
//	go run -C tools ./peers -tools crawler,crawler-warc -web gzip   # folders against WARC files
//	go run -C tools ./peers -tools crawler,floor,wget2 -web tls-h2-gzip
//
// The pages come from nginx on a loopback address, pinned to one core; the tool is pinned to
// another. Every run has a disk of its own that nobody has written to: freed inodes make the next
// run on a file system slower. The tools take turns, and the median of the runs counts. It needs
// root, for the mounts, and nginx, taskset and mkfs.ext4; it installs nothing. Beside other work
// -priority and -nginx-priority let both sides have their cores for themselves.
//
// The floor is a program in Go that does nothing but ask for all pages, of a list, and decode them.
//
// What a tool has found is read from nginx's log, and compared with a walk over all links that
// shares no code with the crawler. The list of pages that this crawler writes must be exactly it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"urltree/internal/testdisk"
	"urltree/internal/walk"
	"urltree/tools/command"
	"urltree/tools/machine"
	"urltree/tools/nginx"
)

func main() {
	command.Main("peers", func(ctx context.Context, args []string) error {
		if len(args) == 3 && args[0] == roleFloor {
			return fetchAll(ctx, args[1], args[2])
		}
		b, err := parse(args)
		if err != nil {
			return err
		}
		return b.run(ctx, machine.Now("./peers", args))
	})
}

// A bench is one comparison.
type bench struct {
	root           string   // the document root, absolute
	packages       []string // that it is made of; none: it is there
	tools          []string // by name, or as NAME=PATH
	disks          []string // kinds
	runs           int
	work           string // for what lies around meanwhile, absolute; removed at the end
	json           string // a file, or ""
	web            nginx.Web
	toolCPU        int
	serverCPU      int
	priority       int      // of the tools, as of machine.Pinned
	serverPriority int      // of nginx
	more           []string // options for this crawler

	size  int64 // bytes of a disk
	seed  string
	want  walk.Result
	files map[string]bool // that the walk has met
}

func (b *bench) run(ctx context.Context, head machine.Head) (err error) {
	if err := b.ready(); err != nil {
		return err
	}
	if len(b.packages) > 0 {
		if err := b.layOut(ctx); err != nil {
			return err
		}
	}
	if _, err := os.Stat(filepath.Join(b.root, "index.html")); err != nil {
		return fmt.Errorf("-corpus: %w; -packages lays pages out", err)
	}
	if err := os.MkdirAll(filepath.Dir(b.work), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(b.work, 0o755); err != nil {
		return fmt.Errorf("-work: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.work)) }()
	tools, err := b.installed(ctx)
	if err != nil {
		return err
	}
	if err := b.walk(ctx); err != nil {
		return err
	}
	if err := os.WriteFile(b.pageList(), []byte(strings.Join(b.paths(), "\n")), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d pages can be reached, in %d files\n", len(b.want.Pages), len(b.files))
	r := report{Head: head, Pages: len(b.want.Pages), Files: len(b.files)}
	err = b.rounds(ctx, &r, tools)
	if len(r.Runs) == 0 {
		return err
	}
	r.sum() // of what there is, also if a tool or somebody has ended it
	return errors.Join(err, r.write(os.Stdout), command.WriteJSON(b.json, r))
}

// rounds lets each tool run once on each disk, then again. A run of another tool that failed is
// made again.
func (b *bench) rounds(ctx context.Context, r *report, tools []tool) error {
	for n := range b.runs {
		for _, kind := range b.disks {
			for _, t := range tools {
				m, err := b.measure(ctx, t, kind)
				for again := 0; err != nil && !t.ours && again < 5 && ctx.Err() == nil; again++ {
					fmt.Fprintf(os.Stderr, "%s on %s, once more: %v\n", t.name, kind, err)
					m, err = b.measure(ctx, t, kind)
				}
				if err != nil {
					return fmt.Errorf("%s on %s: %w", t.name, kind, err)
				}
				m.Run = n + 1
				fmt.Fprintf(os.Stderr, "%v\n", m)
				r.Runs = append(r.Runs, m)
			}
		}
	}
	return nil
}

// walk finds out what can be reached.
func (b *bench) walk(ctx context.Context) error {
	s, err := nginx.Start(ctx, b.work, b.root, b.serverCPU, b.serverPriority, nginx.Web{})
	if err != nil {
		return err
	}
	b.seed = s.URL
	b.want, err = walk.Host(ctx, s.URL)
	if err = errors.Join(err, s.Stop()); err != nil {
		return err
	}
	b.files, _, err = s.Served()
	// A disk has room for the pages, rounded up to blocks, and for all that stands beside them.
	b.size = 1 << 30
	for name := range b.files {
		if info, err := os.Stat(filepath.Join(b.root, filepath.FromSlash(name))); err == nil {
			b.size += 2 * (info.Size() + 16<<10)
		}
	}
	return err
}

// measure lets a tool crawl everything, onto a new disk.
func (b *bench) measure(ctx context.Context, t tool, kind string) (m measurement, err error) {
	d, err := testdisk.New(ctx, b.work, kind, b.size)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, d.Remove()) }()
	s, err := nginx.Start(ctx, b.work, b.root, b.serverCPU, b.serverPriority, b.web)
	if err != nil {
		return m, err
	}
	u, err := b.start(ctx, t, d, s.URL)
	if err = errors.Join(err, s.Stop()); err != nil {
		return m, err
	}
	files, requests, err := s.Served()
	if err != nil {
		return m, err
	}
	m = measurement{Disk: kind, Tool: t.name, usage: u, Requests: requests}
	for name := range files {
		if b.files[name] {
			m.Files++
		} else {
			m.Extra++
		}
	}
	m.Missing = len(b.files) - m.Files
	if m.Files == 0 {
		return m, fmt.Errorf("it has found nothing; it said: %s", tail(filepath.Join(d.Path, logName)))
	}
	if !t.ours {
		return m, nil
	}
	pages, err := listed(filepath.Join(d.Path, "res.txt"), s.URL)
	if err != nil {
		return m, err
	}
	return m, compare(pages, b.paths())
}

// paths returns what of the URLs of all pages is the same for each server: not scheme and port.
func (b *bench) paths() []string {
	all := make([]string, 0, len(b.want.Pages))
	for _, page := range b.want.Pages {
		all = append(all, strings.TrimPrefix(page, b.seed))
	}
	return all
}

// compare describes how what was stored differs from what can be reached.
func compare(stored, want []string) error {
	differ := func(a, b []string) (only []string) {
		for _, page := range a {
			if _, found := slices.BinarySearch(b, page); !found {
				only = append(only, page)
			}
		}
		return only
	}
	slices.Sort(want)
	missing, more := differ(want, stored), differ(stored, want)
	if len(missing)+len(more) == 0 && len(stored) == len(want) {
		return nil
	}
	return fmt.Errorf("it has stored %d pages, %d can be reached; %d are missing: %q; %d more: %q",
		len(stored), len(want), len(missing), missing[:min(3, len(missing))], len(more), more[:min(3, len(more))])
}

// listed returns the paths of the pages of a result file, sorted.
func listed(file, seed string) (pages []string, err error) {
	text, err := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		url, _, _ := strings.Cut(line, "\t")
		pages = append(pages, strings.TrimPrefix(url, seed))
	}
	slices.Sort(pages)
	return pages, err
}

// tail returns the last bytes of a file, for an error.
func tail(file string) string {
	const most = 500
	f, err := os.Open(file)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > most {
		_, _ = f.Seek(-most, io.SeekEnd)
	}
	text, _ := io.ReadAll(f)
	return strings.TrimSpace(string(text))
}
