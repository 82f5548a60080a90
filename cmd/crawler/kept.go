package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/urfave/cli/v2"

	"urltree/crawler/weburl"
	"urltree/iut"
)

// A kind says what becomes of an option after the run that it was given to.
type kind int

const (
	ofRun    kind = iota + 1 // nothing
	ofCrawl                  // FORMAT keeps it for later runs
	ofPlace                  // nothing: it names a file or a folder
	ofSecret                 // FORMAT keeps that it was given, not its value
	ofTree                   // it is fixed when the tree is made
)

// kindOf returns the kind of a flag of the crawl, 0 if there is none of that name.
func kindOf(name string) kind {
	switch name {
	case "scope", "include", "exclude", "max-depth", "accept", "assets", "nofollow", "robots", "sitemaps",
		"max-size", "oversize", "max-url-length", "skip-duplicates", "edges", "allow-private",
		"budget-domain", "budget-host", "budget-prefix", "budget-query", "budget-repeat", "budget-depth", "max-held",
		"order", "score", "user-agent", "delay", "per-host", "per-ip":
		return ofCrawl
	case "time", "max-pages", "max-bytes", "fail-on",
		"queue", "queues", "pick", "max-crawl-delay", "max-wait", "retries", "timeout", "first-byte", "min-rate", "limit-rate",
		"4", "6", "insecure", "http1", "quiet", "verbose", "log-format", "pprof",
		"crawlers", "downloads", "buffers", "buffer-size", "buffer-bytes", "memory-bodies", "frontier-memory", "seen-memory",
		"flush-interval", "min-free", "min-free-inodes", "sync":
		return ofRun
	case "input", "output", "tree":
		return ofPlace
	case "header", "user", "password", "cookies", "proxy", "bind", seedLogin:
		return ofSecret
	case "strip-params", "strip-www":
		return ofTree
	}
	return 0
}

// seedLogin is the name by which FORMAT keeps that an argument had a user name and a password. It
// is no flag.
const seedLogin = "seed-login"

// A keptValue is the value of an option of kind ofCrawl.
type keptValue interface {
	cli.Generic
	texts() []string // what Set takes to make the value again, one text for each call
}

func (v choice) texts() []string  { return []string{*v.p} }
func (v text) texts() []string    { return []string{*v.p} }
func (v size) texts() []string    { return []string{sizeText(*v.p)} }
func (v toggle) texts() []string  { return []string{strconv.FormatBool(*v.p)} }
func (v enabled) texts() []string { return []string{strconv.FormatBool(!*v.off)} }

func (v number) texts() []string {
	if *v.p < v.least { // unset by an empty text
		return nil
	}
	return []string{strconv.FormatInt(*v.p, 10)}
}

func (v duration) texts() []string {
	if *v.p == 0 && v.word != "" {
		return []string{v.word}
	}
	return []string{v.String()}
}

func (v patterns) texts() []string {
	var list []string
	for _, re := range *v.p {
		list = append(list, re.String())
	}
	return list
}

func (v types) texts() []string {
	if len(*v.p) == 0 {
		return nil
	}
	return []string{strings.Join(*v.p, ",")}
}

// A memory is what FORMAT keeps of the options of a crawl: before a run, and from it on.
type memory struct {
	root      string // of the tree
	was, next iut.Kept
	origin    map[string]string // of the options that the tree keeps, fixes or had; a flag counts as a variable

	dangers, changes, missing []string // see notices
}

// recall reads what the tree keeps of the options, if there is one, and applies it to those that
// isSet reports not to be given. So a flag comes before a variable, a variable before what is kept,
// and that before the default.
func (c *command) recall(all []cli.Flag, isSet func(name string) bool) (*memory, error) {
	m := &memory{root: c.root(), origin: map[string]string{}}
	format, err := iut.ReadFormat(m.root)
	switch {
	case err == nil:
		if err := c.flags.takeStrip(m.root, format.Strip, isSet); err != nil {
			return nil, err
		}
	case errors.Is(err, iut.ErrFormat), errors.Is(err, iut.ErrOlder), errors.Is(err, iut.ErrTree):
		return nil, err
	default: // there is no tree, or the crawl meets the error again
	}
	m.was = format.Kept
	kept, err := m.texts()
	if err != nil {
		return nil, err
	}
	for _, g := range generic(all) {
		switch kindOf(g.Name) {
		case ofTree:
			m.origin[g.Name] = "fixed"
		case ofSecret:
			m.secret(g.Name, isSet(g.Name))
		case ofCrawl:
			if err := m.option(g, kept[g.Name], isSet(g.Name)); err != nil {
				return nil, err
			}
		}
	}
	m.secret(seedLogin, isSet(seedLogin))
	return m, nil
}

// generic returns the flags but that of help, which package cli adds.
func generic(all []cli.Flag) []*cli.GenericFlag {
	var list []*cli.GenericFlag
	for _, f := range all {
		if g, ok := f.(*cli.GenericFlag); ok {
			list = append(list, g)
		}
	}
	return list
}

