//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"urltree/crawler"
	"urltree/crawler/scope"
	"urltree/internal/testweb"
)

// webOptions say what web to make up.
type webOptions struct{ Pages, Hosts, Size, Links int }

// serve serves a made-up web until standard input ends, and prints its seeds.
func serve(ctx context.Context, arg string) error {
	var o webOptions
	if err := json.Unmarshal([]byte(arg), &o); err != nil {
		return err
	}
	web := testweb.New(testweb.Options{Pages: o.Pages, Hosts: o.Hosts, MinSize: o.Size, MaxSize: o.Size, Links: o.Links, Seed: 1})
	if err := web.Start(0); err != nil {
		return err
	}
	defer web.Stop()
	if err := json.NewEncoder(os.Stdout).Encode(web.Seeds()); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// crawlOptions say what to crawl.
type crawlOptions struct {
	Tree    string // a folder for it and the results
	Seeds   []string
	NoSync  bool
	Pages   int64  // 0: all
	Profile string // the file of the CPU profile; "": none
}

// A crawlResult is what a crawl took, from its first line to its last.
type crawlResult struct {
	Pages   int64   `json:"pages"`
	URLs    int64   `json:"urls"`   // records in the index
	CPU     float64 `json:"cpu_s"`  // seconds of user and system
	User    float64 `json:"user_s"` // of these
	Wall    float64 `json:"wall_s"`
	Allocs  uint64  `json:"allocations"`
	Alloced uint64  `json:"allocated_bytes"`
	Written int64   `json:"written_bytes"` // by write and its kin, to files and connections
	Anon    int64   `json:"peak_anon_bytes"`
}

// profileRate is in samples a second. The usual kernel gives no more, whatever is asked for.
const profileRate = 250

// startProfile starts a profile of profileRate. The rate is set first, the only way to another one
// than pprof's; when pprof then sets its own, in vain, the runtime says so on standard error, which
// nobody needs to read.
func startProfile(f *os.File) (err error) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	stderr := int(os.Stderr.Fd())
	kept, err := unix.FcntlInt(uintptr(stderr), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(kept)
	if err := unix.Dup3(int(null.Fd()), stderr, 0); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Dup3(kept, stderr, 0)) }()
	runtime.SetCPUProfileRate(profileRate)
	return pprof.StartCPUProfile(f)
}

// crawl crawls everything and prints what it took.
func crawl(ctx context.Context, arg string) error {
	var o crawlOptions
	if err := json.Unmarshal([]byte(arg), &o); err != nil {
		return err
	}
	if o.Profile != "" {
		f, err := os.Create(o.Profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := startProfile(f); err != nil {
			return err
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start, used, written := time.Now(), usage(), bytesWritten()
	result, err := crawler.Run(ctx, crawler.Options{
		Tree:       filepath.Join(o.Tree, "iut"),
		Output:     filepath.Join(o.Tree, "res.txt"),
		Seeds:      o.Seeds,
		Bounds:     crawler.Bounds{Scope: scope.Host},
		Politeness: crawler.Politeness{Delay: -1, PerHost: 5},
		Storage:    crawler.Storage{NoSync: o.NoSync},
		Limits:     crawler.Limits{MaxPages: o.Pages},
	})
	if err != nil {
		return err
	}
	now := usage()
	r := crawlResult{
		Pages: result.Run.Stored, URLs: result.Total.Records(), Wall: time.Since(start).Seconds(),
		User: now.user - used.user, CPU: now.user + now.system - used.user - used.system,
		Written: bytesWritten() - written,
	}
	runtime.ReadMemStats(&after)
	r.Allocs, r.Alloced = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
	if o.Profile != "" {
		pprof.StopCPUProfile()
	}
	if r.Pages == 0 {
		return fmt.Errorf("nothing was stored: %s", result.Ended)
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// times are seconds of this process.
type times struct{ user, system float64 }

func usage() times {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it has no way to fail
	}
	return times{time.Duration(u.Utime.Nano()).Seconds(), time.Duration(u.Stime.Nano()).Seconds()}
}

// bytesWritten returns what the kernel has counted for this process; 0 where it does not count.
func bytesWritten() int64 {
	text, _ := os.ReadFile("/proc/self/io")
	_, rest, _ := strings.Cut(string(text), "wchar: ")
	line, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.ParseInt(line, 10, 64)
	return n
}
