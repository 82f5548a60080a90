package ctl

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"urltree/internal/inspect"
)

// A Handler answers one question by writing to w. Its error ends the answer and reaches the
// client with its kind (inspect.ErrUsage, inspect.ErrNotFound, iut.ErrBusy or another) and its
// text. It should give up when ctx ends or a write fails: the client is gone or the crawl is
// ending.
type Handler func(ctx context.Context, q inspect.Question, w io.Writer) error

// Serve answers questions at the socket in the folder root, which must be the tree's and whose
// LOCK the caller holds: a socket that is there already is taken for stale and removed. It goes
// on until ctx ends or the function it returns is called, which waits until the handlers have
// returned and removes the socket; it may be called again. Up to 8 questions are answered at a
// time, more wait. A client that takes nothing for 10 s is dropped.
func Serve(ctx context.Context, root string, handle Handler) (closeFn func() error, err error) {
	s := &server{handle: handle, clients: 8, stall: 10 * time.Second, farewell: time.Second}
	return s.serve(ctx, root)
}

type server struct {
	handle   Handler
	clients  int           // answered at a time
	stall    time.Duration // longest wait for a client to send its question or to take a chunk
	farewell time.Duration // the same once the crawl is ending
}

func (s *server) serve(ctx context.Context, root string) (func() error, error) {
	dir, err := os.Open(root)
	if err != nil {
		return nil, err
	}
	l, err := listen(ctx, dir)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make %s in %s: %w", Name, root, err), dir.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	var answering sync.RWMutex // held for reading by each handler
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		answering.RLock()
		defer answering.RUnlock()
		s.answer(ctx, w, r)
	})
	h := &http.Server{
		Handler:        mux,
		BaseContext:    func(net.Listener) context.Context { return ctx },
		ReadTimeout:    s.stall,
		MaxHeaderBytes: mostQuestion,
		ErrorLog:       slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // what goes wrong is the client's to notice
	}
	h.SetKeepAlivesEnabled(false)
	var serving sync.WaitGroup
	serving.Go(func() { h.Serve(netutil.LimitListener(l, s.clients)) })
	return sync.OnceValue(func() error {
		cancel()
		soon, stop := context.WithTimeout(context.Background(), s.farewell)
		defer stop()
		// Whoever has not asked by then, or does not take its answer, is cut off.
		err := h.Shutdown(soon)
		if errors.Is(err, context.DeadlineExceeded) {
			err = h.Close()
		}
		serving.Wait()
		answering.Lock()
		defer answering.Unlock()
		// The socket's path goes through dir: it has been removed.
		return errors.Join(err, dir.Close())
	}), nil
}

func listen(ctx context.Context, dir *os.File) (net.Listener, error) {
	path := socketPath(dir)
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket:
		return nil, errors.New("a file of that name is no socket")
	default:
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	config := net.ListenConfig{Control: private}
	l, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	// Where private could not do it before.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// answer answers one question. ctx is the crawl's; that of the request ends with it, and when the
// client goes away.
func (s *server) answer(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	var q inspect.Question
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostQuestion)).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c := http.NewResponseController(w)
	if c.SetReadDeadline(time.Time{}) != nil { // it would end the request's context
		return
	}
	defer context.AfterFunc(ctx, func() { c.SetWriteDeadline(time.Now().Add(s.farewell)) })()
	out := bufio.NewWriterSize(&chunks{ctx: ctx, w: w, c: c, server: s}, chunk)
	err := s.call(r.Context(), q, out)
	if out.Flush() != nil {
		panic(http.ErrAbortHandler) // the answer is cut
	}
	if err != nil && ctx.Err() != nil {
		err = ErrEnding
	}
	w.Header().Set(http.TrailerPrefix+endTrailer, endOf(err))
	if err != nil {
		text := err.Error()
		w.Header().Set(http.TrailerPrefix+textTrailer, url.QueryEscape(text[:min(len(text), mostError)]))
	}
}

// call runs the handler; a panic in it must not end the crawl.
func (s *server) call(ctx context.Context, q inspect.Question, w io.Writer) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the answer failed inside the crawl: %v", p)
		}
	}()
	return s.handle(ctx, q, w)
}

const chunk = 32 << 10 // bytes of an answer that are written at a time

// chunks writes an answer, each chunk within the time that a client has for it.
type chunks struct {
	ctx    context.Context // of the crawl
	w      io.Writer
	c      *http.ResponseController
	server *server
}

func (a *chunks) Write(b []byte) (int, error) {
	err := a.c.SetWriteDeadline(time.Now().Add(a.server.stall))
	// Asked behind the deadline: if the crawl ends after this, its own deadline comes last.
	if err == nil && a.ctx.Err() != nil {
		err = a.c.SetWriteDeadline(time.Now().Add(a.server.farewell))
	}
	if err != nil {
		return 0, err
	}
	n, err := a.w.Write(b)
	if err == nil {
		err = a.c.Flush()
	}
	return n, err
}
