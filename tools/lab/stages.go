package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"urltree/crawler"
	"urltree/tools/lab/queues"
	"urltree/tools/plot"
)

// picks are the ways of taking URLs, from the plainest one on: see crawler.Options.Pick.
var picks = [...]crawler.Pick{crawler.PickSingle, crawler.PickBatch, crawler.PickExtended}

// printed are D's tables I and II, in seconds.
var printed = [...]struct {
	crawlers                          int
	ask, pushToStore, parse, pushMeta float64
}{
	{10, 1, 0.5, 2.2, 1},
	{40, 2, 0.75, 3.7, 2.2},
	{70, 3, 1, 6.2, 4},
	{100, 4, 1.25, 10.2, 7},
	{130, 5.1, 1.5, 15, 11},
	{160, 6, 1.75, 18, 14},
}

// A point is a crawl with so many crawlers and one way of taking URLs: times of a URL in
// milliseconds. They are medians, which a busy machine disturbs least.
type point struct {
	pick, ask, store, parse, meta float64
	meanPick                      float64
	perCommit                     float64 // URLs by transactions
}

// points has a row for each number of crawlers, in it a point for each of picks.
type points [len(printed)][len(picks)]point

// Stages is D's experiment: 2000 URLs that the frontier has from the start, fetched by 10 to 160
// crawlers. It gives figure 3, figure 4, table I, figure 5 and table II.
func Stages(ctx context.Context, o Options) ([]queues.Result, error) {
	pages := o.scaled(2000, 60)
	hosts := max(pages/5, 1)
	web, err := o.web(hosts, pages)
	if err != nil {
		return nil, err
	}
	defer web.Stop()
	urls := web.Answer().Stored
	var all points
	for i, p := range printed {
		for j, pick := range picks {
			if all[i][j], err = o.point(ctx, urls, p.crawlers, pick); err != nil {
				return nil, err
			}
		}
	}
	setup := fmt.Sprintf("%d URLs on %d hosts, which answer after %s, are all in the frontier from the start; links lead to no others. "+
		"robots.txt is not asked for, and a host takes any number of requests at a time. A crawler has two requests at a time, for with one there is no time in which to try the lock. "+
		"`single` takes a URL for each request that is free, `batch` takes several once it has none left, `extended` also tries the "+
		"lock while it has some. Times are medians over all URLs, within 13 %%, since a busy machine disturbs these least; sums are sums of medians.", len(urls), hosts, latency)
	return all.results(setup), nil
}

// point is a crawl of URLs of which none leads to others.
func (o Options) point(ctx context.Context, urls []string, crawlers int, pick crawler.Pick) (point, error) {
	c, err := o.crawl(ctx, crawler.Options{
		Seeds:      urls,
		Bounds:     crawler.Bounds{SeedsOnly: true},
		Resources:  crawler.Resources{Crawlers: crawlers, Downloads: 2},
		Politeness: crawler.Politeness{PerHost: len(urls)},
		Ordering:   crawler.Ordering{Pick: pick},
	})
	if err != nil {
		return point{}, err
	}
	if c.Run.Stored != int64(len(urls)) {
		return point{}, fmt.Errorf("%d crawlers, %s: %d of %d URLs stored", crawlers, pick, c.Run.Stored, len(urls))
	}
	p := newPoint(c)
	o.Say("D: %d crawlers, %s: %.1f µs to pick a URL, %.1f URLs in a transaction", crawlers, pick, 1000*p.pick, p.perCommit)
	return p, nil
}

func (all *points) results(setup string) []queues.Result {
	return []queues.Result{all.figure3(setup), all.figure4(), all.table1(), all.figure5(), all.table2()}
}

