// Package watch is the HTTP server by which a crawl is watched and steered.
//
// All that it knows it asks of the tree, by questions as the socket of a crawl answers them. It
// owns nothing but what a request must have: the name of this server in its header Host, so that no
// page of another name is led here; the token, if there is one; and, where it changes something, an
// origin that is this server's. Pages of other origins get nothing, not even an image.
package watch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"

	"urltree/internal/inspect"
)

// atOnce is the number of questions that are asked at a time.
const atOnce = 4

// policy comes with what is the server's own: it has no inline scripts and styles, and asks nobody
// else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"frame-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"

// Ask answers a question about the tree. It is called from several goroutines.
type Ask func(context.Context, inspect.Question, io.Writer) error

// Options of a handler.
type Options struct {
	Ask   Ask
	Token string // that each request has to have; "": none
	// Host is the name that requests may have besides IP addresses and localhost. With a Token they
	// may have any: a page that is led here has no token.
	Host string
}

type handler struct {
	opts  Options
	mux   *http.ServeMux
	cross http.CrossOriginProtection
	turns chan struct{}
}

// New returns the handler of a server. Its answers are whole before any of them is sent, so that
// no question waits for a slow client.
func New(opts Options) http.Handler {
	h := &handler{opts: opts, mux: http.NewServeMux(), turns: make(chan struct{}, atOnce)}
	h.mux.HandleFunc("GET /metrics", h.metrics)
	h.mux.HandleFunc("GET /debug/pprof/", pprof.Index) // without the command line, which may hold a password
	h.mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	h.mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return h
}

// ServeHTTP answers a request that may be made.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Content-Security-Policy", policy)
	head.Set("Cache-Control", "no-store")
	switch {
	case h.opts.Token == "" && !IsOurs(r.Host, h.opts.Host):
		http.Error(w, "the Host header names another host than this server", http.StatusMisdirectedRequest)
	case !h.hasToken(r):
		head.Set("WWW-Authenticate", `Basic realm="crawler: any name, and the token", charset="UTF-8"`)
		http.Error(w, "this needs the token: as a password, or in a header Authorization: Bearer TOKEN", http.StatusUnauthorized)
	case h.cross.Check(r) != nil:
		http.Error(w, "a page of another origin may not change anything", http.StatusForbidden)
	case isForeign(r):
		http.Error(w, "a page of another origin may not ask this", http.StatusForbidden)
	default:
		h.mux.ServeHTTP(w, r)
	}
}

// IsOurs reports whether a Host header may be sent: a page of another host whose name was made to
// lead here must not read ours. own is the name that is allowed besides IP addresses and localhost.
func IsOurs(host, own string) bool {
	name := host
	if n, _, err := net.SplitHostPort(host); err == nil {
		name = n
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	return net.ParseIP(name) != nil || name == "localhost" || own != "" && name == strings.ToLower(own)
}

// hasToken reports whether a request has the token.
func (h *handler) hasToken(r *http.Request) bool {
	if h.opts.Token == "" {
		return true
	}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if _, password, ok := r.BasicAuth(); ok {
		token = password
	}
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(h.opts.Token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// isForeign reports whether a page of another origin has made the request, but for one that leads
// the browser's window here. Pages of a tree are such: their sandbox takes their origin away.
func isForeign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	return r.URL.Path != "/" || r.Header.Get("Sec-Fetch-Dest") != "document"
}

// ask returns the answer to a question.
func (h *handler) ask(ctx context.Context, q inspect.Question) ([]byte, error) {
	select {
	case h.turns <- struct{}{}:
		defer func() { <-h.turns }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	var b bytes.Buffer
	err := h.opts.Ask(ctx, q, &b)
	return b.Bytes(), err
}
