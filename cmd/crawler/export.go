package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"urltree/internal/disk"
	"urltree/internal/inspect"
	"urltree/internal/words"
)

func (c *command) exportCommand() *subcommand {
	q := &inspect.Question{Command: "export"}
	var output string
	answer := func(ctx context.Context, url string, w *bufio.Writer) error {
		q.URL = url
		if q.What == "mirror" {
			return c.mirror(ctx, *q, output, w)
		}
		if q.Format == "" {
			q.Format = formatOf(output, inspect.Words("format"))
		}
		if output == "" && terminal(c.stdout) != nil && inspect.IsBinary(*q) {
			return usagef("-what %s is no text that a terminal shows: name a file by -output, or send it through a pipe", cmp.Or(q.What, "urls"))
		}
		m := &steps{of: "export"}
		return c.deliver(output, m, w, func(w io.Writer) error { return c.inspectTrees(ctx, *q, m.set, w) })
	}
	export := c.lookCommand("export", "[URL-PREFIX]",
		"write URLs, pages or the link graph as data, as archives, or as a mirror", answer,
		word("what", &q.What, "urls", "`WHAT` to write: urls; pages: a row per stored page, with its text or HTML if -columns names that; edges: every reference of the stored pages, in page order, with element, rel and text, and those of redirects; ranks: what crawler rank has found; warc: the stored pages as a WARC file, as they came with their requests, and redirects, where the tree has them so (-store warc), else a resource record for each; cdxj: the index of that file, as pages.warc.gz; wacz: a package with both, for programs that show archives; mirror: the stored pages as files below the folder -output, with references that lead to each other, for reading offline. Edges of pages that were not crawled with -edges are read from their folders", inspect.Words("what")...),
		word("format", &q.Format, "as -output ends; else tsv, of pages jsonl", "the `FORMAT`: tsv, not of pages; csv (RFC 4180; a text that a spreadsheet would take for a formula gets an apostrophe before it); jsonl, a JSON object a line; parquet, a file with typed columns for programs that analyse tables; of edges also dot and graphml (not while a crawl goes on; it takes some 20 bytes of memory for each URL); of warc and cdxj gzip, which is the default there, or plain", inspect.Words("format")...),
		word("columns", &q.Columns, inspect.UsualColumns["urls"], "a `LIST` of columns of urls or pages, with commas between them; they are explained below. Of pages by default "+strings.ReplaceAll(inspect.UsualColumns["pages"], ",", ", "), inspect.Words("columns")...),
		word("state", &q.State, "any", "only URLs in this `STATE`, one of those below", inspect.Words("state")...),
		plainFlag("from", instant{p: &q.Since}, "only what was answered at this `TIME` or later: a date (UTC), a time such as 2026-11-29T10:00:00Z, or so long before now, such as 7d; of edges those of pages, and of redirects, answered then; not for ranks"),
		plainFlag("to", instant{p: &q.Until, end: true}, "only what was answered before this `TIME`, written likewise; a date has the whole day"),
		word("text", &q.Text, "of wacz none, else plain", "what a `TEXT` of pages is: plain, all that a page shows; main, its article without menus, side bars and the like, as the reader view of a browser shows it, or all of it where no article is found. It is the column text, which pages have by default then, and of wacz the text of each page in its list, for programs that search", inspect.Words("text")...),
		word("output", &output, "standard output", "the `FILE` to write, which appears once it is complete, in place of an older one; of mirror the folder, which is made, is empty or is a mirror"))
	export.flags[0] = c.treesFlag()
	export.about += " Several trees are read as if they were one, in one order, and only while no crawl goes on in them. Of a URL that more than one of them has there is one row, or page: that of the tree which counts in a union. Ranks are of one tree."
	return export
}

// formatOf returns the one of some formats that the ending of a file's name says, "" if none is.
func formatOf(file string, formats []string) string {
	if ending := strings.ToLower(strings.TrimPrefix(filepath.Ext(file), ".")); slices.Contains(formats, ending) {
		return ending
	}
	return ""
}

// outputFlag makes the -output of a subcommand that reports.
func outputFlag(p *string) *option {
	return word("output", p, "standard output", "the `FILE` to write, which appears once it is complete, in place of an older one")
}

// deliver lets fn write to a file, which is there when it is whole and not before, or, without a
// name, to stdout. A terminal shows how it gets on, if that does not show the answer itself.
func (c *command) deliver(file string, m *steps, stdout *bufio.Writer, fn func(io.Writer) error) (err error) {
	if file == "" {
		var stop func()
		w := io.Writer(stdout)
		if terminal(c.stdout) == nil {
			w, stop = c.metered(m, w)
			defer stop()
		}
		return fn(w)
	}
	if err := outsideOf(file, c.root()); err != nil {
		return err
	}
	switch info, err := os.Lstat(file); {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return usagef("-output %s: it is no regular file; without -output standard output has the answer", file)
	}
	whole, err := disk.Create(file)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return usagef("-output %s: there is no folder %s", file, filepath.Dir(file))
	case err != nil:
		return outputError(file, err)
	}
	w, stop := c.metered(m, whole)
	defer stop()
	out := bufio.NewWriterSize(w, 64<<10)
	if err = fn(out); err == nil {
		err = out.Flush()
	}
	if err != nil {
		return errors.Join(outputError(file, err), whole.Discard())
	}
	return outputError(file, whole.Commit())
}

// outsideOf returns an error if an -output lies in one of some trees, whose files it might replace.
func outsideOf(output string, roots ...string) error {
	for _, root := range roots {
		if disk.Inside(output, root) {
			return usagef("-output %s lies in the tree %s; choose a place outside of it", output, root)
		}
	}
	return nil
}

// outputError returns an error of a file that was to be written under the name of its flag.
func outputError(file string, err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok && of.Path == file {
		return fmt.Errorf("-output %s: %w", file, of.Err)
	}
	return err
}

// metered returns a writer to w, and has a terminal show how far a command is until stop is called:
// by its steps, and where they are through, or unknown, by what has been written.
func (c *command) metered(s *steps, w io.Writer) (out io.Writer, stop func()) {
	if terminal(c.stderr) == nil {
		return w, func() {}
	}
	m := &meter{w: w}
	return m, showEach(newProgress(c.stderr, false), func() string {
		switch written := m.bytes.Load(); {
		case written == 0 && s.hasBegun():
			return s.String()
		case s.hasMore():
			return fmt.Sprintf("%s, %.1f MB", s, float64(written)/1e6)
		}
		return s.of + ": " + m.String()
	})
}

// showEach shows a text each second until stop is called, which takes it off the screen.
func showEach(line *progress, text func() string) (stop func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer line.close()
		each := time.NewTicker(time.Second)
		defer each.Stop()
		for {
			select {
			case <-each.C:
				line.show(text())
			case <-over:
				return
			}
		}
	}()
	return func() {
		close(over)
		<-ended
	}
}

type meter struct {
	w            io.Writer
	lines, bytes atomic.Int64
}

func (m *meter) Write(b []byte) (int, error) {
	n, err := m.w.Write(b)
	m.bytes.Add(int64(n))
	for _, c := range b[:n] {
		if c == '\n' {
			m.lines.Add(1)
		}
	}
	return n, err
}

func (m *meter) String() string {
	return fmt.Sprintf("%s, %.1f MB", words.Count(m.lines.Load(), "line"), float64(m.bytes.Load())/1e6)
}
