package main

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// freePort returns a loopback address that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestProfiles(t *testing.T) {
	address := freePort(t)
	stop, err := serveProfiles(address)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, tt := range []struct {
		path, holds string
		status      int
	}{
		{"/debug/pprof/", "goroutine", 200},
		{"/debug/pprof/heap?debug=1", "heap profile:", 200},
		{"/debug/pprof/goroutine?debug=2", "serveProfiles", 200},
		{"/debug/pprof/profile?seconds=1", "", 200},
		{"/debug/pprof/cmdline", "Unknown profile", 404},
		{"/", "404", 404},
	} {
		res, err := client.Get("http://" + address + tt.path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != tt.status || !strings.Contains(string(text), tt.holds) {
			t.Errorf("%s: %d, %v, %.200q", tt.path, res.StatusCode, err, text)
		}
	}
	if _, err := serveProfiles(address); err == nil || exitCode(err) != exitUsage || !strings.Contains(err.Error(), "-pprof: listen tcp "+address) {
		t.Errorf("an address that is taken: %v", err)
	}
	stop()
	if _, err := client.Get("http://" + address + "/debug/pprof/"); err == nil {
		t.Error("it still answers")
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
		{"0", ""},
		{"127.0.0.1:http", ""},
	} {
		var got string
		err := listenAddress{p: &got}.Set(tt.in)
		if got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%q gives %q, %v; want %q", tt.in, got, err, tt.want)
		}
	}
}
