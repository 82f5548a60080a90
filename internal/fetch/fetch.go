// Package fetch turns one request into one answer or one typed failure.
//
// Fed by the download workers of a crawler, feeds the parse workers. It follows no redirect, keeps
// no page and tries nothing twice: what a failure means for a URL and its host is decided above.
//
// Memory: the bytes of all bodies in flight are taken from one [Budget]. A body takes at most 64
// KiB when its headers are there, which may wait; it grows only by what is free at once, and what
// finds no room, or passes 1 MiB, goes to a file made by Options.Temp. Coded bodies are decoded
// after they arrived, a few at a time, so the windows of decoders are bounded too and no decoder
// waits for a host. With Options.Wire the coded form stays in the budget beside the decoded one.
//
// Time: waiting for our own limits (budget, decoders, rate, turn at an address) does not count as
// time of the host. Nobody waits for a turn with memory of the budget in hand, so whoever has a
// turn goes on and gives it back.
package fetch

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpproxy"

	"urltree/internal/coding"
)

const (
	defaultTimeout = 30 * time.Second
	defaultMaxSize = 16 << 20
	defaultAccept  = "text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.1"

	tlsTimeout  = 10 * time.Second
	maxHeader   = 64 << 10 // bytes of one response header; while it arrives each may take 21 bytes of memory
	maxLines    = 1000     // lines of one that has arrived
	defaultIdle = 512
	idleTimeout = 30 * time.Second
	takeTimeout = time.Hour // of an answer that is there already

	otherSize = 1 << 20     // bytes of a body that are kept of an answer that is not 2xx
	drainSize = 64 << 10    // bytes of a dropped body that are read to keep its connection
	drainTime = time.Second // and how long that may take

	// codingSlack is how many bytes a coded body may have beyond the limit of the decoded one.
	codingSlack = 64 << 10
	// sniffSize is how many bytes the media type is told by.
	sniffSize = 512
	// lookSize is how many bytes Request.Looks is given.
	lookSize = 32 << 10
	// rateBurst is how many bytes may pass the rate limit at once; no single read is larger.
	rateBurst = 64 << 10
)

// Options say how a Client behaves. The zero value is careful: every private address is refused.
type Options struct {
	UserAgent string        // "": the one of net/http
	Timeout   time.Duration // for a whole request, from dial to last byte; 0: 30 s
	FirstByte time.Duration // from dial to the header; 0, or more than Timeout: Timeout
	MinRate   int64         // bytes per second, on average over each 10 s of an answer behind its header; 0: any
	MaxSize   int64         // of a decoded body, in bytes; 0: 16 MiB
	Bodies    *Budget       // memory for bodies in flight; nil: 64 MiB of its own

	// Temp makes a file for a body that memory has no room for. It is called from many goroutines.
	// nil: such a body fails as TooLarge.
	Temp func() (Temp, error)

	Proxy    *url.URL      // for every request; nil: as HTTP_PROXY, HTTPS_PROXY, NO_PROXY say
	Resolver *net.Resolver // nil: the system's
	// Lookup returns the addresses of a host in the order in which they are to be tried. It must
	// return soon after ctx ended. Answers are kept for 5 minutes, failures for 30 s. nil: Resolver.
	Lookup  func(ctx context.Context, hostname string) ([]netip.Addr, error)
	Network string     // "tcp4" or "tcp6": only addresses of that family, also of a proxy; "": both
	Bind    netip.Addr // local address of all connections; only addresses of its family are dialled. Zero: any

	// Header, and User with Password, are sent only to origins (scheme, host and port, see RFC 6454)
	// for which SeedOrigin is true: such as "https://example.org" or "http://[::1]:8080". Logins, by
	// origin, go there in place of User and Password. Cookies go by their own rules, which know
	// neither ports nor, but for Secure ones, schemes, to hosts for which SeedHost is true. A nil
	// SeedOrigin or SeedHost means none. Accept-Encoding in Header is ignored.
	Header   http.Header
	User     string
	Password string
	Cookies  []*http.Cookie // see ParseCookies
	Logins   map[string]*url.Userinfo

	SeedOrigin func(origin string) bool
	SeedHost   func(hostname string) bool

	// Guard reports whether a host may have a loopback, private or otherwise internal address. private
	// says whether it has one now, by its name or by a look-up. Once it has been asked, the answer for
	// one host and port must not change. nil: none may.
	Guard func(hostname, port string, private bool) (exempt bool)

	// Source answers in place of the network, given the URL as Get was. Then nothing is dialled or
	// looked up, and no header, cookie, proxy or guard counts; the body is read as any other. ctx ends
	// with Timeout. nil: the network.
	Source func(ctx context.Context, url string) (*http.Response, error)

	LimitRate int64 // bytes per second over all bodies; 0: no limit; see SetLimitRate
	IdleConns int   // connections kept open without a request; 0: 512
	// PerIP bounds the requests at one time to one address, from before they are sent until their body
	// is there. Hosts with the same address count together. A host counts by the first of its
	// addresses that may be dialled, also where it is reached by another one. Not for requests by way
	// of a proxy. 0: no limit.
	PerIP    int
	Insecure bool // accept any certificate, TLS from 1.0 on, and key exchanges that are not safe any more
	HTTP1    bool // ask by HTTP/1.1 alone
	// Wire keeps answers as they came, in Response.Wire. Then only codings are asked for that readers
	// of archives undo: gzip and br.
	Wire bool
	// All reads the bodies of answers that are not 2xx as well. It is of no use without Wire.
	All bool
}

