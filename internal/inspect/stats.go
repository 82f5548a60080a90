package inspect

import (
	"bufio"
	"cmp"
	"context"
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

// stats writes what the tree has, what became of its URLs, its hosts and the runs, what the crawl
// that is going on says of itself, and last what there is in the queues.
func (i *Inspector) stats(ctx context.Context, w *bufio.Writer) error {
	runs, err := i.Index.Runs().All()
	if err != nil {
		return err
	}
	t := i.Index.Totals()
	total := func(name string, n int64) { fmt.Fprintf(w, "%-22s %12d\n", name, n) }
	total("pages", t.Stored)
	total("bytes", t.Bytes)
	total("pending", t.Pending())
	total("redirected", t.Redirected)
	total("failed", t.Failed)
	total("refused", t.Refused)

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
	if err := i.types(ctx, t, w); err != nil {
		return err
	}
	if err := i.hosts(ctx, w); err != nil {
		return err
	}
	if len(runs) > 0 {
		fmt.Fprintf(w, "\n%4s  %-20s %10s %-10s %10s %10s %10s %14s  %s\n",
			"run", "start", "time", "end", "found", "pages", "a second", "bytes", "statuses")
	}
	for k := range runs {
		r := &runs[k]
		fmt.Fprintf(w, "%4d  %-20s %10s %-10s %10d %10d %10.2f %14d  %s\n", r.ID, stamp(r.Start),
			words.Duration(time.Duration(r.End-r.Start)*time.Second), i.ending(r, k == len(runs)-1), r.Found, r.Stored, float64(r.Stored)/float64(max(1, r.End-r.Start)), r.Bytes, statuses(r))
	}
	if i.Live != nil {
		fmt.Fprintln(w)
		for line := range strings.Lines(i.Live()) {
			fmt.Fprintln(w, clean(strings.TrimSuffix(line, "\n")))
		}
	}
	fmt.Fprintf(w, "\nqueues and checks\n")
	total("records", t.Records())
	total("  pending, to be asked", t.Now)
	total("  ... again later", t.Later)
	total("  held", t.Held)
	if t.Cut > 0 {
		total("links over -max-held", t.Cut)
	}
	if err := i.sitemaps(ctx, total); err != nil {
		return err
	}
	// n fingerprints of 64 bits: the number of pairs over the number of values.
	fmt.Fprintf(w, "%-22s %12.2g\n", "expected filter losses", math.Ldexp(float64(t.Records())*float64(t.Records()), -65))
	return nil
}

// mostTypes is how many media types stats lists, and mostScanned how many records it reads for
// that: there are no counters of types, and more records would take too long.
const (
	mostTypes   = 10
	mostScanned = 1_000_000
	mostSums    = 10_000 // different types, which servers name as they like
)

// types writes the media types with most pages, if no crawl goes on.
func (i *Inspector) types(ctx context.Context, t record.Totals, w *bufio.Writer) error {
	if t.Stored == 0 {
		return nil
	}
	title := "media types with most pages"
	// Beside a crawl Records would first bring new records to their places, which waits for room on
	// a disk that is nearly full.
	if t.Records() > mostScanned || i.Live != nil {
		fmt.Fprintf(w, "\n%s: see the statistics of the latest run (statistics.txt)\n", title)
		return nil
	}
	type volume struct {
		media        string
		pages, bytes int64
	}
	sums := map[string]*volume{}
	err := i.Index.Records(ctx, nil, func(r record.Record, damage error) error {
		if damage != nil || r.State != record.Stored {
			return nil
		}
		media := r.Media
		if sums[media] == nil && len(sums) >= mostSums {
			media = "others"
		}
		if sums[media] == nil {
			sums[media] = &volume{media: media}
		}
		sums[media].pages++
		sums[media].bytes += r.Bytes
		return nil
	})
	if err != nil {
		return err
	}
	list := top.List[*volume]{N: mostTypes, Compare: func(a, b *volume) int {
		return cmp.Or(cmp.Compare(b.pages, a.pages), cmp.Compare(a.media, b.media))
	}}
	for _, v := range sums {
		list.Add(v)
	}
	fmt.Fprintf(w, "\n%10s %14s  %s\n", "pages", "bytes", title)
	for _, v := range list.Items() {
		fmt.Fprintf(w, "%10d %14d  %s\n", v.pages, v.bytes, orDash(v.media))
	}
	return nil
}

const mostHosts = 10

func (i *Inspector) hosts(ctx context.Context, w *bufio.Writer) error {
	lists := []struct {
		title string
		value func(*record.HostRow) int64
		top.List[record.HostRow]
	}{
		{title: "hosts with most pages", value: func(h *record.HostRow) int64 { return h.Stored }},
		{title: "hosts with most failures", value: func(h *record.HostRow) int64 { return h.Failed }},
		{title: "slowest hosts", value: func(h *record.HostRow) int64 { return h.Answer }},
	}
	for k := range lists {
		value := lists[k].value
		lists[k].List = top.List[record.HostRow]{N: mostHosts, Compare: func(a, b record.HostRow) int { return cmp.Compare(value(&b), value(&a)) }}
	}
	err := i.Index.Hosts().Each(ctx, func(h record.HostRow) error {
		for k := range lists {
			if lists[k].value(&h) > 0 {
				lists[k].Add(h)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for k := range lists {
		if len(lists[k].Items()) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%10s %10s %10s %10s  %s\n", "pages", "pending", "failed", "answer", lists[k].title)
		for _, h := range lists[k].Items() {
			fmt.Fprintf(w, "%10d %10d %10d %10s  %s\n", h.Stored, h.Pending(), h.Failed, answerTime(h.Answer), clean(h.Name))
		}
	}
	return nil
}

// answerTime writes how long a host takes to answer, in nanoseconds; 0: not known.
func answerTime(n int64) string {
	if n == 0 {
		return "-"
	}
	return time.Duration(n).Round(100 * time.Microsecond).String()
}

func (i *Inspector) ending(r *record.Run, last bool) string {
	switch {
	case r.Clean:
		return "clean"
	case last && i.Live != nil:
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
