package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"urltree/crawler"
	"urltree/crawler/scope"
	"urltree/crawler/weburl"
	"urltree/iut"
)

// crawl is the main job.
func (c *command) crawl(x *cli.Context) error {
	opts := c.flags.options()
	var err error
	if opts.Scope, err = scope.ParseMode(c.flags.scope); err != nil {
		return usagef("-scope: %w", err)
	}
	if err := c.seeds(x, &opts); err != nil {
		return err
	}
	if c.flags.cookies != "" {
		if opts.Cookies, err = os.ReadFile(c.flags.cookies); err != nil {
			return usagef("-cookies: %w", err)
		}
	}
	return c.run(x.Context, opts)
}

// run crawls with the options, shows the progress and says how it ended.
func (c *command) run(ctx context.Context, opts crawler.Options) error {
	show := newProgress(c.stderr, c.flags.quiet)
	defer show.close()
	opts.Progress = show.update
	opts.Log = c.logger(show)
	if c.flags.verbose {
		opts.OnOutcome = func(o crawler.Outcome) {
			reason := ""
			if o.Reason != "" {
				reason = " " + o.Reason
			}
			fmt.Fprintf(show, "%s %s%s %d %d %.0fms\n", o.URL, o.State, reason, o.Status, o.Bytes, float64(o.Took)/1e6)
		}
	}
	if err := probe(opts.Output); err != nil {
		return err
	}
	result, err := crawler.Run(ctx, opts)
	show.close()
	if err != nil {
		return err
	}
	if !c.flags.quiet {
		c.summary(result, opts)
	}
	return nil
}

// logger writes to the progress, which keeps the live line and log lines apart.
func (c *command) logger(w io.Writer) *slog.Logger {
	level := slog.LevelInfo
	if c.flags.quiet {
		level = slog.LevelError
	}
	if c.flags.format == "json" {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

// seeds reads -input and the arguments.
func (c *command) seeds(x *cli.Context, opts *crawler.Options) error {
	for i, arg := range x.Args().Slice() {
		if strings.HasPrefix(arg, "-") && arg != "-" {
			return usagef("flag %s stands behind the argument %q: flags come first", arg, x.Args().Slice()[max(i-1, 0)])
		}
		url, err := weburl.Canonical(arg)
		if err != nil || !strings.Contains(arg, "://") {
			return usagef("%q is neither an http(s) URL nor a subcommand (%s)", arg, strings.Join(subcommands(x.App), " "))
		}
		opts.Seeds = append(opts.Seeds, url)
	}
	if c.flags.input == "" {
		return nil
	}
	in := c.stdin
	if c.flags.input != "-" {
		f, err := os.Open(c.flags.input)
		if err != nil {
			return usagef("-input: %w", err)
		}
		defer f.Close()
		in = f
	}
	bad := 0
	seeds, err := crawler.ReadSeeds(in, func(line int, text string, err error) {
		if bad++; bad <= 10 && !c.flags.quiet {
			fmt.Fprintf(c.stderr, "crawler: %s:%d: %.200q is no http(s) URL, left out\n", c.flags.input, line, text)
		}
	})
	if err != nil {
		return usagef("-input %s: %w", c.flags.input, err)
	}
	if bad > 10 && !c.flags.quiet {
		fmt.Fprintf(c.stderr, "crawler: %s: %d lines left out in all\n", c.flags.input, bad)
	}
	if len(seeds) == 0 && len(opts.Seeds) == 0 {
		return usagef("-input %s: no line is an http(s) URL (%d left out)", c.flags.input, bad)
	}
	opts.Seeds = append(opts.Seeds, seeds...)
	return nil
}

func subcommands(app *cli.App) []string {
	var names []string
	for _, s := range app.Commands {
		names = append(names, s.Name)
	}
	return names
}

// probe finds out now, and not in ten hours, whether the results can be written.
func probe(output string) error {
	f, err := os.CreateTemp(dirOf(output), ".crawler-*")
	if err != nil {
		return fmt.Errorf("%w: -output %s: %w", iut.ErrDisk, output, errors.Unwrap(err))
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// summary is the last word: what came of the run, the files, and the command that goes on.
func (c *command) summary(r crawler.Result, opts crawler.Options) {
	var b bytes.Buffer
	took := time.Duration(r.Run.End-r.Run.Start) * time.Second
	fmt.Fprintf(&b, "%d pages (%s) in %s", r.Run.Stored, crawler.Bytes(r.Run.Bytes), took)
	for _, name := range slices.Sorted(maps.Keys(r.Run.Outcomes)) {
		if !strings.HasPrefix(name, "stored") {
			fmt.Fprintf(&b, ", %d %s", r.Run.Outcomes[name], name)
		}
	}
	fmt.Fprintf(&b, "\nin all %d pages, %d URLs pending (%d of them held)\n", r.Total.Stored, r.Total.Pending(), r.Total.Held)
	fmt.Fprintf(&b, "files: %s %s %s %s, pages below %s\n", r.Files.Res, r.Files.Res2, r.Files.Statistics, r.Files.Hourly, opts.Tree)
	if r.Total.Pending() > 0 {
		fmt.Fprintf(&b, "to go on: %s\n", commandLine(c.args))
	}
	if r.Waits != "" {
		fmt.Fprintf(&b, "waiting: %s\n", r.Waits)
	}
	fmt.Fprintf(&b, "crawler: %s\n", r.Ended)
	_, _ = c.stderr.Write(b.Bytes())
}

// commandLine quotes arguments for a shell.
func commandLine(args []string) string {
	var b strings.Builder
	for i, a := range args {
		if i > 0 {
			b.WriteByte(' ')
		}
		if a == "" || strings.ContainsFunc(a, func(r rune) bool { return !strings.ContainsRune(plainChars, r) }) {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		b.WriteString(a)
	}
	return b.String()
}

const plainChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,+@%"