// A Request says what is special about one request.
type Request struct {
	Accept  string // the Accept header; "": HTML first, anything else too
	MaxSize int64  // of the decoded body, in bytes; 0: Options.MaxSize

	// Wants is asked once the media type of a 2xx answer is known, before its body is read where
	// the header tells it. If it says false the body is dropped and the answer is Unwanted. nil: all.
	Wants func(media string) bool
	// Looks is asked next, for a media type that is wanted by some beginnings alone: what it returns
	// decides as Wants does, by the first 32 KiB of a body without coding, or all of it. nil, also as
	// a result: all.
	Looks func(media string) func(head []byte) bool
	// KeepBroken keeps what came of a body that broke off, instead of failing.
	KeepBroken bool
	// KeepLarge keeps the first MaxSize bytes of a body that is larger, instead of failing.
	KeepLarge bool
	// NoBody asks for the header alone: no body is read, and Response.Body is empty. Head asks by the
	// method HEAD, and implies it.
	NoBody, Head bool
	// ETag and Modified are these headers of an answer whose body is known, as the server sent
	// them: if it has no other one now, the answer is 304 without a body. "": it comes in any case.
	ETag, Modified string
}

// A Response is one answer. Its Body is empty unless the status is 2xx, but with Options.All: then
// it is what came of the first 1 MiB, in its coding and without a Digest.
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

	Wire *Wire // nil without Options.Wire

	Truncated bool // the body is only the first part (KeepBroken, KeepLarge)
	Unwanted  bool // Request.Wants said no
	CookieSet bool // the answer set a cookie
}

// A Client fetches. It is safe for use by many goroutines.
type Client struct {
	opts    Options
	limits  limits // of each request
	rate    throttle
	turns   turns // for Options.PerIP
	names   *names
	blind   blindness
	last    atomic.Pointer[server] // of an internal name that Options.Guard has exempted
	asking  atomic.Int64           // calls of Get that run
	stop    context.CancelFunc     // of lookups
	coders  chan *coder            // as many as may decode at once
	pool    *pool
	proxy   func(*url.URL) (*url.URL, error) // nil: no proxy is known
	files   rawJar                           // Options.Cookies
	session jar                              // cookies that answers set
}

