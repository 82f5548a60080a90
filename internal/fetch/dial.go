package fetch

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	connectTimeout = 10 * time.Second
	// nextAddress is how long an address may be tried alone before the next one is tried as well.
	nextAddress = 300 * time.Millisecond
	// lookAheadTimeout is how long a proxy may wait for our own look-up.
	lookAheadTimeout = 2 * time.Second
	// mostLate is how many such look-ups in a row may take too long. Then names are taken to be
	// unknown here, as behind a proxy without a resolver, and for blindTime no request waits for one.
	mostLate  = 16
	blindTime = time.Minute
)

// A blindness knows whether names can be looked up here soon enough for a proxy. The zero value
// says that they can.
type blindness struct {
	mu    sync.Mutex
	late  int       // guarded by mu: look-ups in a row that took too long
	until time.Time // guarded by mu: none is waited for before
}

func (b *blindness) now() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Before(b.until)
}

// note takes note of a look-up that was waited for.
func (b *blindness) note(late bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !late {
		b.late = 0
	} else if b.late++; b.late >= mostLate {
		b.until = time.Now().Add(blindTime)
	}
}

// A dialing says what a connection is for. The functions that make it have it from their context.
type dialing struct {
	proxy  *url.URL    // nil: none
	config *tls.Config // of the host; nil: http
	made   *pooled     // is told its peer and its tee
}

type dialingKey struct{}

// relay returns the proxy that requests go to, rather than bytes for a host that it connects us
// with, or nil.
func (d dialing) relay() *url.URL {
	if d.proxy == nil || d.config != nil || isSOCKS(d.proxy) {
		return nil
	}
	return d.proxy
}

func dialingOf(ctx context.Context) dialing { return ctx.Value(dialingKey{}).(dialing) }

// connect makes a connection to a host, through a proxy if there is one, or to a proxy that relays.
// The address of a host that is dialled here is checked after the name was resolved and for every
// dial, so a name that changes its address gains nothing. A connection is used again only for the
// same host and port, which have the same exemption.
func (c *Client) connect(ctx context.Context, _, addr string) (net.Conn, error) {
	d := dialingOf(ctx)
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	var conn net.Conn
	switch {
	case d.relay() != nil:
		if conn, err = c.dialProxy(ctx, d.proxy); err != nil {
			err = proxyFault(ctx, d.proxy, err)
		}
	case d.proxy != nil:
		conn, err = c.dialTunnel(ctx, d.proxy, addr)
	default:
		if conn, err = c.dialHost(ctx, host, port); err == nil {
			if tcp, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
				d.made.peer = tcp.AddrPort().Addr().Unmap()
			}
		}
	}
	if err != nil {
		return nil, err
	}
	if d.config != nil {
		secured, err := handshake(ctx, conn, d.config, host)
		if err != nil || secured.ConnectionState().NegotiatedProtocol == "h2" {
			return secured, err
		}
		conn = secured
	}
	if c.opts.Wire {
		d.made.tee = &tee{Conn: conn}
		conn = d.made.tee
	}
	return conn, nil
}

// dialHost dials a host itself.
func (c *Client) dialHost(ctx context.Context, host, port string) (net.Conn, error) {
	_, private, err := c.names.addresses(ctx, host)
	if err != nil {
		return nil, err
	}
	return c.dial(ctx, host, port, !c.opts.Guard(host, port, private))
}

// lookAhead looks up the name of a request by way of a proxy, which would dial whatever it resolves
// to, and refuses internal addresses. A name that cannot be looked up here, or not soon, is left to
// the proxy.
func (c *Client) lookAhead(ctx context.Context, r *route) error {
	if _, known := c.names.recall(r.host); !known && c.blind.now() {
		return nil
	}
	soon, cancel := context.WithTimeout(ctx, c.limits.ahead)
	defer cancel()
	_, private, err := c.names.addresses(soon, r.host)
	c.blind.note(err != nil && soon.Err() != nil)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case (err == nil || private) && !c.opts.Guard(r.host, r.port, private) && private:
		return &Error{Address, false, fmt.Errorf("%q has an internal address", r.host)}
	}
	return nil
}

