package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// listening starts a crawl that answers, and returns its address once it does.
func listening(t *testing.T, dir string, args ...string) (p *process, address string) {
	t.Helper()
	cmd := exec.Command(builtCommand(), append([]string{"-listen", "0"}, args...)...)
	cmd.Dir = dir
	p, err := start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
	})
	line := regexp.MustCompile(`listening at (https?://\S+/)`)
	if !p.printed.wait(line) {
		t.Fatalf("no address: %q", p.printed.text)
	}
	address = line.FindStringSubmatch(p.printed.find(line))[1]
	return p, address
}

// fetchText returns the answer to a request of the server of a crawl.
func fetchText(t *testing.T, r *http.Request) (status int, text string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// whenCrawling returns the figures of a crawl once they have a line.
func whenCrawling(t *testing.T, address, line string) string {
	t.Helper()
	for late := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		r, err := http.NewRequest("GET", address+"metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		switch status, text := fetchText(t, r); {
		case status == 200 && strings.Contains(text, "\n"+line):
			return text
		case time.Now().After(late):
			t.Fatalf("no %q: %d %s", line, status, text)
		}
	}
}

// stillWeb is a host of which /last does not answer before the test ends.
func stillWeb(t *testing.T) *httptest.Server {
	over := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `<a href="/gone">1</a><a href="/last">2</a>`)
		case "/last":
			<-over
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(web.Close)
	t.Cleanup(func() { close(over) })
	return web
}

// TestListen: a crawl answers with its own figures and profiles while it runs, and an address that
// cannot be had ends it before anything is asked.
func TestListen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p, address := listening(t, dir, "-delay", "0", "-sitemaps=false", "-per-host", "2", "-allow-private", stillWeb(t).URL)
	text := whenCrawling(t, address, `urltree_outcomes_total{reason="http-4xx",state="failed"} 1`)
	for _, line := range []string{"urltree_pages_stored_total 1", "urltree_downloads 1", `urltree_urls{state="waiting"} 1`, "urltree_fetching 1", "process_resident_memory_bytes "} {
		if !strings.Contains(text, "\n"+line) {
			t.Errorf("no %q: %s", line, text)
		}
	}
	for _, tt := range []struct {
		path, holds string
		status      int
	}{
		{"debug/pprof/", "goroutine", 200},
		{"debug/pprof/heap?debug=1", "heap profile:", 200},
		{"debug/pprof/goroutine?debug=2", "serveAt", 200},
		{"debug/pprof/profile?seconds=1", "", 200},
		{"debug/pprof/cmdline", "Unknown profile", 404},
	} {
		r, err := http.NewRequest("GET", address+tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if status, text := fetchText(t, r); status != tt.status || !strings.Contains(text, tt.holds) {
			t.Errorf("%s: %d, %.200q", tt.path, status, text)
		}
	}
	taken := strings.TrimSuffix(strings.TrimPrefix(address, "http://"), "/")
	cmd := exec.Command(builtCommand(), "-listen", taken, "-tree", filepath.Join(dir, "other"), "http://127.0.0.1/")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != exitUsage || !strings.Contains(string(out), "-listen "+taken+": address already in use") {
		t.Errorf("an address that is taken: %v, %s", err, out)
	}
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	<-p.done
	if p.err != nil {
		t.Errorf("interrupted: %v: %s", p.err, p.printed.text)
	}
}

// TestListenToken: with a token and a certificate, what has no token is refused, over TLS alone.
func TestListenToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pair := filepath.Join(dir, "pair.pem")
	writePair(t, pair)
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, address := listening(t, dir, "-listen-token-file", "token", "-listen-tls", pair, "-delay", "0", "-allow-private", stillWeb(t).URL)
	if !strings.HasPrefix(address, "https://") {
		t.Fatalf("it is at %s", address)
	}
	for token, want := range map[string]int{"": 401, "wrong": 401, "s3cret": 200} {
		r, err := http.NewRequest("GET", address+"debug/pprof/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		if status, _ := fetchText(t, r); status != want {
			t.Errorf("with the token %q: %d, want %d", token, status, want)
		}
	}
}

// writePair writes a certificate that signs itself, and its key.
func writePair(t *testing.T, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour)}, &x509.Certificate{}, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})...)
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestListenAddress(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"6060", "127.0.0.1:6060"},
		{":6060", "127.0.0.1:6060"},
		{"127.0.0.2:6060", "127.0.0.2:6060"},
		{"0.0.0.0:6060", "0.0.0.0:6060"},
		{"[::1]:6060", "[::1]:6060"},
		{"", ""},
		{":", ""},
		{"localhost", ""},
		{"::1", ""},
		{"127.0.0.1:", ""},
		{"127.0.0.1:65536", ""},
		{"127.0.0.1:-1", ""},
		{"0", "127.0.0.1:0"},
		{"127.0.0.1:http", ""},
	} {
		var got string
		err := listenAddress{&got}.Set(tt.in)
		if got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%q gives %q, %v; want %q", tt.in, got, err, tt.want)
		}
	}
}
