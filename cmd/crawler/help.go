package main

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"urltree/internal/inspect"
)

// A group is a part of the flags, under its title in the help text.
type group struct {
	title string
	flags []*option
}

const (
	helpWidth = 88       // columns of the help text
	helpNames = 27       // columns of the flags' names
	unbroken  = "\u00a0" // a space at which wrap does not end a line
)

// A page is the help text of the crawl or of a subcommand; see [page.text] and [page.man].
type page struct {
	name    string   // of the command, such as crawler ls
	summary string   // in a line
	usage   []string // how it is called
	about   string
	parts   []part
}

type part struct {
	title, about string
	column       int // in which the texts of the entries begin
	entries      []entry
	below        bool // it belongs to the part before it
}

type entry struct {
	name, value string // the value is that of a flag; "": it has none
	text        string
}

// exits is the one table of exit codes.
var exits = part{title: "Exit status", column: 7, entries: []entry{
	{name: "0", text: "done; also when -time or a limit was reached, or one signal came to a crawl"},
	{name: "1", text: "anything that is not in this table"},
	{name: "2", text: "usage: flags, arguments or seeds are wrong, or there is no seed and no tree"},
	{name: "3", text: "the tree is busy, damaged or of another version, or check found faults"},
	{name: "4", text: "disk error"},
	{name: "5", text: "no page, and all seeds failed or unreached; -fail-on any; broken -fail found some"},
	{name: "130", text: "forced to stop by a second signal"},
}}

// crawlPage is what crawler -h prints.
func (c *command) crawlPage() page {
	p := page{
		name: "crawler", summary: "crawl the web into a tree of folders that survives being killed",
		usage: []string{"crawler [flags] [URL ...]", "crawler SUBCOMMAND [flags] [arguments]"},
		about: "It fetches what the seeds lead to, politely and as robots.txt allows, until -time is over or nothing is left. Pages land in folders named after their URLs, below -tree. Stop it (Ctrl-C), kill it, cut the power: crawler alone goes on. The results lie beside -output: res.txt (pages stored), res2.txt (URLs still to do, and why), statistics.txt and hourly_statistics.txt.",
	}
	subcommands := part{title: "Subcommands (crawler SUBCOMMAND -h says more)", column: 12}
	for _, sub := range c.visible() {
		subcommands.entries = append(subcommands.entries, entry{name: sub.name, text: sub.usage})
	}
	p.parts = []part{
		{title: "Examples", column: 56, entries: []entry{
			{name: "crawler -time 10h -input seed.txt -output res.txt", text: "ten hours from a list of seeds"},
			{name: "crawler -time 10h", text: "ten hours more"},
			{name: "crawler -scope host https://example.org/", text: "one site, until nothing is left"},
			{name: "crawler ls -r https://example.org/", text: "what there is of it"},
			{name: "crawler why https://example.org/page", text: "what happened to a URL"},
			{name: "crawler broken", text: "broken links, and where they are"},
			{name: "crawler demo", text: "a web made up on this machine"},
		}},
		subcommands,
		{title: "Flags", about: "Each is also an environment variable, such as " + envOf("max-pages") + ` for -max-pages; the command line wins. Those that are "kept" hold for later runs of the tree as well, unless these are given others; see crawler options -h. Flags may stand behind the URLs; -- ends them. A TIME is like 300ms, 90s, 20m, 10h, 1d12h or 2w, a SIZE like 500KiB, 16MiB or 2GB. Flags without a value are off by default, but for -sitemaps.`},
	}
	for _, g := range c.flags.groups {
		flags := part{title: g.title, column: helpNames, below: true}
		for _, o := range g.flags {
			flags.entries = append(flags.entries, o.entry())
		}
		p.parts = append(p.parts, flags)
	}
	p.parts = append(p.parts, exits)
	return p
}

