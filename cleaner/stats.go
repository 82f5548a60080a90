package cleaner

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"urltree/internal/disk"
	"urltree/internal/seen"
	"urltree/internal/words"
	"urltree/storage"
	"urltree/storage/record"
)

// RunFigures are what the engine knows of the run that ends. The zero value is that of no run,
// as after a merge: then the columns of this run are empty.
type RunFigures struct {
	Run      record.Run
	Stages   []Stage       // source D's, in the order of the work
	LockWait time.Duration // longest wait for the lock of the frontier
	Queues   []Queue       // source A's
	Order    string        // score and queues; "": none
	// Forgotten is the number of scores for whose sum the table had no room.
	Forgotten int64
	Steps     uint64           // supersteps with a URL to ask, over all runs
	Trace     string           // of all outcomes, by steps; "": there are no steps
	Rejected  map[string]int64 // links that got no record, by reason
	// ExpectedLosses is the number of URLs that the seen filter may take for known ones.
	ExpectedLosses float64
	Filter         seen.Stats
	Pauses         int64 // of fetching, for the disk had little room
	Stuck          int64 // steps that took longer than they may
}

// A Stage is the time that one kind of work took, each time it was done.
type Stage struct {
	Name                string
	Count               int64
	Mean, P50, P95, P99 time.Duration
}

// A Queue counts what went into a crawler's batch, the frontier or a buffer, and what came out.
// The name is a kind, and a number if there are several: "buffer 2".
type Queue struct {
	Name           string
	Added, Removed int64
}

// writeStatistics writes statistics.txt. The lists must lie in their places: source A's equation
// counts their lines as they lie on the disk. root is the folder of the tree; "": it is not named.
func writeStatistics(ctx context.Context, index *storage.Index, f Files, root string, run RunFigures, l *lists, watch *disk.Watch) error {
	runs, err := index.Runs().All()
	if err != nil {
		return fmt.Errorf("statistics: %w", err)
	}
	totals := index.Totals()
	sum, err := equation(ctx, totals, l)
	if err != nil {
		return err
	}
	p := &page{}
	p.summary(&run.Run, runs, totals)
	if root != "" {
		p.row(ofTree + nameOf(root))
	}
	p.outcomes(&run.Run, l.tally)
	p.volumes(l.tally)
	if err := p.slowest(ctx, index); err != nil {
		return err
	}
	if err := p.rates(index, &run.Run, runs); err != nil {
		return err
	}
	p.flush()
	heading := "Checks and queues of the published designs (docs/sources.md)"
	fmt.Fprintf(&p.buf, "\n%s\n%s\n", heading, strings.Repeat("=", len(heading)))
	p.accounting(totals, l.tally)
	p.section("New URLs", "lines of res.txt and res2.txt as they lie on the disk, seeds left out",
		"new URLs (counters) = lines of res.txt without seeds + lines of res2.txt - 1 - pending seeds")
	p.row(sum)
	p.engine(&run)
	return writeWhole(ctx, watch, f.Statistics, beginsStatistics, p.bytes())
}

// A page is a text of sections with aligned columns.
type page struct {
	buf bytes.Buffer
	tab *tabwriter.Writer
}

// section begins a section; what stands in titles but the first goes on lines of its own.
func (p *page) section(titles ...string) {
	if p.tab != nil {
		p.flush()
		p.buf.WriteByte('\n')
	}
	for _, t := range titles {
		p.buf.WriteString(t + "\n")
	}
	p.tab = tabwriter.NewWriter(&p.buf, 0, 8, 2, ' ', tabwriter.AlignRight)
}

// row writes a line: its name, to the left, and its columns, to the right.
func (p *page) row(name string, columns ...any) {
	if len(columns) == 0 {
		fmt.Fprintf(p.tab, "  %s\n", name)
		return
	}
	// The writer sets every cell to the right, behind two blanks, so the name is padded here.
	fmt.Fprintf(p.tab, "%-34s\t", name)
	for _, c := range columns {
		fmt.Fprintf(p.tab, "%v\t", c)
	}
	fmt.Fprintln(p.tab)
}

// flush ends the columns. Writing to a buffer cannot fail.
func (p *page) flush() { p.tab.Flush() }

