package fetch

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"
)

// origPrefix is put before the name of a header that is not true of a body as it is kept. Readers
// of archives know it as a part of names of headers that were sent.
const origPrefix = "X-Archive-Orig-"

// A Wire is a request and its answer as they went over the wire, for an archive. It has memory of
// its own, in no budget and valid for as long as it is used, but for Coded.
type Wire struct {
	// Request is the request line and the headers as sent, with CRLF, up to and with the empty line.
	// The values of Authorization, Proxy-Authorization and Cookie, and of what comes from
	// Options.Header, are "-". Of a request by HTTP/2 it is what HTTP/1.1 would send. nil for
	// Options.Source.
	Request []byte
	// Head is the status line and the headers of the answer up to and with the empty line, byte by
	// byte as received by HTTP/1. Interim answers (1xx) before it are left out. For HTTP/2 and
	// Options.Source it is written down as HTTP/1.1 has it, with its headers sorted by name.
	//
	// Where it would not be true of the body as kept it differs: if a chunked coding was undone,
	// X-Archive-Orig- stands before the name Transfer-Encoding, and so it does before a Content-Length
	// that is not the length kept, such as that of a body that broke off or was dropped. In both cases
	// there is a Content-Length of the length kept, as the last header if it was not sent. Trailers
	// are not kept. The head of an answer that never has a body (101, 204, 304) is as received.
	Head []byte
	// Protocol is "http/1.0", "http/1.1" or "h2". "" for Options.Source.
	Protocol string
	// Addr is the address of the host. Zero through a proxy and for Options.Source.
	Addr netip.Addr
	// Sent is the time at which the request began to be sent, or Options.Source was called.
	Sent time.Time
	// Coded is the body as received but for the transfer coding, of at most 64 KiB more than
	// Request.MaxSize. nil if Response.Body is that body: it had no content coding, is empty, or was
	// dropped. Response.Body owns it: Coded is valid until Release of that Body, which releases it as
	// well, and counts in the Budget besides it until HandOver or Release of that. It is in memory or
	// in a file by itself, see Temp, and has no Digest.
	Coded *Body
}

// wire makes the Wire of an answer that was read. conn is nil for Options.Source.
func (c *Client) wire(to *route, h *http.Response, conn *pooled, res *Response) *Wire {
	wire := &Wire{Sent: to.sent, Coded: res.Body.coded}
	var head []byte
	if conn != nil {
		wire.Addr = conn.peer
		wire.Request = c.written(to, conn)
		switch {
		case conn.tee == nil:
			wire.Protocol = "h2"
		case h.ProtoAtLeast(1, 1):
			wire.Protocol = "http/1.1"
		default:
			wire.Protocol = "http/1.0"
		}
		head = conn.tee.head(h.StatusCode)
	}
	if was := to.was; was != nil {
		wire.Request, wire.Protocol, wire.Addr, wire.Sent = was.Request, was.Protocol, was.Addr, was.Sent
		head = was.Head
	}
	if head == nil {
		head = writeHead(h)
	}
	if h.StatusCode == http.StatusSwitchingProtocols || h.StatusCode == http.StatusNoContent || h.StatusCode == http.StatusNotModified {
		wire.Head = bytes.Clone(head)
		return wire
	}
	kept := res.Body
	if wire.Coded != nil {
		kept = wire.Coded
	}
	wire.Head = settle(head, slices.Contains(h.TransferEncoding, "chunked"), kept.Len())
	return wire
}

// written returns a request as it was sent, without secrets.
func (c *Client) written(to *route, conn *pooled) []byte {
	r := *to.request
	r.Header = maps.Clone(r.Header)
	hide := func(name string) {
		if values, ok := r.Header[name]; ok {
			r.Header[name] = slices.Repeat([]string{"-"}, len(values))
		}
	}
	hide("Authorization")
	hide("Proxy-Authorization")
	hide("Cookie")
	if to.seed {
		for name := range c.opts.Header {
			if name = http.CanonicalHeaderKey(name); name != "Accept-Encoding" {
				hide(name)
			}
		}
	}
	if _, ok := r.Header["User-Agent"]; !ok && conn.tee == nil {
		r.Header["User-Agent"] = []string{"Go-http-client/2.0"} // as net/http says then
	}
	relayed := conn.at.host == ""
	var b bytes.Buffer
	var err error
	if relayed {
		err = r.WriteProxy(&b)
	} else {
		err = r.Write(&b)
	}
	if err != nil {
		return nil // it could not have been sent
	}
	if relayed && to.proxy.User != nil {
		b.Truncate(b.Len() - len("\r\n"))
		b.WriteString("Proxy-Authorization: -\r\n\r\n")
	}
	return b.Bytes()
}

