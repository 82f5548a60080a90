package crawler

import (
	"fmt"
	"strings"
	"time"

	"urltree/internal/words"
)

// Progress is the state of a crawl that is going on.
type Progress struct {
	Elapsed, Left time.Duration // Left is 0 without a time limit
	Pages         int64         // stored in this run, as committed
	Bytes         int64
	Failed        int64 // outcomes of this run that failed
	Pending, Held int64 // in the whole index; Pending without Held
	Hosts         int
	PerSecond     float64 // in the last second
	Mean          float64 // since the start
	Waiting       string  // what it waits for, "" when it is busy
	Phase         string  // "fetch" or "drain"; "scan" while archives are read for the first time, or pages for what they refer to
	Read, Size    int64   // bytes of Options.Archives, in the present pass over them; 0: there are none
	External      bool    // with Options.External: Pages and Pending are targets, and Read and Size, while these are looked for, pages
}

// String returns the progress in one line of at most 80 bytes.
func (p Progress) String() string { return p.Line(80) }

// Line returns the progress in one line of at most width bytes; below 1 there is no limit. What
// matters most comes first: pages, rate, URLs that wait, failures, what the crawl waits for, when
// it stops. Of what follows, that is left out for which there is no room.
func (p Progress) Line(width int) string {
	if p.Size > 0 || p.External {
		tell := p.importing
		if p.External {
			tell = p.asking
		}
		line := tell()
		if width > 0 {
			line = line[:min(len(line), width)]
		}
		return line
	}
	parts := []string{counted(p.Pages, "page"), rate(p.PerSecond) + "/s", short(p.Pending) + " waiting", short(p.Failed) + " failed"}
	if p.Waiting != "" {
		parts = append(parts, p.Waiting)
	}
	line := strings.Join(parts, ", ")
	var more []string
	switch {
	case p.Phase != "fetch":
		more = append(more, "emptying the buffers")
	case p.Left > 0:
		more = append(more, "stops in "+words.Span(p.Left))
	}
	if p.Held > 0 {
		more = append(more, short(p.Held)+" held")
	}
	more = append(more, counted(int64(p.Hosts), "host"), Bytes(p.Bytes), "mean "+rate(p.Mean)+"/s")
	for _, part := range more {
		if width < 1 || len(line)+len(", ")+len(part) <= width {
			line += ", " + part
		}
	}
	if width > 0 && len(line) > width {
		line = line[:width]
	}
	return line
}

// importing is Line for a run with Options.Archives.
func (p Progress) importing() string {
	part := fmt.Sprintf("%d %% of %s", p.Read*100/p.Size, Bytes(p.Size))
	if p.Phase == "scan" {
		return "looking through the archives, " + part
	}
	line := counted(p.Pages, "page") + ", " + rate(p.PerSecond) + "/s, " + part
	switch {
	case p.Phase != "fetch":
		line += ", emptying the buffers"
	case p.Read > 0:
		left := time.Duration(float64(p.Elapsed) * float64(p.Size-p.Read) / float64(p.Read))
		line += ", " + words.Span(left) + " left"
	}
	return line
}

// asking is Line for a run with Options.External.
func (p Progress) asking() string {
	if p.Phase == "scan" {
		return fmt.Sprintf("looking for what pages refer to: %d of %s", p.Read, counted(p.Size, "page"))
	}
	line := fmt.Sprintf("%s of %s asked, %s/s", short(p.Pages), counted(p.Pages+p.Pending, "target"), rate(p.PerSecond))
	switch {
	case p.Phase != "fetch":
		line += ", emptying the buffers"
	case p.Mean > 0 && p.Pending > 0:
		line += ", " + words.Span(time.Duration(float64(p.Pending)/p.Mean*float64(time.Second)).Round(time.Second)) + " left"
	}
	if p.Waiting != "" {
		line += ", " + p.Waiting
	}
	return line
}

func counted(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return short(n) + " " + what + "s"
}

// short writes a number exactly below a million, and else in three digits.
func short(n int64) string {
	if n < 1_000_000 {
		return fmt.Sprint(n)
	}
	f, unit := float64(n)/1e6, "M"
	if n >= 1e9 {
		f, unit = float64(n)/1e9, "G"
	}
	return fmt.Sprintf("%.*f%s", 2-min(len(fmt.Sprintf("%.0f", f))-1, 2), f, unit)
}

// rate writes a rate with one decimal as long as that says something.
func rate(perSecond float64) string {
	if perSecond > 0 && perSecond < 9.95 {
		return fmt.Sprintf("%.1f", perSecond)
	}
	return fmt.Sprintf("%.0f", perSecond)
}

// Bytes writes a number of bytes for people.
func Bytes(n int64) string { return words.Bytes(n) }
