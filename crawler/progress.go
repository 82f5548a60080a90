package crawler

import (
	"fmt"
	"strings"
	"time"
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
	Phase         string  // "fetch" or "drain"
}

// String returns the progress in one line.
func (p Progress) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s/s now, %s/s mean, %d pending", counted(p.Pages, "page"), rate(p.PerSecond), rate(p.Mean), p.Pending)
	if p.Held > 0 {
		fmt.Fprintf(&b, ", %d held", p.Held)
	}
	fmt.Fprintf(&b, ", %s, %s, %s", counted(int64(p.Hosts), "host"), counted(p.Failed, "error"), Bytes(p.Bytes))
	switch {
	case p.Phase != "fetch":
		fmt.Fprintf(&b, ", %s", p.Phase)
	case p.Left > 0:
		fmt.Fprintf(&b, ", %s left", p.Left.Round(time.Second))
	}
	if p.Waiting != "" {
		fmt.Fprintf(&b, ", waiting: %s", p.Waiting)
	}
	return b.String()
}

func counted(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// rate writes a rate with one decimal as long as that says something.
func rate(perSecond float64) string {
	if perSecond > 0 && perSecond < 9.95 {
		return fmt.Sprintf("%.1f", perSecond)
	}
	return fmt.Sprintf("%.0f", perSecond)
}

// Bytes writes a number of bytes for people.
func Bytes(n int64) string {
	f, unit := float64(n), 0
	for f >= 1000 && unit < 4 {
		f, unit = f/1000, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, []string{"B", "kB", "MB", "GB", "TB"}[unit])
}
