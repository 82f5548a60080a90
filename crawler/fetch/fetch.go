// Package fetch turns one request into one answer or one typed failure.
//
// Fed by the download workers of a crawler, feeds the parse workers. It follows no redirect, keeps
// no page and tries nothing twice: what a failure means for a URL and its host is decided above.
//
// Memory: the bytes of all bodies in flight are taken from one [Budget]. A body takes at most 64 KiB
// when its headers are there, which may wait; it grows only by what is free at once, and what finds no
// room, or passes 1 MiB, goes to a file made by Options.Temp. Coded bodies are decoded after they
// arrived, a few at a time, so the windows of decoders are bounded too and no decoder waits for a host.
//
// Time: waiting for our own limits (budget, decoders, rate) does not count as time of the host.
package fetch

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"
	"golang.org/x/time/rate"
)

const (
	defaultTimeout = 30 * time.Second
	defaultMaxSize = 16 << 20
	defaultAccept  = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.5"

	connectTimeout = 10 * time.Second
	tlsTimeout     = 10 * time.Second
	maxHeader      = 256 << 10 // bytes of one response header
	idleConns      = 512       // connections kept open without a request
	idleTimeout    = 30 * time.Second

	drainSize = 64 << 10    // bytes of a dropped body that are read to keep its connection
	drainTime = time.Second // and how long that may take

	// codingSlack is how many bytes a coded body may have beyond the limit of the decoded one.
	codingSlack = 64 << 10
	// sniffSize is how many bytes the media type is told by.
	sniffSize = 512
	// rateBurst is how many bytes may pass the rate limit at once; no single read is larger.
	rateBurst = 64 << 10
)

// Options say how a Client behaves. The zero value is careful: every private address is refused.
type Options struct {
	UserAgent string        // "": the one of net/http
	Timeout   time.Duration // for a whole request, from dial to last byte; 0: 30 s
	MaxSize   int64         // of a decoded body, in bytes; 0: 16 MiB
	Bodies    *Budget       // memory for bodies in flight; nil: 64 MiB of its own

	// Temp makes a file for a body that memory has no room for. It is called from many goroutines.
	// nil: such a body fails as TooLarge.
	Temp func() (Temp, error)

	Proxy    *url.URL      // for every request; nil: as HTTP_PROXY, HTTPS_PROXY, NO_PROXY say
	Resolver *net.Resolver // nil: the system's

	// Header, User with Password, and Cookies are sent only to hosts for which SeedHost is true;
	// a nil SeedHost means none. Accept-Encoding in Header is ignored.
	Header   http.Header
	User     string
	Password string
	Cookies  []*http.Cookie // see ParseCookies
	SeedHost func(hostname string) bool

	// Guard tells which hosts may have a loopback, private or otherwise internal address.
	// The answer for one host and port must not change. nil: none.
	Guard func(hostname, port string) (exempt bool)

	LimitRate    int64 // bytes per second over all bodies; 0: no limit
	ConnsPerHost int   // connections to one host and port; 0: no limit
	Insecure     bool  // accept any certificate
}

// A Request says what is special about one request.
type Request struct {
	Accept  string // the Accept header; "": HTML first, anything else too
	MaxSize int64  // of the decoded body, in bytes; 0: Options.MaxSize

	// Wants is asked once the media type of a 2xx answer is known, before its body is read where
	// the header tells it. If it says false the body is dropped and the answer is Unwanted. nil: all.
	Wants func(media string) bool
	// KeepBroken keeps what came of a body that broke off, instead of failing.
	KeepBroken bool
	// KeepLarge keeps the first MaxSize bytes of a body that is larger, instead of failing.
	KeepLarge bool
}

// A Response is one answer. Its Body is empty unless the status is 2xx.
type Response struct {
	Status   int
	Header   http.Header
	Media    string // lower case, by header and, where missing or wrong, by sniffing; "" without a body
	Charset  string // of the Content-Type header, lower case, or ""
	Body     *Body  // never nil; the caller owns it and must Release it
	Location string // as sent, for 301, 302, 303, 307 and 308; else ""

	RetryAfter time.Duration // 0: none, past or unreadable
	First      time.Duration // from the call to the header, without waiting for our own limits
	Total      time.Duration // and to the last byte of the body

	Truncated bool // the body is only the first part (KeepBroken, KeepLarge)
	Unwanted  bool // Request.Wants said no
	CookieSet bool // the answer set a cookie
}

