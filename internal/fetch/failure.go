package fetch

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"
)

// Reasons of failure, as Error.Reason.
const (
	DNS       = "dns"       // the name has no address, or it could not be asked for
	Connect   = "connect"   // no connection to the host, none in time, or the proxy makes none
	Proxy     = "proxy"     // the proxy cannot be reached, breaks off or wants a password: no answer of the host
	TLS       = "tls"       // handshake or certificate
	Timeout   = "timeout"   // Options.Timeout, FirstByte or MinRate not kept
	Reset     = "reset"     // the connection ended before the answer did
	Truncated = "truncated" // the body is shorter than announced, or its coding ends early
	TooLarge  = "too-large" // the body passes MaxSize, or there is no place for it
	Header    = "header"    // the header is too large or has too many lines
	HTTP1     = "http1"     // HTTP/2 refused: the host is asked by HTTP/1.1 from now on
	GoAway    = "goaway"    // HTTP/2: the connection, which had brought answers, was ended in order before it
	Protocol  = "protocol"  // not an HTTP answer, or not a URL
	Address   = "address"   // the guard refuses the address
	Coding    = "coding"    // Content-Encoding not supported or broken
	Disk      = "disk"      // a large body could not be written: ErrDisk, which ends the crawl
	Panic     = "panic"     // a defect of ours or of a library
)

// An Error says why there is no answer.
type Error struct {
	Reason  string // one of the constants of this package
	Passing bool   // another try may succeed
	Err     error
}

// Error returns a text that is safe to show: what came from the web is made printable and cut to
// 1,000 bytes. Only that of a Panic, which ends with a stack, has lines.
func (e *Error) Error() string {
	text := e.Err.Error()
	if e.Reason != Panic {
		text = printable(text)
	}
	return "fetch: " + e.Reason + ": " + text
}

// printable cuts a text to 1,000 bytes and escapes it, as a Go string is, if it has bytes that are
// not to be shown.
func printable(s string) string {
	const most = 1000
	more := ""
	if len(s) > most {
		s, more = strings.ToValidUTF8(s[:most], ""), "..."
	}
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		s = strconv.Quote(s)
	}
	return s + more
}

func (e *Error) Unwrap() error { return e.Err }

// ErrProxyPassword says that the proxy wants another user or password (407).
var ErrProxyPassword = errors.New("the proxy wants another user or password (407)")

// ErrDisk says that the file of a large body could not be made, written or read. It is not the
// fault of the URL: the crawl should end.
var ErrDisk = errors.New("file of a large body")

// classify returns the reason of an error of the transport, or of reading a body. Some errors of
// net/http have neither type nor value, only a text.
func classify(err error) (reason string, passing bool) {
	dns, isDNS := errors.AsType[*net.DNSError](err)
	slow, isNet := errors.AsType[net.Error](err)
	op, isOp := errors.AsType[*net.OpError](err)
	_, isCertificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, isRecord := errors.AsType[tls.RecordHeaderError](err)
	text := err.Error()
	contains := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
	}
	switch {
	case isDNS:
		return DNS, !dns.IsNotFound
	case isNet && slow.Timeout() && !(isOp && op.Op == "dial"):
		return Timeout, true
	case isCertificate, isRecord, errors.Is(err, http.ErrSchemeMismatch),
		isOp && (op.Op == "remote error" || op.Op == "local error"), strings.HasPrefix(text, "tls: "):
		return tlsCause(err), false
	case isOp && op.Op == "dial":
		return Connect, true
	case errors.Is(err, io.ErrUnexpectedEOF):
		return Truncated, true
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNABORTED),
		contains("server closed idle connection", "stream error: ", "GOAWAY", "client connection lost", "http2: client conn"):
		return Reset, true
	case contains("response headers exceeded", "header list larger", "COMPRESSION_ERROR", "too many 1xx"):
		return Header, false
	}
	return Protocol, false
}

// brokenOff reports whether a body that ended with err may be kept as far as it came.
func brokenOff(err error) bool {
	if _, ok := errors.AsType[*Error](err); ok {
		return false
	}
	reason, _ := classify(err)
	return reason == Truncated || reason == Reset
}
