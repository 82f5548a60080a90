package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"urltree/tools/machine"
)

// A measurement is one run of one tool.
type measurement struct {
	Disk string `json:"disk"`
	Tool string `json:"tool"`
	Run  int    `json:"run"` // from 1
	usage
	Requests int `json:"requests"` // all, those that gave nothing included
	Files    int `json:"files"`    // of the reachable set that it has asked for
	Missing  int `json:"missing"`
	Extra    int `json:"extra"` // pages that are not in the set
}

// cpu returns milliseconds of CPU for a page.
func (m measurement) cpu() float64 { return 1000 * (m.User + m.System) / float64(m.Files) }

func (m measurement) String() string {
	return fmt.Sprintf("%-5s %-10s run %d: %.3f ms CPU (%.2f s user, %.2f s system), %.0f pages/s, %d requests, %d missing, %d more",
		m.Disk, m.Tool, m.Run, m.cpu(), m.User, m.System, float64(m.Files)/m.Wall, m.Requests, m.Missing, m.Extra)
}

// A report is what -json writes.
type report struct {
	machine.Head
	Pages int           `json:"pages"` // URLs of pages that can be reached
	Files int           `json:"files"` // and their files: folders and queries lead to the same one
	Rows  []row         `json:"rows"`
	Runs  []measurement `json:"runs"`
}

// A row has the medians of a tool on a disk, each of its own.
type row struct {
	Disk    string  `json:"disk"`
	Tool    string  `json:"tool"`
	User    float64 `json:"user_ms_per_page"`
	System  float64 `json:"system_ms_per_page"`
	CPU     float64 `json:"cpu_ms_per_page"`
	Least   float64 `json:"cpu_ms_per_page_least"`
	Most    float64 `json:"cpu_ms_per_page_most"`
	Ratio   float64 `json:"ratio"` // of the first tool's CPU to this one's
	Speed   float64 `json:"pages_per_s"`
	Peak    int64   `json:"peak_anon_bytes"`
	Missing int     `json:"missing"` // the most of any run
	Extra   int     `json:"extra"`
}

// sum makes the rows from the runs.
func (r *report) sum() {
	type key struct{ disk, tool string }
	runs := map[key][]measurement{}
	var keys []key
	for _, m := range r.Runs {
		k := key{m.Disk, m.Tool}
		if runs[k] == nil {
			keys = append(keys, k)
		}
		runs[k] = append(runs[k], m)
	}
	first := map[string]float64{} // CPU of the first tool, by disk
	for _, k := range keys {
		of := runs[k]
		w := row{
			Disk: k.disk, Tool: k.tool,
			User:   median(of, func(m measurement) float64 { return 1000 * m.User / float64(m.Files) }),
			System: median(of, func(m measurement) float64 { return 1000 * m.System / float64(m.Files) }),
			CPU:    median(of, measurement.cpu),
			Speed:  median(of, func(m measurement) float64 { return float64(m.Files) / m.Wall }),
			Peak:   median(of, func(m measurement) int64 { return m.Peak }),
		}
		w.Least, w.Most = of[0].cpu(), of[0].cpu()
		for _, m := range of {
			w.Least, w.Most = min(w.Least, m.cpu()), max(w.Most, m.cpu())
			w.Missing, w.Extra = max(w.Missing, m.Missing), max(w.Extra, m.Extra)
		}
		if first[k.disk] == 0 {
			first[k.disk] = w.CPU
		}
		w.Ratio = first[k.disk] / w.CPU
		r.Rows = append(r.Rows, w)
	}
}

// median returns the middle one; of an even number the lower of the two.
func median[T cmp.Ordered](of []measurement, value func(measurement) T) T {
	var all []T
	for _, m := range of {
		all = append(all, value(m))
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}

// write prints the table, in Markdown, and the commands.
func (r *report) write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%v\n\n%d pages, %s\n\n", r.Head, r.Files, r.counted())
	first := r.Rows[0].Tool
	fmt.Fprintf(&b, "| disk | tool | user ms/page | system | CPU ms/page | least to most | %s / it | pages/s | peak RssAnon MiB | pages missing | others |\n", first)
	fmt.Fprintf(&b, "|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, w := range r.Rows {
		fmt.Fprintf(&b, "| %s | %s | %.3f | %.3f | %.3f | %.3f–%.3f | %.3f | %.0f | %d | %d | %d |\n",
			w.Disk, w.Tool, w.User, w.System, w.CPU, w.Least, w.Most, w.Ratio, w.Speed, w.Peak>>20, w.Missing, w.Extra)
	}
	fmt.Fprintln(&b)
	said := map[string]bool{}
	for _, m := range r.Runs {
		if !said[m.Command] {
			said[m.Command] = true
			fmt.Fprintf(&b, "    %s\n", m.Command)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// counted says how many runs a median is of.
func (r *report) counted() string {
	most := 0
	for _, m := range r.Runs {
		most = max(most, m.Run)
	}
	if most == 1 {
		return "one run"
	}
	return fmt.Sprintf("median of %d runs", most)
}
