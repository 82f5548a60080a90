package inspect

import (
	"fmt"
	"slices"

	"urltree/storage/record"
)

// StateWords are the words that -state takes. A record is open (it may be asked, or is held),
// closed (stored, redirected or refused) or error (failed); a folder is visited while it holds
// something open.
const StateWords = "open or pending, held, visited, closed, stored, redirected, refused, error or failed"

// A selector numbers those of the counted records that a word names; nil: all are meant.
type selector func(record.Counts) int64

// selectors has the selector of each word of StateWords. The names that the ledger uses are among
// them.
var selectors = []struct {
	word string
	selector
}{
	{"open", record.Counts.Pending},
	{"pending", record.Counts.Pending},
	{"held", func(c record.Counts) int64 { return c.Held }},
	{"visited", record.Counts.Pending},
	{"closed", func(c record.Counts) int64 { return c.Stored + c.Redirected + c.Refused }},
	{"stored", func(c record.Counts) int64 { return c.Stored }},
	{"redirected", func(c record.Counts) int64 { return c.Redirected }},
	{"refused", func(c record.Counts) int64 { return c.Refused }},
	{"error", func(c record.Counts) int64 { return c.Failed }},
	{"failed", func(c record.Counts) int64 { return c.Failed }},
}

// chosen returns the selector of a state that was asked for, if any was.
func chosen(state, usage string) (selector, error) {
	if state == "" {
		return nil, nil
	}
	for _, s := range selectors {
		if s.word == state {
			return s.selector, nil
		}
	}
	return nil, fmt.Errorf("no state %q, but these: %s; %w: crawler %s", state, StateWords, ErrUsage, usage)
}

// Words returns the values that a flag of ls and export takes, in the order in which a user sees
// them; those of columns may be a list with commas between them.
func Words(flag string) (words []string) {
	switch flag {
	case "state":
		for _, s := range selectors {
			words = append(words, s.word)
		}
	case "what":
		words = exports
	case "format":
		words = slices.Concat(formats["edges"], formats["warc"]) // which have them all
	case "columns":
		for _, c := range columns {
			words = append(words, c.Name)
		}
	}
	return words
}

// picks reports whether some of the counted records are meant.
func (s selector) picks(c record.Counts) bool { return s == nil || s(c) > 0 }

// countOf counts one record.
func countOf(r *record.Record) (c record.Counts) {
	c.Count(r, 1)
	return c
}

// stateWord returns the word of ls for what some records have come to, of which a crawl has some in
// hand if working says so. Source B's states stand behind it: visited is working, waiting, held or
// partly, error is failed or partly, closed is done, moved or refused.
func stateWord(c record.Counts, working bool) string {
	state, finished := c.FolderState(), c.Records()-c.Pending()
	switch {
	case state == "visited" && working:
		return "working"
	case state == "visited" && finished > 0, state == "error" && c.Stored > 0:
		return "partly"
	case state == "visited" && c.Now+c.Later > 0:
		return "waiting"
	case state == "visited":
		return "held"
	case state == "error":
		return "failed"
	case c.Stored > 0:
		return "done"
	case c.Redirected > 0:
		return "moved"
	case c.Refused > 0:
		return "refused"
	}
	return "-"
}
