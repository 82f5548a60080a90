package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"urltree/crawler"
)

// A progress shows how a crawl gets on: one live line on a terminal, else a line a minute. Log
// lines go through it, so that they do not run into the live line.
type progress struct {
	quiet bool
	live  bool // out is a terminal

	mu   sync.Mutex
	out  io.Writer // guarded by mu
	line string    // guarded by mu; on the screen now
	last time.Time // guarded by mu; of the last line a minute
}

func newProgress(out io.Writer, quiet bool) *progress {
	f, ok := out.(*os.File)
	return &progress{out: out, quiet: quiet, live: ok && term.IsTerminal(int(f.Fd())), last: time.Now()}
}

// Write prints lines above the live one.
func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	_, err := p.out.Write(b)
	p.draw()
	return len(b), err
}

// update takes the state of the crawl, once a second.
func (p *progress) update(s crawler.Progress) {
	if p.quiet {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	text := s.String()
	if !p.live {
		if time.Since(p.last) >= time.Minute {
			p.last = time.Now()
			fmt.Fprintln(p.out, "crawler:", text)
		}
		return
	}
	p.clear()
	if f, ok := p.out.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && len(text) >= width && width > 1 {
			text = text[:width-1]
		}
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
