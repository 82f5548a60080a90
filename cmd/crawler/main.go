// Crawler is the command of urltree: it crawls from a seed file into a tree of folders that can be
// stopped, killed and resumed at will.
//
//	crawler -time 10h -input seed.txt -output res.txt    crawl, or go on
//	crawler why http://example.org/page                  ask about the tree, also during a crawl
//	crawler -h                                           all flags, subcommands and exit codes
//
// It is thin: flags become crawler.Options, a signal ends the context of crawler.Run, questions go
// to the process that has the tree, and an error becomes one line and an exit code. Here alone the
// process ends, its arguments are read and its output is written.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"urltree/crawler"
	"urltree/internal/ctl"
	"urltree/internal/inspect"
	"urltree/internal/rank"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// Exit codes. They are the only ones.
const (
	exitDone   = 0   // finished: nothing left, time, page limit, or one signal
	exitOther  = 1   // anything not in this table
	exitUsage  = 2   // wrong flags, arguments or seeds
	exitTree   = 3   // the tree is busy or damaged, or check found a fault
	exitDisk   = 4   // the disk failed or is full
	exitFailed = 5   // the crawl went well, and what was to be fetched failed
	exitForced = 130 // a second signal
)

func main() {
	signal.Ignore(syscall.SIGPIPE) // whoever reads our output may leave; the crawl goes on
	// net/http tells there of servers that say too much. It would do so with -quiet too, and wait
	// for a reader of standard error that stands still.
	log.SetOutput(io.Discard)
	late := make(chan os.Signal, 1) // when run has ended, a signal does not change the exit code any more
	for _, s := range stopSignals {
		if !signal.Ignored(s) { // by nohup, or by a shell for what runs in the background
			signal.Notify(late, s)
		}
	}
	os.Exit(run(os.Args, os.Stdin, os.Stdout, os.Stderr))
}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	out := newOutlet(stderr)
	ctx, stop := withSignals(out)
	defer stop()
	c := newCommand(args)
	c.stdin, c.stdout, c.stderr, c.json = stdin, stdout, out, out.json.Store
	sub, operands, err := c.parse(os.Environ())
	if err == nil {
		err = sub.run(ctx, operands)
	}
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, syscall.EPIPE) && !told(err):
		return exitDone // whoever reads our output has seen enough
	}
	switch {
	case told(err):
	case c.flags.format == "json":
		c.logger(out).Error(c.message(err))
	default:
		fmt.Fprintln(out, "crawler:", c.message(err))
	}
	return exitCode(err)
}

// told reports whether all that an error says stands on standard output.
func told(err error) bool { return errors.Is(err, errFaults) || errors.Is(err, errBroken) }

// message returns the first line of an error, with what helps; what follows from it does not.
func (c *command) message(err error) string {
	text, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
	for _, from := range []string{"iut: ", "options: ", "weburl: ", "disk error: "} {
		text = strings.TrimPrefix(text, from)
	}
	var file *fs.PathError
	switch {
	case errors.Is(err, context.Canceled):
		return "stopped"
	case errors.Is(err, iut.ErrDisk) && errors.As(err, &file) && (c.root() == file.Path || strings.HasPrefix(c.root(), file.Path+"/")):
		return fmt.Sprintf("-tree %s: %v", c.root(), file.Err)
	case errors.Is(err, record.ErrDamaged):
		// Where the crawl was when it met the damage helps nobody.
		if i := strings.Index(text, record.ErrDamaged.Error()); i > 0 {
			text = text[i:]
		}
		return fmt.Sprintf("%s; crawler merge -tree %s makes it again from the folders", text, commandLine([]string{c.root()}))
	case errors.Is(err, storage.ErrOlder), errors.Is(err, iut.ErrOlder):
		return fmt.Sprintf("%s; crawler merge -tree %s brings the tree to this version and keeps all that it knows",
			text, commandLine([]string{c.root()}))
	case errors.Is(err, iut.ErrConverting):
		to := ""
		if format, err := iut.ReadFormat(c.root()); err == nil {
			to = format.Converting
		}
		return fmt.Sprintf("%s; crawler convert -tree %s -store %s goes on with it", text, commandLine([]string{c.root()}), to)
	case errors.Is(err, iut.ErrForgetting):
		return fmt.Sprintf("%s; crawler forget -tree %s goes on with it", text, commandLine([]string{c.root()}))
	case errors.Is(err, iut.ErrUniting):
		return text + "; the same crawler unite begins anew"
	case errors.Is(err, storage.ErrSchema):
		return text + "; crawl on with the program that made it, or move index.db away: crawler merge makes one from the folders"
	case errors.Is(err, crawler.ErrNoWork):
		return text + "; name a URL, or a seed file with -input"
	}
	return text
}

