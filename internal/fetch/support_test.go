package fetch

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newClient makes a client that may talk to loopback, unless opts say otherwise. When the test ends
// no byte of the budget may be out and no file may be left.
func newClient(t testing.TB, opts Options) *Client {
	t.Helper()
	if opts.Guard == nil {
		opts.Guard = func(string, string, bool) bool { return true }
	}
	files := &tempFiles{dir: t.TempDir()}
	if opts.Temp == nil {
		opts.Temp = files.create
	}
	c := New(opts)
	t.Cleanup(func() {
		c.Close()
		if used := c.opts.Bodies.used.Load(); used != 0 {
			t.Errorf("%d bytes of the budget are still out", used)
		}
		if n := files.open.Load(); n != 0 {
			t.Errorf("%d files were not discarded", n)
		}
	})
	return c
}

// tempFiles makes mapped files in a folder of the test and counts those that are not discarded.
type tempFiles struct {
	dir  string
	open atomic.Int64
	made atomic.Int64
}

type tempFile struct {
	*os.File
	owner  *tempFiles
	mapped []byte
}

func (d *tempFiles) create() (Temp, error) {
	f, err := os.CreateTemp(d.dir, "body")
	if err != nil {
		return nil, err
	}
	d.open.Add(1)
	d.made.Add(1)
	return &tempFile{File: f, owner: d}, nil
}

func (f *tempFile) Bytes() ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	f.mapped, err = unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	return f.mapped, err
}

func (f *tempFile) Discard() error {
	f.owner.open.Add(-1)
	var err error
	if f.mapped != nil {
		err = unix.Munmap(f.mapped)
	}
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// serve runs a handler on a loopback address and gives its URL, without a slash at the end.
func serve(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// rawServe answers each request, once its header was read, with whatever answer does to the
// connection.
func rawServe(t testing.TB, answer func(c net.Conn, request string)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		conns []net.Conn
	)
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			wg.Go(func() { answerOne(c, answer) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return "http://" + l.Addr().String()
}

// inMemory has c ask a server that answers as that of rawServe, over connections in memory, so that
// time may be virtual.
func inMemory(t *testing.T, c *Client, answer func(c net.Conn, request string)) string {
	var answers sync.WaitGroup
	t.Cleanup(answers.Wait)
	c.pool.both.DialContext = func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		answers.Go(func() { answerOne(theirs, answer) })
		return ours, nil
	}
	return "http://192.0.2.1"
}

// answerOne reads the header of a request, passes its first line to answer, and closes the
// connection.
func answerOne(c net.Conn, answer func(c net.Conn, request string)) {
	defer c.Close()
	r := bufio.NewReader(c)
	first := ""
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		if first == "" {
			first = line
		}
		if line == "\r\n" {
			break
		}
	}
	answer(c, first)
}

// say answers with a text and closes.
func say(text string) func(net.Conn, string) {
	return func(c net.Conn, _ string) { _, _ = io.WriteString(c, text) }
}

// sayAndReset answers with a text and, once the peer could read it, resets the connection.
func sayAndReset(text string) func(net.Conn, string) {
	return func(c net.Conn, _ string) {
		_, _ = io.WriteString(c, text)
		_ = c.(*net.TCPConn).SetLinger(0)
	}
}

// sayAndHold answers with a text and then is silent until the client gives up.
func sayAndHold(text string) func(net.Conn, string) {
	return func(c net.Conn, _ string) {
		_, _ = io.WriteString(c, text)
		_, _ = c.Read(make([]byte, 1))
	}
}

// drip sends a text again and again, for ever.
func drip(head, text string) func(net.Conn, string) {
	return func(c net.Conn, _ string) {
		_, err := io.WriteString(c, head)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for err == nil {
			<-tick.C
			_, err = io.WriteString(c, text)
		}
	}
}

// receive waits for a value that other goroutines send, for a minute at most.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(time.Minute):
		t.Fatal("a minute has passed")
		panic("not reached")
	}
}
