package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"time"

	"urltree/crawler"
	"urltree/crawler/weburl"
	"urltree/internal/repair"
	"urltree/internal/words"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// forgetCommand removes what a tree has of some URLs, and keeps them out.
func (c *command) forgetCommand() *subcommand {
	f := &forgetting{command: c, gone: -1}
	host := plainFlag("host", text{&f.host}, "forget all URLs of this `HOST`, of any scheme and port")
	file := plainFlag("url-file", text{&f.file}, "forget the URLs in this `FILE`, read as a seed file; - is standard input")
	return &subcommand{
		name: "forget", usage: "remove pages and all that is known of URLs, and keep them out", operand: "[URL-PREFIX]",
		about: "What ls and export list with the same URL-PREFIX goes: pages, records, seeds, sitemaps, robots.txt answers, edges, and hosts that have nothing left; and no record names it any more as its source. From then on no link, seed, redirect or sitemap brings it back, and nothing asks for it, until -undo. It is done without a question: -dry-run says before what it would remove. " +
			"Killed or stopped, the same command goes on, also without an argument; until then whatever else would write to the tree refuses. In a tree with -store warc the bytes stay in the WARC files until crawler compact. The list of what is forgotten is forgotten.txt in the tree.",
		flags: []*option{
			c.flags.tree(), host, file,
			plainFlag("gone", amount[time.Duration]{in: times, p: &f.gone, unset: -1, none: "any"}, "forget pages, of those below URL-PREFIX if there is one, that the server has said for this `TIME` not to have (404, 410), as crawler changes shows them: 30d"),
			plainFlag("dry-run", toggle{&f.dry}, "say what would be removed, and change nothing"),
			plainFlag("list", toggle{&f.list}, "print what is forgotten; also while a crawl goes on"),
			plainFlag("undo", toggle{&f.undo}, "keep it out no longer; what was removed does not come back by itself"),
		},
		run: f.run,
	}
}

// A forgetting is one call of forget.
type forgetting struct {
	*command
	prefix          string
	host, file      string
	gone            time.Duration // -1: pages need not be gone
	dry, list, undo bool
}

func (f *forgetting) run(ctx context.Context, operands []string) error {
	prefix := first(operands)
	f.prefix = prefix
	named := 0
	for _, text := range []string{prefix, f.host, f.file} {
		if text != "" {
			named++
		}
	}
	if err := treeThere(f.root()); err != nil {
		return err
	}
	format, err := iut.ReadFormat(f.root())
	if err != nil {
		return err
	}
	switch {
	case named > 1:
		return usagef("forget takes one of URL-PREFIX, -host and -url-file at a time")
	case f.gone >= 0 && (f.host != "" || f.file != "" || f.undo):
		return usagef("forget -gone takes a URL-PREFIX and -dry-run alone")
	case f.list && (named > 0 || f.undo || f.dry || f.gone >= 0):
		return usagef("forget -list prints all that is forgotten, and takes nothing else")
	case f.list:
		return f.look(ctx, "forgotten")
	case named == 0 && f.gone < 0 && (f.undo || f.dry || !format.Forgetting):
		return usagef("forget takes a URL-PREFIX, -host, -url-file or -gone")
	case f.undo && f.dry:
		return usagef("forget -undo removes nothing: there is no -dry-run of it")
	}
	entries, err := f.entries(prefix, format)
	if err != nil {
		return err
	}
	switch {
	case f.undo:
		return f.takeBack(ctx, entries)
	case f.dry:
		return f.show(ctx, entries)
	}
	return f.forget(ctx, entries)
}

// entries returns what the command line names.
func (f *forgetting) entries(prefix string, format iut.Format) (iter.Seq2[iut.ForgottenEntry, error], error) {
	strip, err := weburl.ParseStrip(format.Strip)
	if err != nil {
		return nil, err
	}
	one := func(kind, text string) iter.Seq2[iut.ForgottenEntry, error] {
		return func(yield func(iut.ForgottenEntry, error) bool) {
			yield(iut.ForgottenEntry{Kind: kind, Text: text}, nil)
		}
	}
	switch {
	case prefix == "http://" || prefix == "https://":
		return nil, usagef("%q names too much: a URL-PREFIX that is forgotten has a host", prefix)
	case prefix != "" && !isSeedLike(prefix): // such as list, without its -
		return nil, usagef("%q: no URL; the host of this name is http://%s/", prefix, prefix)
	case prefix != "":
		url, err := weburl.SeedURL(prefix)
		return one(iut.ForgottenPrefix, strip.Apply(url)), err // the parser of arguments has looked at it
	case f.host != "":
		url, err := weburl.SeedURL("http://" + f.host + "/")
		if err != nil || record.Origin(url)+"/" != url || record.Host(url) != strings.TrimPrefix(record.Origin(url), "http://") || strings.Contains(f.host, "/") {
			return nil, usagef("-host %q: not a host name", f.host)
		}
		return one(iut.ForgottenHost, record.Host(strip.Apply(url))), nil
	case f.file == "":
		return func(func(iut.ForgottenEntry, error) bool) {}, nil
	}
	return f.urlFile(f.file, strip)
}

