package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"urltree/internal/words"
)

// An outlet writes what the command tells about itself to a stream that may have no reader, such as
// a pipe to a program that stands still. A crawl must not wait for that: a write that takes longer
// than stall goes on by itself, and what comes meanwhile is left out and counted.
type outlet struct {
	w     io.Writer
	stall time.Duration
	json  atomic.Bool // each line is to be a JSON object

	mu   sync.Mutex    // held over Write, so that lines keep their order
	busy chan struct{} // guarded by mu; closed once the write that goes on by itself has ended; nil: there is none
	lost int           // guarded by mu; writes left out
}

func newOutlet(w io.Writer) *outlet { return &outlet{w: w, stall: 2 * time.Second} }

func (o *outlet) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.busy != nil {
		select {
		case <-o.busy:
			o.busy = nil
		default:
			o.lost++
			return len(b), nil
		}
	}
	var text []byte
	if o.lost > 0 {
		text = o.lines(fmt.Appendf(nil, "\ncrawler: %s left out: nobody took them\n", words.Count(o.lost, "write")))
		o.lost = 0
	}
	text = append(text, o.lines(b)...) // b is the caller's again when we return
	var err error
	done := make(chan struct{})
	go func() {
		_, err = o.w.Write(text)
		close(done)
	}()
	wait := time.NewTimer(o.stall)
	defer wait.Stop()
	select {
	case <-done:
		return len(b), err
	case <-wait.C:
		o.busy = done
		return len(b), nil
	}
}

// lines returns text, or a JSON object for each of its lines that is none.
func (o *outlet) lines(text []byte) []byte {
	if !o.json.Load() {
		return text
	}
	var out bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&out, nil))
	for line := range bytes.Lines(text) {
		switch line = bytes.TrimSpace(line); {
		case len(line) == 0:
		case line[0] == '{':
			out.Write(line)
			out.WriteByte('\n')
		default:
			log.Info(string(bytes.TrimPrefix(line, []byte("crawler: "))))
		}
	}
	return out.Bytes()
}

// terminal returns the terminal that w writes to; nil: it is none.
func terminal(w io.Writer) *os.File {
	if o, ok := w.(*outlet); ok {
		w = o.w
	}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}
