package ctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"

	"urltree/internal/inspect"
)

// Call asks the crawl that has the tree in the folder root, and copies its answer to w. An
// error of the handler comes back with its text, and errors.Is knows inspect.ErrUsage,
// inspect.ErrNotFound, iut.ErrBusy and ErrEnding. Other errors: ErrNone when no crawl answers,
// ErrVersion, ErrRequest, ErrCut when the answer is not whole, the cause of ctx, and that of a
// failed write to w.
func Call(ctx context.Context, root string, q inspect.Question, w io.Writer) (err error) {
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}()
	question, err := json.Marshal(q)
	if err != nil {
		return err
	}
	if len(question) > mostQuestion {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrRequest, len(question), mostQuestion)
	}
	dir, err := os.Open(root)
	if err != nil {
		return none(err)
	}
	defer dir.Close()
	transport := &http.Transport{
		DisableKeepAlives: true,
		ReadBufferSize:    4 * mostError, // trailers must have room
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socketPath(dir))
		},
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://crawl"+path, bytes.NewReader(question))
	if err != nil {
		return err
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return none(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: it answers %s", ErrVersion, answer.Status)
	}
	out := &failing{w: w}
	if _, err := io.Copy(out, answer.Body); err != nil {
		if out.err != nil {
			return out.err
		}
		return fmt.Errorf("%w: %w", ErrCut, err)
	}
	said, err := url.QueryUnescape(answer.Trailer.Get(textTrailer))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCut, err)
	}
	return errOf(answer.Trailer.Get(endTrailer), said)
}

// none turns the errors of a socket that nobody serves, and of a server that dies, into ErrNone,
// and those of one that speaks otherwise into ErrVersion.
func none(err error) error {
	for _, is := range []error{fs.ErrNotExist, syscall.ECONNREFUSED, io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, is) {
			return fmt.Errorf("%w: %w", ErrNone, err)
		}
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) || errors.Is(err, fs.ErrPermission) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrVersion, err)
}

// A failing writer keeps the error of a write.
type failing struct {
	w   io.Writer
	err error
}

func (f *failing) Write(b []byte) (int, error) {
	n, err := f.w.Write(b)
	f.err = err
	return n, err
}
