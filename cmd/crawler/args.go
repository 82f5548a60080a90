package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/xrash/smetrics"

	"urltree/crawler/weburl"
)

// A subcommand is what stands behind the name of the program; the one without a name is the crawl.
type subcommand struct {
	name, usage string
	args        string // how its flags are given; "": one beside the other
	operand     string // what else it takes, in brackets if that may be left out; "": nothing
	about       string
	flags       []*option
	run         func(ctx context.Context, operands []string) error
}

// filesOperand is the operand of a subcommand that takes one file or more.
const filesOperand = "FILE..."

// seedsOperand is what the subcommand seeds takes.
const seedsOperand = "list|remove [URL...]"

// clusterOperand is what the subcommand cluster takes.
const clusterOperand = "status|seeds FILE|drain NODE|reassign NODE"

const (
	helpName    = "help" // its operands are subcommands
	versionName = "version"
)

func (s *subcommand) call() string {
	words := []string{s.name}
	if s.args != "" {
		words = append(words, s.args)
	} else {
		for _, o := range s.flags {
			e := o.entry()
			words = append(words, "["+strings.TrimSpace(e.name+" "+e.value)+"]")
		}
	}
	return strings.TrimSpace(strings.Join(words, " ") + " " + s.operand)
}

// help returns the command that prints the help text.
func (s *subcommand) help() string {
	if s.name == "" {
		return "crawler -h"
	}
	return "crawler " + s.name + " -h"
}

func (s *subcommand) check(operands []string) error {
	most, takes := 1, "one argument"
	switch {
	case s.operand == "":
		most, takes = 0, "no argument"
	case s.operand == filesOperand, s.operand == treesOperand, s.operand == seedsOperand, s.operand == clusterOperand:
		most = len(operands)
	}
	switch {
	case len(operands) > most:
		return usagef("%s takes %s, got %q as well; usage: crawler %s", s.name, takes, weburl.HideLogin(operands[most]), s.call())
	case s.operand == "URL" || s.operand == "[URL-PREFIX]":
		switch url := first(operands); url {
		case "", "http://", "https://":
		default:
			if _, err := weburl.SeedURL(url); err != nil {
				return usagef("%q: %s; usage: crawler %s", weburl.HideLogin(url), cause(err), s.call())
			}
		}
	}
	if s.operand == treesOperand && len(operands) < 2 {
		return usagef("%s takes a new folder and the trees that are to be united; usage: crawler %s", s.name, s.call())
	}
	if s.operand != "" && s.operand[0] != '[' && first(operands) == "" {
		return usagef("%s takes a %s; usage: crawler %s", s.name, strings.TrimSuffix(s.operand, "..."), s.call())
	}
	return nil
}

// first returns the only operand of a subcommand, "" if there is none.
func first(operands []string) string {
	if len(operands) == 0 {
		return ""
	}
	return operands[0]
}

// parse reads the command line, in which flags may stand anywhere before a "--", and sets the
// flags, those of the crawl first by their variables in the environment. It returns what is to run,
// with its operands. Flags that do not exist are refused, as are those given twice that are not
// repeatable, and variables that belong to no flag.
func (c *command) parse(environment []string) (sub *subcommand, operands []string, err error) {
	words := c.args[1:]
	l := line{sub: c.crawling}
	if len(words) > 0 {
		switch sub := c.subcommand(words[0]); {
		case sub != nil:
			l.sub, words = sub, words[1:]
		case words[0] != "" && words[0][0] != '-' && !isSeedLike(words[0]):
			return nil, nil, c.notSeed(words[0])
		}
	}
	if err := l.read(words); err != nil && !l.help {
		return nil, nil, err
	}
	c.set, c.operands = l.set, l.operands
	var behind *subcommand // a subcommand that does not stand first
	if l.sub == c.crawling && len(l.operands) > 0 {
		behind = c.subcommand(l.operands[0])
	}
	switch {
	case l.version:
		return c.subcommand(versionName), nil, nil
	case l.help:
		return c.subcommand(helpName), []string{cmp.Or(behind, l.sub).name}, nil
	case behind != nil:
		return nil, nil, usagef("%s stands before the subcommand %s: flags of a subcommand come behind it", words[0], behind.name)
	}
	if l.sub.name != helpName && l.sub.name != versionName {
		err = c.flags.setByEnvironment(environment, l.set)
	}
	for _, s := range l.set {
		what := fmt.Sprintf("invalid value %q for flag -%s", s.value, s.option.name)
		if s.option.isBool() {
			what = fmt.Sprintf("invalid boolean value %q for -%s", s.value, s.option.name)
		}
		err = cmp.Or(err, s.option.set(s.value, what, l.sub))
	}
	if err == nil && l.sub != c.crawling {
		err = l.sub.check(l.operands)
	}
	return l.sub, l.operands, err
}

