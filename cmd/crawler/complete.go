package main

import (
	"embed"
	"strings"
	"text/template"
)

// completions is what the shells complete of a command line: subcommands, flags, and values of
// flags as far as they are known or name files. complete.SHELL says it in the language of a shell.
type completions struct {
	Commands    []completed // the first one is the crawl, whose name is ""
	Subcommands []string    // the names of the others
}

// A completed is the crawl or a subcommand.
type completed struct {
	Name, Usage string
	Files       bool // it takes files
	Flags       []completedFlag
}

// A completedFlag is a flag with what its value may be.
type completedFlag struct {
	Name, Usage string // the usage in short
	Value       string // the name of the value
	Takes       string // words, list (of words, with commas between them), file, folder or other; "": no value
	Words       string // with spaces between them
	Repeatable  bool
}

func completedFlags(flags []*option) (all []completedFlag) {
	for _, o := range flags {
		e := o.entry()
		f := completedFlag{Name: e.name, Value: e.value, Usage: e.text, Repeatable: o.isRepeatable()}
		for _, end := range []string{" (", "; ", ": ", ". "} {
			f.Usage, _, _ = strings.Cut(f.Usage, end)
		}
		switch v := o.value.(type) {
		case choice:
			f.Words = strings.Join(v.words, " ")
		case known:
			f.Words = strings.Join(v.words, " ")
		}
		switch {
		case f.Words != "" && f.Value == "LIST":
			f.Takes = "list"
		case f.Words != "":
			f.Takes = "words"
		case f.Value == "FILE":
			f.Takes = "file"
		case f.Value == "FOLDER":
			f.Takes = "folder"
		case f.Value != "":
			f.Takes = "other"
		}
		all = append(all, f)
	}
	return append(all, completedFlag{Name: "-help", Usage: "print the help text"})
}

//go:embed complete.bash complete.zsh complete.fish
var shells embed.FS

// completion returns the completions for a shell: bash from 3.2 on, zsh, or fish from 3.0 on.
func (c *command) completion(shell string) (string, error) {
	all := completions{Commands: []completed{{Flags: completedFlags(c.flags.all)}}}
	for _, sub := range c.visible() {
		all.Commands = append(all.Commands, completed{sub.name, sub.usage, sub.operand == filesOperand || sub.operand == treesOperand, completedFlags(sub.flags)})
		all.Subcommands = append(all.Subcommands, sub.name)
	}
	t, err := template.New("complete."+shell).Funcs(template.FuncMap{
		"join": strings.Join,
		"zsh":  strings.NewReplacer("'", `'\''`, ":", `\:`, "[", `\[`, "]", `\]`).Replace,
		"fish": strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace,
	}).ParseFS(shells, "complete."+shell)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = t.Execute(&b, all)
	return b.String(), err
}
