package main

import (
	"fmt"
	"slices"

	"urltree/crawler"
	"urltree/internal/words"
	"urltree/storage/record"
)

// mostAgain is how many seeds are named that were not asked for again.
const mostAgain = 3

// again says what would help where a run asked again for no seed that was given, or for nothing.
func (c *command) again(r crawler.Result, tree string) {
	retry := []string{"crawler", "retry"}
	if tree != "iut" {
		retry = append(retry, "-tree", tree)
	}
	for i, rec := range r.Closed {
		if i == mostAgain {
			fmt.Fprintf(c.stderr, "crawler: not asked again, as these: %s\n", words.Count(len(r.Closed)-i, "other seed"))
			break
		}
		failed, line := "failed", retry
		if rec.State == record.Refused {
			failed, line = "was refused", append(slices.Clip(retry), "-state", "refused")
		}
		fmt.Fprintf(c.stderr, "crawler: not asked again: %s, which %s in an earlier run (%s); %s opens it\n", rec.URL, failed, rec.Reason,
			commandLine(append(slices.Clip(line), rec.URL)))
	}
	switch total := r.Total; {
	case len(r.Closed) > 0, r.Run.ID == 0, len(r.Run.Outcomes)+len(r.Run.Looks) > 0, total.Pending() > 0:
	case total.Failed > 0:
		fmt.Fprintf(c.stderr, "crawler: nothing to do: %s failed in earlier runs; %s opens what failed\n", words.Count(total.Failed, "URL"), commandLine(retry))
	default:
		fmt.Fprintf(c.stderr, "crawler: nothing to do: all URLs are stored, redirected or refused; -recrawl 0s asks stored pages again, another -scope or -accept finds other ones\n")
	}
}