// texts returns the values of each option that is kept.
func (m *memory) texts() (map[string][]string, error) {
	kept := map[string][]string{}
	for _, option := range m.was.Options {
		name, value, ok := strings.Cut(option, "=")
		if !ok || kindOf(name) != ofCrawl {
			return nil, m.damaged(name, errors.New("this version has no such option to keep"))
		}
		kept[name] = append(kept[name], value)
	}
	for _, name := range m.was.Secrets {
		if kindOf(name) != ofSecret {
			return nil, m.damaged(name, errors.New("this version has no such secret"))
		}
	}
	return kept, nil
}

// damaged is the error for an option that FORMAT keeps and that cannot be used.
func (m *memory) damaged(name string, err error) error {
	return fmt.Errorf("%w: kept option -%s: %w; %s forgets it", iut.ErrFormat, name, err,
		commandLine([]string{"crawler", "options", "-tree", m.root, "-reset", name}))
}

// option settles the value of an option of the crawl, for which kept is what FORMAT has.
func (m *memory) option(g *cli.GenericFlag, kept []string, given bool) error {
	v := g.Value.(keptValue)
	switch {
	case given:
		m.origin[g.Name] = "variable"
		if now := v.texts(); len(kept) > 0 && !slices.Equal(kept, now) {
			m.changes = append(m.changes, fmt.Sprintf("-%s %s from now on, was %s", g.Name, cmp.Or(shown(now), g.DefaultText), shown(kept)))
		}
	case len(kept) > 0:
		m.origin[g.Name] = "kept"
		for _, text := range kept {
			if err := v.Set(text); err != nil {
				return m.damaged(g.Name, fmt.Errorf("%q: %w", text, err))
			}
		}
		switch {
		case g.Name == "robots" && kept[0] == "ignore":
			m.dangers = append(m.dangers, "-robots ignore")
		case g.Name == "allow-private" && kept[0] == "true":
			m.dangers = append(m.dangers, "-allow-private")
		}
	default:
		m.origin[g.Name] = "default"
		return nil
	}
	for _, text := range v.texts() {
		m.next.Options = append(m.next.Options, g.Name+"="+text)
	}
	return nil
}

// shown writes the values of an option in one line, as a shell takes them where it can.
func shown(texts []string) string {
	words := make([]string, len(texts))
	for i, text := range texts {
		if words[i] = commandLine([]string{text}); strings.ContainsFunc(text, unicode.IsControl) {
			words[i] = strconv.Quote(text)
		}
	}
	return strings.Join(words, " ")
}

// secret settles what FORMAT keeps of an option whose value it must not have.
func (m *memory) secret(name string, given bool) {
	switch {
	case given:
		m.origin[name] = "variable"
	case slices.Contains(m.was.Secrets, name):
		m.origin[name] = "not kept"
		m.missing = append(m.missing, "-"+name)
	default:
		return
	}
	m.next.Secrets = append(m.next.Secrets, name)
}

// notices returns what a run says first, a line each.
func (m *memory) notices() []string {
	var lines []string
	if len(m.dangers) > 0 {
		lines = append(lines, fmt.Sprintf("kept from an earlier run: %s; crawler options -reset NAME forgets it", strings.Join(m.dangers, " ")))
	}
	lines = append(lines, m.changes...)
	if len(m.missing) > 0 {
		had := strings.Replace(strings.Join(m.missing, " "), "-"+seedLogin, "a login in a URL ("+seedLogin+")", 1)
		lines = append(lines, fmt.Sprintf("an earlier run had %s, which the tree does not keep: give it again, or crawler options -reset NAME ends this reminder", had))
	}
	return lines
}

// keep is for [crawler.Options]: it keeps the options of this run, and prints the notices once the
// tree is its own.
func (m *memory) keep(tell func(line string)) func(iut.Kept) (iut.Kept, error) {
	return func(was iut.Kept) (iut.Kept, error) {
		if !was.Equal(m.was) {
			return was, fmt.Errorf("%w: its options have just been changed; start the crawl again", iut.ErrBusy)
		}
		for _, line := range m.notices() {
			tell(line)
		}
		return m.next, nil
	}
}

// tell prints a line about the run, unless errors only are to be printed.
func (c *command) tell(line string) {
	switch {
	case c.flags.quiet:
	case c.flags.format == "json":
		c.logger(c.stderr).Warn(line)
	default:
		fmt.Fprintln(c.stderr, "crawler:", line)
	}
}

// takeStrip sets what is stripped from URLs to what the tree was made with, and refuses flags that
// differ from it.
func (f *flags) takeStrip(root, made string, isSet func(name string) bool) error {
	has, err := weburl.ParseStrip(made)
	if err != nil {
		return fmt.Errorf("%w: strip: %w", iut.ErrFormat, err)
	}
	differs := func(how, flag string) error {
		return usagef("%s was created %s %s: drop the flag or choose another -tree", root, how, flag)
	}
	if isSet("strip-www") && f.strip.WWW != has.WWW {
		if has.WWW {
			return differs("with", "-strip-www")
		}
		return differs("without", "-strip-www")
	}
	if isSet("strip-params") && !slices.Equal(f.strip.Params, has.Params) {
		if len(has.Params) > 0 {
			return differs("with", "-strip-params "+strings.Join(has.Params, ","))
		}
		return differs("without", "-strip-params")
	}
	f.strip = has
	return nil
}
