package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"urltree/crawler"
	"urltree/crawler/weburl"
	"urltree/internal/words"
)

// seeds takes the seeds of the arguments, and opens the first -input: its first seed is read, the
// others are when the crawl asks for them. closeInput, never nil, ends that.
func (c *command) seeds(ctx context.Context, operands []string, opts *crawler.Options) (closeInput func(), err error) {
	closeInput = func() {}
	for _, arg := range operands {
		seeds, err := c.argument(arg)
		if err != nil {
			return closeInput, err
		}
		opts.Seeds = append(opts.Seeds, seeds...)
	}
	if len(c.flags.inputs) == 0 {
		return closeInput, nil
	}
	for _, name := range c.flags.inputs {
		if name == "-" {
			continue
		}
		if err := unix.Access(name, unix.R_OK); err != nil {
			return closeInput, usagef("-input %s: %w", name, err)
		}
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			return closeInput, usagef("-input %s: is a directory", name)
		}
	}
	in := &seedFiles{command: c}
	next, stop := iter.Pull2(in.scan(ctx))
	first, err, ok := next()
	switch {
	case !ok:
		skipped := ""
		if in.bad > 0 {
			skipped = " (" + words.Count(in.bad, "line") + " skipped)"
		}
		return stop, usagef("-input %s: there is no seed in it%s", strings.Join(c.flags.inputs, " -input "), skipped)
	case err != nil:
		return stop, err
	}
	opts.MoreSeeds = func(yield func(string, error) bool) {
		for seed, err, ok := first, error(nil), true; ok; seed, err, ok = next() {
			if !yield(seed, err) {
				return
			}
		}
	}
	return stop, nil
}

// argument returns the seeds of an argument, which is read like a line of a seed file.
func (c *command) argument(arg string) (seeds []string, err error) {
	shown := weburl.HideLogin(arg)
	if !isSeedLike(arg) {
		return nil, c.notSeed(arg)
	}
	if info, err := os.Stat(arg); err == nil && info.Mode().IsRegular() {
		return nil, usagef("%q is a file here: -input reads seeds from it; for a host of this name write http:// before it", shown)
	}
	for seed, scanErr := range crawler.ScanSeeds(strings.NewReader(arg), func(_ int, _ string, bad error) { err = bad }) {
		if scanErr != nil {
			return nil, scanErr
		}
		seeds = append(seeds, seed)
	}
	switch {
	case err != nil:
		return nil, usagef("%q: %s", shown, cause(err))
	case len(seeds) == 0:
		return nil, usagef("%q: not an http(s) URL but a comment", shown)
	}
	return seeds, nil
}

// isSeedLike reports whether an argument that is no subcommand is read as a seed.
func isSeedLike(arg string) bool { return strings.ContainsAny(arg, ".:/") }

func (c *command) notSeed(arg string) error {
	if c.subcommand(arg) != nil {
		return usagef("the subcommand %s must stand first; see crawler -h", arg)
	}
	return usagef("%q is neither a URL nor a subcommand%s", weburl.HideLogin(arg), c.meant(arg))
}

// meant ends a message about a word that is no subcommand: it names the likely one, or all.
func (c *command) meant(word string) string {
	var names []string
	for _, sub := range c.visible() {
		names = append(names, sub.name)
	}
	if near := nearest(word, c.visible(), func(s *subcommand) string { return s.name }); near != "" {
		return "; did you mean crawler " + near + "? See crawler -h"
	}
	return " (" + strings.Join(names, " ") + "); see crawler -h"
}

func cause(err error) string { return strings.TrimPrefix(err.Error(), "weburl: ") }

// seedFiles are the files that -input names.
type seedFiles struct {
	*command
	bad int64 // lines that are no seeds, so far
}

// scan reads the seeds of all files until ctx ends, and tells of the lines that are none.
func (in *seedFiles) scan(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, name := range in.flags.inputs {
			if !in.scanFile(ctx, name, yield) {
				return
			}
		}
	}
}

// scanFile does what scan does for one file, and reports whether to go on with the next.
func (in *seedFiles) scanFile(ctx context.Context, name string, yield func(string, error) bool) bool {
	file, shown := in.stdin, "standard input"
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			yield("", usagef("-input: %w", err))
			return false
		}
		defer f.Close() // it was only read
		file, shown = f, name
	}
	lines, done := make(chan seedLine, 1000), make(chan struct{})
	defer close(done)
	go sendLines(file, lines, done)
	var seeds, bad int64
	for {
		select {
		case l, ok := <-lines:
			switch {
			case !ok:
				if bad > 0 && (seeds > 0 || len(in.flags.inputs) > 1) { // else there is an error that says it
					fmt.Fprintf(in.stderr, "crawler: %s: %s, %s skipped\n", shown, words.Count(seeds, "seed"), words.Count(bad, "line"))
				}
				return true
			case l.fail != nil:
				yield("", usagef("-input %s: %w", name, l.fail))
				return false
			case l.bad != nil:
				bad++
				in.skip(shown, l)
			default:
				if seeds++; !yield(l.text, nil) {
					return false
				}
			}
		case <-ctx.Done():
			yield("", context.Cause(ctx))
			return false
		}
	}
}

// A seedLine is what a line of a seed file came to.
type seedLine struct {
	text      string // the seed, or of one that is none what may be shown of it
	number    int    // of one that is no seed
	bad, fail error
}

// sendLines reads a seed file, as a goroutine, since nothing ends a read from a terminal.
func sendLines(file io.Reader, lines chan<- seedLine, done <-chan struct{}) {
	defer close(lines)
	send := func(l seedLine) bool {
		select {
		case lines <- l:
			return true
		case <-done:
			return false
		}
	}
	bad := func(number int, text string, err error) { send(seedLine{number: number, text: text, bad: err}) }
	for seed, err := range crawler.ScanSeeds(file, bad) {
		if !send(seedLine{text: seed, fail: err}) {
			return
		}
	}
}

// skip counts a line that is no seed, and reports it if it is one of the first ten.
func (in *seedFiles) skip(file string, l seedLine) {
	in.warnFirst()
	if in.bad++; in.bad <= 10 {
		fmt.Fprintf(in.stderr, "crawler: %s:%d: skipped %.80q: %s\n", file, l.number, l.text, cause(l.bad))
	}
}
