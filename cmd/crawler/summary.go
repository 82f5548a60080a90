package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"urltree/cleaner"
	"urltree/crawler"
	"urltree/internal/words"
	"urltree/storage/record"
)

// errFailed says that a crawl ended well and brought nothing, or what -fail-on asks about.
var errFailed = errors.New("failed")

// failed returns errFailed if the run did not bring what was asked for.
func (c *command) failed(r crawler.Result) error {
	failed, unreached := r.Failures.Failed, r.Failures.Unreached
	switch {
	case r.SeedsFailed:
		return fmt.Errorf("no page was stored: each seed %w or could not be reached", errFailed)
	case c.flags.failOn == "any" && failed+unreached > 0:
		return fmt.Errorf("%s %w, %d could not be reached (-fail-on any)", words.Count(failed, "URL"), errFailed, unreached)
	}
	return nil
}

func (c *command) ended(r crawler.Result, opts crawler.Options) {
	switch {
	case r.Run.ID == 0:
		fmt.Fprintf(c.stderr, "crawler: %s before anything was asked; the same command goes on\n", r.Ended)
	case c.flags.format == "json":
		log := c.logger(c.stderr)
		if i := r.Imported; len(opts.Archives) > 0 {
			log = log.With("captures", i.Captures, "there", i.There, "to_ask", i.ToAsk, "outside", i.Outside, "lost", i.Lost, "passed", i.Passed)
		}
		if r.Trace != "" {
			log = log.With("steps", r.Steps, "trace", r.Trace)
		}
		log.Info("ended", "how", r.Ended, "pages", r.Run.Stored, "bytes", r.Run.Bytes,
			"outcomes", r.Run.Outcomes, "looks", r.Run.Looks, "took", runTime(r), "nofollow", unfollowed(r, opts), "unreached", r.Failures.Unreached,
			"stored", r.Total.Stored, "pending", r.Total.Pending(), "held", r.Total.Held)
	default:
		c.summary(r, opts)
	}
}

// summary is the last word: what came of the run, the files, and the command that goes on.
func (c *command) summary(r crawler.Result, opts crawler.Options) {
	var b bytes.Buffer
	came(&b, r, opts)
	if r.Trace != "" {
		fmt.Fprintf(&b, "trace     of %s: %s\n", words.Count(int64(r.Steps), "step"), r.Trace)
	}
	fmt.Fprintf(&b, "files     %s %s %s %s; pages below %s\n", r.Files.Res, r.Files.Res2, r.Files.Statistics, r.Files.Hourly, opts.Tree)
	if len(opts.Archives) > 0 && r.Imported.All {
		fmt.Fprintf(&b, "to go on  %s\n", c.crawlOn())
	} else if r.Total.Pending() > r.Total.Held || r.Total.Revisits > 0 || r.Total.Sitemaps > 0 && opts.ReadsSitemaps() || len(opts.Archives) > 0 {
		fmt.Fprintf(&b, "to go on  %s\n", c.goOn())
	}
	fmt.Fprintf(&b, "crawler: %s", r.Ended)
	switch {
	case r.Waits != "" && r.Total.Pending() > r.Total.Held:
		fmt.Fprintf(&b, " to ask soon: %s", r.Waits)
	case r.Waits != "":
		b.WriteString(" that this run may ask")
	}
	b.WriteByte('\n')
	_, _ = c.stderr.Write(b.Bytes())
}

