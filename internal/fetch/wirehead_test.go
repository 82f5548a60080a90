package fetch

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// A slowConn is read in pieces of random sizes.
type slowConn struct {
	net.Conn
	in   io.Reader
	rand *rand.Rand
}

func (c *slowConn) Read(p []byte) (int, error) {
	return c.in.Read(p[:min(len(p), 1+c.rand.IntN(1+c.rand.IntN(5000)))])
}

// FuzzHead: what net/http takes for the head of the final answer is what is kept of it, whatever
// the bytes and however they come.
func FuzzHead(f *testing.F) {
	for i, tt := range heads {
		f.Add([]byte(strings.Repeat(interim, i%2)+tt.sent+tt.sentEnd), uint64(i))
	}
	f.Add([]byte("HTTP/1.1 200 OK\r\n\r \r\nA: b\r\n\r\r\n\r\n"), uint64(0))
	f.Add([]byte("HTTP/1.1 101 Switching Protocols\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"), uint64(0))
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) { checkHead(t, data, seed) })
}

// checkHead returns the head that is kept of data.
func checkHead(t *testing.T, data []byte, seed uint64) []byte {
	c := &tee{Conn: &slowConn{in: bytes.NewReader(data), rand: rand.New(rand.NewPCG(seed, 0))}}
	c.begin()
	in := bufio.NewReader(c)
	for start := 0; ; {
		h, err := http.ReadResponse(in, &http.Request{Method: http.MethodGet})
		if err != nil {
			return nil
		}
		end := len(c.read) - in.Buffered()
		if h.StatusCode/100 == 1 && h.StatusCode != http.StatusSwitchingProtocols {
			start = end
			continue
		}
		c.end()
		_, _ = io.Copy(io.Discard, in) // what comes now is not kept
		got := c.head(h.StatusCode)
		if got != nil && !bytes.Equal(got, data[start:end]) || got == nil && strconv.Itoa(h.StatusCode) == statusOf(data[start:end]) {
			t.Fatalf("kept %q, want %q of %q", got, data[start:end], data)
		}
		if settled := settle(got, false, 3); !bytes.Equal(settled, got) && !bytes.Contains(bytes.ToLower(got), []byte("content-length")) {
			t.Fatalf("%q became %q", got, settled) // and has no length that might be wrong
		}
		return got
	}
}

// TestRandomHeads keeps heads that are drawn at random, and right.
func TestRandomHeads(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	for range 1000 {
		head := "HTTP/1." + pick("0", "1") + " " + pick("200", "301", "404", "503") + pick("", " ", " OK", " a  b ") + pick("\r\n", "\n")
		for range r.IntN(12) {
			head += pick("Server", "x-a", "X_b", "sEt-cOOkie", "Via") + ":" + pick("", " ", "\t ") +
				strings.Repeat(pick("a", "b c", ";=\"", "\xe9"), r.IntN(1+r.IntN(900))) + pick("", " ", "\r\n ", "\n\t", "\r\n \t\r\n x") + pick("\r\n", "\r\n", "\n")
		}
		head += pick("\r\n", "\n")
		before := pick("", interim, "HTTP/1.1 103 \r\n\n")
		body := pick("", "\r\n", "HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("x", 9000))
		if got := checkHead(t, []byte(before+head+body), r.Uint64()); string(got) != head {
			t.Fatalf("seed %d: kept %q, want %q", seed, got, head)
		}
	}
}

// TestWireHeadStays: a request that is sent once the body of another one is read, and before that
// has ended, leaves the head of its answer alone: it has a connection of its own.
func TestWireHeadStays(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := io.WriteString(z, "the first"); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	first := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n", packed.Len())
	const second = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 10\r\nX: longer than the first\r\n\r\n"
	s := serveRaw(t, func(n int) (string, bool) {
		if n == 0 {
			return first + packed.String(), true
		}
		return second + "the second", true
	})
	c := newClient(t, Options{Wire: true})
	get := func(wants func(string) bool, head string) {
		res, err := c.Get(t.Context(), s.url+"/", Request{Wants: wants})
		if err != nil {
			t.Error(err)
			return
		}
		defer res.Body.Release()
		if string(res.Wire.Head) != head {
			t.Errorf("head\n%q, want\n%q", res.Wire.Head, head)
		}
	}
	// What type a body has that came packed and without one is asked once all of it is there.
	get(func(string) bool { get(nil, second); return true }, first)
	get(nil, second) // on one of the two
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns != 2 {
		t.Errorf("%d connections, want 2", s.conns)
	}
}

// TestWireAll: with All the bodies of answers that are not 2xx are kept, as they came and as far as
// they did; what goes wrong with one is not the answer's fault.
func TestWireAll(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, head, sent, kept, body string // "" of kept: as sent
		cut                          bool
	}{
		{name: "redirect", head: "HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 5\r\n\r\n", sent: "moved", body: "moved"},
		{
			name: "chunked", head: "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n", sent: "1\r\na\r\n0\r\n\r\n", body: "a",
			kept: "HTTP/1.1 404 Not Found\r\nX-Archive-Orig-Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
		},
		{name: "a coding that is none", head: "HTTP/1.1 500 No\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n", sent: "abc", body: "abc"},
		{
			name: "broken off", head: "HTTP/1.1 500 No\r\nContent-Length: 5\r\n\r\n", sent: "abc", body: "abc", cut: true,
			kept: "HTTP/1.1 500 No\r\nX-Archive-Orig-Content-Length: 5\r\nContent-Length: 3\r\n\r\n",
		},
		{
			name: "too large", head: "HTTP/1.0 404 Not Found\r\n\r\n", sent: strings.Repeat("x", 1<<20+1), body: strings.Repeat("x", 1<<20), cut: true,
		},
		{name: "none", head: "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"},
		{name: "not modified", head: "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := serveRaw(t, func(int) (string, bool) { return tt.head + tt.sent, false })
			c := newClient(t, Options{Wire: true, All: true})
			res, err := c.Get(t.Context(), s.url+"/", Request{})
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Release()
			if want := cmp.Or(tt.kept, tt.head); string(res.Wire.Head) != want {
				t.Errorf("head\n%q, want\n%q", res.Wire.Head, want)
			}
			if got := string(res.Body.Bytes()); got != tt.body || res.Truncated != tt.cut {
				t.Errorf("body %.20q of %d bytes, truncated %v", got, len(got), res.Truncated)
			}
		})
	}
}
