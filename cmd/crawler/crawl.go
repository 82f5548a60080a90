package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"urltree/cleaner"
	"urltree/crawler"
	"urltree/crawler/scope"
	"urltree/crawler/weburl"
	"urltree/internal/disk"
	"urltree/internal/fetch"
	"urltree/iut"
)

func (c *command) crawl(ctx context.Context, operands []string) error {
	opts, err := c.crawlOptions()
	if err != nil {
		return err
	}
	c.json(c.flags.format == "json")
	closeInput, err := c.seeds(ctx, operands, &opts)
	defer closeInput()
	switch {
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(c.stderr, "crawler: stopped before anything was asked")
		return nil
	case err != nil:
		return err
	}
	if info, err := os.Stat(opts.Tree); err == nil && !info.IsDir() || errors.Is(err, syscall.ENOTDIR) {
		return usagef("-tree %s: not a directory", opts.Tree)
	}
	switch err := treeThere(opts.Tree); {
	case len(opts.Seeds) > 0 || opts.MoreSeeds != nil || c.flags.cluster.at != "" || err == nil:
	case errors.Is(err, iut.ErrFormat), errors.Is(err, iut.ErrBusy):
		return err
	default:
		return usagef("nothing to do: no seeds, and no tree in %s; name a URL, or a seed file with -input; see crawler -h", opts.Tree)
	}
	if c.flags.cookies != "" {
		if opts.Cookies, err = os.ReadFile(c.flags.cookies); err != nil {
			return usagef("-cookies: %w", err)
		}
		if _, err = fetch.ParseCookies(opts.Cookies, func(int, error) {}); err != nil {
			return usagef("-cookies %s: %w", c.flags.cookies, err)
		}
	}
	result, err := c.run(ctx, opts)
	if err != nil {
		return err
	}
	if !c.flags.quiet {
		c.again(result, opts.Tree)
		c.ended(result, opts)
	}
	return c.failed(result)
}

// crawlOptions returns the engine's options, of the flags and of what the tree keeps.
func (c *command) crawlOptions() (opts crawler.Options, err error) {
	memory, err := c.recall()
	if err != nil {
		return opts, err
	}
	if err := c.flags.check(); err != nil {
		return opts, err
	}
	c.dangers, c.kept = memory.dangers, memory.next.Options
	opts = c.flags.options()
	opts.Keep, opts.Started = memory.keep(c), func() { c.tell(memory.missingLogins()) }
	if opts.Scope, err = scope.ParseMode(c.flags.scope); err != nil {
		return opts, usagef("-scope: %w", err)
	}
	return opts, nil
}

func (c *command) run(ctx context.Context, opts crawler.Options) (crawler.Result, error) {
	if err := c.probe(opts.Tree, opts.Output, opts.Archives...); err != nil {
		return crawler.Result{}, err
	}
	stopListening, err := c.listen(opts.Tree)
	if err != nil {
		return crawler.Result{}, err
	}
	defer stopListening()
	show := newProgress(c.stderr, c.flags.quiet)
	if c.flags.format == "json" {
		show.width, show.log = nil, c.logger(c.stderr)
	}
	defer show.close()
	started := opts.Started
	opts.Progress, opts.Started = show.update, func() {
		if started != nil {
			started()
		}
		show.begin(opts)
	}
	opts.LimitHeap = os.Getenv("GOMEMLIMIT") == ""
	opts.Log = c.logger(show)
	leave, err := c.join(ctx, &opts)
	switch stopped := context.Cause(ctx); {
	case err != nil && stopped != nil && errors.Is(err, stopped):
		return crawler.Result{Ended: "stopped"}, nil
	case err != nil:
		return crawler.Result{}, err
	}
	if c.flags.verbose {
		opts.OnOutcome = func(o crawler.Outcome) { c.outcome(show, o) }
	}
	if !c.flags.quiet {
		defer context.AfterFunc(ctx, func() {
			fmt.Fprintln(show, "crawler: stopping: what is under way gets 10 s, then the results are written; a second signal forces")
		})()
	}
	if c.flags.listen.at == "" {
		runtime.MemProfileRate = 0 // nobody can ask which allocations there were
	}
	if os.Getenv("GOGC") == "" {
		// Pages leave much behind and little stays: five times less collecting for a few MiB. What
		// may be taken in all is bounded by the memory limit.
		debug.SetGCPercent(400)
	}
	result, err := crawler.Run(ctx, opts)
	return result, errors.Join(err, leave())
}

