//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// The stages of a page, as docs/performance.md has them.
const (
	stageFetch    = "fetch"
	stageLinks    = "find links"
	stageResolve  = "resolve, canonicalise"
	stageSeen     = "seen filter"
	stageTree     = "tree"
	stageContents = "SHA-256, metadata"
	stageIndex    = "index"
	stageRest     = "frontier, robots, scope, buffers, results, the rest"
	stageCollect  = "garbage collector"
	stageSchedule = "scheduler, network poller"
)

var stageNames = [...]string{
	stageFetch, stageLinks, stageResolve, stageSeen, stageTree, stageContents, stageIndex, stageRest, stageCollect, stageSchedule,
}

// owners say whose work a frame of a stack is, by what it contains: the function's name with its
// package, then its file. The first that fits counts, of the innermost frame that any fits: what
// a stage calls belongs to it, unless that is a stage itself. Frames that none fits, such as those
// of the runtime, belong to their caller.
var owners = []struct{ part, stage string }{
	{"/internal/extract/meta.go:", stageContents},
	{"/internal/extract/text.go:", stageContents},
	{"crypto/sha256.", stageContents},
	{"crypto/internal/fips140/sha256.", stageContents},
	{"urltree/internal/extract", stageLinks},
	{"urltree/crawler/weburl", stageResolve},
	{"github.com/nlnwa/whatwg-url", stageResolve},
	{"urltree/internal/seen.", stageSeen},
	{"urltree/storage.", stageIndex},
	{"go.etcd.io/bbolt", stageIndex},
	{"urltree/iut.", stageTree},
	{"urltree/internal/fetch.", stageFetch},
	{"net/http.", stageFetch},
	{"urltree/", stageRest},
}

// collectors begin stacks, or stand in them, that are the garbage collector's own.
var collectors = []string{"runtime.gcBgMarkWorker", "runtime.bgsweep", "runtime.bgscavenge", "runtime.gcStart", "runtime.gcMark"}

// A stage is what it takes of a page.
type stage struct {
	Name  string  `json:"name"`
	Micro float64 `json:"us_per_page"`
	Share float64 `json:"share"` // of all, 0 to 1
}

// stages shares out what a page takes, in seconds, by the samples of a profile.
func stages(ctx context.Context, profile string, perPage float64) ([]stage, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	out, err := exec.CommandContext(ctx, "go", "tool", "pprof", "-traces", "-lines", "-unit", "ns", self, profile).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("go tool pprof: %w", err)
	}
	sums, all, err := attribute(string(out))
	if err != nil {
		return nil, err
	}
	var list []stage
	for _, name := range stageNames {
		share := sums[name] / all
		list = append(list, stage{Name: name, Share: share, Micro: 1e6 * share * perPage})
	}
	return list, nil
}

// attribute returns the time of each stage, and of all, of what `pprof -traces -lines` prints: for
// each stack a line of dashes, then a frame a line, the innermost first, behind the time.
func attribute(traces string) (sums map[string]float64, all float64, err error) {
	sums = map[string]float64{}
	_, traces, _ = strings.Cut(traces, "\n-----------+")
	for stack := range strings.SplitSeq(traces, "\n-----------+") {
		var value float64
		var frames []string
		for line := range strings.Lines(stack) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "---") || line == "" {
				continue
			}
			if first, rest, ok := strings.Cut(line, " "); ok && value == 0 && strings.HasSuffix(first, "ns") {
				if value, err = strconv.ParseFloat(strings.TrimSuffix(first, "ns"), 64); err != nil {
					return nil, 0, fmt.Errorf("pprof: %q: %w", line, err)
				}
				line = strings.TrimSpace(rest)
			}
			frames = append(frames, line)
		}
		sums[owner(frames)] += value
		all += value
	}
	if all == 0 {
		return nil, 0, errors.New("the profile has no samples")
	}
	return sums, all, nil
}

// owner returns the stage of a stack.
func owner(frames []string) string {
	for _, frame := range frames {
		for _, o := range owners {
			if strings.Contains(frame, o.part) {
				return o.stage
			}
		}
	}
	for _, frame := range frames {
		for _, c := range collectors {
			if strings.HasPrefix(frame, c) {
				return stageCollect
			}
		}
	}
	return stageSchedule
}
