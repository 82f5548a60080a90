package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"urltree/crawler"
	"urltree/internal/words"
)

// notImport are the flags of the crawl that have no effect where nothing is asked for.
var notImport = []string{
	"input", "fail-on", "sitemaps", "queue", "queues", "pick",
	"delay", "per-host", "per-ip", "max-crawl-delay", "max-wait", "retries", "timeout", "first-byte", "min-rate", "limit-rate",
	"header", "user", "password", "cookies", "proxy", "4", "6", "bind", "insecure", "http1", "allow-private",
	"crawlers", "downloads", "buffers", "listen", "listen-token", "listen-token-file", "listen-tls",
}

func (c *command) importCommand() *subcommand {
	flags := slices.DeleteFunc(slices.Clone(c.flags.all), func(o *option) bool { return slices.Contains(notImport, o.name) })
	return &subcommand{
		name: "import", usage: "fill a tree from WARC files, so that a crawl goes on from them",
		args: "[flags]", operand: filesOperand, flags: flags, run: c.importArchives,
		about: "The tree, new or there already, gets what a crawl would have got: pages, redirects and failures, each URL once, by its first capture in the order of the files; their links wait for a crawl. Nothing is asked for. The flags are those of a crawl, and hold for later ones in the same way. Of each URL an archive may say where it was found: by the metadata of this program or of Heritrix, or by the Referer of its request; URLs of which it says nothing become seeds. After 429 and 5xx a crawl asks the URL again. Killed or stopped, the same command goes on. A damaged file is imported up to the damage, and the status is 1 then.",
	}
}

func (c *command) importArchives(ctx context.Context, operands []string) error {
	opts, err := c.crawlOptions()
	if err != nil {
		return err
	}
	c.json(c.flags.format == "json")
	if slices.Contains(operands, "-") {
		return usagef("import -: archives are read twice, which standard input cannot be; name a file")
	}
	if info, err := os.Stat(opts.Tree); err == nil && !info.IsDir() || errors.Is(err, syscall.ENOTDIR) {
		return usagef("-tree %s: not a directory", opts.Tree)
	}
	opts.Archives = operands
	result, err := c.run(ctx, opts)
	if err != nil {
		return err
	}
	if !c.flags.quiet {
		c.ended(result, opts)
	}
	return damages(result.Imported)
}

// isImport reports whether the command line is that of an import.
func (c *command) isImport() bool { return len(c.args) > 1 && c.args[1] == "import" }

// crawlOn returns the command line of a crawl that goes on from an import.
func (c *command) crawlOn() string { return commandLine([]string{c.args[0], "-tree", c.root()}) }

// damages returns an error that names what was not read to its end; nil: all was.
func damages(i crawler.Imported) error {
	if len(i.Damaged) == 0 {
		return nil
	}
	var list []string
	for _, d := range i.Damaged[:min(len(i.Damaged), mostNamed)] {
		list = append(list, strings.Replace(d.String(), "warc: ", "", 1))
	}
	if n := len(i.Damaged) - mostNamed; n > 0 {
		list = append(list, words.Count(n, "other file"))
	}
	return fmt.Errorf("imported up to where a file is damaged: %s", strings.Join(list, "; "))
}

// imported says in a line what became of the archives.
func imported(i crawler.Imported) string {
	text := words.Count(i.Captures, "capture") + " imported"
	for _, more := range []struct {
		n    int64
		what string
	}{
		{i.There, "of URLs that were there already"},
		{i.ToAsk, "left to a crawl (429, 5xx)"},
		{i.Outside, "outside of the crawl"},
		{i.Lost, "without the body that they name"},
		{i.Passed, "of other kinds"},
	} {
		if more.n > 0 {
			text += fmt.Sprintf(", %d %s", more.n, more.what)
		}
	}
	return text
}
