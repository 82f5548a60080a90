package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"urltree/bench/machine"
)

// A report is what -json writes.
type report struct {
	Machine machine.Machine    `json:"machine"`
	Web     string             `json:"web"`
	Disk    string             `json:"disk"`
	Sync    string             `json:"sync"`
	Result  crawlResult        `json:"result"`
	Stages  []stage            `json:"stages"`
	Calls   map[string]float64 `json:"system_calls_per_page,omitempty"` // by name
}

// pauses are those of the runtime's monitor: they go by the time that a crawl takes, and under
// strace it takes long.
const pauses = "nanosleep"

// write prints the tables, in Markdown.
func (r *report) write(w io.Writer) error {
	var b strings.Builder
	pages := float64(r.Result.Pages)
	fmt.Fprintf(&b, "%v; web: %s, disk: %s, -sync %s\n\n", r.Machine, r.Web, r.Disk, r.Sync)
	fmt.Fprintf(&b, "| stage | µs CPU/page | share |\n|---|---|---|\n")
	for _, s := range r.Stages {
		fmt.Fprintf(&b, "| %s | %.1f | %.0f %% |\n", s.Name, s.Micro, 100*s.Share)
	}
	fmt.Fprintf(&b, "| sum (user %.1f, system %.1f) | %.1f | |\n", 1e6*r.Result.User/pages, 1e6*(r.Result.CPU-r.Result.User)/pages, 1e6*r.Result.CPU/pages)
	fmt.Fprintf(&b, "\n| | |\n|---|---|\n")
	fmt.Fprintf(&b, "| pages | %d |\n| URLs known | %d |\n| pages/s, with the profile | %.0f |\n", r.Result.Pages, r.Result.URLs, pages/r.Result.Wall)
	fmt.Fprintf(&b, "| allocations/page | %.0f |\n| bytes allocated/page | %.0f |\n", float64(r.Result.Allocs)/pages, float64(r.Result.Alloced)/pages)
	fmt.Fprintf(&b, "| bytes written/page, requests included | %.0f |\n| RssAnon at its peak, MiB | %d |\n", float64(r.Result.Written)/pages, r.Result.Anon>>20)
	if len(r.Calls) > 0 {
		var sum float64
		for name, n := range r.Calls {
			if name != pauses {
				sum += n
			}
		}
		fmt.Fprintf(&b, "| system calls/page, without %s | %.1f |\n", pauses, sum)
		names := slices.SortedFunc(maps.Keys(r.Calls), func(a, b string) int {
			return cmp.Or(cmp.Compare(r.Calls[b], r.Calls[a]), strings.Compare(a, b))
		})
		for _, name := range names {
			if r.Calls[name] >= 0.05 {
				fmt.Fprintf(&b, "| of these %s | %.1f |\n", name, r.Calls[name])
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
