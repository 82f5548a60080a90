package main

import (
	"fmt"
	"strings"
)

// completions are what the shells complete of a command line: subcommands, flags, and values of
// flags as far as they are known or name files.
type completions []completed

// A completed is the crawl or a subcommand.
type completed struct {
	name, usage string // name "": the crawl
	flags       []completedFlag
}

// A completedFlag is a flag with what its value may be.
type completedFlag struct {
	name, usage string // the usage in short
	value       string // the name of the value; "": the flag takes none
	words       []string
	list        bool // several words are allowed, with commas between them
	repeatable  bool
}

func (c *command) completions() completions {
	all := completions{{flags: completedFlags(c.flags.all)}}
	for _, sub := range c.visible() {
		all = append(all, completed{sub.name, sub.usage, completedFlags(sub.flags)})
	}
	return all
}

func completedFlags(flags []*option) (all []completedFlag) {
	for _, o := range flags {
		e := o.entry(false)
		f := completedFlag{name: e.name, value: e.value, usage: e.text, repeatable: o.isRepeatable()}
		for _, end := range []string{" (", "; ", ": ", ". "} {
			f.usage, _, _ = strings.Cut(f.usage, end)
		}
		switch v := o.value.(type) {
		case choice:
			f.words = v.words
		case known:
			f.words, f.list = v.words, e.value == "LIST"
		}
		all = append(all, f)
	}
	return append(all, completedFlag{name: "-help", usage: "print the help text"})
}

// The values that are names of files and of folders, in help texts and here.
const (
	aFile   = "FILE"
	aFolder = "FOLDER"
)

func (c completions) subcommands() (names []string) {
	for _, s := range c[1:] {
		names = append(names, s.name)
	}
	return names
}

const bashHead = `# Completion for bash. It is made from the table of flags: see crawler -h.
_crawler() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} sub= flags= done= IFS=$' \t\n'
    COMPREPLY=()
    # -flag=value comes in three words.
    if [[ $cur == = ]]; then
        cur=
    elif [[ $prev == = ]] && ((COMP_CWORD > 1)); then
        prev=${COMP_WORDS[COMP_CWORD-2]}
    fi
    [[ $prev == --* ]] && prev=${prev#-}
    if ((COMP_CWORD > 1)); then
        case ${COMP_WORDS[1]} in
`

const bashTail = `    esac
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$flags" -- "$cur"))
    fi
}
complete -F _crawler crawler
`

// bash returns the completions for bash from 3.2 on.
func (c completions) bash() string {
	var b strings.Builder
	b.WriteString(bashHead)
	fmt.Fprintf(&b, "        %s) sub=${COMP_WORDS[1]} ;;\n        esac\n    fi\n    case $sub in\n", strings.Join(c.subcommands(), "|"))
	for _, s := range c {
		fmt.Fprintf(&b, "    '%s')\n        case $prev in\n", s.name)
		var names, other []string
		for _, f := range s.flags {
			names = append(names, f.name)
			words := strings.Join(f.words, " ")
			switch {
			case f.list:
				fmt.Fprintf(&b, "        %s)\n            [[ $cur == *,* ]] && done=${cur%%,*},\n            COMPREPLY=($(compgen -P \"$done\" -W '%s' -- \"${cur##*,}\")); return ;;\n", f.name, words)
			case len(f.words) > 0:
				fmt.Fprintf(&b, "        %s) COMPREPLY=($(compgen -W '%s' -- \"$cur\")); return ;;\n", f.name, words)
			case f.value == aFile:
				fmt.Fprintf(&b, "        %s) IFS=$'\\n'; compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n", f.name)
			case f.value == aFolder:
				fmt.Fprintf(&b, "        %s) IFS=$'\\n'; compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- \"$cur\")); return ;;\n", f.name)
			case f.value != "":
				other = append(other, f.name)
			}
		}
		if len(other) > 0 {
			fmt.Fprintf(&b, "        %s) return ;;\n", strings.Join(other, "|"))
		}
		fmt.Fprintf(&b, "        esac\n        flags='%s'\n", strings.Join(names, " "))
		switch s.name {
		case "":
			fmt.Fprintf(&b, "        ((COMP_CWORD == 1)) && COMPREPLY=($(compgen -W '%s' -- \"$cur\"))\n", strings.Join(c.subcommands(), " "))
		case helpName:
			fmt.Fprintf(&b, "        COMPREPLY=($(compgen -W '%s' -- \"$cur\"))\n", strings.Join(c.subcommands(), " "))
		}
		b.WriteString("        ;;\n")
	}
	b.WriteString(bashTail)
	return b.String()
}

