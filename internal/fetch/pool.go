package fetch

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A pool makes connections, and keeps those that are idle for the next request to the same place.
//
// It takes the place of the pool of [http.Transport], which sends a request again, at once and up
// to seven times, when a kept connection is closed or HTTP/2 refuses a stream. An [http.ClientConn]
// sends each request once. What a failure means is decided by the caller.
type pool struct {
	both, http1 *http.Transport // make connections; http1 offers HTTP/1.1 alone
	onlyHTTP1   bool            // for all places
	limit       int             // idle connections
	wire        bool            // Options.Wire

	mu    sync.Mutex
	conns map[place][]*pooled // guarded by mu: those that may take another request, and those in use
	idle  list.List           // guarded by mu: of *pooled without a request, the one idle for longest first
	timer *time.Timer         // guarded by mu: closes what has been idle for too long; nil before the first one
	old   map[string]struct{} // guarded by mu: hosts with ports that want HTTP/1.1; at most mostOld
}

// A place is what a connection leads to. A proxy that relays is one place for all its hosts, whose
// host and port are "".
type place struct {
	proxy, scheme, host, port string
	http1                     bool // alone, in spite of TLS
}

// A pooled is one connection of a pool.
type pooled struct {
	*http.ClientConn
	at    place
	peer  netip.Addr    // of the host; zero through a proxy
	used  atomic.Bool   // it has brought an answer
	tee   *tee          // what HTTP/1 is read through; nil without Options.Wire, and for HTTP/2
	users int           // guarded by pool.mu: requests that are under way, more than one with HTTP/2 alone
	since *list.Element // guarded by pool.mu: its place in pool.idle; nil: not idle
	until time.Time     // guarded by pool.mu: when it is closed if it is idle then
}

const mostOld = 10_000

var errUnavailable = errors.New("connection closed before it was used")

func newPool(opts *Options, dial func(ctx context.Context, network, addr string) (net.Conn, error)) *pool {
	p := &pool{
		limit: opts.IdleConns, onlyHTTP1: opts.HTTP1, wire: opts.Wire,
		conns: map[place][]*pooled{}, old: map[string]struct{}{},
	}
	p.both, p.http1 = newTransport(opts, dial), newTransport(opts, dial)
	p.both.ForceAttemptHTTP2 = true
	// What arrives while a body waits for the budget is in no budget: keep it small.
	p.both.HTTP2 = &http.HTTP2Config{
		MaxReceiveBufferPerStream:     256 << 10,
		MaxReceiveBufferPerConnection: 1 << 20,
		SendPingTimeout:               15 * time.Second,
	}
	p.http1.Protocols = new(http.Protocols)
	p.http1.Protocols.SetHTTP1(true)
	p.http1.TLSClientConfig.NextProtos = []string{"http/1.1"}
	return p
}

func newTransport(opts *Options, dial func(ctx context.Context, network, addr string) (net.Conn, error)) *http.Transport {
	config := &tls.Config{InsecureSkipVerify: opts.Insecure}
	if opts.Insecure {
		config.MinVersion = tls.VersionTLS10
		for _, suite := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
			config.CipherSuites = append(config.CipherSuites, suite.ID)
		}
	}
	return &http.Transport{
		DialContext:            dial, // both make connections that are ready for requests,
		DialTLSContext:         dial, // with TLS and through a proxy
		Proxy:                  func(r *http.Request) (*url.URL, error) { return dialingOf(r.Context()).relay(), nil },
		TLSClientConfig:        config,
		DisableCompression:     true, // codings are ours, see coding.go
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeader,
	}
}

// send sends a request, once. The caller must call put when it has closed the body of the answer.
func (p *pool) send(r *http.Request, to *route) (*http.Response, *pooled, error) {
	c, err := p.get(r.Context(), to)
	if err != nil {
		return nil, nil, err
	}
	if p.wire {
		to.request, to.sent = r, time.Now()
		c.tee.begin()
	}
	res, err := c.RoundTrip(r)
	c.tee.end()
	if err != nil && isGoAway(err) && c.used.Load() {
		p.put(c, nil)
		return nil, nil, &Error{GoAway, true, err}
	}
	if err != nil {
		p.drop(c)
		if strings.Contains(err.Error(), "HTTP_1_1_REQUIRED") {
			err = p.downgrade(to, err)
		}
		return nil, nil, err
	}
	c.used.Store(true)
	if res.StatusCode == http.StatusProxyAuthRequired && to.proxy != nil && to.url.Scheme == "http" {
		res.Body.Close()
		p.put(c, res.Header)
		return nil, nil, proxyFault(r.Context(), to.proxy, ErrProxyPassword)
	}
	if res.StatusCode == http.StatusMisdirectedRequest && res.ProtoMajor == 2 {
		res.Body.Close()
		p.put(c, res.Header)
		return nil, nil, p.downgrade(to, errors.New(res.Status))
	}
	return res, c, nil
}

// isGoAway reports whether a request was not looked at because its connection of HTTP/2 takes no
// more of them, as servers end connections in order (RFC 9113, 6.8).
func isGoAway(err error) bool {
	text := err.Error()
	return strings.Contains(text, "graceful shutdown GOAWAY") || strings.Contains(text, "client conn not usable")
}

// downgrade has a host asked by HTTP/1.1 from now on: it has refused a request by HTTP/2 with the
// error HTTP_1_1_REQUIRED (RFC 9113, 7) or the status 421 (RFC 9110, 15.5.20).
func (p *pool) downgrade(to *route, cause error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for victim := range p.old {
		if len(p.old) < mostOld {
			break
		}
		delete(p.old, victim) // any will do
	}
	p.old[to.url.Host] = struct{}{}
	return &Error{HTTP1, true, cause}
}

