package inspect

import (
	"fmt"
	"slices"
	"strings"

	"urltree/storage/record"
)

// A selector numbers those of the counted records that a word names; nil: all are meant.
type selector func(record.Counts) int64

// states has the words that -state takes, with the selector of each. A folder is visited while it
// holds something open. The names that the ledger uses are among them.
var states = []struct {
	word, meaning string
	selector
}{
	{"open", "it waits, or is held", record.Counts.Pending},
	{"pending", "the same as open", record.Counts.Pending},
	{"held", "it waits, but not for this run", func(c record.Counts) int64 { return c.Held }},
	{"visited", "the same as open", record.Counts.Pending},
	{"closed", "stored, redirected or refused", func(c record.Counts) int64 { return c.Stored + c.Redirected + c.Refused }},
	{"stored", "its page is in the tree", func(c record.Counts) int64 { return c.Stored }},
	{"redirected", "it leads to another URL", func(c record.Counts) int64 { return c.Redirected }},
	{"refused", "it is not to be asked or kept", func(c record.Counts) int64 { return c.Refused }},
	{"error", "it has failed", func(c record.Counts) int64 { return c.Failed }},
	{"failed", "the same as error", func(c record.Counts) int64 { return c.Failed }},
}

// chosen returns the selector of a state that was asked for, if any was.
func chosen(state, usage string) (selector, error) {
	if state == "" {
		return nil, nil
	}
	for _, s := range states {
		if s.word == state {
			return s.selector, nil
		}
	}
	return nil, fmt.Errorf("no state %q, but these: %s; %w: crawler %s", state, strings.Join(Words("state"), ", "), ErrUsage, usage)
}

// A Term is a word that a user meets, and what it means.
type Term struct{ Word, Meaning string }

// Terms returns the words of ls, the states of -state, the columns of -columns, those of changes,
// or the reasons of one kind: ls, state, columns, OfFailed and so on. They are in the order in
// which a user sees them.
func Terms(of string) (terms []Term) {
	switch of {
	case "ls":
		return lsWords
	case "version":
		return versionWords
	case "change":
		return changeWords
	case "state":
		for _, s := range states {
			terms = append(terms, Term{s.word, s.meaning})
		}
	case "columns":
		for _, c := range columns {
			terms = append(terms, c.Term)
		}
	}
	for _, r := range reasons {
		if r.of == of {
			terms = append(terms, Term{r.word, r.meaning})
		}
	}
	return terms
}

// Words returns the values that a flag of ls and export takes, or else the words of Terms, in the
// order in which a user sees them; those of columns may be a list with commas between them.
func Words(of string) (words []string) {
	switch of {
	case "what":
		return exports
	case "text":
		return []string{plainText, mainText}
	case "format":
		return slices.Concat(formats["edges"], formats["warc"]) // which have them all
	}
	for _, t := range Terms(of) {
		words = append(words, t.Word)
	}
	return words
}

func (s selector) picks(c record.Counts) bool { return s == nil || s(c) > 0 }

func countOf(r *record.Record) (c record.Counts) {
	c.Count(r, 1)
	return c
}

// lsWords are what stateWord returns, and damaged.
var lsWords = []Term{
	{"waiting", "nothing of it has been asked so far"},
	{"working", "a crawl has something of it in hand"},
	{"held", "it waits, but not for this run; crawler why says for what"},
	{"partly", "some of it has been asked, and the rest waits or is held; or nothing waits, there are pages, and something has failed"},
	{"done", "nothing waits, nothing has failed, there are pages"},
	{"failed", "nothing waits, something has failed, there is no page"},
	{"moved", "it leads to another URL"},
	{"refused", "it is not to be asked or kept"},
	{"damaged", "the index has something there that cannot be read; see crawler check"},
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
