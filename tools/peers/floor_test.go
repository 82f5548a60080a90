package main

import (
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestFloor: all pages are asked for, by HTTP/2, and what is not the coding that it says is an
// error.
func TestFloor(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.Proto+" "+r.URL.Path)
		mu.Unlock()
		w.Header().Set("Content-Encoding", "gzip")
		if r.URL.Path == "/wrong" {
			_, _ = w.Write([]byte("no gzip at all"))
			return
		}
		z := gzip.NewWriter(w)
		_, _ = z.Write([]byte(r.URL.Path))
		_ = z.Close()
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	list := filepath.Join(t.TempDir(), "pages.txt")
	fetch := func(paths ...string) error {
		if err := os.WriteFile(list, []byte(strings.Join(paths, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		return fetchAll(t.Context(), list, s.URL+"/")
	}
	if err := fetch("", "a", "b/c"); err != nil {
		t.Fatal(err)
	}
	slices.Sort(asked)
	if want := []string{"HTTP/2.0 /", "HTTP/2.0 /a", "HTTP/2.0 /b/c"}; !slices.Equal(asked, want) {
		t.Errorf("%q, want %q", asked, want)
	}
	if err := fetch("a", "wrong"); err == nil {
		t.Error("no error for what is no gzip")
	}
}