func came(b *bytes.Buffer, r crawler.Result, opts crawler.Options) {
	fmt.Fprintf(b, "this run  %s (%s) in %s%s", words.Count(r.Run.Stored, "page"), crawler.Bytes(r.Run.Bytes), words.Span(runTime(r)), outcomes(r.Run.Outcomes))
	if n := unfollowed(r, opts); n > 0 {
		fmt.Fprintf(b, "; links of %s not followed (nofollow)", words.Count(n, "page"))
	}
	b.WriteByte('\n')
	if len(opts.Archives) > 0 {
		fmt.Fprintf(b, "archives  %s\n", imported(r.Imported))
	}
	if looks := looks(r.Run.Looks); looks != "" {
		fmt.Fprintf(b, "again     %s\n", looks)
	}
	failures(b, r.Failures)
	fmt.Fprintf(b, "the tree  %s, %s pending", words.Count(r.Total.Stored, "page"), words.Count(r.Total.Pending(), "URL"))
	if r.Total.Revisits > 0 {
		fmt.Fprintf(b, ", %s to be asked again", words.Count(r.Total.Revisits, "page"))
	}
	if r.Total.Held > 0 {
		fmt.Fprintf(b, ", %d of them held (%s says why)", r.Total.Held, r.Files.Res2)
	}
	if r.Total.Sitemaps > 0 && !opts.NoSitemaps {
		fmt.Fprintf(b, "; %s to be read", words.Count(r.Total.Sitemaps, "sitemap"))
	}
	if n := r.Total.Elsewhere; n > 0 {
		fmt.Fprintf(b, "; %s known to other nodes, which had their hosts before", words.Count(n, "URL"))
	}
	if r.Total.Cut > 0 {
		fmt.Fprintf(b, "; %s got no record (-max-held)", words.Count(r.Total.Cut, "link"))
	}
	b.WriteByte('\n')
}

func runTime(r crawler.Result) time.Duration {
	return time.Duration(r.Run.End-r.Run.Start) * time.Second
}

// unfollowed returns the number of pages of the run that say that links are not to be followed.
func unfollowed(r crawler.Result, opts crawler.Options) int64 {
	if opts.NoFollow == "none" {
		return 0
	}
	return r.Run.NoFollow
}

// outcomes lists what became of the URLs that were not stored: each state with its reasons.
func outcomes(counts map[string]int64) string {
	sums, reasons := map[string]int64{}, map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		state, reason, _ := strings.Cut(name, " ")
		sums[state] += counts[name]
		if reason != "" {
			reasons[state] = append(reasons[state], fmt.Sprintf("%d %s", counts[name], reason))
		}
	}
	var b strings.Builder
	for _, state := range []string{record.Failed.String(), record.Refused.String(), record.Redirected.String()} {
		if sums[state] == 0 {
			continue
		}
		fmt.Fprintf(&b, ", %d %s", sums[state], state)
		if list := reasons[state]; len(list) > 0 {
			fmt.Fprintf(&b, " (%s)", strings.Join(list, ", "))
		}
	}
	return b.String()
}

// looks says what the looks at pages came to that were stored before; "": there were none.
func looks(counts map[string]int64) string {
	var list []string
	for _, known := range []struct{ name, word string }{{"same", "unchanged"}, {"changed", "changed"}} {
		if n := counts[known.name]; n > 0 {
			list = append(list, fmt.Sprintf("%s %s", words.Count(n, "page"), known.word))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if name != "same" && name != "changed" {
			list = append(list, fmt.Sprintf("%d %s", counts[name], name))
		}
	}
	return strings.Join(list, ", ")
}

// How many reasons, origins and URLs the summary names.
const mostNamed = 3

// failures names what could not be got: the commonest reasons with the first URLs of each, and the
// origins that gave no answer with the most URLs that wait for one.
func failures(b *bytes.Buffer, f cleaner.Failures) {
	head := "failed    "
	for i, r := range f.Reasons[:min(len(f.Reasons), mostNamed)] {
		fmt.Fprintf(b, "%s%d %s: %s", head, r.Count, r.Reason, r.URLs[0])
		if r.Count > 1 {
			fmt.Fprintf(b, " and %d more", r.Count-1)
		}
		if i == mostNamed-1 && len(f.Reasons) > mostNamed {
			fmt.Fprintf(b, "; and %s (crawler export -state failed)", words.Count(len(f.Reasons)-mostNamed, "other reason"))
		}
		b.WriteByte('\n')
		head = "          "
	}
	head = "unreached "
	for i, o := range f.Origins[:min(len(f.Origins), mostNamed)] {
		fmt.Fprintf(b, "%s%s: %s, %s waiting", head, o.Origin, o.Reason, words.Count(o.Count, "URL"))
		if more := f.More + int64(len(f.Origins)-mostNamed); i == mostNamed-1 && more > 0 {
			fmt.Fprintf(b, "; and %s", words.Count(more, "other host"))
		}
		b.WriteByte('\n')
		head = "          "
	}
}
