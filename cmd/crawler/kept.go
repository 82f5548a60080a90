package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"urltree/crawler/weburl"
	"urltree/internal/words"
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

// seedLogin is the name by which FORMAT keeps that a seed had a user name and a password:
// seed-login=ORIGIN. It is no flag.
const seedLogin = "seed-login"

// A keptValue is the value of an option of kind ofCrawl.
type keptValue interface {
	value
	texts() []string // what Set takes to make the value again, one text for each call
}

func (v choice) texts() []string { return []string{*v.p} }
func (v text) texts() []string   { return []string{*v.p} }
func (v toggle) texts() []string { return []string{strconv.FormatBool(*v.p)} }

func (v amount[N]) texts() []string {
	switch {
	case *v.p == v.unset && v.word != "":
		return []string{v.word}
	case *v.p == v.unset && v.unset < v.least: // by an empty text
		return nil
	}
	return []string{v.in.text(int64(max(*v.p, 0)))}
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
	ran       bool              // there is a tree
	origin    map[string]string // of the options that the tree keeps, fixes or had; a flag counts as a variable

	dangers          string   // what each run says first; "" for nothing
	changes, missing []string // see keep
	logins           []string // origins for which seeds of earlier runs had a login, sorted
	given            []string // those of this run, sorted
}

// recall applies what the tree keeps of the options to those that are not given. So a flag comes
// before a variable, that before what is kept, and that before the default.
func (c *command) recall() (*memory, error) {
	m := &memory{root: c.root(), origin: map[string]string{}}
	format, err := iut.ReadFormat(m.root)
	switch {
	case err == nil:
		if err := cmp.Or(c.flags.takeStrip(m.root, format.Strip), c.flags.takeStore(m.root, format)); err != nil {
			return nil, err
		}
	case errors.Is(err, iut.ErrFormat), errors.Is(err, iut.ErrOlder), errors.Is(err, iut.ErrTree):
		return nil, err
	default: // there is no tree, or the crawl meets the error again
	}
	m.was, m.ran = format.Kept, err == nil
	kept, err := m.texts(c.flags)
	if err != nil {
		return nil, err
	}
	defaults := newFlags().all
	for i, o := range c.flags.all {
		switch o.kind {
		case ofTree:
			m.origin[o.name] = "fixed"
		case ofSecret:
			m.secret(o.name, o.given)
		case ofCrawl:
			if err := m.option(o, kept[o.name], defaults[i]); err != nil {
				return nil, err
			}
		}
	}
	return m, nil
}

// texts returns the values of each option that is kept.
func (m *memory) texts(f *flags) (map[string][]string, error) {
	kept := map[string][]string{}
	for _, option := range m.was.Options {
		name, value, ok := strings.Cut(option, "=")
		if !ok || f.kindOf(name) != ofCrawl {
			return nil, m.damaged(name, errors.New("this version has no such option to keep"))
		}
		kept[name] = append(kept[name], value)
	}
	for _, secret := range m.was.Secrets {
		name, origin, _ := strings.Cut(secret, "=")
		switch {
		case f.kindOf(name) != ofSecret:
			return nil, m.damaged(name, errors.New("this version has no such secret"))
		case name == seedLogin:
			m.logins = append(m.logins, origin)
		}
	}
	return kept, nil
}

// damaged is the error for an option that FORMAT keeps and that cannot be used.
func (m *memory) damaged(name string, err error) error {
	return fmt.Errorf("%w: kept option -%s: %w; %s forgets it", iut.ErrFormat, name, err,
		commandLine([]string{"crawler", "options", "-tree", m.root, "-reset", name}))
}