// A Client fetches. It is safe for use by many goroutines.
type Client struct {
	opts    Options
	limiter *rate.Limiter // nil: no limit
	coders  chan *coder   // as many as may decode at once
	direct  *http.Transport
	proxied *http.Transport // nil: no proxy is known
	proxy   func(*url.URL) (*url.URL, error)
	files   *cookiejar.Jar // Options.Cookies
	session jar            // cookies that answers set
}

// New makes a Client. Call Close when no Get runs any more.
func New(opts Options) *Client {
	if opts.Timeout <= 0 {
		opts.Timeout = defaultTimeout
	}
	if opts.MaxSize <= 0 {
		opts.MaxSize = defaultMaxSize
	}
	if opts.Bodies == nil {
		opts.Bodies = NewBudget(0)
	}
	if opts.Guard == nil {
		opts.Guard = func(string, string) bool { return false }
	}
	if opts.SeedHost == nil {
		opts.SeedHost = func(string) bool { return false }
	}
	c := &Client{opts: opts, files: fileJar(opts.Cookies)}
	if opts.LimitRate > 0 {
		c.limiter = rate.NewLimiter(rate.Limit(opts.LimitRate), rateBurst)
	}
	procs := runtime.GOMAXPROCS(0)
	c.coders = make(chan *coder, procs)
	for range procs {
		c.coders <- new(coder)
	}

	c.direct = c.transport(c.dialGuarded)
	c.direct.MaxConnsPerHost = opts.ConnsPerHost
	c.direct.MaxIdleConnsPerHost = max(2, opts.ConnsPerHost)
	if opts.Proxy != nil {
		c.proxy = func(*url.URL) (*url.URL, error) { return opts.Proxy, nil }
	} else if env := httpproxy.FromEnvironment(); env.HTTPProxy != "" || env.HTTPSProxy != "" {
		c.proxy = env.ProxyFunc()
	}
	if c.proxy != nil {
		// The proxy's own address is the user's choice, so its dial is not guarded. To the transport all
		// http hosts behind a proxy are one, hence no limit of connections and more idle ones.
		c.proxied = c.transport(c.dialer(false).DialContext)
		c.proxied.MaxIdleConnsPerHost = 64
		c.proxied.Proxy = func(r *http.Request) (*url.URL, error) { return c.proxy(r.URL) }
		c.proxied.OnProxyConnectResponse = func(_ context.Context, _ *url.URL, _ *http.Request, res *http.Response) error {
			if res.StatusCode == http.StatusOK {
				return nil
			}
			return &Error{Connect, res.StatusCode >= 500, fmt.Errorf("proxy answers %s", res.Status)}
		}
	}
	return c
}

func (c *Client) transport(dial func(ctx context.Context, network, addr string) (net.Conn, error)) *http.Transport {
	return &http.Transport{
		DialContext:            dial,
		TLSClientConfig:        &tls.Config{InsecureSkipVerify: c.opts.Insecure},
		TLSHandshakeTimeout:    tlsTimeout,
		DisableCompression:     true, // codings are ours, see coding.go
		MaxIdleConns:           idleConns,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeader,
		ForceAttemptHTTP2:      true,
		// What arrives while a body waits for the budget is in no budget: keep it small.
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream:     256 << 10,
			MaxReceiveBufferPerConnection: 1 << 20,
			SendPingTimeout:               15 * time.Second,
		},
	}
}

// Close gives up idle connections and decoders. No Get may run.
func (c *Client) Close() {
	c.direct.CloseIdleConnections()
	if c.proxied != nil {
		c.proxied.CloseIdleConnections()
	}
	for range cap(c.coders) {
		(<-c.coders).close()
	}
}

// Get asks for a URL once. The error is an *Error, or the cause of ctx if that ended.
func (c *Client) Get(ctx context.Context, rawURL string, req Request) (res *Response, err error) {
	w := newWatch(ctx, c.opts.Timeout)
	defer w.stop()
	defer func() {
		if p := recover(); p != nil {
			res, err = nil, &Error{Panic, false, fmt.Errorf("%v\n%s", p, debug.Stack())}
		}
	}()
	if req.MaxSize <= 0 {
		req.MaxSize = c.opts.MaxSize
	}
	h, err := c.open(w, rawURL, req.Accept)
	if err != nil {
		return nil, w.fail(err)
	}
	defer h.Body.Close()
	res = &Response{
		Status:     h.StatusCode,
		Header:     h.Header,
		Body:       new(Body),
		RetryAfter: retryAfter(h.Header.Get("Retry-After"), time.Now()),
		First:      w.spent(),
		CookieSet:  len(h.Header["Set-Cookie"]) > 0,
	}
	switch h.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		res.Location = h.Header.Get("Location")
	}
	if h.StatusCode/100 != 2 {
		c.drain(w, h)
	} else if err := c.read(w, h, req, res); err != nil {
		return nil, w.fail(err)
	}
	if res.Total == 0 {
		res.Total = w.spent()
	}
	return res, nil
}

