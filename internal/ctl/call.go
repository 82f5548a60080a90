package ctl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"urltree/internal/inspect"
)

// Call asks the crawl that has the tree in the folder root, and copies its answer to w. An
// error of the handler comes back with its text, and errors.Is knows inspect.ErrUsage,
// inspect.ErrNotFound, iut.ErrBusy and ErrEnding. Other errors: ErrNone when no crawl answers,
// ErrVersion, ErrRequest, ErrCut when the answer is not whole, the cause of ctx, and that of a
// failed write to w.
func Call(ctx context.Context, root string, q inspect.Question, w io.Writer) error {
	request, err := appendQuestion([]byte(versionLine(Version)), q)
	if err != nil {
		return err
	}
	dir, err := os.Open(root)
	if err != nil {
		return none(err)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socketPath(dir))
	dir.Close()
	if err != nil {
		return none(err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) })
	defer stop()
	err = exchange(conn, request, w)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// none turns the errors of a socket that nobody serves into ErrNone.
func none(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%w: %w", ErrNone, err)
	}
	return err
}

func exchange(conn net.Conn, request []byte, w io.Writer) error {
	// A server that does not take the question says in its version line why, so a failed write
	// is no reason not to read.
	_, werr := conn.Write(request)
	r := bufio.NewReaderSize(conn, maxFrame)
	switch line, err := readVersion(r); {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrNone, errors.Join(err, werr))
	case line != versionLine(Version):
		return fmt.Errorf("%w: it says %q, this one %q", ErrVersion, line, versionLine(Version))
	}
	var buf []byte
	for {
		kind, payload, err := readFrame(r, buf)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrCut, err)
		}
		buf = payload
		switch kind {
		case kindData:
			if _, err := w.Write(payload); err != nil {
				return err
			}
		case kindDone:
			return nil
		case kindUsage, kindNotFound, kindEnding, kindBusy, kindFailed:
			return &remoteError{kind: errOf(kind), text: string(payload)}
		default:
			return fmt.Errorf("%w: unexpected frame %q", ErrCut, kind)
		}
	}
}
