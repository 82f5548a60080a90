package cleaner

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"urltree/internal/top"
	"urltree/internal/words"
	"urltree/storage"
	"urltree/storage/record"
)

func (p *page) volumes(sums *tally) {
	types := slices.SortedFunc(maps.Values(sums.types), func(a, b volume) int {
		return cmp.Or(morePages(a, b), cmp.Compare(a.name, b.name))
	})
	if len(types) > 0 {
		p.section("Pages by type")
		p.row("", "pages", "bytes")
		for _, v := range types[:min(len(types), mostListed)] {
			p.row(cmp.Or(v.name, none), v.pages, v.bytes)
		}
		p.others(int64(len(types)-mostListed), "type")
	}
	for _, hosts := range []struct {
		title string
		list  *top.List[volume]
	}{{"Hosts with most pages", &sums.origins}, {"Hosts with most failures", &sums.failing}} {
		if len(hosts.list.Items()) == 0 {
			continue
		}
		p.section(hosts.title)
		p.row("", "pages", "bytes", "failed", "pending")
		for _, v := range hosts.list.Items() {
			p.row(v.name, v.pages, v.bytes, v.failed, v.waits)
		}
		p.others(hosts.list.More(), "host")
	}
}

// others says how many rows a section leaves out, if any.
func (p *page) others(n int64, what string) {
	if n > 0 {
		p.row("and " + words.Count(n, "other "+what))
	}
}

func (p *page) slowest(ctx context.Context, index *storage.Index) error {
	hosts := top.List[record.HostRow]{N: mostBad, Compare: func(a, b record.HostRow) int { return cmp.Compare(b.Answer, a.Answer) }}
	err := index.Hosts().Each(ctx, func(h record.HostRow) error {
		if h.Answer > 0 {
			hosts.Add(h)
		}
		return nil
	})
	if err != nil || len(hosts.Items()) == 0 {
		return err
	}
	p.section("Slowest hosts")
	p.row("", "answer", "pages", "failed")
	for _, h := range hosts.Items() {
		p.row(h.Name, short(time.Duration(h.Answer)), h.Stored, h.Failed)
	}
	return nil
}

// How many runs, and hours of this run, rates shows: the last ones.
const mostRuns, mostHours = 10, 24

// rates shows how fast pages came: in each run, and in the hours of this one.
func (p *page) rates(index *storage.Index, run *record.Run, runs []record.Run) error {
	hours, err := index.Runs().Hours()
	if err != nil {
		return fmt.Errorf("statistics: %w", err)
	}
	if len(runs) == 0 {
		return nil
	}
	p.section("Rate over time")
	p.row("", "pages", "time", "per second")
	for _, r := range runs[max(0, len(runs)-mostRuns):] {
		p.row(fmt.Sprintf("run %d, %s", r.ID, date(r.Start)), r.Stored, duration(r.End-r.Start), perSecond(r.Stored, r.End-r.Start))
	}
	hours = slices.DeleteFunc(hours, func(h record.Hour) bool { return h.Run != run.ID })
	if len(hours) < 2 {
		return nil
	}
	p.section("Rate by hours, this run", "new URLs in the tree: pages but for those of seeds")
	p.row("", "pages", "per second")
	for _, h := range hours[max(0, len(hours)-mostHours):] {
		p.row(fmt.Sprintf("hour %d, until %s", h.Hour, date(h.Time)), h.Stored, perSecond(h.Stored, min(3600, h.Time-run.Start-int64(h.Hour-1)*3600)))
	}
	return nil
}
