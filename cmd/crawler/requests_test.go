package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestFlagsOfRequests: what the flags about requests say is what requests do. Each case is a page
// that is stored without the flag, or not, and with it the other way round.
func TestFlagsOfRequests(t *testing.T) {
	t.Parallel()
	untrusted := httptest.NewUnstartedServer(http.HandlerFunc(tell("text")))
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	t.Cleanup(untrusted.Close)
	by1 := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 {
			http.NotFound(w, r)
			return
		}
		tell("text")(w, r)
	}))
	by1.EnableHTTP2 = true
	by1.StartTLS()
	t.Cleanup(by1.Close)
	six := &httptest.Server{Config: &http.Server{Handler: http.HandlerFunc(tell("text"))}}
	var err error
	if six.Listener, err = net.Listen("tcp", "[::1]:0"); err != nil {
		t.Log("no IPv6 here: ", err)
		six = nil
	} else {
		six.Start()
		t.Cleanup(six.Close)
	}
	four := httptest.NewServer(http.HandlerFunc(tell("text")))
	t.Cleanup(four.Close)
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(20 * time.Second): // before the default of -timeout
			tell("text")(w, r)
		}
	}))
	t.Cleanup(silent.Close)
	from2 := only(func(r *http.Request) bool { return strings.HasPrefix(r.RemoteAddr, "127.0.0.2:") })
	t.Cleanup(from2.Close)
	const agent = "Example-Bot/1.0 (+https://example.org/bot)"
	named := only(func(r *http.Request) bool { return r.UserAgent() == agent })
	t.Cleanup(named.Close)
	large := httptest.NewServer(tell(strings.Repeat("text ", 1000)))
	t.Cleanup(large.Close)
	second := ""
	if l, err := net.Listen("tcp", "127.0.0.2:0"); err != nil {
		t.Log("only one loopback address here: ", err)
	} else {
		_ = l.Close()
		second = from2.URL
	}
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "x")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(slow.Close)
	for _, tt := range []struct {
		name string
		args []string
		url  string
		want string // of the line of -verbose
	}{
		{"certificate", nil, untrusted.URL, "failed tls-self-signed"},
		{"certificate -insecure", []string{"-insecure"}, untrusted.URL, "stored"},
		{"HTTP/2", []string{"-insecure"}, by1.URL, "failed http-4xx"},
		{"HTTP/2 -http1", []string{"-insecure", "-http1"}, by1.URL, "stored"},
		{"IPv6", nil, urlOf(six), "stored"},
		{"IPv6 -4", []string{"-4"}, urlOf(six), "failed dns"},
		{"IPv4 -6", []string{"-6"}, four.URL, "failed dns"},
		{"silent -first-byte", []string{"-first-byte", "50ms", "-timeout", "1h"}, silent.URL, "failed timeout"},
		{"silent -timeout", []string{"-timeout", "50ms"}, silent.URL, "failed timeout"},
		{"from anywhere", nil, second, "failed http-4xx"},
		{"-bind", []string{"-bind", "127.0.0.2"}, second, "stored"},
		{"any name", nil, named.URL, "failed http-4xx"},
		{"-user-agent", []string{"-user-agent", agent}, named.URL, "stored"},
		{"-oversize refuse", []string{"-max-size", "1KiB"}, large.URL, "refused too-large"},
		{"-oversize cut", []string{"-max-size", "1KiB", "-oversize", "cut"}, large.URL, "stored"},
		{"slow -min-rate", []string{"-min-rate", "1KiB", "-timeout", "1h"}, slow.URL, "failed timeout"},
	} {
		if tt.url == "" {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cmd := child(t.TempDir(), append(tt.args, "-verbose", "-robots", "ignore", "-retries", "0", "-sync", "none", tt.url+"/")...)
			out, ended := endOf(t, cmd)
			if !ended || !strings.Contains(out, tt.url+"/ "+tt.want+" ") {
				t.Errorf("ended: %v, %s; want %s", ended, out, tt.want)
			}
		})
	}
}

func tell(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, text)
	}
}

// only starts a server with a page for the requests that fit.
func only(fits func(*http.Request) bool) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !fits(r) {
			http.NotFound(w, r)
			return
		}
		tell("text")(w, r)
	}))
}

func urlOf(s *httptest.Server) string {
	if s == nil {
		return ""
	}
	return s.URL
}

// endOf runs a command and gives what it printed. One that does not end is killed.
func endOf(t *testing.T, cmd *exec.Cmd) (out string, ended bool) {
	t.Helper()
	var b strings.Builder
	cmd.Stdout, cmd.Stderr = &b, &b
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	return b.String(), late.Stop()
}

// TestCertificates: -verbose and why name what is wrong with a certificate.
func TestCertificates(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		reason, sentence string
		name             net.IP
		until            time.Duration
	}{
		{"tls-name", "is one of another host name", net.IPv4(192, 0, 2, 1), time.Hour},
		{"tls-expired", "is not valid any more, or not yet", net.IPv4(127, 0, 0, 1), -time.Hour},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			c := &x509.Certificate{
				SerialNumber: big.NewInt(1), IPAddresses: []net.IP{tt.name},
				NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(tt.until),
			}
			der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewUnstartedServer(tell("text"))
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
			server.StartTLS()
			t.Cleanup(server.Close)
			dir := t.TempDir()
			_, out, _ := call(t, dir, "-verbose", "-robots", "ignore", server.URL+"/")
			if !strings.Contains(out, server.URL+"/ failed "+tt.reason+" 0 ") {
				t.Errorf("-verbose says %s", out)
			}
			if why := must(t, dir, "why", server.URL+"/"); !strings.Contains(why, tt.sentence) {
				t.Errorf("why says %s", why)
			}
		})
	}
}

// TestLimitRate: a page that takes a day at the given rate is not stored when -time ends the run.
func TestLimitRate(t *testing.T) {
	t.Parallel()
	large := httptest.NewServer(tell(strings.Repeat("text ", 30_000))) // more than a burst
	t.Cleanup(large.Close)
	for stored, args := range map[bool][]string{
		true:  {"-limit-rate", "100MiB"},
		false: {"-limit-rate", "1", "-time", "2s"},
	} {
		out, ended := endOf(t, child(t.TempDir(), append(args, "-verbose", "-robots", "ignore", "-sync", "none", large.URL+"/")...))
		if !ended || strings.Contains(out, large.URL+"/ stored ") != stored {
			t.Errorf("%q: ended: %v, %s", args, ended, out)
		}
	}
}

// TestProxyWantsAPassword: a run whose proxy wants another password says so, without the password,
// and decides nothing about the URL.
func TestProxyWantsAPassword(t *testing.T) {
	t.Parallel()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusProxyAuthRequired)
	}))
	t.Cleanup(proxy.Close)
	dir := t.TempDir()
	with := strings.Replace(proxy.URL, "http://", "http://me:hunter2@", 1)
	out, ended := endOf(t, child(dir, "-proxy", with, "-max-wait", "1s", "-sync", "none", "http://192.0.2.1/"))
	for _, want := range []string{"the proxy fails", "1 URL pending\n", "crawler: nothing reachable: ", "407"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if !ended || strings.Contains(out, "hunter2") {
		t.Errorf("ended: %v, %s", ended, out)
	}
}
