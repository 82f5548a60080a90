//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"urltree/tools/plot"
)

// A row is what crawling has taken between two samples.
type row struct {
	pages, known int64   // at its end
	cpu, system  float64 // µs a page
	speed        float64 // pages a second
	anon         int64   // bytes, at its end
}

// between makes a row; from has fewer pages than to.
func between(from, to sample) row {
	n := to.pages - from.pages
	perPage := func(t time.Duration) float64 { return float64(t.Microseconds()) / float64(n) }
	system := perPage(to.system - from.system)
	return row{
		pages: to.pages, known: to.known, anon: to.anon,
		cpu: perPage(to.user-from.user) + system, system: system, speed: float64(n) / (to.at - from.at).Seconds(),
	}
}

// A row has at least one of so many parts of the pages; only the last may have fewer.
const parts = 12

// rows makes the table of what was looked at: a row ends with the first sample that has enough
// pages more than the one before, or with the last that has more. The rest of the crawl begins with
// from.
func rows(samples []sample) (all []row, from sample) {
	from, last := samples[0], samples[len(samples)-1]
	for _, s := range samples {
		if s.pages > from.pages && (s.pages-from.pages >= last.pages/parts || s.pages == last.pages) {
			all = append(all, between(from, s))
			from = s
		}
	}
	return all, from
}

// window is in pages: the cost at 50,000 pages is that of as many around them, the cost at the end
// that of the last ones.
const window = 50_000

// costs returns what a page takes at 50,000 pages and at the end of the samples, each with the
// pages that it is of. There is none if the two are not apart.
func costs(samples []sample) (begin, end cost, ok bool) {
	most := samples[len(samples)-1]
	begin, begun := costOf(samples, window/2, 3*window/2)
	end, ended := costOf(samples, most.pages-window, most.pages)
	return begin, end, begun && ended && begin.to <= end.from
}

// A cost is in µs of CPU for each of the pages from one number to another.
type cost struct {
	from, to int64
	cpu      float64
}

// costOf returns the cost between the last sample that has at most so many pages as from, and the
// first that has at least as many as to.
func costOf(samples []sample, from, to int64) (c cost, ok bool) {
	var a, b *sample
	for i := range samples {
		s := &samples[i]
		if s.pages <= from {
			a = s
		}
		if s.pages >= to {
			b = s
			break
		}
	}
	if a == nil || b == nil {
		return c, false
	}
	return cost{a.pages, b.pages, between(*a, *b).cpu}, true
}

// write prints the table and what follows from it.
func write(w io.Writer, head string, samples []sample, end sample) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n| pages | URLs known | CPU µs/page | of it in the kernel | pages/s | RssAnon MiB |\n|---|---|---|---|---|---|\n", head)
	table, last := rows(samples)
	for _, r := range table {
		fmt.Fprintf(&b, "| %d | %d | %.0f | %.0f | %.0f | %d |\n", r.pages, r.known, r.cpu, r.system, r.speed, r.anon>>20)
	}
	cpu, system := end.user+end.system-last.user-last.system, end.system-last.system
	fmt.Fprintf(&b, "| %d, closed | %d | %.2f s in all | %.2f s in all | in %.1f s | |\n", end.pages, end.known, cpu.Seconds(), system.Seconds(), (end.at - last.at).Seconds())
	fmt.Fprintf(&b, "\nThe last row is of what was left of the pages after the last look, the last commits, the closing and the results.\n")
	whole := between(sample{}, end)
	fmt.Fprintf(&b, "\nWhole run, from the start of the process to its end: %d pages in %.1f s, %.0f pages/s, %.1f CPU µs/page.\n", end.pages, end.at.Seconds(), whole.speed, whole.cpu)
	if begin, end, ok := costs(samples); ok {
		fmt.Fprintf(&b, "\nCPU per page at the end to that at 50,000 pages: %.3f; %.1f µs, of pages %d to %d, to %.1f µs, of pages %d to %d.\n",
			end.cpu/begin.cpu, end.cpu, end.from, end.to, begin.cpu, begin.from, begin.to)
	} else {
		fmt.Fprintf(&b, "\nCPU per page at the end to that at 50,000 pages: none, since it is of pages 25,000 to 75,000 and of the last 50,000 behind them.\n")
	}
	fmt.Fprintf(&b, "\nMean RssAnon by quarter, MiB:")
	for _, q := range quarters(samples) {
		fmt.Fprintf(&b, " %.1f", q)
	}
	fmt.Fprintln(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// quarters returns the mean of the samples' own memory, in MiB, by quarters of the pages.
func quarters(samples []sample) (means [4]float64) {
	var n [4]int
	most := max(samples[len(samples)-1].pages, 1)
	for _, s := range samples {
		q := min(3, 4*s.pages/most)
		means[q] += float64(s.anon) / (1 << 20)
		n[q]++
	}
	for q := range means {
		means[q] /= float64(max(n[q], 1))
	}
	return means
}

// report writes the table, also to a file, and the pictures.
func report(w io.Writer, folder string, samples []sample, end sample, head string) error {
	if len(samples) == 0 {
		return errors.New("the crawl ended before it was looked at: more -pages or a shorter -every is needed")
	}
	file, err := os.Create(filepath.Join(folder, "table.md"))
	if err != nil {
		return err
	}
	if err := errors.Join(write(io.MultiWriter(w, file), head, samples, end), file.Close()); err != nil {
		return err
	}
	if least := 10; len(samples) < least {
		fmt.Fprintf(os.Stderr, "scale: no pictures of %d samples, fewer than %d: more -pages or a shorter -every is needed\n", len(samples), least)
		return nil
	}
	cpu, speed, memory := plot.Series{Name: "CPU"}, plot.Series{Name: "pages/s"}, plot.Series{Name: "RssAnon"}
	table, _ := rows(samples)
	for _, r := range table {
		cpu.Points = append(cpu.Points, plot.Point{X: float64(r.pages), Y: r.cpu})
		speed.Points = append(speed.Points, plot.Point{X: float64(r.pages), Y: r.speed})
	}
	for _, s := range samples {
		memory.Points = append(memory.Points, plot.Point{X: float64(s.pages), Y: float64(s.anon) / (1 << 20)})
	}
	draw := func(name, title, unit string, series plot.Series) error {
		f, err := os.Create(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		c := plot.Chart{Title: title, X: plot.Axis{Label: "pages stored"}, Y: plot.Axis{Label: unit, Zero: true}, Series: []plot.Series{series}}
		return errors.Join(c.WriteSVG(f), f.Close())
	}
	return errors.Join(
		draw("cpu.svg", "CPU per page", "µs", cpu),
		draw("speed.svg", "Pages per second", "pages/s", speed),
		draw("memory.svg", "Own memory", "MiB", memory))
}