// New makes a Client. Call Close when no Get runs any more.
func New(opts Options) *Client {
	opts.Timeout = cmp.Or(max(opts.Timeout, 0), defaultTimeout)
	opts.FirstByte = cmp.Or(max(opts.FirstByte, 0), opts.Timeout)
	opts.MaxSize = cmp.Or(max(opts.MaxSize, 0), defaultMaxSize)
	opts.IdleConns = cmp.Or(max(opts.IdleConns, 0), defaultIdle)
	if opts.Bodies == nil {
		opts.Bodies = NewBudget(0)
	}
	if opts.Guard == nil {
		opts.Guard = func(string, string, bool) bool { return false }
	}
	if opts.SeedHost == nil {
		opts.SeedHost = func(string) bool { return false }
	}
	if opts.SeedOrigin == nil {
		opts.SeedOrigin = func(string) bool { return false }
	}
	opts.Bind = opts.Bind.Unmap()
	c := &Client{
		opts:   opts,
		files:  fileJar(opts.Cookies),
		turns:  turns{limit: int64(max(opts.PerIP, 0)), addrs: map[netip.Addr]*turn{}},
		limits: limits{whole: opts.Timeout, first: opts.FirstByte, window: rateWindow, ahead: lookAheadTimeout},
	}
	if opts.MinRate > 0 {
		c.limits.least = min(opts.MinRate, math.MaxInt64/10) * 10
	}
	c.names, c.stop = newNames(opts)
	c.SetLimitRate(opts.LimitRate)
	procs := runtime.GOMAXPROCS(0)
	c.coders = make(chan *coder, procs)
	for range procs {
		c.coders <- new(coder)
	}

	c.pool = newPool(&c.opts, c.connect)
	if opts.Proxy != nil {
		c.proxy = func(*url.URL) (*url.URL, error) { return opts.Proxy, nil }
	} else if env := httpproxy.FromEnvironment(); env.HTTPProxy != "" || env.HTTPSProxy != "" {
		c.proxy = env.ProxyFunc()
	}
	return c
}

// Close ends lookups, idle connections and decoders. No Get may run.
func (c *Client) Close() {
	c.stop()
	c.pool.close()
	for range cap(c.coders) {
		(<-c.coders).close()
	}
}

// Get asks for a URL once. The error is an *Error, or the cause of ctx if that ended.
func (c *Client) Get(ctx context.Context, rawURL string, req Request) (res *Response, err error) {
	c.asking.Add(1)
	defer c.asking.Add(-1)
	w := newWatch(ctx, c.limits)
	defer w.stop()
	defer recovered(&res, &err)
	if req.MaxSize <= 0 {
		req.MaxSize = c.opts.MaxSize
	}
	r, err := c.route(rawURL)
	if err != nil {
		return nil, w.fail(err)
	}
	if r.proxy != nil {
		if err := c.lookAhead(w.ctx, &r); err != nil {
			return nil, w.fail(err)
		}
	}
	turn, err := c.turn(w, &r)
	if err != nil {
		return nil, w.fail(err)
	}
	if turn.IsValid() {
		defer c.turns.leave(turn)
	}
	h, conn, err := c.open(w, &r, &req)
	if err != nil {
		return nil, w.fail(err)
	}
	defer func() {
		h.Body.Close()
		if conn != nil {
			c.pool.put(conn, h.Header)
		}
	}()
	return c.answer(w, &r, h, conn, req)
}

// Take reads an answer that came in another way, such as from an archive, as Get would have read
// it. For Options.Wire, was says how it came, or is nil; its Head, if there is one, is made true of
// the body as kept. The caller closes the body of h. Errors are those of Get.
func (c *Client) Take(ctx context.Context, h *http.Response, was *Wire, req Request) (res *Response, err error) {
	w := newWatch(ctx, limits{whole: takeTimeout, first: takeTimeout})
	defer w.stop()
	defer recovered(&res, &err)
	if req.MaxSize <= 0 {
		req.MaxSize = c.opts.MaxSize
	}
	return c.answer(w, &route{was: was}, h, nil, req)
}

// recovered, deferred, makes a panic the error of its function.
func recovered(res **Response, err *error) {
	if p := recover(); p != nil {
		*res, *err = nil, &Error{Panic, false, fmt.Errorf("%s\n%s", printable(fmt.Sprint(p)), debug.Stack())}
	}
}

