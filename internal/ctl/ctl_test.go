package ctl

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"urltree/internal/inspect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tempRoot makes a root with a short path: t.TempDir has the name of the test in it, which is
// too long for the address of a socket on systems without /proc.
func tempRoot(t *testing.T) string {
	t.Helper()
	root, err := os.MkdirTemp("", "ctl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	return root
}

// start serves handle in a new root, as Serve does.
func start(t *testing.T, handle Handler) (root string, stop func() error) {
	t.Helper()
	root = tempRoot(t)
	return root, startIn(t, root, &server{handle: handle, clients: 8, stall: 10 * time.Second, farewell: time.Second})
}

func startIn(t *testing.T, root string, s *server) (stop func() error) {
	t.Helper()
	stop, err := s.serve(context.Background(), root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return stop
}

// asked returns a question of a command and a URL.
func asked(args ...string) (q inspect.Question) {
	q.Command = args[0]
	if len(args) > 1 {
		q.URL = args[1]
	}
	return q
}

func ask(t *testing.T, root string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := Call(t.Context(), root, asked(args...), &out)
	return out.String(), err
}

// dial connects as a client that does not follow the rules.
func dial(t *testing.T, root, send string) (net.Conn, *bufio.Reader) {
	t.Helper()
	dir, err := os.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	conn, err := net.Dial("unix", socketPath(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, send); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// question is a request of these, as a client sends it.
func question(t *testing.T, args ...string) string {
	t.Helper()
	text, err := json.Marshal(asked(args...))
	if err != nil {
		t.Fatal(err)
	}
	return posted(path, string(text))
}

func posted(path, text string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: crawl\r\nContent-Length: %d\r\n\r\n%s", path, len(text), text)
}

// wait fails the test when what should happen does not.
func wait(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute):
		t.Fatalf("%s: did not happen", what)
	}
}

func echo(_ context.Context, q inspect.Question, w io.Writer) error {
	_, err := fmt.Fprintf(w, "%q", []string{q.Command, q.URL})
	return err
}

func TestAnswers(t *testing.T) {
	big := strings.Repeat("0123456789abcde\n", 1<<16) // 1 MiB: many frames
	plain := errors.New("plain")
	for _, tt := range []struct {
		name   string
		handle Handler
		want   string
		err    string
		kind   error
	}{
		{"question", echo, `["show" "a b\n\x00<é"]`, "", nil},
		{"nothing", func(context.Context, inspect.Question, io.Writer) error { return nil }, "", "", nil},
		{"big", func(_ context.Context, _ inspect.Question, w io.Writer) error {
			_, err := io.WriteString(w, big)
			return err
		}, big, "", nil},
		{"small writes", func(_ context.Context, _ inspect.Question, w io.Writer) error {
			for line := range strings.Lines(big) {
				if _, err := io.WriteString(w, line); err != nil {
					return err
				}
			}
			return nil
		}, big, "", nil},
		{"usage", func(context.Context, inspect.Question, io.Writer) error {
			return fmt.Errorf("%w: ls", inspect.ErrUsage)
		}, "", "usage: ls", inspect.ErrUsage},
		{"not found, after some output", func(_ context.Context, _ inspect.Question, w io.Writer) error {
			io.WriteString(w, "half")
			return fmt.Errorf("%w: x", inspect.ErrNotFound)
		}, "half", "not found: x", inspect.ErrNotFound},
		{"other", func(context.Context, inspect.Question, io.Writer) error { return plain }, "", "plain", nil},
		{"long error", func(context.Context, inspect.Question, io.Writer) error {
			return errors.New(big)
		}, "", big[:mostError], nil},
		{"panic", func(context.Context, inspect.Question, io.Writer) error {
			panic("ouch")
		}, "", "the answer failed inside the crawl: ouch", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root, _ := start(t, tt.handle)
			for range 2 { // the second question finds the server as the first did
				got, err := ask(t, root, "show", "a b\n\x00<é")
				if got != tt.want {
					t.Errorf("answer %.100q, want %.100q", got, tt.want)
				}
				if (err != nil) != (tt.err != "") || err != nil && err.Error() != tt.err {
					t.Errorf("error %v, want %.100q", err, tt.err)
				}
				for _, kind := range []error{inspect.ErrUsage, inspect.ErrNotFound, ErrNone, ErrCut} {
					if errors.Is(err, kind) != (kind == tt.kind) {
						t.Errorf("error %v is %v: %t", err, kind, kind != tt.kind)
					}
				}
			}
		})
	}
}

func TestNobody(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(t *testing.T, root string)
	}{
		{"no folder", func(t *testing.T, root string) {
			if err := os.Remove(root); err != nil {
				t.Fatal(err)
			}
		}},
		{"no socket", func(*testing.T, string) {}},
		{"stale socket", leaveSocket},
		{"crawl has ended", func(t *testing.T, root string) {
			stop := startIn(t, root, &server{handle: echo, clients: 1, stall: time.Second, farewell: time.Second})
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(filepath.Join(root, Name)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("socket after the end: %v", err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := tempRoot(t)
			tt.make(t, root)
			if out, err := ask(t, root, "ls"); !errors.Is(err, ErrNone) || out != "" {
				t.Errorf("answer %q, %v; want %v", out, err, ErrNone)
			}
		})
	}
}

// leaveSocket leaves a socket as a killed crawl does.
func leaveSocket(t *testing.T, root string) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(root, Name))
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
}

