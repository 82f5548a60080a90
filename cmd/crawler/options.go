package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"urltree/iut"
)

func (c *command) optionsCommand() *subcommand {
	var name string
	return &subcommand{
		name: "options", usage: "show the options of the crawl and where they come from, or forget one",
		about: "The tree keeps the options that say what belongs to its crawl and how it behaves, once they are given to a run; a later run without them has the same. They are printed with their values and where these come from: kept, variable (of the environment), default, or fixed (when the tree was made). Of secrets the tree keeps that a run had them, and nothing else.",
		flags: []*option{c.flags.tree(), word("reset", &name, "none", "forget the option `NAME`: later runs have its default; only while nobody crawls")},
		run: func(context.Context, []string) error {
			if err := treeThere(c.root()); err != nil {
				return err
			}
			if name != "" {
				return c.resetOption(strings.TrimLeft(name, "-"))
			}
			return c.listOptions()
		},
	}
}

// listOptions prints all options that the tree keeps or fixes, and the secrets that it had.
func (c *command) listOptions() error {
	m, err := c.recall()
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "option\tvalue\tfrom")
	for _, o := range c.flags.all {
		value := o.value.String()
		if o.kind == ofSecret {
			value = "(secret)"
		}
		if origin := m.origin[o.name]; origin != "" {
			fmt.Fprintf(w, "-%s\t%s\t%s\n", o.name, value, origin)
		}
	}
	for _, origin := range m.logins {
		fmt.Fprintf(w, "%s %s\t(secret)\tnot kept\n", seedLogin, origin)
	}
	return w.Flush()
}

// resetOption forgets what the tree keeps of an option, be it unknown to this version.
func (c *command) resetOption(name string) (err error) {
	tree, err := iut.Open(c.root(), iut.Options{}) // which is there
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tree.Close()) }()
	was := tree.Format().Kept
	var texts []string // of what is forgotten
	without := func(list []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(kept string) bool {
			of, value, _ := strings.Cut(kept, "=")
			if of == name {
				texts = append(texts, value)
			}
			return of == name
		})
	}
	next := iut.Kept{Options: without(was.Options), Secrets: without(was.Secrets)}
	said := "is not kept"
	switch kind := c.flags.kindOf(name); {
	case !next.Equal(was):
		if err := tree.Keep(next); err != nil {
			return err
		}
		said = "is forgotten"
		for _, o := range c.flags.all {
			if o.name == name && kind == ofCrawl {
				said += fmt.Sprintf(", was %s; the default is %s", shown(texts), o.usual)
			}
		}
	case kind == 0:
		return usagef("there is no option -%s; see crawler options", name)
	case kind == ofTree:
		return usagef("-%s is fixed since the tree was made", name)
	}
	if name != seedLogin {
		name = "-" + name
	}
	_, err = fmt.Fprintf(c.stdout, "%s %s\n", name, said)
	return err
}
