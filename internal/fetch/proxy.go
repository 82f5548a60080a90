package fetch

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/proxy"
)

// tunnelTimeout is how long a proxy may take to answer a CONNECT.
const tunnelTimeout = time.Minute

// isSOCKS reports whether a proxy passes on bytes alone.
func isSOCKS(proxy *url.URL) bool { return strings.HasPrefix(proxy.Scheme, "socks5") }

// proxyFault makes an error one of the proxy, unless it comes from the end of ctx.
func proxyFault(ctx context.Context, proxy *url.URL, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return &Error{Proxy, true, fmt.Errorf("%s: %w", proxy.Host, err)}
}

// dialProxy makes a connection to a proxy, whose address is the user's choice and is not guarded.
func (c *Client) dialProxy(ctx context.Context, proxy *url.URL) (net.Conn, error) {
	address, err := httpguts.PunycodeHostPort(proxy.Host)
	if err != nil {
		return nil, err
	}
	to := url.URL{Host: address}
	defaults := map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}
	conn, err := c.dial(ctx, to.Hostname(), cmp.Or(to.Port(), defaults[proxy.Scheme]), false)
	if err != nil || proxy.Scheme != "https" {
		return conn, err
	}
	return handshake(ctx, conn, c.pool.http1.TLSClientConfig, to.Hostname())
}

// dialTunnel makes a connection to addr through a proxy.
func (c *Client) dialTunnel(ctx context.Context, proxy *url.URL, addr string) (net.Conn, error) {
	if isSOCKS(proxy) {
		return c.dialSOCKS(ctx, proxy, addr)
	}
	conn, err := c.dialProxy(ctx, proxy)
	if err != nil {
		return nil, proxyFault(ctx, proxy, err)
	}
	res, err := askTunnel(ctx, conn, proxy, addr)
	switch {
	case err != nil:
		err = proxyFault(ctx, proxy, err)
	case res.StatusCode == http.StatusOK:
		return conn, nil
	case res.StatusCode == http.StatusProxyAuthRequired:
		err = proxyFault(ctx, proxy, ErrProxyPassword)
	default:
		err = &Error{Connect, true, fmt.Errorf("proxy answers %q", res.Status)}
	}
	conn.Close()
	return nil, err
}

// askTunnel has the proxy at the other end of conn connect it with addr (RFC 9110, 9.3.6).
func askTunnel(ctx context.Context, conn net.Conn, proxy *url.URL, addr string) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, tunnelTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	r := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: addr}, Host: addr, Header: http.Header{}}
	if user := proxy.User; user != nil {
		password, _ := user.Password()
		login := base64.StdEncoding.EncodeToString([]byte(user.Username() + ":" + password))
		r.Header.Set("Proxy-Authorization", "Basic "+login)
	}
	err := r.Write(conn)
	var res *http.Response
	if err == nil {
		// No byte of the host is lost in the buffer: a server of TLS does not speak first.
		res, err = http.ReadResponse(bufio.NewReader(io.LimitReader(conn, maxHeader)), r)
	}
	if !stop() {
		return nil, context.Cause(ctx)
	}
	return res, err
}

// dialSOCKS is dialTunnel for a proxy of SOCKS 5.
func (c *Client) dialSOCKS(ctx context.Context, to *url.URL, addr string) (net.Conn, error) {
	var login *proxy.Auth
	if to.User != nil {
		login = &proxy.Auth{User: to.User.Username()}
		login.Password, _ = to.User.Password()
	}
	dialer, err := proxy.SOCKS5("tcp", to.Host, login, proxyDialer(func(ctx context.Context) (net.Conn, error) {
		conn, err := c.dialProxy(ctx, to)
		if err != nil {
			err = proxyFault(ctx, to, err)
		}
		return conn, err
	}))
	if err != nil {
		return nil, err
	}
	conn, err := dialer.(proxy.ContextDialer).DialContext(ctx, "tcp", addr)
	switch {
	case err == nil:
		return conn, nil
	case strings.Contains(err.Error(), "authentication"):
		return nil, proxyFault(ctx, to, err)
	case ctx.Err() != nil:
		return nil, err
	}
	return nil, &Error{Connect, true, err}
}

// A proxyDialer dials the one proxy that it is for.
type proxyDialer func(context.Context) (net.Conn, error)

func (d proxyDialer) DialContext(ctx context.Context, _, _ string) (net.Conn, error) { return d(ctx) }

func (d proxyDialer) Dial(_, _ string) (net.Conn, error) { return d(context.Background()) }

// handshake begins TLS on a connection, as the client of a server with that name. It closes the
// connection if that fails.
func handshake(ctx context.Context, conn net.Conn, config *tls.Config, name string) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, tlsTimeout)
	defer cancel()
	config = config.Clone()
	config.ServerName = name
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secured, nil
}