// open sends the request and waits for the header of the answer.
func (c *Client) open(w *watch, rawURL, accept string) (*http.Response, error) {
	u, err := parseURL(rawURL)
	if err != nil {
		return nil, &Error{Protocol, false, err}
	}
	host, port := u.Hostname(), u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	// Every dial is checked; this is for requests by way of a proxy, which dials for us.
	if literalInternal(host) && !c.opts.Guard(host, port) {
		return nil, &Error{Address, false, fmt.Errorf("%s is an internal address", host)}
	}
	transport := c.direct
	var proxy *url.URL
	if c.proxy != nil {
		if proxy, err = c.proxy(u); err != nil {
			return nil, &Error{Connect, false, fmt.Errorf("proxy: %w", err)}
		}
		if proxy != nil {
			transport = c.proxied
		}
	}
	setTarget(u, rawURL, proxy != nil && u.Scheme == "http")

	if accept == "" {
		accept = defaultAccept
	}
	header := make(http.Header, 8)
	header.Set("Accept", accept)
	if c.opts.UserAgent != "" {
		header.Set("User-Agent", c.opts.UserAgent)
	}
	r := (&http.Request{
		Method: http.MethodGet, URL: u, Host: u.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(w.ctx)
	seed := c.opts.SeedHost(host)
	if seed {
		if c.opts.User != "" || c.opts.Password != "" {
			r.SetBasicAuth(c.opts.User, c.opts.Password)
		}
		for name, values := range c.opts.Header {
			header[http.CanonicalHeaderKey(name)] = values
		}
	}
	header.Set("Accept-Encoding", acceptEncoding)
	c.addCookies(r, seed)
	res, err := transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	c.session.keep(u, res)
	return res, nil
}

// read reads the body of a 2xx answer.
func (c *Client) read(w *watch, h *http.Response, req Request, res *Response) error {
	codings, err := parseCodings(h.Header["Content-Encoding"])
	if err != nil {
		return err
	}
	var sure bool
	res.Media, res.Charset, sure = mediaOf(h.Header.Get("Content-Type"))
	unwanted := func() bool {
		res.Unwanted = req.Wants != nil && !req.Wants(res.Media)
		return res.Unwanted
	}
	if sure && unwanted() {
		c.drain(w, h)
		return nil
	}
	src := c.limited(w, h.Body)
	if !sure && len(codings) == 0 {
		head := make([]byte, sniffSize)
		n, _ := io.ReadFull(src, head) // an error comes again at the next read
		res.Media, sure = sniff(head[:n]), true
		if unwanted() {
			c.drain(w, h)
			return nil
		}
		src = io.MultiReader(bytes.NewReader(head[:n]), src)
	}
	if h.ContentLength > req.MaxSize && !req.KeepLarge {
		return &Error{TooLarge, false, fmt.Errorf("%d bytes announced, limit %d", h.ContentLength, req.MaxSize)}
	}
	o := filling{
		size: h.ContentLength, limit: req.MaxSize, keepBroken: req.KeepBroken, keepLarge: req.KeepLarge,
		coded: len(codings) > 0, wait: w,
	}
	if o.coded {
		o.limit += codingSlack
	}
	body, cut, err := c.fill(src, o)
	if err != nil {
		return err
	}
	res.Total = w.spent()
	if len(codings) > 0 {
		encoded, encodedCut := body, cut
		o.limit = req.MaxSize
		defer encoded.Release()
		o.keepBroken = o.keepBroken || encodedCut // else the fill above had failed
		if body, cut, err = c.decode(w, codings, encoded, o); err != nil {
			return err
		}
		cut = cut || encodedCut
	}
	if !sure {
		res.Media = sniff(body.Bytes())
		if unwanted() {
			body.Release()
			return nil
		}
	}
	res.Body, res.Truncated = body, cut
	return nil
}

// drain reads the rest of a body that nobody wants, if it is short, so that its connection can be used again.
func (c *Client) drain(w *watch, h *http.Response) {
	if h.ContentLength > drainSize {
		return
	}
	t := time.AfterFunc(drainTime, func() { w.cancel(errTimeout) })
	defer t.Stop()
	_, _ = io.CopyN(io.Discard, c.limited(w, h.Body), drainSize+1)
}

// limited slows a reader down to the rate limit that all share.
func (c *Client) limited(w *watch, r io.Reader) io.Reader {
	if c.limiter == nil {
		return r
	}
	return &limitedReader{c.limiter, w, r}
}

type limitedReader struct {
	limiter *rate.Limiter
	w       *watch
	r       io.Reader
}

func (l *limitedReader) Read(p []byte) (int, error) {
	n, err := l.r.Read(p[:min(len(p), rateBurst)])
	if n > 0 && !l.limiter.AllowN(time.Now(), n) {
		wait := func(ctx context.Context) error { return l.limiter.WaitN(ctx, n) }
		if werr := l.w.pause(wait); werr != nil {
			return n, werr
		}
	}
	return n, err
}

// A watch is the clock of one request. Waiting for our own limits stops it, so that a host is not
// blamed for them. Used by one goroutine.
type watch struct {
	parent context.Context
	ctx    context.Context // ends with parent, or with cause errTimeout
	cancel context.CancelCauseFunc
	timer  *time.Timer
	begin  time.Time // moved on by each pause
	limit  time.Duration
}

var errTimeout = errors.New("no complete answer in time")

func newWatch(parent context.Context, limit time.Duration) *watch {
	w := &watch{parent: parent, begin: time.Now(), limit: limit}
	w.ctx, w.cancel = context.WithCancelCause(parent)
	w.timer = time.AfterFunc(limit, func() { w.cancel(errTimeout) })
	return w
}

func (w *watch) stop() {
	w.timer.Stop()
	w.cancel(nil)
}

// spent gives the time since the start, without pauses.
func (w *watch) spent() time.Duration { return time.Since(w.begin) }

// pause calls wait with the clock stopped; wait ends with the context of the caller of Get.
func (w *watch) pause(wait func(context.Context) error) error {
	w.timer.Stop()
	start := time.Now()
	err := wait(w.parent)
	w.begin = w.begin.Add(time.Since(start))
	w.timer.Reset(w.limit - w.spent())
	return err
}

// fail makes the error that Get returns.
func (w *watch) fail(err error) error {
	if w.parent.Err() != nil {
		return context.Cause(w.parent)
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	if context.Cause(w.ctx) == errTimeout {
		return &Error{Timeout, true, fmt.Errorf("%w: %v", errTimeout, w.limit)}
	}
	reason, passing := classify(err)
	return &Error{reason, passing, err}
}

// parseURL reads scheme and host of an absolute http(s) URL; the rest is taken by setTarget.
func parseURL(rawURL string) (*url.URL, error) {
	scheme, rest, ok := strings.Cut(rawURL, "://")
	if !ok || scheme != "http" && scheme != "https" {
		return nil, fmt.Errorf("%q is not an http or https URL", rawURL)
	}
	authority := rest
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority = rest[:i]
	}
	u, err := url.Parse(scheme + "://" + authority)
	if err != nil {
		return nil, err
	}
	if u.Hostname() == "" {
		return nil, fmt.Errorf("%q has no host", rawURL)
	}
	u.User = nil
	return u, nil
}

// setTarget sets path and query so that they are sent as they are spelt. A path that net/url would spell
// in another way goes as opaque text, in absolute form where a proxy is to read it or where
// the path itself could be taken for a host.
func setTarget(u *url.URL, rawURL string, absolute bool) {
	rawURL, _, _ = strings.Cut(rawURL, "#")
	rest := rawURL[len(u.Scheme)+len("://"):]
	path, query, hasQuery := strings.Cut(rest, "?")
	if i := strings.IndexByte(path, '/'); i >= 0 {
		path = path[i:]
	} else {
		path = "/"
	}
	u.RawQuery, u.ForceQuery = query, hasQuery
	if decoded, err := url.PathUnescape(path); err == nil {
		u.Path, u.RawPath = decoded, path
		if u.EscapedPath() == path {
			return
		}
	}
	u.Path, u.RawPath, u.Opaque = "", "", path
	if absolute || strings.HasPrefix(path, "//") {
		u.Opaque = "//" + u.Host + path
	}
}

// retryAfter reads seconds or a date. Times are cut to a year, which no one waits for.
func retryAfter(value string, now time.Time) time.Duration {
	const most = 365 * 24 * time.Hour
	value = strings.TrimSpace(value)
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
		return time.Duration(min(max(seconds, 0), int64(most/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), most)
	}
	return 0
}