// newPoint takes the times from the stages of a crawl.
func newPoint(c crawl) point {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	p := point{perCommit: float64(c.Run.Stored) / float64(max(c.commits, 1))}
	for _, s := range c.Stages {
		switch s.Name {
		case "pick URL":
			p.pick, p.meanPick = ms(s.P50), ms(s.Mean)
		case "request", "response":
			p.ask += ms(s.P50)
		case "push to store":
			p.store = ms(s.P50)
		case "parse":
			p.parse = ms(s.P50)
		case "push metadata":
			p.meta = ms(s.P50)
		}
	}
	return p
}

// by makes a table with a column for each way of picking, and its chart.
func (all *points) by(res queues.Result, title, unit string, value func(point) float64) queues.Result {
	res.Table.Columns = []string{"crawlers"}
	chart := plot.Chart{Title: title, X: plot.Axis{Label: "crawlers"}, Y: plot.Axis{Label: unit}}
	for j, pick := range picks {
		res.Table.Columns = append(res.Table.Columns, string(pick)+", "+unit)
		line := plot.Series{Name: string(pick)}
		for i, p := range printed {
			line.Points = append(line.Points, plot.Point{X: float64(p.crawlers), Y: value(all[i][j])})
		}
		chart.Series = append(chart.Series, line)
	}
	for i, p := range printed {
		row := []string{strconv.Itoa(p.crawlers)}
		for j := range picks {
			row = append(row, fmt.Sprintf("%.4g", value(all[i][j])))
		}
		res.Table.Rows = append(res.Table.Rows, row)
	}
	res.Charts = []plot.Chart{chart}
	return res
}

// more appends a column for each way of picking.
func (all *points) more(t *queues.Table, name, format string, value func(point) float64) {
	for j, pick := range picks {
		t.Columns = append(t.Columns, string(pick)+", "+name)
		for i := range printed {
			t.Rows[i] = append(t.Rows[i], fmt.Sprintf(format, value(all[i][j])))
		}
	}
}

func (all *points) figure3(setup string) queues.Result {
	res := all.by(queues.Result{
		Name: "figure 3", Title: "t_pickurl by the number of crawlers",
		Setup: setup + " t_pickurl is the time from asking for the lock of the frontier to having URLs, by the number of these, with the reading " +
			"of rows from the index. The last columns are means, where a few long waits show.",
	}, "Time to pick a URL", "µs", func(p point) float64 { return 1000 * p.pick })
	all.more(&res.Table, "mean, µs", "%.4g", func(p point) float64 { return 1000 * p.meanPick })
	first, last := all[0][0].pick-all[1][0].pick, all[2][0].pick-all[len(printed)-1][0].pick
	res.Claims = []queues.Claim{{
		Says: "for lower rate values, small increase in rate brings down t_pickurl by large amounts. For larger rate values, large increase " +
			"in rate brings small change in t_pickurl",
		Agrees: first >= all[0][0].pick/2 && math.Abs(last) < first,
		Ours: fmt.Sprintf("With `single`, from 10 to 40 crawlers %+.1f µs, from 70 to 160 %+.1f µs. Agreement: the first step halves "+
			"it at least, and the second is smaller. The source varies how fast threads are made, we how many there are.", -1000*first, -1000*last),
	}}
	return res
}

func (all *points) figure4() queues.Result {
	total := func(p point) float64 { return p.pick + p.ask + p.store }
	res := all.by(queues.Result{
		Name: "figure 4", Title: "t_f by the number of crawlers",
		Setup: "From the same crawls: t_f = t_pickurl + t_request + t_response + t_pushToStore; then the part of it that is t_pickurl.",
	}, "Time to fetch a page", "ms", total)
	all.more(&res.Table, "t_pickurl, %", "%.2f", func(p point) float64 { return 100 * p.pick / max(total(p), 1e-9) })
	var ratios, shares []float64
	for i := range printed {
		ratios = append(ratios, all[i][2].pick/max(all[i][0].pick, 1e-9))
		shares = append(shares, 100*all[i][0].pick/max(total(all[i][0]), 1e-9))
	}
	res.Claims = []queues.Claim{{
		Says:   "large portion of t_f, i.e. waiting time on mutex lock is utilized for fetching raw pages for subsequent URLs",
		Agrees: slices.Max(ratios) <= 0.5,
		Ours: fmt.Sprintf("t_pickurl of `extended` is %.2f to %.2f times that of `single`. Agreement: at most half at each point. With `single` "+
			"it is %.2f to %.2f %% of t_f: where that is little, there is little waiting to make use of.",
			slices.Min(ratios), slices.Max(ratios), slices.Min(shares), slices.Max(shares)),
	}}
	return res
}

