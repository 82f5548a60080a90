package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/netutil"

	"urltree/internal/ctl"
	"urltree/internal/inspect"
	"urltree/internal/watch"
	"urltree/iut"
)

// listenAddress is a TCP address to listen on, kept as HOST:PORT. Without a host it is loopback;
// with port 0 the system chooses one.
type listenAddress struct{ p *string }

func (v listenAddress) Set(s string) error {
	if !strings.Contains(s, ":") {
		s = ":" + s
	}
	host, port, err := net.SplitHostPort(s)
	if _, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil {
		return fmt.Errorf("a port, or HOST:PORT, such as 6060 or 127.0.0.1:6060 is allowed")
	}
	if host == "" {
		host = "127.0.0.1"
	}
	*v.p = net.JoinHostPort(host, port)
	return nil
}

func (v listenAddress) String() string { return cmp.Or(*v.p, "none") }

// listenFlags say where a crawl is watched and steered, and by whom.
type listenFlags struct {
	at        string
	token     string
	tokenFile string
	tls       string // a file with certificates and key

	config *tls.Config // made of tls; nil: without
}

func (f *flags) listenGroup() group {
	l := &f.listen
	return group{"Who watches and steers, see docs/operation.md", []*option{
		flag("listen", ofRun, listenAddress{&l.at}, "answer at this `ADDR` while the crawl runs: HOST:PORT, or a port of 127.0.0.1; with 0 the system chooses one. It has /metrics for Prometheus, and Go's profiles at /debug/pprof/"),
		flag("listen-token", ofRun, text{&l.token}, "the `TOKEN` that requests must have, needed where -listen is no loopback address; better in the environment, since other users see command lines"),
		flag("listen-token-file", ofRun, text{&l.tokenFile}, "a `FILE` with that token"),
		flag("listen-tls", ofRun, text{&l.tls}, "a `FILE` with certificate and key in PEM, with which -listen speaks HTTPS"),
	}}
}

// check refuses what belongs to no server, and a server that anybody could use.
func (l *listenFlags) check() error {
	switch {
	case l.at == "" && (l.token != "" || l.tokenFile != "" || l.tls != ""):
		return usagef("-listen-token, -listen-token-file and -listen-tls are for a server, which -listen makes")
	case l.token != "" && l.tokenFile != "":
		return usagef("-listen-token or -listen-token-file, not both")
	case l.tokenFile != "":
		text, err := os.ReadFile(l.tokenFile)
		if err != nil {
			return usagef("-listen-token-file: %w", err)
		}
		if l.token = strings.TrimSpace(string(text)); l.token == "" {
			return usagef("-listen-token-file %s: it is empty", l.tokenFile)
		}
	}
	if l.tls != "" {
		pair, err := tls.LoadX509KeyPair(l.tls, l.tls)
		if err != nil {
			return usagef("-listen-tls %s: %w", l.tls, err)
		}
		l.config = &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12}
	}
	if host, _, _ := net.SplitHostPort(l.at); l.at != "" && l.token == "" && host != "localhost" && !net.ParseIP(host).IsLoopback() {
		return usagef("-listen %s is no loopback address: give a token, with which alone it may be used, in URLTREE_LISTEN_TOKEN or by -listen-token-file", l.at)
	}
	return nil
}

// listen lets the crawl that has the tree be watched and steered until stop is called. Without
// -listen it does nothing.
func (c *command) listen(root string) (stop func(), err error) {
	l := &c.flags.listen
	if l.at == "" {
		return func() {}, nil
	}
	host, _, _ := net.SplitHostPort(l.at)
	// The socket alone is asked: to open the tree would get into the way of the crawl.
	ask := func(ctx context.Context, q inspect.Question, w io.Writer) error {
		err := ctl.Call(ctx, root, q, w)
		if errors.Is(err, ctl.ErrNone) {
			return fmt.Errorf("%w: the crawl is being opened, or has ended", iut.ErrBusy)
		}
		return err
	}
	return c.serveAt("listen", l.at, l.config, watch.New(watch.Options{Ask: ask, Token: l.token, Host: host}))
}

// serveAt serves at an address, of a flag, until stop is called.
func (c *command) serveAt(name, address string, config *tls.Config, h http.Handler) (stop func(), err error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		if cause, ok := errors.AsType[syscall.Errno](err); ok {
			err = cause
		}
		return nil, usagef("-%s %s: %w", name, address, err)
	}
	scheme, at := "http", l.Addr()
	l = netutil.LimitListener(l, mostConnections)
	if config != nil {
		scheme, l = "https", tls.NewListener(l, config)
	}
	c.tell(fmt.Sprintf("listening at %s://%s/", scheme, at))
	ctx, cancel := context.WithCancel(context.Background())
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	return func() {
		cancel()
		_ = server.Close()
		serving.Wait()
	}, nil
}
