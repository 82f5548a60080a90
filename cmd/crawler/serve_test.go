package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"urltree/internal/testsite"
)

// TestServeConnections: the server has so many connections at a time, others wait for them to end,
// and an interrupt ends it whatever they do.
func TestServeConnections(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "iut")
	site := testsite.New(t, root)
	site.Seed("http://a.example/")
	site.Close()
	p, err := start(exec.Command(builtCommand(), "serve", "-tree", root, "-listen", "127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { <-p.done }()
	defer func() { _ = p.cmd.Process.Kill() }()
	address := regexp.MustCompile(`127\.0\.0\.1:[0-9]+`)
	if !p.printed.wait(address) {
		t.Fatalf("no address: %q", p.printed.text)
	}
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", p.printed.find(address))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		fmt.Fprintf(conn, "HEAD / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
		return conn
	}
	answer := func(conn net.Conn, within time.Duration) error {
		if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
			t.Fatal(err)
		}
		_, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodHead})
		return err
	}
	var open []net.Conn
	for range mostConnections {
		open = append(open, dial())
		if err := answer(open[len(open)-1], patience); err != nil {
			t.Fatal(err)
		}
	}
	more := dial()
	if err := answer(more, 300*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("one connection too many is answered: %v", err)
	}
	open[0].Close()
	if err := answer(more, patience); err != nil {
		t.Errorf("a connection that had to wait: %v", err)
	}
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.done:
		if p.err != nil {
			t.Errorf("interrupted: %v: %s", p.err, p.printed.text)
		}
	case <-time.After(patience):
		t.Error("an interrupt does not end it")
	}
}