// A setting is a flag of a command line with its value.
type setting struct {
	option *option
	value  string
}

// A line is what stands behind the name of a command.
type line struct {
	sub *subcommand

	set           []setting
	operands      []string
	help, version bool
}

func (l *line) read(words []string) error {
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
		at := slices.IndexFunc(l.sub.flags, func(o *option) bool { return o.name == name })
		switch {
		case at >= 0:
		case name == "h", name == "help":
			l.help = true
			continue
		case name == "version" && l.sub.name == "":
			l.version = true
			continue
		default:
			return l.unknown(name)
		}
		o := l.sub.flags[at]
		if !o.isRepeatable() && slices.ContainsFunc(l.set, func(s setting) bool { return s.option == o }) {
			return usagef("flag -%s is given twice; see %s", name, l.sub.help())
		}
		switch {
		case joined:
		case o.isBool():
			value = "true"
		default:
			if i++; i == len(words) {
				return usagef("flag -%s needs a value; see %s", name, l.sub.help())
			}
			value = words[i]
		}
		l.set = append(l.set, setting{o, value})
	}
	return nil
}

func (l *line) unknown(name string) error {
	if near := nearest(name, l.sub.flags, func(o *option) string { return o.name }); near != "" {
		return usagef("there is no flag -%s; did you mean -%s? See %s", name, near, l.sub.help())
	}
	return usagef("there is no flag -%s; see %s", name, l.sub.help())
}

// set sets the flag. The error begins with what the value is, unless that may be a secret.
func (o *option) set(value, what string, of *subcommand) error {
	o.given = true
	err := o.value.Set(value)
	if err == nil {
		return nil
	}
	if o.kind == ofSecret {
		what = "-" + o.name
	}
	return usagef("%s: %w; see %s", what, err, of.help())
}

// envPrefix begins the names of the environment variables that are flags.
const envPrefix = "URLTREE_"

func envOf(name string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// setByEnvironment sets flags by their variables. A list that the command line gives replaces that
// of the environment. Variables that look like a flag's and are none are refused: a misspelt one
// would have no effect. One that is empty counts as not set.
func (f *flags) setByEnvironment(environment []string, byLine []setting) error {
	nameOf := func(o *option) string { return envOf(o.name) }
	for _, variable := range environment {
		name, value, _ := strings.Cut(variable, "=")
		rest, ours := strings.CutPrefix(name, envPrefix)
		if !ours || value == "" {
			continue
		}
		at := slices.IndexFunc(f.all, func(o *option) bool { return nameOf(o) == name })
		if at < 0 {
			if near := nearest(rest, f.all, nameOf); near != "" {
				return usagef("the environment variable %s belongs to no flag; did you mean %s? See crawler -h", name, near)
			}
			return usagef("the environment variable %s belongs to no flag; see crawler -h", name)
		}
		o := f.all[at]
		if o.isRepeatable() && slices.ContainsFunc(byLine, func(s setting) bool { return s.option == o }) {
			continue
		}
		what := fmt.Sprintf("could not parse %q from environment variable %q as value for flag %s", value, name, o.name)
		if err := o.set(value, what, &subcommand{}); err != nil {
			return err
		}
	}
	return nil
}

// nearest returns the name that text is most likely meant to be, "" if none is like it. Names may
// begin with the prefix of variables, which does not count.
func nearest[T any](text string, list []T, nameOf func(T) string) string {
	best, most := "", 0.8 // the similarity of Jaro and Winkler, from 0 to 1
	plain := func(s string) string {
		return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(s, envPrefix)), "_", "-")
	}
	text = plain(text)
	for _, named := range list {
		name := nameOf(named)
		like := plain(name)
		similarity := smetrics.JaroWinkler(text, like, 0.7, 4)
		if n, m := min(len(text), len(like)), max(len(text), len(like)); n > 2 && (strings.Contains(like, text) || strings.Contains(text, like)) {
			similarity = max(similarity, 0.8+0.2*float64(n)/float64(m)) // depth is max-depth
		}
		if similarity > most {
			best, most = name, similarity
		}
	}
	return best
}
