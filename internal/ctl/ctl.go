// Package ctl carries a question to the crawl that has a tree open, and its answer back.
//
// Only one process has a tree at a time, so while a crawl runs it answers for everybody: it is an
// HTTP server at a unix socket named ctl.sock in the tree's root, which only its owner may use. A
// question is an inspect.Question in JSON, posted to a path that has the version of this protocol.
// The body of the answer is text. Behind it stand two trailers: how the answer ended, which tells a
// whole one from one that was cut, and the text of the error if it failed.
package ctl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"urltree/internal/inspect"
	"urltree/iut"
)

// Name is the name of the socket in the tree's root.
const Name = "ctl.sock"

// path is where questions are posted: another version has another one.
const path = "/urltree/4"

var (
	// ErrNone says that no crawl answers for this tree.
	ErrNone = errors.New("no crawl answers")
	// ErrEnding says that the crawl ended while it answered: the tree is busy until it has.
	ErrEnding = errors.New("the crawl is ending")
	// ErrCut says that an answer ended before its end.
	ErrCut = errors.New("the answer was cut")
	// ErrVersion says that the crawl that answers speaks another version of the protocol.
	ErrVersion = errors.New("the running crawl is of another version of the program")
	// ErrRequest says that a question is too long to be sent.
	ErrRequest = errors.New("the question is too long")
)

const (
	mostQuestion = 64 << 10 // bytes of a question
	mostError    = 16 << 10 // bytes of the text of an error
)

// Trailers of an answer.
const (
	endTrailer  = "Urltree-End"  // one of ends, done or failed
	textTrailer = "Urltree-Text" // the text of an error, escaped as in a query
)

const done, failed = "done", "failed"

// ends are the errors that the end of an answer tells from others.
var ends = []struct {
	word string
	err  error
}{
	{"usage", inspect.ErrUsage},
	{"not found", inspect.ErrNotFound},
	{"ending", ErrEnding},
	{"busy", iut.ErrBusy},
}

// endOf returns the word for the end of an answer whose handler returned err.
func endOf(err error) string {
	if err == nil {
		return done
	}
	for _, e := range ends {
		if errors.Is(err, e.err) {
			return e.word
		}
	}
	return failed
}

// errOf returns the error that the end of an answer stands for.
func errOf(word, text string) error {
	switch word {
	case done:
		return nil
	case failed:
		return errors.New(text)
	}
	for _, e := range ends {
		if e.word == word {
			return &remoteError{kind: e.err, text: text}
		}
	}
	return ErrCut
}

// A remoteError has the text that the handler's error had, and is of the same kind.
type remoteError struct {
	kind error
	text string
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.kind }

// socketPath names the socket through an open descriptor of the tree's root where the system
// has /proc, so that it is short however long the root's own path is: an address has room for
// about 100 bytes. The path is good as long as dir is open.
func socketPath(dir *os.File) string {
	byFD := fmt.Sprintf("/proc/self/fd/%d", dir.Fd())
	if _, err := os.Stat(byFD); err == nil {
		return filepath.Join(byFD, Name)
	}
	return filepath.Join(dir.Name(), Name)
}
