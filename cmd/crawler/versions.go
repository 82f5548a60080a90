package main

import (
	"urltree/internal/inspect"
)

// pageCommand makes a subcommand that asks for a page as it is, or as it was at a time.
func (c *command) pageCommand(name, usage string) *subcommand {
	q := &inspect.Question{Command: name}
	return c.inspectCommand(q, "URL", usage,
		plainFlag("at", instant{p: &q.At, end: true}, "the version that was the latest at this `TIME`: a date, for its end, a time, or so long ago such as 7d"))
}

// versionsCommand lists the versions of a page.
func (c *command) versionsCommand() *subcommand {
	q := &inspect.Question{Command: "versions", Format: "tsv"}
	sub := c.inspectCommand(q, "URL", "list the versions of a page that are kept",
		plainFlag("format", choice{&q.Format, []string{"tsv", "jsonl"}}, "`FORM` of the lines: tsv, with a title, or jsonl"))
	sub.about = "A line for each, the newest first: when it was answered, status, bytes, media type, what it has other than the one before, and the SHA-256. -versions says how many a crawl keeps; crawler cat -at and crawler show -at have one of them. " + sub.about
	return sub
}
