// Package ctl carries a question to the crawl that has a tree open, and its answer back.
//
// Only one process has a tree at a time, so while a crawl runs it answers for everybody, over a
// unix socket named ctl.sock in the tree's root that only its owner may use. Both sides begin
// with a version line. Then everything is frames, a kind, a length of four bytes and so many
// bytes of payload; a question is an inspect.Question in JSON:
//
//	client   "urltree-ctl 3\n"  question
//	server   "urltree-ctl 3\n"  data* (done | usage | not found | ending | busy | failed)
//
// The server's last frame tells a whole answer from one that was cut. A client that has asked
// sends nothing more; when it goes away, the answer is given up.
package ctl

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"urltree/internal/inspect"
	"urltree/iut"
)

// Name is the name of the socket in the tree's root.
const Name = "ctl.sock"

// Version is that of the protocol. Client and server must have the same.
const Version = 3

var (
	// ErrNone says that no crawl answers for this tree.
	ErrNone = errors.New("no crawl answers")
	// ErrEnding says that the crawl ended while it answered: the tree is busy until it has.
	ErrEnding = errors.New("the crawl is ending")
	// ErrCut says that an answer ended before its last frame.
	ErrCut = errors.New("the answer was cut")
	// ErrVersion says that the crawl that answers speaks another version of the protocol.
	ErrVersion = errors.New("the running crawl is of another version of the program")
	// ErrRequest says that a question is too long to be sent.
	ErrRequest = errors.New("the question is too long")
)

const (
	headLen  = 5        // bytes of kind and length
	maxFrame = 64 << 10 // bytes of payload
)

// Kinds of frames.
const (
	kindQuestion = 'q'
	kindData     = 'd'
	kindDone     = 'o'
	kindUsage    = 'u'
	kindNotFound = 'n'
	kindEnding   = 'x'
	kindBusy     = 'b'
	kindFailed   = 'e'
)

// kindOf returns the frame that ends an answer whose handler returned err.
func kindOf(err error) byte {
	switch {
	case err == nil:
		return kindDone
	case errors.Is(err, inspect.ErrUsage):
		return kindUsage
	case errors.Is(err, inspect.ErrNotFound):
		return kindNotFound
	case errors.Is(err, ErrEnding):
		return kindEnding
	case errors.Is(err, iut.ErrBusy):
		return kindBusy
	}
	return kindFailed
}

// A remoteError has the text that the handler's error had, and is of the same kind.
type remoteError struct {
	kind error // nil: of no special kind
	text string
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.kind }

// errOf returns the error that a frame of kindOf stands for; nil: one of no special kind.
func errOf(kind byte) error {
	switch kind {
	case kindUsage:
		return inspect.ErrUsage
	case kindNotFound:
		return inspect.ErrNotFound
	case kindEnding:
		return ErrEnding
	case kindBusy:
		return iut.ErrBusy
	}
	return nil
}

func versionLine(version int) string { return fmt.Sprintf("urltree-ctl %d\n", version) }

// readVersion reads the other side's version line.
func readVersion(r *bufio.Reader) (string, error) {
	var line []byte
	for len(line) < 64 {
		b, err := r.ReadByte()
		if err != nil {
			return "", err
		}
		if line = append(line, b); b == '\n' {
			return string(line), nil
		}
	}
	return "", errors.New("no version line")
}

// appendFrame appends a frame; a payload that is too long is shortened.
func appendFrame(b []byte, kind byte, payload string) []byte {
	payload = payload[:min(len(payload), maxFrame)]
	return append(appendHead(b, kind, len(payload)), payload...)
}

func appendHead(b []byte, kind byte, n int) []byte {
	return binary.BigEndian.AppendUint32(append(b, kind), uint32(n))
}

// readFrame reads a frame. The payload is valid until the next call with the same buffer.
func readFrame(r *bufio.Reader, buf []byte) (kind byte, payload []byte, err error) {
	var head [headLen]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("frame of %d bytes", n)
	}
	payload = slices.Grow(buf[:0], int(n))[:n]
	_, err = io.ReadFull(r, payload)
	return head[0], payload, err
}

// appendQuestion appends the frame of a question.
func appendQuestion(b []byte, q inspect.Question) ([]byte, error) {
	text, err := json.Marshal(q)
	if err != nil {
		return b, err
	}
	if len(text) > maxFrame {
		return b, fmt.Errorf("%w: %d bytes, at most %d", ErrRequest, len(text), maxFrame)
	}
	return appendFrame(b, kindQuestion, string(text)), nil
}

// readQuestion reads the frame of a question.
func readQuestion(r *bufio.Reader) (q inspect.Question, err error) {
	kind, payload, err := readFrame(r, nil)
	switch {
	case err != nil:
		return q, err
	case kind != kindQuestion:
		return q, fmt.Errorf("unexpected frame %q", kind)
	}
	err = json.Unmarshal(payload, &q)
	return q, err
}

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