// command is one call: where it reads and writes, and what its flags came to.
type command struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	args           []string
	set            []setting // the flags of args
	operands       []string  // what of args is neither a flag nor the subcommand
	flags          *flags
	trees          []string      // of a subcommand that takes several; none: the one of flags
	crawling       *subcommand   // the crawl
	subcommands    []*subcommand // all others; the last one is for packagers alone
	dangers        string        // see warnFirst
	kept           []string      // the options of the crawl, as FORMAT keeps them from now on
	json           func(bool)    // says whether each line on stderr is to be a JSON object
}

// newCommand describes the command line.
func newCommand(args []string) *command {
	c := &command{args: args, flags: newFlags()}
	c.crawling = &subcommand{flags: c.flags.all, run: c.crawl}
	c.subcommands = []*subcommand{
		c.mergeCommand(), c.lsCommand(),
		c.pageCommand("show", "show the record of a URL, its folder and the way back to the seed"),
		c.pageCommand("cat", "print a stored page as it was received"),
		c.versionsCommand(),
		c.urlCommand("path", "print the folder of a URL, relative to the tree"),
		c.urlCommand("why", "explain what happened to a URL, or why it waits"),
		c.checkCommand(), c.retryCommand(), c.recrawlCommand(), c.changesCommand(), c.convertCommand(), c.uniteCommand(), c.forgetCommand(), c.compactCommand(), c.seedsCommand(), c.optionsCommand(),
		c.statsCommand(), c.rankCommand(),
		c.exportCommand(), c.importCommand(), c.serveCommand(), c.brokenCommand(), c.clusterCommand(), c.demoCommand(), c.helpCommand(), c.versionCommand(),
		c.generateCommand(),
	}
	return c
}

// visible returns the subcommands that help texts name.
func (c *command) visible() []*subcommand { return c.subcommands[:len(c.subcommands)-1] }

func (c *command) subcommand(name string) *subcommand {
	for _, sub := range c.subcommands {
		if sub.name == name {
			return sub
		}
	}
	return nil
}

// root returns the folder of the tree that the call is about.
func (c *command) root() string { return c.flags.opts.Tree }

// errUsage says that the command line is wrong.
type errUsage struct{ error }

func (e errUsage) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return errUsage{fmt.Errorf(format, args...)} }

// errFaults says that check has told of faults.
var errFaults = errors.New("faults found")

func exitCode(err error) int {
	var usage errUsage
	switch {
	case errors.Is(err, syscall.EIO):
		return exitDisk // whatever it was that could not be read or written
	case errors.As(err, &usage), errors.Is(err, crawler.ErrOptions), errors.Is(err, crawler.ErrNoWork),
		errors.Is(err, iut.ErrIdentity), errors.Is(err, inspect.ErrUsage):
		return exitUsage
	case errors.Is(err, errFailed), errors.Is(err, errBroken):
		return exitFailed
	case errors.Is(err, record.ErrDamaged), errors.Is(err, rank.ErrDamaged):
		return exitTree // also where it was met on the way to the disk
	case errors.Is(err, iut.ErrDisk), errors.Is(err, syscall.ENOSPC), errors.Is(err, fs.ErrPermission),
		errors.Is(err, syscall.EROFS):
		return exitDisk
	case errors.Is(err, iut.ErrBusy), errors.Is(err, ctl.ErrEnding), errors.Is(err, iut.ErrFormat), errors.Is(err, iut.ErrTree), errors.Is(err, iut.ErrConverting), errors.Is(err, iut.ErrForgetting), errors.Is(err, iut.ErrUniting),
		errors.Is(err, storage.ErrSchema), errors.Is(err, storage.ErrOlder), errors.Is(err, iut.ErrOlder), errors.Is(err, errFaults):
		return exitTree
	}
	return exitOther
}

var stopSignals = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}

// together is how long signals count as one: timeout(1) signals its child and then its own process
// group, so that one wish arrives twice.
const together = 100 * time.Millisecond

// withSignals returns a context that the first signal ends; the second one ends the process.
func withSignals(stderr io.Writer) (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	for _, s := range stopSignals {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	go func() {
		if _, ok := <-signals; !ok {
			return
		}
		cancel()
		for first := time.Now(); ; {
			if _, ok := <-signals; !ok {
				return
			}
			if time.Since(first) > together {
				break
			}
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

func (c *command) helpCommand() *subcommand {
	return &subcommand{
		name: helpName, usage: "print the help text of the crawl, or of a subcommand", operand: "[SUBCOMMAND]",
		run: func(_ context.Context, operands []string) error {
			page := c.crawlPage()
			if name := first(operands); name != "" {
				sub := c.subcommand(name)
				if sub == nil {
					return usagef("there is no subcommand %q%s", name, c.meant(name))
				}
				page = sub.page()
			}
			_, err := io.WriteString(c.stdout, page.text())
			return err
		},
	}
}

func (c *command) versionCommand() *subcommand {
	return &subcommand{name: versionName, usage: "print the version", run: func(context.Context, []string) error {
		_, err := io.WriteString(c.stdout, versionText())
		return err
	}}
}
