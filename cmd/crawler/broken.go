package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"urltree/internal/broken"
	"urltree/internal/inspect"
	"urltree/internal/words"
)

// errBroken says that there are broken links, which the report has told of.
var errBroken = errors.New("broken links")

// brokenCommand reports broken links. Tree or crawl return them as they come; here they are sorted.
func (c *command) brokenCommand() *subcommand {
	format, output, fail := "", "", false
	formats := plainFlag("format", choice{&format, broken.Formats}, "the `FORMAT` of the report: text; csv, a line a link (RFC 4180; a text that a spreadsheet would take for a formula gets an apostrophe before it); json, one object; html, one file for a browser")
	formats.usual = "as -output ends; else text"
	var outside external
	answer := func(ctx context.Context, prefix string, stdout *bufio.Writer) error {
		var sum broken.Sum
		if err := outside.check(c); err != nil {
			return err
		}
		if outside.on {
			if err := outside.ask(ctx, c); err != nil {
				return err
			}
			ctx = context.WithoutCancel(ctx) // one signal ends the asking
		}
		as := cmp.Or(format, formatOf(output, broken.Formats), broken.Formats[0])
		m := &steps{of: "broken"}
		m.set("looking for broken URLs", 0, 0)
		err := c.deliver(output, m, stdout, func(w io.Writer) (err error) {
			sum, err = broken.Write(ctx, as, w, func(w io.Writer) error {
				return c.inspect(ctx, c.root(), inspect.Question{Command: "broken", URL: prefix}, w)
			}, func(done, all int64) { m.set("reading links of pages", done, all) })
			return err
		})
		if err != nil {
			return err
		}
		if sum.Reread > 0 {
			fmt.Fprintf(c.stderr, "crawler: the links of %s were read from their folders, which takes time; a crawl with -edges keeps them\n", words.Count(sum.Reread, "page"))
		}
		if sum.Waiting > 0 {
			fmt.Fprintf(c.stderr, "crawler: not asked yet, and so not in this report: %s\n", words.Count(sum.Waiting, "URL"))
		}
		var not []string
		if sum.OutsideWaiting > 0 {
			not = append(not, fmt.Sprintf("not asked yet: %d", sum.OutsideWaiting))
		}
		if sum.OutsideRefused > 0 {
			not = append(not, fmt.Sprintf("not to be asked (robots.txt, internal addresses): %d", sum.OutsideRefused))
		}
		if len(not) > 0 {
			fmt.Fprintf(c.stderr, "crawler: of %s outside, and so not in this report, %s\n", words.Count(sum.Outside, "target"), strings.Join(not, ", "))
		}
		if fail && sum.Targets > 0 {
			return errBroken
		}
		return nil
	}
	b := c.lookCommand("broken", "[URL-PREFIX]",
		"report broken links, with every page that has them, element and text", answer, append([]*option{
			formats,
			plainFlag("fail", toggle{&fail}, "exit code 5 if there are broken links"),
			outputFlag(&output),
			plainFlag("external", toggle{&outside.on}, "first ask each target outside once that nothing is known of: what pages refer to and is no URL of the crawl"),
			plainFlag("recheck", amount[time.Duration]{in: times, p: &outside.age, none: "never"}, "with -external: ask those again, too, of which what is known is older than this `TIME`: 24h"),
		}, c.crawlFlags(externalFlags)...)...)
	b.args = "[flags]"
	b.about = "A URL is broken if it has failed (status 400 and above, no answer, a redirect that leads nowhere), if its host could not be reached, or if it redirects to one that is broken. What was refused, is held for another reason or waits is not. With a URL-PREFIX: the links on pages below it, wherever they lead. Links that the crawl did not follow, such as those out of scope, are reported once -external has asked where they lead: by HEAD, or by GET where that is refused, by the rules of the crawl and the options that the tree keeps. What came of each is kept in the index, and the same command goes on after a stop. It asks those of all pages, and a URL-PREFIX is for the report alone. The flags that say how to ask hold for this run alone. " +
		"While a crawl has the tree, it answers; else the tree is read. The links of pages that were not crawled with -edges are read from their folders. It takes some 40 MB of memory, and temporary files (TMPDIR) for more than some 50,000 broken links."
	return b
}