func TestSocketFile(t *testing.T) {
	t.Run("stale one is replaced, mode is private", func(t *testing.T) {
		root := tempRoot(t)
		leaveSocket(t, root)
		startIn(t, root, &server{handle: echo, clients: 1, stall: time.Second, farewell: time.Second})
		info, err := os.Lstat(filepath.Join(root, Name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != os.ModeSocket|0o600 {
			t.Errorf("mode %v", info.Mode())
		}
		if got, err := ask(t, root, "ls"); err != nil || got != `["ls" ""]` {
			t.Errorf("answer %q, %v", got, err)
		}
	})
	t.Run("another file is kept", func(t *testing.T) {
		root := tempRoot(t)
		name := filepath.Join(root, Name)
		if err := os.WriteFile(name, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Serve(t.Context(), root, echo); err == nil {
			t.Error("served over a file that is no socket")
		}
		if b, err := os.ReadFile(name); string(b) != "mine" {
			t.Errorf("file is %q, %v", b, err)
		}
	})
	t.Run("long root", func(t *testing.T) {
		if _, err := os.Stat("/proc/self/fd"); err != nil {
			t.Skip("no /proc here: an address has to hold the whole path")
		}
		root := filepath.Join(t.TempDir(), strings.Repeat("long/", 300))
		if err := os.MkdirAll(root, 0o777); err != nil {
			t.Fatal(err)
		}
		stop := startIn(t, root, &server{handle: echo, clients: 1, stall: time.Second, farewell: time.Second})
		if got, err := ask(t, root, "ls"); err != nil || got != `["ls" ""]` {
			t.Errorf("answer %q, %v", got, err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
}

// TestBadServer asks programs that answer wrongly, from the crawl of another version to one
// that is killed in the middle of an answer.
func TestBadServer(t *testing.T) {
	const begin, some = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "4\r\nsome\r\n"
	for _, tt := range []struct {
		name, send, out string
		want            error
	}{
		{"dies at once", "", "", ErrNone},
		{"an older version", "urltree-ctl 3\n", "", ErrVersion},
		{"another version", "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "", ErrVersion},
		{"no version", strings.Repeat("x", 100), "", ErrVersion},
		{"dies before the answer", begin, "", ErrCut},
		{"dies between chunks", begin + some, "some", ErrCut},
		{"dies within a chunk", begin + some + some[:5], "someso", ErrCut},
		{"dies before the trailers", begin + some + "0\r\n", "some", ErrCut},
		{"no trailers", begin + some + "0\r\n\r\n", "some", ErrCut},
		{"unknown end", begin + some + "0\r\nUrltree-End: ?\r\n\r\n", "some", ErrCut},
		{"whole", begin + some + "0\r\nUrltree-End: done\r\n\r\n", "some", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := tempRoot(t)
			l, err := net.Listen("unix", filepath.Join(root, Name))
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			wg.Go(func() {
				if conn, err := l.Accept(); err == nil {
					http.ReadRequest(bufio.NewReader(conn))
					io.WriteString(conn, tt.send)
					conn.Close()
				}
			})
			out, err := ask(t, root, "ls")
			if !errors.Is(err, tt.want) || tt.want == nil && err != nil || out != tt.out {
				t.Errorf("answer %q, %v; want %q, %v", out, err, tt.out, tt.want)
			}
			l.Close()
			wg.Wait()
		})
	}
}

func TestOtherClient(t *testing.T) {
	for _, tt := range []struct{ name, send, status string }{
		{"an older version", "urltree-ctl 3\nq", "400"},
		{"another version", posted("/urltree/5", "{}"), "404"},
		{"no request", strings.Repeat("x", 100) + "\r\n\r\n", "400"},
		{"no JSON", posted(path, "ls"), "400"},
		{"too long", posted(path, strings.Repeat(" ", mostQuestion)+"{}"), "400"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked := make(chan struct{}, 1)
			root, _ := start(t, func(context.Context, inspect.Question, io.Writer) error {
				asked <- struct{}{}
				return nil
			})
			conn, r := dial(t, root, tt.send)
			if line, err := r.ReadString('\n'); !strings.HasPrefix(line, "HTTP/1.1 "+tt.status) {
				t.Errorf("answered %q, %v", line, err)
			}
			conn.Close()
			select {
			case <-asked:
				t.Error("the handler was called")
			default:
			}
			if _, err := ask(t, root, "ls"); err != nil {
				t.Errorf("the next client: %v", err)
			}
		})
	}
}

// TestStalledClients: with one place, each client that stalls gives it back by itself.
func TestStalledClients(t *testing.T) {
	root := tempRoot(t)
	gaveUp := make(chan error, 1)
	startIn(t, root, &server{clients: 1, stall: 250 * time.Millisecond, farewell: time.Second, handle: func(_ context.Context, q inspect.Question, w io.Writer) error {
		if q.Command != "forever" {
			return nil
		}
		for {
			if _, err := w.Write(make([]byte, 4096)); err != nil {
				gaveUp <- err
				return err
			}
		}
	}})
	dial(t, root, "")                                         // says nothing
	dial(t, root, question(t, "ls")[:20])                     // stops within its question
	dial(t, root, strings.TrimSuffix(question(t, "ls"), "}")) // the same, in the body
	dial(t, root, question(t, "forever"))                     // takes nothing
	if _, err := ask(t, root, "ls"); err != nil {
		t.Errorf("the client behind them: %v", err)
	}
	if err := <-gaveUp; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the writes ended by %v", err)
	}
}

// TestKilledClient: a handler learns of it without writing.
func TestKilledClient(t *testing.T) {
	asked, ended := make(chan struct{}), make(chan struct{})
	root, _ := start(t, func(ctx context.Context, _ inspect.Question, _ io.Writer) error {
		close(asked)
		<-ctx.Done()
		close(ended)
		return ctx.Err()
	})
	conn, _ := dial(t, root, question(t, "export"))
	wait(t, asked, "question")
	conn.Close()
	wait(t, ended, "end of the handler")
}

// TestPlaces: as many questions as there are places are answered at a time, the next one waits.
func TestPlaces(t *testing.T) {
	const places = 8
	in, out := make(chan struct{}), make(chan struct{})
	root, _ := start(t, func(context.Context, inspect.Question, io.Writer) error {
		in <- struct{}{}
		<-out
		return nil
	})
	var wg sync.WaitGroup
	for range places {
		wg.Go(func() {
			if _, err := ask(t, root, "ls"); err != nil {
				t.Error(err)
			}
		})
	}
	for range places {
		wait(t, in, "question")
	}
	conn, r := dial(t, root, question(t, "ls"))
	if err := conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if line, err := r.ReadString('\n'); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("without a place it got %q, %v", line, err)
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	out <- struct{}{}
	wait(t, in, "question of the client that waited")
	for range places {
		out <- struct{}{}
	}
	if got, err := io.ReadAll(r); !strings.HasSuffix(string(got), "0\r\nUrltree-End: done\r\n\r\n") {
		t.Errorf("the client that waited got %q, %v", got, err)
	}
	wg.Wait()
}

// TestEndOfCrawl: the end waits for the handlers, tells the clients, and no stalled one delays it.
func TestEndOfCrawl(t *testing.T) {
	asked := make(chan struct{}, 2)
	handle := func(ctx context.Context, q inspect.Question, w io.Writer) error {
		asked <- struct{}{}
		if q.Command == "forever" {
			for {
				if _, err := w.Write(make([]byte, 4096)); err != nil {
					return err
				}
			}
		}
		<-ctx.Done()
		return ctx.Err()
	}
	root := tempRoot(t)
	stop := startIn(t, root, &server{handle: handle, clients: 3, stall: time.Hour, farewell: 200 * time.Millisecond})
	_, silent := dial(t, root, "")        // says nothing
	dial(t, root, question(t, "forever")) // takes nothing
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := ask(t, root, "ls")
		if !errors.Is(err, ErrEnding) || err.Error() != "the crawl is ending" {
			t.Errorf("the client got %v", err)
		}
	})
	wait(t, asked, "question")
	wait(t, asked, "question")
	stopped := make(chan struct{})
	wg.Go(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
		close(stopped)
	})
	wait(t, stopped, "end")
	wg.Wait()
	if got, err := io.ReadAll(silent); len(got) > 0 {
		t.Errorf("the client that had not asked got %q, %v", got, err)
	}
	if err := stop(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

func TestClientGivesUp(t *testing.T) {
	t.Run("context", func(t *testing.T) {
		ended := make(chan struct{})
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		root, _ := start(t, func(ctx context.Context, _ inspect.Question, _ io.Writer) error {
			cancel(why)
			<-ctx.Done()
			close(ended)
			return nil
		})
		if err := Call(ctx, root, asked("ls"), io.Discard); !errors.Is(err, why) {
			t.Errorf("Call: %v, want %v", err, why)
		}
		wait(t, ended, "end of the handler")
	})
	t.Run("output", func(t *testing.T) {
		root, _ := start(t, echo)
		r, w := io.Pipe()
		r.Close()
		if err := Call(t.Context(), root, asked("ls"), w); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Call: %v, want that of the writer", err)
		}
	})
	t.Run("question too long", func(t *testing.T) {
		root, _ := start(t, echo)
		most := mostQuestion - len(`{"Command":""}`)
		if _, err := ask(t, root, strings.Repeat("x", most+1)); !errors.Is(err, ErrRequest) {
			t.Errorf("Call: %v, want %v", err, ErrRequest)
		}
		if _, err := ask(t, root, strings.Repeat("x", most)); err != nil {
			t.Errorf("the longest question: %v", err)
		}
	})
}