// outcome writes what -verbose shows of a URL.
func (c *command) outcome(w io.Writer, o crawler.Outcome) {
	if c.flags.format == "json" {
		c.logger(w).Info("outcome", "url", o.URL, "state", o.State.String(), "reason", o.Reason, "status", o.Status, "bytes", o.Bytes, "took", o.Took)
		return
	}
	reason := ""
	if o.Reason != "" {
		reason = " " + o.Reason
	}
	fmt.Fprintf(w, "%s %s%s %d %d %.0fms\n", o.URL, o.State, reason, o.Status, o.Bytes, float64(o.Took)/1e6)
}

// logger writes to the progress, which keeps the live line and log lines apart. In JSON a duration
// is a number of milliseconds, and its name ends in _ms.
func (c *command) logger(w io.Writer) *slog.Logger {
	switch {
	case c.flags.quiet:
		return c.loggerFrom(slog.LevelError, w)
	case c.flags.verbose:
		return c.loggerFrom(slog.LevelDebug, w)
	}
	return c.loggerFrom(slog.LevelInfo, w)
}

// loggerFrom returns a logger of lines from a level on.
func (c *command) loggerFrom(level slog.Level, w io.Writer) *slog.Logger {
	if c.flags.format == "json" {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Value.Kind() == slog.KindDuration {
				return slog.Float64(a.Key+"_ms", float64(a.Value.Duration())/1e6)
			}
			return a
		}}))
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

// probe finds out now whether the results can be written at the end, and replace only results: none
// of the files that are read, archives among them.
func (c *command) probe(tree, output string, archives ...string) error {
	files, err := cleaner.FilesFor(tree, output)
	if err != nil {
		return usagef("-%w", err) // which begins with output
	}
	for i, input := range slices.Concat([]string{c.flags.cookies}, c.flags.inputs, archives) {
		flag := "-input"
		switch {
		case i == 0:
			flag = "-cookies"
		case i > len(c.flags.inputs):
			flag = "the archive"
		}
		in, err := os.Stat(input)
		if err != nil {
			continue
		}
		for _, name := range files.Replaced() {
			if info, err := os.Stat(name); err == nil && os.SameFile(info, in) {
				return usagef("%s %s would be replaced by the result file %s; name another -output", flag, input, name)
			}
		}
	}
	if err := files.Replaceable(); errors.Is(err, iut.ErrDisk) {
		return err
	} else if err != nil {
		return usagef("-%w", err)
	}
	if other := files.OtherTree(tree); other != "" {
		c.tell(fmt.Sprintf("%s has the results of the tree %s, and those of %s will replace them: another -output keeps both", files.Res, other, tree))
	}
	dir := filepath.Dir(files.Res2)
	if info, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || err == nil && !info.IsDir() {
		return usagef("-output %s: there is no folder %s", output, dir)
	}
	f, err := disk.Create(files.Res2)
	if err != nil {
		return fmt.Errorf("%w: -output %s: %w", iut.ErrDisk, output, errors.Unwrap(err))
	}
	return f.Discard()
}

// goOn returns the command line that goes on, as a shell takes it: without secrets, and without
// standard input, whose seeds the tree has.
func (c *command) goOn() string {
	line := c.args[:1:1]
	if c.isImport() {
		line = c.args[:2:2]
	}
	for _, s := range c.set {
		name, value := "-"+s.option.name, s.value
		switch s.option.name {
		case "input":
			if value == "-" {
				continue
			}
		case "password", "listen-token":
			value = "..."
		case "header":
			value, _, _ = strings.Cut(value, ":")
			value += ": ..."
		case "proxy":
			if u, err := url.Parse(value); err == nil {
				value = u.Redacted()
			}
		}
		switch {
		case !s.option.isBool():
			line = append(line, name, value)
		case value == "true":
			line = append(line, name)
		default:
			line = append(line, name+"="+value)
		}
	}
	for _, seed := range c.operands {
		if u, err := url.Parse(seed); err != nil {
			seed = weburl.HideLogin(seed)
		} else if u.User != nil {
			seed = u.Redacted()
		}
		line = append(line, seed)
	}
	return commandLine(line)
}

// commandLine quotes arguments for a shell.
func commandLine(args []string) string {
	words := slices.Clone(args)
	for i, a := range args {
		if a == "" || strings.ContainsFunc(a, func(r rune) bool { return !strings.ContainsRune(plainChars, r) }) {
			words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

const plainChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,+@%"