// helpTerms returns what the help text of a subcommand explains besides its flags.
func helpTerms(name string) (list []part) {
	add := func(title, of string) {
		p := part{title: title, column: 22, below: true}
		for _, t := range inspect.Terms(of) {
			p.entries = append(p.entries, entry{name: t.Word, text: t.Meaning})
		}
		list = append(list, p)
	}
	if name == "ls" {
		add("Words of the column state, of a URL or, with what is below it, of a folder", "ls")
	}
	if name == "ls" || name == "export" {
		add("States of -state", "state")
	}
	if name == "export" {
		add("Columns of -what urls and pages; what a URL does not have is -, in CSV empty, in JSON null", "columns")
	}
	if name == "versions" {
		add("What a version has other than the one before", "version")
	}
	if name == "changes" {
		add("What changes", "change")
	}
	if name == "retry" {
		add("Reasons of failed URLs", inspect.OfFailed)
		add("Reasons of refused URLs", inspect.OfRefused)
		add("Reasons of redirected URLs, where the crawl does not follow", inspect.OfRedirected)
		add("Reasons of sitemaps, besides those of failed URLs", inspect.OfSitemap)
		add("Reasons of URLs that wait: every run looks at these by itself, and takes what its flags let in", inspect.OfHeld)
	}
	return list
}

// retryReasons are those of what retry opens again.
func retryReasons() (words []string) {
	for _, of := range []string{inspect.OfFailed, inspect.OfRefused, inspect.OfRedirected, inspect.OfSitemap} {
		words = append(words, inspect.Words(of)...)
	}
	return words
}

const prefixHelp = "A URL-PREFIX is http:// or https://, a host with its port, or a path, with or without a slash at its end: that URL and all below it as below a folder, not all that begins with the same letters."

// page is what a subcommand prints with -h.
func (s *subcommand) page() page {
	p := page{name: "crawler " + s.name, summary: s.usage, about: s.about, usage: []string{"crawler " + s.call()}}
	if s.operand == "[URL-PREFIX]" {
		p.about += " " + prefixHelp
	}
	if len(s.flags) > 0 {
		flags := part{title: "Flags", column: helpNames}
		for _, o := range s.flags {
			flags.entries = append(flags.entries, o.entry())
		}
		p.parts = append(p.parts, flags)
	}
	p.parts = append(p.parts, helpTerms(s.name)...)
	p.parts = append(p.parts, exits)
	return p
}

// entry returns what help texts say of the flag.
func (o *option) entry() entry {
	e := entry{name: "-" + o.name, text: o.usage}
	if before, rest, ok := strings.Cut(o.usage, "`"); ok {
		value, after, _ := strings.Cut(rest, "`")
		e.value, e.text = value, before+value+after
	}
	var notes []string
	if off := (toggle{new(bool)}).String(); !o.isBool() || o.usual != off {
		notes = append(notes, "default: "+o.usual)
	}
	if o.kind == ofCrawl {
		notes = append(notes, "kept")
	}
	if len(notes) > 0 {
		e.text += " " + strings.ReplaceAll("("+strings.Join(notes, "; ")+")", " ", unbroken)
	}
	return e
}

// text returns the page for a terminal.
func (p page) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s - %s\n\nUsage\n", p.name, p.summary)
	for _, u := range p.usage {
		fmt.Fprintf(&b, "  %s\n", u)
	}
	if p.about != "" {
		b.WriteByte('\n')
		wrap(&b, 2, 2, p.about)
	}
	for _, t := range p.parts {
		fmt.Fprintf(&b, "\n%s\n", t.title)
		if t.about != "" {
			wrap(&b, 2, 2, t.about)
		}
		for _, e := range t.entries {
			e.write(&b, t.column)
		}
	}
	return b.String()
}

// write writes the entry's name and, beginning in the given column, its text.
func (e entry) write(b *strings.Builder, column int) {
	head := strings.TrimRight("  "+e.name+" "+e.value, " ")
	fmt.Fprintf(b, "%-*s", column, head)
	if len(head) >= column {
		b.WriteByte('\n')
		wrap(b, column, column, e.text)
		return
	}
	wrap(b, 0, column, e.text)
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
