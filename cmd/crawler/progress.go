package main

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/term"

	"urltree/crawler"
	"urltree/internal/words"
)

// A progress shows how a crawl gets on: one live line on a terminal, else a line at the start, one
// after firstLine and then one a minute. Log lines go through it, not into the live line.
type progress struct {
	quiet bool
	width func() int   // columns of the terminal that out is; nil: it is none
	log   *slog.Logger // for JSON; nil: lines are text

	mu   sync.Mutex
	out  io.Writer // guarded by mu
	line string    // guarded by mu; on the screen now
	last time.Time // guarded by mu; of the last line a minute
}

// firstLine is when the first line of those a minute comes.
const firstLine = 10 * time.Second

func newProgress(out io.Writer, quiet bool) *progress {
	p := &progress{out: out, quiet: quiet, last: time.Now().Add(firstLine - time.Minute)}
	if f := terminal(out); f != nil {
		p.width = func() int {
			width, _, err := term.GetSize(int(f.Fd()))
			if err != nil {
				return 80
			}
			return width
		}
	}
	return p
}

// Write prints lines above the live one.
func (p *progress) Write(b []byte) (n int, err error) {
	p.above(func() { _, err = p.out.Write(b) })
	return len(b), err
}

// above calls fn, which may write whole lines to the same terminal, while the live line is away.
func (p *progress) above(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fn()
	p.draw()
}

func (p *progress) begin(opts crawler.Options) {
	if p.quiet || p.width != nil {
		return
	}
	if p.log != nil {
		p.log.Info("begins", "tree", opts.Tree, "output", opts.Output, "time_limit", opts.Time)
		return
	}
	until := "until nothing is left"
	if opts.Time > 0 {
		until = "for " + words.Span(opts.Time)
	}
	if n := len(opts.Archives); n > 0 {
		fmt.Fprintf(p, "crawler: importing %s into %s; the results go to %s\n", words.Count(n, "file"), opts.Tree, opts.Output)
		return
	}
	fmt.Fprintf(p, "crawler: crawling into %s %s; the results go to %s\n", opts.Tree, until, opts.Output)
}

// update takes the state of the crawl, once a second.
func (p *progress) update(s crawler.Progress) {
	if p.quiet {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.width == nil {
		if time.Since(p.last) >= time.Minute {
			p.last = time.Now()
			if p.log == nil {
				const prefix = "crawler: "
				fmt.Fprintln(p.out, prefix+s.Line(80-len(prefix)))
				return
			}
			p.log.Info("progress", "pages", s.Pages, "bytes", s.Bytes, "failed", s.Failed, "pending", s.Pending, "held", s.Held, "hosts", s.Hosts,
				"per_second", s.PerSecond, "mean_per_second", s.Mean, "elapsed", s.Elapsed, "left", s.Left, "phase", s.Phase, "waiting", s.Waiting)
		}
		return
	}
	p.showLocked(s.Line(max(p.width()-1, 1)))
}

// show makes text the live line; where there is no terminal it does nothing.
func (p *progress) show(text string) {
	if p.width == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.showLocked(text)
}

func (p *progress) showLocked(text string) {
	p.clear()
	if most := p.width() - 1; len(text) > most && most > 0 {
		text = text[:most] // a line that wraps could not be taken back
	}
	p.line = text
	p.draw()
}

func (p *progress) clear() {
	if p.line != "" {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

func (p *progress) draw() {
	if p.line != "" {
		fmt.Fprint(p.out, p.line)
	}
}

// close takes the live line off the screen.
func (p *progress) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.line = ""
}
