//go:build linux

package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"urltree/tools/machine"
)

// A report is what -json writes: what was measured, and the tables.
type report struct {
	machine.Head
	Web    string      `json:"web"`
	Disk   string      `json:"disk"`
	Sync   string      `json:"sync"`
	Result crawlResult `json:"result"`
	Stages []stage     `json:"stages"`

	// Of Result, which is of the crawl with the profile.
	CPU     float64 `json:"cpu_us_per_page"` // µs of user and system
	Speed   float64 `json:"pages_per_s"`
	Allocs  float64 `json:"allocations_per_page"`
	Alloced float64 `json:"allocated_bytes_per_page"`
	Written float64 `json:"written_bytes_per_page"` // requests included

	// System calls are those of a crawl that ends after Traced pages, for a page, its start and its
	// end included. Sum leaves nanosleep out, which Calls has. Without strace there are none.
	Traced int64              `json:"system_calls_of_first_pages,omitempty"`
	Sum    float64            `json:"system_calls_per_page_without_nanosleep,omitempty"`
	Calls  map[string]float64 `json:"system_calls_per_page,omitempty"` // by name
}

// pauses are those of the runtime's monitor: they go by the time that a crawl takes, and under
// strace it takes long.
const pauses = "nanosleep"

// sum works out what a page takes.
func (r *report) sum() {
	pages := float64(r.Result.Pages)
	r.CPU, r.Speed = 1e6*r.Result.CPU/pages, pages/r.Result.Wall
	r.Allocs, r.Alloced, r.Written = float64(r.Result.Allocs)/pages, float64(r.Result.Alloced)/pages, float64(r.Result.Written)/pages
	r.Sum = 0
	for name, n := range r.Calls {
		if name != pauses {
			r.Sum += n
		}
	}
}

// write prints the tables, in Markdown.
func (r *report) write(w io.Writer) error {
	var b strings.Builder
	pages := float64(r.Result.Pages)
	fmt.Fprintf(&b, "%v\n\nweb: %s, disk: %s, -sync %s\n\n", r.Head, r.Web, r.Disk, r.Sync)
	fmt.Fprintf(&b, "| stage | µs CPU/page | share |\n|---|---|---|\n")
	for _, s := range r.Stages {
		fmt.Fprintf(&b, "| %s | %.1f | %.0f %% |\n", s.Name, s.Micro, 100*s.Share)
	}
	fmt.Fprintf(&b, "| sum (user %.1f, system %.1f) | %.1f | |\n", 1e6*r.Result.User/pages, 1e6*(r.Result.CPU-r.Result.User)/pages, r.CPU)
	fmt.Fprintf(&b, "\n| | |\n|---|---|\n")
	fmt.Fprintf(&b, "| pages | %d |\n| URLs known | %d |\n| pages/s, with the profile | %.0f |\n", r.Result.Pages, r.Result.URLs, r.Speed)
	fmt.Fprintf(&b, "| allocations/page | %.0f |\n| bytes allocated/page | %.0f |\n", r.Allocs, r.Alloced)
	fmt.Fprintf(&b, "| bytes written/page, requests included | %.0f |\n| RssAnon at its peak, MiB | %d |\n", r.Written, r.Result.Anon>>20)
	if len(r.Calls) > 0 {
		fmt.Fprintf(&b, "| system calls/page of the first %d, without %s | %.1f |\n", r.Traced, pauses, r.Sum)
		names := slices.SortedFunc(maps.Keys(r.Calls), func(a, b string) int {
			return cmp.Or(cmp.Compare(r.Calls[b], r.Calls[a]), strings.Compare(a, b))
		})
		for _, name := range names {
			if name != pauses && r.Calls[name] >= 0.05 {
				fmt.Fprintf(&b, "| of these %s | %.1f |\n", name, r.Calls[name])
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
