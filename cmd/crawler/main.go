// Crawler is the command of urltree: it crawls from a seed file into a tree of folders that
// can be stopped, killed and resumed at will.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"urltree/cleaner"
	"urltree/crawler"
	"urltree/crawler/inspect"
	"urltree/iut"
	"urltree/storage"
)

// Exit codes. They are the only ones.
const (
	exitDone   = 0   // finished: nothing left, time, page limit, or one signal
	exitOther  = 1   // anything not in this table
	exitUsage  = 2   // wrong flags, arguments or seeds
	exitTree   = 3   // the tree is busy or damaged, or check found a fault
	exitDisk   = 4   // the disk failed or is full
	exitForced = 130 // a second signal
)

const exitTable = `0 done (time, page limit and one signal included), 1 other error, 2 usage,
   3 tree busy or damaged, 4 disk error, 130 forced by a second signal`

func main() {
	signal.Ignore(syscall.SIGPIPE) // whoever reads our output may leave; the crawl goes on
	os.Exit(run(os.Args, os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole command.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := withSignals(stderr)
	defer stop()
	c := &command{stdin: stdin, stdout: stdout, stderr: stderr, args: args}
	err := c.app().RunContext(ctx, args)
	if err == nil {
		return exitDone
	}
	if !errors.Is(err, errFaults) {
		for line := range strings.SplitSeq(strings.TrimSpace(err.Error()), "\n") {
			fmt.Fprintln(stderr, "crawler:", line)
			break // one line; what follows from the first error does not help
		}
	}
	return exitCode(err)
}

// command is one call: where it reads and writes, and what its flags came to.
type command struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	args           []string
	flags          flags
}

// errUsage says that the command line is wrong.
type errUsage struct{ error }

func usagef(format string, args ...any) error { return errUsage{fmt.Errorf(format, args...)} }

// errFaults says that check has told of faults.
var errFaults = errors.New("faults found")

func exitCode(err error) int {
	var usage errUsage
	switch {
	case errors.As(err, &usage), errors.Is(err, crawler.ErrOptions), errors.Is(err, crawler.ErrNoWork),
		errors.Is(err, iut.ErrIdentity), errors.Is(err, inspect.ErrUsage):
		return exitUsage
	case errors.Is(err, iut.ErrDisk), errors.Is(err, syscall.ENOSPC), errors.Is(err, fs.ErrPermission),
		errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EIO):
		return exitDisk
	case errors.Is(err, iut.ErrBusy), errors.Is(err, iut.ErrFormat), errors.Is(err, storage.ErrDamaged),
		errors.Is(err, storage.ErrSchema), errors.Is(err, errFaults):
		return exitTree
	}
	return exitOther
}

// withSignals gives a context that the first signal ends; the second one ends the process.
func withSignals(stderr io.Writer) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		if _, ok := <-signals; !ok {
			return
		}
		cancel()
		if _, ok := <-signals; !ok {
			return
		}
		fmt.Fprintln(stderr, "crawler: forced to stop; the same command goes on from here")
		os.Exit(exitForced)
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		cancel()
	}
}

// app describes the command line.
func (c *command) app() *cli.App {
	app := &cli.App{
		Name:                      "crawler",
		Usage:                     "crawl the web into a tree of folders that survives being killed",
		UsageText:                 "crawler [flags] [http(s) URL ...]\ncrawler SUBCOMMAND [flags] [arguments]",
		Version:                   crawler.Version,
		HideVersion:               true,
		HideHelpCommand:           true,
		Writer:                    c.stdout,
		ErrWriter:                 io.Discard, // errors are told once, by run
		CustomAppHelpTemplate:     helpTemplate,
		Flags:                     c.flags.crawl(),
		Action:                    c.crawl,
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError:              usageError,
		DisableSliceFlagSeparator: true,
		Commands: []*cli.Command{
			c.mergeCommand(), c.inspectCommand("ls", "[-r] [-state S] [-n N] [URL-prefix]", "show the tree: states and counts of folders and pages"),
			c.inspectCommand("show", "URL", "show the record of a URL, its folder and the way back to the seed"),
			c.inspectCommand("cat", "URL", "print a stored page"),
			c.inspectCommand("path", "URL", "print the folder of a URL"),
			c.inspectCommand("why", "URL", "tell what happened to a URL, or why it waits"),
			c.checkCommand(), c.retryCommand(),
			c.inspectCommand("stats", "", "show counts by state and reason, and the runs"),
			c.inspectCommand("export", "[-state S] [URL-prefix]", "print one line per URL: state, reason, tries, source, ..."),
			c.demoCommand(),
			{Name: "version", Usage: "print the version", OnUsageError: usageError, Action: func(x *cli.Context) error {
				fmt.Fprintln(c.stdout, "urltree", crawler.Version)
				return nil
			}},
		},
	}
	return app
}

func usageError(_ *cli.Context, err error, _ bool) error { return usagef("%w; see crawler -h", err) }

const helpTemplate = `{{.Name}} - {{.Usage}}

   crawler -time 10h -input seed.txt -output res.txt
   crawler -scope host https://example.org/

USAGE
   {{.UsageText}}

   It fetches what the seeds lead to, politely and as robots.txt allows, until -time is
   over or nothing is left. Pages land in folders named after their URLs, below -tree.
   Stop it (Ctrl-C), kill it, cut the power: the same command goes on. Results are
   written beside -output: res.txt (pages stored), res2.txt (URLs still to do, and why),
   statistics.txt, hourly_statistics.txt.

SUBCOMMANDS
{{range .VisibleCommands}}   {{.Name}}{{"\t"}}{{.Usage}}
{{end}}
FLAGS (each also as an environment variable: URLTREE_TIME for -time, ...)
{{range .VisibleFlags}}   {{.}}
{{end}}
EXIT STATUS
   ` + exitTable + `
`

var _ = cleaner.Merge