// answer makes a Response of an answer whose header is there. conn is nil if it did not come over a
// connection of this Client.
func (c *Client) answer(w *watch, r *route, h *http.Response, conn *pooled, req Request) (res *Response, err error) {
	if countLines(h.Header) > maxLines {
		return nil, &Error{Header, false, fmt.Errorf("more than %d lines", maxLines)}
	}
	w.read()
	res = &Response{
		Status:     h.StatusCode,
		Header:     h.Header,
		RetryAfter: retryAfter(h.Header.Get("Retry-After"), time.Now()),
		First:      w.spent(),
		CookieSet:  len(h.Header["Set-Cookie"]) > 0,
	}
	switch h.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		res.Location = h.Header.Get("Location")
	}
	switch {
	case req.NoBody || req.Head:
		c.drain(w, h)
	case h.StatusCode/100 == 2:
		if err := c.read(w, h, req, res); err != nil {
			return nil, w.fail(err)
		}
	case c.opts.All:
		c.readOther(w, h, res)
	default:
		c.drain(w, h)
	}
	if res.Body == nil {
		res.Body = new(Body)
	}
	if res.Total == 0 {
		res.Total = w.spent()
	}
	if c.opts.Wire {
		res.Wire = c.wire(r, h, conn, res)
	}
	return res, nil
}

func countLines(h http.Header) (n int) {
	for _, lines := range h {
		n += len(lines)
	}
	return n
}

// A route is what a request is sent to, and how.
type route struct {
	raw        string // as Get was given it
	url        *url.URL
	host, port string
	proxy      *url.URL // nil: none
	seed       bool     // Options.Header and the like count
	// With Options.Wire:
	request *http.Request // as it was sent, but for Proxy-Authorization
	sent    time.Time
	was     *Wire // of Take; nil: not known
}

// route reads a URL. It refuses a host that is internal by its name, also for a proxy, which dials
// for us; every dial of our own is checked besides.
func (c *Client) route(rawURL string) (route, error) {
	u, err := parseURL(rawURL)
	if err != nil {
		return route{}, &Error{Protocol, false, err}
	}
	r := route{raw: rawURL, url: u, host: u.Hostname(), port: u.Port()}
	if c.opts.Source != nil {
		return r, nil
	}
	switch {
	case r.port != "":
	case u.Scheme == "https":
		r.port = "443"
	default:
		r.port = "80"
	}
	if !c.admits(r.host, r.port) {
		return route{}, &Error{Address, false, fmt.Errorf("%q is an internal address", r.host)}
	}
	if c.proxy != nil {
		if r.proxy, err = c.proxy(u); err != nil {
			return route{}, &Error{Connect, false, fmt.Errorf("proxy: %w", err)}
		}
	}
	setTarget(u, rawURL, r.proxy != nil && u.Scheme == "http")
	return r, nil
}