// zsh returns the completions for zsh.
func (c completions) zsh() string {
	quote := strings.NewReplacer("'", `'\''`, ":", `\:`, "[", `\[`, "]", `\]`).Replace
	var b strings.Builder
	b.WriteString("#compdef crawler\n# Completion for zsh. It is made from the table of flags: see crawler -h.\n")
	b.WriteString("_crawler_subcommands() {\n    local -a subcommands=(\n")
	for _, s := range c[1:] {
		fmt.Fprintf(&b, "        '%s:%s'\n", s.name, quote(s.usage))
	}
	b.WriteString("    )\n    _describe subcommand subcommands\n}\n_crawler() {\n    local sub=\n    if ((CURRENT > 2)); then\n        case $words[2] in\n")
	fmt.Fprintf(&b, "        (%s) sub=$words[2]; shift words; ((CURRENT--)) ;;\n        esac\n    fi\n    case $sub in\n", strings.Join(c.subcommands(), "|"))
	for _, s := range c {
		fmt.Fprintf(&b, "    ('%s')\n        _arguments \\\n", s.name)
		for _, f := range s.flags {
			once, action := "", ""
			if f.repeatable {
				once = "*"
			}
			switch words := strings.Join(f.words, " "); {
			case f.value == "":
			case f.list:
				action = ":" + f.value + ":_values -s , " + f.value + " " + words
			case len(f.words) > 0:
				action = ":" + f.value + ":(" + words + ")"
			case f.value == aFile:
				action = ":" + f.value + ":_files"
			case f.value == aFolder:
				action = ":" + f.value + ":_files -/"
			default:
				action = ":" + quote(f.value) + ": "
			}
			fmt.Fprintf(&b, "            '%s%s[%s]%s' \\\n", once, f.name, quote(f.usage), action)
		}
		switch s.name {
		case "", helpName:
			b.WriteString("            '1: :_crawler_subcommands' ")
		default:
			b.WriteString("            ")
		}
		b.WriteString("'*: : '\n        ;;\n")
	}
	b.WriteString("    esac\n}\n_crawler \"$@\"\n")
	return b.String()
}

// fish returns the completions for fish from 3.0 on.
func (c completions) fish() string {
	quote := func(s string) string {
		return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'"
	}
	var b strings.Builder
	b.WriteString("# Completion for fish. It is made from the table of flags: see crawler -h.\n")
	fmt.Fprintf(&b, `function __crawler_is --description 'the subcommand of the line is this one; empty: it has none'
    set -l words (commandline -opc)
    if contains -- "$words[2]" %s
        test "$words[2]" = "$argv[1]"
    else
        test -z "$argv[1]"
    end
end
function __crawler_first
    test (count (commandline -opc)) -eq 1
end
complete -c crawler -f
`, strings.Join(c.subcommands(), " "))
	for _, s := range c[1:] {
		for _, when := range []string{"__crawler_first", "__crawler_is " + helpName} {
			fmt.Fprintf(&b, "complete -c crawler -n '%s' -a %s -d %s\n", when, s.name, quote(s.usage))
		}
	}
	for _, s := range c {
		for _, f := range s.flags {
			fmt.Fprintf(&b, "complete -c crawler -n '__crawler_is \"%s\"' -o %s", s.name, strings.TrimPrefix(f.name, "-"))
			switch words := strings.Join(f.words, " "); {
			case f.value == "":
			case f.list:
				fmt.Fprintf(&b, " -x -a '(__fish_append , %s)'", words)
			case len(f.words) > 0:
				fmt.Fprintf(&b, " -x -a '%s'", words)
			case f.value == aFile:
				b.WriteString(" -r -F")
			case f.value == aFolder:
				b.WriteString(" -x -a '(__fish_complete_directories)'")
			default:
				b.WriteString(" -x")
			}
			fmt.Fprintf(&b, " -d %s\n", quote(f.usage))
		}
	}
	return b.String()
}
