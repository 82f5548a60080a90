package captures

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"strconv"
	"strings"
)

// mostHead is the length of the head of an answer, or of a request, that is read, in bytes.
const mostHead = 1 << 20

// readAnswer reads the head of an answer, behind which its body stands. A block that does not begin
// as one of HTTP/1.0 or later is a body alone, as HTTP/0.9 has it. It reports false for a head that
// is none.
func (c *Capture) readAnswer(in *bufio.Reader) (ok bool, err error) {
	c.Answer = &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, ContentLength: c.rec.Length, Body: io.NopCloser(in)}
	if begin, err := in.Peek(len("HTTP/")); string(begin) != "HTTP/" {
		if err == io.EOF {
			err = nil // a short body
		}
		return true, err
	}
	head, err := readHead(in)
	if err != nil || head == nil {
		return false, err
	}
	c.Answer.ContentLength -= int64(len(head))
	first, header := parseHead(head)
	version, rest, _ := strings.Cut(first, " ")
	code, _, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
	status, err := strconv.Atoi(code)
	if err != nil || status < 100 || status > 999 {
		return false, nil
	}
	c.Answer.StatusCode, c.Answer.Header = status, header
	if major := strings.TrimPrefix(version, "HTTP/"); major[:min(len(major), 1)] >= "2" {
		// Archives have such heads as HTTP/1.1 would.
		head = append([]byte("HTTP/1.1"), head[len(version):]...)
		if c.Protocol == "" {
			c.Protocol = "h" + major[:1]
		}
	}
	if !bytes.HasSuffix(head, []byte("\n\r\n")) && !bytes.HasSuffix(head, []byte("\n\n")) {
		head = append(bytes.TrimRight(head, "\r\n"), "\r\n\r\n"...)
	}
	c.Head = head
	if coding := header["Transfer-Encoding"]; len(coding) > 0 && strings.Contains(strings.ToLower(coding[len(coding)-1]), "chunked") {
		c.Answer.TransferEncoding = []string{"chunked"} // of the head; not true of what is kept
		if isChunked(in) {
			c.Answer.ContentLength, c.Answer.Body = -1, io.NopCloser(httputil.NewChunkedReader(in))
		}
	}
	return true, nil
}

// readHead reads up to and with the empty line, or to the end of the block; nil: the head is too
// long.
func readHead(in *bufio.Reader) (head []byte, err error) {
	for {
		line, err := in.ReadSlice('\n')
		head = append(head, line...)
		switch {
		case err == nil && len(bytes.TrimRight(line, "\r\n")) == 0, err == io.EOF:
			return head, nil
		case err != nil && err != bufio.ErrBufferFull:
			return nil, err
		case len(head) > mostHead:
			return nil, nil
		}
	}
}

// parseHead reads a head as far as it can be read: lines that are no header are left out.
func parseHead(head []byte) (first string, header http.Header) {
	header = http.Header{}
	name := ""
	for line := range bytes.Lines(head) {
		text := strings.TrimRight(string(line), "\r\n")
		switch {
		case first == "":
			first = text
			continue
		case text != "" && (text[0] == ' ' || text[0] == '\t') && name != "": // goes on
			values := header[name]
			values[len(values)-1] += " " + strings.TrimSpace(text)
			continue
		}
		key, value, ok := strings.Cut(text, ":")
		if name = ""; !ok || strings.TrimSpace(key) == "" {
			continue
		}
		name = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(key))
		header[name] = append(header[name], strings.TrimSpace(value))
	}
	return first, header
}

// isChunked reports whether chunks stand here: many tools keep the header of a transfer coding that
// they have undone. Chunks begin with their length in hex, and behind one stands a line end.
func isChunked(in *bufio.Reader) bool {
	begin, _ := in.Peek(in.Size()) // an error comes again
	line, rest, ok := bytes.Cut(begin, []byte("\r\n"))
	if !ok {
		return false
	}
	size, _, _ := bytes.Cut(line, []byte(";"))
	n, err := strconv.ParseUint(strings.TrimSpace(string(size)), 16, 32)
	switch {
	case err != nil:
		return false
	case n+2 <= uint64(len(rest)):
		return string(rest[n:n+2]) == "\r\n"
	}
	return n > 0 || len(rest) > 0
}
