package crawler_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A hostileWeb is servers that do harm: each host has one way of it, for pages /bad/N. A page /ok/N
// is a decent one that leads to two bad ones and on to /ok/N+1, so that no host looks dead for
// long. One host in ten does harm where robots.txt should be, too.
//
// They speak TCP, since net/http would not let them.
type hostileWeb struct {
	// Pace is between two pieces of what never ends; 0: as fast as the other side reads.
	Pace time.Duration
	// Decent is how many decent pages a host has; 0: endlessly many.
	Decent int

	origins []string
	serves  sync.WaitGroup
	stop    chan struct{} // closed by Stop

	mu        sync.Mutex
	listeners []net.Listener        // guarded by mu
	conns     map[net.Conn]struct{} // guarded by mu

	bad, held atomic.Int64
}

// A harm ends when the other side, or the server, closes the connection. It may be done before
// that; then the connection is closed.
type harm func(h *hostileWeb, c *net.TCPConn, path string)

// harms are the ways, by their names; host n has number n modulo their number.
var harms = []struct {
	name string
	do   harm
}{
	{"reset", func(_ *hostileWeb, c *net.TCPConn, _ string) { _ = c.SetLinger(0) }},
	{"reset inside", func(_ *hostileWeb, c *net.TCPConn, _ string) {
		_, _ = io.WriteString(c, head("Content-Length: 5000")+"<p>half of a ")
		_ = c.SetLinger(0)
	}},
	{"stall", func(h *hostileWeb, c *net.TCPConn, _ string) { h.hold(c) }},
	{"stall inside", func(h *hostileWeb, c *net.TCPConn, _ string) {
		_, _ = io.WriteString(c, head("Content-Length: 5000")+"<p>half of a ")
		h.hold(c)
	}},
	{"drip", func(h *hostileWeb, c *net.TCPConn, _ string) {
		h.endless(c, head("Content-Length: 50000000"), []byte("x"), 10*h.Pace)
	}},
	{"too short", func(_ *hostileWeb, c *net.TCPConn, _ string) {
		_, _ = io.WriteString(c, head("Content-Length: 5000")+"<p>no more")
	}},
	{"too long", func(_ *hostileWeb, c *net.TCPConn, _ string) {
		_, _ = io.WriteString(c, head("Content-Length: 9")+"<p>no more than this\r\nHTTP/1.1 200 OK\r\n\r\n")
	}},
	{"bomb", func(h *hostileWeb, c *net.TCPConn, _ string) {
		h.endless(c, head("Content-Encoding: gzip"), bomb(), h.Pace)
	}},
	{"circle", func(_ *hostileWeb, c *net.TCPConn, path string) {
		to := strings.TrimSuffix(path, "/again")
		if to == path {
			to += "/again"
		}
		_, _ = io.WriteString(c, "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: "+to+"\r\n\r\n")
	}},
	{"endless redirects", func(_ *hostileWeb, c *net.TCPConn, path string) {
		_, _ = io.WriteString(c, "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: "+path+"x\r\n\r\n")
	}},
	{"endless headers", func(h *hostileWeb, c *net.TCPConn, _ string) {
		h.endless(c, "HTTP/1.1 200 OK\r\n", []byte("X-More: "+strings.Repeat("more ", 200)+"\r\n"), h.Pace)
	}},
	{"endless body", func(h *hostileWeb, c *net.TCPConn, _ string) {
		h.endless(c, head("Connection: close"), []byte(strings.Repeat("<a href=/bad/0>once more</a>\n", 500)), h.Pace)
	}},
	{"endless chunks", func(h *hostileWeb, c *net.TCPConn, _ string) {
		h.endless(c, head("Transfer-Encoding: chunked"), []byte(strings.Repeat("1\r\nx\r\n", 500)), h.Pace)
	}},
	{"noise", func(_ *hostileWeb, c *net.TCPConn, _ string) {
		_, _ = io.WriteString(c, "\x00\xff nothing of HTTP \r\n\r\n")
	}},
}

