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
	"sync"
	"time"

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
	var wg sync.WaitGroup
	wg.Go(func() { s.accept(ctx, l) })
	return sync.OnceValue(func() error {
		cancel()
		wg.Wait()
		// The socket's path goes through dir: it is removed first.
		return errors.Join(closeListener(l), dir.Close())
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

// closeListener closes l, which accept may have closed already.
func closeListener(l net.Listener) error {
	if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// accept takes connections until ctx ends, and returns when all of them are done.
func (s *server) accept(ctx context.Context, l net.Listener) {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	free := make(chan struct{}, s.clients) // full: as many answers as may be at a time
	for {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return
		}
		conn, err := l.Accept()
		if err != nil {
			// Out of descriptors, most likely: the crawl needs them more than we do.
			select {
			case <-ctx.Done():
				return
			case <-time.After(100 * time.Millisecond):
				<-free
				continue
			}
		}
		wg.Go(func() {
			s.answer(ctx, conn)
			<-free
		})
	}
}

// answer serves one connection. What goes wrong with it is the client's to notice.
func (s *server) answer(ctx context.Context, conn net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	a := &answer{ctx: ctx, conn: conn, server: s, buf: frameRoom()}
	var watch sync.WaitGroup
	defer func() {
		conn.Close()
		watch.Wait()
		cancel()
	}()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now().Add(s.farewell)) })
	defer stop()

	r := bufio.NewReader(conn)
	if a.send([]byte(versionLine(Version))) != nil {
		return
	}
	q, err := s.question(ctx, conn, r)
	if err != nil {
		if ctx.Err() != nil {
			a.send(appendFrame(nil, kindEnding, ErrEnding.Error())) // or the answer would seem to be cut
		}
		return
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return
	}
	// A client sends nothing more, so a read ends when it goes away.
	watch.Go(func() {
		r.ReadByte()
		cancel()
	})
	err = s.call(ctx, q, a)
	if a.flush() != nil {
		return
	}
	text := ""
	if err != nil {
		if ctx.Err() != nil {
			err = ErrEnding
		}
		text = err.Error()
	}
	a.send(appendFrame(nil, kindOf(err), text))
}

// question reads what the client wants, unless the crawl ends first.
func (s *server) question(ctx context.Context, conn net.Conn, r *bufio.Reader) (q inspect.Question, err error) {
	// Asked behind the deadline, as in send.
	if err := conn.SetReadDeadline(time.Now().Add(s.stall)); err != nil || ctx.Err() != nil {
		return q, errors.Join(err, ctx.Err())
	}
	if line, err := readVersion(r); err != nil || line != versionLine(Version) {
		return q, errors.Join(err, ErrVersion)
	}
	return readQuestion(r)
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

// An answer collects what a handler writes into frames of data.
type answer struct {
	ctx    context.Context
	conn   net.Conn
	server *server
	buf    []byte // the next frame: room for its head, then data
	err    error  // the first one; nothing is sent after it
}

const chunk = 32 << 10 // bytes of data in a frame

func frameRoom() []byte { return make([]byte, headLen, headLen+chunk) }

func (a *answer) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		k := min(len(p), cap(a.buf)-len(a.buf))
		a.buf = append(a.buf, p[:k]...)
		n, p = n+k, p[k:]
		if len(a.buf) == cap(a.buf) {
			if err := a.flush(); err != nil {
				return n, err
			}
		}
	}
	return n, a.err
}

// flush sends the data collected so far.
func (a *answer) flush() error {
	if len(a.buf) == headLen {
		return a.err
	}
	appendHead(a.buf[:0], kindData, len(a.buf)-headLen)
	err := a.send(a.buf)
	a.buf = a.buf[:headLen]
	return err
}

// send writes b within the time that a client has for one chunk.
func (a *answer) send(b []byte) error {
	if a.err != nil {
		return a.err
	}
	a.err = a.conn.SetWriteDeadline(time.Now().Add(a.server.stall))
	// Asked behind the deadline: if the crawl ends after this, its own deadline comes last.
	if a.err == nil && a.ctx.Err() != nil {
		a.err = a.conn.SetWriteDeadline(time.Now().Add(a.server.farewell))
	}
	if a.err == nil {
		_, a.err = a.conn.Write(b)
	}
	return a.err
}