// request makes what a request is without its URL.
func (c *Client) request(accept string, seed bool) *http.Request {
	r := &http.Request{
		Method: http.MethodGet, Header: http.Header{"Accept": {accept}},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if c.opts.UserAgent != "" {
		r.Header["User-Agent"] = []string{c.opts.UserAgent}
	}
	if seed {
		if c.opts.User != "" || c.opts.Password != "" {
			r.SetBasicAuth(c.opts.User, c.opts.Password)
		}
		for name, values := range c.opts.Header {
			r.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	r.Header["Accept-Encoding"] = []string{acceptEncoding}
	if c.opts.Wire {
		r.Header["Accept-Encoding"] = []string{acceptWire}
	}
	return r
}

// open sends the request, once, and waits for the header of the answer. The connection, nil for one
// of Options.Source, is to be put back once the body is closed.
func (c *Client) open(w *watch, to *route, req *Request) (*http.Response, *pooled, error) {
	if c.opts.Source != nil {
		to.sent = time.Now()
		res, err := c.opts.Source(w.ctx, to.raw)
		return res, nil, err
	}
	origin := to.url.Scheme + "://" + to.url.Host
	to.seed = (len(c.opts.Header) > 0 || c.opts.User != "" || c.opts.Password != "") && c.opts.SeedOrigin(origin)
	r := c.request(cmp.Or(req.Accept, defaultAccept), to.seed).WithContext(w.ctx)
	if req.Head {
		r.Method = http.MethodHead
	}
	if req.ETag != "" {
		r.Header.Set("If-None-Match", req.ETag)
	}
	if req.Modified != "" {
		r.Header.Set("If-Modified-Since", req.Modified)
	}
	r.URL, r.Host = to.url, to.url.Host
	if login := c.opts.Logins[origin]; login != nil {
		password, _ := login.Password()
		r.SetBasicAuth(login.Username(), password)
	}
	c.addCookies(r, to.host)
	res, conn, err := c.pool.send(r, to)
	if err != nil {
		if _, known := errors.AsType[*Error](err); !known && errors.Is(err, io.ErrUnexpectedEOF) {
			err = &Error{Reset, true, err} // in the header; in a body it is Truncated
		}
		return nil, nil, err
	}
	c.session.keep(to.url, res)
	return res, conn, nil
}

// read reads the body of a 2xx answer.
func (c *Client) read(w *watch, h *http.Response, req Request, res *Response) error {
	codings, err := coding.Parse(h.Header["Content-Encoding"])
	if err != nil {
		return &Error{Coding, false, err}
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
	src := c.metered(w, h.Body)
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
	if req.Looks != nil && len(codings) == 0 {
		if looks := req.Looks(res.Media); looks != nil {
			in := bufio.NewReaderSize(src, lookSize)
			head, _ := in.Peek(lookSize) // an error comes again at the next read
			if res.Unwanted = !looks(head); res.Unwanted {
				c.drain(w, h)
				return nil
			}
			src = in
		}
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
		keeps := false
		defer func() {
			if !keeps {
				encoded.Release()
			}
		}()
		o.keepBroken = o.keepBroken || encodedCut // else the fill above had failed
		if body, cut, err = c.decode(w, codings, encoded, o); err != nil {
			return err
		}
		cut = cut || encodedCut
		if keeps = c.opts.Wire && encoded.Len() > 0; keeps {
			body.coded = encoded
		}
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

// readOther reads the body of an answer that is not 2xx. Whatever happens to it, the answer counts.
func (c *Client) readOther(w *watch, h *http.Response, res *Response) {
	body, cut, err := c.fill(c.metered(w, h.Body), filling{
		size: h.ContentLength, limit: otherSize, keepBroken: true, keepLarge: true, coded: true, wait: w,
	})
	if err == nil {
		res.Body, res.Truncated = body, cut
	}
}

// drain reads the rest of a body that nobody wants, if it is short, so that its connection can be
// used again.
func (c *Client) drain(w *watch, h *http.Response) {
	if h.ContentLength > drainSize {
		return
	}
	t := time.AfterFunc(drainTime, func() { w.cancel(errTimeout) })
	defer t.Stop()
	_, _ = io.CopyN(io.Discard, c.metered(w, h.Body), drainSize+1)
}

// Partial reports whether the answer is a 206 whose Content-Range does not say that it covers the
// whole: of a complete length that it names, from the first byte to the last (RFC 9110, 14.4 and
// 15.3.7).
func (r *Response) Partial() bool {
	if r.Status != http.StatusPartialContent {
		return false
	}
	var last, complete int64
	n, err := fmt.Sscanf(strings.ToLower(r.Header.Get("Content-Range")), "bytes 0-%d/%d", &last, &complete)
	return err != nil || n != 2 || complete <= 0 || last != complete-1
}

// retryAfter reads seconds or a date. Times are cut to a year, which no one waits for.
func retryAfter(value string, now time.Time) time.Duration {
	const most = 365 * 24 * time.Hour
	if value = strings.TrimSpace(value); value == "" {
		return 0
	}
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
		return time.Duration(min(max(seconds, 0), int64(most/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), most)
	}
	return 0
}