// goneSince returns the pages that are gone for so long, if only those are to be forgotten, else
// entries.
func (f *forgetting) goneSince(ctx context.Context, tree *iut.Tree, index *storage.Index, entries iter.Seq2[iut.ForgottenEntry, error]) (iter.Seq2[iut.ForgottenEntry, error], error) {
	if f.gone < 0 {
		return entries, nil
	}
	in, err := crawler.NewInspector(tree, index)
	if err != nil {
		return nil, err
	}
	_, below, err := in.Below(f.prefix, "forget -gone TIME [URL-PREFIX]")
	latest := time.Now().Add(-f.gone).Unix()
	return func(yield func(iut.ForgottenEntry, error) bool) {
		ended := errors.New("no more are wanted")
		err := index.Revisits().Looks(ctx, nil, func(url string, l *record.Look) error {
			if l.Gone() && l.Since <= latest && below(url) && !yield(iut.ForgottenEntry{Kind: iut.ForgottenURL, Text: url}, nil) {
				return ended
			}
			return nil
		})
		if err != nil && err != ended {
			yield(iut.ForgottenEntry{}, iut.DiskError("index", err))
		}
	}, err
}

// urlFile returns the URLs of a -url-file, which is read once.
func (c *command) urlFile(name string, strip weburl.Strip) (iter.Seq2[iut.ForgottenEntry, error], error) {
	urls, err := c.urls(name, "-url-file", func(text string) (string, error) { return canonical(text, strip) })
	return func(yield func(iut.ForgottenEntry, error) bool) {
		for url, err := range urls {
			if !yield(iut.ForgottenEntry{Kind: iut.ForgottenURL, Text: url}, err) {
				return
			}
		}
	}, err
}

// urls returns what of returns for each URL of a file, - is standard input, which is read once, as
// a seed file is. Lines that are none are told; an error, which says what the file was for, is the
// last, and there is one if no line is a URL, but some are not empty.
func (c *command) urls(name, what string, of func(text string) (string, error)) (iter.Seq2[string, error], error) {
	in, shown := c.stdin, "standard input"
	if name != "-" {
		file, err := os.Open(name) // open until the process ends
		if err != nil {
			return nil, usagef("%s: %w", what, err)
		}
		in, shown = file, name
	}
	skipped, good := 0, false
	bad := func(line int, text string, err error) {
		if skipped++; skipped <= 10 {
			fmt.Fprintf(c.stderr, "crawler: %s:%d: skipped %.80q: %s\n", shown, line, text, cause(err))
		}
	}
	return func(yield func(string, error) bool) {
		for text, err := range crawler.ScanSeeds(in, bad) {
			if err != nil {
				yield("", usagef("%s %s: %w", what, name, err))
				return
			}
			good = true
			url, err := of(text)
			if !yield(url, err) || err != nil {
				return
			}
		}
		if skipped > 0 && !good {
			yield("", usagef("%s %s: no line of it is a URL", what, name))
		}
	}, nil
}

// canonical returns the canonical URL of what a person wrote.
func canonical(text string, strip weburl.Strip) (string, error) {
	url, err := weburl.SeedURL(text)
	if err != nil {
		return "", usagef("%q: %s", weburl.HideLogin(text), cause(err))
	}
	return strip.Apply(url), nil
}

