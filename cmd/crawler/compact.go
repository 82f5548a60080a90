package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"urltree/crawler"
	"urltree/internal/repair"
	"urltree/internal/words"
	"urltree/iut"
)

// compactCommand makes files smaller by what is of no use any more.
func (c *command) compactCommand() *subcommand {
	return &subcommand{
		name: "compact", usage: "give back the room of what was forgotten or stored anew",
		about: "index.db is written without free pages, and in a tree with -store warc those WARC files are written anew that have pages which were forgotten or stored anew since. What is left stays what it is, byte by byte, but for a page that names a forgotten one as its source, and for one whose body stood in a page that goes: it gets that body. It takes room for one WARC file, or for index.db; if there is too little it says how much it needs, and changes nothing. Killed or stopped, the same command goes on. The flags of WARC files have the values that runs of the tree were given, unless they are given here.",
		flags: []*option{c.flags.tree(), c.flags.option("warc-size"), c.flags.option("warc-compression"), c.flags.option("operator")},
		run: func(ctx context.Context, _ []string) error {
			if err := treeThere(c.root()); err != nil {
				return err
			}
			if _, err := c.recall(); err != nil {
				return err
			}
			line, m := newProgress(c.stderr, false), &steps{of: "compact"}
			stop := m.showOn(line)
			opts := c.flags.options()
			report, err := repair.Compact(ctx, repair.CompactOptions{
				Root: c.root(), Segments: crawler.Segments(&opts), Tell: m.set, Log: c.logger(line),
			})
			stop()
			if err != nil {
				return err
			}
			format, err := iut.ReadFormat(c.root())
			if err != nil {
				return err
			}
			_, err = io.WriteString(c.stdout, compacted(&report, format.StoreName()))
			return err
		},
	}
}

// compacted says what a compaction did.
func compacted(r *repair.CompactReport, store string) string {
	var b strings.Builder
	switch {
	case store != iut.StoreWARC:
	case r.Segments == 0:
		fmt.Fprintf(&b, "WARC files: none has anything to leave out; %s\n", words.Bytes(r.After))
	default:
		fmt.Fprintf(&b, "WARC files: %s written anew without %s; %s before, %s now\n",
			words.Count(r.Segments, "file"), words.Count(r.Captures, "capture"), words.Bytes(r.Before), words.Bytes(r.After))
	}
	if r.Left > 0 {
		fmt.Fprintf(&b, "left: %s with pages that the index does not know yet; compact again after the next run\n", words.Count(r.Left, "file"))
	}
	fmt.Fprintf(&b, "index.db: %s before, %s now\n", words.Bytes(r.IndexBefore), words.Bytes(r.IndexAfter))
	return b.String()
}
