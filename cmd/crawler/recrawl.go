package main

import (
	"context"
	"fmt"
	"time"

	"urltree/crawler"
	"urltree/internal/inspect"
	"urltree/internal/words"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// recrawlCommand marks stored pages of which another look is due.
func (c *command) recrawlCommand() *subcommand {
	var m marking
	return &subcommand{
		name: "recrawl", usage: "mark stored pages to be asked again", operand: "[URL-PREFIX]",
		about: "The next run asks them again, behind the URLs of their host that were not asked yet. They stay stored meanwhile. A page with other content replaces the one that is stored; one that is not found any more keeps it, and crawler show says since when it is gone.",
		flags: []*option{
			c.flags.tree(),
			plainFlag("older", amount[time.Duration]{in: times, p: &m.older, none: "any"}, "only pages that were last asked before this `TIME`: 7d"),
			plainFlag("reason", choice{&m.reason, lookReasons()}, "only pages that the last look did not find, for this `REASON`"),
		},
		run: func(ctx context.Context, operands []string) error {
			return withIndex(c.root(), iut.Options{}, storage.Options{}, func(tree *iut.Tree, index *storage.Index) error {
				in, err := crawler.NewInspector(tree, index)
				if err != nil {
					return err
				}
				prefix, usage := first(operands), "recrawl [-older TIME] [-reason R] [URL-PREFIX]"
				key, below, err := in.Below(prefix, usage)
				if err != nil {
					return err
				}
				m.index, m.now, m.below = index, time.Now(), below
				if _, err := index.Revisits().Mark(ctx, key, m.due); err != nil {
					return err
				}
				if m.pages == 0 {
					if err := in.ThereIs(ctx, prefix, usage); err != nil {
						return err
					}
					_, err = fmt.Fprintln(c.stdout, "no such page is stored; crawler export -state stored lists those there are")
					return err
				}
				_, err = fmt.Fprintf(c.stdout, "%s to be asked again; the next run does\n", words.Count(m.pages, "page"))
				return err
			})
		},
	}
}

// A marking says which stored pages are to be asked again.
type marking struct {
	index  *storage.Index
	now    time.Time
	below  func(url string) bool
	older  time.Duration
	reason string // "": any
	pages  int    // that are marked
}

// due returns when a page is to be asked again: at once if it is to be marked, else as it was.
func (m *marking) due(r *record.Record) int64 {
	if !m.below(r.URL) {
		return r.Due
	}
	l, ok, err := m.index.Revisits().Look(r.URL)
	if !ok || err != nil {
		l = record.Look{State: record.Stored, Time: r.Time}
	}
	if time.Unix(max(l.Time, r.Time), 0).After(m.now.Add(-m.older)) || m.reason != "" && !hasReason(l.Reason, m.reason) {
		return r.Due
	}
	m.pages++
	return record.DueAtOnce
}

// lookReasons are those for which a look does not find a page.
func lookReasons() (list []string) {
	for _, of := range []string{inspect.OfFailed, inspect.OfRefused} {
		list = append(list, inspect.Words(of)...)
	}
	return append(list, record.LeadsAway)
}
