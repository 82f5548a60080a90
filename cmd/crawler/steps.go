package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"urltree/internal/words"
)

// steps are how far a long command is: its steps come one after the other.
type steps struct {
	of string // the command

	mu          sync.Mutex
	what        string    // guarded by mu; the step
	done, total int64     // guarded by mu; total 0: nobody knows
	begun       time.Time // guarded by mu; of the step
}

func (s *steps) set(what string, done, total int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if what != s.what || done < s.done {
		s.what, s.begun = what, time.Now()
	}
	s.done, s.total = done, total
}

// hasBegun reports whether there is a step, and hasMore whether some of it is left for sure.
func (s *steps) hasBegun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.what != ""
}

func (s *steps) hasMore() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done < s.total
}

func (s *steps) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.of + ": " + s.what
	if s.done == 0 {
		return text
	}
	spent := time.Since(s.begun)
	text += fmt.Sprintf(" %d", s.done)
	if s.total > 0 {
		text += fmt.Sprintf(" of %d", s.total)
	}
	text += fmt.Sprintf(", %.0f a second", float64(s.done)/max(spent.Seconds(), 1e-3))
	if s.total > s.done {
		text += fmt.Sprintf(", %s left", words.Span(time.Duration(float64(spent)/float64(s.done)*float64(s.total-s.done)).Round(time.Second)))
	}
	return text
}

// showOn shows the steps each second until stop is called, if the line is on a terminal.
func (s *steps) showOn(line *progress) (stop func()) {
	if line.width == nil {
		return func() {}
	}
	return sync.OnceFunc(showEach(line, s.String))
}

// A quieting writer calls quiet before each write: what is written to a terminal is not to stand
// behind the line that shows how far a command is.
type quieting struct {
	w     io.Writer
	quiet func()
}

func (q quieting) Write(b []byte) (int, error) {
	q.quiet()
	return q.w.Write(b)
}
