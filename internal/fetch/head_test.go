package fetch

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// TestNoBody: a request that wants no body ends with the header, however much comes behind it, and
// keeps a connection on which little comes.
func TestNoBody(t *testing.T) {
	for _, tt := range []struct {
		name   string
		req    Request
		method string
		serve  func(w http.ResponseWriter)
		kept   bool // the connection
	}{
		{"HEAD of a large file", Request{Head: true}, "HEAD", func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "10000000000")
			w.Header().Set("Content-Encoding", "what")
		}, true},
		{"GET of a small file", Request{NoBody: true}, "GET", func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, "small")
		}, true},
		{"GET of what is announced as too large", Request{NoBody: true}, "GET", func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "10000000000")
			_, _ = io.WriteString(w, "begins")
		}, false},
		{"GET of what never ends", Request{NoBody: true}, "GET", func(w http.ResponseWriter) {
			for {
				if _, err := io.WriteString(w, strings.Repeat("x", 1<<12)); err != nil {
					return
				}
			}
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			conns := map[string]bool{}
			addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				conns[r.RemoteAddr] = true
				mu.Unlock()
				if r.Method != tt.method {
					t.Errorf("%s, want %s", r.Method, tt.method)
				}
				tt.serve(w)
			})
			c := newClient(t, Options{MaxSize: 1 << 10})
			for range 2 {
				res, err := c.Get(t.Context(), addr+"/", tt.req)
				if err != nil {
					t.Fatal(err)
				}
				if res.Status != 200 || res.Body.Len() != 0 || res.Truncated {
					t.Errorf("%+v", res)
				}
				res.Body.Release()
			}
			mu.Lock()
			defer mu.Unlock()
			if kept := len(conns) == 1; kept != tt.kept {
				t.Errorf("%d connections for two requests", len(conns))
			}
		})
	}
}