// isOld reports whether a host is asked by HTTP/1.1 alone.
func (p *pool) isOld(to *route) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, old := p.old[to.url.Host]
	return old
}

// get returns a connection with room for a request, for one call of put or drop. It dials if none
// is idle.
func (p *pool) get(ctx context.Context, to *route) (*pooled, error) {
	at := place{scheme: to.url.Scheme, host: to.host, port: to.port}
	transport := p.both
	if at.scheme == "https" && (p.onlyHTTP1 || p.isOld(to)) {
		at.http1, transport = true, p.http1
	}
	d := dialing{proxy: to.proxy}
	if at.scheme == "https" {
		d.config = transport.TLSClientConfig
	}
	if to.proxy != nil {
		at.proxy = to.proxy.String()
	}
	if d.relay() != nil {
		at.host, at.port = "", ""
	}
	if c := p.take(at); c != nil {
		return c, nil
	}
	d.made = &pooled{at: at, users: 1}
	ctx = context.WithValue(ctx, dialingKey{}, d)
	cc, err := transport.NewClientConn(ctx, at.scheme, net.JoinHostPort(to.host, to.port))
	if err != nil {
		return nil, err
	}
	if cc.Reserve() != nil {
		_ = cc.Close()
		return nil, &Error{Reset, true, errUnavailable}
	}
	d.made.ClientConn = cc
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[at] = append(p.conns[at], d.made)
	return d.made, nil
}

// take returns a connection of a place that has room for a request, or nil.
func (p *pool) take(at place) *pooled {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range slices.Backward(p.conns[at]) {
		if c.Err() != nil { // the server has closed it
			p.removeLocked(c)
			continue
		}
		if c.tee != nil && c.users > 0 {
			continue // its body is read, but the head of its answer may yet be wanted
		}
		if c.Reserve() == nil {
			c.users++
			p.wakeLocked(c)
			return c
		}
	}
	return nil
}

// put ends a request whose answer was read or given up, after its body was closed. The connection
// is kept if it can take another one.
func (p *pool) put(c *pooled, header http.Header) {
	p.mu.Lock()
	if c.users--; c.users > 0 {
		p.mu.Unlock()
		return
	}
	life := min(idleTimeout, keepAlive(header["Keep-Alive"]))
	if c.Available() == 0 || life <= 0 {
		p.removeLocked(c)
		p.mu.Unlock()
		_ = c.Close()
		return
	}
	c.tee.rest()
	c.until = time.Now().Add(life)
	c.since = p.idle.PushBack(c)
	var victim *pooled
	if p.idle.Len() > p.limit {
		victim = p.idle.Front().Value.(*pooled)
		p.removeLocked(victim)
	}
	switch {
	case p.timer == nil:
		p.timer = time.AfterFunc(life, p.sweep)
	case p.idle.Len() == 1:
		p.timer.Reset(life)
	}
	p.mu.Unlock()
	if victim != nil {
		_ = victim.Close()
	}
}

// drop ends a request that has no answer. Its connection is closed unless others use it, and so are
// those to the same place that are idle: what broke one has mostly broken them all.
func (p *pool) drop(c *pooled) {
	var victims []*pooled
	p.mu.Lock()
	c.users--
	for _, other := range p.conns[c.at] {
		if other.users == 0 {
			victims = append(victims, other)
		}
	}
	for _, v := range victims {
		p.removeLocked(v)
	}
	p.mu.Unlock()
	for _, v := range victims {
		_ = v.Close()
	}
}

// sweep closes connections that have been idle for too long.
func (p *pool) sweep() {
	var victims []*pooled
	now := time.Now()
	next := idleTimeout
	p.mu.Lock()
	for e := p.idle.Front(); e != nil; {
		c := e.Value.(*pooled)
		e = e.Next()
		if left := c.until.Sub(now); left > 0 {
			next = min(next, left)
			continue
		}
		victims = append(victims, c)
		p.removeLocked(c)
	}
	if p.idle.Len() > 0 {
		p.timer.Reset(next)
	}
	p.mu.Unlock()
	for _, v := range victims {
		_ = v.Close()
	}
}

func (p *pool) wakeLocked(c *pooled) {
	if c.since != nil {
		p.idle.Remove(c.since)
		c.since = nil
	}
}

func (p *pool) removeLocked(c *pooled) {
	p.wakeLocked(c)
	list := p.conns[c.at]
	i := slices.Index(list, c)
	switch {
	case i < 0:
	case len(list) == 1:
		delete(p.conns, c.at)
	default:
		p.conns[c.at] = slices.Delete(list, i, i+1)
	}
}

// close closes all connections. No request may be under way.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
	for _, list := range p.conns {
		for _, c := range list {
			_ = c.Close()
		}
	}
	p.idle.Init()
	clear(p.conns)
}

// keepAlive returns how long a connection may be kept by the Keep-Alive header of an answer, as in
// RFC 2068, 19.7.1.1: a second less than the server will keep it, so that no request meets its end.
func keepAlive(header []string) time.Duration {
	for _, line := range header {
		for part := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
			if seconds, err := strconv.Atoi(value); err == nil && strings.EqualFold(name, "timeout") {
				return time.Duration(min(max(seconds-1, 0), 3600)) * time.Second
			}
		}
	}
	return idleTimeout
}
