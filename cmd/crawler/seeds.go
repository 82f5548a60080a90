package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"urltree/crawler"
	"urltree/crawler/weburl"
)

// seeds takes the seeds of the arguments, and opens -input: its first seed is read, the others are
// when the crawl asks for them. closeInput, never nil, ends that.
func (c *command) seeds(x *cli.Context, opts *crawler.Options) (closeInput func(), err error) {
	closeInput = func() {}
	for i, arg := range x.Args().Slice() {
		if i > 0 && strings.HasPrefix(arg, "-") {
			return closeInput, usagef("flag %s stands behind the argument %q: flags come first", arg, x.Args().Get(i-1))
		}
		if _, err := weburl.Canonical(arg); err != nil || !strings.Contains(arg, "://") {
			return closeInput, usagef("%q is neither an http(s) URL nor a subcommand (%s); see crawler -h", arg, strings.Join(subcommands(x.App), " "))
		}
		opts.Seeds = append(opts.Seeds, arg)
	}
	if c.flags.input == "" {
		return closeInput, nil
	}
	in := &seedFile{command: c}
	file := c.stdin
	if c.flags.input != "-" {
		f, err := os.Open(c.flags.input)
		if err != nil {
			return closeInput, usagef("-input: %w", err)
		}
		file, in.file = f, f
	}
	next, stop := iter.Pull2(in.scan(x.Context, file))
	closeInput = func() {
		stop()
		if in.file != nil {
			_ = in.file.Close() // it was only read
		}
	}
	first, err, ok := next()
	switch {
	case !ok:
		return closeInput, usagef("-input %s: no line is an http(s) URL (%d left out)", c.flags.input, in.bad)
	case err != nil:
		return closeInput, err
	}
	opts.MoreSeeds = func(yield func(string, error) bool) {
		for seed, err, ok := first, error(nil), true; ok; seed, err, ok = next() {
			if !yield(seed, err) {
				return
			}
		}
		if in.bad > 0 && !c.flags.quiet {
			fmt.Fprintf(c.stderr, "crawler: %s: %s, %s left out\n", c.flags.input, count(in.seeds, "seed"), count(in.bad, "line"))
		}
	}
	return closeInput, nil
}

// A seedFile is what -input names.
type seedFile struct {
	*command
	file       *os.File // to be closed; nil: none
	seeds, bad int64    // so far
}

// scan reads seeds until ctx ends, and tells of the lines that are none.
func (in *seedFile) scan(ctx context.Context, file io.Reader) iter.Seq2[string, error] {
	type line struct {
		number    int // of one that is no seed
		text      string
		bad, fail error
	}
	return func(yield func(string, error) bool) {
		lines, done := make(chan line, 1000), make(chan struct{})
		defer close(done)
		go func() { // of its own, since nothing ends a read from a terminal
			defer close(lines)
			send := func(l line) bool {
				select {
				case lines <- l:
					return true
				case <-done:
					return false
				}
			}
			bad := func(number int, text string, err error) { send(line{number: number, text: text, bad: err}) }
			for seed, err := range crawler.ScanSeeds(file, bad) {
				if !send(line{text: seed, fail: err}) {
					return
				}
			}
		}()
		for {
			select {
			case l, ok := <-lines:
				switch {
				case !ok:
					return
				case l.fail != nil:
					yield("", usagef("-input %s: %w", in.flags.input, l.fail))
					return
				case l.bad != nil:
					in.leaveOut(l.number, l.text, l.bad)
					continue
				}
				if in.seeds++; !yield(l.text, nil) {
					return
				}
			case <-ctx.Done():
				yield("", context.Cause(ctx))
				return
			}
		}
	}
}

// leaveOut reports a line that is no seed, if it is one of the first.
func (in *seedFile) leaveOut(number int, text string, err error) {
	if in.bad++; in.bad <= 10 && !in.flags.quiet {
		why := strings.TrimPrefix(err.Error(), "weburl: ")
		fmt.Fprintf(in.stderr, "crawler: %s:%d: left out: %.80q is no http(s) URL: %s\n", in.flags.input, number, text, why)
	}
}
