package main

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"urltree/internal/inspect"
)

// A group is a part of the flags, under its title in the help text.
type group struct {
	title string
	flags []cli.Flag
}

func ungroup(groups []group) []cli.Flag {
	var all []cli.Flag
	for _, g := range groups {
		all = append(all, g.flags...)
	}
	return all
}

const (
	helpWidth = 88       // columns of the help text
	helpNames = 27       // columns of the flags' names
	unbroken  = "\u00a0" // a space at which wrap does not end a line
)

// exitTable is the one table of exit codes.
const exitTable = `  0    done; also when -time or a limit was reached, or one signal came to a crawl
  1    anything that is not in this table
  2    usage: flags, arguments or seeds are wrong, or there is no seed and no tree
  3    the tree is busy, damaged or of another version, or check found faults
  4    disk error
  5    no page, and all seeds failed or unreached; -fail-on any; broken -fail found some
  130  forced to stop by a second signal
`

// crawlHelp is what crawler -h prints.
func crawlHelp(groups []group, commands []*cli.Command) string {
	var b strings.Builder
	b.WriteString(`crawler - crawl the web into a tree of folders that survives being killed

Usage
  crawler [flags] [URL ...]
  crawler SUBCOMMAND [flags] [arguments]

  It fetches what the seeds lead to, politely and as robots.txt allows, until -time is
  over or nothing is left. Pages land in folders named after their URLs, below -tree.
  Stop it (Ctrl-C), kill it, cut the power: crawler alone goes on. The results lie
  beside -output: res.txt (pages stored), res2.txt (URLs still to do, and why),
  statistics.txt and hourly_statistics.txt.

Examples
  crawler -time 10h -input seed.txt -output res.txt     ten hours from a list of seeds
  crawler -time 10h                                     ten hours more
  crawler -scope host https://example.org/              one site, until nothing is left
  crawler ls -r https://example.org/                    what there is of it
  crawler why https://example.org/page                  what happened to a URL
  crawler broken                                        broken links, and where they are
  crawler demo                                          a web made up on this machine

Subcommands (crawler SUBCOMMAND -h says more)
`)
	for _, c := range commands {
		entry(&b, 12, c.Name, c.Usage)
	}
	b.WriteString(`
Flags
  Each is also an environment variable, such as ` + envOf("max-pages") + ` for -max-pages;
  the command line wins. Those that are "kept" hold for later runs of the tree as well,
  unless these are given others; see crawler options -h. Flags may stand behind the
  URLs; -- ends them. A TIME is like 300ms, 90s, 20m, 10h, 1d12h or 2w, a SIZE like
  500KiB, 16MiB or 2GB. Flags without a value are off by default, but for -sitemaps.
`)
	for _, g := range groups {
		fmt.Fprintf(&b, "\n%s\n", g.title)
		for _, f := range g.flags {
			flagEntry(&b, f, kindOf(f.Names()[0]) == ofCrawl)
		}
	}
	b.WriteString("\nExit status\n" + exitTable)
	return b.String()
}

// terms are words and what they mean, under a title in the help text of a subcommand.
type terms struct {
	title string
	words [][2]string
}

