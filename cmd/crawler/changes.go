package main

import (
	"bufio"
	"context"
	"errors"
	"strconv"

	"urltree/internal/inspect"
	"urltree/iut"
	"urltree/storage"
)

// A moment is an instant, or the begin of a run by its number.
type moment struct {
	instant
	run *int
}

func (v moment) Set(s string) error {
	if n, err := strconv.Atoi(s); err == nil && n > 0 {
		*v.run = n
		return nil
	}
	if err := v.instant.Set(s); err != nil {
		return errors.New("the number of a run, " + err.Error())
	}
	return nil
}

func (v moment) String() string { return "the begin of the latest run" }

// changesCommand says what is different with stored pages.
func (c *command) changesCommand() *subcommand {
	format, at, run := "tsv", int64(0), 0
	return &subcommand{
		name: "changes", usage: "list which stored pages are new, changed, gone, moved or back",
		about: "As far as looks have found it: -recrawl, crawler recrawl. A line for each change, in the order of URLs: what it is, the URL, the time of the look that met it first, the status; why the page is not found any more, where it redirects to, and for how long that is so; of other content in how many of 64 bits the fingerprint of the text differs from that of before, and how many links were added and removed. An Atom feed has them the latest first, and a change has the same id each time.",
		flags: []*option{
			c.flags.tree(),
			plainFlag("since", moment{instant{p: &at}, &run}, "only from this `MOMENT` on: a date, a time, so long ago such as 7d, or the number of a run, for its begin"),
			plainFlag("format", choice{&format, inspect.ChangeFormats}, "`FORM`: tsv, lines with a title; jsonl; or atom, a feed (RFC 4287)"),
		},
		run: func(ctx context.Context, _ []string) error {
			return withIndex(c.root(), iut.Options{ReadOnly: true}, storage.Options{ReadOnly: true}, func(_ *iut.Tree, index *storage.Index) (err error) {
				since := inspect.Since{Time: at}
				if at == 0 {
					if since, err = inspect.SinceRun(index, uint32(run)); err != nil {
						return err
					}
				}
				out := bufio.NewWriter(c.stdout)
				return errors.Join(inspect.WriteChanges(ctx, index, since, format, out), out.Flush())
			})
		},
	}
}