// Start serves n hosts, 127.90.0.1 and on, at one port. A connection that does harm
// of a kind that holds is held until Stop, or until the client is gone.
func (h *hostileWeb) Start(n int) error {
	h.stop, h.conns = make(chan struct{}), make(map[net.Conn]struct{})
	port := "0"
	for i := range n {
		l, err := net.Listen("tcp", fmt.Sprintf("127.90.%d.%d:%s", i/250, 1+i%250, port))
		if err != nil {
			h.Stop()
			return err
		}
		h.listeners = append(h.listeners, l)
		h.origins = append(h.origins, "http://"+l.Addr().String())
		port = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
		h.serves.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				h.serves.Go(func() { h.serve(c.(*net.TCPConn), i) })
			}
		})
	}
	return nil
}

// Stop ends all connections. It may be called again.
func (h *hostileWeb) Stop() {
	h.mu.Lock()
	select {
	case <-h.stop:
	default:
		close(h.stop)
	}
	for _, l := range h.listeners {
		_ = l.Close()
	}
	for c := range h.conns {
		_ = c.Close()
	}
	h.mu.Unlock()
	h.serves.Wait()
}

// Seeds returns the first page of each host.
func (h *hostileWeb) Seeds() (urls []string) {
	for _, origin := range h.origins {
		urls = append(urls, origin+"/ok/0")
	}
	return urls
}

// Counts returns how many requests for bad pages there were, and how many of them are held, or go
// on without an end, now.
func (h *hostileWeb) Counts() (bad, held int64) { return h.bad.Load(), h.held.Load() }

func (h *hostileWeb) serve(c *net.TCPConn, host int) {
	defer c.Close()
	h.mu.Lock()
	select {
	case <-h.stop:
		h.mu.Unlock()
		return
	default:
	}
	h.conns[c] = struct{}{}
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.conns, c)
		h.mu.Unlock()
	}()
	for r := bufio.NewReader(c); ; {
		request, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		path := request.URL.Path
		number, decent := strings.CutPrefix(path, "/ok/")
		switch {
		case decent:
			n, _ := strconv.Atoi(number)
			body := fmt.Sprintf("<a href=/bad/%d></a><a href=/bad/%d></a>", 2*n, 2*n+1)
			if n+1 != h.Decent {
				body += fmt.Sprintf("<a href=/ok/%d></a>", n+1)
			}
			_, err = io.WriteString(c, head("Content-Length: "+strconv.Itoa(len(body)))+body)
		case strings.HasPrefix(path, "/bad/"), path == "/robots.txt" && host%10 == 9:
			h.bad.Add(1)
			harms[host%len(harms)].do(h, c, path)
			return
		default:
			_, err = io.WriteString(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
		}
		if err != nil {
			return
		}
	}
}

// head is the head of an answer with a page.
func head(field string) string {
	return "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n" + field + "\r\n\r\n"
}

// hold waits until the other side or the server closes the connection.
func (h *hostileWeb) hold(c *net.TCPConn) {
	h.held.Add(1)
	defer h.held.Add(-1)
	_, _ = io.Copy(io.Discard, c)
}

// endless sends the same piece again and again.
func (h *hostileWeb) endless(c *net.TCPConn, begin string, piece []byte, pace time.Duration) {
	h.held.Add(1)
	defer h.held.Add(-1)
	gone := make(chan struct{})
	h.serves.Go(func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, c)
	})
	defer func() {
		_ = c.Close()
		<-gone
	}()
	if _, err := io.WriteString(c, begin); err != nil {
		return
	}
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-gone:
			return
		}
		if _, err := c.Write(piece); err != nil {
			return
		}
		t.Reset(pace)
	}
}

// bomb is a member of a gzip stream that grows a thousandfold, to 1 MiB.
var bomb = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(make([]byte, 1<<20))
	_ = z.Close()
	return b.Bytes()
})