// writeHead writes down the head of an answer as HTTP/1.1 has it.
func writeHead(h *http.Response) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %03d %s\r\n", h.StatusCode, http.StatusText(h.StatusCode))
	_ = h.Header.Write(&b) // never fails
	b.WriteString("\r\n")
	return b.Bytes()
}

// settle returns a copy of a head that is true of a body of length bytes without its chunks.
func settle(head []byte, chunked bool, length int64) []byte {
	size := strconv.FormatInt(length, 10)
	b := make([]byte, 0, len(head)+2*len(origPrefix)+len("Content-Length: \r\n")+len(size))
	wrong, right := chunked, false
	for line := range bytes.Lines(head) {
		if len(bytes.TrimRight(line, "\r\n")) == 0 && wrong && !right {
			b = append(append(append(b, "Content-Length: "...), size...), "\r\n"...)
		}
		switch name, value, _ := bytes.Cut(line, []byte(":")); {
		case chunked && bytes.EqualFold(name, []byte("Transfer-Encoding")):
			b = append(b, origPrefix...)
		case !bytes.EqualFold(name, []byte("Content-Length")):
		case string(bytes.Trim(value, " \t\r\n")) == size:
			right = true
		default:
			wrong = true
			b = append(b, origPrefix...)
		}
		b = append(b, line...)
	}
	return b
}

// A tee is a connection that keeps what is read from it while an answer of HTTP/1 is waited for.
// net/http reads no more of these than a header may have, and a buffer of 4 KiB beyond.
type tee struct {
	net.Conn

	mu   sync.Mutex
	open bool   // guarded by mu
	read []byte // guarded by mu while open, then of the request that is under way
}

const maxTee = 16 << 10 // bytes of the buffer of an idle connection

func (t *tee) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open {
		t.read = append(t.read, p[:n]...)
	}
	return n, err
}

// begin is called before a request is sent. A nil tee does nothing.
func (t *tee) begin() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open, t.read = true, t.read[:0]
}

// rest is called when the connection becomes idle. A nil tee does nothing.
func (t *tee) rest() {
	if t != nil && cap(t.read) > maxTee {
		t.read = nil
	}
}

// end is called when the answer is there. A nil tee does nothing.
func (t *tee) end() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = false
}

// head returns the head of the answer with that status, until begin is called again. It returns nil
// if there is none: on a connection of HTTP/2, where the tee is nil, or if the server sent an
// answer before it was asked.
func (t *tee) head(status int) []byte {
	if t == nil {
		return nil
	}
	for b := t.read; len(b) > 0; {
		n := headLen(b)
		code := statusOf(b[:n])
		if code == strconv.Itoa(status) {
			return b[:n]
		}
		if len(code) != 3 || code[0] != '1' {
			return nil
		}
		b = b[n:]
	}
	return nil
}

// headLen returns the length of the head at the beginning of b, as net/http reads it: up to the
// first empty line, which ends in LF with CR or without; 0 if there is none.
func headLen(b []byte) int {
	n := 0
	for line := range bytes.Lines(b) {
		n += len(line)
		if string(line) == "\n" || string(line) == "\r\n" {
			return n
		}
	}
	return 0
}

// statusOf returns the status code of a head.
func statusOf(head []byte) string {
	line, _, _ := bytes.Cut(head, []byte("\n"))
	_, status, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\r")), []byte(" "))
	code, _, _ := bytes.Cut(bytes.TrimLeft(status, " "), []byte(" "))
	return string(code)
}

// TakeCoded returns Wire.Coded, which the caller owns from then on; nil: there is none. It is not
// called beside HandOver or Release.
func (b *Body) TakeCoded() *Body {
	coded := b.coded
	b.coded = nil
	return coded
}
