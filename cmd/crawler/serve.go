package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"golang.org/x/net/netutil"

	"urltree/internal/inspect"
	"urltree/internal/serve"
)

// mostConnections is how many connections the server has at a time; others wait.
const mostConnections = 64

func (c *command) serveCommand() *subcommand {
	address := "127.0.0.1:8080"
	return &subcommand{
		name: "serve", usage: "show the tree in a browser, as it was", operand: "[URL-PREFIX]",
		about: "It prints the address to open, and serves until Ctrl-C. Links lead to what the tree has; what it does not have is explained, and nothing is asked of the network. A crawl may go on meanwhile. Scripts of pages run, apart from all other pages.",
		flags: []*option{
			c.flags.tree(),
			plainFlag("listen", listenAddress{&address}, "the `ADDR` to listen on: HOST:PORT, or a port of 127.0.0.1; with 0 the system chooses one. Who reaches it reads the tree"),
		},
		run: func(ctx context.Context, operands []string) error { return c.serve(ctx, address, first(operands)) },
	}
}

// serve serves the tree until ctx ends.
func (c *command) serve(ctx context.Context, address, prefix string) error {
	ask := func(ctx context.Context, q inspect.Question, w io.Writer) error {
		return c.inspect(ctx, c.root(), q, w)
	}
	if err := treeThere(c.root()); err != nil {
		return err
	}
	if err := ask(ctx, inspect.Question{Command: "list", URL: prefix, Lines: 1}, io.Discard); err != nil {
		return err // what is wrong with the tree is known at once
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		if cause, ok := errors.AsType[syscall.Errno](err); ok {
			err = cause
		}
		return usagef("-listen %s: %w", address, err)
	}
	host, _, _ := net.SplitHostPort(address)
	server := &http.Server{
		Handler: serve.New(ask, prefix, host), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if _, err := fmt.Fprintf(c.stdout, "crawler: serving %s at http://%s/\n", c.root(), l.Addr()); err != nil {
		return errors.Join(err, l.Close())
	}
	if err := server.Serve(netutil.LimitListener(l, mostConnections)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
