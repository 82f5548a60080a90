package stages

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/gzip"
	"go.uber.org/goleak"

	"urltree/internal/extract/scan"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(seedOfChild); url != "" {
		os.Exit(crawlAsChild(url))
	}
	goleak.VerifyTestMain(m)
}

const (
	pageSize  = 24 << 10
	pageLinks = 90
)

// A realPage is one that people have written.
type realPage struct {
	url  string
	body []byte
	refs []string // the addresses of its links, as they are written
}

// links is what is looked for to find the links of a page.
var links = scan.NewNames([]scan.Element{{Name: "a", Want: scan.Starts}, {Name: "area", Want: scan.Starts}}, []string{"href"})

// realPages returns the pages of testdata: 25 KB and 90 links on average.
func realPages(tb testing.TB) (pages []realPage) {
	files, err := filepath.Glob("testdata/*/*.html")
	if err != nil || len(files) == 0 {
		tb.Fatalf("%d pages in testdata, %v", len(files), err)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		p := realPage{url: "http://docs.example/15/html/" + filepath.Base(file), body: body}
		for s := scan.New(links, body, true); s.Next() == scan.Start; {
			if ref, ok := s.Attr(0); ok {
				p.refs = append(p.refs, string(ref))
			}
		}
		if len(p.refs) < 50 {
			tb.Fatalf("%s has %d links", file, len(p.refs))
		}
		pages = append(pages, p)
	}
	return pages
}

// path returns the path of page n of a handbook: a hundred to a chapter.
func path(n int) string { return fmt.Sprintf("/handbook/chapter-%d/page-%d.html", n/100, n) }

// linked returns the pages that page n of a handbook links to: four of its own, so that all are
// found soon and a crawl has no need to commit a few to go on; then those around it.
func linked(n, pages int) (to []int) {
	for m := 4*n + 1; m <= 4*n+4 && m < pages; m++ {
		to = append(to, m)
	}
	for m := n - pageLinks/2; len(to) < pageLinks; m++ {
		to = append(to, min(max(m, 0), pages-1))
	}
	return to
}

// page returns page n of a handbook.
func page(n, pages int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Page %d</title></head><body><h1>Page %d</h1>\n", n, n)
	words := "<div class=\"section\"><p>Some words of <em>text</em>, and others.</p></div>\n"
	for i, m := range linked(n, pages) {
		fmt.Fprintf(&b, "<p>See <a class=\"link\" href=\"%s\" title=\"Page\">page %d</a>.</p>\n", path(m), m)
		for b.Len() < pageSize*i/pageLinks {
			b.WriteString(words)
		}
	}
	for b.Len() < pageSize {
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// A handbook is a host whose answers are there before they are asked for, so that to give them
// allocates nothing: what is allocated meanwhile is the crawler's. Each page is of pageSize
// bytes, with pageLinks links.
type handbook struct {
	url     string // of its first page
	written atomic.Int64

	answers map[string][]byte // by path; robots.txt and the rest are not found
	listen  net.Listener
	serving sync.WaitGroup
	mu      sync.Mutex
	conns   []net.Conn // guarded by mu
}

const notFound = "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n\r\n"

// serveHandbook serves one until the test ends.
func serveHandbook(tb testing.TB, pages int) *handbook {
	tb.Helper()
	h := &handbook{answers: make(map[string][]byte, pages)}
	for n := range pages {
		text := page(n, pages)
		head := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: %d\r\n\r\n", len(text))
		h.answers[path(n)] = append([]byte(head), text...)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	h.listen, h.url = l, "http://"+l.Addr().String()+path(0)
	h.serving.Go(h.accept)
	tb.Cleanup(func() {
		l.Close()
		h.mu.Lock()
		for _, c := range h.conns {
			c.Close()
		}
		h.mu.Unlock()
		h.serving.Wait()
	})
	return h
}

// serveSecured serves the same pages by TLS, HTTP/2 and gzip, and returns the URL of the first.
func serveSecured(tb testing.TB, pages int) (url string) {
	tb.Helper()
	answers := make(map[string][]byte, pages)
	for n := range pages {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err := w.Write(page(n, pages))
		if err = errors.Join(err, w.Close()); err != nil {
			tb.Fatal(err)
		}
		answers[path(n)] = b.Bytes()
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := answers[r.URL.Path]
		if answer == nil || r.ProtoMajor != 2 || !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		_, _ = w.Write(answer) // a client that is gone misses a page, which is counted
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	tb.Cleanup(s.Close)
	return s.URL + path(0)
}

func (h *handbook) accept() {
	for {
		c, err := h.listen.Accept()
		if err != nil {
			return
		}
		h.mu.Lock()
		h.conns = append(h.conns, c)
		h.mu.Unlock()
		h.serving.Go(func() {
			defer c.Close()
			h.serve(c)
		})
	}
}

// serve answers the requests of one connection, which have no bodies.
func (h *handbook) serve(c net.Conn) {
	in := bufio.NewReader(c)
	other := []byte(notFound)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		_, rest, _ := bytes.Cut(line, []byte(" "))
		name, _, _ := bytes.Cut(rest, []byte(" "))
		answer := h.answers[string(name)]
		if answer == nil {
			answer = other
		}
		for len(line) > len("\r\n") { // the rest of the head
			if line, err = in.ReadSlice('\n'); err != nil {
				return
			}
		}
		n, err := c.Write(answer)
		h.written.Add(int64(n))
		if err != nil {
			return
		}
	}
}

// bytesWritten returns what write and its kin have written for this process, by /proc, if the
// kernel counts that.
func bytesWritten(tb testing.TB) (bytes int64, counted bool) {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		tb.Logf("the bytes written are not looked at, the kernel does not count: %v", err)
		return 0, false
	}
	_, rest, _ := strings.Cut(string(text), "wchar: ")
	line, _, _ := strings.Cut(rest, "\n")
	if bytes, err = strconv.ParseInt(line, 10, 64); err != nil {
		tb.Fatal(err)
	}
	return bytes, true
}