// dial tries the addresses of a host in their order, the next one as soon as the one before failed
// or has taken long, and gives the first connection. The error is the one of the first address that
// failed.
func (c *Client) dial(ctx context.Context, host, port string, guarded bool) (net.Conn, error) {
	addrs, _, err := c.names.addresses(ctx, host)
	if err != nil {
		return nil, err
	}
	d := c.dialer(guarded)
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	type attempt struct {
		conn net.Conn
		err  error
	}
	done := make(chan attempt, len(addrs)) // has room for all: none waits
	next := time.NewTimer(0)
	defer next.Stop()
	var first error
	for begun, ended := 0, 0; ; {
		select {
		case <-next.C:
			if begun == len(addrs) {
				continue
			}
			address := net.JoinHostPort(addrs[begun].String(), port)
			begun++
			go func() {
				conn, err := d.DialContext(ctx, "tcp", address)
				done <- attempt{conn, err}
			}()
			next.Reset(nextAddress)
		case a := <-done:
			ended++
			if a.err == nil {
				for range begun - ended {
					go func() { // ends at once: the context is over
						if late := <-done; late.err == nil {
							late.conn.Close()
						}
					}()
				}
				return conn{a.conn, &c.asking}, nil
			}
			if first == nil {
				first = a.err
			}
			if ended == len(addrs) {
				return nil, first
			}
			next.Reset(0)
		}
	}
}

// A conn lets all others that can run do so before it writes. Requests of several downloads then go
// out together, and a server that sleeps is woken for the first of them only: on one core waking
// it, a call to another one, is more than half of what it costs to send a request. Where nobody
// else can run it waits for nothing, and where many are under way it does not wait: a request would
// be late by all their pages, and their servers' answers would come together again.
type conn struct {
	net.Conn
	asking *atomic.Int64 // requests under way
}

func (c conn) Write(b []byte) (int, error) {
	if c.asking.Load() <= fewRequests {
		runtime.Gosched()
	}
	return c.Conn.Write(b)
}

const fewRequests = 16

func (c *Client) dialer(guarded bool) *net.Dialer {
	d := new(net.Dialer)
	if c.opts.Bind.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(c.opts.Bind, 0))
	}
	if guarded {
		d.Control = func(_, address string, _ syscall.RawConn) error {
			ap, err := netip.ParseAddrPort(address)
			if err != nil || internal(ap.Addr()) {
				return &Error{Address, false, fmt.Errorf("%s is an internal address", address)}
			}
			return nil
		}
	}
	return d
}

// turns bounds the requests to one address at one time, whatever hosts they are for.
type turns struct {
	limit int64 // 0: no bound

	mu    sync.Mutex
	addrs map[netip.Addr]*turn // guarded by mu: those that somebody has or waits for
}

type turn struct {
	sem   *semaphore.Weighted
	users int // guarded by turns.mu
}

// enter waits for a turn at an address with the clock stopped. leave must follow, unless it fails.
func (t *turns) enter(w *watch, addr netip.Addr) error {
	t.mu.Lock()
	a := t.addrs[addr]
	if a == nil {
		a = &turn{sem: semaphore.NewWeighted(t.limit)}
		t.addrs[addr] = a
	}
	a.users++
	t.mu.Unlock()
	if a.sem.TryAcquire(1) {
		return nil
	}
	err := w.pause(func(ctx context.Context) error { return a.sem.Acquire(ctx, 1) })
	if err != nil {
		t.forget(addr, a)
	}
	return err
}

func (t *turns) leave(addr netip.Addr) {
	t.mu.Lock()
	a := t.addrs[addr]
	t.mu.Unlock()
	a.sem.Release(1)
	t.forget(addr, a)
}

func (t *turns) forget(addr netip.Addr, a *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.users--; a.users == 0 {
		delete(t.addrs, addr)
	}
}

// turn waits until the host of a request may be asked as far as its address is concerned: the first
// one that would be dialled. The address is zero where none counts: no bound, a proxy, or addresses
// that the guard refuses all.
func (c *Client) turn(w *watch, r *route) (netip.Addr, error) {
	if c.turns.limit == 0 || r.proxy != nil {
		return netip.Addr{}, nil
	}
	addrs, private, err := c.names.addresses(w.ctx, r.host)
	if err != nil {
		return netip.Addr{}, err
	}
	exempt := c.opts.Guard(r.host, r.port, private)
	for _, a := range addrs {
		if !internal(a) || exempt {
			return a, c.turns.enter(w, a)
		}
	}
	return netip.Addr{}, nil
}