// takeBack takes entries off the list. Pages that are left may name what was kept out, so the next
// run reads them again.
func (f *forgetting) takeBack(ctx context.Context, entries iter.Seq2[iut.ForgottenEntry, error]) error {
	return withIndex(f.root(), iut.Options{}, storage.Options{}, func(tree *iut.Tree, index *storage.Index) error {
		if err := index.Marks().Relink(); err != nil {
			return err
		}
		n, err := tree.Remember(ctx, entries)
		if err != nil {
			return err
		}
		text := "kept out no longer: " + words.Count(n, "line") + " of forgotten.txt; the next run reads the stored pages again for links\n"
		if n == 0 {
			text = "nothing of that is on the list; crawler forget -list prints it\n"
		}
		_, err = io.WriteString(f.stdout, text)
		return err
	})
}

// show says what would be removed.
func (f *forgetting) show(ctx context.Context, entries iter.Seq2[iut.ForgottenEntry, error]) error {
	return withIndex(f.root(), iut.Options{ReadOnly: true}, storage.Options{ReadOnly: true}, func(tree *iut.Tree, index *storage.Index) error {
		entries, err := f.goneSince(ctx, tree, index, entries)
		if err != nil {
			return err
		}
		list, err := tree.WithForgotten(ctx, entries)
		if err != nil {
			return err
		}
		report, err := f.shown(func(tell repair.Tell) (repair.ForgetReport, error) {
			return (&repair.Forget{Tree: tree, Index: index, Tell: tell}).Count(ctx, list)
		})
		if err = errors.Join(err, list.Close()); err != nil {
			return err
		}
		_, err = io.WriteString(f.stdout, "would remove: "+removed(&report)+"\n")
		return err
	})
}

func (f *forgetting) forget(ctx context.Context, entries iter.Seq2[iut.ForgottenEntry, error]) error {
	return withIndex(f.root(), iut.Options{Forgetting: true}, storage.Options{}, func(tree *iut.Tree, index *storage.Index) error {
		entries, err := f.goneSince(ctx, tree, index, entries)
		if err != nil {
			return err
		}
		report, err := f.shown(func(tell repair.Tell) (repair.ForgetReport, error) {
			return (&repair.Forget{Tree: tree, Index: index, Tell: tell}).Run(ctx, entries)
		})
		if err != nil {
			return err
		}
		_, err = io.WriteString(f.stdout, forgotten(&report, tree.Format().Store))
		return err
	})
}

// shown shows how far fn is.
func (f *forgetting) shown(fn func(repair.Tell) (repair.ForgetReport, error)) (repair.ForgetReport, error) {
	m := &steps{of: "forget"}
	stop := m.showOn(newProgress(f.stderr, false))
	defer stop()
	return fn(m.set)
}

// removed says what is gone, in a line without its end.
func removed(r *repair.ForgetReport) string {
	if r.Records+r.Sitemaps+r.Seeds+r.Outside == 0 {
		return "nothing, the tree has no such URL"
	}
	text := fmt.Sprintf("%s of %s, %s, %s, %s", words.Count(r.Pages, "page"), words.Bytes(r.Bytes),
		words.Count(r.Records, "record"), words.Count(r.Sitemaps, "sitemap"), words.Count(r.Seeds, "seed"))
	if r.Outside > 0 {
		text += ", what is known of " + words.Count(r.Outside, "target") + " outside"
	}
	return text
}

// forgotten says what a call did.
func forgotten(r *repair.ForgetReport, store string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "removed: %s\n", removed(r))
	if r.Cleaned > 0 {
		fmt.Fprintf(&b, "cleaned: %s that named one of these URLs as its source, or as the target of its redirect\n", words.Count(r.Cleaned, "other record"))
	}
	if r.Reopened > 0 {
		fmt.Fprintf(&b, "pending again: %s whose content only a removed page had\n", words.Count(r.Reopened, "duplicate"))
	}
	if r.Defects > 0 {
		fmt.Fprintf(&b, "left: %s of these URLs whose source.txt names another one, such as %s of the tree: remove it by hand and forget again\n", words.Count(r.Defects, "folder"), r.Defect)
	}
	if r.Ranks {
		b.WriteString("ranks: removed, they were of the whole tree; crawler rank makes them again\n")
	}
	fmt.Fprintf(&b, "kept out from now on: %s more in forgotten.txt; crawler forget -undo takes it back\n", words.Count(r.Added, "line"))
	if store == iut.StoreWARC && r.Pages > 0 {
		b.WriteString("the bytes of the pages are in the WARC files until crawler compact\n")
	}
	if r.Records > 0 {
		b.WriteString("the result files have it until the next run or crawler merge writes them\n")
	}
	return b.String()
}
