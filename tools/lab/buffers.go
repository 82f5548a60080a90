package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"urltree/crawler"
	"urltree/tools/lab/queues"
	"urltree/tools/plot"
)

// hours are the lengths of the runs of A's figure 7. A second of ours stands for an hour.
var hours = [...]int{2, 6, 10}

// figure7 has what A prints: new URLs written after so many hours. Nothing is printed for the
// sequential loop, which has no buffers.
var figure7 = [...]struct {
	name              string
	buffers, crawlers int
	printed           [len(hours)]int
}{
	{name: "sequential loop"},
	{"1 buffer, 1 crawler", 1, 1, [...]int{925, 9714, 16933}},
	{"3 buffers, 6 crawlers", 3, 6, [...]int{26927, 68956, 101900}},
	{"6 buffers, 12 crawlers", 6, 12, [...]int{51238, 100847, 171341}},
}

// Buffers is A's figure 7: new URLs in the tree by the number of buffers and crawlers, over time.
func Buffers(ctx context.Context, o Options) ([]queues.Result, error) {
	hosts, pages := 48, o.scaled(20_000, 200)
	unit := max(time.Duration(float64(time.Second)*o.Scale), time.Millisecond)
	web, err := o.web(hosts, pages)
	if err != nil {
		return nil, err
	}
	defer web.Stop()
	res := queues.Result{
		Name: "figure 7", Title: "New URLs by buffers and crawlers",
		Setup: fmt.Sprintf("A web of %d pages on %d hosts that answers after %s is crawled for 2, 6 and 10 times %s, where the source "+
			"took hours; each number is of a run of its own, with what its buffers held at the end. A crawler has one request "+
			"at a time, as in the source. The sequential loop asks for a page, parses it, stores it, syncs and commits, then asks for "+
			"the next. \"Times one\" is the number by that of one buffer and one crawler; the last two columns are the source's.",
			pages, hosts, latency, unit),
		Table: queues.Table{Columns: []string{"", "time", "new URLs", "times one", "source: new URLs", "source: times one"}},
	}
	chart := plot.Chart{Title: "New URLs in the tree", X: plot.Axis{Label: "seconds"}, Y: plot.Axis{Label: "new URLs"}}
	var counts [len(figure7)][len(hours)]int64
	for i, f := range figure7 {
		line := plot.Series{Name: fmt.Sprintf("%d/%d", f.buffers, f.crawlers)}
		if f.buffers == 0 {
			line.Name = "sequential"
		}
		for j, h := range hours {
			fetch := unit * time.Duration(h)
			if f.buffers == 0 {
				counts[i][j], err = o.sequential(ctx, web.Seeds(), fetch)
			} else {
				var c crawl
				c, err = o.crawl(ctx, crawler.Options{
					Seeds:     web.Seeds(),
					Limits:    crawler.Limits{Time: fetch},
					Resources: crawler.Resources{Buffers: f.buffers, Crawlers: f.crawlers, Downloads: 1},
				})
				counts[i][j] = c.Run.NewURLs
			}
			if err != nil {
				return nil, err
			}
			o.Say("A7: %s, %s: %d new URLs", f.name, fetch, counts[i][j])
			line.Points = append(line.Points, plot.Point{X: fetch.Seconds(), Y: float64(counts[i][j])})
		}
		chart.Series = append(chart.Series, line)
	}
	one := figure7[1].printed
	for i, f := range figure7 {
		for j, h := range hours {
			row := []string{f.name, (unit * time.Duration(h)).String(), strconv.FormatInt(counts[i][j], 10), times(counts[i][j], counts[1][j])}
			if f.buffers > 0 {
				row = append(row, strconv.Itoa(f.printed[j]), times(int64(f.printed[j]), int64(one[j])))
			} else {
				row = append(row, "-", "-")
			}
			res.Table.Rows = append(res.Table.Rows, row)
		}
	}
	res.Charts = []plot.Chart{chart}
	last := len(hours) - 1
	sequential, single, three, six := counts[0][last], counts[1][last], counts[2][last], counts[3][last]
	if single == 0 {
		return []queues.Result{res}, nil // too short for any comparison
	}
	res.Claims = []queues.Claim{
		{
			Says:   "the throughput of 3 buffers was around 6 times greater than that of 1 buffer",
			Agrees: near(three, single, 6),
			Ours:   fmt.Sprintf("%s times in the longest runs. Agreement: 5 to 7 times.", times(three, single)),
		},
		{
			Says:   "the throughput of 6 buffers was around 10 times greater than that of 1 buffer",
			Agrees: near(six, single, 10),
			Ours:   fmt.Sprintf("%s times in the longest runs. Agreement: 9 to 11 times.", times(six, single)),
		},
		{
			Says:   "This is lower than the theoretical expectation of the increase in efficiency, which is greater by 12 times.",
			Agrees: six < 12*single,
			Ours:   fmt.Sprintf("%s times. Agreement: below 12.", times(six, single)),
		},
		{
			Says:   "the separated approach enables the program to continuously crawl for more new URLs compared to the synchronous approach",
			Agrees: single > sequential,
			Ours: fmt.Sprintf("One crawler and one buffer come to %s times the sequential loop in the longest runs. Agreement: more than once.",
				times(single, sequential)),
		},
	}
	return []queues.Result{res}, nil
}

// times is how many times b makes a; "-" if there is no b.
func times(a, b int64) string {
	if b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(a)/float64(b))
}

// near reports whether a is n times b, give or take one time.
func near(a, b, n int64) bool { return a >= (n-1)*b && a <= (n+1)*b }