// bytes returns the text, without blanks at the ends of lines.
func (p *page) bytes() []byte {
	p.flush()
	lines := strings.Split(p.buf.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return []byte(strings.Join(lines, "\n"))
}

// How statistics.txt and hourly_statistics.txt begin.
const (
	summaryTitle = "Summary"
	thisRun      = "this run"
	allRuns      = "all runs"
	ofTree       = "of the tree " // begins the last line of the summary
	hourlyTitle  = "Hourly statistics"
)

// none stands where there is nothing to count.
const none = "-"

func (p *page) summary(run *record.Run, runs []record.Run, totals record.Totals) {
	var seconds, stored int64
	for i := range runs {
		seconds += runs[i].End - runs[i].Start
		stored += runs[i].Stored
	}
	this := slices.Repeat([]any{none}, 6)
	if run.ID != 0 {
		took := run.End - run.Start
		this = []any{run.Stored, run.Bytes, perSecond(run.Stored, took), duration(took), run.Found, run.NewURLs}
	}
	p.section(summaryTitle)
	p.row("", thisRun, allRuns)
	for i, line := range []struct {
		name string
		all  any
	}{
		{"pages", totals.Stored},
		{"bytes of pages", totals.Bytes},
		{"pages per second", perSecond(stored, seconds)},
		{"run time", duration(seconds)},
		{"URLs discovered", totals.Records()},
		{"new URLs in the tree", totals.NewStored},
	} {
		p.row(line.name, this[i], line.all)
	}
	p.row("runs", none, len(runs))
}

// outcomes shows states, status classes and reasons: this run as counted when they happened,
// all runs as the records say now.
func (p *page) outcomes(run *record.Run, sums *tally) {
	states, reasons := map[record.State]int64{}, map[reason]int64{}
	for key, n := range run.Outcomes {
		name, text, _ := strings.Cut(key, " ")
		i := slices.IndexFunc(record.States, func(s record.State) bool { return s.String() == name })
		if i < 0 {
			continue
		}
		states[record.States[i]] += n
		if text != "" {
			reasons[reason{record.States[i], text}] += n
		}
	}
	this := func(n int64, ok bool) any {
		if run.ID == 0 || !ok {
			return none
		}
		return n
	}
	p.section("URLs by state")
	p.row("", thisRun, allRuns)
	for _, s := range record.States {
		p.row(s.String(), this(states[s], s != record.Pending), sums.states[s])
	}

	p.section("Outcomes by status")
	p.row("", thisRun, allRuns)
	for class := range uint16(10) {
		name := fmt.Sprintf("%dxx", class)
		if here, all := run.Statuses[name], sums.statuses[class]; here != 0 || all != 0 {
			p.row(name, this(here, true), all)
		}
	}

	p.section("Reasons")
	p.row("", thisRun, allRuns)
	all := maps.Clone(sums.reasons)
	for r := range reasons {
		all[r] = sums.reasons[r] // 0: none any more
	}
	for _, r := range sorted(all) {
		p.row(r.state.String()+", "+r.text, this(reasons[r], r.state != record.Pending), all[r])
	}
}

// accounting shows that every URL is in one state, and that counters and scan agree on it.
func (p *page) accounting(totals record.Totals, sums *tally) {
	kept, seen := totals.Counts, sums.counts
	p.section("Accounting")
	p.row("", "counters", "scan")
	p.row("discovered", totals.Discovered(), sums.records)
	for _, line := range []struct {
		name       string
		kept, seen int64
	}{
		{"stored", kept.Stored, seen.Stored},
		{"pending, to be asked", kept.Now, seen.Now},
		{"pending, to be asked again later", kept.Later, seen.Later},
		{"pending, held", kept.Held, seen.Held},
		{"redirected", kept.Redirected, seen.Redirected},
		{"failed", kept.Failed, seen.Failed},
		{"refused", kept.Refused, seen.Refused},
	} {
		p.row(line.name, line.kept, line.seen)
	}
	p.row("sum of the states", kept.Records(), seen.Records())
	if sums.damaged > 0 {
		p.row("records that cannot be read", none, sums.damaged)
	}
	p.row("discovered = sum of the states: " + verdict(totals.Discovered() == kept.Records() && sums.records == seen.Records()))
	p.row("counters = scan: " + verdict(sums.agrees(totals) == nil))
}

// engine shows what only the engine knows. A merge has nothing of it.
func (p *page) engine(run *RunFigures) {
	if len(run.Stages) > 0 {
		p.section("Time per stage, this run")
		p.row("", "count", "mean", "p50", "p95", "p99")
		for _, s := range run.Stages {
			p.row(s.Name, s.Count, short(s.Mean), short(s.P50), short(s.P95), short(s.P99))
		}
		p.row("longest wait for the frontier", none, short(run.LockWait))
	}
	if run.Pauses > 0 || run.Stuck > 0 {
		p.section("Faults of this machine, this run")
		p.row("pauses for the disk to have room", run.Pauses)
		p.row("steps that took longer than they may", run.Stuck)
	}
	if run.Order != "" {
		p.section("Order, this run")
		p.row(run.Order)
		p.row("scores of known URLs forgotten", none, run.Forgotten)
	}
	if run.Trace != "" {
		p.section("Supersteps, all runs")
		p.row("steps with URLs", run.Steps)
		p.row("trace  " + run.Trace)
	}
	if len(run.Queues) > 0 {
		p.section("Queues, this run")
		p.row("", "added", "removed")
		for _, q := range withSums(run.Queues) {
			p.row(q.Name, q.Added, q.Removed)
		}
	}
	if len(run.Rejected) > 0 {
		p.section("Links not followed, this run")
		for _, name := range slices.Sorted(maps.Keys(run.Rejected)) {
			p.row(name, run.Rejected[name])
		}
	}
	if run.Run.ID != 0 {
		p.section("Seen filter")
		p.row("URLs expected to be lost", fmt.Sprintf("%.1e", run.ExpectedLosses))
		if s := run.Filter; s != (seen.Stats{}) {
			p.row("parts beyond their memory, of 256", s.Turned)
			p.row("looked up in the index", s.Asked)
			p.row("  for each page stored", fmt.Sprintf("%.2f", float64(s.Asked)/float64(max(1, run.Run.Stored))))
			p.row("  and known there", s.Confirmed)
			p.row("  for a hit of a Bloom filter", s.BloomHits)
			p.row("  for a false positive of one", s.FalsePositives)
		}
	}
}

// withSums adds a sum behind the queues of each kind that has several. Those of a kind stand
// together.
func withSums(queues []Queue) (list []Queue) {
	for len(queues) > 0 {
		kind, n := kindOf(queues[0].Name), 0
		sum := Queue{Name: "all " + kind + "s"}
		for ; n < len(queues) && kindOf(queues[n].Name) == kind; n++ {
			sum.Added += queues[n].Added
			sum.Removed += queues[n].Removed
		}
		if list = append(list, queues[:n]...); n > 1 {
			list = append(list, sum)
		}
		queues = queues[n:]
	}
	return list
}

// kindOf returns the name of a queue without its number.
func kindOf(name string) string {
	kind, _, _ := strings.Cut(name, " ")
	return kind
}

// WriteHourly writes hourly_statistics.txt from the index: a block per run, whose hours count from
// its start. A line per hour has the new URLs that came into the tree in it, and what went into and
// out of each queue since the run's start. watch reports calls to the disk that hang; nil: nothing
// does. Errors are [iut.ErrDisk], that of ctx, and [record.ErrCorrupt] for a run of the index that
// cannot be read.
func WriteHourly(ctx context.Context, index *storage.Index, f Files, watch *disk.Watch) error {
	runs, err := index.Runs().All()
	hours, herr := index.Runs().Hours()
	if err = cmp.Or(err, herr); err != nil {
		return fmt.Errorf("hourly statistics: %w", err)
	}
	present := index.Runs().Current().ID
	p := &page{}
	p.section(hourlyTitle + ": new URLs in the tree, and what went into and out of the queues since the run's start")
	for i := range runs {
		r := &runs[i]
		end := "ended " + date(r.End)
		if !r.Clean {
			if end = "stopped without a clean end, last written " + date(r.End); r.ID == present {
				end = "going on, last written " + date(r.End)
			}
		}
		p.section(fmt.Sprintf("Run %d, started %s, %s: %s", r.ID, date(r.Start), end, words.Count(r.NewURLs, "new URL")))
		for _, h := range hours {
			if h.Run != r.ID {
				continue
			}
			p.row(fmt.Sprintf("hour %d, until %s", h.Hour, date(h.Time)), "added", "removed")
			p.row("  new URLs", h.Stored, none)
			for _, q := range withSums(queuesOf(h.Rows)) {
				p.row("  "+q.Name, q.Added, q.Removed)
			}
		}
	}
	return writeWhole(ctx, watch, f.Hourly, beginsHourly, p.bytes())
}

// queuesOf returns the queues of an hour in a fixed order: by kind, then by number.
func queuesOf(rows map[string][2]int64) []Queue {
	var list []Queue
	for name, n := range rows {
		list = append(list, Queue{name, n[0], n[1]})
	}
	slices.SortFunc(list, func(a, b Queue) int {
		return cmp.Or(
			cmp.Compare(kindOf(a.Name), kindOf(b.Name)),
			cmp.Compare(len(a.Name), len(b.Name)), // 2 before 10
			cmp.Compare(a.Name, b.Name))
	})
	return list
}

func date(unix int64) string { return time.Unix(unix, 0).UTC().Format(time.RFC3339) }

func duration(seconds int64) string { return words.Duration(time.Duration(seconds) * time.Second) }

func perSecond(n, seconds int64) string {
	if seconds <= 0 {
		return none
	}
	return fmt.Sprintf("%.2f", float64(n)/float64(seconds))
}

// short rounds a duration to three digits.
func short(d time.Duration) string {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}
