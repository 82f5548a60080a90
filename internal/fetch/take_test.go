package fetch

import (
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// TestTake: an answer that came in another way is read as one of the network: decoded, in the
// budget, and with a head that is true of what is kept.
func TestTake(t *testing.T) {
	t.Parallel()
	c := newClient(t, Options{Wire: true, MaxSize: 10})
	was := &Wire{
		Head:    []byte("HTTP/1.0 200 Fine\r\nTransfer-Encoding: chunked\r\nx: Y\r\n\r\n"),
		Request: []byte("GET"), Protocol: "http/1.0", Addr: netip.MustParseAddr("192.0.2.1"), Sent: time.Unix(9, 0),
	}
	answer := func(body string) *http.Response {
		return &http.Response{
			StatusCode: 200, Header: http.Header{"Content-Type": {"text/html"}}, TransferEncoding: []string{"chunked"}, ContentLength: -1,
			Body: io.NopCloser(strings.NewReader(body)),
		}
	}
	res, err := c.Take(t.Context(), answer("body"), was, Request{})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Release()
	w := res.Wire
	const head = "HTTP/1.0 200 Fine\r\nX-Archive-Orig-Transfer-Encoding: chunked\r\nx: Y\r\nContent-Length: 4\r\n\r\n"
	if string(res.Body.Bytes()) != "body" || res.Media != "text/html" || string(w.Head) != head {
		t.Errorf("%q of %s behind %q", res.Body.Bytes(), res.Media, w.Head)
	}
	if string(w.Request) != "GET" || w.Protocol != was.Protocol || w.Addr != was.Addr || !w.Sent.Equal(was.Sent) {
		t.Errorf("%+v", w)
	}
	if _, err := c.Take(t.Context(), answer("more than ten bytes"), was, Request{}); err == nil || err.(*Error).Reason != TooLarge {
		t.Errorf("a body that is too large: %v", err)
	}
	res, err = c.Take(t.Context(), answer("more than ten bytes"), nil, Request{KeepLarge: true})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Release()
	if !res.Truncated || res.Body.Len() != 10 || !strings.HasPrefix(string(res.Wire.Head), "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n") {
		t.Errorf("%d bytes behind %q", res.Body.Len(), res.Wire.Head)
	}
}
