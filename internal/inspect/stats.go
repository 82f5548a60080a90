package inspect

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"urltree/internal/top"
	"urltree/internal/words"
	"urltree/storage/record"
)

func (i *Inspector) stats(ctx context.Context, w *bufio.Writer) error {
	s, err := i.sums(ctx)
	if err != nil {
		return err
	}
	return WriteStats(w, s)
}

// jsonSums writes what WriteStats makes a text of.
func (i *Inspector) jsonSums(ctx context.Context, w *bufio.Writer) error {
	s, err := i.sums(ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(s)
}

// WriteStats writes what one tree has, or several have together: what became of its URLs, its hosts
// and the runs, what the crawl that is going on says of itself, and last what there is in the
// queues. Numbers of several trees are added, also those of what more than one of them has.
func WriteStats(w *bufio.Writer, trees ...*Sums) error {
	var t record.Totals
	losses := 0.0
	for _, s := range trees {
		t.Counts = t.Plus(s.Totals.Counts, 1)
		t.Bytes += s.Totals.Bytes
		t.Cut += s.Totals.Cut
		// n fingerprints of 64 bits: the number of pairs over the number of values.
		losses += math.Ldexp(float64(s.Totals.Records())*float64(s.Totals.Records()), -65)
	}
	total := func(name string, n int64) { fmt.Fprintf(w, "%-22s %12d\n", name, n) }
	total("pages", t.Stored)
	total("bytes", t.Bytes)
	total("pending", t.Pending())
	total("redirected", t.Redirected)
	total("failed", t.Failed)
	total("refused", t.Refused)
	writeTrees(w, trees)
	writeOutcomes(trees, func(title string) { fmt.Fprintf(w, "\n%s\n", title) }, total)
	writeTypes(w, trees)
	writeHosts(w, trees)
	for _, s := range trees {
		writeRuns(w, s, len(trees) > 1)
	}
	for _, s := range trees {
		writeLive(w, s, len(trees) > 1)
	}
	fmt.Fprintf(w, "\nqueues and checks\n")
	total("records", t.Records())
	total("  pending, to be asked", t.Now)
	total("  ... again later", t.Later)
	total("  held", t.Held)
	if t.Cut > 0 {
		total("links over -max-held", t.Cut)
	}
	writeSitemaps(trees, total)
	_, err := fmt.Fprintf(w, "%-22s %12.2g\n", "expected filter losses", losses)
	return err
}

// writeTrees writes a line for each tree, if there are several.
func writeTrees(w *bufio.Writer, trees []*Sums) {
	if len(trees) == 1 {
		return
	}
	fmt.Fprintf(w, "\n%10s %14s %10s %10s  %s\n", "pages", "bytes", "pending", "failed", "tree")
	for _, s := range trees {
		fmt.Fprintf(w, "%10d %14d %10d %10d  %s\n", s.Totals.Stored, s.Totals.Bytes, s.Totals.Pending(), s.Totals.Failed, clean(s.Root))
	}
}

func writeOutcomes(trees []*Sums, heading func(string), total func(string, int64)) {
	outcomes := map[string]int64{}
	for _, s := range trees {
		for _, r := range s.Runs {
			for name, n := range r.Outcomes {
				outcomes[name] += n
			}
		}
	}
	if len(outcomes) > 0 {
		heading("outcomes of all runs")
	}
	for _, name := range slices.Sorted(maps.Keys(outcomes)) {
		total("  "+clean(name), outcomes[name])
	}
}

// mostTypes is how many media types stats lists.
const mostTypes = 10

func writeTypes(w *bufio.Writer, trees []*Sums) {
	title := "media types with most pages"
	sums := typeSums{}
	for _, s := range trees {
		if s.Unread {
			fmt.Fprintf(w, "\n%s: see the statistics of the latest run (statistics.txt)\n", title)
			return
		}
		for _, t := range s.Types {
			sums.add(t)
		}
	}
	if len(sums) == 0 {
		return
	}
	list := top.List[TypeSum]{N: mostTypes, Compare: func(a, b TypeSum) int {
		return cmp.Or(cmp.Compare(b.Pages, a.Pages), cmp.Compare(a.Media, b.Media))
	}}
	for _, t := range sums {
		list.Add(t)
	}
	fmt.Fprintf(w, "\n%10s %14s  %s\n", "pages", "bytes", title)
	for _, t := range list.Items() {
		fmt.Fprintf(w, "%10d %14d  %s\n", t.Pages, t.Bytes, orDash(t.Media))
	}
}

func writeHosts(w *bufio.Writer, trees []*Sums) {
	lists := newHostLists()
	for _, s := range trees {
		lists.join(s)
	}
	for k := range lists {
		if len(lists[k].Items()) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%10s %10s %10s %10s  %s\n", "pages", "pending", "failed", "answer", lists[k].title)
		for _, h := range lists[k].Items() {
			fmt.Fprintf(w, "%10d %10d %10d %10s  %s\n", h.Stored, h.Pending, h.Failed, answerTime(h.Answer), clean(h.Name))
		}
	}
}

// answerTime writes how long a host takes to answer, in nanoseconds; 0: not known.
func answerTime(n int64) string {
	if n == 0 {
		return "-"
	}
	return time.Duration(n).Round(100 * time.Microsecond).String()
}

func writeRuns(w *bufio.Writer, s *Sums, named bool) {
	if len(s.Runs) == 0 {
		return
	}
	fmt.Fprintln(w)
	if named {
		fmt.Fprintf(w, "runs of %s\n", clean(s.Root))
	}
	fmt.Fprintf(w, "%4s  %-20s %10s %-10s %10s %10s %10s %14s  %s\n",
		"run", "start", "time", "end", "found", "pages", "a second", "bytes", "statuses")
	for k := range s.Runs {
		r := &s.Runs[k]
		fmt.Fprintf(w, "%4d  %-20s %10s %-10s %10d %10d %10.2f %14d  %s\n", r.ID, stamp(r.Start),
			words.Duration(time.Duration(r.End-r.Start)*time.Second), ending(r, k == len(s.Runs)-1 && s.Live != ""), r.Found, r.Stored, float64(r.Stored)/float64(max(1, r.End-r.Start)), r.Bytes, statuses(r))
	}
}

func ending(r *record.Run, goesOn bool) string {
	switch {
	case r.Clean:
		return "clean"
	case goesOn:
		return "going on"
	}
	return "broken off"
}

func statuses(r *record.Run) string {
	var list []string
	for _, class := range slices.Sorted(maps.Keys(r.Statuses)) {
		list = append(list, fmt.Sprintf("%s %d", class, r.Statuses[class]))
	}
	return orDash(strings.Join(list, ", "))
}

func writeLive(w *bufio.Writer, s *Sums, named bool) {
	if s.Live == "" {
		return
	}
	fmt.Fprintln(w)
	if named {
		fmt.Fprintf(w, "crawl of %s\n", clean(s.Root))
	}
	for line := range strings.Lines(s.Live) {
		fmt.Fprintln(w, clean(strings.TrimSuffix(line, "\n")))
	}
}

// writeSitemaps writes how many sitemaps there are, by state, where there are any.
func writeSitemaps(trees []*Sums, total func(string, int64)) {
	var sum SitemapSum
	for _, s := range trees {
		sum.Read += s.Sitemaps.Read
		sum.URLs += s.Sitemaps.URLs
		sum.Pending += s.Sitemaps.Pending
		sum.Failed += s.Sitemaps.Failed
	}
	if sum == (SitemapSum{}) {
		return
	}
	total("sitemaps read", sum.Read)
	total("  URLs in them", sum.URLs)
	total("sitemaps to be read", sum.Pending)
	total("sitemaps failed", sum.Failed)
}