func (all *points) table1() queues.Result {
	return all.beside(queues.Result{
		Name: "table I", Title: "t_request + t_response and t_pushToStore",
		Setup: "From the same crawls, in seconds. The source's first column is headed \"Parser Threads\", its text speaks of crawler threads. Its " +
			"numbers are of a line of 512 kbit/s: they and ours can be compared in how they grow, not in size.",
	}, "request + response", "pushToStore",
		func(p point) (float64, float64) { return p.ask, p.store },
		func(i int) (float64, float64) { return printed[i].ask, printed[i].pushToStore })
}

// beside makes a table of two times in seconds, each way of picking beside the source.
func (all *points) beside(res queues.Result, a, b string, ours func(point) (float64, float64), theirs func(i int) (float64, float64)) queues.Result {
	res.Table.Columns = []string{"crawlers"}
	for _, who := range append(picks[:], "source") {
		res.Table.Columns = append(res.Table.Columns, string(who)+": "+a, string(who)+": "+b)
	}
	for i, p := range printed {
		row := []string{strconv.Itoa(p.crawlers)}
		for j := range picks {
			x, y := ours(all[i][j])
			row = append(row, fmt.Sprintf("%.4f", x/1000), fmt.Sprintf("%.4f", y/1000))
		}
		x, y := theirs(i)
		res.Table.Rows = append(res.Table.Rows, append(row, fmt.Sprint(x), fmt.Sprint(y)))
	}
	return res
}

func (all *points) figure5() queues.Result {
	res := all.by(queues.Result{
		Name: "figure 5", Title: "t_p by the number of crawlers",
		Setup: "From the same crawls: t_p = t_parse + t_pushMetadata. A page is parsed by the goroutine that fetched it and handed to a buffer; " +
			"t_pushMetadata is the time of sync and commit by the number of pages that they cover. Then the pages for each transaction, those of " +
			"the start and the end of a crawl counted too.",
	}, "Time to parse a page and to push what it says", "ms", func(p point) float64 { return p.parse + p.meta })
	all.more(&res.Table, "pages in a transaction", "%.1f", func(p point) float64 { return p.perCommit })
	var bursts []float64
	for i := range printed {
		for j := range picks {
			bursts = append(bursts, all[i][j].perCommit)
		}
	}
	res.Claims = []queues.Claim{{
		Says:   "large portion of t_p, i.e. waiting time on mutex lock is utilized under the parsing for subsequent set of raw pages",
		Agrees: slices.Min(bursts) >= 2,
		Ours: fmt.Sprintf("No parser waits for a commit: the pages parsed meanwhile make up the next one, %.1f to %.1f for each transaction. "+
			"Agreement: at least 2 at each point.", slices.Min(bursts), slices.Max(bursts)),
	}}
	return res
}

func (all *points) table2() queues.Result {
	return all.beside(queues.Result{
		Name: "table II", Title: "t_parse and t_pushMetadata",
		Setup: "From the same crawls, in seconds. The source counts parser threads, which are ours of fetching, and its t_pushMetadata has the wait for the lock.",
	}, "parse", "pushMetadata",
		func(p point) (float64, float64) { return p.parse, p.meta },
		func(i int) (float64, float64) { return printed[i].parse, printed[i].pushMeta })
}
