package main

import (
	"fmt"
	"strings"
)

// manEscaper writes a text so that man shows it as it is: by the names that groff_char(7) has for
// ASCII characters which would become typographic ones or are commands.
var manEscaper = strings.NewReplacer(
	`\`, `\e`, "-", `\-`, "^", `\(ha`, "~", `\(ti`, "`", `\(ga`, "'", `\(aq`, `"`, `\(dq`, unbroken, `\ `, ",", `,\:`, // a line may end behind a comma
)

// manLine is manEscaper for the beginning of a line, where a dot would begin a command.
func manLine(text string) string {
	text = manEscaper.Replace(text)
	if strings.HasPrefix(text, ".") {
		return `\&` + text
	}
	return text
}

// manName returns the name of the page: crawler-ls for crawler ls.
func (p page) manName() string { return strings.ReplaceAll(p.name, " ", "-") }

// man returns the page for man(7), with date and version at its end, and names the others to see.
func (p page) man(date, version string, others []page) string {
	var b strings.Builder
	name := manEscaper.Replace(p.manName())
	fmt.Fprintf(&b, ".TH %s 1 \"%s\" \"%s\" \"urltree\"\n", strings.ToUpper(name), manEscaper.Replace(date), manEscaper.Replace("urltree "+version))
	b.WriteString(".\\\" no hyphens in words, and lines of uneven length\n.nh\n.ad l\n")
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n.SH SYNOPSIS\n", name, manEscaper.Replace(p.summary))
	for i, u := range p.usage {
		if i > 0 {
			b.WriteString(".br\n")
		}
		command := manEscaper.Replace(p.name)
		fmt.Fprintf(&b, "\\fB%s\\fR%s\n", command, strings.TrimPrefix(manEscaper.Replace(u), command))
	}
	if p.about != "" {
		fmt.Fprintf(&b, ".SH DESCRIPTION\n%s\n", manLine(p.about))
	}
	for _, t := range p.parts {
		if t.below {
			fmt.Fprintf(&b, ".SS %s\n", manLine(t.title))
		} else {
			title, _, _ := strings.Cut(t.title, " (")
			fmt.Fprintf(&b, ".SH %s\n", strings.ToUpper(title))
		}
		if t.about != "" {
			b.WriteString(manLine(t.about) + "\n")
		}
		for _, e := range t.entries {
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fR", manEscaper.Replace(e.name))
			if e.value != "" {
				fmt.Fprintf(&b, " \\fI%s\\fR", manEscaper.Replace(e.value))
			}
			b.WriteString("\n" + manLine(e.text) + "\n")
		}
	}
	b.WriteString(".SH SEE ALSO\n")
	var names []string
	for _, o := range others {
		if o.name != p.name {
			names = append(names, `\fB`+manEscaper.Replace(o.manName())+`\fR(1)`)
		}
	}
	b.WriteString(strings.Join(names, ",\n") + "\n")
	return b.String()
}
