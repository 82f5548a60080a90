package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"urltree/iut"
)

// optionsCommand prints or forgets what the tree keeps of the options of its crawl.
func (c *command) optionsCommand() *cli.Command {
	var name string
	return &cli.Command{
		Name: "options", Usage: "show the options of the crawl and where they come from, or forget one",
		ArgsUsage:   "[-tree FOLDER] [-reset NAME]",
		Description: "The tree keeps the options that say what belongs to its crawl and how it behaves, once they are given to a run; a later run without them has the same. They are printed with their values and where these come from: kept, variable (of the environment), default, or fixed (when the tree was made). Of secrets the tree keeps that a run had them, and nothing else.",
		Flags:       []cli.Flag{c.flags.tree(), word("reset", &name, "none", "forget the option `NAME`: later runs have its default; only while nobody crawls")},
		Action: func(x *cli.Context) error {
			if err := arguments(x, 0); err != nil {
				return err
			}
			if err := treeThere(c.root()); err != nil {
				return err
			}
			if name != "" {
				return c.resetOption(strings.TrimLeft(name, "-"), x.App.Flags)
			}
			return c.listOptions(x.App.Flags, x.IsSet)
		},
	}
}

// listOptions prints all options that the tree keeps or fixes, and the secrets that it had.
func (c *command) listOptions(all []cli.Flag, isSet func(name string) bool) error {
	m, err := c.recall(all, isSet)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "option\tvalue\tfrom")
	for _, g := range generic(all) {
		value := g.Value.String()
		if kindOf(g.Name) == ofSecret {
			value = "(secret)"
		}
		if origin := m.origin[g.Name]; origin != "" {
			fmt.Fprintf(w, "-%s\t%s\t%s\n", g.Name, value, origin)
		}
	}
	for _, origin := range m.logins {
		fmt.Fprintf(w, "%s %s\t(secret)\tnot kept\n", seedLogin, origin)
	}
	return w.Flush()
}

// resetOption forgets what the tree keeps of an option, also of one that this version does not
// know.
func (c *command) resetOption(name string, all []cli.Flag) (err error) {
	tree, err := openExclusive(c.root())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tree.Close()) }()
	was := tree.Format().Kept
	var texts []string
	next := iut.Kept{
		Options: slices.DeleteFunc(slices.Clone(was.Options), func(option string) bool {
			of, value, _ := strings.Cut(option, "=")
			if of == name {
				texts = append(texts, value)
			}
			return of == name
		}),
		Secrets: slices.DeleteFunc(slices.Clone(was.Secrets), func(secret string) bool {
			of, _, _ := strings.Cut(secret, "=")
			return of == name
		}),
	}
	said := "is not kept"
	switch kind := kindOf(name); {
	case !next.Equal(was):
		if err := tree.Keep(next); err != nil {
			return err
		}
		said = "is forgotten"
		for _, g := range generic(all) {
			if g.Name == name && kind == ofCrawl {
				said += fmt.Sprintf(", was %s; the default is %s", shown(texts), g.DefaultText)
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
