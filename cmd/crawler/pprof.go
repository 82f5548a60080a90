package main

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"
	"sync"
	"time"
)

// listenAddress is a TCP address to listen on, kept as HOST:PORT. Without a host it is loopback:
// profiles tell what a crawl does, and whoever reads them slows it down. With anyPort set the port
// may be 0: the system chooses one.
type listenAddress struct {
	p       *string
	anyPort bool
}

func (v listenAddress) Set(s string) error {
	if !strings.Contains(s, ":") {
		s = ":" + s
	}
	host, port, err := net.SplitHostPort(s)
	if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || n == 0 && !v.anyPort {
		return fmt.Errorf("a port, or HOST:PORT, such as 6060 or 127.0.0.1:6060 is allowed")
	}
	if host == "" {
		host = "127.0.0.1"
	}
	*v.p = net.JoinHostPort(host, port)
	return nil
}

func (v listenAddress) String() string { return cmp.Or(*v.p, "none") }

// serveProfiles serves Go's profiles, and nothing else, until stop is called; with no address it
// does nothing. The command line, which may hold a password, is not among them.
func serveProfiles(address string) (stop func(), err error) {
	if address == "" {
		return func() {}, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, usagef("-pprof: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	return func() {
		_ = server.Close()
		serving.Wait()
	}, nil
}
