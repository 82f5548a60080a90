package main

import (
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"github.com/xrash/smetrics"
)

// arrange returns the command line in the order in which package cli reads it: the subcommand, the
// flags, each in one word, "--" and the operands, which it keeps. In c.args flags may stand
// anywhere before a "--". Flags that do not exist are refused, as are those given twice that are
// not repeatable, and environment variables that belong to no flag.
func (c *command) arrange(app *cli.App) ([]string, error) {
	words := c.args[1:]
	var sub *cli.Command
	if len(words) > 0 {
		switch sub = app.Command(words[0]); {
		case sub != nil:
			words = words[1:]
		case words[0] != "" && words[0][0] != '-' && !isSeedLike(words[0]):
			return nil, notSeed(words[0], app)
		}
	}
	l := line{all: app.Flags}
	if sub != nil {
		l.all, l.sub = sub.Flags, sub.Name
	}
	if err := l.read(words); err != nil && !l.help {
		return nil, err
	}
	c.operands = l.operands
	first := ""
	if sub == nil && len(l.operands) > 0 && app.Command(l.operands[0]) != nil {
		first = l.operands[0]
	}
	switch {
	case l.version:
		return append(c.args[:1:1], "version"), nil
	case l.help && l.sub+first != "":
		return append(c.args[:1:1], "help", l.sub+first), nil
	case l.help:
		return append(c.args[:1:1], "help"), nil
	case first != "":
		return nil, usagef("%s stands before the subcommand %s: flags of a subcommand come behind it", words[0], first)
	case l.sub != "help" && l.sub != "version":
		if err := checkEnvironment(app.Flags, os.Environ()); err != nil {
			return nil, err
		}
	}
	line := c.args[:1:1]
	if sub != nil {
		line = append(line, sub.Name)
	}
	return append(append(append(line, l.flags...), "--"), l.operands...), nil
}

// A line is what stands behind the name of a command.
type line struct {
	all []cli.Flag // that the command has
	sub string     // its name; "": crawl

	flags, operands []string
	help, version   bool
}

// read takes apart the words of a command line.
func (l *line) read(words []string) error {
	given := map[string]bool{}
	for i := 0; i < len(words); i++ {
		word := words[i]
		if word == "--" {
			l.operands = append(l.operands, words[i+1:]...)
			return nil
		}
		if len(word) < 2 || word[0] != '-' {
			l.operands = append(l.operands, word)
			continue
		}
		name, value, joined := strings.Cut(strings.TrimPrefix(word[1:], "-"), "=")
		flag := l.lookup(name)
		switch {
		case flag != nil:
		case name == "h", name == "help":
			l.help = true
			continue
		case name == "version" && l.sub == "":
			l.version = true
			continue
		default:
			return l.unknown(name)
		}
		if given[name] && !isRepeatable(flag.Value) {
			return usagef("flag -%s is given twice; see %s", name, l.helpCommand())
		}
		given[name] = true
		if isRepeatable(flag.Value) {
			flag.EnvVars = nil // a list that is given replaces that of the environment
		}
		if b, ok := flag.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() && !joined {
			value, joined = "true", true
		}
		if !joined {
			if i++; i == len(words) {
				return usagef("flag -%s needs a value; see %s", name, l.helpCommand())
			}
			value = words[i]
		}
		l.flags = append(l.flags, "-"+name+"="+value)
	}
	return nil
}

func (l *line) lookup(name string) *cli.GenericFlag {
	for _, f := range l.all {
		if g, ok := f.(*cli.GenericFlag); ok && g.Name == name {
			return g
		}
	}
	return nil
}

// unknown refuses a flag that the command does not have.
func (l *line) unknown(name string) error {
	var names []string
	for _, f := range l.all {
		names = append(names, f.Names()[0])
	}
	if near := nearest(name, names); near != "" {
		return usagef("there is no flag -%s; did you mean -%s? See %s", name, near, l.helpCommand())
	}
	return usagef("there is no flag -%s; see %s", name, l.helpCommand())
}

func (l *line) helpCommand() string {
	if l.sub == "" {
		return "crawler -h"
	}
	return "crawler " + l.sub + " -h"
}

// isRepeatable reports whether a flag may be given several times.
func isRepeatable(value cli.Generic) bool {
	if s, ok := value.(secret); ok {
		value = s.Generic
	}
	switch value.(type) {
	case inputs, patterns, headers:
		return true
	}
	return false
}

// envPrefix begins the names of the environment variables that are flags.
const envPrefix = "URLTREE_"

func envOf(name string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// checkEnvironment refuses variables that look like a flag's and are none: a misspelt one would
// have no effect. One that is empty counts as not set, as those of flags do.
func checkEnvironment(flags []cli.Flag, environment []string) error {
	var known []string
	for _, f := range flags {
		known = append(known, envOf(f.Names()[0]))
	}
	for _, v := range environment {
		name, value, _ := strings.Cut(v, "=")
		rest, ours := strings.CutPrefix(name, envPrefix)
		if !ours || value == "" || slices.Contains(known, name) {
			continue
		}
		if near := nearest(rest, known); near != "" {
			return usagef("the environment variable %s belongs to no flag; did you mean %s? See crawler -h", name, near)
		}
		return usagef("the environment variable %s belongs to no flag; see crawler -h", name)
	}
	return nil
}

// nearest returns the word that text is most likely meant to be, "" if none is like it. The words
// may begin with the prefix of variables, which does not count.
func nearest(text string, words []string) string {
	best, most := "", 0.8 // the similarity of Jaro and Winkler, from 0 to 1
	plain := func(s string) string {
		return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(s, envPrefix)), "_", "-")
	}
	text = plain(text)
	for _, word := range words {
		like := plain(word)
		similarity := smetrics.JaroWinkler(text, like, 0.7, 4)
		if n, m := min(len(text), len(like)), max(len(text), len(like)); n > 2 && (strings.Contains(like, text) || strings.Contains(text, like)) {
			similarity = max(similarity, 0.8+0.2*float64(n)/float64(m)) // depth is max-depth
		}
		if similarity > most {
			best, most = word, similarity
		}
	}
	return best
}