// helpTerms gives what the help text of a subcommand explains besides its flags.
func helpTerms(name string) []terms {
	switch name {
	case "ls", "export":
		var list []terms
		if name == "ls" {
			list = append(list, terms{"Words of the column state, of a URL or, with what is below it, of a folder", [][2]string{
				{"waiting", "nothing of it has been asked so far"},
				{"working", "a crawl has something of it in hand"},
				{"held", "it waits, but not for this run; crawler why says for what"},
				{"partly", "some of it has been asked, and the rest waits or is held; or nothing waits, there are pages, and something has failed"},
				{"done", "nothing waits, nothing has failed, there are pages"},
				{"failed", "nothing waits, something has failed, there is no page"},
				{"moved", "it leads to another URL"},
				{"refused", "it is not to be asked or kept"},
				{"damaged", "the index has something there that cannot be read; see crawler check"},
			}})
		}
		list = append(list, terms{"States of -state", [][2]string{
			{"open, pending", "a URL waits, held ones among them"},
			{"held", "it waits, but not for this run"},
			{"visited", "the same as open"},
			{"closed", "stored, redirected or refused"},
			{"stored", "its page is in the tree"},
			{"redirected", "it leads to another URL"},
			{"refused", "it is not to be asked or kept"},
			{"error, failed", "it has failed"},
		}})
		if name == "export" {
			columns := terms{title: "Columns of -what urls; what a URL does not have is -, in CSV empty, in JSON null"}
			for _, c := range inspect.Columns() {
				columns.words = append(columns.words, [2]string{c.Name, c.Meaning})
			}
			list = append(list, columns)
		}
		return list
	case "retry":
		var list []terms
		for _, g := range [][2]string{
			{inspect.OfFailed, "Reasons of failed URLs"},
			{inspect.OfRefused, "Reasons of refused URLs"},
			{inspect.OfRedirected, "Reasons of redirected URLs, where the crawl does not follow"},
			{inspect.OfSitemap, "Reasons of sitemaps, besides those of failed URLs"},
			{inspect.OfHeld, "Reasons of URLs that wait: every run looks at these by itself, and takes what its flags let in"},
		} {
			t := terms{title: g[1]}
			for _, r := range inspect.Reasons(g[0]) {
				t.words = append(t.words, [2]string{r.Word, r.Meaning})
			}
			list = append(list, t)
		}
		return list
	}
	return nil
}

// retryReasons are those of what retry opens again.
func retryReasons() (words []string) {
	for _, of := range []string{inspect.OfFailed, inspect.OfRefused, inspect.OfRedirected, inspect.OfSitemap} {
		for _, r := range inspect.Reasons(of) {
			words = append(words, r.Word)
		}
	}
	return words
}

// commandHelp is what a subcommand prints with -h.
func commandHelp(c *cli.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "crawler %s - %s\n\nUsage\n  crawler %s\n", c.Name, c.Usage, usageOf(c))
	if c.Description != "" {
		b.WriteByte('\n')
		wrap(&b, 2, 2, c.Description)
	}
	if len(c.Flags) > 0 {
		b.WriteString("\nFlags\n")
		for _, f := range c.Flags {
			flagEntry(&b, f, false)
		}
	}
	for _, t := range helpTerms(c.Name) {
		b.WriteString("\n" + t.title + "\n")
		for _, w := range t.words {
			entry(&b, 22, w[0], w[1])
		}
	}
	b.WriteString("\nExit status\n" + exitTable)
	return b.String()
}

// flagEntry writes a flag with its value's name, its meaning, its default, and whether the tree
// keeps it.
func flagEntry(b *strings.Builder, f cli.Flag, kept bool) {
	g := f.(*cli.GenericFlag)
	name, text := "-"+g.Name, g.Usage
	if before, rest, ok := strings.Cut(text, "`"); ok {
		value, after, _ := strings.Cut(rest, "`")
		name, text = name+" "+value, before+value+after
	}
	var notes []string
	if _, ok := g.Value.(toggle); !ok {
		notes = append(notes, "default: "+g.DefaultText)
	}
	if kept {
		notes = append(notes, "kept")
	}
	if len(notes) > 0 {
		text += " " + strings.ReplaceAll("("+strings.Join(notes, "; ")+")", " ", unbroken)
	}
	entry(b, helpNames, name, text)
}

// entry writes a name and, beginning in the given column, its text.
func entry(b *strings.Builder, column int, name, text string) {
	head := "  " + name
	fmt.Fprintf(b, "%-*s", column, head)
	if len(head) >= column {
		b.WriteByte('\n')
		wrap(b, column, column, text)
		return
	}
	wrap(b, 0, column, text)
}

// wrap writes a text in lines that end before helpWidth. They begin in the column indent, the
// first one after so many spaces as first says.
func wrap(b *strings.Builder, first, indent int, text string) {
	b.WriteString(strings.Repeat(" ", first))
	at := indent
	for i, word := range strings.Split(text, " ") {
		switch {
		case i == 0:
		case at+1+utf8.RuneCountInString(word) > helpWidth:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(strings.ReplaceAll(word, unbroken, " "))
		at += utf8.RuneCountInString(word)
	}
	b.WriteByte('\n')
}
