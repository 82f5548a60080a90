package inspect

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"urltree/storage"
)

// stats writes the totals of the index, the outcomes and the runs, and what the crawl that is
// going on says of itself.
func (i *Inspector) stats(ctx context.Context, w *bufio.Writer) error {
	runs, err := i.Index.Runs()
	if err != nil {
		return err
	}
	t := i.Index.Totals()
	total := func(name string, n int64) { fmt.Fprintf(w, "%-22s %12d\n", name, n) }
	total("records", t.Records())
	total("  stored", t.Stored)
	total("  pending", t.Pending())
	total("    may be asked", t.Now)
	total("    later", t.Later)
	total("    held", t.Held)
	total("  redirected", t.Redirected)
	total("  failed", t.Failed)
	total("  refused", t.Refused)
	total("bytes stored", t.Bytes)
	if t.Cut > 0 {
		total("links over -max-held", t.Cut)
	}
	if err := i.sitemaps(ctx, total); err != nil {
		return err
	}
	// n fingerprints of 64 bits: the number of pairs over the number of values.
	fmt.Fprintf(w, "%-22s %12.2g\n", "expected filter losses", math.Ldexp(float64(t.Records())*float64(t.Records()), -65))

	outcomes := map[string]int64{}
	for _, r := range runs {
		for name, n := range r.Outcomes {
			outcomes[name] += n
		}
	}
	if len(outcomes) > 0 {
		fmt.Fprintf(w, "\noutcomes of all runs\n")
		for _, name := range slices.Sorted(maps.Keys(outcomes)) {
			total("  "+clean(name), outcomes[name])
		}
	}
	if len(runs) > 0 {
		fmt.Fprintf(w, "\n%4s  %-20s %10s %-10s %10s %10s %14s  %s\n",
			"run", "start", "time", "end", "found", "stored", "bytes", "statuses")
	}
	for k := range runs {
		r := &runs[k]
		fmt.Fprintf(w, "%4d  %-20s %10s %-10s %10d %10d %14d  %s\n", r.ID, stamp(r.Start),
			time.Duration(r.End-r.Start)*time.Second, i.ending(r, k == len(runs)-1), r.Found, r.Stored, r.Bytes, statuses(r))
	}
	if i.Live != nil {
		fmt.Fprintln(w)
		for line := range strings.Lines(i.Live()) {
			fmt.Fprintln(w, clean(strings.TrimSuffix(line, "\n")))
		}
	}
	return nil
}

// ending tells how a run ended.
func (i *Inspector) ending(r *storage.Run, last bool) string {
	switch {
	case r.Clean:
		return "clean"
	case last && i.Live != nil:
		return "going on"
	}
	return "broken off"
}

func statuses(r *storage.Run) string {
	var list []string
	for _, class := range slices.Sorted(maps.Keys(r.Statuses)) {
		list = append(list, fmt.Sprintf("%s %d", class, r.Statuses[class]))
	}
	return orDash(strings.Join(list, ", "))
}