// option settles an option of the crawl: kept is what FORMAT has, usual the flag by default.
func (m *memory) option(o *option, kept []string, usual *option) error {
	v := o.value.(keptValue)
	switch {
	case o.given:
		m.origin[o.name] = "variable"
		was := kept
		if len(kept) == 0 {
			was = usual.value.(keptValue).texts()
		}
		if now := v.texts(); m.ran && !slices.Equal(was, now) {
			m.changes = append(m.changes, fmt.Sprintf("-%s %s from now on, was %s", o.name, cmp.Or(shown(now), o.usual), cmp.Or(shown(was), o.usual)))
		}
	case len(kept) > 0:
		m.origin[o.name] = "kept"
		for _, text := range kept {
			if err := v.Set(text); err != nil {
				return m.damaged(o.name, fmt.Errorf("%q: %w", text, err))
			}
		}
		switch {
		case o.name == "robots" && kept[0] == "ignore":
			m.dangers += " -robots ignore"
		case o.name == "allow-private" && kept[0] == "true":
			m.dangers += " -allow-private"
		}
	default:
		m.origin[o.name] = "default"
		return nil
	}
	for _, text := range v.texts() {
		m.next.Options = append(m.next.Options, o.name+"="+text)
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

// missingLogins returns a line about the origins for which earlier runs had a login in a seed and
// this one has none, "" if there are none. It is for the time when all seeds are read.
func (m *memory) missingLogins() string {
	lack := slices.DeleteFunc(slices.Clone(m.logins), func(origin string) bool {
		_, given := slices.BinarySearch(m.given, origin)
		return given
	})
	if len(lack) == 0 {
		return ""
	}
	more := ""
	if n := len(lack) - mostNamed; n > 0 {
		lack, more = lack[:mostNamed], fmt.Sprintf(" and %s", words.Count(n, "other origin"))
	}
	return fmt.Sprintf("an earlier run had a login in a seed for %s%s, which the tree does not keep: give it again, or crawler options -reset %s ends this reminder",
		strings.Join(lack, " "), more, seedLogin)
}

// keep is for [crawler.Options]: it keeps those of this run, and prints what is new of them.
func (m *memory) keep(c *command) func(was iut.Kept, logins []string) (iut.Kept, error) {
	notices := sync.OnceFunc(func() {
		c.warnFirst()
		for _, line := range m.changes {
			c.tell(line)
		}
		if len(m.missing) > 0 {
			c.tell(fmt.Sprintf("an earlier run had %s, which the tree does not keep: give it again, or crawler options -reset NAME ends this reminder", strings.Join(m.missing, " ")))
		}
	})
	return func(was iut.Kept, logins []string) (iut.Kept, error) {
		if !was.Equal(m.was) {
			return was, fmt.Errorf("%w: its options have just been changed; start the crawl again", iut.ErrBusy)
		}
		notices()
		m.given = logins
		next := iut.Kept{Options: m.next.Options, Secrets: slices.Clone(m.next.Secrets)}
		all := append(slices.Clone(m.logins), logins...)
		slices.Sort(all)
		for _, origin := range slices.Compact(all) {
			next.Secrets = append(next.Secrets, seedLogin+"="+origin)
		}
		m.was = next
		return next, nil
	}
}

// warnFirst prints once, also with -quiet, the dangerous options that an earlier run has left.
func (c *command) warnFirst() {
	if c.dangers == "" {
		return
	}
	c.print(fmt.Sprintf("kept from an earlier run:%s; crawler options -reset NAME forgets it", c.dangers))
	c.dangers = ""
}

// tell prints a line about the run, if there is one and not only errors are to be printed.
func (c *command) tell(line string) {
	if line != "" && !c.flags.quiet {
		c.print(line)
	}
}

func (c *command) print(line string) {
	if c.flags.format == "json" {
		c.loggerFrom(slog.LevelWarn, c.stderr).Warn(line)
		return
	}
	fmt.Fprintln(c.stderr, "crawler:", line)
}

// takeStrip takes over what the tree was made to strip from URLs, and refuses other flags.
func (f *flags) takeStrip(root, made string) error {
	has, err := weburl.ParseStrip(made)
	if err != nil {
		return fmt.Errorf("%w: strip: %w", iut.ErrFormat, err)
	}
	differs := func(how, flag string) error {
		return usagef("%s was created %s %s: drop the flag or choose another -tree", root, how, flag)
	}
	if f.isSet("strip-www") && f.strip.WWW != has.WWW {
		if has.WWW {
			return differs("with", "-strip-www")
		}
		return differs("without", "-strip-www")
	}
	if f.isSet("strip-params") && !slices.Equal(f.strip.Params, has.Params) {
		if len(has.Params) > 0 {
			return differs("with", "-strip-params "+strings.Join(has.Params, ","))
		}
		return differs("without", "-strip-params")
	}
	f.strip = has
	return nil
}

// takeStore sets where pages are to what the tree was made with, and refuses a flag that differs.
func (f *flags) takeStore(root string, made iut.Format) error {
	has := cmp.Or(made.Store, iut.StoreFolders)
	if f.isSet("store") && f.store != has {
		return usagef("%s has the store %s: drop the flag, choose another -tree, or change it by crawler convert", root, has)
	}
	f.store = has
	return nil
}
